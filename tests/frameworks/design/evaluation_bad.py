# truth: accumulates at @leak
# Trains in epochs, and evaluates after each one. The outputs of every evaluation are kept.
import torch
from torch import nn

EPOCHS, TRAIN, TEST = 8, 30, 40


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 20)).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.outputs = []

    def train(self):
        for _ in range(TRAIN):
            x, y = torch.randn(64, 300, device="cuda"), torch.randn(64, 20, device="cuda")
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        for _ in range(TEST):
            x = torch.randn(256, 300, device="cuda")
            self.outputs.append(self.model(x))  # @leak
        return torch.cat(self.outputs[-TEST:]).mean().item()


trainer = Trainer()
for epoch in range(EPOCHS):
    trainer.train()
    print(epoch, trainer.evaluate())
