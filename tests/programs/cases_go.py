# SPDX-License-Identifier: MIT
"""Goroutines that leak through C: the report names lines of Go."""

import functools
import json
import os
import re
import shutil
import struct
import subprocess
import sys

from harness import HERE, Failed, Missing, compare

SOURCE = os.path.join(HERE, "go", "main.go")


@functools.cache
def built(programs, standin, name, *flags):
    """Builds the Go program as NAME, once, and returns its path. The first build on a machine compiles
    Go's own packages for half a minute."""
    go = shutil.which("go")
    if not go:
        raise Missing("Go's compiler is not installed")
    path = os.path.join(programs, name)
    environment = dict(os.environ, CGO_ENABLED="1", CGO_CFLAGS="-g -O2 -I" + HERE, GOFLAGS="-mod=mod -p=2",
                       CGO_LDFLAGS="-L%s -l:libcuda.so.1" % standin)
    environment.setdefault("HOME", programs)
    run = subprocess.run([go, "build", *flags, "-o", path, "."], cwd=os.path.dirname(SOURCE),
                         env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         check=False)
    if run.returncode:
        raise Failed("go build: " + run.stdout)
    return path


def build(place, name="p_go", *flags):
    return built(place.options.programs, place.options.standin, name, *flags)


def lines():
    with open(SOURCE, encoding="utf-8") as file:
        return {number: found.group(1) for number, line in enumerate(file, 1)
                if (found := re.search(r"// @(\w+)", line))}


def stacks(place, *argv, env=None):
    """Returns {stack: bytes} of the leaks. A stack has FUNCTION@MARKER of each frame of main.go, and the
    report's first lines."""
    path = place.file("report.json")
    run = place.command("run", "--format", "json", "--report", path, "--", *argv, env=env)
    compare("run", (0, ""), (run.status, run.stdout))
    markers, ret = lines(), {}
    for leak in place.json("report.json")["leaks"]:
        stack = tuple("%s@%s" % (frame["function"].replace("main.", ""), markers[frame["line"]])
                      for frame in leak["stack"]
                      if frame["file"] and os.path.realpath(frame["file"]) == SOURCE
                      and frame["line"] in markers)
        ret[stack] = ret.get(stack, 0) + leak["bytes"]
    return ret


def two(place):
    """two functions of Go that leak through one function of C are two findings"""
    program = build(place)
    compare("stacks", {("oldLeak@old", "main@two_old"): 1000, ("newLeak@new", "main@two_new"): 2000},
            stacks(place, program, "two"))
    run = place.command("run", "--", program, "two")
    first = run.stderr.split("\n")[0]
    line = next(number for number, marker in lines().items() if marker == "new")
    wanted = "gpuleak: 2 leaks, 2.9 KiB in 2 blocks never freed, most (1.9 KiB) at main.newLeak ("
    if not first.startswith(wanted) or "/main.go:%d), " % line not in first:
        raise Failed("first line: " + first)
    compare("note", [], re.findall("^note: .*missing.*", run.stderr, re.MULTILINE))


def callbacks(place):
    """C that Go calls may call Go, which moves the goroutine's stack: both calls have their lines"""
    program = build(place)
    deep = ("deep@bottom",) + ("deep@deep",) * 3
    compare("not moved", {("newLeak@new", *deep, "calledFromC@from_c"): 3000,
                          ("outer@outer", "main@callback"): 1000}, stacks(place, program, "callback"))
    # The outer frames are cut off. What C allocates after the callback is on the moved stack.
    got = stacks(place, program, "grow")
    compare("moved", 1000, got.get(("outer@outer", "main@grow")))
    compare("inner", [("newLeak@new", "deep@bottom", "deep@deep")],
            [stack[:3] for stack, size in got.items() if size == 3000])


