# truth: clean
# A loader thread puts batches on the GPU, three ahead of the training.
import queue
import threading
import torch
from torch import nn

STEPS = 250


def load(ready):
    for _ in range(STEPS):
        ready.put(torch.randn(128, 100).cuda())
    ready.put(None)


model = nn.Linear(100, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ready, seen = queue.Queue(maxsize=3), 0
loader = threading.Thread(target=load, args=(ready,))
loader.start()
while (batch := ready.get()) is not None:
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
    seen += 1
loader.join()
print(seen, "batches")
