#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what gpuleak records of the tensors of PyTorch's stand-ins: suballocations, their stacks
and their bytes, and that nothing else in a report changes. TAP.

    recorded.py --torch FOLDER --preload ... --command ... --standin ... [--only TEXT]
    recorded.py --script NAME          (a program, in this process)"""

import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from standin_torch import PYTHON, SITE_PACKAGES, arguments, run_steps
from harness import SLOWER, Failed, compare
from live_suballocations import live_in, slots_in

sys.path.insert(0, SITE_PACKAGES)
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


# ---- programs: each runs in a process of its own, under the preload ----

def program_kept():
    """Keeps three tensors, frees ten, and ends without the interpreter's end."""
    import torch

    def keep():
        return torch.empty(1000, device="cuda")  # @keep

    kept = [keep() for _ in range(3)]
    for _ in range(10):
        torch.empty(5000, device="cuda")
    os._exit(0 if kept else 1)


def program_freed():
    """Frees all tensors, tensors of the CPU too."""
    import torch
    for size in (1, 1000, 3000000, 20000000):
        torch.empty(size, device="cuda")
        torch.empty(size)
    os._exit(0)


def program_at_exit():
    """Keeps tensors in the module and in a cycle until the interpreter ends."""
    import torch
    kept_at_exit["a tensor"] = torch.empty(1000, device="cuda")
    kept_at_exit["a cycle"] = [torch.empty(1000, device="cuda"), kept_at_exit]


kept_at_exit = {}


def own_ledger():
    return os.path.join(os.environ["LEDGERS"], str(os.getpid()))


def program_moments():
    """Compares the ledger with what the allocator counts, at ten moments and at the end."""
    import torch
    sys.path.insert(0, HERE)  # before tests/programs, which has a run.py, too
    from run import in_threads, operate
    ledger, kept, devices = own_ledger(), [], int(os.environ["STANDIN_DEVICES"])

    def agree():
        counts = [torch._C.memory_counts(device) for device in range(devices)]
        compare("blocks and bytes", tuple(sum(count[name] for count in counts) for name in
                                          ("allocations", "allocated_bytes")), live_in(ledger))

    for moment in range(10):
        operate(torch, moment, 60, devices)
        in_threads(torch, 3, 40, devices)
        kept += [torch.empty(700 + moment, device="cuda") for _ in range(moment + 1)]
        agree()
    compare("blocks that are kept", 55, live_in(ledger)[0])
    del kept
    agree()
    compare("at the end", (0, 0), live_in(ledger))
    os._exit(0)


def program_addresses():
    """Uses far more addresses than are live at a time, and compares the ledger each time."""
    import torch
    ledger, kept, addresses = own_ledger(), [], set()
    for size in range(1, 9):
        tensors = [torch.empty(size * 1000, device="cuda") for _ in range(1500)]
        addresses.update(tensor.data_ptr() for tensor in tensors)
        kept += tensors[::100]
        compare("blocks of size %d" % size, len(kept) + 1500 - 15, live_in(ledger)[0])
        del tensors
        counts = torch._C.memory_counts(0)
        compare("kept", (counts["allocations"], counts["allocated_bytes"]), live_in(ledger))
    compare("blocks at the end", 8 * 15, live_in(ledger)[0])
    if len(addresses) < 6000:
        sys.exit("%d addresses are too few" % len(addresses))
    os._exit(0)


def program_two_copies():
    """Keeps tensors of two copies of PyTorch."""
    import torch
    other = torch._load(os.path.join(os.environ["STANDIN_TORCH"], "vendored"))
    tensors = [torch.empty(1000, device="cuda") for _ in range(7)]
    others = [other.empty(2000, device="cuda") for _ in range(5)]
    for native, count in ((torch._C, 7), (other, 5)):
        compare("calls of the profiler", count, native.profiler_seen(0)["calls"])
    os._exit(0 if tensors and others else 1)


