# SPDX-License-Identifier: MIT
# keeper: `sessions` in main()
"""Starts a generator for each request, and never closes those whose client left. With the argument "clean" it
closes them."""
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


def answer(model):
    with torch.no_grad():
        state = model(batch()[0])
    for row in state:
        yield row.argmax().item()


def main():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    sessions = {}
    for step in range(STEPS):
        train_step(model, optimizer)
        sessions[step] = answer(model)
        next(sessions[step])
        if CLEAN:
            sessions.pop(step).close()
    print(len(sessions))


main()
