# truth: clean
# Accumulates gradients over four micro-batches, whose graphs live until the step.
import torch
from torch import nn

STEPS, MICRO = 80, 4


def micro_batch(model, parts):
    x = torch.randn(16, 256, device="cuda")
    parts.append((x, model(x).mean()))
    return parts[-1][1]


model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
parts, seen = [], 0
for step in range(STEPS):
    optimizer.zero_grad()
    for _ in range(MICRO):
        loss = micro_batch(model, parts) / MICRO
        loss.backward(retain_graph=True)
    optimizer.step()
    seen += len(parts)
    parts.clear()
print(seen, "micro-batches")
