#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What gpuleak does with reports of PyTorch that contradict each other, and with processes that
fork, end or are killed while tensors live. Each must end as it does without gpuleak, with a report
that is counted and told once, and without a wrong verdict. TAP.

    bad_input.py --torch FOLDER --preload ... --command ... --standin ... [--only TEXT]
    bad_input.py --script NAME          (a program, in this process)"""

import json
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from standin_torch import PYTHON, SITE_PACKAGES, arguments, run_steps
from harness import SLOWER, Failed, compare

sys.path.insert(0, SITE_PACKAGES)
UNKNOWN_FREES = "suballocations were freed whose allocation gpuleak did not see"
NOT_FREE = "suballocations were reported at an address that was not free"


# ---- programs: each runs in a process of its own ----

def program_unknown_frees():
    """Reports 1,000 frees of addresses that nobody allocated, and keeps one tensor."""
    import torch
    kept = torch.empty(1000, device="cuda")
    for number in range(1000):
        torch._C.report(0x10000 + 512 * number, -512, 0, 0, 1, 0)
    os._exit(0 if kept.nbytes else 1)


def program_twice():
    """Reports 500 addresses twice without a free, and frees them once."""
    import torch
    kept = torch.empty(1000, device="cuda")
    for size in (512, 1024):
        for number in range(500):
            torch._C.report(0x10000000 + 4096 * number, size, 512, 0, 1, 0)
    for number in range(500):
        torch._C.report(0x10000000 + 4096 * number, -1024, 0, 0, 1, 0)
    os._exit(0 if kept.nbytes else 1)


def program_no_block():
    """Reports suballocations at addresses that lie in no block of the driver."""
    import torch
    kept = torch.empty(1000, device="cuda")
    for number in range(7):
        torch._C.report(0x7000 + 4096 * number, 4096, 4096, 0, 1, 0)
    os._exit(0 if kept.nbytes else 1)


def program_extremes():
    """Reports addresses, sizes and devices that no allocator has."""
    import torch
    kept = torch.empty(1000, device="cuda")
    most = 2 ** 63 - 1
    for address in (0, 1, 7, 2 ** 47, 2 ** 63, 2 ** 64 - 1):
        for size in (1, most, -most - 1, -1, 0, most, -most, most):
            for device in (0, 1, 63, 127, -1, -128):
                torch._C.report(address, size, 2 ** 62, 2 ** 62, 1, device)
    for kind in (-128, -1, 0, 2, 12, 20, 127):
        torch._C.report(0x9000, 4096, 0, 0, kind, 0)
    os._exit(0 if kept.nbytes else 1)


def program_fork_after_import():
    """Children that are forked after the import, but before the first tensor, keep tensors."""
    import torch
    for count in (3, 4):
        if not os.fork():
            kept = [torch.empty(1000, device="cuda") for _ in range(count)]
            os._exit(len(kept) - count)
        compare("status of the child", 0, os.wait()[1])
    kept = [torch.empty(1000, device="cuda") for _ in range(5)]
    os._exit(len(kept) - 5)


def program_import_after_fork():
    """The parent and a child import the framework, each after the fork."""
    child = os.fork()
    import torch
    kept = [torch.empty(1000, device="cuda") for _ in range(6 if child else 2)]
    if child:
        compare("status of the child", 0, os.waitpid(child, 0)[1])
    os._exit(0 if kept else 1)


def program_fork_in_storm():
    """Forks 30 times while 8 threads allocate. The children end at once."""
    import threading
    import warnings
    import torch
    warnings.simplefilter("ignore", DeprecationWarning)  # of fork(), with the pid, since Python 3.12
    storm = threading.Thread(target=torch._C._storm, args=(8, 4000))
    storm.start()
    for number in range(30):
        child = os.fork()
        if not child:
            os._exit(number)
        compare("status of the child", number << 8, os.waitpid(child, 0)[1])
    storm.join()
    os._exit(0)


def program_constructor():
    """Opens a library whose dependency opens a library in its constructor."""
    import ctypes
    library = ctypes.CDLL(os.environ["STANDIN_ORDER"])
    compare("constructors", 1, library.order_4())
    import torch
    left["tensors"] = [torch.empty(1000, device="cuda") for _ in range(3)]
    os._exit(0)


class Late:
    """Allocates when the interpreter frees it."""

    def __init__(self, torch):
        self.torch = torch
        self.kept = torch.empty(1000, device="cuda")

    def __del__(self):
        self.torch.empty(3000, device="cuda")


def program_interpreter_ends():
    """The interpreter ends while tensors live: in the module, in a cycle, in a class attribute, in
    an exception's frame, in an exit handler, and in an object that allocates when it is freed."""
    import atexit
    import torch
    left["a tensor"] = torch.empty(1000, device="cuda")
    left["a cycle"] = [torch.empty(1000, device="cuda"), left]
    left["late"] = Late(torch)
    Late.shared = torch.empty(1000, device="cuda")
    sys.modules["kept elsewhere"] = torch.empty(1000, device="cuda")
    atexit.register(lambda: left.update(more=torch.empty(5000, device="cuda")))

    def fail():
        local = torch.empty(1000, device="cuda")
        raise ValueError(local.nbytes)

    try:
        fail()
    except ValueError as error:
        left["an exception"] = error


