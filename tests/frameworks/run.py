#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python programs on real frameworks: PyCUDA, built from its source package, on the stand-in
driver; PyOpenCL on PoCL. Every block, byte and line that must be reported stands in CASES. TAP.

    run.py pycuda|pyopencl --preload ... --command ... --standin ... --venv DIR

A line that a report must name carries a marker, `# @leak`; expectations say function@marker."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "programs"))

import harness
from harness import Failed, compare

PYTHON = "/usr/bin/python3"
MIB = 1 << 20


class Leak:
    """STACK: the script's own frames, innermost first."""

    def __init__(self, api, kind, blocks, size, *stack):
        self.api, self.kind, self.blocks, self.bytes, self.stack = api, kind, blocks, size, stack


class Error:
    def __init__(self, type_, api, size, stack, allocated, freed):
        self.type, self.api, self.bytes = type_, api, size
        self.stack, self.allocated, self.freed = stack, allocated, freed


class Case:
    """What must be: PRINTS by the program (None: not looked at), its STATUS (None: any), blocks and
    bytes ALLOCATED, the LEAKS, what is CACHED by the cache's name, the ERRORS."""

    def __init__(self, script, allocated, leaks=(), errors=(), args=(), status=0, prints=None,
                 env=None, cached=()):
        self.cached = dict(cached)
        self.script, self.args, self.status, self.prints = script, args, status, prints
        self.allocated, self.leaks, self.errors, self.env = allocated, leaks, errors, env or {}
        self.name = " ".join((os.path.basename(script),) + tuple(args))


def program(name):
    return os.path.join(HERE, "programs", name)


def example(name):
    return os.path.join(ROOT, "docs", "examples", name)


FRAMES_CUDA = Leak("cuMemAlloc_v2", "device", 10, 40 * MIB,
                   "on_device@made", "size@sent", "<module>@run")
FRAMES_CL = Leak("clCreateBuffer", "cl-buffer", 10, 40 * MIB,
                 "on_device@made", "brightest@sent", "<module>@run")

# The three examples of a well-known answer to "How to release memory in PyCUDA?" (see the
# programs). It says of the first that it leaks 10 blocks. It does not: PyCUDA and PyOpenCL free
# a block with its last reference; each block must be reported as freed, none as leaked.
CASES = {
    "pycuda": [
        Case(program("pycuda_bad.py"), (10, 40 * MIB), prints=""),
        Case(program("pycuda_good.py"), (10, 40 * MIB), prints=""),
        Case(program("pycuda_function.py"), (1, 4 * MIB), status=1, prints=""),
        Case(program("pycuda_twice.py"), (1, MIB),
             prints="device_allocation::free failed: invalid resource handle\n"),
        Case(example("frames_pycuda.py"), (10, 40 * MIB), [FRAMES_CUDA], prints="4194304\n" * 10),
        Case(program("pycuda_families.py"), (5, 27479), [
            Leak("cuArrayCreate_v2", "array", 1, 8192, "array@array", "<module>@call"),
            Leak("cuMemAllocPitch_v2", "device", 1, 7168, "pitched@pitched", "<module>@call"),
            Leak("cuMemAllocManaged", "managed", 1, 4000, "managed@managed", "<module>@call"),
            Leak("cuMemHostAlloc", "pinned", 1, 3000, "pinned@pinned", "<module>@call"),
        ], args=("pitched", "managed", "pinned", "array", "pool"), prints="",
             # PyCUDA is compiled without inlining here, so that its pool has a frame.
             cached={"PyCUDA memory pool": Leak("cuMemAlloc_v2", "device", 1, 5119, "pool@pool",
                                                "<module>@call")}),
    ],
    "pyopencl": [
        Case(program("pyopencl_bad.py"), (10, 40 * MIB), prints=""),
        Case(program("pyopencl_good.py"), (10, 40 * MIB), prints=""),
        Case(program("pyopencl_function.py"), (2, 8 * MIB), prints=""),
        Case(program("pyopencl_twice.py"), (1, MIB),
             prints="MemoryObject.free failed: INVALID_VALUE - trying to double-unref mem object\n"),
        Case(example("frames_pyopencl.py"), (10, 40 * MIB), [FRAMES_CL],
             prints="".join("%d.0\n" % i for i in range(10))),
        Case(program("pyopencl_specialised.py"), (10, 10000), [
            Leak("clCreateBuffer", "cl-buffer", 10, 10000,
                 "lose@made", "<genexpr>@sum", "<module>@sum")], prints="45\n"),
        # Some drivers die of it, others answer: both are a double free.
        Case(program("pyopencl_stolen.py"), (1, 5000), errors=[
            Error("double-free", "clReleaseMemObject", 5000,
                  ("give_back@second", "<module>@call"), ("<module>@made",), ("<module>@first",)),
        ], status=None),
    ],
}


