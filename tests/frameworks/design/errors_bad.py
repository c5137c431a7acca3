# truth: accumulates at @leak
# Skips bad batches, and keeps the exceptions. An exception keeps its frames, and they the batch.
import torch
from torch import nn

STEPS = 300


def train_step(model, optimizer, step):
    x = torch.randn(64, 200, device="cuda")  # @leak
    optimizer.zero_grad()
    loss = model(x).mean()  # @leak
    if step % 3 == 0:
        raise ValueError("bad labels in step %d" % step)
    loss.backward()
    optimizer.step()


model = nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
errors = []
for step in range(STEPS):
    try:
        train_step(model, optimizer, step)
    except ValueError as error:
        errors.append(error)
print(len(errors), "bad batches")
