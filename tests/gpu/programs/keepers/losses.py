# SPDX-License-Identifier: MIT
# keeper: `losses` in main()
"""Keeps the loss of each step, for a curve. With the argument "clean" it
keeps numbers."""
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
    losses = []
    for _ in range(STEPS):
        loss = train_step(model, optimizer)
        losses.append(loss.item() if CLEAN else loss)
    print(len(losses))


main()
