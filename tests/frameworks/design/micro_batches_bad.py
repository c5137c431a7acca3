# truth: accumulates at @leak
# Accumulates gradients over four micro-batches. The list of micro-batches is never emptied.
import torch
from torch import nn

STEPS, MICRO = 80, 4


def micro_batch(model, parts):
    x = torch.randn(16, 256, device="cuda")  # @leak
    parts.append((x, model(x).mean()))  # @leak
    return parts[-1][1]


model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
parts = []
for step in range(STEPS):
    optimizer.zero_grad()
    for _ in range(MICRO):
        loss = micro_batch(model, parts) / MICRO
        loss.backward(retain_graph=True)
    optimizer.step()
print(len(parts), "micro-batches")
