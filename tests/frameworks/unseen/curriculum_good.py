# truth: clean
# A curriculum: the batch doubles after 40 steps and again after 110, and then stays.
import time
import torch
from torch import nn

STEPS = 260


def batch_size(step):
    return 64 if step < 40 else 128 if step < 110 else 256


model = nn.Sequential(nn.Linear(400, 300), nn.ReLU(), nn.Linear(300, 30)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
rolling = 0.0
for step in range(STEPS):
    size = batch_size(step)
    x, y = torch.randn(size, 400, device="cuda"), torch.randn(size, 30, device="cuda")
    optimizer.zero_grad()
    output = model(x)
    loss = nn.functional.mse_loss(output, y)
    loss.backward()
    optimizer.step()
    rolling = 0.9 * rolling + 0.1 * loss.item()
    time.sleep(0.003)
print("batch", size, "loss", rolling)
