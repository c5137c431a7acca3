# truth: clean
# Answers requests one token after another; the keys and values are dropped with the request.
import torch

REQUESTS, TOKENS = 40, 30
CACHES = {}


def decode(request):
    keys = torch.zeros(1, 8, 0, 64, device="cuda")
    for token in range(TOKENS):
        keys = torch.cat([keys, torch.randn(1, 8, 1, 64, device="cuda")], dim=2)
    CACHES[request] = keys
    del CACHES[request]


for request in range(REQUESTS):
    decode(request)
print(len(CACHES))
