# truth: accumulates at @leak
# Objects with __del__ in cycles that their REGISTRY keeps.
import torch

STEPS = 400
REGISTRY = []


class Node:
    def __init__(self):
        self.state = torch.randn(64, 512, device="cuda") * 0.02  # @leak
        self.me = self

    def __del__(self):
        REGISTRY.append(self)  # brings itself back


for step in range(STEPS):
    Node()
    if step % 20 == 0:
        import gc
        gc.collect()
print(len(REGISTRY))
