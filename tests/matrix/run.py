#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every family by every route with every fate, each cell held against the whole report.

One process runs all families of one route and fate. A cell owns what its functions did: the
leaks and errors in whose stacks they stand. What belongs to the whole report (summary, notes,
output) is judged for the process; when that is wrong, each family is run again alone, so that
the cell that did it is named. What is expected comes from the tables alone.

run.py cuda|opencl --preload LIB --command EXE --standin DIR --programs DIR [--only TEXT]
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import rows

HERE = pathlib.Path(__file__).resolve().parent
INTERPOSE = HERE.parent.parent / "interpose"
PREFIX = {"cuda": "cu", "opencl": "cl"}
TIMEOUT = 180
# Fates that GPULEAK_FAIL_AT and GPULEAK_LIMIT bring about.
REFUSALS = ("make refused", "refused once", "limited")
options = None


# ---- which rows there are ----

def tracked(api, but=()):
    """The symbols of an API with a row, whatever its verb, in any file that its rows take."""
    ret = []
    table = (INTERPOSE / api / f"{api}_rows.def").read_text()
    for name in re.findall(r'#include "interpose/(\w+/\w+\.def)"', table):
        if os.path.basename(name) in but:
            continue
        text = re.sub(r"/\*.*?\*/", " ", (INTERPOSE / name).read_text(), flags=re.S)
        ret += [symbol + suffix for twin, symbol in re.findall(
            r"^(?:HOOK|HAND)(_PTSZ|_PTDS)?\(\s*(c[ul][A-Z]\w+)", text, re.M)
                for suffix in sorted({"", twin.lower()})]
    return [name for name in ret if name.startswith(PREFIX[api])]


def unclassed(table, api):
    """Rows that the matrix does not know, and what it knows that is no row any more."""
    rows = tracked(api, table.OTHER_TABLES)
    used = set().union(*(calls_of(table, family) for family in table.FAMILIES))
    problems = [f"{name} has a row and no family in {table.__name__}.py: add one, or "
                "say in EXCEPTIONS why none is needed"
                for name in rows if name not in used and name not in table.EXCEPTIONS]
    problems += [f"{name} has no row, and a family in {table.__name__}.py needs it"
                 for name in sorted(used.difference(rows))]
    problems += [f"{name} is an exception and has no row" for name in table.EXCEPTIONS
                 if name not in tracked(api)]
    problems += [f"{name} is an exception and in a family" for name in table.EXCEPTIONS
                 if name in used]
    if len(rows) < 10:
        problems.append(f"only {len(rows)} rows found: are they read at all?")
    return problems


def calls_of(table, family):
    return {family.make, family.drop, *family.also.split(),
            *(table.NEEDS[name].make for name in family.needs.split())}


# ---- what is expected ----

@dataclasses.dataclass
class Batch:
    """One process: a route, a fate, its families."""
    api: object  # Cuda or OpenCL
    route: str
    fate: str
    families: list

    def name(self):
        return f"{self.api.name}, {self.route}, {self.fate}"

    def needs(self):
        wanted = {name for family in self.families for name in family.needs.split()}
        return [(name, need) for name, need in self.api.table.NEEDS.items() if name in wanted]


