# truth: accumulates at @leak
# Queues functions that hold the output of a step in a closure; none is ever called.
import torch

STEPS = 400


def reporter(output):
    def report():
        return output.mean().item()
    return report


model = torch.nn.Linear(256, 512).cuda()
waiting = []
for step in range(STEPS):
    with torch.no_grad():
        output = model(torch.randn(64, 256, device="cuda"))  # @leak
    waiting.append(reporter(output))
print(len(waiting))
