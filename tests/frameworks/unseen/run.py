#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what the unseen scripts state about themselves. Each script runs at module level, and
twice as long at module level and inside main(), on the stand-ins for PyTorch's libraries. A line
accumulates if the longer runs keep twice as many of its tensors. TAP.

    run.py --torch FOLDER --standin FOLDER [--only TEXT]
    run.py --trace SCRIPT [--main] [--times 2]      (prints what each line keeps)

The first line of a script is "# truth: clean" or "# truth: accumulates at @leak", as in the
folder design. The first constant that is a whole number is the length of the run."""

import argparse
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "design"))

import in_main
from run import PYTHON, TORCH, Tracer, Failed, Tap, compare

LENGTH = re.compile(r"^([A-Z_]+ = )(\d+)$", re.M)


def scripts():
    return sorted(name for name in os.listdir(HERE) if name.endswith(("_bad.py", "_good.py")))


class SparseTracer(Tracer):
    """Samples so rarely that a long run has about as many samples as a short one."""
    last = 0

    def sample(self):
        if self.calls >= self.last * 1.003:
            self.last = self.calls
            super().sample()
            self.samples[-1]["calls"] = self.calls


def trace(path, inside_main, times):
    """Runs a script without its pauses and prints the samples of its live tensors."""
    sys.path.insert(0, os.path.join(TORCH, "site-packages"))
    import torch
    with open(path, encoding="utf-8") as file:
        source = LENGTH.sub(lambda found: found[1] + str(int(found[2]) * times), file.read(), 1)
    code = in_main.with_main(source, path) if inside_main else compile(source, path, "exec")
    tracer = SparseTracer(torch._C, path)
    torch._C._trace(tracer)
    pause, time.sleep = time.sleep, lambda seconds: pause(0)
    output, sys.stdout = sys.stdout, sys.stderr
    exec(code, {"__name__": "__main__", "__file__": path})
    json.dump(tracer.samples, output)
    output.flush()
    os._exit(0)


def kept(options, path, inside_main, times):
    """Returns for each line the fewest tensors that were live in the last quarter of a run."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("STANDIN_")}
    env.update(STANDIN_TORCH=options.torch, LD_LIBRARY_PATH=options.standin,
               PYTHONDONTWRITEBYTECODE="1")
    ran = subprocess.run(
        [PYTHON, __file__, "--trace", path, "--times", str(times),
         *(["--main"] if inside_main else [])],
        env=env, capture_output=True, text=True, check=False, timeout=120)
    if ran.returncode:
        raise Failed(ran.stderr)
    samples = json.loads(ran.stdout)
    last = [sample for sample in samples if sample["calls"] > samples[-1]["calls"] * 3 // 4]
    return {int(line): min(sample.get(line, 0) for sample in last)
            for line in {line for sample in samples for line in sample} - {"calls"}}


def behaviour(once, twice):
    """A line that is neither clean nor accumulates makes each truth fail."""
    if twice >= 1.8 * once and twice - once > 4:
        return "accumulates"
    return "clean" if twice <= 1.1 * once + 4 else "unclear: %d, then %d" % (once, twice)


def check(options, name, inside_main, cache):
    path = os.path.join(HERE, name)
    with open(path, encoding="utf-8") as file:
        source = file.read()
    lines = source.split("\n")
    marked = {number: "accumulates" for number, line in enumerate(lines, 1)
              if line.endswith("# @leak")}
    wanted = {"# truth: clean": False, "# truth: accumulates at @leak": True}.get(lines[0])
    compare("a truth, and lines that it names", (True, bool(wanted)),
            (wanted is not None, bool(marked)))
    compare("lines, and a length", (True, True),
            (15 <= len(lines) <= 41, bool(LENGTH.search(source))))
    if path not in cache:
        cache[path] = kept(options, path, False, 1)
    once, twice = cache[path], kept(options, path, inside_main, 2)
    seen = {line: behaviour(once.get(line, 0), count) for line, count in sorted(twice.items())}
    compare("lines that accumulate", marked,
            {line: told for line, told in seen.items() if told != "clean"})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("trace", "torch", "standin", "only"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--main", action="store_true")
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    if options.trace:
        return trace(os.path.realpath(options.trace), options.main, options.times)
    if not os.path.exists(os.path.join(options.torch, "libtorch_python.so")):
        if os.environ.get("GPULEAK_MUST_RUN"):
            sys.exit("Bail out! no C++ compiler or no python3-dev")
        print("1..0 # SKIP no C++ compiler or no python3-dev")
        return 0
    options.torch, options.standin = map(os.path.realpath, (options.torch, options.standin))
    tap, cache = Tap(), {}
    for name in scripts():
        for inside_main in (False, True):
            step = name + (" inside main()" if inside_main else "")
            if options.only in step:
                tap.step(step, check, options, name, inside_main, cache)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
