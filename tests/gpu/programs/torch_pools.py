# SPDX-License-Identifier: MIT
# Fills PyTorch's allocator (whichever PYTORCH_CUDA_ALLOC_CONF chose), gives some back, and
# prints what PyTorch says it holds, as figures.py reads it; ends without any clean-up.
import json
import os
import sys
import torch

backend = torch.cuda.get_allocator_backend()
expandable = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
torch.manual_seed(0)
kept = []
for i in range(200):
    kept.append(torch.empty((i * 7919) % 3000000 + 1, dtype=torch.uint8, device="cuda"))
    if i % 3 == 0:
        kept.pop(len(kept) // 2)
big = torch.empty(300 << 20, dtype=torch.uint8, device="cuda")
net = torch.nn.Linear(1024, 1024).cuda()
loss = net(torch.randn(64, 1024, device="cuda")).pow(2).sum()
loss.backward()
del big
torch.cuda.synchronize()
if "empty" in sys.argv[1:]:
    torch.cuda.empty_cache()
if backend == "native":
    figure = {"name": "memory_reserved", "bytes": torch.cuda.memory_reserved(), "module": "libc10_cuda",
              "kinds": ["vmm-handle", "vmm-mapping"] if expandable else ["device"]}
else:
    figure = {"name": "allocated_bytes", "bytes": torch.cuda.memory_stats()["allocated_bytes.all.current"],
              "module": "libc10_cuda", "kinds": ["stream-ordered"]}
print(json.dumps({"figures": [figure]}), flush=True)
os._exit(0)
