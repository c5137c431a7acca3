# SPDX-License-Identifier: MIT
# Holds the live suballocations of this process's own ledger against what PyTorch counts, at ten
# moments of a training with several threads and streams: prints both, and last the number of
# moments that differ. LEDGER is the ledger's path.
import os
import struct
import threading

import torch


def live_in(path):
    """Blocks and bytes of the live suballocations, read without gpuleak's reader."""
    with open(path, "rb") as file:
        data = file.read()
    blocks = size = 0
    for chunk in range(16384, len(data) - 16383, 16384):
        kind, used = struct.unpack_from("II", data, chunk)
        for at in range(chunk + 64, chunk + used, 64) if kind == 25 else ():
            state, _, _, block_bytes = struct.unpack_from("IIQQ", data, at)
            if state & 0xff == 1:
                blocks, size = blocks + 1, size + block_bytes
    return blocks, size


def in_threads(count):
    def work():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(200):
                one = torch.empty(1000 * (i % 17 + 1), device="cuda")
                one.record_stream(torch.cuda.default_stream())
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    kept, different = [], 0
    for moment in range(10):
        data = torch.randn(256, 512, device="cuda")
        for _ in range(20):
            optimizer.zero_grad()
            loss = (net(data) - data).pow(2).mean()
            loss.backward()
            optimizer.step()
        in_threads(8)
        kept += [torch.empty(700 + moment, device="cuda") for _ in range(moment + 1)]
        if moment == 5:
            torch.cuda.empty_cache()
        torch.cuda.synchronize()
        torch.empty(1, device="cuda")  # lets the allocator take back what waited for other streams
        stats = torch.cuda.memory_stats()
        counted = stats["active.all.current"], stats["allocated_bytes.all.current"], stats["active_bytes.all.current"]
        seen = live_in(os.environ["LEDGER"])
        different += seen[1] != counted[1]
        print("moment %d: PyTorch %d active blocks, %d bytes allocated, %d active; ledger %d blocks, %d bytes" % ((moment,) + counted + seen))
    print("moments that differ: %d" % different, flush=True)
    os._exit(0)


main()
