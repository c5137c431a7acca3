#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What pool-patterns measures is what its head says: steps, passes, blocks left. On the stand-in.

    patterns.py POOL_PATTERNS
"""
import json
import subprocess
import sys

number = 0
failed = False


def check(what, good, seen):
    global number, failed
    number += 1
    failed |= not good
    print("%s %d - %s%s" % ("ok" if good else "not ok", number, what, "" if good else "\n# " + json.dumps(seen)), flush=True)


def run(*arguments):
    done = subprocess.run([sys.argv[1]] + [str(one) for one in arguments], capture_output=True, text=True, timeout=60, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"exit": done.returncode, "stderr": done.stderr}


def holds(found, **expected):
    return all(found.get(key) == value for key, value in expected.items())


for allocator in ("none", "native"):
    of = ("--allocator", allocator, "--n", 1000)
    one = run("random", *of)
    check("%s: random, one pass" % allocator, holds(
        one, passes=1, steps=2000, allocations=1000, left=0, failed=0, stopped=False) and one["ns"] == one["first_ns"], one)
    more = run("random", *of, "--pass-seconds", "0.2")
    passes = more.get("passes", 0)
    check("%s: random, passes" % allocator, passes > 2 and holds(
        more, steps=2000 * passes, allocations=1000 * passes, left=0, failed=0, stopped=False), more)
    check("%s: they last as long as asked" % allocator, 150 < more.get("ms", 0) + more.get("end_ms", 0) < 5000, more)
    check("%s: the passes are not all alike" % allocator, more.get("peak_requested", 0) > one.get("peak_requested", 0), [one, more])
    scarce = run("random", *of, "--live", 8 << 20, "--pass-seconds", "0.2")
    check("%s: random within 8 MiB" % allocator, scarce.get("passes", 0) > 2 and holds(scarce, left=0, failed=0)
          and 0 < scarce["peak_requested"] < 8 << 20 and scarce["allocations"] == 1000 * scarce["passes"], scarce)
    one = run("steady", *of)
    check("%s: steady, one pass" % allocator, holds(
        one, passes=1, steps=2000, allocations=2000, peak_live=1000, left=0, failed=0, stopped=False), one)
    more = run("steady", *of, "--pass-seconds", "0.2")
    passes = more.get("passes", 0)
    check("%s: steady, passes" % allocator, passes > 2 and holds(
        more, steps=2000 * passes, allocations=1000 + 1000 * passes, peak_live=1000, left=0, stopped=False), more)
    for what in ("random", "steady"):
        stopped = run(what, *of, "--pass-seconds", 60, "--seconds", "0.2")
        check("%s: %s stops over all passes" % (allocator, what), holds(stopped, stopped=True) and stopped["passes"] > 2
              and stopped["ms"] < 5000, stopped)
print("1..%d" % number)
sys.exit(1 if failed else 0)