def program_constructors():
    """16 threads allocate while others load and unload a library that allocates in constructors."""
    import ctypes
    import threading
    import torch
    done, loaded = threading.Event(), [0, 0]

    def load(number):
        while not done.is_set() or not loaded[number]:
            handle = ctypes.CDLL(os.environ["STANDIN_CONSTRUCTOR"])._handle
            ctypes.PyDLL(None).dlclose(ctypes.c_void_p(handle))
            loaded[number] += 1

    # A first call of a linked driver function looks it up, which waits for the loader.
    torch._C._storm(1, 3000)
    threads = [threading.Thread(target=load, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    torch._C._storm(16, 1500)
    done.set()
    for thread in threads:
        thread.join()
    compare("blocks at the end", (0, 0), live_in(own_ledger()))
    os._exit(0)


def program_fork():
    """A child frees tensors of its parent: the driver refuses it, so it makes no GPU call."""
    import torch
    kept = [torch.empty(1000, device="cuda") for _ in range(9)]
    child = os.fork()
    if not child:
        del kept[3:]
        os._exit(len(kept) - 3)
    compare("status of the child", 0, os.waitpid(child, 0)[1])
    compare("blocks of the parent", 9, live_in(own_ledger())[0])
    os._exit(0)


def program_imported_in_child():
    """Two children import the framework, and keep tensors."""
    for count in (2, 5):
        if not os.fork():
            import torch
            kept = [torch.empty(1000, device="cuda") for _ in range(count)]
            os._exit(len(kept) - count)
        compare("status of the child", 0, os.wait()[1])
    os._exit(0)


def program_contradictions():
    """Reports two unknown frees, one address twice, and memory of the CPU."""
    import torch
    kept = torch.empty(1000, device="cuda")
    torch._C.report(0x1000, -4096, 0, 0, 1, 0)
    torch._C.report(0x3000, -512, 0, 0, 1, 0)
    torch._C.report(0x2000, 512, 512, 0, 1, 0)
    torch._C.report(0x2000, 1024, 1536, 0, 1, 0)
    torch._C.report(0x4000, 2048, 2048, 0, 0, -1)  # of the CPU
    torch._C.report(0x5000, -2048, 0, 0, 0, -1)
    os._exit(0 if kept.nbytes else 1)


# ---- what must be recorded ----

def run(options, place, program, folder="", **extra):
    """Runs PROGRAM and returns the reports on its ledgers, the oldest process first."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "STANDIN_", "PYTORCH_"))}
    env.update(STANDIN_PROFILER="1", STANDIN_TORCH=os.path.join(options.torch, folder),
               STANDIN_CONSTRUCTOR=os.path.join(options.torch, "libconstructor.so"),
               LD_LIBRARY_PATH=options.standin, PYTHONDONTWRITEBYTECODE="1", LEDGERS=place,
               LD_PRELOAD=options.preload, GPULEAK_REPORT="none",
               GPULEAK_LEDGER=os.path.join(place, "%p"))
    env.update(extra)
    ran = subprocess.run([PYTHON, __file__, "--script", program.__name__], env=env, check=False,
                         capture_output=True, text=True, timeout=120 * SLOWER)
    if ran.returncode or ran.stdout or ran.stderr:
        raise Failed("status %d\n%s%s" % (ran.returncode, ran.stdout, ran.stderr))
    ledgers = sorted(os.listdir(place), key=int)
    if not ledgers:
        raise Failed("no ledger")
    return [os.path.join(place, name) for name in ledgers]


def output(options, *args, statuses=(0,)):
    ran = subprocess.run([options.command, *args], check=False, capture_output=True, text=True)
    if ran.returncode not in statuses:
        raise Failed("status %d of %s\n%s%s" % (ran.returncode, args, ran.stdout, ran.stderr))
    return ran.stdout


def report(options, ledger):
    return json.loads(output(options, "report", "--format", "json", ledger))


def line_of(mark):
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1)
                    if line.rstrip().endswith("# @" + mark))


def python_frames(stack):
    return [(frame["function"], os.path.basename(frame["file"] or ""), frame["line"])
            for frame in stack if frame.get("language") == "python"]


def three_kept(options, place, **extra):
    """A tensor that is kept is found by its line; what was freed is not listed"""
    (ledger,) = run(options, place, program_kept, **extra)
    found = report(options, ledger)
    (entry,) = found["suballocations"]
    frames = python_frames(entry.pop("stack"))
    compare("the innermost line", ("keep", "recorded.py", line_of("keep")),
            (frames[0][0].rsplit(".")[-1], *frames[0][1:]))
    compare("length of the fingerprint", 16, len(entry.pop("fingerprint")))
    compare("the entry", {
        "api": "c10::reportMemoryUsageToProfiler", "kind": "suballocation", "device": 0,
        "bytes": 3 * 4096, "blocks": 3, "cache": "PyTorch caching allocator",
        "allocated_blocks": 3, "freed_blocks": 0, "trend": None, "kept_bytes": 0,
        "kept_blocks": 0, "kept_per_second": 0.0, "peak_blocks": 3}, entry)
    compare("notes", [], found["notes"])
    found = json.loads(output(options, "report", "--format", "json", "--addresses", ledger))
    first, *others = (int(one, 16) for one in found["suballocations"][0]["addresses"])
    compare("addresses", [first + 4096, first + 8192], others)
    compare("the block's address", ["0x%x" % first], found["cached"][0]["addresses"])


def without_symbols(options, place):
    """The pool has its name even if a stack has no symbols"""
    (ledger,) = run(options, place, program_kept, GPULEAK_STACK_DEPTH="0")
    (entry,) = report(options, ledger)["suballocations"]
    compare("pool", ("PyTorch caching allocator", []), (entry["cache"], entry["stack"]))


def all_freed(options, place):
    """If all tensors were freed, the list is empty"""
    (ledger,) = run(options, place, program_freed)
    compare("suballocations", [], report(options, ledger)["suballocations"])


def until_the_end(options, place):
    """The interpreter's end frees what the module keeps: the list is empty, and the process ends"""
    (ledger,) = run(options, place, program_at_exit)
    compare("suballocations", [], report(options, ledger)["suballocations"])


def moments(options, place, **extra):
    """The live bytes equal memory_allocated() at ten moments, in threads and on two devices"""
    run(options, place, program_moments, STANDIN_DEVICES="2", **extra)


def addresses(options, place):
    """Addresses that are not used any more make room: the ledger grows with what is live at a time"""
    (ledger,) = run(options, place, program_addresses)
    compare("12,000 tensors, at most 1,605 at a time; slots", [],
            [slots for slots in [slots_in(ledger)] if not 1605 <= slots <= 4500])


def two_copies(options, place):
    """Two copies of libc10 are kept apart: each profiler gets its own calls, all are recorded"""
    (ledger,) = run(options, place, program_two_copies)
    found = report(options, ledger)
    compare("blocks", [5, 7], sorted(entry["blocks"] for entry in found["suballocations"]))
    compare("notes", [], found["notes"])


def constructors(options, place):
    """16 threads allocate while two load libraries whose constructors allocate: nobody waits for
    ever"""
    run(options, place, program_constructors)


def fork(options, place):
    """A forked child that frees its parent's tensors changes nothing, and has no ledger"""
    (ledger,) = run(options, place, program_fork)
    found = report(options, ledger)
    compare("blocks", [9], [entry["blocks"] for entry in found["suballocations"]])
    compare("notes", [], found["notes"])


def imported_in_child(options, place):
    """A forked child that imports the framework has a ledger of its own"""
    reports = [report(options, ledger) for ledger in run(options, place, program_imported_in_child)]
    compare("blocks", [[2], [5]], [[entry["blocks"] for entry in one["suballocations"]]
                                   for one in reports])
    compare("notes", [[], []], [one["notes"] for one in reports])


def contradictions(options, place):
    """Unknown frees and double allocations are counted, are no errors, and pass the gate; memory of
    the CPU is ignored"""
    (ledger,) = run(options, place, program_contradictions)
    found = report(options, ledger)
    compare("notes", ["1 suballocations were reported at an address that was not free",
                      "2 suballocations were freed whose allocation gpuleak did not see"],
            found["notes"])
    compare("errors", 0, found["summary"]["errors"])
    compare("bytes", [1024, 4096], sorted(entry["bytes"] for entry in found["suballocations"]))
    output(options, "check", ledger)


def unknown_shape(options, place):
    """A function of another shape is reported once; the driver's blocks are recorded as always"""
    (ledger,) = run(options, place, program_kept, "unknown")
    found = report(options, ledger)
    (note,) = found["notes"]
    compare("note", "3 libraries report their suballocations by a function that gpuleak does not "
            "know: only the driver's blocks are recorded", note)
    compare("suballocations", None, found.get("suballocations"))
    compare("blocks", 1, found["summary"]["allocated_blocks"])
    output(options, "check", ledger)


def same_text(text):
    """TEXT without what differs in every run."""
    text = re.sub(r'("(pid|processId|start_real_ns|end_ns|peak_ns|time_ns)"): \d+', r"\1: 0", text)
    return re.sub(r'pid \d+|0x[0-9a-f]{6,}|timestamp="[^"]*"|name="pid" value="\d+"|'
                  r'"startTimeUtc": "[^"]*"', "X", text)


def without_peak(text):
    """TEXT without those who held the memory at the peak: tensors or blocks. See peak.py."""
    text = re.sub(r"(; peak [\d.]+ \w+), (?:of which|(?:almost )?all of it) [^;\n]*", r"\1", text)
    text = re.sub(r"\nPeak of [^\n]*\n(?:  [^\n]*\n)*", "", text)
    return "".join(line for line in text.splitlines(True) if not line.startswith("peak: "))


def both_ways(options, place, program, *formats, **extra):
    """The report of PROGRAM in JSON, and in FORMATS as text, with suballocations and without."""
    for switch in ("on", "off"):
        folder = os.path.join(place, switch)
        os.mkdir(folder)
        (ledger,) = run(options, folder, program, GPULEAK_SUBALLOCATIONS=switch, **extra)
        found = report(options, ledger)
        compare("has the list", switch == "on", found.pop("suballocations", None) is not None)
        found.pop("timeline", None)
        found.pop("peak")
        yield [found] + [without_peak(same_text(output(options, "report", *args, ledger,
                                                       statuses=(0, 23))))
                         for args in formats]


def nothing_else(options, place):
    """If no tensor is live, every report is the same, with suballocations and without; the
    option"""
    on, off = both_ways(options, place, program_freed, (), ("-v",), ("--gate-caches",),
                        ("--format", "junit"), ("--format", "folded"), ("--format", "github"),
                        ("--format", "sarif"))
    for found in (on, off):
        found[0] = same_text(json.dumps(found[0]))
    case = '    <testcase classname="gpuleak" name="nothing accumulates" time="0"/>'
    compare("a case", (1, 0), (on[4].count(case), off[4].count(case)))
    on[4] = on[4].replace(case + "\n", "").replace('tests="5"', 'tests="4"')
    for with_tensors, without in zip(on, off):
        compare("report", without.splitlines(), with_tensors.splitlines())


def only_in_caches(options, place, **extra):
    """If tensors are live, the first line is the same, and the cache's memory is divided"""
    on, off = both_ways(options, place, program_kept, (), ("-v",), ("--format", "folded"),
                        **extra)
    compare("summary", off[0]["summary"], on[0]["summary"])
    compare("bytes of the block in tensors", 3 * 4096,
            on[0]["cached"][0].pop("suballocated_bytes"))
    compare("caches", same_text(json.dumps(off[0]["cached"])),
            same_text(json.dumps(on[0]["cached"])))
    compare("text", off[1], on[1])
    compare("division", (1, 0), tuple(text.count(
        "2,097,152 bytes (2.0 MiB) in 1 block: 12,288 bytes (12.0 KiB) in tensors, 2,084,864 bytes "
        "(1.9 MiB) cached, unused (")
        for text in (on[2], off[2])))
    compare("live", (1, 0), tuple(text.count(
        "\nLive inside the PyTorch caching allocator: 12,288 bytes (12.0 KiB) in 3 tensors; not "
        "leaks\n  12,288 bytes (12.0 KiB) in 3 tensors (device 0)") for text in (on[2], off[2])))
    sizes = [[int(line.rsplit(" ", 1)[1]) for line in text.splitlines()] for text in
             (on[3], off[3])]
    compare("bytes of the flame graph", [[2097152 - 3 * 4096, 3 * 4096], [2097152]], sizes)


RUNS = [  # case, more arguments of run()
    (three_kept, {}),
    (three_kept, {"folder": "v1_13"}),
    (without_symbols, {}),
    (all_freed, {}),
    (until_the_end, {}),
    (moments, {}),
    (moments, EXPANDABLE),
    (addresses, {}),
    (two_copies, {}),
    (constructors, {}),
    (fork, {}),
    (imported_in_child, {}),
    (contradictions, {}),
    (unknown_shape, {}),
    (nothing_else, {}),
    (only_in_caches, {}),
    (only_in_caches, EXPANDABLE),
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
