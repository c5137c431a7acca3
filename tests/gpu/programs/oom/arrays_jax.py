# truth: peak at @held
# A list of results that nobody drops. JAX takes at most three quarters of the device: it gives up
# without a request that the driver refuses. So the report names who held the peak.
# XLA_PYTHON_CLIENT_PREALLOCATE=false
import jax.numpy as jnp

results = []
for step in range(1000):
    results.append(jnp.full((1 << 28,), step, dtype=jnp.float32).block_until_ready()) # @held
