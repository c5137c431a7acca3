# SPDX-License-Identifier: MIT
# keeper: `SEEN` in keepers_registry
"""Another module registers the inputs of each batch. With the argument "clean" it
registers their shapes."""
import sys
import types

import torch

STEPS = 3000
CLEAN = sys.argv[1:] == ["clean"]

registry = sys.modules["keepers_registry"] = types.ModuleType("keepers_registry")
exec("""
SEEN = []

def register(item):
    SEEN.append(item)
""", vars(registry))


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
    for _ in range(STEPS):
        train_step(model, optimizer)
        inputs = batch()[0]
        registry.register(inputs.shape if CLEAN else inputs)
    print(len(registry.SEEN))


main()
