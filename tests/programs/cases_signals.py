# SPDX-License-Identifier: MIT
"""Signals and forks that come while gpuleak walks a stack."""

import os

from harness import compare

# Elsewhere a walk does not call dl_iterate_phdr(), where the program raises its signals.
IS_X86_64 = os.uname().machine == "x86_64"


def as_bare(place, how, gate=0):
    """Bare and under the gate the program prints the same. Returns the report's process."""
    argv = [place.program("signals"), how]
    bare = place.run(argv)
    compare("%s, bare: status" % how, 0, bare.status)
    run = place.command("run", "--gate", "--format", "json", "--report",
                        place.file("report.json"), "--", *argv)
    compare("%s: status, stdout" % how, (gate, bare.stdout), (run.status, run.stdout))
    place.nothing_left()
    return place.json("report.json")


def large_handlers(place):
    """a handler with a frame of 1 MiB, in the middle of a walk: it runs on the thread's stack"""
    report = as_bare(place, "large")
    compare("blocks", 32, report["summary"]["allocated_blocks"])


def collector(place):
    """a collector stops a thread by a signal: each time it finds what the thread's stack refers to"""
    as_bare(place, "collect")


def nested_handlers(place):
    """handlers of signals that waited for a walk allocate, each inside the one before: all blocks
    are recorded, from the third walk on without a stack, and the gate passes"""
    report = as_bare(place, "nested")
    summary = report["summary"]
    compare("freed, errors", (summary["allocated_blocks"], 0),
            (summary["freed_blocks"], summary["errors"]))
    if IS_X86_64:
        without = "calls of nested signal handlers were recorded without a stack"
        compare("blocks, notes", (5, ["4 " + without]),
                (summary["allocated_blocks"], report["notes"]))


def jump_out(place):
    """SIGSEGV in the middle of a walk, whose handler jumps out: other signals arrive afterwards"""
    report = as_bare(place, "jump", gate=23 if IS_X86_64 else 0)
    compare("recording stopped", IS_X86_64, any("left gpuleak by longjmp" in note
                                                for note in report["notes"]))


def fork_in_walk(place):
    """a fork while another thread is in libunwind: the child's first walk does not wait forever"""
    argv = [place.program("signals"), "fork"]
    bare = place.run(argv)
    run = place.preloaded(argv, {"GPULEAK_REPORT": place.file("report-%p")})
    compare("status, stdout", (0, bare.stdout, "the child ended\n"),
            (run.status, run.stdout, run.stdout))


SIGNALS = [large_handlers, collector, nested_handlers, jump_out, fork_in_walk]
