# SPDX-License-Identifier: MIT
# Sends ten pictures of 4 MiB to the device, and keeps them in a dictionary that is never emptied.
# The process ends by os._exit, as workers do. With PYTORCH_NO_CUDA_MEMORY_CACHING=1 each picture
# is a block of its own; otherwise PyTorch's cache allocates the memory. Prints the number of
# bytes in that cache.
import os
import torch

seen = {}


def on_device(number):
    frame = torch.empty((1024, 1024), dtype=torch.float32, device="cuda")  # @made
    frame.copy_(torch.full((1024, 1024), float(number)))
    return frame


def remember(number):
    seen[number] = on_device(number)  # @sent


for number in range(10):
    remember(number)  # @run
torch.cuda.synchronize()
print(torch.cuda.memory_reserved(), flush=True)
os._exit(0)
