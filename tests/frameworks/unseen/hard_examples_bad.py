# truth: accumulates at @leak
# Trains normally for two thirds of the steps, then collects hard examples from every third batch.
# One row is kept, as a view: it holds the whole batch.
import time
import torch
from torch import nn

STEPS = 900
MINING_FROM = 2 / 3

model = nn.Sequential(nn.Linear(120, 60), nn.ReLU(), nn.Linear(60, 6)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
hard = []
for step in range(STEPS):
    batch = torch.randn(100, 120, device="cuda")  # @leak
    target = torch.randn(100, 6, device="cuda")
    loss = nn.functional.mse_loss(model(batch), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step >= STEPS * MINING_FROM and step % 3 == 0:
        hard.append(batch[step % 100])
    time.sleep(0.001)
print(len(hard), "hard examples of", len(hard[0]), "numbers")
