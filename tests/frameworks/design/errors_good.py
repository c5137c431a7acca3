# truth: clean
# Skips bad batches, and keeps what the exceptions say.
import torch
from torch import nn

STEPS = 300


def train_step(model, optimizer, step):
    x = torch.randn(64, 200, device="cuda")
    optimizer.zero_grad()
    loss = model(x).mean()
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
        errors.append(str(error))
print(len(errors), "bad batches")
