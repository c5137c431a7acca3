# SPDX-License-Identifier: MIT
# 100 training steps of a small MLP after 10 for warming up; prints the loss and a sum over all
# weights, and last the milliseconds of the 100 steps. The argument is how often they are timed, or
# "turns": see timed.py.
import sys
import timed
import torch

torch.manual_seed(0)
device = "cuda"
net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).to(device)
optimizer = torch.optim.Adam(net.parameters())
data = torch.randn(256, 512, device=device)


def step():
    optimizer.zero_grad()
    loss = (net(data) - data).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss


def measured():
    global loss
    for _ in range(100):
        loss = step()
    torch.cuda.synchronize()


for _ in range(10):
    step()
torch.cuda.synchronize()
ms = timed.median_ms(measured, *sys.argv[1:2])
print("loss %.9g, weights %.9g" % (loss.item(), sum(p.double().sum().item() for p in net.parameters())))
print("%.2f" % ms)
assert loss.item() < 2
