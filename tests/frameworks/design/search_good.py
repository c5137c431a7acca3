# truth: clean
# Tries many settings, and keeps the score of each trial and the weights of the best one.
import torch
from torch import nn


def trial(width, steps):
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x, y = torch.randn(32, 64, device="cuda"), torch.randn(32, 8, device="cuda")
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item(), [one.detach().clone() for one in model.parameters()]


scores, best = [], None
for number in range(40):
    score, weights = trial(32 + number % 8 * 16, 10)
    scores.append(score)
    if number % 9 == 0:
        best = weights
print("best of", len(scores), "has", len(best), "tensors")
