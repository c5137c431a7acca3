#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs programs that fill the device, each under `gpuleak run`: real PyTorch, CuPy, JAX, and a C++
program with cuBLAS. Compares the first line of the report with what the program says of itself, and
NVML's figure with what the report explains of it. Status 1 if anything differs.

    oom.py --gpuleak CMD --results DIR FILE...

The first line of a file is "# truth: out of memory at @wanted, most held at @held", "..., most held
by NAME", "# truth: peak at @held" or "# truth: recovered". A line with NAME=VALUE sets a variable; "nvcc:" has arguments."""

import argparse
import json
import os
import re
import subprocess
import sys
import time

UNEXPLAINED = 0.05 # of NVML's figure for the process
PLACE = r"[^(;,]*\([^()]*/%s:%d\)"


def read_truth(path):
    """Returns what the first line must be, the program's status, its outcomes, and the variables and
    nvcc arguments of the file."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    name = re.escape(os.path.basename(path))

    def place(marker):
        numbers = [number for number, line in enumerate(lines, 1)
                   if re.search(r"[#*].*%s\b" % marker, line) and number > 1]
        return PLACE % (name, numbers[0])

    env, nvcc = {}, []
    for line in lines[:5]:
        setting = re.match(r"# (\w+)=(\S+)$", line)
        if setting:
            env[setting.group(1)] = setting.group(2)
        elif line.startswith("// nvcc:"):
            nvcc = line.split()[2:]
    truth = re.sub(r"^(#|//) truth: ", "", lines[0])
    if truth == "recovered":
        return r"gpuleak: no leaks: .*; out of memory 1 time, 1 of them recovered", 0, \
            ["recovered"], env, nvcc
    if truth == "peak at @held":
        return r"gpuleak: no leaks: .*; peak [\d.]+ GiB[^,]*, [^,]+ %s" % place("@held"), 1, [], \
            env, nvcc
    by = re.search(r"most held by (.*)$", truth)
    holder = re.escape(by.group(1)) if by else place("@held")
    return (r"gpuleak: out of memory: [\d.]+ [KMGT]iB wanted at %s; held: [\d.]+ [KMGT]iB %s"
            % (place("@wanted"), holder)), 1, ["final"], env, nvcc


def build(path, nvcc, results):
    program = os.path.join(results, os.path.basename(path)[:-3])
    subprocess.run(["nvcc", "-O2", "-g", "-lineinfo", "-o", program, path, *nvcc], check=True)
    return [program]


def unexplained(report):
    """What neither blocks nor measured causes explain, and NVML's figure."""
    device = report["devices"][0]
    return device["unexplained_bytes"], device["held_bytes"]


def check(options, path):
    """Returns a list of what is wrong; the first entry of the pair is what was seen."""
    wanted, status, ends, env, nvcc = read_truth(path)
    name = os.path.basename(path)
    report_path = os.path.join(options.results, name + ".json")
    program = [sys.executable, path] if path.endswith(".py") else build(path, nvcc, options.results)
    start = time.monotonic()
    ran = subprocess.run([options.gpuleak, "run", "--format", "json", "--report", report_path, "--",
                          *program], capture_output=True, text=True, timeout=300, check=False,
                         stdin=subprocess.DEVNULL, env={**os.environ, **env})
    lines = [line for line in ran.stderr.split("\n") if line.startswith("gpuleak: ")]
    line = lines[0] if lines else "no line of gpuleak"
    wrong = []
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    outcomes = [entry["outcome"] for entry in report.get("out_of_memory", [])]
    if not re.match(wanted, line):
        wrong.append("the first line is not %s" % wanted)
    if ran.returncode != status or outcomes[-1:] != ends:
        wrong.append("status %d, outcomes %s" % (ran.returncode, outcomes))
    rest, held = unexplained(report)
    if abs(rest) > UNEXPLAINED * held:
        wrong.append("more than 5 % unexplained")
    mib = 1 << 20
    return "%s (%.0f s)\n    %s\n    NVML %.1f MiB, of which not explained %.1f MiB (%.2f %%); %s" % (
        name, time.monotonic() - start, line, held / mib, rest / mib, 100 * rest / held,
        ", ".join("%s %.1f" % (cost["cause"], (cost["bytes"] or 0) / mib)
                  for cost in report.get("driver_costs", []) if cost["bytes"])), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpuleak", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    bad = 0
    for path in options.files:
        try:
            seen, wrong = check(options, os.path.realpath(path))
        except (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as error:
            seen, wrong = os.path.basename(path), ["%s: %s" % (type(error).__name__, error)]
        bad += bool(wrong)
        print("%s %s" % ("not ok" if wrong else "ok", seen))
        for text in wrong:
            print("    WRONG: %s" % text)
        sys.stdout.flush()
    print("%d programs, %d wrong" % (len(options.files), bad))
    return bool(bad)


sys.exit(main())
