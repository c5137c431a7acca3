#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs torture in one way of using the library, over some seeds, and speaks TAP: torture must find
its bytes, and gpuleak's report must count what torture counted. `mutation` runs it on a library
that hands blocks out without looking at their fences, and passes if torture notices the bytes."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

MIB = 1 << 20

# way: (environment, torture's arguments); None for an environment: no preload
WAYS = {
    "bare": (None, []),
    "off": ({"GPULEAK_POOL": "off"}, []),
    "strict": ({"GPULEAK_POOL": "strict"}, ["--mode", "strict"]),
    "fast": ({"GPULEAK_POOL": "fast"}, ["--mode", "fast"]),
    # With one arena, each thread gets addresses that another one has just freed.
    "fast-two-devices": ({"GPULEAK_POOL": "fast", "STANDIN_DEVICES": "2", "STANDIN_ARENAS": "1"},
                         ["--mode", "fast", "--devices", "2"]),
    "fast-many-threads": ({"GPULEAK_POOL": "fast"},
                          ["--mode", "fast", "--threads", "24", "--ops", "60"]),
    "fast-slab": ({"GPULEAK_POOL": "fast", "GPULEAK_POOL_SLAB": "1"}, ["--mode", "fast"]),
    # Parts of all sizes, and some that are none; slabs come and go.
    "fast-large-slab": ({"GPULEAK_POOL": "fast", "GPULEAK_POOL_SLAB": "6MiB"},
                        ["--mode", "fast", "--max-bytes", str(8 * MIB)]),
    "large-slab-small-cache": ({"GPULEAK_POOL": "fast", "GPULEAK_POOL_SLAB": "6MiB",
                                "GPULEAK_POOL_CACHE": "16MiB", "GPULEAK_POOL_DECAY": "1"},
                               ["--mode", "fast", "--max-bytes", str(8 * MIB),
                                "--pinned-goes-back"]),
    "strict-large-slab": ({"GPULEAK_POOL": "strict", "GPULEAK_POOL_SLAB": "6MiB"},
                          ["--mode", "strict", "--max-bytes", str(8 * MIB)]),
    "fast-prealloc": ({"GPULEAK_POOL": "fast", "GPULEAK_POOL_PREALLOC": "256MiB"},
                      ["--mode", "fast"]),
    "fast-small-cache": ({"GPULEAK_POOL": "fast", "GPULEAK_POOL_CACHE": "2MiB",
                          "GPULEAK_POOL_DECAY": "1"},
                         ["--mode", "fast", "--pinned-goes-back"]),
    # More is asked for than there is, unless what is kept is given back in time.
    "fast-tight": ({"GPULEAK_POOL": "fast", "STANDIN_MEMORY": str(320 * MIB)},
                   ["--mode", "fast", "--max-bytes", str(MIB), "--may-wait"]),
    "fast-limit": ({"GPULEAK_POOL": "fast", "GPULEAK_LIMIT": "12MiB"},
                   ["--mode", "fast", "--must-fail", "--features", "-info"]),
    "fast-fail-from": ({"GPULEAK_POOL": "fast", "GPULEAK_FAIL_AT": "2000+"},
                       ["--mode", "fast", "--must-fail"]),
    "off-fail-at": ({"GPULEAK_FAIL_AT": "200"}, ["--must-fail"]),
    # The pool's own calls fail: it steps aside, and then frees wait as the driver's do.
    "fast-record-fails": ({"GPULEAK_POOL": "fast", "STANDIN_FAIL": "cuCtxRecordEvent:40=2"}, []),
    "slab-query-fails": ({"GPULEAK_POOL": "fast", "GPULEAK_POOL_SLAB": "1",
                          "STANDIN_FAIL": "cuEventQuery:40=700"}, []),
    # Drivers without cuCtxRecordEvent: fast is strict.
    "old-driver": ({"GPULEAK_POOL": "fast", "STANDIN_VERSION": "12040"},
                   ["--mode", "strict", "--all-goes-back"]),
    # With a library that puts off every fence that may be, as it otherwise does in long loops.
    "late-slab": ({"GPULEAK_POOL": "fast", "GPULEAK_POOL_SLAB": "1"}, ["--mode", "fast"]),
    "late-tight": ({"GPULEAK_POOL": "fast", "STANDIN_MEMORY": str(320 * MIB)},
                   ["--mode", "fast", "--max-bytes", str(MIB), "--may-wait"]),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=sorted(WAYS) + ["waits", "mutation"])
    parser.add_argument("--preload", required=True)
    parser.add_argument("--mutated", help="the library without the check of fences")
    parser.add_argument("--long-batches", help="the library that postpones fences")
    parser.add_argument("--programs", required=True, help="directory of torture and waits")
    parser.add_argument("--standin", required=True, help="directory of the stand-in driver")
    parser.add_argument("--real-driver", action="store_true", help="STANDIN leads to a real one")
    parser.add_argument("--seeds", default="1", help="comma-separated")
    parser.add_argument("--seconds", default="3", help="for each seed")
    return parser.parse_args()


