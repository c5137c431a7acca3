#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts how many files a reader passes to follow one call: walks.py SOURCE WORK [COMMIT...]

Builds each commit of SOURCE (its work tree, if none is named) in WORK with every function
instrumented. Counts for four paths: function calls, distinct functions, files, changes of the file
between consecutive calls, and returns, which are changes to a file that was left before. A loop
that calls another file counts each time. "read" counts the returns of a reader who reads each
function where it is called first, and does not open it again: each later call of it is left out.
With --list it prints the calls of the first three paths. No test: the numbers are for reviews."""
import argparse
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = "-O0 -finstrument-functions"


def call(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def build(source, work):
    """An instrumented build of SOURCE, and the programs that are followed."""
    if not (work / "build.ninja").exists():
        call("meson", "setup", work, source, "--buildtype=debug", f"-Dc_args={FLAGS}",
             stdout=subprocess.DEVNULL)
    call("ninja", "-C", work, "interpose/libgpuleak.so", "tools/gpuleak",
         "standin/driver/libcuda.so.1", stdout=subprocess.DEVNULL)
    call("cc", "-O1", "-shared", "-fPIC", HERE / "walk_trace.c", "-o", work / "walk_trace.so")
    call("cc", "-g", HERE / "walk_calls.c", "-lOpenCL", "-o", work / "walk_calls")


def environment(work, **more):
    env = {"PATH": os.environ["PATH"], "HOME": str(work), "XDG_RUNTIME_DIR": str(work),
           "LD_LIBRARY_PATH": str(work / "standin/driver"), "GPULEAK_REPORT": "none",
           "LD_PRELOAD": f"{work}/walk_trace.so {work}/interpose/libgpuleak.so"}
    env.update(more)
    return env


def resolve(events):
    """[(depth, function, file)] of our functions, without those of the stand-in driver."""
    found = {}
    # binutils 2.40 reports the including file for functions of some headers.
    addr2line = shutil.which("llvm-addr2line") or "addr2line"
    for module in {event[1] for event in events}:
        addresses = sorted({event[2] for event in events if event[1] == module})
        lines = call(addr2line, "-f", "-e", module, input="\n".join(addresses),
                     stdout=subprocess.PIPE).stdout.splitlines()
        for address, function, place in zip(addresses, lines[::2], lines[1::2]):
            found[module, address] = function, os.path.normpath(place.rsplit(":", 1)[0])
    return [(depth, *found[module, address]) for depth, module, address in events
            if os.path.basename(module) in ("libgpuleak.so", "gpuleak")]


def read(path):
    rows = [line.split(" ") for line in path.read_text().splitlines()]
    return resolve([(int(row[0]), row[1], row[2]) for row in rows])


def visits(rows):
    """(Changes of the file, returns to one that was left) on the way through ROWS."""
    changes = returns = 0
    seen = {rows[0][2]}
    for last, now in zip(rows, rows[1:]):
        if now[2] != last[2]:
            changes += 1
            returns += now[2] in seen
        seen.add(now[2])
    return changes, returns


def count(rows):
    """A line of numbers: calls, functions, files, changes, returns, read, depth."""
    known = {}
    for row in rows:
        known.setdefault(row[1:], row)
    first = list(known.values())
    changes, returns = visits(rows)
    return (len(rows), len(first), len({row[2] for row in rows}), changes, returns,
            visits(first)[1], max(row[0] for row in rows) - min(row[0] for row in rows) + 1)


def show(name, rows):
    """The calls as a tree; a star marks each change of the file."""
    print(name)
    last = None
    for depth, function, file in rows:
        print("  " * depth + f"{function} [{os.path.basename(file)}]" + " *" * (file != last))
        last = file


def walk(source, work, listed):
    build(source, work)
    alloc, free, release, report = (work / f"{name}.walk" for name in
                                    ("alloc", "free", "release", "report"))
    ret = []
    for pool, path, name in (("off", alloc, "cuMemAlloc, pool off, warm"),
                             ("fast", free, "cuMemFree, pool fast, warm")):
        call(work / "walk_calls", "cuda", alloc, free, env=environment(work, GPULEAK_POOL=pool))
        ret.append((name, read(path)))
    call(work / "walk_calls", "opencl", release, env=environment(work))
    ret.append(("clReleaseMemObject, last reference, pool off", read(release)))
    ledger = work / "walk.gpuleak"
    ledger.unlink(missing_ok=True)
    env = environment(work, GPULEAK_LEDGER=str(ledger))
    env["LD_PRELOAD"] = f"{work}/interpose/libgpuleak.so"
    leak(work, env)
    call(work / "tools/gpuleak", "report", ledger, stdout=subprocess.DEVNULL,
         env={"PATH": os.environ["PATH"], "LD_PRELOAD": f"{work}/walk_trace.so",
              "WALK_WHOLE": str(report)})
    if listed:
        for name, rows in ret:
            show(name, rows)
    ret.append(("gpuleak report of one leak", read(report)))
    return [(name, count(rows)) for name, rows in ret]


def leak(work, env):
    """One block that is not freed, in ENV's ledger."""
    source = work / "one_leak.c"
    source.write_text("int cuInit(unsigned);int cuCtxCreate_v2(void **,unsigned,int);"
                      "int cuMemAlloc_v2(unsigned long long *,unsigned long);"
                      "int main(void){void *c;unsigned long long p;cuInit(0);"
                      "cuCtxCreate_v2(&c,0,0);return cuMemAlloc_v2(&p,1024);}")
    call("cc", "-g", source, f"-L{work}/standin/driver", "-l:libcuda.so.1", "-o",
         work / "one_leak")
    call(work / "one_leak", env=env)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("work", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("commits", nargs="*")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    print("| commit | path | calls | functions | files | file changes | returns | read | depth |")
    print("|---|---|---|---|---|---|---|---|---|")
    for commit in options.commits or [None]:
        source, work = options.source.resolve(), options.work / (commit or "tree")
        work.mkdir(parents=True, exist_ok=True)
        if commit:
            source = work / "source"
            if not source.exists():
                call("git", "-C", options.source, "worktree", "add", "-q", "--detach", source, commit)
        for name, numbers in walk(source, work / "build", options.list):
            print(f"| {commit or 'work tree'} | {name} | " + " | ".join(map(str, numbers)) + " |")


main()
