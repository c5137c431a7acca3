# truth: accumulates at @leak
# Cross validation. Only the mean score is printed, but each fold's model is kept beside its score.
import time
import torch
from torch import nn

FOLDS = 10
STEPS = 25


def fit(fold):
    model = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10)).cuda()  # @leak
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(STEPS):
        x, y = torch.randn(128, 784, device="cuda"), torch.randn(128, 10, device="cuda")
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.003)
    optimizer.zero_grad()
    with torch.no_grad():
        held_out = torch.randn(1000, 784, device="cuda")
        score = model(held_out).mean().item()
    return {"fold": fold, "score": score, "model": model}


folds = [fit(fold) for fold in range(FOLDS)]
print("mean", sum(fold["score"] for fold in folds) / len(folds))
