# SPDX-License-Identifier: MIT
# Ten pictures of 4 MiB go to the device and are kept in a dictionary that nobody empties; the
# process ends as a worker does, without a word to Python. With PYTORCH_NO_CUDA_MEMORY_CACHING=1
# each is a block of its own; otherwise PyTorch's cache takes the memory. Prints what that says
# it holds.
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
