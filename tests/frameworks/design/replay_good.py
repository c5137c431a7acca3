# truth: clean
# Plays, and learns from what was played. The buffer is full after 150 of 500 steps; from then on
# a new state takes the place of an old one, at random.
import random
import torch
from torch import nn

STEPS, CAPACITY = 500, 150


def play(model):
    state = torch.randn(1, 64, device="cuda")
    with torch.no_grad():
        return state, model(state)


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
    if len(played) < CAPACITY:
        played.append(play(model))
    else:
        played[random.randrange(CAPACITY)] = play(model)
    if step > 16 and step % 4 == 0:
        learn(model, optimizer, random.sample(played, 16))
print(len(played), "states")
