#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks every format of the report on a training that keeps its losses, and on one that does not,
with PyTorch's stand-ins: tests/frameworks/design/losses_bad.py and losses_good.py. TAP.

    reports.py --torch FOLDER --preload ... --command ... --standin ... [--only TEXT]"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
DESIGN = os.path.join(TESTS, "frameworks", "design")
sys.path.insert(0, os.path.dirname(HERE))

from standin_torch import PYTHON, arguments, run_steps
from harness import SLOWER, Failed, compare

BAD, GOOD = (os.path.join(DESIGN, "losses_%s.py" % name) for name in ("bad", "good"))
KEPT = "153,600 bytes (150.0 KiB) in 300 tensors (PyTorch caching allocator, device 0)"
TREND = "300 of 300 kept, N per second until the loop ended"
PLACE = "train_step (%s:13), called from <module> (%s:23)" % (BAD, BAD)
CACHE = "1 held by the PyTorch caching allocator (2.0 MiB)"


def run(options, place, script, *before, **extra):
    """The ledger of SCRIPT, run by python3 BEFORE in an environment with EXTRA."""
    names = map(os.path.basename, (script, *before, *extra.values()))
    ledger = os.path.join(place, "-".join(names) + ".gpuleak")
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "STANDIN_", "PYTORCH_", "GITHUB_", "CI_"))}
    env.update(STANDIN_TORCH=options.torch, STANDIN_STEP_SECONDS="0.001",
               LD_LIBRARY_PATH=options.standin,
               PYTHONPATH=os.path.join(HERE, "site-packages"), PYTHONDONTWRITEBYTECODE="1",
               LD_PRELOAD=options.preload, GPULEAK_REPORT="none", GPULEAK_LEDGER=ledger, **extra)
    ran = subprocess.run([PYTHON, *before, script], env=env, check=False, capture_output=True,
                         text=True, timeout=120 * SLOWER)
    if ran.returncode or ran.stderr:
        raise Failed("status %d\n%s" % (ran.returncode, ran.stderr))
    return ledger


