# truth: clean
# Objects with __del__ in cycles, which the collector ends.
import torch

STEPS = 400
REGISTRY = []


class Node:
    def __init__(self):
        self.state = torch.randn(64, 512, device="cuda") * 0.02
        self.me = self

    def __del__(self):
        REGISTRY.append(1)


for step in range(STEPS):
    Node()
    if step % 20 == 0:
        import gc
        gc.collect()
print(len(REGISTRY))
