# SPDX-License-Identifier: MIT
# Trains for 50 steps, and keeps each loss. A loss is a tensor: it keeps the graph of its step.
# With the argument "item" the list has Python's numbers.
import sys
import time

import torch
from torch import nn


def train_step(model, optimizer):
    time.sleep(0.02)  # reads a batch
    x = torch.randn(64, 256, device="cuda")
    y = torch.randn(64, 64, device="cuda")
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)  # @allocated
    loss.backward()
    optimizer.step()
    return loss


def main():
    model = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for _ in range(50):
        loss = train_step(model, optimizer)
        history.append(loss.item() if "item" in sys.argv else loss)  # @kept
    print(len(history), "losses")


main()
