# truth: clean
# Policy gradients: collects 64 steps of an environment, learns from them, clears them. Memory has
# the form of a saw.
import torch
from torch import nn

ROLLOUTS = 20
HORIZON = 64


class Storage:
    def __init__(self):
        self.states, self.values = [], []

    def add(self, state, value):
        self.states.append(state)
        self.values.append(value)

    def clear(self):
        del self.states[:], self.values[:]


policy = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 2)).cuda()
optimizer, storage = torch.optim.Adam(policy.parameters()), Storage()
for rollout in range(ROLLOUTS):
    with torch.no_grad():
        for _ in range(HORIZON):
            state = torch.randn(8, 24, device="cuda")
            storage.add(state, policy(state))
    for epoch in range(3):
        advantages = torch.cat(storage.values)
        loss = nn.functional.mse_loss(policy(torch.cat(storage.states)), advantages)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    storage.clear()
print("last loss", loss.item())
