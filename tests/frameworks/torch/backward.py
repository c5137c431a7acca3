#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the stacks of gradients, which PyTorch's autograd engine allocates on threads of its own:
they have the Python frames of the thread that waits in backward(), if only one waits. TAP.

    backward.py --torch FOLDER --preload ... --command ... --standin ... [--only TEXT]
    backward.py --script NAME          (a program, in this process)"""

import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from standin_torch import PYTHON, SITE_PACKAGES, arguments, run_steps
from harness import SLOWER, Failed, compare

sys.path.insert(0, SITE_PACKAGES)
API = "c10::reportMemoryUsageToProfiler"
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


# ---- programs: each runs in a process of its own, under the preload ----

def leaf(torch, size):
    return torch.empty(size, size, device="cuda", requires_grad=True)


def program_kept():
    """Keeps the gradients of two lines."""
    import torch

    def step(weight):
        (weight @ weight).sum().backward()  # @step

    weights = [leaf(torch, 100), leaf(torch, 200)]
    step(weights[0])
    (weights[1] @ weights[1]).sum().backward()  # @outside
    os._exit(0 if weights else 1)


def program_fails():
    """A backward pass runs out of memory, in a deep call. Others follow, shallower and deeper."""
    import torch

    def fail(depth):
        if depth:
            return fail(depth - 1)
        try:
            (large @ large).sum().backward()  # @fails
        except torch.cuda.OutOfMemoryError:
            return
        sys.exit("no exception")

    def deep(weight, depth):
        if depth:
            # a call through C needs more of the thread's stack
            return list(map(lambda _: deep(weight, depth - 1), [0]))
        (weight @ weight).sum().backward()  # @deep

    large = leaf(torch, 2000)
    weights = [leaf(torch, 100), leaf(torch, 200)]
    fail(3)
    deep(weights[0], 8)
    fail(0)
    (weights[1] @ weights[1]).sum().backward()  # @shallow
    os._exit(0)


def program_threads():
    """Two threads run backward passes at the same time, each for tensors of its own size."""
    import threading
    import torch

    def first():
        for weight in weights[0]:
            start.wait()
            (weight @ weight).sum().backward()  # @first

    def second():
        for weight in weights[1]:
            start.wait()
            (weight @ weight).sum().backward()  # @second

    sys.setswitchinterval(1e-6)
    start = threading.Barrier(2)  # before each pass: on a busy machine one thread may end first
    weights = [[leaf(torch, size) for _ in range(200)] for size in (100, 200)]
    threads = [threading.Thread(target=target) for target in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = leaf(torch, 300)
    (last @ last).sum().backward()  # @last
    os._exit(0)


def program_other_threads():
    """While a thread waits in backward(), threads without Python frames allocate."""
    import threading
    import torch
    weights = [leaf(torch, 100) for _ in range(2000)]
    storm = threading.Thread(target=torch._C._storm, args=(4, 20000))
    storm.start()
    while storm.is_alive():
        for weight in weights:
            (weight @ weight).sum().backward()  # @beside
    storm.join()
    os._exit(0)


def program_ranges():
    """Backward passes in ranges, and outside."""
    import ctypes
    import torch

    gpuleak = ctypes.CDLL(None)
    weights = [leaf(torch, 100), leaf(torch, 200), leaf(torch, 300)]
    for weight, name in zip(weights, (b"first", b"second", None)):
        if name:
            gpuleak.gpuleak_range_begin(name)
        (weight @ weight).sum().backward()
        if name:
            gpuleak.gpuleak_range_end()
    os._exit(0 if weights else 1)


# ---- what must be recorded ----

def run(options, place, program, folder="", **extra):
    """Runs PROGRAM, and returns its ledger and the report on it."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "STANDIN_", "PYTORCH_"))}
    env.update(STANDIN_TORCH=os.path.join(options.torch, folder), LD_LIBRARY_PATH=options.standin,
               PYTHONDONTWRITEBYTECODE="1", LD_PRELOAD=options.preload, GPULEAK_REPORT="none",
               GPULEAK_LEDGER=os.path.join(place, "%p"))
    env.update(extra)
    ran = subprocess.run([PYTHON, __file__, "--script", program.__name__], env=env, check=False,
                         capture_output=True, text=True, timeout=120 * SLOWER)
    if ran.returncode or ran.stdout or ran.stderr:
        raise Failed("status %d\n%s%s" % (ran.returncode, ran.stdout, ran.stderr))
    (name,) = os.listdir(place)
    ledger = os.path.join(place, name)
    found = json.loads(text(options, ledger, "--format", "json"))
    compare("notes", [], found["notes"])
    return ledger, found


def text(options, ledger, *args):
    ran = subprocess.run([options.command, "report", *args, ledger], check=False,
                         capture_output=True, text=True, timeout=120 * SLOWER)
    if ran.returncode not in (0, 23) or ran.stderr:
        raise Failed("status %d\n%s%s" % (ran.returncode, ran.stdout, ran.stderr))
    return ran.stdout


