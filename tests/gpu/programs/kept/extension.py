# truth: accumulates at @leak
# A C++ extension keeps a tensor of each step in a vector of its own.
import torch
from torch.utils.cpp_extension import load_inline

STEPS = 400
SOURCE = """
#include <torch/extension.h>
static std::vector<at::Tensor> kept;
void keep(at::Tensor tensor) { kept.push_back(tensor); }
int64_t count() { return kept.size(); }
"""

keeper = load_inline("keeper", SOURCE, functions=["keep", "count"])
model = torch.nn.Linear(256, 512).cuda()
for step in range(STEPS):
    with torch.no_grad():
        output = model(torch.randn(64, 256, device="cuda"))  # @leak
    keeper.keep(output)
print(keeper.count())
