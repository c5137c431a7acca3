# truth: accumulates at @leak
# Warms up, then registers hooks that append each layer's output, to plot its distribution once.
import torch
from torch import nn

STEPS = 400
WARM_UP = 120


def watch(layer, history):
    def hook(module, inputs, output):
        history.append(output.detach())
    layer.register_forward_hook(hook)


model = nn.Sequential(nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
history = []
for step in range(WARM_UP + STEPS):
    if step == WARM_UP:
        for layer in model.children():
            watch(layer, history)
    x, y = torch.randn(16, 40, device="cuda"), torch.randn(16, 4, device="cuda")
    optimizer.zero_grad()
    output = model(x)  # @leak
    loss = nn.functional.mse_loss(output, y)
    loss.backward()
    optimizer.step()
print("plotted", history[0].shape)
