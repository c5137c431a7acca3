#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tests of another project by pytest, bare and under all levels of the guard, and compares the
result of each test. Both ways run at the same time, each in --jobs processes that share the tests:
a process of both ways has the same tests in the same order. A run that a test ended, by a crash or
an error of the GPU, goes on behind that test. Tests with different results run again, alone, both
ways. Prints how many are equal, the others, and each finding with its stacks. Does not judge a
finding: that is looked up by hand.

    guard_suite.py --command GPULEAK [--json FILE] [--limit S] [--jobs N] [--most TESTS]
                   [--run OPTIONS] ARGUMENTS of pytest...

As a module it is the plugin of pytest that takes one share, and writes the results as they come."""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
LEVELS = "--guard copies,patterns,pages --bypass-pools"
# after these, each further test of the process fails
BROKEN = re.compile(r"illegal ?(memory )?(access|address)|ILLEGAL_ADDRESS|LAUNCH_FAILED|"
                    r"unspecified launch failure|misaligned address|device-side assert", re.I)
RANK = ["passed", "xpassed", "xfailed", "skipped", "failed"]


def last_line(text):
    """Returns the error of a text of pytest, without the place."""
    errors = re.findall(r"^E +(.*)", text, re.M)
    return (errors or text.split("\n"))[-1][:200]


class Share:
    """The plugin: GUARD_SUITE is the share as JSON, see work()."""

    def __init__(self, share):
        self.share, self.session, self.result = share, None, None
        self.results = open(share["results"], "a", encoding="utf-8")

    def write(self, **line):
        self.results.write(json.dumps(line) + "\n")
        self.results.flush()

    def pytest_sessionstart(self, session):
        self.session = session

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(uncollected=report.nodeid, text=last_line(str(report.longrepr)))

    def pytest_collection_finish(self, session):
        """Takes each step-th test, and gives whole classes to the process that has the fewest."""
        share, groups = self.share, {}
        items = session.items
        if share["only"]:
            items[:] = [item for item in items if item.nodeid in share["only"]]
        step = -(-len(items) // share["most"]) or 1
        for item in items[::step]:
            groups.setdefault(item.nodeid.rsplit("::", 1)[0], []).append(item)
        counts = [0] * share["jobs"]
        for name in sorted(groups, key=lambda name: (-len(groups[name]), name)):
            least = counts.index(min(counts))
            counts[least] += len(groups[name])
            if least != share["job"]:
                groups[name] = []
        done = read(share["results"])
        items[:] = [item for group in groups.values() for item in group if item.nodeid not in done]

    def pytest_runtest_logstart(self, nodeid):
        self.result = ("passed", "")
        self.write(id=nodeid, outcome="died", text="")

    def pytest_runtest_logreport(self, report):
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if outcome == "skipped" else "xpassed"
        text = "" if outcome in ("passed", "xfailed") else str(report.longrepr or "")
        if RANK.index(outcome) > RANK.index(self.result[0]):
            self.result = (outcome, text[-1000:])
        if outcome == "failed" and BROKEN.search(text):
            self.session.shouldstop = "the context is lost"

    def pytest_runtest_logfinish(self, nodeid):
        self.write(id=nodeid, outcome=self.result[0], text=self.result[1])
        if time.time() > self.share["until"]:
            self.session.shouldstop = "time"

    def pytest_sessionfinish(self):
        self.write(end=str(self.session.shouldstop or "complete"))


def pytest_configure(config):
    config.pluginmanager.register(Share(json.loads(os.environ["GUARD_SUITE"])))


def read(path):
    """Returns {test: (result, text)} of a share."""
    ret = {}
    try:
        with open(path, encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "id" in line:
                    ret[line["id"]] = (line["outcome"], line["text"])
    except (OSError, ValueError):
        pass  # It wrote nothing, or was killed in a line.
    return ret


def uncollected(path):
    """Returns {error: number of modules} of what pytest could not import."""
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return collections.Counter(line["text"] for line in lines if "uncollected" in line)


def execute(command, environment, limit, log):
    """Returns the exit status of COMMAND, None if it had to be killed."""
    with open(log, "ab") as out, subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment,
            start_new_session=True) as process:
        try:
            return process.wait(max(limit, 1))
        except subprocess.TimeoutExpired:
            for way in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                os.killpg(process.pid, way)
                try:
                    process.wait(20)
                    break
                except subprocess.TimeoutExpired:
                    continue
    return None


def finished(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return bool(lines) and '"complete"' in lines[-1]


def work(options, way, job, until, folder, tests=None):
    """Runs one share. Returns {test: (result, text)}, the reports of gpuleak, and remarks."""
    name = os.path.join(folder, "%s-%d" % (way, job))
    share = {"job": 0 if tests else job, "jobs": 1 if tests else options.jobs, "until": until,
             "most": options.most, "only": tests, "results": name + ".jsonl"}
    environment = dict(os.environ, GUARD_SUITE=json.dumps(share), PYTHONPATH=os.pathsep.join(
        [HERE] + [path for path in [os.environ.get("PYTHONPATH")] if path]))
    reports, remarks, count = [], [], -1
    while time.time() < until:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p",
                   "guard_suite", "--continue-on-collection-errors"] + options.tests
        if way == "guard":
            reports.append("%s-%d.json" % (name, len(reports)))
            command = [options.command, "run"] + options.run.split() + [
                "--format", "json", "--report", reports[-1], "--"] + command
        elif options.run_bare:
            command = [options.command, "run", "--report", "none"] + options.run_bare.split() + [
                "--"] + command
        status = execute(command, environment, until - time.time() + 20, name + ".log")
        results = read(share["results"])
        if status is None:  # the last test may only have been slow
            with open(share["results"], "a", encoding="utf-8") as file:
                for test in [test for test in list(results)[-1:] if results[test][0] == "died"]:
                    file.write(json.dumps({"id": test, "outcome": "stopped", "text": ""}) + "\n")
                    remarks.append("%s %d: stopped in %s" % (way, job, test))
        if status not in (None, 0, 1, 2, 5):
            remarks.append("%s %d: status %s: %s" % (way, job, status, tail(name + ".log")))
        if status == 5 and way == "guard":
            reports.pop()  # no test was left
        if job == 0 and count < 0:
            remarks += ["%s: %d modules not collected: %s" % (way, number, text)
                        for text, number in uncollected(share["results"]).most_common(3)]
        if len(results) <= count or status == 5 or finished(share["results"]):
            break
        count = len(results)
    return read(share["results"]), reports, remarks


def tail(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()[-300:]


def both(options, until, folder, tests=None):
    """Returns (results, reports, remarks) of the ways bare and guard."""
    os.makedirs(folder)
    jobs = range(1 if tests else options.jobs)
    with concurrent.futures.ThreadPoolExecutor(2 * options.jobs) as pool:
        waits = {way: [pool.submit(work, options, way, job, until, folder, tests) for job in jobs]
                 for way in ("bare", "guard")}
    ret = {}
    for way, way_waits in waits.items():
        parts = [wait.result() for wait in way_waits]
        results = {}
        for part in parts:
            results.update(part[0])
        ret[way] = (results, [path for part in parts for path in part[1]],
                    [remark for part in parts for remark in part[2]])
    return ret


def findings(paths):
    """Returns the errors, the guard's coverage, and the reports that are missing."""
    errors, coverage, missing = [], collections.Counter(), []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        except (OSError, ValueError):
            missing.append(os.path.basename(path))
            continue
        for part in report.get("processes", [report]):
            errors += part["errors"]
            guard = part.get("guard") or {}
            coverage.update({key: value for key, value in guard.items()
                             if isinstance(value, (int, float))})
            coverage.update({"unguarded: " + row["reason"]: row["blocks"]
                             for row in guard.get("unguarded", [])})
    return errors, coverage, missing


