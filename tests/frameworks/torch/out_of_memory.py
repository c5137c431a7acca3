#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what gpuleak reports when PyTorch's stand-ins run out of memory: the outcome, and who held
the memory, tensors instead of the blocks that they lie in. TAP.

    out_of_memory.py --torch FOLDER --preload ... --command ... --standin ... [--only TEXT]
    out_of_memory.py --script NAME     (a program, in this process)"""

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

sys.path.insert(0, SITE_PACKAGES)
MIB = 1 << 20
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


# ---- programs: each runs in a process of its own, on a device of 100 MiB ----

def mebibytes(count):
    import torch
    return torch.empty(count * MIB, dtype=torch.uint8, device="cuda")


def weights():
    return mebibytes(40)


def kv_cache():
    tensors = []
    for _ in range(10):
        tensors.append(mebibytes(2))
    return tensors


def decode(count=50):
    return mebibytes(count)


def program_uncaught():
    """Ends with an exception."""
    kept = weights(), kv_cache()
    decode()
    del kept


def program_caught():
    """Catches it at the end of all its work."""
    kept = weights(), kv_cache()
    try:
        decode()
    except Exception as error:  # pylint: disable=broad-except
        sys.stdout.write(type(error).__name__)
    return kept


def program_smaller():
    """Catches it and works on with less."""
    kept = weights(), kv_cache()
    try:
        decode()
    except Exception:  # pylint: disable=broad-except
        kept += (decode(12),)
    return kept


def program_cached():
    """Fills the cache; then a request needs what is cached."""
    kept = weights()
    for _ in range(2):
        big = mebibytes(44)
        del big
    return kept, decode()


def program_loop():
    """Catches it a thousand times."""
    kept = weights(), kv_cache()
    for _ in range(1000):
        try:
            decode()
        except Exception:  # pylint: disable=broad-except
            pass
    decode(1)
    return kept


def program_own_limit():
    """The framework refuses by a limit of its own: the driver is not called."""
    import torch
    kept = weights()
    torch._C.report_out_of_memory(30 * MIB, 40 * MIB, 40 * MIB, 1, 0)
    os._exit(1 if kept else 0)


def program_cpu():
    """Runs out of the CPU's memory."""
    import torch
    kept = weights()
    torch._C.report_out_of_memory(30 * MIB, 40 * MIB, 40 * MIB, 0, -1)
    os._exit(1 if kept else 0)


# ---- cases ----

class Place:
    def __init__(self, options, path, script=__file__):
        self.options, self.path, self.script, self.runs = options, path, script, 0
        self.output = self.errors = ""  # of the last run

    def run(self, program, status=0, options=(), **more):
        """The first line of the text report, and the JSON report of the same ledger."""
        self.runs += 1
        ledger = os.path.join(self.path, "ledger-%d" % self.runs)
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("GPULEAK_", "STANDIN_", "PYTORCH_"))}
        env.update(STANDIN_TORCH=self.options.torch, LD_LIBRARY_PATH=self.options.standin,
                   STANDIN_MEMORY=str(100 * MIB), PYTHONDONTWRITEBYTECODE="1", **more)
        ran = subprocess.run(
            [self.options.command, "run", *options, "--ledger", ledger, "--report",
             os.path.join(self.path, "text"), "--", PYTHON, self.script, "--script", program],
            env=env, check=False, capture_output=True, text=True, timeout=120 * SLOWER)
        compare("status of %s, after\n%s%s" % (program, ran.stdout, ran.stderr), status,
                ran.returncode)
        self.output, self.errors = ran.stdout, ran.stderr
        told = subprocess.run([self.options.command, "report", "--format", "json", ledger],
                              check=True, capture_output=True, text=True)
        with open(os.path.join(self.path, "text"), encoding="utf-8") as file:
            return file.readline(), json.loads(told.stdout)


def only_entry(report):
    compare("entries", 1, len(report["out_of_memory"]))
    return report["out_of_memory"][0]


def python_functions(stack, script="out_of_memory.py"):
    return [frame["function"] for frame in stack if frame.get("language") == "python" and
            (frame["file"] or "").endswith("/" + script)]


def held(entry, script="out_of_memory.py"):
    """Bytes and blocks of each holder with a stack, by the function of the script that calls the
    innermost one, and the kind."""
    return {(python_functions(holder["stack"], script)[1], holder["kind"]):
            (holder["bytes"], holder["blocks"]) for holder in entry["holders"] if holder["stack"]}


def caches(entry):
    return [(each["name"], each["bytes"]) for each in entry["caches"]]


# Ten tensors of 2 MiB lie in segments of 20 MiB.
HELD = {("weights", "suballocation"): (40 * MIB, 1), ("kv_cache", "suballocation"): (20 * MIB, 10)}


