#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks who held the memory at the peak in PyTorch's stand-ins: tensors instead of the blocks that
they lie in, and what the cache did not use. TAP.

    peak.py --torch FOLDER --preload ... --command ... --standin ... [--only TEXT]
    peak.py --script NAME     (a program, in this process)"""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

from out_of_memory import EXPANDABLE, MIB, Place, caches, held, mebibytes
from standin_torch import arguments, run_steps
from harness import compare


# ---- programs: each runs in a process of its own, on a device of 100 MiB ----

def weights():
    return own_mebibytes(40)


def activations():
    tensors = []
    for _ in range(10):
        tensors.append(own_mebibytes(2))
    return tensors


def gradients():
    return own_mebibytes(30)


def own_mebibytes(count):
    return mebibytes(count)


def program_training():
    """Steps whose activations and gradients are freed; the weights remain."""
    kept = weights()
    for _ in range(3):
        tensors = activations(), gradients()
        del tensors
    return kept


def program_unused():
    """The cache keeps a block of 30 MiB, of which 20 MiB are used when the peak comes."""
    temporary = gradients()
    del temporary
    return activations(), weights()


def program_later():
    """The cache has its block from the first tensor on. The peak is at the tenth."""
    tensors = activations()
    del tensors[1:]
    tensors += activations()[:3]


# ---- cases ----

def peak_of(place, program, **env):
    line, report = place.run(program, **env)
    compare("other memories", [], report["peak"]["others"])
    return line, report["peak"]


def figures(peak):
    return tuple(peak[key] for key in ("memory", "device", "bytes", "error_bytes"))


def tensors_of(peak):
    of_tensors = {"holders": [holder for holder in peak["holders"]
                              if holder["kind"] == "suballocation"]}
    return held(of_tensors, "peak.py")


def rest_of(peak):
    return [(holder["kind"], holder["bytes"], holder["cache"], holder["stack"])
            for holder in peak["holders"] if holder["kind"] != "suballocation"]


STEP = {("weights", "suballocation"): (40 * MIB, 1),
        ("activations", "suballocation"): (20 * MIB, 10),
        ("gradients", "suballocation"): (30 * MIB, 1)}


def training(place):
    """A training step: its tensors hold the peak, to the byte"""
    line, peak = peak_of(place, "training")
    compare("figures", ("device", 0, 90 * MIB, 0), figures(peak))
    compare("tensors", STEP, tensors_of(peak))
    compare("rest", [], rest_of(peak))
    compare("caches", [("PyTorch caching allocator", 90 * MIB)], caches(peak))
    compare("line", True, "; peak 90.0 MiB, " in line and line.startswith("gpuleak: no leaks: ") or line)


def expandable(place):
    """With expandable segments: the same tensors, the rest is unused"""
    _, peak = peak_of(place, "training", **EXPANDABLE)
    compare("tensors", STEP, tensors_of(peak))
    compare("sum and error", (peak["bytes"], 0), (
        sum(holder["bytes"] for holder in peak["holders"]), peak["error_bytes"]))
    compare("caches", {"PyTorch caching allocator"}, {name for name, _ in caches(peak)})


def unused(place):
    """What the cache kept without use is one holder"""
    line, peak = peak_of(place, "unused")
    compare("figures", ("device", 0, 70 * MIB, 0), figures(peak))
    compare("tensors", {name: STEP[name] for name in STEP if name[0] != "gradients"},
            tensors_of(peak))
    compare("rest", [("device", 10 * MIB, "PyTorch caching allocator", [])], rest_of(peak))
    compare("place", ["unused in the PyTorch caching allocator"], [
        each["name"] for each in peak["places"] if each["bytes"] == 10 * MIB])
    compare("line", True, ", of which 60.0 MiB by mebibytes (" in line or line)


def later(place):
    """Of the moments with as much memory, that with most tensors is the peak"""
    _, peak = peak_of(place, "later")
    compare("figures", ("device", 0, 40 * MIB, 0), figures(peak))
    compare("tensors", [(20 * MIB, 10), (2 * MIB, 1)], [
        (holder["bytes"], holder["blocks"]) for holder in peak["holders"]
        if holder["kind"] == "suballocation"])
    compare("rest", [("device", 18 * MIB, "PyTorch caching allocator", [])], rest_of(peak))


def switched_off(place):
    """Without suballocations the blocks are the holders, each with its stack"""
    _, peak = peak_of(place, "unused", GPULEAK_SUBALLOCATIONS="off")
    compare("holders", {("weights", "device"): (40 * MIB, 1), ("gradients", "device"): (30 * MIB, 1)},
            held(peak, "peak.py"))


CASES = [training, expandable, unused, later, switched_off]


def in_place(options, path, case):
    case(Place(options, path, __file__))


def main():
    options = arguments(__doc__)
    if options.script:
        kept["until the end"] = globals()["program_" + options.script]()
        return 0
    return run_steps(options, [(case.__doc__, in_place, case) for case in CASES])


kept = {}

if __name__ == "__main__":
    sys.exit(main())
