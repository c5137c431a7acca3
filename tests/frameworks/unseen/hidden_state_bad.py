# truth: accumulates at @leak
# A recurrent cell runs over a stream of samples, without no_grad and without detach: the hidden
# state of now holds the graph of all steps before.
import torch
from torch import nn

STEPS = 2000


class Cell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.from_input = nn.Linear(inputs, hidden)
        self.from_hidden = nn.Linear(hidden, hidden)

    def forward(self, x, hidden):
        return (self.from_input(x) + self.from_hidden(hidden)).relu()  # @leak


cell = Cell(6, 32).cuda().eval()
hidden = torch.zeros(1, 32, device="cuda")
alarms = 0
for step in range(STEPS):
    sample = torch.randn(1, 6, device="cuda")  # @leak
    hidden = cell(sample, hidden)
    if step % 100 == 0:
        alarms += hidden.mean().item() > 0.9
print(alarms, "alarms")
