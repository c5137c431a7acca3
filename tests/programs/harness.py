# SPDX-License-Identifier: MIT
"""Runs a program bare, under the preload, under `gpuleak run` and by `gpuleak report`, and
compares what was reported with what must be, to the last block. Both sides are written as
the same sort of text first, so that a failure is a diff that people can read."""

import collections
import contextlib
import dataclasses
import difflib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
ANY = "any"
# An emulated processor is many times slower: tests/scripts/aarch64.sh sets the factor.
SLOWER = int(os.environ.get("GPULEAK_TEST_SLOWER", "1"))
TIMEOUT = 180 * SLOWER

# What lies outside main, or is made by the compiler: the same for every program.
RUNTIME_MODULES = re.compile(
    r"^(libc\.so\.|libpthread\.so\.|ld-linux|libstdc\+\+\.so|libgcc_s\.so)")
RUNTIME_FUNCTIONS = re.compile(
    r"^(_start$|_GLOBAL__sub_I_|__static_initialization_and_destruction|__cxx_global_var_init|std::"
    r"|void std::)")


class Failed(Exception):
    pass


class Skipped(Exception):
    """The test cannot run on this system: why."""


class Missing(Skipped):
    """A program that the test needs is not installed: a failure with GPULEAK_MUST_RUN."""


# ---- what is expected ----

@dataclasses.dataclass
class Leak:
    api: str
    bytes: int
    stack: list
    blocks: int = 1
    kind: str = "device"
    device: int = 0
    keeps: int = None  # None: as `bytes`

    @property
    def keeps_bytes(self):
        return self.bytes if self.keeps is None else self.keeps


@dataclasses.dataclass
class Call:
    """One past call of an error's story."""
    api: str
    stack: list
    bytes: int = None


@dataclasses.dataclass
class End:
    """Blocks that ended with their context, by CALL."""
    lost: Leak
    call: Call


@dataclasses.dataclass
class Refused:
    """Frees at one place that the driver refused, of blocks that ALLOCATED made."""
    api: str
    stack: list
    result: int
    allocated: Call
    count: int = 1
    what: str = "never freed"  # or "freed later", "after the shutdown", "in a broken context"


@dataclasses.dataclass
class Error:
    type: str
    api: str
    stack: list
    result: int
    allocated: Call = None
    freed: Call = None
    earlier: tuple = None  # (Call that allocated, Call that freed)
    asked: int = None  # the call's range, where that and not the call was wrong


@dataclasses.dataclass
class Case:
    name: str
    program: str
    args: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)
    status: int = 0
    stdout: str = None
    ended: str = "exit"
    allocated: tuple = (0, 0)  # blocks, bytes
    freed: int = 0
    peak: object = ANY
    with_context: tuple = (0, 0)
    ends: list = dataclasses.field(default_factory=list)
    suppressed_ends: list = dataclasses.field(default_factory=list)
    late: int = 0
    leaks: list = dataclasses.field(default_factory=list)
    suppressed: list = dataclasses.field(default_factory=list)
    cached: list = dataclasses.field(default_factory=list)
    refused: list = dataclasses.field(default_factory=list)
    errors: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    suppressions: str = None
    incomplete: bool = False
    in_run_ended: str = None  # where only a parent can tell
    source: str = None
    culprits: tuple = ()  # functions of the application, where others may be further in

    @property
    def clean(self):
        return not (self.leaks or self.ends or self.errors or self.incomplete)

    def summary(self):
        return {
            "leaked_bytes": sum(leak.bytes for leak in self.leaks),
            "leaked_blocks": sum(leak.blocks for leak in self.leaks),
            "keeps_bytes": sum(leak.keeps_bytes for leak in self.leaks),
            "suppressed_bytes": sum(leak.bytes for leak in self.suppressed),
            "suppressed_blocks": sum(leak.blocks for leak in self.suppressed),
            "cached_bytes": sum(leak.bytes for leak in self.cached),
            "cached_blocks": sum(leak.blocks for leak in self.cached),
            "errors": len(self.errors),
            "allocated_bytes": self.allocated[1],
            "allocated_blocks": self.allocated[0],
            "freed_blocks": self.freed,
            "peak_bytes": self.peak,
            "with_context_blocks": self.with_context[0],
            "with_context_bytes": self.with_context[1],
            **({"ended_with_context_blocks": sum(end.lost.blocks for end in self.ends),
                "ended_with_context_bytes": sum(end.lost.bytes for end in self.ends)}
               if self.ends else {}),
            "late_blocks": self.late,
        }


