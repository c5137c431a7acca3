# truth: clean
# Static buffers for shapes in buckets, made at the first use. Rare shapes come late: the last of
# 24 after two thirds of the batches.
import random
import time
import torch
from torch import nn

BATCHES = 700
WIDTHS = (16, 32, 48, 64, 96, 128)
HEIGHTS = (1, 2, 4, 8)

random.seed(2)
model = nn.Linear(256, 16).cuda().eval()
shapes = sorted(((height, width) for height in HEIGHTS for width in WIDTHS), key=sum)
buffers, hits = {}, 0
with torch.no_grad():
    for batch in range(BATCHES):
        known = min(len(shapes), 4 + batch // 22)
        shape = shapes[known - 1] if batch % 22 == 0 else random.choice(shapes[:known])
        if shape not in buffers:
            buffers[shape] = (torch.zeros(*shape, 256, device="cuda"),
                              torch.zeros(*shape, 16, device="cuda"))
        else:
            hits += 1
        source, result = buffers[shape]
        source.copy_(torch.randn(*shape, 256, device="cuda"))
        result.copy_(model(source))
        time.sleep(0.001)
print(len(buffers), "buckets,", hits, "hits")