def uncaught(place):
    """An exception that ends the program: final, with the tensors in the first line"""
    line, report = place.run("uncaught", status=1)
    entry = only_entry(report)
    compare("entry", ("final", "driver", 50 * MIB, 2, "cuMemAlloc_v2", 60 * MIB), tuple(
        entry[key] for key in ("outcome", "refused_by", "requested_bytes", "times", "api",
                               "tracked_bytes")))
    compare("framework", {"name": "PyTorch", "requested_bytes": 50 * MIB,
                          "allocated_bytes": 60 * MIB, "reserved_bytes": 60 * MIB},
            entry["framework"])
    compare("where", ["mebibytes", "decode", "program_uncaught"],
            python_functions(entry["stack"])[:3])
    compare("holders", HELD, held(entry))
    compare("caches", [("PyTorch caching allocator", 60 * MIB)], caches(entry))
    if not re.match(r"gpuleak: out of memory: 50\.0 MiB wanted at mebibytes \(\S+out_of_memory\.py:"
                    r"\d+\); held: 60\.0 MiB mebibytes \(\S+out_of_memory\.py:\d+\)$", line):
        raise Failed(line)


def expandable(place):
    """With expandable segments: what the request itself had got in pieces is no holder"""
    _, report = place.run("uncaught", status=1, **EXPANDABLE)
    entry = only_entry(report)
    compare("entry", ("final", "cuMemCreate", 20 * MIB, 50 * MIB), (
        entry["outcome"], entry["api"], entry["requested_bytes"],
        entry["framework"]["requested_bytes"]))
    compare("holders", HELD, held(entry))


def caught(place):
    """Caught, and nothing allocated afterwards: final, though the status is 0"""
    line, report = place.run("caught")
    compare("outcome", "final", only_entry(report)["outcome"])
    compare("line", "gpuleak: out of memory: ", line[:24])


def smaller(place):
    """Caught, and the program works on with less: tolerated"""
    line, report = place.run("smaller")
    compare("outcome", "tolerated", only_entry(report)["outcome"])
    compare("line", False, line.startswith("gpuleak: out of memory"))
    _, report = place.run("smaller", **EXPANDABLE)
    compare("outcome", "tolerated", only_entry(report)["outcome"])


def cached(place):
    """PyTorch frees its cache and tries again: recovered, and the cache's unused part is a holder"""
    _, report = place.run("cached")
    entry = only_entry(report)
    compare("entry", ("recovered", 1, None),
            (entry["outcome"], entry["times"], entry.get("framework")))
    unused = [holder["bytes"] for holder in entry["holders"] if holder["kind"] != "suballocation"]
    compare("holders", ((40 * MIB, 1), [44 * MIB], 84 * MIB),
            (held(entry)[("weights", "suballocation")], unused, entry["tracked_bytes"]))
    compare("stacks", [False], [bool(holder["stack"]) for holder in entry["holders"]
                                if holder["kind"] != "suballocation"])
    compare("name", "unused in the PyTorch caching allocator", entry["places"][0]["name"])


def loop(place):
    """Caught a thousand times: the first and the last ones, and fast"""
    _, report = place.run("loop")
    compare("count", 1000, report["out_of_memory_count"])
    compare("outcomes", {"tolerated"}, {entry["outcome"] for entry in report["out_of_memory"]})
    compare("each was given up", 8, len([entry["framework"] for entry in report["out_of_memory"]]))


def own_limit(place):
    """Refused by PyTorch's own limit: recorded without a call of the driver"""
    _, report = place.run("own_limit", status=1)
    entry = only_entry(report)
    compare("entry", ("final", "PyTorch", 30 * MIB, "c10::reportOutOfMemoryToProfiler", None),
            tuple(entry[key] for key in ("outcome", "refused_by", "requested_bytes", "api",
                                         "free_bytes")))
    compare("holders", {("weights", "suballocation"): (40 * MIB, 1)}, held(entry))
    _, report = place.run("cpu", status=1)
    compare("of the CPU", [], report["out_of_memory"])


def switched_off(place):
    """Without suballocations the blocks are the holders"""
    _, report = place.run("uncaught", status=1, GPULEAK_SUBALLOCATIONS="off")
    entry = only_entry(report)
    compare("holders", {("weights", "device"): (40 * MIB, 1), ("kv_cache", "device"):
                        (20 * MIB, 1)}, held(entry))
    compare("outcome", "final", entry["outcome"])


CASES = [uncaught, expandable, caught, smaller, cached, loop, own_limit, switched_off]


def in_place(options, path, case):
    case(Place(options, path))


def main():
    options = arguments(__doc__)
    if options.script:
        kept["until the end"] = globals()["program_" + options.script]()
        return 0
    return run_steps(options, [(case.__doc__, in_place, case) for case in CASES])


kept = {}

if __name__ == "__main__":
    sys.exit(main())
