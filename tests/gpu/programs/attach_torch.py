# SPDX-License-Identifier: MIT
"""A training that keeps each loss with its graph, to attach to: attach_torch.py STEPS. Prints
`ready` after 5 seconds of work, and at the end what a run without gpuleak must print, too. The kept
graph holds tensors of two lines, of about the same size: a report may name either first."""
import sys
import time

import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []


def train(step):
    data = torch.full((256, 512), 1.0 / (step + 1), device="cuda")  # @grows: the graph keeps it
    loss = model(data).square().mean()  # @grows too: the graph keeps what the layers make of it
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    losses.append(loss)


began, ready = time.monotonic(), False
for number in range(int(sys.argv[1])):
    train(number)
    time.sleep(0.005)
    if not ready and time.monotonic() - began > 5:
        ready = True
        print("ready", number, flush=True)
print("steps", len(losses), "sum", torch.stack([loss.detach() for loss in losses]).double().sum().item().hex())
