# truth: clean
# Answers requests that come in bursts: up to 30 results wait at a time, and all are fetched.
import collections
import torch
from torch import nn

REQUESTS = 600


@torch.no_grad()
def answer(model, size):
    x = torch.randn(size, 128, device="cuda")
    return model(x)


model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128)).cuda().eval()
for _ in range(20):  # warm-up
    answer(model, 32)

results, waiting = {}, collections.deque()
for number in range(REQUESTS):
    results[number] = answer(model, 8 + number % 5 * 8)
    waiting.append(number)
    burst = number % 100 < 30
    while waiting and not burst and len(waiting) > 2:
        results.pop(waiting.popleft()).cpu()
while waiting:
    results.pop(waiting.popleft()).cpu()
print(len(results), "results were not fetched")
