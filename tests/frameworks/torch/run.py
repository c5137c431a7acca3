#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the stand-ins for PyTorch's libraries: what the report functions are given must equal
what the allocator counts, to the byte, and every argument must arrive unchanged. Each case runs
bare and under the preload, which must not change anything. TAP.

    run.py --torch FOLDER --preload ... --standin ... [--only TEXT]
    run.py --case NAME          (one case, in this process)"""

import argparse
import ctypes
import os
import random
import re
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
FRAMEWORKS = os.path.dirname(HERE)
sys.path.insert(0, FRAMEWORKS)
sys.path.insert(0, os.path.join(os.path.dirname(FRAMEWORKS), "programs"))

from harness import SLOWER, Failed, Tap, compare
from standin_torch import PYTHON, SITE_PACKAGES, is_missing

sys.path.insert(0, SITE_PACKAGES)
MIB = 1 << 20
USAGE, OUT = "reportMemoryUsageToProfiler", "reportOutOfMemoryToProfiler"
SHAPES = {"": ("EPvlmmNS_6DeviceE", "ElmmNS_6DeviceE"),
          "v1_13": ("EPvlllNS_6DeviceE", "ElllNS_6DeviceE"),
          "unknown": ("EPvlmmNS_6DeviceEl", "ElmmNS_6DeviceEl"),
          "vendored": ("EPvlmmNS_6DeviceE", "ElmmNS_6DeviceE")}


# ---- cases: each in a process of its own ----

def agree(native, device=0):
    """The profiler and the allocator have the same blocks, and each argument arrived unchanged."""
    counts, seen = native.memory_counts(device), native.profiler_seen(device)
    compare("what contradicts earlier calls", 0, seen["contradictions"])
    compare("live blocks", counts["allocations"], seen["live_blocks"])
    compare("live bytes", counts["allocated_bytes"], seen["live_bytes"])
    compare("outs of memory", counts["ooms"], seen["ooms"])
    compare("the sum over all arguments", counts["sum"], seen["sum"])
    return counts


def operate(torch, seed, steps, devices):
    """Random tensors: of all sizes, views, in other streams, in private pools, kept and dropped."""
    draw, live = random.Random(seed), []
    for step in range(steps):
        if live and draw.random() < 0.45:
            live.pop(draw.randrange(len(live)))
            continue
        size = draw.choice((1, 512, 700, 4096, 200000, MIB, MIB + 1, 3 * MIB, 11 * MIB))
        pool = draw.random() < 0.1
        if pool:
            torch._C.begin_pool(seed * 10 + draw.randrange(3))
        tensor = torch.empty(size, dtype=torch.uint8, device=draw.randrange(devices))
        if pool:
            torch._C.end_pool()
        live.append(tensor[:1] if draw.random() < 0.3 else tensor)
        if draw.random() < 0.2:
            tensor._record_stream(1)
        if draw.random() < 0.01:
            torch.cuda.empty_cache()


def in_threads(torch, count, steps, devices=1):
    threads = [threading.Thread(target=operate, args=(torch, seed, steps, devices))
               for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def case_ten_moments():
    """The profiler's view equals the allocator's at ten moments and at the end"""
    import torch
    kept = []
    for moment in range(10):
        operate(torch, moment, 60, 1)
        kept += [torch.empty(700 + moment, device="cuda") for _ in range(moment)]
        agree(torch._C)
    compare("bytes that are kept", sum((t.nbytes + 511) // 512 * 512 for t in kept),
            agree(torch._C)["allocated_bytes"])
    del kept
    compare("bytes at the end", 0, agree(torch._C)["allocated_bytes"])


def case_threads():
    """The same after random operations in four threads on two devices"""
    import torch
    in_threads(torch, 4, 400, 2)
    compare("bytes at the end", [0, 0],
            [agree(torch._C, device)["allocated_bytes"] for device in range(2)])


def case_storm():
    """The same after 8 native threads that never hold the GIL"""
    import torch
    torch._C._storm(8, 3000)
    compare("bytes at the end", 0, agree(torch._C)["allocated_bytes"])
    torch.empty(1, device="cuda")  # looks at the events of other streams
    compare("bytes that other streams use", 0, torch._C.memory_counts(0)["active_bytes"])


def case_empty_cache():
    """What is cached goes back to the driver, and no more"""
    import torch
    small, large = torch.empty(100, device="cuda"), torch.empty(10 * MIB, device="cuda")
    compare("segments", (42 * MIB, 2), (torch.cuda.memory_reserved(),
                                        torch._C.memory_counts(0)["segments"]))
    del large
    compare("reserved before", 42 * MIB, torch.cuda.memory_reserved())
    torch.cuda.empty_cache()
    compare("reserved after", 2 * MIB, torch.cuda.memory_reserved())
    compare("used", 512, agree(torch._C)["allocated_bytes"])
    del small


def case_out_of_memory():
    """When the driver refuses, the cache is emptied first; the report follows the second refusal"""
    import torch
    cached = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    del cached
    kept = torch.empty(50 * MIB, dtype=torch.uint8, device="cuda")
    compare("outs of memory after the first refusal", 0, agree(torch._C)["ooms"])
    compare("reserved", 50 * MIB, torch.cuda.memory_reserved())
    try:
        torch.empty(30 * MIB - 5, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    else:
        raise Failed("no OutOfMemoryError")
    agree(torch._C)
    seen = torch._C.profiler_seen(0)
    compare("the report", (1, 0, 30 * MIB, 50 * MIB, 50 * MIB),
            (seen["ooms"], seen["last_ptr"], seen["last_alloc_size"], seen["last_total_allocated"],
             seen["last_total_reserved"]))
    del kept


def case_other_stream():
    """A free is reported at once, though another stream's event keeps the block from reuse"""
    import torch
    tensor = torch.empty(4096, dtype=torch.uint8, device="cuda")
    address = tensor.data_ptr()
    tensor._record_stream(1)
    del tensor
    counts, seen = agree(torch._C), torch._C.profiler_seen(0)
    compare("bytes allocated and in use", (0, 4096),
            (counts["allocated_bytes"], counts["active_bytes"]))
    compare("the last report", (address, (1 << 64) - 4096),
            (seen["last_ptr"], seen["last_alloc_size"]))