def source_of(program):
    for name in (program + ".c", program + ".cpp"):
        if os.path.exists(os.path.join(HERE, name)):
            return name
    raise Failed("no source of " + program)


def find_markers():
    """{(absolute file, line): name} of every marker in the programs' sources."""
    ret = {}
    for name in sorted(os.listdir(HERE)):
        if not name.endswith((".c", ".cpp", ".h")):
            continue
        path = os.path.join(HERE, name)
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                found = re.search(r"/\* @(\w+) \*/", line)
                if found:
                    ret[path, number] = found.group(1)
    return ret


MARKERS = find_markers()


def line_of(source, marker):
    path = os.path.join(HERE, source)
    for (file, line), name in MARKERS.items():
        if file == path and name == marker:
            return line
    raise Failed("%s has no marker @%s" % (source, marker))


# ---- the same text from both sides ----

def frame_text(frame, source):
    """FUNCTION@MARKER in the program's own source, FUNCTION@FILE:MARKER in another of ours."""
    if set(frame) - {"language", "role", "thread", "waiting", "code"} != {"function", "file", "line", "module", "offset"}:
        raise Failed("frame with keys %s" % sorted(frame))
    function = re.sub(r"\(.*\)$", "", frame["function"] or "?")
    module = os.path.basename(frame["module"] or "?")
    file = os.path.realpath(frame["file"]) if frame["file"] else ""
    if os.path.dirname(file) != HERE:
        if RUNTIME_MODULES.match(module) or RUNTIME_FUNCTIONS.match(frame["function"] or ""):
            return None
        return "%s@[%s]" % (function, module)
    if RUNTIME_FUNCTIONS.match(frame["function"] or ""):
        return None
    if not os.path.isabs(frame["file"]) or os.path.normpath(frame["file"]) != frame["file"]:
        raise Failed("file %s is not a plain absolute path" % frame["file"])
    place = MARKERS.get((file, frame["line"]), str(frame["line"]))
    if os.path.basename(file) == source:
        return "%s@%s" % (function, place)
    return "%s@%s:%s" % (function, os.path.basename(file), place)


def stack_lines(stack, source):
    if stack and isinstance(stack[0], dict):
        stack = [text for text in (frame_text(frame, source) for frame in stack) if text]
    return ["      " + frame for frame in stack]


def leak_lines(what, api, kind, device, size, blocks, stack, source, keeps=None):
    kept = "" if keeps in (None, size) else " that keep %s bytes" % keeps
    return ["%s: %s, %s, device %s, %s bytes in %s blocks%s" % (
        what, api, kind, device, size, blocks, kept)] + stack_lines(stack, source)


def call_lines(what, api, size, stack, source):
    size = "" if size is None else ", %s bytes" % size
    return ["    %s by %s%s" % (what, api, size)] + stack_lines(stack, source)


def end_lines(what, lost, api, stack, source):
    return leak_lines(what + "ended with its context", lost["api"], lost["kind"], lost["device"],
                      lost["bytes"], lost["blocks"], lost["stack"], source) + \
        call_lines("ended", api, None, stack, source)


def refused_lines(api, result, count, what, stack, allocated, source):
    return ["refused free: %s, answered %s, %s times, %s" % (api, result, count, what)] + \
        stack_lines(stack, source) + \
        call_lines("allocated", allocated["api"], allocated["bytes"], allocated["stack"], source)


def fate_of(refused):
    return "after the shutdown" if refused["after_shutdown"] else \
        "in a broken context" if refused.get("broken_context") else \
        "freed later" if refused["freed_later"] else "never freed"


def error_lines(error, source):
    ret = ["error: %s, %s, answered %s" % (error["type"], error["api"], error["result"])]
    ret += stack_lines(error["stack"], source)
    if error.get("asked_bytes") is not None:
        ret.append("    a range of %d bytes" % error["asked_bytes"])
    for what, call in (("allocated", error["allocated"]), ("freed", error["freed"]),
                       ("earlier allocated", error.get("earlier", {}).get("allocated")),
                       ("earlier freed", error.get("earlier", {}).get("freed"))):
        if call:
            ret += call_lines(what, call["api"], call.get("bytes"), call["stack"], source)
    if ("earlier" in error) != (error.get("culprit_candidate") == "freed"):
        ret.append("    culprit_candidate: %s" % error.get("culprit_candidate"))
    return ret


