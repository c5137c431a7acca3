# truth: accumulates at @leak
# Plays, and learns from what was played. What was played is never thrown away.
import random
import torch
from torch import nn

STEPS = 500


def play(model):
    state = torch.randn(1, 64, device="cuda")  # @leak
    with torch.no_grad():
        return state, model(state)  # @leak


def learn(model, optimizer, samples):
    states = torch.cat([state for state, _ in samples])
    optimizer.zero_grad()
    model(states).mean().backward()
    optimizer.step()


random.seed(3)
model = nn.Linear(64, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())
played = []
for step in range(STEPS):
    played.append(play(model))
    if step > 16 and step % 4 == 0:
        learn(model, optimizer, random.sample(played, 16))
print(len(played), "states")