def case_no_reports():
    """Nothing is reported of memory that does not come from the cache"""
    import torch
    tensors = [torch.empty(1000, device="cuda") for _ in range(10)]
    compare("calls", 0, torch._C.profiler_seen(0)["calls"])
    del tensors


def case_backward():
    """Gradients are allocated, and saved tensors freed, on a thread without a Python frame"""
    import torch
    model = torch.nn.Linear(256, 256).cuda()
    loss = torch.nn.functional.mse_loss(model(torch.randn(32, 256, device="cuda")),
                                        torch.randn(32, 256, device="cuda"))
    parameters, batch = 256 * 256 * 4 + 1024, 32 * 256 * 4
    compare("parameters, the loss, and two tensors in its graph", parameters + 512 + 2 * batch,
            torch.cuda.memory_allocated())
    del loss
    compare("parameters alone", parameters, torch.cuda.memory_allocated())
    loss = model(torch.randn(32, 256, device="cuda")).sum()
    loss.backward()
    compare("parameters, gradients and the loss", 2 * parameters + 512,
            torch.cuda.memory_allocated())
    del loss
    agree(torch._C)


def case_two_copies():
    """Two copies of libc10 in one process: each has its own allocator and its own profiler"""
    import torch
    other = torch._load(os.path.join(os.environ["STANDIN_TORCH"], "vendored"))
    tensors = [torch.empty(1000, device="cuda") for _ in range(7)]
    others = [other.empty(2000, device="cuda") for _ in range(5)]
    compare("blocks", (7, 5), (agree(torch._C)["allocations"], agree(other)["allocations"]))
    compare("calls", (7, 5), (torch._C.profiler_seen(0)["calls"], other.profiler_seen(0)["calls"]))
    del tensors[0], others[0]
    compare("blocks", (6, 4), (agree(torch._C)["allocations"], agree(other)["allocations"]))


