# SPDX-License-Identifier: MIT
# Times a loop that uses the GPU, COUNT times, and between two of them a loop that does nothing but
# Python: what the core was good for meanwhile, since a neighbour on its other half makes everything
# nearly twice as slow for seconds. The median of those goes to stderr, as "spin: MS".
import statistics
import sys
import time

SPIN = 100000


def ms_of(work):
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def spin():
    for _ in range(SPIN):
        pass


def spin_said(err):
    """The spin's ms in what such a program wrote to stderr; NaN if it did not."""
    return next((float(line.split()[1]) for line in err.splitlines() if line.startswith("spin: ")), float("nan"))


def median_ms(work, count):
    times, spins = [], []
    for _ in range(count):
        times.append(ms_of(work))
        spins.append(ms_of(spin))
    print("spin: %.3f" % statistics.median(spins), file=sys.stderr)
    return statistics.median(times)
