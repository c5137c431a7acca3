# truth: clean
# A tokenizer's position encodings, cached by length: 48 of about 120 lengths, the least recently
# used goes first. Short texts are frequent, so that the cache fills slowly.
import functools
import random
import torch
from torch import nn

TEXTS = 1500


@functools.lru_cache(maxsize=48)
def positions(length):
    frequencies = torch.randn(length, 32, device="cuda")
    return torch.cat([frequencies, frequencies.relu()], 1)


@torch.no_grad()
def encode(model, length):
    tokens = torch.randn(length, 64, device="cuda")
    return model(tokens + positions(length)).mean(0)


random.seed(11)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).cuda().eval()
total = 0.0
for text in range(TEXTS):
    length = min(120, 4 + int(random.expovariate(1 / 16)))
    total += encode(model, length).sum().item()
print(total, positions.cache_info())