# ---- what was reported ----

def marked_lines(script):
    """{marker: line}"""
    with open(script, encoding="utf-8") as file:
        return {found: number for number, line in enumerate(file, 1)
                for found in re.findall(r"# @(\w+)", line)}


def own_frames(stack, script):
    """The script's own frames of a stack in JSON, as function@line."""
    return tuple("%s@%d" % ((frame["function"] or "").rpartition(".")[2], frame["line"])
                 for frame in stack or () if frame["file"] == script)


def with_lines(stack, script):
    lines = marked_lines(script)
    return tuple("%s@%d" % (function, lines[marker])
                 for function, _, marker in (frame.partition("@") for frame in stack))


def found(leak, script):
    return (leak["api"], leak["kind"], leak["blocks"], leak["bytes"],
            own_frames(leak["stack"], script))


def wanted(leak, script):
    return (leak.api, leak.kind, leak.blocks, leak.bytes, with_lines(leak.stack, script))


def check_report(case, report):
    compare("allocated", list(case.allocated),
            [report["summary"][key] for key in ("allocated_blocks", "allocated_bytes")])
    compare("leaks", sorted(wanted(leak, case.script) for leak in case.leaks),
            sorted(found(leak, case.script) for leak in report["leaks"]))
    compare("cached", sorted((name, wanted(leak, case.script)) for name, leak in case.cached.items()),
            sorted((leak["cache"], found(leak, case.script)) for leak in report["cached"]))
    freed = case.allocated[0] - sum(leak.blocks for leak in [*case.leaks, *case.cached.values()])
    compare("freed", freed, report["summary"]["freed_blocks"])
    compare("errors", [
        (error.type, error.api, error.bytes)
        + tuple(with_lines(stack, case.script) for stack in (error.stack, error.allocated, error.freed))
        for error in case.errors], [
        (error["type"], error["api"], error["allocated"]["bytes"])
        + tuple(own_frames(stack, case.script) for stack in (
            error["stack"], error["allocated"]["stack"], error["freed"]["stack"]))
        for error in report["errors"]])
    compare("notes", [], report["notes"])


def headline_place(case):
    """What the first line says of the largest leak, or of the first error: function, file, line."""
    if case.errors:
        frame = with_lines(case.errors[0].stack, case.script)[0]
    else:
        largest = max(case.leaks, key=lambda leak: leak.bytes)
        frame = with_lines(largest.stack, case.script)[0]
    function, _, line = frame.partition("@")
    return re.compile(r"at ([\w.<>]*\.)?%s \(\S*%s:%s\)" % (
        re.escape(function), re.escape(os.path.basename(case.script)), line))


def check_text(case, told):
    first = told.split("\n")[0]
    if not case.leaks and not case.errors:
        wanted = "gpuleak: no leaks: %d block" % case.allocated[0]
        if not first.startswith(wanted) or "all freed; peak " not in first:
            raise Failed("the first line is not '%s ... all freed; peak':\n%s" % (wanted, first))
    elif not headline_place(case).search(first):
        raise Failed("the first line does not say %s:\n%s" % (headline_place(case).pattern, first))


# ---- running ----

