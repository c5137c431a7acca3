# truth: recovered
# PyTorch's cache is full of blocks that nobody uses: it frees them and asks again.
import time

import torch

free, _ = torch.cuda.mem_get_info()
tensors = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range((free >> 30) - 2)]
del tensors
large = torch.empty(free // 2, dtype=torch.uint8, device="cuda")
print(large.numel() == free // 2)
time.sleep(1) # for a sample of NVML after the call
