# SPDX-License-Identifier: MIT
# keeper: `optimizers` in main()
"""Starts a new optimizer for each cycle, and keeps the old ones with their moments. With the argument "clean" it
keeps the last one."""
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
    optimizers = []
    for step in range(STEPS):
        if step % 20 == 0:
            if CLEAN:
                optimizers.clear()
            optimizers.append(torch.optim.Adam(model.parameters()))
        train_step(model, optimizers[-1])
    print(len(optimizers))


main()
