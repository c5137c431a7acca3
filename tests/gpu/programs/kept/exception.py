# truth: accumulates at @leak
# Keeps exceptions, whose tracebacks keep the frames of the failed steps.
import torch

STEPS = 400


def step_of(number):
    batch = torch.randn(128, 256, device="cuda")  # @leak
    if number % 2:
        raise ValueError("step %d" % number)
    return batch.sum()


failures = []
for number in range(STEPS):
    try:
        step_of(number)
    except ValueError as error:
        failures.append(error)
print(len(failures))
