# SPDX-License-Identifier: MIT
# All-reduce over two GPUs through PyTorch, one process each; rank 1 leaks nothing more than
# PyTorch's own cache. Prints per rank what PyTorch says it holds, as figures.py reads it.
import json
import os
import sys
import time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29512")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    x = torch.full((1 << 20,), float(rank + 1), device="cuda")
    for _ in range(10):
        y = x.clone()
        dist.all_reduce(y)
    torch.cuda.synchronize()
    assert y[0].item() == sum(range(1, world + 1)), y[0].item()
    dist.barrier()  # takes memory too
    torch.cuda.synchronize()
    time.sleep(1)  # so that gpuleak's sampler sees what the first collective made the driver take
    print(json.dumps({"figures": [{"name": "rank %d memory_reserved" % rank, "device": rank,
                                   "bytes": torch.cuda.memory_reserved(), "module": "libc10_cuda",
                                   "kinds": ["device"]}]}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2)
    sys.exit(0)
