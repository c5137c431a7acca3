# truth: out of memory at @wanted, most held at @held
# XLA_PYTHON_CLIENT_PREALLOCATE=false
# A list of results that nobody drops.
import jax.numpy as jnp

results = []
for step in range(1000):
    results.append(jnp.full((1 << 28,), step, dtype=jnp.float32)) # @wanted @held
