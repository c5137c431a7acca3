#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what the unseen scripts state about themselves. Each script runs at module level, and
twice as long at module level and inside main(), on the stand-ins for PyTorch's libraries. A line
accumulates if the longer runs keep twice as many of its tensors. TAP.

    run.py --torch FOLDER --standin FOLDER [--only TEXT]
    run.py --trace SCRIPT [--main] [--times 2]      (prints what each line keeps)

stated_scripts.py describes what a script states. The first constant that is a whole number is the
length of the run."""

import functools
import os
import re
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import stated_scripts
from stated_scripts import Tracer, compare

LENGTH = re.compile(r"^([A-Z_]+ = )(\d+)$", re.M)


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
    pause, time.sleep = time.sleep, lambda seconds: pause(0)
    stated_scripts.trace(
        path, inside_main, SparseTracer,
        lambda source: LENGTH.sub(lambda found: found[1] + str(int(found[2]) * times), source, 1))


def kept(options, path, inside_main, times):
    """Returns for each line the fewest tensors that were live in the last quarter of a run."""
    samples = stated_scripts.samples(options, path, inside_main, "--times", str(times))
    last = [sample for sample in samples if sample["calls"] > samples[-1]["calls"] * 3 // 4]
    return {int(line): min(sample.get(line, 0) for sample in last)
            for line in {line for sample in samples for line in sample} - {"calls"}}


def behaviour(once, twice):
    """A line that is neither clean nor accumulates makes each truth fail."""
    if twice >= 1.8 * once and twice - once > 4:
        return "accumulates"
    return "clean" if twice <= 1.1 * once + 4 else "unclear: %d, then %d" % (once, twice)


def check(cache, options, path, inside_main):
    """CACHE: what the short run of each script has kept."""
    source, marked = stated_scripts.stated(path)
    compare("a length", True, bool(LENGTH.search(source)))
    if path not in cache:
        cache[path] = kept(options, path, False, 1)
    once, twice = cache[path], kept(options, path, inside_main, 2)
    seen = {line: behaviour(once.get(line, 0), count) for line, count in sorted(twice.items())}
    compare("lines that accumulate", {line: "accumulates" for line in marked},
            {line: told for line, told in seen.items() if told != "clean"})


def main():
    parser = stated_scripts.parser(__doc__)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    if options.trace:
        return trace(os.path.realpath(options.trace), options.main, options.times)
    return stated_scripts.check_all(options, HERE, functools.partial(check, {}))


if __name__ == "__main__":
    sys.exit(main())