left = {}


def program_ends_in_storm():
    """The interpreter ends while threads that it does not wait for still allocate."""
    import threading
    import torch
    left["a tensor"] = torch.empty(1000, device="cuda")
    for _ in range(4):
        threading.Thread(target=torch._C._storm, args=(4, 1000000), daemon=True).start()
    time.sleep(0.2)


def program_killed_in_storm():
    """The process is killed while 8 threads allocate."""
    import threading
    import torch
    left["tensors"] = [torch.empty(1000, device="cuda") for _ in range(20)]
    threading.Thread(target=torch._C._storm, args=(8, 1000000), daemon=True).start()
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


def program_kept():
    """Keeps three tensors."""
    import torch
    left["tensors"] = [torch.empty(1000, device="cuda") for _ in range(3)]
    os._exit(0)


# ---- what must be recorded ----

def run(options, place, program, folder="", statuses=(0,)):
    """Runs PROGRAM, and returns the reports of its processes, the oldest first, and the ledgers. If
    it may end with several STATUSES, what it prints is not compared."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "STANDIN_", "PYTORCH_"))}
    env.update(STANDIN_PROFILER="1", STANDIN_TORCH=os.path.join(options.torch, folder),
               STANDIN_ORDER=os.path.join(options.torch, "liborder.so"),
               LD_LIBRARY_PATH=options.standin, PYTHONDONTWRITEBYTECODE="1")
    argv = [PYTHON, __file__, "--script", program.__name__]
    bare = subprocess.run(argv, env=env, check=False, capture_output=True, text=True,
                          timeout=120 * SLOWER)
    env.update(LD_PRELOAD=options.preload, GPULEAK_REPORT="none",
               GPULEAK_LEDGER=os.path.join(place, "%p"))
    ran = subprocess.run(argv, env=env, check=False, capture_output=True, text=True,
                          timeout=120 * SLOWER)
    if len(statuses) == 1:
        compare("as without gpuleak", (bare.returncode, bare.stdout, bare.stderr),
                (ran.returncode, ran.stdout, ran.stderr))
    compare("status %d" % ran.returncode, True, ran.returncode in statuses)
    ledgers = [os.path.join(place, name) for name in sorted(os.listdir(place), key=int)]
    if not ledgers:
        raise Failed("no ledger")
    return [json.loads(output(options, "report", "--format", "json", name))
            for name in ledgers], ledgers


def output(options, *args, statuses=(0,)):
    ran = subprocess.run([options.command, *args], check=False, capture_output=True, text=True,
                         timeout=120 * SLOWER)
    if ran.returncode not in statuses or ran.stderr:
        raise Failed("status %d of %s\n%s%s" % (ran.returncode, args, ran.stdout, ran.stderr))
    return ran.stdout


def blocks_of(found):
    return sorted(entry["blocks"] for entry in found.get("suballocations", []) if entry["blocks"])


def no_verdict(options, found, ledger, *notes):
    """The report has these NOTES, each once and in the text too, and no leak or error. All blocks
    are in the framework's cache."""
    compare("notes", list(notes), found["notes"])
    compare("leaks and errors", (0, 0), (found["summary"]["leaked_blocks"],
                                         found["summary"]["errors"]))
    text = output(options, "report", ledger)
    for note in notes:
        compare("in the text", 1, text.count(note))
    compare("first line", True, text.startswith("gpuleak: no leaks: ") or text.split("\n")[0])
    output(options, "check", ledger)


def other_shape(options, place):
    """PyTorch's function has another shape: one note, driver blocks as always"""
    (found,), (ledger,) = run(options, place, program_kept, "unknown")
    no_verdict(options, found, ledger, "3 libraries report their suballocations by a function that "
               "gpuleak does not know: only the driver's blocks are recorded")
    compare("suballocations", None, found.get("suballocations"))
    compare("blocks", (1, 1), (found["summary"]["allocated_blocks"],
                               found["summary"]["cached_blocks"]))


def unknown_frees(options, place):
    """Frees of unknown addresses are counted, and change nothing"""
    (found,), (ledger,) = run(options, place, program_unknown_frees)
    no_verdict(options, found, ledger, "1,000 " + UNKNOWN_FREES)
    compare("blocks", [1], blocks_of(found))


def twice(options, place):
    """An address is allocated twice without a free: the second allocation counts, one free ends
    it"""
    (found,), (ledger,) = run(options, place, program_twice)
    no_verdict(options, found, ledger, "500 " + NOT_FREE)
    compare("blocks", [1], blocks_of(found))