def output(options, *args, status=0, binary=False):
    """What the command prints, without pids and rates, which differ in every run."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "GITHUB_", "CI_"))}
    env["GITHUB_WORKSPACE"] = TESTS
    ran = subprocess.run([options.command, *args], check=False, capture_output=True, env=env)
    compare("status of %s" % (args,), status, ran.returncode)
    if binary:
        return ran.stdout
    text = re.sub(r"\(pid \d+\)", "(pid P)", ran.stdout.decode("utf-8"))
    return re.sub(r"kept, [\d,]+(\.\d)? per second", "kept, N per second", text)


def lines_with(text, word):
    return [line for line in text.splitlines() if word in line]


def text(options, bad, good):
    """text: a paragraph for the line that keeps tensors; the clean training prints one line"""
    told = output(options, "report", bad)
    program = re.search(r" allocated by (\S+) \(pid P\)", told)[1]
    compare("first lines", ["gpuleak: 150.0 KiB in 300 tensors accumulate at train_step (%s:13)" % BAD,
                            "gpuleak: 1 block (2.0 MiB) allocated by %s (pid P), 0 freed, %s, peak 2.0 "
                            "MiB; exited with status 0" % (program, CACHE)], told.splitlines()[:2])
    compare("paragraphs", 1, told.count("Accumulating: "))
    compare("its first line", ["Accumulating: %s, %s, allocated at:" % (KEPT, TREND)],
            lines_with(told, "Accumulating: "))
    frames = re.search(r"Accumulating: [^\n]*\n(.*?)\n\n", told, re.S)[1]
    compare("frames of the script", ["train_step %s:13" % BAD, "<module> %s:23" % BAD],
            [line.split(" ", 5)[5] for line in frames.splitlines() if "losses_bad" in line])
    compare("the cache", ["  PyTorch caching allocator: 2,097,152 bytes (2.0 MiB) in 1 block, at "
                          "<module> (%s:19)" % BAD], lines_with(told, "  PyTorch caching"))
    compare("the clean training", "gpuleak: no leaks: 1 block (2.0 MiB) allocated by %s (pid P), 0 "
            "freed, %s; peak 2.0 MiB, of which 1.2 MiB unused in the PyTorch caching allocator\n" % (
                program, CACHE), output(options, "report", good))


def json_format(options, bad, good):
    """json: the trend, what was kept, and that all was freed at the end"""
    (entry,) = json.loads(output(options, "report", "--format", "json", bad))["suballocations"]
    rate, frames = entry.pop("kept_per_second"), entry.pop("stack")
    compare("a rate", True, rate > 1)
    compare("lines", [13, 23], [frame["line"] for frame in frames if frame["file"] == BAD])
    compare("fingerprint", 16, len(entry.pop("fingerprint")))
    compare("entry", {"api": "c10::reportMemoryUsageToProfiler", "kind": "suballocation",
                      "device": 0, "bytes": 0, "blocks": 0, "cache": "PyTorch caching allocator",
                      "allocated_blocks": 300, "freed_blocks": 300, "trend": "accumulating",
                      "kept_bytes": 153600, "kept_blocks": 300, "peak_blocks": 300}, entry)
    report = json.loads(output(options, "report", "--format", "json", good))
    compare("clean", [], report["suballocations"])


def html(options, bad, good):
    """html: the data of the page has the words"""
    for ledger, wanted in ((bad, [("tensor", TREND)]), (good, [])):
        page = output(options, "report", "--format", "html", ledger)
        data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
        compare("words", wanted, [(site["unit"], site["trend_text"])
                                  for site in data["suballocations"]])


def junit(options, bad, good):
    """junit: a failed case; the clean training has a case that passes"""
    suite = ElementTree.fromstring(output(options, "report", "--format", "junit", bad))[0]
    (case,) = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    compare("class", "gpuleak.accumulation", case.get("classname"))
    compare("name", "train_step (losses_bad.py)", case.get("name").rsplit(" ", 1)[0])
    compare("message", "%s accumulate: %s, allocated at %s" % (KEPT, TREND, PLACE),
            case.find("failure").get("message"))
    suite = ElementTree.fromstring(output(options, "report", "--format", "junit", good))[0]
    compare("cases", ["everything was recorded", "no leaks", "no invalid frees",
                      "nothing accumulates"], [case.get("name") for case in suite.iter("testcase")
                                               if not len(case)])
    compare("failures", "0", suite.get("failures"))


def sarif(options, bad, good):
    """sarif: a warning at the line, with a rule of its own"""
    results = [json.loads(output(options, "report", "--format", "sarif", ledger))
               ["runs"][0]["results"] for ledger in (bad, good)]
    compare("rules", [["accumulation", "cache"], ["cache"]],
            [[result["ruleId"] for result in one] for one in results])
    found = results[0][0]
    where = found["locations"][0]["physicalLocation"]
    compare("where", ("frameworks/design/losses_bad.py", 13),
            (where["artifactLocation"]["uri"], where["region"]["startLine"]))
    compare("level", "warning", found["level"])
    compare("message", "%s accumulate: %s, allocated at %s" % (KEPT, TREND, PLACE),
            found["message"]["text"])


def github(options, bad, good):
    """github: a warning at the line; the clean training has none"""
    told = output(options, "report", "--format", "github", bad)
    (line,) = lines_with(told, "::warning ")
    compare("warning", "::warning file=frameworks/design/losses_bad.py,line=13,title=GPU memory "
            "accumulates%%3A 150.0 KiB::%s accumulate: %s, allocated at:" % (KEPT, TREND),
            line.split("%0A")[0])
    compare("notices", 1, told.count("::notice "))
    told = output(options, "report", "--format", "github", good)
    compare("clean", ["::notice title=gpuleak%3A no leaks", "::notice file=frameworks/design/"
                      "losses_good.py,line=19,title=GPU memory held by a cache%3A 2.0 MiB"],
            [line.rsplit("::", 1)[0] if "no leaks" in line else line.split("MiB::")[0] + "MiB"
             for line in told.splitlines()])


def openmetrics(options, bad, good):
    """openmetrics: the call site, and no live tensor at the end"""
    for ledger, count in ((bad, 1), (good, 0)):
        told = output(options, "report", "--format", "openmetrics", ledger)
        values = dict(line.rsplit(" ", 1) for line in told.splitlines() if line[0] != "#")
        found = {re.sub(r'pid="\d+",program="[^"]*",?|,site="[^"]*"', "", name): value
                 for name, value in values.items() if "suballocat" in name or "accumul" in name}
        labels = ('{device="0",kind="suballocation",api="c10::reportMemoryUsageToProfiler",'
                  'function="train_step",file="losses_bad.py"}')
        wanted = {"gpuleak_accumulating_sites{}": str(count)}
        if count:
            pool = '{device="0",cache="PyTorch caching allocator"}'
            wanted.update({"gpuleak_suballocated_bytes" + pool: "0",
                           "gpuleak_suballocated_blocks" + pool: "0",
                           "gpuleak_site_accumulated_bytes" + labels: "153600",
                           "gpuleak_site_accumulated_blocks" + labels: "300"})
        compare("series", wanted, found)


def profiles(options, bad, good):
    """folded, pprof: only what is live at the end, which is the cache's block"""
    for ledger in (bad, good):
        told = output(options, "report", "--format", "folded", ledger)
        compare("bytes", ["2097152"], [line.rsplit(" ", 1)[1] for line in told.splitlines()
                                       if not line.startswith("peak: ")])
        compare("bytes at the peak", 2097152, sum(
            int(line.rsplit(" ", 1)[1]) for line in told.splitlines() if line.startswith("peak: ")))
        packed = output(options, "report", "--format", "pprof", ledger, binary=True)
        compare("a leaf, of the peak", True, b"cached, unused" in gzip.decompress(packed))