def place(frames):
    return " < ".join("%s %s:%s" % (frame.get("function"), os.path.basename(
        frame.get("file") or frame.get("module") or "?"), frame.get("line") or frame.get("offset"))
                      for frame in frames[:12])


def describe(error, count):
    """Returns the lines of a finding: the call, and each part of it that has a stack."""
    lines = ["%d x %s by %s: %s" % (count, error["type"], error.get("api"), json.dumps(
        {key: value for key, value in error.items()
         if isinstance(value, (int, float, str)) and key not in ("type", "api")}))]
    lines.append("    at " + place(error.get("stack", [])))
    for key, value in error.items():
        for part in value if isinstance(value, list) and key != "stack" else [value]:
            if isinstance(part, dict) and "stack" in part:
                lines.append("    %s by %s, %s bytes, at %s" % (
                    key, part.get("api") or part.get("kernel"), part.get("bytes"),
                    place(part["stack"])))
    return "\n".join(lines)


def group(errors):
    """Returns (error, count) of errors with the same type and places."""
    ret = {}
    for error in errors:
        key = (error["type"], place(error.get("stack", [])),
               place((error.get("allocated") or {}).get("stack", [])))
        ret.setdefault(key, [error, 0])[1] += 1
    return sorted(ret.values(), key=lambda pair: -pair[1])


