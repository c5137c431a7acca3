# truth: accumulates at @leak
# Warnings of every seventh step go to a handler that buffers records. A record keeps its
# arguments, and so the tensor; the buffer is too large to be flushed.
import logging
import logging.handlers
import time
import torch
from torch import nn

STEPS = 400

target = logging.StreamHandler()
target.setLevel(logging.ERROR)
logger = logging.getLogger("training")
logger.propagate = False
logger.addHandler(logging.handlers.MemoryHandler(100000, target=target))
model = nn.Linear(256, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 256, device="cuda")).mean()
    loss.backward()
    optimizer.step()
    if step % 7 == 0:
        norm = model.weight.grad.detach().sum()  # @leak
        logger.warning("step %d: gradient %s", step, norm)
    time.sleep(0.002)
print("trained", STEPS)