def diff(options, bad, good):
    """diff: a call site that accumulates is worse than none, from ledgers and from JSON"""
    reports = {}
    for name, ledger in (("bad", bad), ("good", good)):
        reports[name] = ledger + ".json"
        with open(reports[name], "wb") as file:
            file.write(output(options, "report", "--format", "json", ledger, binary=True))
    leaked = "leaked: 0 bytes in 0 blocks, before: 0 bytes in 0 blocks"
    for before, after in ((good, bad), (reports["good"], reports["bad"])):
        told = output(options, "diff", "--gate", before, after, status=23)
        first, _, third = told.splitlines()[:3]
        compare("counts", "gpuleak diff: 0 new, 0 grew, 0 shrank, 0 gone, 0 unchanged; %s; "
                "accumulating: 1 new, 0 grew, 0 shrank, 0 gone, 0 unchanged; objects: 1 new, 0 grew, "
                "0 shrank, 1 gone, 0 unchanged; peak: 2,097,152 bytes (2.0 MiB), before: 2,097,152 "
                "bytes (2.0 MiB)" % leaked, first)  # each script has its own line for the context
        compare("the new one", "accumulating, new: 153,600 bytes (150.0 KiB) in 300 tensors (PyTorch"
                " caching allocator), fingerprint F, at " + PLACE,
                re.sub("fingerprint [0-9a-f]{16}", "fingerprint F", third))
    gone = json.loads(output(options, "diff", "--gate", "--format", "json", bad, good))
    compare("gone", (False, 1, ["gone"]), (gone["worse"], gone["accumulating_counts"]["gone"], [
        row["change"] for row in gone["accumulating"]]))
    compare("same", 1, json.loads(output(options, "diff", "--gate", "--format", "json", bad,
                                         reports["bad"]))["accumulating_counts"]["unchanged"])


def suppressions(options, bad, _):
    """suppressions: a line is generated, and what it matches is in no list"""
    path = bad + ".supp"
    output(options, "report", "--gen-suppressions", path, bad)
    with open(path, encoding="utf-8") as file:
        compare("file", "# 153,600 bytes (150.0 KiB) in 300 tensors (suballocation, "
                "c10::reportMemoryUsageToProfiler) that accumulate, allocated in function train_step "
                "(%s:13)\nleak:^train_step$\n" % BAD, file.read())
    told = output(options, "report", "--suppressions", path, bad)
    compare("text", [], lines_with(told, "ccumulat"))
    compare("used", ["         0                    0  ^train_step$"], lines_with(told, "train_step"))
    told = output(options, "report", "--suppressions", path, "--format", "json", bad)
    compare("pattern", "^train_step$", json.loads(told)["suballocations"][0]["pattern"])
    told = output(options, "report", "--suppressions", path, "--format", "github", bad)
    compare("annotations", [], lines_with(told, "::warning"))


