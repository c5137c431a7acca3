# truth: clean
# Trains, and keeps each loss as a number.
import torch
from torch import nn

STEPS = 300


def train_step(model, optimizer):
    x = torch.randn(64, 256, device="cuda")
    y = torch.randn(64, 64, device="cuda")
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


model = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
history = []
for step in range(STEPS):
    history.append(train_step(model, optimizer).item())
print(len(history), "losses, the last is", history[-1])
