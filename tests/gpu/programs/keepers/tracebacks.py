# SPDX-License-Identifier: MIT
# keeper: `failed` in main()
"""Keeps the exceptions of bad batches. Their tracebacks have the variables of the steps. With the argument "clean" it
keeps their texts."""
import sys

import torch

STEPS = 3000
CLEAN = sys.argv[1:] == ["clean"]


def network():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()


def batch():
    return torch.randn(64, 256, device="cuda"), torch.randint(10, (64,), device="cuda")


def checked_step(model, optimizer, step):
    x, y = batch()
    scores = model(x)
    if step % 3 == 0:
        raise ValueError("batch %d is bad" % step)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(scores, y).backward()
    optimizer.step()


def main():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    failed = []
    for step in range(STEPS):
        try:
            checked_step(model, optimizer, step)
        except ValueError as error:
            failed.append(str(error) if CLEAN else error)
    print(len(failed))


main()
