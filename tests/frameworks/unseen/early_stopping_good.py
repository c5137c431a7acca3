# truth: clean
# Keeps a copy of the best weights, replaced at each improvement: often at first, then rarely. At
# the end the best weights are restored.
import time
import torch
from torch import nn

EPOCHS = 45


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.waited, self.state = patience, None, 0, None

    def stops(self, score, model):
        self.waited += 1
        if self.best is None or score < self.best:
            self.best, self.waited = score, 0
            self.state = {name: one.clone() for name, one in model.state_dict().items()}
        return self.waited > self.patience


model = nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10)).cuda()
optimizer, stopping = torch.optim.Adam(model.parameters()), EarlyStopping(80)
for epoch in range(EPOCHS):
    for _ in range(8):
        optimizer.zero_grad()
        model(torch.randn(64, 200, device="cuda")).mean().backward()
        optimizer.step()
        time.sleep(0.002)
    with torch.no_grad():
        value = model(torch.randn(500, 200, device="cuda")).mean().item()
    if stopping.stops(value - int(epoch ** 0.6), model):
        break
for name, one in model.state_dict().items():
    one.copy_(stopping.state[name])
print("best", stopping.best)