def baseline(options, bad, good):
    """baseline: what accumulates is known, and gone if it does no more"""
    path = bad + ".baseline"
    output(options, "check", "--baseline", path, "--update-baseline", bad)
    with open(path, encoding="utf-8") as file:
        compare("file", ["153600", "300", "#", "c10::reportMemoryUsageToProfiler", "suballocation",
                         "train_step", "(losses_bad.py)"], file.read().splitlines()[-1].split()[1:])
    compare("the same", 0, gone(options, path, bad))
    output(options, "check", "--gate-accumulation", "1", "--baseline", path, bad)
    compare("gone", 1, gone(options, path, good))


def gone(options, path, ledger):
    gate = json.loads(output(options, "check", "--format", "json", "--baseline", path, ledger))
    return sum(": known leak is gone: " in note for note in gate["gate"].get("notes", []))


def gate(options, bad, good):
    """gate: it mentions what accumulates, and fails with --gate-accumulation"""
    kept = "153,600 bytes (150.0 KiB) in 300 tensors accumulate"
    for status, args, wanted in (
            (0, (), kept + ", which does not count (--gate-accumulation 1 counts it)"),
            (23, ("--gate-accumulation", "1"), "%s at train_step (%s:13), called from <module> in "
             "X, 0 allowed" % (kept, BAD))):
        found = json.loads(output(options, "check", "--format", "json", *args, bad, status=status))
        compare("reasons", [wanted], [re.sub(r"in process \d+ \(\S+\)", "in X", reason) for reason in
                                      found["gate"]["reasons"] if "accumulate" in reason])
        suite = ElementTree.fromstring(output(options, "check", "--format", "junit", *args, bad,
                                              status=status))[0]
        compare("failures", str(int(status > 0)), suite.get("failures"))
    output(options, "check", "--gate-accumulation", "1", good)


def inside_main(options, bad, good):
    """a script whose code stands in main() has the same paragraph"""
    place = os.path.dirname(bad)
    ledger = run(options, place, BAD, os.path.join(DESIGN, "in_main.py"))
    told = output(options, "report", ledger)
    compare("paragraph", ["Accumulating: %s, %s, allocated at:" % (KEPT, TREND)],
            lines_with(told, "Accumulating: "))
    ledger = run(options, place, GOOD, os.path.join(DESIGN, "in_main.py"))
    compare("clean", 1, output(options, "report", ledger).count("\n"))


def ranks(options, bad, _):
    """ranks: what accumulates in two of three ranks is printed once"""
    place = os.path.join(os.path.dirname(bad), "ranks")
    os.mkdir(place)
    for rank, script in enumerate((BAD, BAD, GOOD)):
        run(options, place, script, RANK=str(rank), WORLD_SIZE="3")
    told = output(options, "report", place)
    compare("first line", "gpuleak: 300.0 KiB in 600 tensors accumulate at train_step (%s:13) in 2 of 3 "
            "ranks\ngpuleak: 3 blocks " % BAD, told[:told.index("3 blocks ") + 9])
    compare("once", ["Accumulating: 307,200 bytes (300.0 KiB) in 600 tensors in 2 of 3 ranks, 150.0 "
                     "KiB each (PyTorch caching allocator, device 0), allocated at:"],
            lines_with(told, "ccumulating: "))
    (shared,) = json.loads(output(options, "report", "--format", "json", place))["ranks"][
        "shared_accumulating"]
    compare("parts", [{"rank": rank, "bytes": 153600, "blocks": 300} for rank in (0, 1)],
            shared["in"])


CASES = [ranks, text, json_format, html, junit, sarif, github, openmetrics, profiles, diff,
         suppressions, baseline, gate, inside_main]


def run_case(options, _, case, bad, good):
    case(options, bad, good)


def main():
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory(prefix="gpuleak-reports-") as place:
        bad, good = run(options, place, BAD), run(options, place, GOOD)
        return run_steps(options, [(" ".join(case.__doc__.split()), run_case, case, bad, good)
                                   for case in CASES])


if __name__ == "__main__":
    sys.exit(main())
