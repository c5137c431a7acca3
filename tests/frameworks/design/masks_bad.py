# truth: accumulates at @leak
# Remembers an attention mask for each length of the text. Texts have any length.
import random
import torch
from torch import nn


class Masks:
    def __init__(self):
        self.by_length = {}

    def get(self, length):
        if length not in self.by_length:
            self.by_length[length] = torch.ones(length, length, device="cuda")  # @leak
        return self.by_length[length]


def forward(model, masks, length):
    x = torch.randn(length, 64, device="cuda")
    return masks.get(length) @ model(x)


random.seed(1)
model, masks = nn.Linear(64, 64).cuda(), Masks()
lengths = list(range(100, 420))
random.shuffle(lengths)
with torch.no_grad():
    for length in lengths:
        forward(model, masks, length)
print(len(masks.by_length), "masks")
