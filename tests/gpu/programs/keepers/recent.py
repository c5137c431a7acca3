# SPDX-License-Identifier: MIT
# keeper: `recent` in main()
"""Keeps the scores of recent batches in a deque without a limit. With the argument "clean" it
keeps the last 20."""
import collections
import sys

import torch

STEPS = 3000
CLEAN = sys.argv[1:] == ["clean"]


def network():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()


def batch():
    return torch.randn(64, 256, device="cuda"), torch.randint(10, (64,), device="cuda")


def train_step(model, optimizer):
    x, y = batch()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def main():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    recent = collections.deque(maxlen=20 if CLEAN else None)
    for _ in range(STEPS):
        train_step(model, optimizer)
        with torch.no_grad():
            recent.append(model(batch()[0]).softmax(1))
    print(len(recent))


main()
