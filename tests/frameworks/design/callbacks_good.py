# truth: clean
# Registers a callback for each step, and runs and drops all of them every 50 steps.
import torch
from torch import nn

STEPS = 250


def run_step(model, callbacks):
    x = torch.randn(32, 128, device="cuda")
    output = model(x).relu()
    callbacks.append(lambda: output.mean().item())


model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 32)).cuda().eval()
callbacks = []
with torch.no_grad():
    for step in range(STEPS):
        run_step(model, callbacks)
        if step % 50 == 49:
            print(step, sum(callback() for callback in callbacks))
            callbacks.clear()
