# truth: accumulates at @leak
# Answers requests. One request in ten times out, and its result is never fetched.
import collections
import torch
from torch import nn

REQUESTS = 600


@torch.no_grad()
def answer(model, size):
    x = torch.randn(size, 128, device="cuda")
    return model(x)  # @leak


model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128)).cuda().eval()
for _ in range(20):  # warm-up
    answer(model, 32)

results, waiting = {}, collections.deque()
for number in range(REQUESTS):
    results[number] = answer(model, 8 + number % 5 * 8)
    waiting.append(number)
    if len(waiting) > 4:
        done = waiting.popleft()
        if done % 10:
            results.pop(done).cpu()
print(len(results), "results were not fetched")