class Expected:
    """The whole report of one batch, played through call by call."""

    def __init__(self, batch):
        self.batch = batch
        self.out, self.errors = [], []
        self.leaks = []  # (api, kind, device, bytes, blocks, functions)
        self.refused = self.late = self.ended = self.allocated = 0
        self.allocated_bytes = self.live = self.peak = 0
        self.outer = batch.api.outer(batch.route)
        for name, need in batch.needs():
            self.out.append(f"prepare: {name} 0")
            self.make(need.bytes)
            self.leak(need, ["prepare_" + name, "prepare"])
        for family in batch.families:
            getattr(self, batch.fate.replace(" ", "_"))(family)

    def say(self, family, what, answer):
        self.out.append(f"{family.name}: {what} {answer}")

    def api(self, symbol):
        return self.batch.api.reported(self.batch.route, symbol)

    def make(self, size):
        self.allocated += 1
        self.allocated_bytes += size
        self.live += size
        self.peak = max(self.peak, self.live)

    def leak(self, row, functions):
        self.leaks.append((self.api(row.make), row.kind, row.device, row.bytes, 1,
                           functions + self.outer))

    def made(self, family):
        self.say(family, "make", family.made)
        if family.blocks:
            self.make(family.bytes)
        self.allocated += family.passing
        self.ended += family.passing

    def dropped(self, family, answer=0):
        self.say(family, "drop", answer or family.dropped)
        self.ended += family.blocks
        self.live -= family.blocks * family.bytes

    def lost(self, family, fate):
        if family.blocks:
            self.leak(family, ["make_" + family.name, fate])

    def leaked(self, family):
        self.made(family)
        self.lost(family, "leaked")

    def freed(self, family):
        self.made(family)
        self.dropped(family)

    def twice(self, family):
        self.made(family)
        self.dropped(family)
        if family.again is not None:
            self.say(family, "again", family.again)
        if family.forgiven:
            return
        ended = self.api(family.ended_by or family.drop)

        def stack(*functions):
            return list(functions) + self.outer

        freed = family.freed_in or ("drop_" + family.name, "twice")
        self.errors.append((
            "double-free", self.api(family.again_by or family.ended_by or family.drop),
            family.again_told if family.again is None else family.again,
            stack("again_" + family.name, "twice"),
            (self.api(family.make), family.bytes if family.told is None else family.told,
             stack("make_" + family.name, "twice")),
            (ended, list(freed) if family.freed_in else stack(*freed))))

    def bad(self, family):
        for _, answer in family.bad:
            self.say(family, "bad", answer)

    # Injected: the driver answers what it has no reason for.
    def make_fails(self, family):
        self.say(family, "make", self.batch.api.failure if family.fails is None
                 else family.fails)

    def make_refused(self, family):
        if family.make in rows.OPENS:
            self.leaked(family)
        else:
            self.refuse(family, "make")

    def refused_once(self, family):
        self.refuse(family, "make")
        self.freed(family)

    def limited(self, family):
        self.made(family)
        self.refuse(family, "over")
        self.dropped(family)
        self.freed(family)

    def refuse(self, family, what):
        """Ours, not the driver's."""
        self.say(family, what, self.batch.api.exhausted if family.fails is None
                 else family.fails)

    def drop_fails(self, family):
        self.made(family)
        self.say(family, "drop", self.batch.api.refusal)
        self.refused += family.refused
        self.lost(family, "freed")

    def drop_late(self, family):
        self.made(family)
        self.dropped(family, 700)
        self.late += 1

    def summary(self):
        return {
            "leaked_bytes": sum(leak[3] for leak in self.leaks), "leaked_blocks": len(self.leaks),
            "suppressed_bytes": 0, "suppressed_blocks": 0, "errors": len(self.errors),
            "allocated_bytes": self.allocated_bytes, "allocated_blocks": self.allocated,
            "freed_blocks": self.ended, "peak_bytes": self.peak, "with_context_blocks": 0,
            "with_context_bytes": 0, "late_blocks": self.late,
        }



# ---- what was reported, in the same shape ----

def functions_of(stack, skip=None):
    """Innermost first, down to main, or to where another thread began."""
    ret = []
    for frame in stack:
        name = (frame["function"] or "?").partition("(")[0]
        module = os.path.basename(frame["module"] or "")
        if re.match(r"lib(c|pthread)\.so|ld-linux", module) or skip and re.match(skip, module):
            continue
        ret.append(name)
        if name == "main":
            break
    return ret


def reported_leaks(report, skip):
    return [(leak["api"], leak["kind"], leak["device"], leak["bytes"], leak["blocks"],
             functions_of(leak["stack"], skip)) for leak in report["leaks"]]


def reported_errors(report, skip):
    def past(call, *keys):
        return call and tuple(call[key] for key in keys) + (functions_of(call["stack"], skip),)

    return [(error["type"], error["api"], error["result"], functions_of(error["stack"], skip),
             past(error["allocated"], "api", "bytes"), past(error["freed"], "api"))
            for error in report["errors"]]


def owner(functions, families):
    """Whose cell a stack belongs to; None: nobody's."""
    for name in functions:
        for part in ("make_", "drop_", "again_"):
            if name.startswith(part) and name[len(part):] in families:
                return name[len(part):]
        found = re.match(r"bad_(\w+)_\d$", name)
        if found and found[1] in families:
            return found[1]
    return None


def same(wanted, got):
    """Equal, where a stack that is to end in "..." may go on as it likes."""
    if isinstance(wanted, list) and wanted and wanted[-1] == "...":
        return isinstance(got, list) and got[:len(wanted) - 1] == wanted[:-1]
    if isinstance(wanted, tuple):
        return isinstance(got, tuple) and len(wanted) == len(got) and all(map(same, wanted, got))
    return wanted == got


