#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the stand-in for CuPy: what its pools count, and that gpuleak knows the pools. TAP.

    run.py --cupy FOLDER --preload ... --command ... --standin ... [--only TEXT]
    run.py --case NAME          (one case, in this process)"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
PACKAGES = os.path.join(HERE, "site-packages")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "programs"))
sys.path.insert(0, PACKAGES)

from harness import SLOWER, Failed, Tap, compare

PYTHON = "/usr/bin/python3"
ARRAY = 4000256  # 1000 * 1000 * 4, rounded up to 512
SCRIPT = os.path.join(HERE, "view_kept.py")


# ---- cases: each in a process of its own ----

def case_counts():
    """The pool's counts are those of the arrays, and free_all_blocks frees what is not used"""
    import cupy
    pool = cupy.get_default_memory_pool()
    arrays = [cupy.empty(100 + number, dtype=cupy.uint8) for number in range(5)]
    view = cupy.empty((2, 1000), dtype=cupy.float32)[1]
    compare("used", 5 * 512 + 8192, pool.used_bytes())
    del arrays
    compare("used, free, blocks", (8192, 5 * 512, 5),
            (pool.used_bytes(), pool.free_bytes(), pool.n_free_blocks()))
    pool.free_all_blocks()
    compare("total", 8192, pool.total_bytes())
    del view
    compare("used", 0, pool.used_bytes())


def case_no_pool():
    """set_allocator(None) allocates without a pool; in using_allocator it is refused"""
    import cupy
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
    array, pinned = cupy.empty(1000), cupy.cuda.alloc_pinned_memory(1000)
    compare("used by the pools", (0, 8000, 1000), (cupy.get_default_memory_pool().used_bytes(),
                                                   array.data.mem.size, pinned.mem.size))
    with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):
        array = cupy.empty(1000)
        compare("used in the block", 8192, cupy.get_default_memory_pool().used_bytes())
        try:
            cupy.cuda.set_allocator(None)
        except ValueError:
            return
    raise Failed("set_allocator was not refused")


def case_threads():
    """Four threads allocate and free at random; each byte is counted"""
    import cupy
    pool, pinned, kept = cupy.get_default_memory_pool(), cupy.get_default_pinned_memory_pool(), []

    def operate(seed):
        draw, live = random.Random(seed), []
        for _ in range(500):
            if live and draw.random() < 0.5:
                live.pop(draw.randrange(len(live)))
            elif draw.random() < 0.2:
                live.append(cupy.cuda.alloc_pinned_memory(draw.randrange(1, 5000)))
            else:
                live.append(cupy.empty(draw.choice((1, 700, 70000)), dtype=cupy.uint8))
            if draw.random() < 0.02:
                pool.free_all_blocks()
        kept.extend(live)

    threads = [threading.Thread(target=operate, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    compare("used", sum(one.data.mem.size for one in kept if isinstance(one, cupy.ndarray)),
            pool.used_bytes())
    kept.clear()
    pool.free_all_blocks()
    pinned.free_all_blocks()
    compare("left", (0, 0), (pool.total_bytes(), pinned.n_free_blocks()))


CASES = [case_counts, case_no_pool, case_threads]


# ---- running ----

def environment(options, **extra):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "STANDIN_"))}
    env.update(STANDIN_CUPY=options.cupy, LD_LIBRARY_PATH=options.standin, PYTHONPATH=PACKAGES,
               PYTHONDONTWRITEBYTECODE="1", **extra)
    return env


def run_case(options, case, preload):
    extra = {"LD_PRELOAD": options.preload, "GPULEAK_REPORT": "none"} if preload else {}
    ran = subprocess.run([PYTHON, __file__, "--case", case.__name__], check=False,
                         timeout=60 * SLOWER,
                         env=environment(options, **extra), capture_output=True, text=True)
    if ran.returncode or ran.stdout or ran.stderr:
        raise Failed("status %d\n%s%s" % (ran.returncode, ran.stdout, ran.stderr))


def reported(options, script):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        subprocess.run([options.command, "run", "--format", "json", "--report", report, "--",
                        PYTHON, script], check=True, timeout=60 * SLOWER, env=environment(options),
                       capture_output=True)
        with open(report, encoding="utf-8") as file:
            return json.load(file)


def lines_of(holders):
    """(cache, kind, blocks, bytes, line of the script) of each holder"""
    return sorted((holder.get("cache"), holder["kind"], holder["blocks"], holder["bytes"],
                   next((frame["line"] for frame in holder["stack"]
                         if frame["file"] == SCRIPT), None)) for holder in holders)


def line_with(text):
    with open(SCRIPT, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def check_pools(options):
    """gpuleak names the pools, and the line that filled them"""
    report = reported(options, SCRIPT)
    kept, pinned = line_with("# @kept"), line_with("# @pinned")
    # The sums are new blocks; the array of zeros is a cached one from the second on.
    compare("cached", [("CuPy memory pool", "device", 1, ARRAY, kept),
                       ("CuPy memory pool", "device", 10, 10 * ARRAY, kept),
                       ("CuPy pinned memory pool", "pinned", 3, 3 * 5120, pinned)],
            lines_of(report["cached"]))
    compare("leaks", [], lines_of(report["leaks"]))


KEEPS = """
import cupy
cupy.cuda.set_allocator(None)

def main():
    kept = []
    for _ in range(300):
        other = cupy.empty(1000)
        kept.append(cupy.empty(1000))  # line 9
        if %s:
            kept.clear()
    other = kept = None

main()
"""


def check_accumulation(options):
    """Without the pools gpuleak says which arrays accumulate"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.py")
        for condition, status, verdict in (
                ("False", 23, "gate failed: 2,457,600 bytes (2.3 MiB) in 300 blocks accumulate at main "
                 "(%s:9) in process N (python3), 0 allowed" % path),
                ("len(kept) == 10", 0, "gate passed: nothing leaked")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(KEEPS % condition)
            ran = subprocess.run(
                [options.command, "run", "--gate-accumulation", "1", "--report", "none", "--",
                 PYTHON, path], env=environment(options), check=False, capture_output=True,
                text=True, timeout=60 * SLOWER)
            line = re.sub(r"process \d+ \(python3[.\d]*\)", "process N (python3)", ran.stderr)
            compare("verdict", (status, "gpuleak: %s\n" % verdict), (ran.returncode, line))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("case", "cupy", "preload", "command", "standin", "only"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    if options.case:
        return globals()[options.case]()
    for name in ("cupy", "preload", "command", "standin"):
        setattr(options, name, os.path.realpath(getattr(options, name)))
    tap = Tap()
    for case in CASES:
        for preload in (False, True):
            name = case.__doc__ + (", under the preload" if preload else "")
            if options.only in name:
                tap.step(name, run_case, options, case, preload)
    for check in (check_pools, check_accumulation):
        if options.only in check.__doc__:
            tap.step(check.__doc__, check, options)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
