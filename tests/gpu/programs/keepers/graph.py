# SPDX-License-Identifier: MIT
# keeper: `total` in __main__
"""Adds up the losses with their graphs. With the argument "clean" it
adds up numbers."""
import sys

import torch

STEPS = 3000
CLEAN = sys.argv[1:] == ["clean"]


def network():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()


def batch():
    return torch.randn(64, 256, device="cuda"), torch.randint(10, (64,), device="cuda")


# At the level of the module, where the search at exit reads graphs.
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for _ in range(STEPS):
    x, y = batch()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward(retain_graph=True)
    optimizer.step()
    total = total + (loss.item() if CLEAN else loss)
print(float(total))