def summary_lines(summary, ignore):
    return ["summary: %s = %s" % (key, ANY if key in ignore else value)
            for key, value in summary.items()]


def got_lines(process, source, ignore=()):
    """PROCESS: a report's object on one process."""
    ret = summary_lines(process["summary"], ignore)
    sizes = [leak["keeps_bytes"] for leak in process["leaks"]]
    if sizes != sorted(sizes, reverse=True):
        ret.append("leaks are not ordered by size: %s" % sizes)
    for what, leaks in (("leak", process["leaks"]), ("suppressed", process["suppressed"]),
                        ("cached", process["cached"])):
        for lines in sorted(
                (leak_lines(what, leak["api"], leak["kind"], leak["device"], leak["bytes"],
                            leak["blocks"], leak["stack"], source, leak["keeps_bytes"])
                 for leak in leaks)):
            ret += lines
    for lines in sorted(end_lines("suppressed, " if "pattern" in end else "", end,
                                  end["ended"]["api"], end["ended"]["stack"], source)
                        for end in process.get("ended_with_context", ())):
        ret += lines
    for refused in process.get("refused_frees", ()):
        ret += refused_lines(refused["api"], refused["result_number"], refused["count"],
                             fate_of(refused), refused["stack"], refused["allocated"], source)
    for error in process["errors"]:
        ret += error_lines(error, source)
    return ret + ["note: " + note for note in process["notes"]]


def call_dict(call):
    return call and {"api": call.api, "bytes": call.bytes, "stack": call.stack}


def wanted_lines(case, source):
    ret = summary_lines(case.summary(), ())
    for what, leaks in (("leak", case.leaks), ("suppressed", case.suppressed),
                        ("cached", case.cached)):
        for lines in sorted(leak_lines(what, leak.api, leak.kind, leak.device, leak.bytes,
                                       leak.blocks, leak.stack, source, leak.keeps)
                            for leak in leaks):
            ret += lines
    for lines in sorted(end_lines(what, dataclasses.asdict(end.lost), end.call.api,
                                  end.call.stack, source)
                        for what, ends in (("", case.ends),
                                           ("suppressed, ", case.suppressed_ends))
                        for end in ends):
        ret += lines
    for refused in case.refused:
        ret += refused_lines(refused.api, refused.result, refused.count, refused.what,
                             refused.stack, call_dict(refused.allocated), source)
    for error in case.errors:
        told = {"type": error.type, "api": error.api, "result": error.result,
                "stack": error.stack, "allocated": call_dict(error.allocated),
                "freed": call_dict(error.freed), "asked_bytes": error.asked}
        if error.earlier:
            told["earlier"] = {"allocated": call_dict(error.earlier[0]),
                               "freed": call_dict(error.earlier[1])}
            told["culprit_candidate"] = "freed"
        ret += error_lines(told, source)
    return ret + ["note: " + note for note in case.notes]


def without_earlier(said):
    """Why a process has no ledger, where an earlier one of its number happens to have left one."""
    return re.sub(r"; an earlier process of this number left \S+$", "", said, flags=re.MULTILINE)


def compare(what, wanted, got):
    if wanted == got:
        return
    if isinstance(wanted, list):
        diff = difflib.unified_diff([str(line) for line in wanted], [str(line) for line in got],
                                    "wanted", "got", lineterm="", n=8)
        raise Failed(what + ":\n" + "\n".join(diff))
    raise Failed("%s:\nwanted: %r\ngot:    %r" % (what, wanted, got))


# ---- running ----

@dataclasses.dataclass
class Run:
    status: int
    stdout: str
    stderr: str
    pid: int


@functools.cache
def pocl_cache():
    """Returns a folder that is removed at exit. PoCL needs a second of CPU time to compile a program, so
    the processes of one test share what it compiled. A case that needs a compilation inside its process
    sets POCL_CACHE_DIR."""
    return tempfile.TemporaryDirectory(prefix="gpuleak-pocl-", ignore_cleanup_errors=True)


