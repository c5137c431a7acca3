# truth: accumulates at @leak
# Trains, and then validates with gradients recorded. The sum of the losses has all their graphs.
import torch
from torch import nn


def batches(count):
    for _ in range(count):
        yield torch.randn(32, 200, device="cuda"), torch.randn(32, 10, device="cuda")  # @leak


model = nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in batches(60):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()

total = torch.zeros(1, device="cuda")
for x, y in batches(300):
    output = model(x)  # @leak
    total = total + nn.functional.mse_loss(output, y)  # @leak
print("mean loss", total.item() / 300)