def differing(what, wanted, got):
    wanted, got = list(wanted), list(got)
    for one in list(wanted):
        found = [other for other in got if same(one, other)]
        if found:
            wanted.remove(one)
            got.remove(found[0])
    return [f"{what} missing: {one}" for one in wanted] + [f"{what} unexpected: {one}"
                                                         for one in got]


def by_owner(items, stack_at, families):
    ret = collections.defaultdict(list)
    for item in items:
        ret[owner(item[stack_at], families)].append(item)
    return ret


def judge(batch, expected, report):
    """({family: problems}, problems of the report as a whole)."""
    names = {family.name for family in batch.families}
    cells, whole = {}, []
    skip = batch.api.skipped_modules(batch.route)
    kinds = (("leak", expected.leaks, reported_leaks(report, skip), 5),
             ("error", expected.errors, reported_errors(report, skip), 3))
    for what, wanted, got, at in kinds:
        wanted, got = by_owner(wanted, at, names), by_owner(got, at, names)
        for name in names:
            cells.setdefault(name, []).extend(differing(what, wanted[name], got[name]))
        whole += differing(what, wanted[None], got[None])
    # With a driver that frees on a thread of its own, the peak has what was still to be freed, and
    # some of it may not be freed before the end.
    released = report.get("released") or {"peak_bytes": 0, "held_blocks": 0}
    for key, value in expected.summary().items():
        got = report["summary"].get(key)
        if key == "peak_bytes" and value <= got <= value + released["peak_bytes"] or \
                key == "freed_blocks" and value == got + released["held_blocks"]:
            continue
        if report["summary"].get(key) != value:
            whole.append(f"summary: {key} is {report['summary'].get(key)}, not {value}")
    whole += differing("note", [], report["notes"])
    refused = sum(free["count"] for free in report.get("refused_frees", [])
                  if not free.get("after_shutdown") and not free.get("broken_context"))
    if refused != expected.refused:
        whole.append(f"refused frees: {refused}, not {expected.refused}")
    if report["suppressed"]:
        whole.append(f"suppressed: {report['suppressed']}")
    return cells, whole


# ---- running ----

@dataclasses.dataclass
class Result:
    status: int
    out: list
    err: str
    log: list  # what reached the stand-in driver, without process and addresses
    report: dict = None


def log_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [" ".join(line.split()[1:2] + line.split()[3:]) for line in file]


