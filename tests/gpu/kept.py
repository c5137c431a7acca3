#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs scripts that say of themselves what accumulates, on real PyTorch under gpuleak: at module
level and inside main(), several at a time. Compares the lines that gpuleak calls accumulating, and
the first line of its report, with the script's first line. A clean script that seeds the random
numbers also runs bare: the same output. Status 1 if anything differs.

    kept.py --gpuleak CMD --results DIR [-j N] [--only TEXT] FOLDER...

The first line of a script is "# truth: clean" or "# truth: accumulates at @leak"; "# @leak" ends
the lines that allocate what accumulates. Other files of a FOLDER are ignored."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
IN_MAIN = os.path.join(HERE, "..", "frameworks", "design", "in_main.py")
TRUTHS = {"# truth: clean": False, "# truth: accumulates at @leak": True}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_truth(path):
    """Returns the marked lines of a script, or None for another file."""
    lines = read(path).split("\n")
    if lines[0] not in TRUTHS:
        return None
    return [number for number, line in enumerate(lines, 1) if line.endswith("# @leak")]


def line_of(stack, path):
    for frame in stack:
        if frame.get("file") and os.path.realpath(frame["file"]) == path:
            return frame.get("line") or 0
    return 0


def run(command, limit=240):
    start = time.monotonic()
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None, "", "did not end within %d s" % limit, limit
    return ran.returncode, ran.stdout, ran.stderr, time.monotonic() - start


def check(options, path, inside_main):
    """Returns a dictionary with what was seen and what is wrong with it."""
    name = os.path.basename(path) + (" inside main()" if inside_main else "")
    program = [sys.executable] + ([IN_MAIN] if inside_main else []) + [path]
    report = os.path.join(options.results, name.replace(" ", "-") + ".json")
    status, out, err, seconds = run(options.gpuleak + ["run", "--format", "json", "--report", report, "--"] + program)
    own = [line for line in err.split("\n") if line.startswith("gpuleak")]
    wanted, wrong = read_truth(path), []
    seen = {"name": name, "status": status, "first_line": own[0] if own else "", "output": out[-200:],
            "seconds": round(seconds, 1), "wanted": wanted}
    if status != 0:
        wrong.append("status %s: %s" % (status, err[-300:]))
    sites = json.load(open(report, encoding="utf-8")).get("suballocations", []) if os.path.exists(report) else []
    growing = [site for site in sites if site.get("trend") == "accumulating"]
    seen["accumulating"] = sorted({line_of(site["stack"], path) for site in growing})
    seen["trends"] = sorted([line_of(site["stack"], path), site.get("trend") or "unknown", site.get("allocated_blocks"),
                             site.get("freed_blocks")] for site in sites)
    if bool(wanted) != bool(growing) or not set(seen["accumulating"]) <= set(wanted):
        wrong.append("accumulating at %s, wanted %s" % (seen["accumulating"], wanted))
    named = re.search(r"accumulate.*?%s:(\d+)" % re.escape(os.path.basename(path)), seen["first_line"])
    if (int(named.group(1)) in wanted) != bool(wanted) if named else bool(wanted):
        wrong.append("the first line does not name the line")
    if not wanted and not inside_main and "manual_seed" in read(path):
        bare = run(program)
        seen["bare_seconds"] = round(bare[3], 1)
        if (status, out) != bare[:2]:
            wrong.append("bare: status %s, %s" % (bare[0], bare[1][-200:]))
    seen["wrong"] = wrong
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpuleak", required=True, type=str.split)
    parser.add_argument("--results", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("-j", "--jobs", type=int, default=8)
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    paths = [os.path.realpath(os.path.join(folder, name)) for folder in options.folders
             for name in sorted(os.listdir(folder)) if name.endswith(".py") and options.only in name]
    work = [(path, inside) for path in paths if read_truth(path) is not None for inside in (False, True)]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, \
            open(os.path.join(options.results, "kept.jsonl"), "w", encoding="utf-8") as file:
        for seen in pool.map(lambda item: check(options, *item), work):
            file.write(json.dumps(seen) + "\n")
            file.flush()
            bad += bool(seen["wrong"])
            print("%s %s: %s%s" % ("not ok" if seen["wrong"] else "ok", seen["name"], seen["first_line"],
                                   "".join("\n    " + text for text in seen["wrong"])), flush=True)
    print("%d runs, %d wrong" % (len(work), bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
