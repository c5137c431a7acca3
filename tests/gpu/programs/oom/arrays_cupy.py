# truth: out of memory at @wanted, most held at @held
# A list of results that nobody drops.
import cupy

results = []
for step in range(1000):
    batch = cupy.ones((1 << 28,), dtype=cupy.float32) # @wanted @held
    results.append(batch)