def environment(options, extra, library, seed, report):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GPULEAK_", "STANDIN_"))}
    env["LD_LIBRARY_PATH"] = options.standin
    env["STANDIN_ASYNC"] = str(seed)
    if library:
        env.update(LD_PRELOAD=library, GPULEAK_FORMAT="json", GPULEAK_REPORT=report)
    env.update(extra or {})
    return env


def run(command, env):
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)


def counts_of(output):
    line = re.search(r"^torture: ok: .*$", output, re.M)
    return dict((k, int(v)) for k, v in re.findall(r"(\w+) (\d+)\b", line[0])) if line else None


def pool_differences(extra, report):
    """A pool that has stepped aside without a reason would pass everything else."""
    pools = (report.get("pool") or {}).get("pools") or []
    off = [p["turned_off"] for p in pools if p["turned_off"]]
    wrong = []
    if (extra.get("GPULEAK_POOL", "off") != "off") != bool(pools):
        wrong.append("pools: %s" % pools)
    if pools and not sum(p["hits"] for p in pools):
        wrong.append("nothing was served from the pool")
    if bool(off) != ("STANDIN_FAIL" in extra):
        wrong.append("the pool was turned off: %s" % off)
    return wrong


def differences(counts, summary):
    """What the report says otherwise than the program, which counted its own successful calls."""
    wanted = {"allocated_blocks": counts["allocated"], "freed_blocks": counts["freed"],
              "with_context_blocks": counts["lost"], "errors": counts["errors"],
              "leaked_blocks": 0}
    return ["%s is %s, not %s" % (k, summary.get(k), v)
            for k, v in wanted.items() if summary.get(k) != v]


class Tap:
    def __init__(self):
        self.count = 0
        self.bad = 0

    def line(self, good, name, why=""):
        self.count += 1
        self.bad += not good
        print("%sok %d - %s" % ("" if good else "not ", self.count, name))
        for text in why.splitlines():
            print("# " + text)
        sys.stdout.flush()


def torture(options, extra, arguments, library, seed, report):
    command = [os.path.join(options.programs, "torture"), "--seed", str(seed), "--seconds",
               options.seconds] + arguments
    return run(command, environment(options, extra, library, seed, report))


def check_way(tap, options, seed, report):
    extra, arguments = WAYS[options.way]
    if options.real_driver and any(name.startswith("STANDIN_") for name in extra or ()):
        tap.line(True, "%s # SKIP needs the stand-in" % options.way)
        return
    library = options.preload if extra is not None else None
    if options.way.startswith("late"):
        library = options.long_batches
    done = torture(options, extra, arguments, library, seed, report)
    counts = counts_of(done.stdout)
    good = done.returncode == 0 and counts is not None
    tap.line(good, "%s, seed %s: every byte, every answer" % (options.way, seed), done.stdout)
    if good and library:
        with open(report, encoding="utf-8") as file:
            told = json.load(file)
        wrong = differences(counts, told["summary"]) + pool_differences(extra, told)
        tap.line(not wrong, "%s, seed %s: the report says the same" % (options.way, seed),
                 "\n".join(wrong))


def check_waits(tap, options, seed, report):
    program = os.path.join(options.programs, "waits")
    for mode, more in (("off", {}), ("strict", {}), ("fast", {}),
                       ("strict", {"GPULEAK_POOL_SLAB": "1"}), ("fast", {"GPULEAK_POOL_SLAB": "1"}),
                       ("fast", {"GPULEAK_POOL_PREALLOC": "1GiB"})):
        extra = {"GPULEAK_POOL": mode, **more}
        done = run([program, mode], environment(options, extra, options.preload, seed, report))
        good = done.returncode == 0 and re.search(r"^1\.\.\d+$", done.stdout, re.M)
        tap.line(bool(good), "waits, %s" % " ".join([mode] + list(more)), done.stdout)
    done = run([program, "off"], environment(options, None, None, seed, report))
    tap.line(done.returncode == 0, "waits, without the library", done.stdout)


def check_mutation(tap, options, seed, report):
    """Only fast: strict has waited for a block's fence before it is kept. Torture ends with the
    first wrong byte; it has time for that on a busy machine too."""
    options.seconds = "60"
    done = torture(options, {"GPULEAK_POOL": "fast"}, [], options.mutated, seed, report)
    tap.line(done.returncode == 1 and "WRONG BYTES" in done.stdout,
             "without fences, seed %s: wrong bytes are noticed" % seed, done.stdout)


def main():
    options = parse()
    tap = Tap()
    check = {"waits": check_waits, "mutation": check_mutation}.get(options.way, check_way)
    with tempfile.TemporaryDirectory() as place:
        for seed in options.seeds.split(","):
            check(tap, options, int(seed), os.path.join(place, "report.json"))
    print("1..%d" % tap.count)
    return 1 if tap.bad else 0


if __name__ == "__main__":
    sys.exit(main())