def no_block(options, place):
    """Suballocations that lie in no block of the driver are listed, told once, and in no sum"""
    (found,), (ledger,) = run(options, place, program_no_block)
    compare("leaks and errors", (0, 0), (found["summary"]["leaked_blocks"],
                                         found["summary"]["errors"]))
    output(options, "check", ledger)
    compare("blocks outside", [(1, None), (7, 7)], sorted(
        (entry["blocks"], entry.get("outside_blocks")) for entry in found["suballocations"]))
    compare("note", 1, output(options, "report", ledger).count(
        "note: 7 tensors lie in no driver block that gpuleak recorded: "))
    compare("driver's blocks", (1, 2 << 20), (found["summary"]["cached_blocks"],
                                              found["summary"]["cached_bytes"]))


def extremes(options, place):
    """Addresses, sizes and devices that no allocator has: no crash, no leak, no error"""
    (found,), (ledger,) = run(options, place, program_extremes)
    compare("leaks and errors", (0, 0), (found["summary"]["leaked_blocks"],
                                         found["summary"]["errors"]))
    compare("driver's blocks", 1, found["summary"]["allocated_blocks"])
    # An address is known by device, and gpuleak takes devices whose numbers differ by a multiple of
    # 32 for one. So these are three: 0 and -128; 1; 63, 127 and -1.
    compare("notes", ["90 " + NOT_FREE, "72 " + UNKNOWN_FREES], found["notes"])
    for words in (("--format", "html"), ("--format", "openmetrics"), ("-v",)):
        output(options, "report", *words, ledger)
    output(options, "check", ledger)


def forks(options, place, program, wanted):
    """Parent and children have a report of their own each"""
    reports, ledgers = run(options, place, program)
    compare("blocks", wanted, sorted(blocks_of(found) for found in reports))
    for found, ledger in zip(reports, ledgers):
        no_verdict(options, found, ledger)


def fork_in_storm(options, place):
    """Forks while other threads allocate: children and parent end, the parent's list is empty"""
    reports, ledgers = run(options, place, program_fork_in_storm)
    compare("reports", 1, len(reports))
    compare("blocks", [], blocks_of(reports[0]))
    no_verdict(options, reports[0], ledgers[0])


def constructor(options, place):
    """PyTorch's libraries are found while constructors run: these run in their own order"""
    (found,), (ledger,) = run(options, place, program_constructor)
    no_verdict(options, found, ledger)
    compare("blocks", [3], blocks_of(found))


def interpreter_ends(options, place):
    """The interpreter ends while tensors live: it frees them, and the report comes after that"""
    (found,), (ledger,) = run(options, place, program_interpreter_ends)
    no_verdict(options, found, ledger)
    compare("blocks", [], blocks_of(found))


def ends_in_storm(options, place):
    """The interpreter ends while threads allocate: nobody waits, and nothing is a leak"""
    # After the driver's own end, the stand-in for the allocator ends the process with status 1.
    (found,), (ledger,) = run(options, place, program_ends_in_storm, statuses=(0, 1))
    compare("errors", 0, found["summary"]["errors"])
    compare("leaks", 0, found["summary"]["leaked_blocks"])
    # On a busy machine the threads still take their first tensors: then these accumulate.
    text = output(options, "report", ledger)
    compare("first line", True, text.startswith("gpuleak: no leaks") or " accumulate" in text.split("\n")[0] or
            text.split("\n")[0])


def killed_in_storm(options, place):
    """A process is killed while threads allocate: the ledger can be read, and has what was kept"""
    (found,), (ledger,) = run(options, place, program_killed_in_storm,
                              statuses=(-signal.SIGKILL,))
    if 20 not in blocks_of(found):
        raise Failed("the 20 tensors are not listed: %s" % blocks_of(found))
    compare("errors", 0, found["summary"]["errors"])
    text = output(options, "report", "-v", ledger)
    compare("damage", [], re.findall(r".*(?:damaged|unreadable).*", text))


RUNS = [  # case, more arguments of the case
    (other_shape, {}),
    (unknown_frees, {}),
    (twice, {}),
    (no_block, {}),
    (extremes, {}),
    (forks, {"program": program_fork_after_import, "wanted": [[3], [4], [5]]}),
    (forks, {"program": program_import_after_fork, "wanted": [[2], [6]]}),
    (fork_in_storm, {}),
    (constructor, {}),
    (interpreter_ends, {}),
    (ends_in_storm, {}),
    (killed_in_storm, {}),
]


def run_case(options, place, case, more):
    case(options, place, **more)


def name_of(case, more):
    name = " ".join(case.__doc__.split())
    return name + ": " + " ".join(more["program"].__doc__.split()) if more else name


def main():
    options = arguments(__doc__)
    if options.script:
        return globals()[options.script]()
    return run_steps(options, [(name_of(case, more), run_case, case, more) for case, more in RUNS])


if __name__ == "__main__":
    sys.exit(main())