# The driver jumps to an address that it reads from freed memory. The address differs in each run,
# and so may the signal. A driver that checks the object's parts aborts.
WILD_JUMPS = {128 + number
              for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT)}


def outcome(case, status):
    """As the shell says it; one word for a crash if CASE may end with any status."""
    status = harness.shell_status(status)
    return "crash" if case.status is None and status in WILD_JUMPS else status


def check_case(case, python, place):
    command = [python, case.script] + list(case.args)
    warm = place.run(command, case.env)  # fills caches, tells what the bare program does
    bare = place.run(command, case.env)
    if case.status is not None:
        compare("status without gpuleak", case.status, bare.status)
    if case.prints is not None:
        compare("output without gpuleak", case.prints, bare.stdout)
    del warm

    gate = 23 if case.leaks or case.errors else 0
    run = place.command("run", "--gate", "--format", "json", "--report", place.file("report.json"),
                        "--", *command, env=case.env)
    compare("status", outcome(case, bare.status) or gate, outcome(case, run.status))
    compare("output", bare.stdout, run.stdout)
    check_report(case, place.json("report.json"))

    text = place.command("run", "--report", place.file("report.txt"), "--", *command, env=case.env)
    compare("status without a gate", outcome(case, bare.status), outcome(case, text.status))
    compare("stderr", bare.stderr, harness.but_written(text.stderr))
    check_text(case, place.read("report.txt"))
    place.nothing_left()


def defined(tool_lines):
    return {line.split()[-1].partition("@")[0] for line in tool_lines if line.split()}


def linked_symbols(options):
    """Every driver symbol that PyCUDA links exists in the stand-in."""
    (driver,) = [os.path.join(folder, name)
                 for folder, _, names in os.walk(options.venv) for name in names
                 if re.match(r"_driver\..*\.so$", name)]
    def names(which, path):
        told = subprocess.run(["nm", "-D", which, path], check=True, capture_output=True, text=True)
        return defined(told.stdout.splitlines())
    wanted = {name for name in names("--undefined-only", driver) if re.match(r"cu[A-Z]", name)}
    if len(wanted) < 100:
        raise Failed("only %d driver symbols in %s: is it PyCUDA?" % (len(wanted), driver))
    have = names("--defined-only", os.path.join(options.standin, "libcuda.so.1"))
    compare("driver symbols that the stand-in lacks", [], sorted(wanted - have))


def unavailable(family, options):
    """Why FAMILY can't run here, or None."""
    if family == "pyopencl":
        told = subprocess.run([PYTHON, "-c", "import pyopencl; pyopencl.get_platforms()"],
                              capture_output=True, text=True, check=False)
        return told.stderr.strip().split("\n")[-1] if told.returncode else None
    if not shutil.which("nm"):
        return "no nm"
    told = subprocess.run([os.path.join(HERE, "pycuda.sh"), options.venv, options.standin],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if told.returncode:
        print("\n".join("# " + line for line in (told.stdout + told.stderr).split("\n")[-30:]))
        return "PyCUDA was not built: " + told.stderr.strip().split("\n")[-1]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=sorted(CASES))
    for name in ("preload", "command", "standin", "venv"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--only", default="", help="only cases with this in their name")
    options = parser.parse_args()
    for name in ("preload", "command", "standin", "venv"):
        setattr(options, name, os.path.realpath(getattr(options, name)))
    options.programs = HERE

    tap = harness.Tap()
    reason = unavailable(options.family, options)
    if reason:
        must = os.environ.get("GPULEAK_MUST_RUN")
        tap.line(options.family, reason if must else None, None if must else reason)
    else:
        python = PYTHON if options.family == "pyopencl" else os.path.join(options.venv, "bin", "python")
        if options.family == "pycuda":
            tap.step("every driver symbol that PyCUDA links exists in the stand-in",
                     linked_symbols, options)
        for case in CASES[options.family]:
            if options.only in case.name:
                def in_place(case=case):
                    with harness.a_place(options) as place:
                        check_case(case, python, place)
                tap.step(case.name, in_place)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
