#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what the design scripts say about themselves. Each script runs at module level and
inside main(), on the stand-ins for PyTorch's libraries. Its allocations are traced, so that for
each line the live tensors are known all the time. TAP.

    run.py --torch FOLDER --standin FOLDER [--only TEXT]
    run.py --trace SCRIPT [--main]      (prints what each line keeps, in this process)

stated_scripts.py describes what a script states."""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import stated_scripts
from stated_scripts import compare


def accumulates(counts):
    """True if the fewest tensors that were live in the last quarter, in the third and in the
    second grow in equal steps. What fills up has filled by then; what is dropped in between has
    a low point in each quarter."""
    quarter = len(counts) // 4
    low = [min(counts[quarter * number:quarter * (number + 1)]) for number in (1, 2, 3)]
    return low[2] - low[1] > 4 and low[1] - low[0] > 4


def check(options, path, inside_main):
    _, marked = stated_scripts.stated(path)
    samples = stated_scripts.samples(options, path, inside_main)
    seen = sorted({int(line) for sample in samples for line in sample})
    compare("lines that accumulate", marked,
            [line for line in seen
             if accumulates([sample.get(str(line), 0) for sample in samples])])


def main():
    options = stated_scripts.parser(__doc__).parse_args()
    if options.trace:
        return stated_scripts.trace(os.path.realpath(options.trace), options.main)
    return stated_scripts.check_all(options, HERE, check)


if __name__ == "__main__":
    sys.exit(main())
