#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs each planted error of planted.py under each level of the guard, and the program without the
error beside it. Compares the report with what the level can find, and the output of the correct
program with its output without gpuleak. Without --gpu it runs what needs none: the driver's copies
on the stand-in, OpenCL on PoCL. Prints TAP, or with --table one line for each error.

What a cell of the table says: "found", which needs the right block in the first finding; "-" for
nothing, where nothing must be found; "missed" for an expected miss (planted.py), also if another
block was named; MISSED; WRONG BLOCK; "no line" if the report lacks the line of the access or of the
free; ALARM if the correct program has a finding; DIFFERS if its output or status changed."""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))

import planted
from planted import ALL, COPY, COPY_FREED, FAULT, GUARD_TYPES

TIMEOUT = 180 * int(os.environ.get("GPULEAK_TEST_SLOWER", "1"))
GOOD = ("found", "missed", "-", "ok")
MISSES = ("MISSED", "WRONG BLOCK", "WRONG TYPE", "-")


def lines_of(source, marker):
    """Returns the places of a marker, {(file, line)}: its line, and those that go on with its call."""
    ret, goes_on = set(), False
    with open(os.path.join(HERE, source), encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if goes_on or re.search(r"@%s\b" % marker, text):
                ret.add((source, number))
                goes_on = source.endswith(".c") and ";" not in text
    return ret


def frames_of(value):
    """Returns the places of all frames in a part of a report."""
    if isinstance(value, list):
        return set().union(*map(frames_of, value))
    if not isinstance(value, dict):
        return set()
    own = {(os.path.basename(value["file"]), value["line"])} if value.get("file") else set()
    return own.union(*map(frames_of, value.values()))


class Api:
    def __init__(self, name, options):
        self.name = name
        self.errors, command = planted.APIS[name]
        self.command = [word.format(options.programs, here=HERE) for word in command]
        source = planted.SOURCES.get(name, "planted_frameworks.py")
        tag = "" if name in planted.SOURCES else "_" + self.command[-1]
        self.victim, self.access = lines_of(source, "victim" + tag), lines_of(source, "access" + tag)
        self.free = lines_of(source, "free")
        if name.startswith("torch"):
            self.access |= lines_of("extension.cu", "access")
        self.own = name in planted.SOURCES  # the program frees all its memory


class Outcome:
    """What one run of a program gave."""

    def __init__(self, status, stdout, stderr, seconds, report=None):
        self.status, self.stdout, self.stderr = status, stdout, stderr
        self.seconds, self.report = seconds, report

    @property
    def errors(self):
        if self.report is None:
            return []
        return [error for process in self.report.get("processes", [self.report])
                for error in process.get("errors", ())]


def call(argv, env):
    start = time.monotonic()
    try:
        started = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        return Outcome(127, "", str(error), 0)
    with started as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Outcome("HUNG", out.decode(errors="replace"), err.decode(errors="replace"), TIMEOUT)
    return Outcome(process.returncode, out.decode(errors="replace"),
                   err.decode(errors="replace"), time.monotonic() - start)


class Runner:
    def __init__(self, options):
        self.options = options
        self.work = tempfile.mkdtemp(prefix="gpuleak-guard-")

    def environment(self, api):
        env = dict(os.environ, GUARD_EXTENSION=os.path.join(self.options.programs, "libextension.so"),
                   PYTHONDONTWRITEBYTECODE="1")
        if not self.options.gpu and api.name == "driver":
            env.update(LD_LIBRARY_PATH=self.options.standin, STANDIN_FAKE_GPU="skip")
        if not self.options.gpu:
            env["POCL_CACHE_DIR"] = os.path.join(self.work, "pocl")
        return env

    def words(self, api, name, clean):
        return api.command + [name] + (["clean"] if clean else [])

    def bare(self, api, name, clean):
        return call(self.words(api, name, clean), self.environment(api))

    def levels(self, api=None):
        """Returns {name: options of the command}. OpenCL has no pages."""
        ret = {level: ["--guard", level] for level in planted.LEVELS}
        ret["before"] = ["--guard", "pages", "--guard-side", "before"]
        ret[ALL] = ["--guard", "copies,patterns,pages"]
        return {name: words for name, words in ret.items()
                if name in (self.options.levels or ret) and
                not (api and api.name == "opencl" and name in ("pages", "before"))}

    def guarded(self, api, name, clean, level):
        report = tempfile.mktemp(dir=self.work)
        guard = list(self.levels()[level])
        if api.errors[name].sample:
            guard += ["--guard-sample", "1"]
        if api.name in planted.BYPASS:
            guard.append("--bypass-pools")
        argv = [self.options.command, "run"] + guard + [
            "--gate", "--format", "json", "--report", report, "--"]
        ret = call(argv + self.words(api, name, clean), self.environment(api))
        try:
            with open(report, encoding="utf-8") as file:
                ret.report = json.load(file)
            os.unlink(report)
        except (OSError, ValueError):
            pass
        return ret

    def sanitized(self, api, name, clean):
        env = dict(self.environment(api), PYTORCH_NO_CUDA_MEMORY_CACHING="1")
        return call(["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "99"] +
                    self.words(api, name, clean), env)

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)


def named(error, api):
    return bool(frames_of(error.get("allocated")) & api.victim)


def lacks_line(error, api):
    """What of the promised lines a finding with the right block lacks, or None. A pattern knows only
    launches around the access."""
    if error["type"] in (COPY, COPY_FREED, FAULT) and not frames_of(error) & api.access:
        return "access"
    if error["type"].endswith("after-free") and api.own and not frames_of(error.get("freed")):
        return "free"
    return None


def judge_error(outcome, api, name, level):
    """Returns the cell of a program with an error, and a reason for a bad one."""
    cell = judge_by_kind(outcome, api, api.errors[name].kind, level)
    reason = planted.EXPECTED_MISSES.get((name, level))
    return ("missed", reason) if reason and cell[0] in MISSES else cell


def judge_by_kind(outcome, api, kind, level):
    must, may, also = planted.expected(kind, level)
    if outcome.status == "HUNG":
        return "HUNG", outcome.stderr[-300:]
    if outcome.report is None:
        return "NO REPORT", "status %s: %s" % (outcome.status, outcome.stderr[-300:])
    types = sorted(error["type"] for error in outcome.errors)
    lacking = [each for each in sorted(also) if each not in types]
    right = [error for error in outcome.errors if error["type"] in must | may and named(error, api)]
    wrong = [error for error in outcome.errors if error["type"] in GUARD_TYPES
             and error.get("allocated") and not named(error, api)]
    if lacking or (must and not right):
        return ("WRONG BLOCK" if wrong else "MISSED"), "has %s, not %s" % (
            types, lacking or sorted(must))
    if wrong and wrong[0] is next(error for error in outcome.errors if error["type"] in GUARD_TYPES
                                  and error.get("allocated")):
        return "WRONG BLOCK", "first is %s, allocated at %s" % (
            wrong[0]["type"], sorted(frames_of(wrong[0].get("allocated"))))
    if not right and not must and set(types) & GUARD_TYPES:
        return "WRONG TYPE", "has %s" % types
    if right and outcome.status == 0:
        return "GATE PASSED", "status 0 with %s" % types
    lack = right and lacks_line(right[0], api)
    if lack:
        return "NO LINE", "%s has no line of the %s" % (right[0]["type"], lack)
    return ("found" if right or also else "-"), ""


def judge_clean(outcome, api, bare):
    if outcome.status == "HUNG":
        return "HUNG", outcome.stderr[-300:]
    if outcome.errors:
        error = outcome.errors[0]
        return "ALARM", "%s, access %s" % (error["type"], sorted(frames_of(error))[:4])
    if outcome.stdout != bare.stdout:
        both = list(zip(bare.stdout.split("\n"), outcome.stdout.split("\n")))
        return "DIFFERS", "output %s" % [pair for pair in both if pair[0] != pair[1]][:1]
    passes = (bare.status,) if api.own else (bare.status, 23)  # frameworks leave memory
    if outcome.status not in passes:
        return "DIFFERS", "status %s, bare %s: %s" % (outcome.status, bare.status, outcome.stderr[-300:])
    return "ok", ""


def judge_sanitizer(outcome, clean):
    count = re.search(r"ERROR SUMMARY: (\d+)", outcome.stdout + outcome.stderr)
    if not count:
        return "no result", (outcome.stdout + outcome.stderr)[-200:]
    if count.group(1) == "0":
        return ("ok" if clean else "-"), ""
    first = re.search(r"=+ (Invalid .*|Program hit .*)", outcome.stdout + outcome.stderr)
    return ("ALARM" if clean else "found"), first.group(1)[:160] if first else ""


class Row:
    """One error of one API, all levels: cells {column: [verdict, reason, seconds]}."""

    def __init__(self, api, name):
        self.api, self.name, self.kind = api, name, api.errors[name].kind
        self.trap = name.startswith("trap_")
        # A row of a program that takes seconds to start, or that another API has, too.
        self.short = api.name in planted.SHORT
        self.cells, self.guard = {}, {}

    def put(self, column, verdict, seconds):
        self.cells[column] = [verdict[0], verdict[1], round(seconds, 2)]

    def survives(self, level):
        """Returns false for a level that can't find the error, if the error may break the heap of
        PoCL, or the row is short."""
        must, may, _ = planted.expected(self.kind, level)
        return bool(must or may) or not (self.short or self.kind.startswith("cl over"))

    def run(self, runner):
        bare = runner.bare(self.api, self.name, True)
        works = bare.status == 0 and not re.search(r"^(victim|bystander): -?[1-9]", bare.stdout, re.M)
        self.put("bare", ("ok" if works else "FAILS", bare.stderr[-300:]), bare.seconds)
        for level in runner.levels(self.api):
            if level == ALL or not self.short:
                clean = runner.guarded(self.api, self.name, True, level)
                self.put("clean " + level, judge_clean(clean, self.api, bare), clean.seconds)
                self.guard[level] = (clean.report or {}).get("guard")
            if not self.trap and self.survives(level):
                wrong = runner.guarded(self.api, self.name, False, level)
                self.put(level, judge_error(wrong, self.api, self.name, level), wrong.seconds)
        if runner.options.sanitizer and self.api.name not in ("opencl", "runtime-shared"):
            for clean in (True, False)[:1 if self.trap else 2]:
                outcome = runner.sanitized(self.api, self.name, clean)
                self.put("clean sanitizer" if clean else "sanitizer",
                         judge_sanitizer(outcome, clean), outcome.seconds)
        return self

    def bad(self):
        return {column: cell for column, cell in self.cells.items()
                if cell[0] not in GOOD and "sanitizer" not in column}

    def text(self, levels):
        """One line: the error, what each level can find and found, the worst clean run, times."""
        cells = []
        for level in levels:
            must, may, also = planted.expected(self.kind, level)
            can = "must" if must or also else "may" if may else "can't"
            cells.append("%-6s %-11s" % (can, self.cells.get(level, ["."])[0]))
        clean = [cell[0] for column, cell in self.cells.items()
                 if column.startswith("clean") and cell[0] != "ok" and "sanitizer" not in column]
        times = "/".join("%.1f" % self.cells[column][2] for column in ("bare", "clean " + ALL,
                         "clean sanitizer") if column in self.cells)
        return "%-14s %-20s %s  clean %-8s sanitizer %-6s %s s" % (
            self.api.name, self.name, " ".join(cells), clean[0] if clean else "ok",
            self.cells.get("sanitizer", ["."])[0], times)


def can_run(error, gpu):
    return error.where == "any" or (error.where == "gpu" and gpu)


def rows_of(options):
    names = [name for name in planted.APIS if name in (options.api or planted.APIS)
             and (options.gpu or name in ("driver", "opencl"))]
    apis = [Api(name, options) for name in names]
    return [Row(api, name) for api in apis for name, error in api.errors.items()
            if can_run(error, options.gpu) and (not options.only or options.only in name)]


def summary(rows, levels):
    """Returns lines: of what each level must find, how much it found; alarms; all that is bad."""
    ret = []
    for level in levels:
        cells = [row.cells[level][0] for row in rows if level in row.cells
                 and row.cells[level][0] != "missed" and any(planted.expected(row.kind, level)[::2])]
        missed = [row.name for row in rows if row.cells.get(level, [""])[0] == "missed"]
        clean = [row.cells["clean " + level][0] for row in rows if "clean " + level in row.cells]
        ret.append("%s: %d of %d found, %d expected misses, %d of %d correct programs as without gpuleak" % (
            level, cells.count("found"), len(cells), len(missed), clean.count("ok"), len(clean)))
        ret += ["  expected miss: %s: %s" % (name, planted.EXPECTED_MISSES[name, level]) for name in missed]
    found = [row.cells["sanitizer"][0] == "found" for row in rows if "sanitizer" in row.cells]
    if found:
        ret.append("compute-sanitizer: %d of %d found" % (sum(found), len(found)))
    for row in rows:
        ret += ["%s %s, %s: %s: %s" % (row.api.name, row.name, column, cell[0], cell[1])
                for column, cell in row.bad().items()]
    return ret


def store(rows, path):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump([{"api": row.api.name, "error": row.name, "kind": row.kind,
                        "cells": row.cells, "guard": row.guard} for row in rows], file, indent=1)


def run_rows(rows, runner, each):
    """Runs ROWS at the same time; after --deadline begins no further one. Returns those that ran."""
    end = time.monotonic() + runner.options.deadline
    done = []
    with concurrent.futures.ThreadPoolExecutor(runner.options.jobs) as pool:
        waiting = [pool.submit(lambda row=row: row.run(runner) if time.monotonic() < end else None)
                   for row in rows]
        for future in concurrent.futures.as_completed(waiting):
            row = future.result()
            if row:
                done.append(row)
                each(row)
                store(done, runner.options.json)
    return sorted(done, key=rows.index)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", required=True)
    parser.add_argument("--preload", help="not used: the command finds its library")
    parser.add_argument("--programs", required=True, help="directory of the built programs")
    parser.add_argument("--standin", help="directory of the stand-in driver")
    parser.add_argument("--gpu", action="store_true", help="on a real GPU: all")
    parser.add_argument("--api", action="append", choices=planted.APIS)
    parser.add_argument("--levels", type=lambda text: text.split(","))
    parser.add_argument("--only", help="only errors with this in their name")
    parser.add_argument("--sanitizer", action="store_true", help="beside compute-sanitizer")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds")
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    for name in ("command", "programs", "standin"):
        if getattr(options, name):
            setattr(options, name, os.path.realpath(getattr(options, name)))
    return options


def unable(options):
    """Returns why nothing can run, or None."""
    told = subprocess.run([options.command, "run", "--help"], capture_output=True, text=True, check=False)
    if "--guard" not in told.stdout:
        return "this build has no guard"
    return None


def skip(reason):
    must = os.environ.get("GPULEAK_MUST_RUN")
    print("1..1\nnot ok 1 - %s" % reason if must else "1..0 # SKIP %s" % reason)
    return 1 if must else 0


def tap(number, row):
    bad = row.bad()
    print("%s %d - %s: %s" % ("not ok" if bad else "ok", number, row.api.name, row.name))
    for column, cell in bad.items():
        print("#   %s: %s: %s" % (column, cell[0], cell[1].replace("\n", "; ")))
    sys.stdout.flush()


def main():
    options = parse()
    reason = unable(options)
    if reason:
        return skip(reason)
    runner = Runner(options)
    rows, count = rows_of(options), iter(range(1, 10000))
    levels = list(runner.levels())
    show = (lambda row: None) if options.table else (lambda row: tap(next(count), row))
    try:
        done = run_rows(rows, runner, show)
    finally:
        runner.close()
    if options.table:
        print("\n".join([row.text(levels) for row in done] + summary(done, levels)))
        if len(done) < len(rows):
            print("%d of %d rows did not run before the deadline" % (len(rows) - len(done), len(rows)))
    else:
        print("1..%d" % len(done))
    return 1 if any(row.bad() for row in done) else 0


if __name__ == "__main__":
    sys.exit(main())
