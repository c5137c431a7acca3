# truth: accumulates at @leak
# A schedule with warm restarts makes a new Adam in each cycle. Its history keeps the old ones, each
# with two moments for each parameter.
import time
import torch
from torch import nn

CYCLES = 16


class WarmRestarts:
    def __init__(self, parameters, rate):
        self.parameters, self.rate, self.history = list(parameters), rate, []

    def restart(self, period):
        optimizer = torch.optim.Adam(self.parameters, lr=self.rate)
        self.history.append((period, optimizer))
        return optimizer


model = nn.Sequential(nn.Linear(90, 90), nn.ReLU(), nn.Linear(90, 9)).cuda()
schedule = WarmRestarts(model.parameters(), 0.01)
for cycle in range(CYCLES):
    optimizer = schedule.restart(20 + cycle % 4 * 10)
    for step in range(schedule.history[-1][0]):
        x, y = torch.randn(40, 90, device="cuda"), torch.randn(40, 9, device="cuda")
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()  # @leak
        time.sleep(0.0005)
print("periods", [period for period, _ in schedule.history])