class Place:
    """A temporary directory that is a process's whole world."""

    def __init__(self, options):
        self.options = options
        self.path = tempfile.mkdtemp(prefix="gpuleak-programs-")
        self.runtime = os.path.join(self.path, "runtime")
        os.mkdir(self.runtime, 0o700)

    def file(self, name):
        return os.path.join(self.path, name)

    def write(self, name, text):
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.file(name)

    def read(self, name):
        with open(self.file(name), encoding="utf-8") as file:
            return file.read()

    def json(self, name):
        report = json.loads(self.read(name))
        compare("schema", "gpuleak-report/1", report["schema"])
        return report

    def program(self, name):
        return os.path.join(self.options.programs, "p_" + name)

    def module(self, name):
        return os.path.join(self.options.programs, name + ".so")

    def environment(self, more):
        ret = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": self.path,
            "LC_ALL": "C",
            "LD_LIBRARY_PATH": self.options.standin,
            "XDG_RUNTIME_DIR": self.runtime,
            "POCL_CACHE_DIR": pocl_cache().name,
        }
        for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "POCL_DEVICES", "GPULEAK_POOL"):
            if name in os.environ:
                ret[name] = os.environ[name]
        ret.update(more)
        return {name: value for name, value in ret.items() if value is not None}

    def start(self, argv, env, **how):
        how.setdefault("stdin", subprocess.DEVNULL)
        how.setdefault("stdout", subprocess.PIPE)
        how.setdefault("stderr", subprocess.PIPE)
        how.setdefault("cwd", self.path)
        return subprocess.Popen([str(arg) for arg in argv], env=self.environment(env), **how)

    def run(self, argv, env=None, **how):
        process = self.start(argv, env or {}, **how)
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            raise Failed("%s did not end within %d s" % (" ".join(map(str, argv)),
                                                         TIMEOUT)) from None
        return Run(process.returncode, (out or b"").decode(errors="replace"),
                   (err or b"").decode(errors="replace"), process.pid)

    def preloaded(self, argv, env=None, **how):
        return self.run(argv, {"LD_PRELOAD": self.options.preload, **(env or {})}, **how)

    def command(self, *argv, env=None, **how):
        return self.run((self.options.command,) + argv, env, **how)

    def reports_under_limits(self):
        """False where the command is built with AddressSanitizer: that takes more address space and
        stack than such a limit leaves. A program that limits itself then wants GPULEAK_REPORT=none."""
        with open(self.options.command, "rb") as file:
            return b"__asan_init" not in file.read()

    def left_behind(self):
        ret = []
        for directory, _, files in os.walk(self.runtime):
            ret += [os.path.relpath(os.path.join(directory, name), self.runtime)
                    for name in files]
        runs = os.path.join(self.runtime, "gpuleak")
        if os.path.isdir(runs):
            ret += [name for name in os.listdir(runs) if name.startswith("run-")]
        return sorted(ret)

    def nothing_left(self):
        compare("ledgers left behind", [], self.left_behind())

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)


def until(what, condition):
    """Waits until CONDITION() is true. WHAT is in the failure."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise Failed("never: " + what)
        time.sleep(0.02)


def no_call_seen(program):
    """What `gpuleak run` prints if PROGRAM makes no GPU call."""
    return "gpuleak: no GPU call was seen in %s; `gpuleak doctor %s` checks what may be the reason\n" % (
        program, program)


def shell_status(status):
    return 128 - status if status < 0 else status


# ---- one case by every route ----

def check_peak(process):
    """The holders of each peak are the peak, to its error; none is larger than all memory's."""
    peak = process["peak"] or {"others": []}
    for each in [peak] + peak["others"] if "bytes" in peak else []:
        held = sum(holder["bytes"] for holder in each["holders"]) + \
            each.get("other_holders", {"bytes": 0})["bytes"]
        if abs(each["bytes"] - held) > each["error_bytes"] or \
                each["bytes"] > process["summary"]["peak_bytes"]:
            raise Failed("holders have %d bytes of the peak %s" % (held, json.dumps(
                {key: each[key] for key in ("memory", "device", "bytes", "error_bytes")})))


def deferred(report):
    """The most bytes that the driver had still to free after their release: 0 with most drivers.
    They are part of the peak. PoCL 7 frees on a thread of its own, a moment later."""
    return (report.get("released") or {}).get("peak_bytes", 0)


