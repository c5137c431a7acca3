# truth: accumulates at @leak
# Copies the weights every ten steps, and keeps each copy.
import torch
from torch import nn

STEPS = 400

model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
checkpoints = []
for step in range(STEPS):
    x, y = torch.randn(32, 128, device="cuda"), torch.randn(32, 10, device="cuda")
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    if step % 10 == 0:
        checkpoints.append([one.detach().clone() for one in model.parameters()])  # @leak
print(len(checkpoints), "checkpoints")