def unequal(bare, guard):
    return {name: [bare[name], guard[name]] for name in sorted(set(bare) & set(guard))
            if bare[name][0] != guard[name][0] and "stopped" not in (bare[name][0], guard[name][0])}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", required=True)
    parser.add_argument("--run", default=LEVELS, help="options of gpuleak run")
    parser.add_argument("--run-bare", help="the same for the other way; none: without gpuleak")
    parser.add_argument("--json")
    parser.add_argument("--limit", type=float, default=140, help="seconds, with the repetition")
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--most", type=int, default=10 ** 6)
    options, options.tests = parser.parse_known_args()
    options.command = os.path.realpath(options.command)
    folder = tempfile.mkdtemp()
    ways = both(options, time.time() + options.limit - 30, os.path.join(folder, "all"))
    bare, guard = ways["bare"][0], ways["guard"][0]
    other = unequal(bare, guard)
    reports = ways["guard"][1]
    repeated = {}
    if other:
        again = both(options, time.time() + 25, os.path.join(folder, "again"), sorted(other)[:40])
        repeated = unequal(again["bare"][0], again["guard"][0])
        reports += again["guard"][1]
    errors, coverage, missing = findings(reports)
    shared = len(set(bare) & set(guard))
    print("; ".join("%s: %s" % (way, dict(collections.Counter(row[0] for row in ways[way][0].values())))
                    for way in ways))
    print("same result: %d of %d; other when repeated alone: %d of %d" % (
        shared - len(other), shared, len(repeated), min(len(other), 40)))
    for name, pair in other.items():
        print("  %s: bare %s, guard %s%s\n    %s" % (
            name, pair[0][0], pair[1][0], ", also alone" if name in repeated else "",
            pair[1 if pair[1][1] else 0][1][-300:].replace("\n", "\n    ")))
    failed = collections.Counter(last_line(guard[name][1]) for name in guard
                                 if guard[name][0] == "failed" and name not in other)
    for text, number in failed.most_common(4):
        print("  %d failed in both: %s" % (number, text))
    print("reports: %d, missing: %s; guard: %s" % (len(reports), missing, dict(coverage)))
    print("findings: %s" % dict(collections.Counter(error["type"] for error in errors)))
    grouped = group(errors)
    for error, count in grouped[:20]:
        print(describe(error, count))
    remarks = ways["bare"][2] + ways["guard"][2]
    print("\n".join(remarks))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"bare": {name: bare[name][0] for name in bare},
                       "guard": {name: guard[name][0] for name in guard}, "other": other,
                       "repeated": repeated, "errors": [error for error, _ in grouped[:100]],
                       "coverage": coverage, "remarks": remarks}, file, indent=1)
    return 0 if shared and not missing and not repeated and not errors else 1


if __name__ == "__main__":
    sys.exit(main())
