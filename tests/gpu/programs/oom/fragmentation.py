# truth: out of memory at @wanted, most held by unused in the PyTorch caching allocator
# Every 13th of many small tensors is kept, so that no block of the cache becomes free.
import torch

SMALL = 3 << 19
free, _ = torch.cuda.mem_get_info()
tensors = [torch.empty(SMALL, dtype=torch.uint8, device="cuda")
           for _ in range(free // 10 * 9 // SMALL)]
kept = tensors[::13]
del tensors
large = torch.empty(free // 2, dtype=torch.uint8, device="cuda") # @wanted
