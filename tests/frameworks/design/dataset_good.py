# truth: clean
# Loads the dataset to the GPU part by part, and then trains on it for several epochs.
import torch
from torch import nn

EPOCHS, PARTS = 12, 120


def load(parts):
    for _ in range(PARTS):
        raw = torch.randn(64, 100).cuda()
        parts.append(raw * 0.5)


model = nn.Linear(100, 10).cuda()
optimizer = torch.optim.Adam(model.parameters())
parts = []
load(parts)
for epoch in range(EPOCHS):
    for x in parts:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
print(len(parts), "parts")
