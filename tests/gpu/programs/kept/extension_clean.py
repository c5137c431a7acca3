# truth: clean
# A C++ extension sees a tensor of each step and keeps none.
import torch
from torch.utils.cpp_extension import load_inline

STEPS = 400
SOURCE = """
#include <torch/extension.h>
static std::vector<at::Tensor> kept;
void keep(at::Tensor tensor) { if (tensor.numel() == 0) kept.push_back(tensor); }
int64_t count() { return kept.size(); }
"""

keeper = load_inline("keeper_of_none", SOURCE, functions=["keep", "count"])
model = torch.nn.Linear(256, 512).cuda()
for step in range(STEPS):
    with torch.no_grad():
        output = model(torch.randn(64, 256, device="cuda"))
    keeper.keep(output)
print(keeper.count())
