# SPDX-License-Identifier: MIT
# A few jitted steps; preallocation is off so that allocations really happen.
import os
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp


@jax.jit
def step(x):
    return jnp.tanh(x @ x) + x


x = jnp.ones((1024, 1024))
for _ in range(20):
    x = step(x)
print("%.3f" % float(x.mean()))