def case_loading():
    """16 threads allocate while others load and unload libraries, a copy of libc10 among them"""
    import torch
    folder = os.path.join(os.environ["STANDIN_TORCH"], "vendored")
    libraries = [os.path.join(folder, name) for name in os.listdir(folder)
                 if re.fullmatch(r"libc10\S*\.so", name)]
    compare("libraries", 2, len(libraries))
    done, loaded = threading.Event(), [0, 0]

    def load(number):
        while not done.is_set() or not loaded[number]:
            handle = ctypes.CDLL(libraries[number])._handle
            ctypes.PyDLL(None).dlclose(ctypes.c_void_p(handle))
            loaded[number] += 1

    threads = [threading.Thread(target=load, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    torch._C._storm(16, 600)
    done.set()
    for thread in threads:
        thread.join()
    compare("bytes at the end", 0, agree(torch._C)["allocated_bytes"])


def in_child(function):
    """Runs FUNCTION in a forked child, which must end with 0."""
    child = os.fork()
    if not child:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    compare("status of the child", 0, os.waitpid(child, 0)[1])


def case_imported_in_child():
    """A forked child imports the framework"""
    def use():
        import torch
        operate(torch, 1, 100, 1)
        compare("bytes", 0, agree(torch._C)["allocated_bytes"])
    in_child(use)
    in_child(use)


def case_dropped_in_child():
    """A forked child drops its parent's tensors; the parent keeps them"""
    import torch
    tensors = [torch.empty(1000, device="cuda") for _ in range(9)]

    def drop():
        del tensors[3:]
        compare("bytes in the child", 3 * 4096, agree(torch._C)["allocated_bytes"])
    in_child(drop)
    compare("bytes in the parent", 9 * 4096, agree(torch._C)["allocated_bytes"])


def case_kept_at_exit():
    """Tensors that the module still has are freed while the interpreter ends"""
    import torch
    kept["a tensor"] = torch.empty(1000, device="cuda")
    kept["a cycle"] = [torch.empty(1000, device="cuda"), kept]
    threading.Thread(target=operate, args=(torch, 5, 50, 1)).start()


kept = {}


def case_made_up():
    """A test can make any call: of the CPU, of unknown addresses, twice"""
    import torch
    torch._C.report(0x1000, 4096, 4096, 0, 0, -1)
    compare("calls for the CPU", 0, torch._C.profiler_seen(0)["calls"])
    torch._C.report(0x1000, -4096, 0, 0, 1, 0)
    torch._C.report(0x2000, 512, 512, 0, 1, 0)
    torch._C.report(0x2000, 512, 1024, 0, 1, 0)
    compare("contradictions", 2, torch._C.profiler_seen(0)["contradictions"])


EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
RUNS = [  # case, folder, environment
    (case_ten_moments, "", {}),
    (case_ten_moments, "", EXPANDABLE),
    (case_ten_moments, "v1_13", {}),
    (case_ten_moments, "unknown", {}),
    (case_ten_moments, "vendored", {}),
    (case_threads, "", {"STANDIN_DEVICES": "2"}),
    (case_threads, "", {"STANDIN_DEVICES": "2", **EXPANDABLE}),
    (case_storm, "", {}),
    (case_storm, "", EXPANDABLE),
    (case_empty_cache, "", {}),
    (case_out_of_memory, "", {"STANDIN_MEMORY": str(64 * MIB)}),
    (case_other_stream, "", {}),
    (case_no_reports, "", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
    (case_no_reports, "", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    (case_backward, "", {}),
    (case_two_copies, "", {}),
    (case_loading, "", {}),
    (case_imported_in_child, "", {}),
    (case_dropped_in_child, "", {}),
    (case_kept_at_exit, "", {}),
    (case_made_up, "", {}),
]


# ---- running ----

def check_names(folder, shapes):
    """The mangled names are those of docs/developers/pytorch.md: defined once, then undefined."""
    for library, letter in (("libc10", "T"), ("libc10_cuda", "U")):
        (path,) = [os.path.join(folder, name) for name in os.listdir(folder)
                   if re.fullmatch(library + r"(-\w+)?\.so", name)]
        told = subprocess.run(["nm", "-D", path], check=True, capture_output=True, text=True)
        found = sorted(" ".join(line.split()[-2:]) for line in told.stdout.splitlines()
                       if "ToProfiler" in line)
        compare(path, sorted("%s _ZN3c1027%s%s" % (letter, name, shape)
                             for name, shape in zip((USAGE, OUT), shapes)), found)


def run_case(options, case, folder, extra, preload):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "STANDIN_", "PYTORCH_"))}
    env.update(STANDIN_PROFILER="1", STANDIN_TORCH=os.path.join(options.torch, folder),
               LD_LIBRARY_PATH=options.standin, PYTHONDONTWRITEBYTECODE="1", **extra)
    if preload:
        env.update(LD_PRELOAD=options.preload, GPULEAK_REPORT="none")
    ran = subprocess.run([PYTHON, __file__, "--case", case.__name__], env=env, check=False,
                         capture_output=True, text=True, timeout=120 * SLOWER)
    if ran.returncode or ran.stdout or ran.stderr:
        raise Failed("status %d\n%s%s" % (ran.returncode, ran.stdout, ran.stderr))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("case", "torch", "preload", "standin"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--only", default="", help="only steps with this in their name")
    options = parser.parse_args()
    if options.case:
        return globals()[options.case]()
    if is_missing(options.torch):
        return 0
    for name in ("torch", "preload", "standin"):
        setattr(options, name, os.path.realpath(getattr(options, name)))

    tap = Tap()
    for folder, shapes in SHAPES.items():
        name = "the names in %s" % (folder or "the folder of today's shape")
        if options.only in name:
            tap.step(name, check_names, os.path.join(options.torch, folder), shapes)
    for case, folder, extra in RUNS:
        for preload in (False, True):
            name = ", ".join([case.__doc__, *([folder] if folder else []),
                              *("%s=%s" % pair for pair in extra.items()),
                              *(["under the preload"] if preload else [])])
            if options.only in name:
                tap.step(name, run_case, options, case, folder, extra, preload)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
