#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds programs of HeCBench (github.com/zjin-lcf/HeCBench, folder src) by their own Makefiles, and runs
each bare, under the guard and bare again. Output is compared without the lines that name times; a program
whose two bare runs differ is compared by its status and the words PASS and FAIL. Prints what differs and
what the guard found. Does not judge a finding: that is looked up in the program's source.

    hecbench.py SRC WORK --command GPULEAK [--json FILE] [--build-for S] [--run-for S] [--limit S]"""

import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

RUN = re.compile(r"^run:[^\n]*\n\t\$\(LAUNCHER\)\s+(?:\./)?\$\(program\)([^\n]*)", re.M)
NEEDS = re.compile(r"[/$|]|[a-zA-Z]\.[a-z]")  # arguments that name files
TIMES = re.compile(r"time|second|bandwidth|throughput|speed|[GMTK]B/s|FLOP|\b(us|ms|ns|s)\b|Hz", re.I)
LEVELS = "copies,patterns,pages"


def selected(source):
    """The programs of one or two files without data, MPI or NCCL, and their arguments."""
    for folder in sorted(glob.glob(os.path.join(source, "*-cuda"))):
        files = os.listdir(folder)
        try:
            with open(os.path.join(folder, "Makefile"), encoding="utf-8", errors="replace") as file:
                rules = file.read()
        except OSError:
            continue
        run = RUN.search(rules)
        sources = [name for name in files if name.endswith((".cu", ".cpp", ".cc", ".c"))]
        if run and not NEEDS.search(run.group(1)) and len(sources) <= 2 and "../" not in rules \
                and "mpi" not in rules.lower().replace("compile", "") and "nccl" not in rules.lower():
            yield os.path.basename(folder), run.group(1).split()


def build(folder, end):
    if time.monotonic() > end:
        return False
    with open(os.path.join(folder, "build.log"), "w", encoding="utf-8") as log:
        try:
            made = subprocess.run(["make", "ARCH=sm_90", "EXTRA_CFLAGS=-g -lineinfo"], cwd=folder, stdout=log,
                                  stderr=log, timeout=max(1, end - time.monotonic()), check=False)
        except subprocess.TimeoutExpired:
            return False
    return made.returncode == 0


def run(command, folder, limit):
    """Returns the status (None after the limit) and the output."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True) as process:
        try:
            out, _ = process.communicate(timeout=limit)
            return process.returncode, out
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""


def steady(out):
    return [line for line in out.splitlines() if not TIMES.search(line) and not line.startswith("gpuleak")]


def verdicts(out):
    return re.findall(r"pass|fail|success|error|wrong|incorrect", out, re.I)


def compare(bare, guard, again):
    if guard[0] is None:
        return "over the limit"
    if bare[0] != guard[0]:
        return "status %s, under the guard %s" % (bare[0], guard[0])
    if steady(bare[1]) == steady(again[1]):
        return "equal" if steady(bare[1]) == steady(guard[1]) else "output differs"
    return "equal in words" if verdicts(bare[1]) == verdicts(guard[1]) else "words differ"


def both(name, arguments, folder, options, end):
    if time.monotonic() > end:
        return None
    program = ["./main"] + arguments
    bare = run(program, folder, options.limit)
    if bare[0] != 0:
        return None  # it takes too long, or needs a file that is not here
    report = os.path.join(folder, "report.json")
    guard = run([options.command, "run", "--guard", LEVELS, "--format", "json", "--report", report, "--"] + program,
                folder, 5 * options.limit)
    again = run(program, folder, options.limit)
    result = {"name": name, "arguments": arguments, "status": bare[0], "result": compare(bare, guard, again)}
    try:
        with open(report, encoding="utf-8") as file:
            parts = json.load(file)
        parts = parts.get("processes", [parts])
        result.update(errors=[error for part in parts for error in part["errors"]],
                      guard=[part.get("guard") for part in parts])
    except (OSError, ValueError, KeyError) as error:
        result["result"] += ", no report: %s" % error
    if not result["result"].startswith("equal"):
        result["outputs"] = [out[1][-3000:] for out in (bare, guard, again)]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("work")
    parser.add_argument("--command", required=True)
    parser.add_argument("--json")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--build-for", type=float, default=150)
    parser.add_argument("--run-for", type=float, default=240)
    parser.add_argument("--limit", type=float, default=6)
    options = parser.parse_args()
    options.command = os.path.abspath(options.command)
    programs = list(selected(options.source))
    for name, _ in programs:
        shutil.copytree(os.path.join(options.source, name), os.path.join(options.work, name), dirs_exist_ok=True)
    end = time.monotonic() + options.build_for
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda program: build(os.path.join(options.work, program[0]), end), programs))
    programs = [program for program, good in zip(programs, made) if good]
    end = time.monotonic() + options.run_for
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = [result for result in pool.map(
            lambda program: both(*program, os.path.join(options.work, program[0]), options, end), programs)
                   if result]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    equal = [result for result in results if result["result"].startswith("equal")]
    print("%d selected, %d built, %d ran bare, %d equal under the guard" % (
        len(made), len(programs), len(results), len(equal)))
    for result in results:
        if result not in equal or result.get("errors"):
            print("%s: %s, %d errors" % (result["name"], result["result"], len(result.get("errors", []))))


if __name__ == "__main__":
    main()