def run(batch, preload):
    argv, env = batch.api.command(batch)
    with tempfile.TemporaryDirectory(prefix="gpuleak-matrix-", ignore_cleanup_errors=True) as root:
        runtime = os.path.join(root, "runtime")
        os.mkdir(runtime, 0o700)
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": root, "LC_ALL": "C",
               "LD_LIBRARY_PATH": options.standin, "XDG_RUNTIME_DIR": runtime,
               "POCL_CACHE_DIR": root + "/pocl", "STANDIN_LOG": root + "/log", **env}
        for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "POCL_DEVICES", "GPULEAK_POOL"):
            if name in os.environ:
                env.setdefault(name, os.environ[name])
        path = os.path.join(root, "report.json")
        if preload:
            env.update(GPULEAK_FORMAT="json", GPULEAK_REPORT=path,
                       **batch.api.traced(batch.route, options.preload))
        by_ledger = preload == "run" and "LD_PRELOAD" not in env
        if by_ledger:
            env.update(GPULEAK_LEDGER=root + "/ledger", GPULEAK_REPORT="none")
        elif preload == "run":  # whatever becomes of the program
            del env["LD_PRELOAD"]
            argv = [options.command, "run", "--format", "json", "--report", path, "--"] + argv
        done = subprocess.run(argv, env=env, cwd=root, stdin=subprocess.DEVNULL, timeout=TIMEOUT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        result = Result(done.returncode, done.stdout.decode(errors="replace").splitlines(),
                        done.stderr.decode(errors="replace"), log_of(root + "/log"))
        if by_ledger:
            with open(path, "wb") as file:
                subprocess.run([options.command, "report", "--format", "json", root + "/ledger"],
                               env=env, cwd=root, stdout=file, check=True)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                result.report = json.load(file)
        left = [name for _, _, names in os.walk(runtime) for name in names]
        if left:
            result.err += f"files left: {left}"
        return result


def first_difference(what, wanted, got):
    for number in range(max(len(wanted), len(got))):
        left = wanted[number] if number < len(wanted) else "(end)"
        right = got[number] if number < len(got) else "(end)"
        if left != right:
            return [f"{what}, line {number + 1}: {right!r}, not {left!r}"]
    return []


def reached_driver(batch, traced):
    """What the driver was asked for and had to be: a call that is refused never comes to it."""
    if not batch.api.logs:
        return []  # giver.c sees to that
    wanted = collections.Counter(batch.api.reported(batch.route, need.make)
                                 for _, need in batch.needs())
    times = {"make refused": 0, "refused once": 1, "limited": 2}[batch.fate]
    for family in batch.families:
        if family.kind == "graph" and times:  # nodes are no calls that are logged
            continue
        opens = family.make in rows.OPENS
        wanted[batch.api.reported(batch.route, family.make)] += 1 if opens else times
    got = collections.Counter(line.split()[0] for line in traced.log)
    return [f"the driver was asked {got[call]} times for {call}, not {times}"
            for call, times in wanted.items() if got[call] != times]


def try_batch(batch):
    """({family: problems}, problems of the whole)."""
    expected = Expected(batch)
    deadly = batch.api.is_deadly(batch)
    bare = None if deadly or batch.fate in REFUSALS else run(batch, None)
    traced = run(batch, "run" if deadly else "preload")
    whole = []
    if bare:
        whole += first_difference("output without the preload", expected.out, bare.out)
        if batch.api.logs and not bare.log:
            whole.append("the driver has no log")
        whole += first_difference("the driver's log", bare.log, traced.log)
        if (bare.status, bare.err) != (traced.status, traced.err):
            whole.append(f"status and stderr: {traced.status}, {traced.err[:300]!r}, without the "
                         f"preload {bare.status}, {bare.err[:300]!r}")
    if batch.fate in REFUSALS:
        whole += reached_driver(batch, traced)
        if (traced.status, traced.err) != (0, ""):
            whole.append(f"status and stderr: {traced.status}, {traced.err[:300]!r}")
    answered = traced.out[:len(expected.out)] if deadly else traced.out
    whole += first_difference("output", expected.out, answered)
    if not traced.report or "summary" not in traced.report:
        return {family.name: [] for family in batch.families}, whole + ["no report"]
    cells, more = judge(batch, expected, traced.report)
    return cells, whole + more


def tried(batch):
    """One (name, problems) a cell. Where only the whole is wrong, each cell is run alone."""
    try:
        cells, whole = try_batch(batch)
        if whole and len(batch.families) > 1:
            for family in batch.families:
                alone = dataclasses.replace(batch, families=[family])
                own, its_whole = try_batch(alone)
                cells[family.name] = own[family.name] + its_whole
        elif whole:
            cells[batch.families[0].name] += whole
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
        whole, cells = [f"{type(error).__name__}: {error}"], {}
    lines = [(f"{batch.name()}: {family.name}",
              cells.get(family.name, ["did not run"])) for family in batch.families]
    if len(batch.families) > 1:
        lines.append((f"{batch.name()}: all together", whole))
    return lines


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("api", choices=["cuda", "opencl"])
    for name in ("preload", "command", "standin", "programs"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--only", default="", help="only processes with this in their name")
    options = parser.parse_args()
    table = importlib.import_module(options.api + "_families")
    api = importlib.import_module(options.api + "_routes").Routes(table, options)
    lines = [(f"{options.api}: every row has a place in the matrix",
              unclassed(table, options.api))]
    families = table.FAMILIES
    reason = api.unable()
    if reason:
        must = os.environ.get("GPULEAK_MUST_RUN")
        lines.append((f"{options.api}: the matrix", [f"must run, but: {reason}"] if must else None))
    else:
        batches = [Batch(api, *rest) for rest in api.batches(families)
                   if options.only in f"{options.api}, {rest[0]}, {rest[1]}"]
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
            for told in pool.map(tried, batches):
                lines += told
    print(f"1..{len(lines)}")
    failed = 0
    for number, (name, problems) in enumerate(lines, 1):
        tail = f" # SKIP {reason}" if problems is None else ""
        print("not ok" if problems else "ok", number, "-", name + tail)
        for problem in (problems or [])[:12]:
            print("#  ", problem)
        failed += bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
