# truth: accumulates at @leak
# Tries many settings. The results keep the optimizer of each trial, and that its weights.
import torch
from torch import nn


def trial(width, steps):
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 8)).cuda()  # @leak
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x, y = torch.randn(32, 64, device="cuda"), torch.randn(32, 8, device="cuda")
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # @leak
        optimizer.step()  # @leak
    return loss.item(), optimizer


results = []
for number in range(40):
    results.append(trial(32 + number % 8 * 16, 10))
    best = min(results, key=lambda result: result[0])
print("best of", len(results), "is", best[0])
