# SPDX-License-Identifier: MIT
"""A training that works when it is told to. Reads lines: `steps N` trains N steps and prints the
nanoseconds of one; `gap S` reads the clock for S seconds and prints the longest time between two
readings in microseconds."""
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


def steps(number):
    began = time.perf_counter_ns()
    for _ in range(number):
        train()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - began) // number


def gap(seconds):
    longest, last = 0, time.perf_counter_ns()
    end = last + seconds * 10 ** 9
    while last < end:
        now = time.perf_counter_ns()
        longest, last = max(longest, now - last), now
    return longest // 1000


steps(50)
print("ready", flush=True)
for line in sys.stdin:
    what, number = line.split()
    print({"steps": steps, "gap": gap}[what](int(number)), flush=True)
