# truth: accumulates at @leak
# Loads the dataset to the GPU again in each epoch. The list of all parts keeps the old copies.
import torch
from torch import nn

EPOCHS, PARTS = 12, 30


def load(parts):
    fresh = [torch.randn(64, 100).cuda() for _ in range(PARTS)]  # @leak
    parts.extend(fresh)
    return fresh


model = nn.Linear(100, 10).cuda()
optimizer = torch.optim.Adam(model.parameters())
parts = []
for epoch in range(EPOCHS):
    for x in load(parts):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
print(len(parts), "parts")
