# truth: clean
# Trains, and then validates without gradients.
import torch
from torch import nn


def batches(count):
    for _ in range(count):
        yield torch.randn(32, 200, device="cuda"), torch.randn(32, 10, device="cuda")


model = nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in batches(60):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()

total = torch.zeros(1, device="cuda")
with torch.no_grad():
    for x, y in batches(300):
        output = model(x)
        total = total + nn.functional.mse_loss(output, y)
print("mean loss", total.item() / 300)