def line_of(mark):
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1)
                    if line.rstrip().endswith("# @" + mark))


def gradients(entries):
    """Size and lines of what the engine allocated: the innermost line of Python, or None. The
    frames of the waiting thread must be the outermost ones, and must all be Python."""
    found = []
    for entry in entries:
        stack = entry["stack"]
        if not any("thread" in frame for frame in stack):
            continue
        waiting = [frame for frame in stack if frame.get("waiting")]
        compare("outermost", stack[len(stack) - len(waiting):], waiting)
        compare("Python", ["python"] * len(waiting), [frame.get("language") for frame in waiting])
        compare("no other Python", len(waiting), sum("language" in frame for frame in stack))
        if entry["blocks"]:
            found.append((entry["bytes"] // entry["blocks"],
                          waiting[0]["line"] if waiting else None))
    return sorted(found, key=str)


def rounded(size):
    return (size * size * 4 + 511) // 512 * 512


def kept(options, place, **extra):
    """Each gradient has the line that called backward()"""
    _, found = run(options, place, program_kept, **extra)
    compare("lines", sorted([(rounded(100), line_of("step")), (rounded(200), line_of("outside"))],
                            key=str), gradients(found["suballocations"]))


def uncached(options, place):
    """With the cache off, a kept gradient is a leak at the backward pass of its line"""
    ledger, found = run(options, place, program_kept, **UNCACHED)
    compare("lines", sorted([(40000, line_of("step")), (160000, line_of("outside"))], key=str),
            gradients(found["leaks"]))
    shown = text(options, ledger)
    compare("the waiting thread", 2, shown.count("the thread that started this work and waits for it:"))
    compare("the engine", 2, shown.count(", in PyTorch's autograd engine\n"))
    compare("place", True, "the backward pass of program_kept.&lt;locals&gt;.step (" in
            text(options, ledger, "--format", "junit"))


def fails(options, place):
    """An exception ends the wait of its thread: the next gradients have their own lines"""
    _, found = run(options, place, program_fails, GPULEAK_LIMIT="40MiB")
    compare("lines", sorted([(rounded(100), line_of("deep")), (rounded(200), line_of("shallow"))],
                            key=str), gradients(found["suballocations"]))


def threads(options, place):
    """While two threads wait, no line is named; none is ever the other thread's"""
    _, found = run(options, place, program_threads)
    lines = {rounded(100): "first", rounded(200): "second", rounded(300): "last"}
    seen = gradients(found["suballocations"])
    for size, line in seen: # without a line, gradients of both sizes are one entry
        if line:
            compare("size of the gradients of line %d" % line, line, line_of(lines.get(size, "")))
    compare("after them", True, (rounded(300), line_of("last")) in seen)
    compare("two waited at some time", True, None in [line for _, line in seen])


def other_threads(options, place):
    """Threads that do not belong to the engine never get the line"""
    _, found = run(options, place, program_other_threads)
    compare("lines", [(rounded(100), line_of("beside"))], gradients(found["suballocations"]))
    stacks = [entry["stack"] for entry in found["cached"] + found["suballocations"]
              if any("::storm" in (frame["function"] or "") for frame in entry["stack"])]
    if not stacks:
        raise Failed("no stack of the other threads")
    compare("waiting", [], [frame for stack in stacks for frame in stack if frame.get("waiting")])


def ranges(options, place):
    """Gradients belong to the range of the thread that waits"""
    _, found = run(options, place, program_ranges)
    left = {row["name"]: row["left_bytes"] for row in found["ranges"]}
    compare("left", {"first": rounded(100), "second": rounded(200)},
            {name: left.get(name) for name in ("first", "second")})
    compare("all", sum(entry["bytes"] for entry in found["suballocations"]), sum(left.values()))


def no_stacks(options, place):
    """Without stacks there are no lines"""
    _, found = run(options, place, program_kept, GPULEAK_STACK_DEPTH="0")
    compare("stacks", [[]], [entry["stack"] for entry in found["suballocations"]])


RUNS = [  # case, more arguments of run()
    (kept, {}),
    (kept, {"folder": "v1_13"}),
    (uncached, {}),
    (fails, {}),
    (threads, {}),
    (other_threads, {}),
    (ranges, {}),
    (no_stacks, {}),
]


def run_case(options, place, case, more):
    case(options, place, **more)


def name_of(case, more):
    return ", ".join([" ".join(case.__doc__.split()), *("%s=%s" % pair for pair in more.items())])


def main():
    options = arguments(__doc__)
    if options.script:
        return globals()[options.script]()
    return run_steps(options, [(name_of(case, more), run_case, case, more) for case, more in RUNS])


if __name__ == "__main__":
    sys.exit(main())
