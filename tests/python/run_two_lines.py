#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whatever adds up memory by call site keeps two lines of Python behind one native call apart.

run_two_lines.py --preload LIB --command EXE --standin DIR"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "programs"))

from harness import SLOWER, Failed, Tap, compare  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
PROGRAM = str(HERE / "two_lines.py")


def line_of(marker):
    lines = pathlib.Path(PROGRAM).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith("# @" + marker))


LINES = {line_of(name): name for name in ("keep", "work")}


class Place:
    def __init__(self, options):
        self.options = options
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.ledger = str(self.root / "a.gpuleak")
        self.env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.root),
                    "LC_ALL": "C.UTF-8", "XDG_RUNTIME_DIR": str(self.root),
                    "LD_LIBRARY_PATH": options.standin, "PYTHONDONTWRITEBYTECODE": "1"}
        for kept in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if kept in os.environ:
                self.env[kept] = os.environ[kept]

    def run(self, *argv, env=None):
        return subprocess.run(argv, env={**self.env, **(env or {})}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120 * SLOWER,
                              universal_newlines=True)

    def command(self, *argv, env=None):
        return self.run(self.options.command, *argv, env=env)

    def record(self, story, *flags, env=None):
        """Runs STORY and keeps its ledger."""
        run = self.command("run", "--report", "none", "--ledger", self.ledger, *flags, "--",
                           sys.executable, PROGRAM, story, env=env)
        compare("status and stderr", (0, ""), (run.returncode, run.stderr))

    def report(self, *flags):
        run = self.command("report", "--format", "json", *flags, self.ledger)
        compare("status and stderr", (0, ""), (run.returncode, run.stderr))
        return json.loads(run.stdout)


def name_of(entry):
    """"keep" or "work": the innermost line of the program's two that ENTRY's stack has."""
    for frame in entry["stack"]:
        if frame["file"] == PROGRAM and frame["line"] in LINES:
            return LINES[frame["line"]]
    return None


def amounts(entries, *keys):
    """{name: [value of each key]}, of which each name must be in one entry."""
    ret = {}
    for entry in entries:
        name = name_of(entry)
        if name in ret:
            raise Failed("%s is listed twice" % name)
        ret[name] = [entry[key] for key in keys]
    return ret


def growth_json(place):
    """growth in JSON: one line grows, the other does not"""
    place.record("grow")
    growth = place.report()["growth"]
    compare("steps", 12, growth["step_count"])
    compare("suspects", {"keep": [320 * KIB, 3840 * KIB, 60]},
            amounts(growth["suspects"], "bytes_per_step", "bytes", "blocks"))
    compare("series", [i * 320 * KIB for i in range(1, 13)],
            growth["suspects"][0]["bytes_at_steps"])


def growth_beside_constant(place):
    """growth: what another line holds from the start is not part of the suspect"""
    place.record("constant")
    compare("suspects", {"keep": [320 * KIB, 3840 * KIB, 60]},
            amounts(place.report()["growth"]["suspects"], "bytes_per_step", "bytes", "blocks"))


def growth_text(place):
    """growth in text: the suspect with its line"""
    place.record("grow")
    text = place.command("report", place.ledger).stdout
    found = re.findall("^gpuleak: suspect: (.*) at call .*, called from keep \\((.*?)\\), .*: grew over "
                       "the last (\\d+) steps, to (.*)$", text, re.MULTILINE)
    compare("suspects", [("320.0 KiB per step", "%s:%d" % (PROGRAM, line_of("keep")), "11",
                          "3.7 MiB in 60 blocks")], found)


def growth_gate(place):
    """--max-growth fails for one of the two lines, and holds for a budget that it keeps"""
    for budget, status in (("0", 23), ("327679", 23), ("327680", 0)):
        run = place.command("run", "--max-growth", budget, "--", sys.executable, PROGRAM, "grow")
        compare("status with " + budget, status, run.returncode)


def told(place, env, argv):
    """Starts the program that takes a step for each line of input, and takes eight."""
    process = subprocess.Popen(argv, env={**place.env, **env}, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               universal_newlines=True)
    for number in range(8):
        process.stdin.write("\n")
        process.stdin.flush()
        compare("answer", "%d\n" % number, process.stdout.readline())
    return process


def top(place):
    """top: live bytes of each line, and the suspect"""
    process = told(place, {"LD_PRELOAD": place.options.preload, "GPULEAK_REPORT": "none"},
                   [sys.executable, PROGRAM, "told"])
    text = place.command("top", "--once", str(process.pid)).stdout
    process.communicate()
    # work() allocates nine blocks in each step and frees none of them.
    found = re.findall("^ *(\\S+ MiB) +(\\d+) +call .*, called from (keep|work) \\(", text, re.MULTILINE)
    compare("sites", [("72.0 MiB", "72", "work"), ("2.5 MiB", "40", "keep")], found)
    compare("suspects", [("320.0 KiB", "keep"), ("9.0 MiB", "work")],
            sorted(re.findall("(\\S+ \\S+) per step at call .*, called from (keep|work) ", text)))


