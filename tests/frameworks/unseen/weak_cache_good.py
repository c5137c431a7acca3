# truth: clean
# A cache of weak references: a map lives as long as a player of a game is on it. Players come and
# go, fewer at the start.
import random
import weakref
import torch
from torch import nn

TURNS = 1000


class Map:
    def __init__(self, number):
        self.number = number
        self.ground = torch.randn(64, 64, device="cuda")
        self.light = self.ground.relu()


def load(maps, number):
    found = maps.get(number)
    if found is None:
        found = maps[number] = Map(number)
    return found


random.seed(8)
maps, players = weakref.WeakValueDictionary(), []
model = nn.Linear(64, 4).cuda().eval()
moves = 0.0
with torch.no_grad():
    for turn in range(TURNS):
        if len(players) < 20 + min(turn // 10, 20):
            players.append(load(maps, random.randrange(10 ** 6)))
        here = random.randrange(len(players))
        moves += model(players[here].light).mean().item()
        if random.random() < 0.3:
            players[here] = load(maps, random.randrange(10 ** 6))
print(moves, "on", len(maps), "maps")
