# truth: accumulates at @leak
# A chat server: clients open sessions, send messages, and say goodbye. One in six vanishes
# without a goodbye, and its context stays.
import random
import torch
from torch import nn

REQUESTS = 1800


class Session:
    def __init__(self):
        self.left = random.randint(2, 9)
        self.context = torch.zeros(1, 64, device="cuda")

    def answer(self, model):
        tokens = torch.randn(random.randint(1, 20), 64, device="cuda")
        self.context = torch.cat([self.context, tokens])  # @leak
        self.left -= 1
        return model(self.context).mean().item()


random.seed(4)
model = nn.Linear(64, 64).cuda().eval()
sessions, active, opened = {}, [], 0
with torch.no_grad():
    for request in range(REQUESTS):
        if len(active) < 6:
            opened += 1
            sessions[opened] = Session()
            active.append(opened)
        client = random.choice(active)
        sessions[client].answer(model)
        if sessions[client].left == 0:
            active.remove(client)
            if client % 6:
                del sessions[client]
print(opened, "clients")
