# truth: accumulates at @leak
# A sample and its owner refer to each other. The garbage collector, which would find that, was
# switched off for speed.
import gc
import torch
from torch import nn


class Sample:
    def __init__(self, number):
        self.pixels = torch.randn(3, 64, 64, device="cuda")  # @leak
        self.number = number
        self.augmented = Augmented(self)

    def __del__(self):
        self.number = None


class Augmented:
    def __init__(self, sample):
        self.sample = sample
        self.pixels = sample.pixels * 0.5  # @leak


gc.disable()
model = nn.Linear(64, 16).cuda()
with torch.no_grad():
    for number in range(400):
        sample = Sample(number)
        output = model(sample.augmented.pixels)
print(output.shape)
