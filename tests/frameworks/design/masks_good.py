# truth: clean
# Remembers an attention mask for each bucket of lengths: nine are made in the first steps.
import random
import torch
from torch import nn


class Masks:
    def __init__(self):
        self.by_length = {}

    def get(self, length):
        if length not in self.by_length:
            self.by_length[length] = torch.ones(length, length, device="cuda")
        return self.by_length[length]


def forward(model, masks, length):
    bucket = (length + 63) // 64 * 64
    x = torch.randn(bucket, 64, device="cuda")
    return masks.get(bucket) @ model(x)


random.seed(1)
model, masks = nn.Linear(64, 64).cuda(), Masks()
with torch.no_grad():
    for step in range(400):
        forward(model, masks, random.randrange(1, 64 * min(9, 2 + step // 10)))
print(len(masks.by_length), "masks")
