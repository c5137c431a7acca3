#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what the design scripts say about themselves. Each script runs at module level and
inside main(), on the stand-ins for PyTorch's libraries. Its allocations are traced, so that for
each line the live tensors are known all the time. TAP.

    run.py --torch FOLDER --standin FOLDER [--only TEXT]
    run.py --trace SCRIPT [--main]      (prints what each line keeps, in this process)

The first line of a script is "# truth: clean" or "# truth: accumulates at @leak". Each line that
allocates what accumulates then carries "# @leak"."""

import argparse
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
TORCH = os.path.join(os.path.dirname(HERE), "torch")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "programs"))

from harness import Failed, Tap, compare

PYTHON = "/usr/bin/python3"


def scripts():
    return sorted(name for name in os.listdir(HERE) if name.endswith(("_bad.py", "_good.py")))


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
        numbers = [number] if number else self.native._live()  # 0: what backward has allocated
        for one in numbers:
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


def trace(path, inside_main):
    sys.path[:0] = [HERE, os.path.join(TORCH, "site-packages")]
    import torch
    import in_main
    with open(path, encoding="utf-8") as file:
        source = file.read()
    code = in_main.with_main(source, path) if inside_main else compile(source, path, "exec")
    tracer = Tracer(torch._C, path)
    torch._C._trace(tracer)
    variables = {"__name__": "__main__", "__file__": path}
    output, sys.stdout = sys.stdout, sys.stderr
    exec(code, variables)
    json.dump(tracer.samples, output)
    output.flush()
    os._exit(0)


# ---- what the samples show ----

def accumulates(counts):
    """True if the fewest tensors that were live in the last quarter, in the third and in the
    second grow in equal steps. What fills up has filled by then; what is dropped in between has
    a low point in each quarter."""
    quarter = len(counts) // 4
    low = [min(counts[quarter * number:quarter * (number + 1)]) for number in (1, 2, 3)]
    return low[2] - low[1] > 4 and low[1] - low[0] > 4


def check(options, name, inside_main):
    path = os.path.join(HERE, name)
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    marked = [number for number, line in enumerate(lines, 1) if line.endswith("# @leak")]
    wanted = {"# truth: clean": False, "# truth: accumulates at @leak": True}.get(lines[0])
    compare("a truth, and lines that it names", (True, bool(wanted)),
            (wanted is not None, bool(marked)))
    compare("lines", True, 15 <= len(lines) <= 41)

    env = {key: value for key, value in os.environ.items() if not key.startswith("STANDIN_")}
    env.update(STANDIN_TORCH=options.torch, LD_LIBRARY_PATH=options.standin,
               PYTHONDONTWRITEBYTECODE="1")
    ran = subprocess.run(
        [PYTHON, __file__, "--trace", path, *(["--main"] if inside_main else [])], env=env,
        capture_output=True, text=True, check=False, timeout=120)
    if ran.returncode:
        raise Failed(ran.stderr)
    samples = json.loads(ran.stdout)
    seen = sorted({int(line) for sample in samples for line in sample})
    compare("lines that accumulate", marked,
            [line for line in seen
             if accumulates([sample.get(str(line), 0) for sample in samples])])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("trace", "torch", "standin", "only"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--main", action="store_true")
    options = parser.parse_args()
    if options.trace:
        return trace(os.path.realpath(options.trace), options.main)
    if not os.path.exists(os.path.join(options.torch, "libtorch_python.so")):
        if os.environ.get("GPULEAK_MUST_RUN"):
            sys.exit("Bail out! no C++ compiler or no python3-dev")
        print("1..0 # SKIP no C++ compiler or no python3-dev")
        return 0
    options.torch, options.standin = map(os.path.realpath, (options.torch, options.standin))
    tap = Tap()
    for name in scripts():
        for inside_main in (False, True):
            step = name + (" inside main()" if inside_main else "")
            if options.only in step:
                tap.step(step, check, options, name, inside_main)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
