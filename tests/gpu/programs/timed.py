# SPDX-License-Identifier: MIT
# Times a loop that uses the GPU, COUNT times, and between two of them a loop that does nothing but
# Python: what the core was good for meanwhile, since a neighbour on its other half makes everything
# nearly twice as slow for seconds. The median of those goes to stderr, as "spin: MS".
# take_turns() times a short loop once for each line that it reads, and prints each time at once. It
# calls BEFORE first, which brings back into the processor's caches what other processes took away.
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


def take_turns(work, before):
    print("ready", flush=True)
    for _ in sys.stdin:
        before()
        print("%.4f" % ms_of(work), flush=True)
    sys.exit()


def median_ms(work, count="1"):
    times, spins = [], []
    for _ in range(int(count)):
        times.append(ms_of(work))
        spins.append(ms_of(spin))
    print("spin: %.3f" % statistics.median(spins), file=sys.stderr)
    return statistics.median(times)
