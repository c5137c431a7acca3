# SPDX-License-Identifier: MIT
# keeper: `logger.meters["loss"]` in main()
"""A logger keeps the values of each meter until it is closed. With the argument "clean" it
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


class Logger:
    def __init__(self):
        self.meters = {}

    def log(self, **values):
        for name, value in values.items():
            self.meters.setdefault(name, []).append(value.item() if CLEAN else value.detach())


def main():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    logger = Logger()
    for _ in range(STEPS):
        logger.log(loss=train_step(model, optimizer))
    print(len(logger.meters["loss"]))


main()
