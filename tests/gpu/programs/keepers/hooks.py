# SPDX-License-Identifier: MIT
# keeper: `recorder.outputs` in main()
"""A hook of a layer records each output. With the argument "clean" it
records its mean."""
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


class Recorder:
    def __init__(self, layer):
        self.outputs = []
        layer.register_forward_hook(self.record)

    def record(self, layer, inputs, output):
        self.outputs.append(output.mean().item() if CLEAN else output.detach())


def main():
    model = network()
    recorder = Recorder(model[0])
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer)
    print(len(recorder.outputs))


main()
