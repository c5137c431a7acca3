# truth: clean
# Gradient checkpointing by hand: the forward pass keeps the inputs of twelve blocks, the backward
# pass computes each block once more.
import time
import torch
from torch import nn

STEPS = 60
BLOCKS = 12


def forward(blocks, x):
    inputs = []
    with torch.no_grad():
        for block in blocks:
            inputs.append(x)
            x = block(x)
    return inputs, x


def backward(blocks, inputs):
    for block, x in zip(reversed(list(blocks)), reversed(inputs)):
        leaf = x.detach().requires_grad_(True)
        block(leaf).mean().backward()


blocks = nn.ModuleList([nn.Sequential(nn.Linear(192, 192), nn.ReLU()) for _ in range(BLOCKS)])
blocks.cuda()
optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1, momentum=0.9)
for step in range(STEPS):
    optimizer.zero_grad()
    inputs, output = forward(blocks, torch.randn(512, 192, device="cuda"))
    backward(blocks, inputs)
    optimizer.step()
    time.sleep(0.005)
print(output.shape)
