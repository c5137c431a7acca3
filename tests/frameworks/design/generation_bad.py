# truth: accumulates at @leak
# Generates text for many prompts. The server keeps the key-value cache of each session, also
# after the session has ended.
import torch
from torch import nn

LAYERS, TOKENS, PROMPTS = 4, 12, 25


@torch.no_grad()
def generate(layers, cache):
    x = torch.randn(1, 1, 256, device="cuda")
    for _ in range(TOKENS):
        for number, layer in enumerate(layers):
            x = layer(x)
            old = cache.get(number)
            cache[number] = torch.cat((old, x), 1) if old is not None else x.clone()  # @leak
    return x


layers = [nn.Linear(256, 256).cuda() for _ in range(LAYERS)]
sessions = {}
for prompt in range(PROMPTS):
    cache = sessions.setdefault(prompt, {})
    generate(layers, cache)
print(len(sessions), "sessions")