def leaks(place):
    """leaks, peak and call sites: the amounts of each line"""
    place.record("refused", env={"GPULEAK_LIMIT": "1GiB"})
    expected = {"keep": [192 * KIB, 3], "work": [2 * MIB, 2]}
    report = place.report()
    compare("leaks", expected, amounts(report["leaks"], "bytes", "blocks"))
    compare("peak", expected, amounts(report["peak"]["holders"], "bytes", "blocks"))
    (refusal,) = report["out_of_memory"]
    compare("who was refused", "work", name_of(refusal))
    compare("holders", expected, amounts(refusal["holders"], "bytes", "blocks"))
    folded = place.command("report", "--format", "folded", place.ledger).stdout
    compare("folded", {"keep": "196608", "work": "2097152"},
            dict(re.findall("(keep|work) [^;]*;[^\n]* (\\d+)$", folded, re.MULTILINE)))


def costs(place):
    """driver growth and costs: the calls of each line"""
    place.record("costs", env={"STANDIN_COSTS": "0,%d,0,0" % MIB})
    found = [cost for cost in place.report()["driver_costs"] if cost["cause"] == "module"]
    compare("modules", {"keep": [3, 3 * MIB], "work": [2, 2 * MIB]},
            amounts(found, "calls", "bytes"))
    objects = place.report()["objects"]
    compare("objects", {"keep": [3, 3], "work": [2, 2]},
            amounts([entry for entry in objects if entry["kind"] == "module"], "count", "created"))


def accumulations(place):
    """accumulation: only the line that keeps its blocks"""
    place.record("accumulate", env={"GPULEAK_ACCUMULATION": "on"})
    report = place.report()
    compare("leaks", {"keep": [4000 * 64 * KIB, 4000]}, amounts(report["leaks"], "bytes", "blocks"))


def short_form(place):
    """the fallback report: each line's blocks, and the line"""
    os.mkdir(str(place.root / "alone"))
    library = str(place.root / "alone" / "libgpuleak.so")
    shutil.copy(place.options.preload, library)  # no command beside it
    run = place.run(sys.executable, PROGRAM, "refused",
                    env={"LD_PRELOAD": library, "GPULEAK_LIMIT": "1GiB"})
    compare("the form", True, "this is the short form of the report" in run.stderr)
    found = {}
    for leak in re.split("^(?=Leak of)", run.stderr.split("Out of memory")[0], flags=re.MULTILINE)[1:]:
        line = re.search("^    Python: (keep|work) \\(%s:(\\d+)\\)$" % re.escape(PROGRAM), leak,
                         re.MULTILINE)
        if not line:
            raise Failed("no line of Python:\n" + leak)
        # The short form compares native frames, and Python 3.13 specializes a call when it is run again.
        had = found.setdefault(LINES[int(line.group(2))], [0, 0])
        for i, number in enumerate(re.match("Leak of (\\d+) bytes in (\\d+)", leak).groups()):
            had[i] += int(number)
    compare("leaks", {"keep": [196608, 3], "work": [2097152, 2]}, found)


def diff(place):
    """diff: the leaks of each line, from a ledger and from its JSON report"""
    place.record("refused", env={"GPULEAK_LIMIT": "1GiB"})
    report = place.root / "a.json"
    report.write_text(json.dumps(place.report()))
    for before in (place.ledger, str(report)):
        for after in (place.ledger, str(report)):
            run = place.command("diff", "--format", "json", before, after)
            compare("status", 0, run.returncode)
            compare("leaks", {"keep": [192 * KIB, 192 * KIB, "unchanged"],
                              "work": [2 * MIB, 2 * MIB, "unchanged"]},
                    {name_of(entry): [entry["before"]["bytes"], entry["after"]["bytes"],
                                      entry["change"]]
                     for entry in json.loads(run.stdout)["leaks"]})


def parse(description, *more):
    parser = argparse.ArgumentParser(description=description)
    for name in ("preload", "command", "standin") + more:
        parser.add_argument("--" + name, required=True, type=os.path.realpath)
    return parser.parse_args()


def main():
    options = parse(__doc__)
    tap = Tap()
    for check in (growth_json, growth_beside_constant, growth_text, growth_gate, top, leaks, costs,
                  accumulations, short_form, diff):
        place = Place(options)
        tap.step(check.__doc__, check, place)
        shutil.rmtree(str(place.root))
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
