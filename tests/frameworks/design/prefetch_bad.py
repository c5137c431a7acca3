# truth: accumulates at @leak
# A loader thread puts batches on the GPU. It keeps those of the past, to reuse them some day.
import queue
import threading
import torch
from torch import nn

STEPS = 250


def load(ready, past):
    for _ in range(STEPS):
        batch = torch.randn(128, 100).cuda()  # @leak
        past.append(batch)
        ready.put(batch)
    ready.put(None)


model = nn.Linear(100, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ready, past = queue.Queue(maxsize=3), []
loader = threading.Thread(target=load, args=(ready, past))
loader.start()
while (batch := ready.get()) is not None:
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
loader.join()
print(len(past), "batches")
