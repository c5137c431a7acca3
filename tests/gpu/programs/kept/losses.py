# truth: accumulates at @leak
# Keeps each loss, and with it the graph of its step.
import torch

STEPS = 400

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
losses = []
for step in range(STEPS):
    x, y = torch.randn(64, 256, device="cuda"), torch.randint(10, (64,), device="cuda")
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)  # @leak
    loss.backward()
    optimizer.step()
    losses.append(loss)
print(len(losses))
