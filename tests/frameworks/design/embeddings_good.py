# truth: clean
# Remembers the embeddings of the 64 documents that were asked for last.
import functools
import random
import torch
from torch import nn


def make_embed(model):
    @functools.lru_cache(maxsize=64)
    def embed(document):
        x = torch.randn(16, 128, device="cuda")
        return model(x).mean(0)
    return embed


random.seed(2)
embed = make_embed(nn.Linear(128, 512).cuda().eval())
with torch.no_grad():
    for request in range(900):
        embed(random.randrange(20) if random.random() < 0.5 else request)
print(embed.cache_info())