def check_process(case, process, source):
    check_peak(process)
    if case.peak != ANY and \
            case.peak < process["summary"]["peak_bytes"] <= case.peak + deferred(process):
        case = dataclasses.replace(case, peak=ANY)
    ignore = ("peak_bytes",) if case.peak == ANY else ()
    compare("report", wanted_lines(case, source), got_lines(process, source, ignore))


def check_ended(process, ended, status):
    compare("how it ended", (ended, status), (process["ended"], process["status"]))


def same_as_bare(bare, got, stderr=True):
    compare("exit status", bare.status, got.status)
    compare("stdout", bare.stdout, got.stdout)
    if stderr:
        compare("stderr", bare.stderr, got.stderr)


def but_written(text):
    """TEXT without the line about a report that was written to a file."""
    return re.sub(r"^gpuleak: .*; report: /.*\n", "", text, flags=re.MULTILINE)


def without_identity(report):
    """What must be the same by every route: all but who the process was, the gate, times, and
    addresses where the driver's are heap pointers."""
    ret = {key: value for key, value in report.items()
           if key not in ("gate", "released", "timeline", "devices", "pool",
                       "driver_costs")}
    # what a context keeps is measured, and only by some routes
    ret["objects"] = [dict(entry, keeps_bytes=None) for entry in report["objects"]]
    ret["process"] = {key: value for key, value in report["process"].items()
                      if key not in ("pid", "ended", "status", "command")}
    text = json.dumps(ret, indent=1)
    text = re.sub(r'"seconds": [0-9.e-]+', '"seconds": 0', text)
    return re.sub(r'"(address|block_address|pool)": "0x[0-9a-f]+"', r'"\1": "0x"',
                  re.sub(r'"time_ns": \d+', '"time_ns": 0', text)).split("\n")


