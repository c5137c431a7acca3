# SPDX-License-Identifier: MIT
# keeper: `reports` in main()
"""Queues functions that print the output of a step, and never calls them. With the argument "clean" it
calls them after each 20 steps."""
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


def reporter(output):
    def report():
        return output.mean().item()
    return report


def main():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    reports = []
    for _ in range(STEPS):
        train_step(model, optimizer)
        with torch.no_grad():
            reports.append(reporter(model(batch()[0])))
        if CLEAN and len(reports) == 20:
            print(sum(report() for report in reports))
            reports.clear()
    print(len(reports))


main()
