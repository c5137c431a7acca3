# truth: clean
# Fine tuning that unfreezes one of six layers every 25 steps, from the last to the first. Each gets
# gradients and moments: memory grows in stages, and then stays.
import time
import torch
from torch import nn

STEPS = 300
EVERY = 25

layers = list(nn.ModuleList([nn.Linear(160, 160) for _ in range(6)]).cuda())
frozen, optimizers = 6, []
for step in range(STEPS):
    if step % EVERY == 0 and frozen:
        frozen -= 1
        optimizers.append(torch.optim.Adam(layers[frozen].parameters(), lr=0.01))
    x = torch.randn(64, 160, device="cuda")
    with torch.no_grad():
        for layer in layers[:frozen]:
            x = layer(x).relu()
    for layer in layers[frozen:]:
        x = layer(x).relu()
    for optimizer in optimizers:
        optimizer.zero_grad()
    x.mean().backward()
    for optimizer in optimizers:
        optimizer.step()
    time.sleep(0.002)
print(len(optimizers), "layers trained")
