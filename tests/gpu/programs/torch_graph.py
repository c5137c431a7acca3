# SPDX-License-Identifier: MIT
# Captures a training step into a CUDA graph, in each capture mode or those of the arguments, and
# replays it: what comes out must be what it is without a graph. A capture that is invalidated raises. Prints what
# PyTorch says it holds, as figures.py reads it.
import json
import os
import sys
import torch

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False
net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)).cuda()
data = torch.randn(64, 256, device="cuda")
eager = net(data * 2).square().sum(dim=1)
captures = 0
for mode in sys.argv[1:] or ("global", "thread_local", "relaxed"):
    static = torch.zeros_like(data)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net(static).square().sum(dim=1)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        out = net(static).square().sum(dim=1)
    for i in range(8):
        static.copy_(data * (2 if i == 7 else i))
        graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(out, eager, rtol=1e-4), mode
    captures += 1
print("captures %d, replays %d" % (captures, captures * 8))
figures = []
if torch.cuda.get_allocator_backend() == "native":
    expandable = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    figures = [{"name": "memory_reserved", "bytes": torch.cuda.memory_reserved(), "module": "libc10_cuda",
                "kinds": ["vmm-handle", "vmm-mapping"] if expandable else ["device"]}]
print(json.dumps({"figures": figures}), flush=True)
os._exit(0)