def threads(place):
    """goroutines that move between threads: each stack is that of its goroutine"""
    wanted = {("oldLeak@old", "threads.func1@thread_old"): 16 * 25 * 100}
    for depth in range(5):
        wanted["newLeak@new", "deep@bottom", *("deep@deep",) * depth, "threads.func1@thread_new"] = 800
    got = stacks(place, build(place), "threads")
    # A wrapper without a line of its own starts the goroutine.
    compare("stacks", wanted, {tuple(frame for frame in stack if not frame.endswith("@group")): size
                               for stack, size in got.items()})


def repeated(place):
    """a stack that is found again is that of its goroutine"""
    wanted = {("oldLeak@old", "repeat@repeat_old"): 5000, ("newLeak@new", "repeat@repeat_new"): 500,
              ("oldLeak@old", "deep@bottom", "deep@deep", "repeat@repeat_deep"): 100}
    compare("stacks", {(*stack, "main@main_repeat"): size for stack, size in wanted.items()},
            stacks(place, build(place), "repeat"))


def inlined(place):
    """an inlined function has its caller's line in the source, also where cgo wrote another file"""
    compare("stacks", {("inlinedLeak@inlined", "inlines@inlines_%d" % size, "main@main_inlined"): size
                       for size in (50, 60, 70)}, stacks(place, build(place), "inlined"))


def depths(place):
    """a stack is cut at any depth"""
    program = build(place)
    for depth in range(12):
        got = stacks(place, program, "deep", env={"GPULEAK_STACK_DEPTH": str(depth)})
        compare("depth %d" % depth, [7], list(got.values()))
        frames = len(place.json("report.json")["leaks"][0]["stack"])
        compare("frames", depth, frames)


def builds(place):
    """position independent programs and libraries have lines"""
    wanted = {("oldLeak@old", "main@two_old"): 1000, ("newLeak@new", "main@two_new"): 2000}
    compare("pie", wanted, stacks(place, build(place, "p_go_pie", "-buildmode=pie"), "two"))
    library = build(place, "go_shared.so", "-buildmode=c-shared")
    script = place.write("load.py", "import ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\n"
                         "library.start()\nlibrary.calledFromC(0)\n")
    compare("library", {("newLeak@new", "deep@bottom", "calledFromC@from_c"): 3000},
            stacks(place, sys.executable, script, library))


def section(image, wanted):
    """The offset of the section WANTED in the ELF file IMAGE."""
    at, = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQ", image, at + size * i) for i in range(count)]
    for header in headers:
        name = headers[names][4] + header[0]
        if image[name:image.index(b"\0", name)] == wanted:
            return header[4]
    raise Failed("no section %r" % wanted)


def stripped(place):
    """a stripped program has the names of Go's functions, and a damaged table does no harm"""
    program = place.file("stripped")
    shutil.copy(build(place, "p_go_stripped", "-ldflags=-s -w"), program)
    place.preloaded([program, "two"], {"GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("ledger")})

    def found():
        run = place.command("report", "--format", "json", place.file("ledger"))
        compare("report", (0, ""), (run.status, run.stderr))
        return [[frame["function"] for frame in leak["stack"] if "main." in (frame["function"] or "")]
                for leak in json.loads(run.stdout)["leaks"]]

    names = [["main._Cfunc_lose", "main." + name, "main.main"] for name in ("newLeak", "oldLeak")]
    compare("names", names, found())
    first = place.command("report", place.file("ledger")).stdout.split("\n")[0]
    if " 2 leaks, " not in first or " at main.newLeak (" not in first:
        raise Failed("first line: " + first)
    with open(program, "rb") as file:
        image = file.read()
    table = section(image, b".gopclntab")
    for word in range(9):
        for value in (0, 1, 1 << 20, (1 << 63) - 1, (1 << 64) - 9):
            with open(program, "r+b") as file:
                file.write(image)
                file.seek(table + 8 * word)
                file.write(struct.pack("<Q", value))
            compare("leaks", 2, len(found()))


GO = [two, callbacks, threads, repeated, inlined, depths, builds, stripped]
