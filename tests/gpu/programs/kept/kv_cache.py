# truth: accumulates at @leak
# Answers requests one token after another; the keys and values of each request stay in a table.
import torch

REQUESTS, TOKENS = 40, 30
CACHES = {}


def decode(request):
    keys = torch.zeros(1, 8, 0, 64, device="cuda")
    for token in range(TOKENS):
        keys = torch.cat([keys, torch.randn(1, 8, 1, 64, device="cuda")], dim=2)  # @leak
    CACHES[request] = keys


for request in range(REQUESTS):
    decode(request)
print(len(CACHES))
