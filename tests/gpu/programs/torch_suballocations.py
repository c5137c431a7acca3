# SPDX-License-Identifier: MIT
# Holds the live suballocations of this process's own ledger against what PyTorch counts, at ten
# moments of a training with several threads and streams: prints both, and last the number of
# moments that differ. LEDGER is the ledger's path. With the argument "graph", a CUDA graph with a
# memory pool of its own exists at five of the moments.
import os
import sys
import threading

import torch

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "frameworks"))

from live_suballocations import live_in


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


def capture(net):
    """Returns a graph of a forward pass, and the tensors that it reads and writes."""
    static = torch.zeros(256, 512, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = net(static)
    return graph, static, out


def main():
    net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    kept, different, captured = [], 0, None
    for moment in range(10):
        data = torch.randn(256, 512, device="cuda")
        for _ in range(20):
            optimizer.zero_grad()
            loss = (net(data) - data).pow(2).mean()
            loss.backward()
            optimizer.step()
        in_threads(8)
        kept += [torch.empty(700 + moment, device="cuda") for _ in range(moment + 1)]
        if moment == 3 and "graph" in sys.argv[-1]:
            captured = capture(net)
        if moment == 8:
            captured = None
        if captured:
            captured[0].replay()
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
