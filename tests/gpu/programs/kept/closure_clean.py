# truth: clean
# Queues functions that hold the output of a step in a closure, and calls them.
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
        output = model(torch.randn(64, 256, device="cuda"))
    waiting.append(reporter(output))
    if len(waiting) == 10:
        print(sum(report() for report in waiting))
        waiting.clear()
print(len(waiting))
