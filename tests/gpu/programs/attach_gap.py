# SPDX-License-Identifier: MIT
"""A training that then only reads the clock: for each line, a number of seconds, prints the longest
time between two readings in microseconds."""
import sys
import time

import torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train():
    loss = model(torch.ones((64, 256), device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def gap(seconds):
    longest, last = 0, time.perf_counter_ns()
    end = last + seconds * 10 ** 9
    while last < end:
        now = time.perf_counter_ns()
        longest, last = max(longest, now - last), now
    return longest // 1000


for _ in range(50):
    train()
torch.cuda.synchronize()
print("ready", flush=True)
for line in sys.stdin:
    print(gap(int(line)), flush=True)
