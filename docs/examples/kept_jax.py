# SPDX-License-Identifier: MIT
# Sends 50 batches of 4 MB to the GPU, and keeps the result of each in a list. With the argument
# "numbers" the list has Python's numbers, and the arrays are freed.
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def train_step(number):
    time.sleep(0.1)  # reads a file
    batch = jax.device_put(np.full((1000, 1000), number, np.float32))
    return jnp.add(batch, 1.0)  # @allocated


def main():
    history = []
    for number in range(50):
        result = train_step(number)
        history.append(float(result[0, 0]) if "numbers" in sys.argv else result)  # @kept
    jax.block_until_ready(history)
    print(len(history), "results")


main()
