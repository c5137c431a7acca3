# SPDX-License-Identifier: MIT
"""Runs scripts on the stand-ins for PyTorch's libraries, and compares which lines accumulate with
what each script states. Shared by the folders design and unseen, whose run.py decides when a line
accumulates.

The first line of a script is "# truth: clean" or "# truth: accumulates at @leak". Each line that
allocates what accumulates then carries "# @leak"."""

import argparse
import gc
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "programs"), os.path.join(HERE, "design")]

import in_main
from harness import SLOWER, Failed, Tap, compare
from standin_torch import PYTHON, SITE_PACKAGES, is_missing

TRUTHS = {"# truth: clean": False, "# truth: accumulates at @leak": True}


# ---- in the script's process ----

class Tracer:
    """Notes the line of each allocation, and samples how many tensors of each line are live."""

    def __init__(self, native, path):
        self.native, self.path, self.line_of, self.samples = native, path, {}, []
        self.calls = 0

    def line(self):
        frame = sys._getframe(2)
        while frame and frame.f_code.co_filename != self.path:
            frame = frame.f_back
        return frame.f_lineno if frame else 0

    def __call__(self, number):
        line = self.line()
        if number:
            self.line_of[number] = line
        else:  # what backward() allocated, and perhaps a tensor whose own call comes later
            for one in self.native._live():
                self.line_of.setdefault(one, line)
        self.calls += 1
        if self.calls % 8 == 0:
            self.sample()

    def sample(self):
        counts = {}
        for one in self.native._live():
            line = self.line_of.get(one, 0)
            counts[line] = counts.get(line, 0) + 1
        self.samples.append(counts)


def trace(path, inside_main, tracer=Tracer, change=lambda source: source):
    """Runs the script at PATH, after CHANGE to its source. Prints the samples of its live tensors
    and ends the process."""
    sys.path.insert(0, SITE_PACKAGES)
    import torch
    with open(path, encoding="utf-8") as file:
        source = change(file.read())
    code = in_main.with_main(source, path) if inside_main else compile(source, path, "exec")
    traced = tracer(torch._C, path)
    torch._C._trace(traced)
    variables = {"__name__": "__main__", "__file__": path}
    output, sys.stdout = sys.stdout, sys.stderr
    # Resets the collector's counters. They decide when it runs in the script, and imports raised them.
    gc.collect()
    exec(code, variables)
    json.dump(traced.samples, output)
    output.flush()
    os._exit(0)


# ---- in the test ----

def stated(path):
    """Returns the source of a script, and the lines that accumulate as it states. Fails if its
    first line is no truth, or its length is not that of a short script."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    lines = source.split("\n")
    marked = [number for number, line in enumerate(lines, 1) if line.endswith("# @leak")]
    wanted = TRUTHS.get(lines[0])
    compare("a truth, and lines that it names", (True, bool(wanted)),
            (wanted is not None, bool(marked)))
    compare("lines", True, 15 <= len(lines) <= 41)
    return source, marked


def samples(options, path, inside_main, *more):
    """Returns what trace() prints of the script at PATH, in a process of its own. MORE: arguments
    of run.py."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("STANDIN_")}
    env.update(STANDIN_TORCH=options.torch, LD_LIBRARY_PATH=options.standin,
               PYTHONDONTWRITEBYTECODE="1")
    ran = subprocess.run(
        [PYTHON, os.path.realpath(sys.argv[0]), "--trace", path, *more,
         *(["--main"] if inside_main else [])],
        env=env, capture_output=True, text=True, check=False, timeout=120 * SLOWER)
    if ran.returncode:
        raise Failed(ran.stderr)
    return json.loads(ran.stdout)


def parser(description):
    """Returns the parser of run.py's arguments."""
    ret = argparse.ArgumentParser(description=description)
    for name in ("trace", "torch", "standin", "only"):
        ret.add_argument("--" + name, default="")
    ret.add_argument("--main", action="store_true")
    return ret


def check_all(options, folder, check):
    """Calls check(options, path, inside_main) for each script of FOLDER, at module level and inside
    main(). Prints TAP and returns the status of the test."""
    if is_missing(options.torch):
        return 0
    options.torch, options.standin = map(os.path.realpath, (options.torch, options.standin))
    tap = Tap()
    for name in sorted(os.listdir(folder)):
        for inside_main in (False, True) if name.endswith(("_bad.py", "_good.py")) else ():
            step = name + (" inside main()" if inside_main else "")
            if options.only in step:
                tap.step(step, check, options, os.path.join(folder, name), inside_main)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0