class Routes:
    def __init__(self, case, options):
        self.case = case
        self.options = options
        self.source = case.source or source_of(case.program)
        self.reports = {}
        self.bare_run = None

    def argv(self, place):
        return [place.program(self.case.program)] + [
            str(arg).replace("{tmp}", place.path).replace("{programs}", self.options.programs)
            for arg in self.case.args]

    def env(self, place, more=None):
        ret = dict(self.case.env, **(more or {}))
        if self.case.suppressions is not None:
            ret["GPULEAK_SUPPRESSIONS"] = place.write("suppressions", self.case.suppressions)
        return ret

    def bare(self, place):
        env = {name: value for name, value in self.case.env.items()
               if not name.startswith("GPULEAK_")}
        self.bare_run = place.run(self.argv(place), env)
        compare("exit status without gpuleak", self.case.status, self.bare_run.status)
        if self.case.stdout is not None:
            compare("stdout without gpuleak", self.case.stdout, self.bare_run.stdout)

    def plain(self, place):
        run = place.preloaded(self.argv(place), self.env(place, {
            "GPULEAK_FORMAT": "json", "GPULEAK_REPORT": place.file("report.json")}))
        same_as_bare(self.bare_run, run)
        report = place.json("report.json")
        check_process(self.case, report, self.source)
        check_ended(report["process"], self.case.ended, max(self.case.status, 0))
        compare("pid", run.pid, report["process"]["pid"])
        compare("command", self.argv(place), report["process"]["command"])
        place.nothing_left()
        self.reports["plain"] = report

    def run(self, place):
        run = place.command("run", "--format", "json", "--report", place.file("report.json"),
                            "--gate", "--", *self.argv(place), env=self.env(place))
        own = shell_status(self.case.status)
        compare("exit status of the gate", own or (0 if self.case.clean else 23), run.status)
        compare("stdout", self.bare_run.stdout, run.stdout)
        gate = [line for line in run.stderr.split("\n") if line.startswith("gpuleak: gate ")]
        compare("stderr without the verdict", self.bare_run.stderr,
                "".join(line + "\n" for line in but_written(run.stderr).split("\n")[:-1]
                        if line not in gate))
        compare("verdict", True, len(gate) > 0 and all(
            line.startswith("gpuleak: gate passed" if self.case.clean else "gpuleak: gate failed")
            for line in gate))
        report = place.json("report.json")
        check_process(self.case, report, self.source)
        check_ended(report["process"], self.case.in_run_ended or self.case.ended,
                    abs(self.case.status))
        compare("gate in JSON", 0 if self.case.clean else 23, report["gate"]["status"])
        place.nothing_left()
        self.reports["run"] = report

    def kept(self, place):
        run = place.preloaded(self.argv(place), self.env(place, {
            "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("kept-%p")}))
        same_as_bare(self.bare_run, run)
        options = ["--suppressions", place.file("suppressions")] \
            if self.case.suppressions is not None else []
        told = place.command("report", "--format", "json", *options,
                             place.file("kept-%d" % run.pid))
        compare("report's status and stderr", (0, ""), (told.status, told.stderr))
        report = json.loads(told.stdout)
        check_process(self.case, report, self.source)
        check_ended(report["process"], self.case.ended, max(self.case.status, 0))
        checked = place.command("check", *options, place.file("kept-%d" % run.pid))
        compare("status of check", 0 if self.case.clean else 23, checked.status)
        self.reports["kept"] = report

    def text(self, place):
        run = place.preloaded(self.argv(place), self.env(place))
        same_as_bare(self.bare_run, run, stderr=False)
        lines = run.stderr[len(self.bare_run.stderr):].split("\n")[:-1]
        if not lines or not run.stderr.startswith(self.bare_run.stderr):
            raise Failed("no report on stderr:\n" + run.stderr)
        compare("first words", "gpuleak: ", lines[0][:9])
        if self.case.clean and not self.case.notes and not self.case.refused and \
                self.case.suppressions is None and "never destroyed: " not in run.stderr:
            compare("lines of a clean report", 1, len(
                [line for line in lines if not line.startswith("gpuleak: pool")]))
        if self.case.leaks and not self.case.errors:
            self.first_line(lines[0])
        place.nothing_left()

    def culprit(self, leak):
        return next((frame for frame in leak.stack if not self.case.culprits
                     or frame.partition("@")[0] in self.case.culprits), None)

    def first_line(self, line):
        """Leaks of one line are one finding."""
        kept = collections.Counter()
        for leak in self.case.leaks:
            kept[leak.kind, leak.device, self.culprit(leak)] += leak.keeps_bytes
        for (_, _, culprit), total in kept.items():
            if total != max(kept.values()):
                continue
            if not culprit:
                wanted = "no stack was recorded"
            else:
                function, _, place = culprit.partition("@")
                source, _, marker = place.rpartition(":")
                source = source or self.source
                wanted = (function, "/%s:%d)" % (source, line_of(source, marker)))
            if all(part in line for part in ([wanted] if isinstance(wanted, str) else wanted)):
                return
        raise Failed("the first line does not name the largest leak's place:\n" + line)

    def same(self, place):
        del place
        if len(self.reports) < 3:
            raise Failed("one of the routes above failed")
        late = any(map(deferred, self.reports.values()))
        for report in self.reports.values():
            if self.case.peak == ANY or late:
                del report["summary"]["peak_bytes"], report["peak"]
        for route in ("run", "kept"):
            compare("report by %s against plain preload" % route,
                    without_identity(self.reports["plain"]),
                    without_identity(self.reports[route]))


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def line(self, name, error=None, skip=None):
        self.count += 1
        self.failed += error is not None
        tail = " # SKIP " + skip if skip else ""
        print("%s %d - %s%s" % ("ok" if error is None else "not ok", self.count, name, tail))
        for text in (error or "").split("\n") if error else ():
            print("#   " + text)
        sys.stdout.flush()

    def step(self, name, function, *args):
        try:
            function(*args)
        except Failed as failure:
            self.line(name, str(failure))
        except Skipped as reason:
            if isinstance(reason, Missing) and os.environ.get("GPULEAK_MUST_RUN"):
                self.line(name, "must run here, but %s" % reason)
            else:
                self.line(name, skip=str(reason))
        except Exception:  # a report of another shape than expected must not end the run
            self.line(name, traceback.format_exc())
        else:
            self.line(name)


@contextlib.contextmanager
def a_place(options):
    place = Place(options)
    try:
        yield place
    finally:
        place.close()


def run_case(tap, case, options):
    routes = Routes(case, options)

    def in_place(function):
        with a_place(options) as place:
            function(place)

    for route in ("bare", "plain", "run", "kept", "text", "same"):
        tap.step("%s: %s" % (case.name, route), in_place, getattr(routes, route))


def run_function(tap, function, options):
    def in_place():
        with a_place(options) as place:
            function(place)

    tap.step(function.__doc__.split("\n")[0].rstrip("."), in_place)
