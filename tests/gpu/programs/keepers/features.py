# SPDX-License-Identifier: MIT
# keeper: `FEATURES` in __main__
"""Caches features under keys that never come again. With the argument "clean" it
keeps those of 20 samples."""
import sys

import torch

STEPS = 3000
CLEAN = sys.argv[1:] == ["clean"]

FEATURES = {}


def network():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()


def batch():
    return torch.randn(64, 256, device="cuda"), torch.randint(10, (64,), device="cuda")


def features(model, step):
    key = "epoch %d, sample %d" % (step // 100, step % 100)
    if key not in FEATURES:
        with torch.no_grad():
            FEATURES[key] = model(batch()[0])
    if CLEAN and len(FEATURES) > 20:
        del FEATURES[next(iter(FEATURES))]
    return FEATURES[key]


def main():
    model = network()
    head = torch.nn.Linear(10, 2).cuda()
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        head(features(model, step)).square().mean().backward()
        optimizer.step()
    print(len(FEATURES))


main()
