# truth: clean
# Keeps the text of exceptions.
import torch

STEPS = 400


def step_of(number):
    batch = torch.randn(128, 256, device="cuda")
    if number % 2:
        raise ValueError("step %d" % number)
    return batch.sum()


failures = []
for number in range(STEPS):
    try:
        step_of(number)
    except ValueError as error:
        failures.append(str(error))
print(len(failures))
