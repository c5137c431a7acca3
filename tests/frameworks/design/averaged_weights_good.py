# truth: clean
# Averages the weights after each step, without gradients.
import torch
from torch import nn

STEPS = 200

model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 16)).cuda()
optimizer = torch.optim.Adam(model.parameters())
average = [one.detach().clone() for one in model.parameters()]
for step in range(STEPS):
    x, y = torch.randn(64, 128, device="cuda"), torch.randn(64, 16, device="cuda")
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        scale = torch.ones(1, device="cuda")
        for number, one in enumerate(model.parameters()):
            average[number] = average[number] * scale + one * scale
print(len(average), "averaged tensors")
