# truth: out of memory at @wanted, most held at @held
# The activations of a forward pass are kept for the backward pass until the device is full.
import torch

layers = torch.nn.ModuleList(torch.nn.Linear(4096, 4096) for _ in range(200)).cuda()
x = torch.randn(1 << 16, 4096, device="cuda", requires_grad=True)
for layer in layers:
    x = torch.relu(layer(x)) # @wanted @held
x.sum().backward()
