# truth: clean
# Generates text for many prompts. The key-value cache grows with each token, and is dropped at
# the end of each prompt. The last prompts are the longest.
import torch
from torch import nn

LAYERS, PROMPTS = 4, 25


@torch.no_grad()
def generate(layers, tokens):
    cache = {}
    x = torch.randn(1, 1, 256, device="cuda")
    for _ in range(tokens):
        for number, layer in enumerate(layers):
            x = layer(x)
            old = cache.get(number)
            cache[number] = torch.cat((old, x), 1) if old is not None else x.clone()
    return x


layers = [nn.Linear(256, 256).cuda() for _ in range(LAYERS)]
for prompt in range(PROMPTS):
    generate(layers, 4 + prompt)
print(PROMPTS, "prompts")
