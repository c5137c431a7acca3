#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs real programs with and without the preload and compares what they do; what they
did with the GPU must be in the report exactly.

run.py GROUP --preload LIB --command EXE --standin DIR --programs DIR [--only TEXT]

TAP on stdout. Exit status 0, 1 when a test failed, 77 when something that is needed is
absent and GPULEAK_MUST_RUN is not set. GPULEAK_MUST_RUN also turns single skips into
failures, except those that no installation can avoid.
"""

import argparse
import contextlib
import dataclasses
import ctypes.util
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import cases_coverage

# An emulated processor is many times slower: tests/scripts/aarch64.sh sets the factor.
TIMEOUT = 60 * int(os.environ.get("GPULEAK_TEST_SLOWER", "1"))
LEAK = 4097
PAIR = 8193
PYTHON = "/usr/bin/python3"
cases = []
options = None


class Skip(Exception):
    """A tool that the case needs is missing."""


class Impossible(Skip):
    """No installation helps: this user, file system or container forbids what the case does."""


def case(group, name):
    def keep(function):
        cases.append((group, name, function))
        return function
    return keep


# ---- running ----

@dataclasses.dataclass
class Result:
    out: bytes
    err: bytes
    status: int
    report: dict = None
    left: list = dataclasses.field(default_factory=list)


class Place:
    """A folder of the test's own: the same path for each run, empty each time."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.runtime = self.root / "runtime"
        self.work = self.root / "work"
        self.report = self.root / "report.json"

    def clear(self):
        for path in (self.runtime, self.work):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            self.report.unlink()

    def left(self):
        """Files in the runtime directory; a folder of ours may stay, empty."""
        return sorted(str(p.relative_to(self.runtime)) for p in self.runtime.rglob("*")
                      if not p.is_dir())


def environment(place, more, preload):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("GPULEAK_", "LD_", "STANDIN_", "ASAN_", "MALLOC_"))
           or k == "GPULEAK_POOL"}
    env.update(LD_LIBRARY_PATH=options.standin, XDG_RUNTIME_DIR=str(place.runtime),
               HOME=str(place.root), TMPDIR=str(place.work), LC_ALL="C",
               XDG_CACHE_HOME=str(place.root / "cache"),
               POCL_CACHE_DIR=str(place.root / "pocl"))
    if preload:
        env["LD_PRELOAD"] = ":".join(preload)
    env.update(more or {})
    return env


def run(place, argv, preload=(), env=None, **more):
    """Runs ARGV; with PRELOAD, the report goes to a file and comes back parsed."""
    place.clear()
    # Without the preload they are there too: a program may print its environment.
    reporting = {"GPULEAK_REPORT": str(place.report), "GPULEAK_FORMAT": "json"}
    done = subprocess.run(argv, cwd=place.work, stdin=subprocess.DEVNULL, timeout=TIMEOUT,
                          env=environment(place, {**reporting, **(env or {})}, preload),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)
    result = Result(done.stdout, done.stderr, done.returncode, left=place.left())
    if place.report.exists():
        text = place.report.read_text()
        try:
            result.report = json.loads(text)
        except ValueError:
            result.report = {"broken": text[:400]}
    return result


def program(name):
    path = pathlib.Path(options.programs) / name
    if not path.exists():
        raise Skip(f"{name} was not built")
    return str(path)


def ours():
    return str(options.preload)


def find_library(name):
    found = ctypes.util.find_library(name)
    if not found:
        raise Skip(f"no lib{name}")
    return found


def path_of_library(name):
    """The path that the loader finds it at."""
    return subprocess.run([PYTHON, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]); "
                           "print([l.split()[-1] for l in open('/proc/self/maps') "
                           "if '/' + sys.argv[1].split('.')[0] in l][0])", name],
                          stdout=subprocess.PIPE, check=True).stdout.decode().strip()


# ---- judging ----

def differences(bare, traced, err=True):
    """What the tracer changed."""
    problems = []
    if bare.status != traced.status:
        problems.append(f"exit status {bare.status}, with the preload {traced.status}")
    if bare.out != traced.out:
        problems += unlike("stdout", bare.out, traced.out)
    if err and bare.err != traced.err:
        problems += unlike("stderr", bare.err, traced.err)
    if traced.left:
        problems.append(f"files left: {traced.left}")
    return problems


def unlike(what, bare, traced):
    a, b = (x.decode(errors="replace").splitlines() for x in (bare, traced))
    for i in range(max(len(a), len(b))):
        left = a[i] if i < len(a) else "(end)"
        right = b[i] if i < len(b) else "(end)"
        if left != right:
            return [f"{what}, line {i + 1}: {left!r}, with the preload {right!r}"]
    return [f"{what} differs"]


def not_clean(bare):
    """The run without the preload is the measure: it must itself be what was meant."""
    if bare.status or bare.err:
        return [f"without the preload: status {bare.status}, {bare.err[:200]!r}"]
    return []


def functions(stack):
    return [(frame.get("function") or "").partition("(")[0] for frame in stack]


def judge(report, allocated, leaks, freed=None, errors=()):
    """ALLOCATED: (blocks, bytes). LEAKS: (api, kind, blocks, bytes, function in the stack)."""
    if not report:
        return ["no report"]
    if "summary" not in report:
        return [f"not a report: {report}"]
    problems = []
    wanted = {"allocated_blocks": allocated[0], "allocated_bytes": allocated[1],
              "leaked_blocks": sum(leak[2] for leak in leaks),
              "leaked_bytes": sum(leak[3] for leak in leaks), "errors": len(errors)}
    wanted["freed_blocks"] = (freed if freed is not None
                              else allocated[0] - wanted["leaked_blocks"])
    for key, value in wanted.items():
        if value is not None and report["summary"].get(key) != value:
            problems.append(f"{key}: {report['summary'].get(key)}, not {value}")
    got = sorted((leak["api"], leak["kind"], leak["blocks"], leak["bytes"])
                 for leak in report["leaks"])
    if got != sorted(leak[:4] for leak in leaks):
        problems.append(f"leaks {got}")
    for leak in leaks:
        if not any(leak[:4] == (l["api"], l["kind"], l["blocks"], l["bytes"])
                   and leak[4] in functions(l["stack"]) for l in report["leaks"]):
            problems.append(f"no {leak[4]} in the stack of {leak[:4]}: "
                            f"{[functions(l['stack']) for l in report['leaks']]}")
    if sorted(e["type"] for e in report["errors"]) != sorted(errors):
        problems.append(f"errors {[e['type'] for e in report['errors']]}")
    return problems


def judge_work(result, api="cuMemAlloc_v2", out=None):
    """cu.h's work: one block lost, one freed, each seen once."""
    problems = judge(result.report, (2, LEAK + PAIR), [(api, "device", 1, LEAK, "leak_here")])
    if result.status or result.err:
        problems.append(f"status {result.status}, stderr {result.err[:300]!r}")
    if b"worked" not in result.out:
        problems.append(f"stdout {result.out[:300]!r}")
    if out is not None and result.out != out:
        problems.append(f"stdout {result.out!r}")
    if result.left:
        problems.append(f"files left: {result.left}")
    return problems


def silent(result):
    return [f"a report: {result.report.get('summary')}"] if result.report else []


# ---- 1: routes ----

def route(name, *argv, built="routes-route", api="cuMemAlloc_v2", function=None, preload=None,
          env=None, same=True):
    """One case: ARGV of the program with its leak reported once, its output unchanged."""
    def check(place):
        command = [program(built)] + [a() if callable(a) else str(a) for a in argv]
        more = [p() for p in preload] if preload else [ours()]
        bare = run(place, command, env=env)
        traced = run(place, command, preload=more, env=env)
        problems = judge_work(traced, api)
        if same:
            problems += not_clean(bare) + differences(bare, traced)
        return problems
    cases.append(("routes", name, check))


LINKED = "routes-route-linked"
route("linked with -lcuda", "linked", built=LINKED)
route("linked, dlsym(RTLD_DEFAULT)", "default", built=LINKED)
route("linked, dlsym(RTLD_NEXT)", "next", built=LINKED)
route("linked, dlopen(NULL)", "self", built=LINKED)
route("linked, dlopen + dlsym", "handle", built=LINKED)
route("dlopen RTLD_LOCAL + dlsym", "handle")
route("dlopen RTLD_GLOBAL + dlsym(RTLD_DEFAULT)", "default")
route("dlopen RTLD_GLOBAL + dlopen(NULL)", "self")
route("plugin opened RTLD_LOCAL links the driver", "plugin",
      lambda: program("libroutes-plugin.so"))
for resolver in (4, 5):
    for version in (3020, 7000, 11030, 12000, 13000, -1):
        for flags in (0, 1, 2):
            route(f"resolver of {resolver} arguments, version {version}, flags {flags}",
                  "resolver", resolver, version, flags)
for resolver in (4, 5):
    for version in (11030, 12000):
        route(f"resolver of {resolver} asked for itself at {version}", "self-lookup", resolver,
              version)
route("as cudart 13 does it", "cudart")
route("as a cudart of CUDA 11 does it", "old-cudart")
route("the driver looks itself up (linked)", "linked", built=LINKED,
      env={"STANDIN_SELF_LOOKUP": "1"})
route("the driver looks itself up (dlsym)", "handle", env={"STANDIN_SELF_LOOKUP": "1"})
route("the driver looks itself up (resolver)", "cudart", env={"STANDIN_SELF_LOOKUP": "1"})
route("a library's wrapper before the driver", "linked", built="routes-shim-linked")
route("DT_PREINIT_ARRAY, before every constructor", built="routes-early-preinit")
route("a constructor that runs before the preload's", built="routes-early-user")


@case("routes", "32-bit calls by their version")
def bits(place):
    command = [program("routes-route"), "32"]
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    problems = judge(traced.report, (2, LEAK + PAIR),
                     [("cuMemAlloc", "device", 1, LEAK, "in_32_bits")])
    if b"32 bits written" not in bare.out:
        problems.append(f"without the preload: {bare.out}")
    return problems + differences(bare, traced)


@case("routes", "what the self-lookup returns has the ABI of the version")
def self_lookup(place):
    problems = []
    for arguments, version, text in ((5, 11030, b"4 arguments: 500, pointer kept\n"),
                                     (5, 12000, b"5 arguments: pointer NULL, status 1\n"),
                                     (4, 11030, b"4 arguments: 500, pointer kept\n"),
                                     (4, 12000, b"5 arguments: pointer NULL, status 1\n")):
        traced = run(place, [program("routes-route"), "self-lookup", str(arguments), str(version)],
                     preload=[ours()])
        if not traced.out.startswith(text):
            problems.append(f"{arguments} at {version}: {traced.out!r}")
    return problems


@case("routes", "resolver: same answers to 500 good and bad questions")
def resolver_answers(place):
    command = [program("routes-resolver")]
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    problems = not_clean(bare) + differences(bare, traced)
    if bare.out.count(b"\n") < 1000:
        problems.append("too few answers")
    return problems + judge(traced.report, (2, 1024), [("cuMemAlloc_v2", "device", 1, 512, "main"),
                                                       ("cuMemAlloc", "device", 1, 512, "main")])


@case("routes", "a later driver's new variant keeps the driver's pointer and is noted")
def future(place):
    folder = place.root / "future"
    folder.mkdir(exist_ok=True)
    shutil.copy(program("libcuda-future.so"), folder / "libcuda.so.1")
    env = {"LD_LIBRARY_PATH": str(folder)}
    command = [program("routes-future-user")]
    bare = run(place, command, env=env)
    traced = run(place, command, preload=[ours()], env=env)
    problems = not_clean(bare) + differences(bare, traced)
    if bare.out != b"cuMemAlloc_v3, status 0\n":
        problems.append(f"without the preload: {bare.out}")
    problems += judge(traced.report, (1, LEAK), [("cuMemAlloc_v2", "device", 1, LEAK, "main")])
    if not any("version" in note for note in (traced.report or {}).get("notes", [])):
        problems.append(f"not noted: {(traced.report or {}).get('notes')}")
    return problems


@case("routes", "dlopen'ed constructor allocates while another thread makes its first call")
def in_dlopen(place):
    command = [program("routes-opener"), program("libroutes-plugin-early.so")]
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    return not_clean(bare) + differences(bare, traced) + judge_work(traced)


@case("routes", "1,000 threads make their first call at once")
def many_threads(place):
    command = [program("routes-threads")]
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    return not_clean(bare) + differences(bare, traced) + judge(
        traced.report, (1010, 1000 * PAIR + 10 * LEAK),
        [("cuMemAlloc_v2", "device", 10, 10 * LEAK, "leak_here")])


@case("routes", "a signal a thousand times a second")
def signals(place):
    command = [program("routes-threads"), "signals"]
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    problems = not_clean(bare) + differences(bare, traced)
    blocks = ((traced.report or {}).get("summary") or {}).get("allocated_blocks", 0)
    if blocks < 100001 or blocks % 16 != 1:
        problems.append(f"{blocks} blocks")
    pairs = (blocks - 1) // 16
    return problems + judge(traced.report, (blocks, LEAK + pairs * 512 * 136),
                            [("cuMemAlloc_v2", "device", 1, LEAK, "leak_here")])


@case("routes", "a failing driver: nothing recorded, results unchanged")
def failing(place):
    problems = []
    for step, leaks in (("cuMemAlloc_v2:1=2", None), ("cuInit:1=100", None),
                        ("cuDevicePrimaryCtxRetain:1=2", None), ("cuMemAlloc_v2:2=2", LEAK),
                        ("cuMemFree_v2:1=700", LEAK), ("cuMemFree_v2:1=1", LEAK + PAIR)):
        for built, name in ((LINKED, "linked"), ("routes-route", "handle"),
                            ("routes-route", "cudart")):
            command, env = [program(built), name], {"STANDIN_FAIL": step}
            bare = run(place, command, env=env)
            traced = run(place, command, preload=[ours()], env=env)
            problems += [f"{step} {name}: {p}" for p in differences(bare, traced)]
            if bare.status != 1:
                problems.append(f"{step}: did not fail without the preload")
            summary = (traced.report or {}).get("summary", {})
            if summary.get("leaked_bytes", 0) != (leaks or 0):
                problems.append(f"{step} {name}: leaked {summary.get('leaked_bytes')}")
            if summary.get("errors", 0):
                problems.append(f"{step} {name}: errors {(traced.report or {}).get('errors')}")
    return problems


MISUSE = {  # type, function that erred, that allocated, that freed before
    ("double-free", "free_again", "make_for_double", "free_first"),
    ("interior-free", "free_inside", "make_for_interior", None),
    ("invalid-free", "free_foreign", None, None),
    ("double-free", "free_q", "make_q", "free_p_again"),
}
for how in ("linked", "handle"):
    def misuse(place, how=how):
        command = [program("routes-misuse"), how]
        bare, traced = run(place, command), run(place, command, preload=[ours()])
        problems = not_clean(bare) + differences(bare, traced)
        if b"same address: 1" not in bare.out:
            problems.append("the driver gave another address")
        problems += judge(traced.report, (4, 1000 + (3 << 20) + 2 * 2000), [],
                          errors=[error[0] for error in MISUSE])
        got = set()
        for error in (traced.report or {}).get("errors", []):
            def maker(what, error=error):
                return functions(error[what]["stack"])[0] if error.get(what) else None
            got.add((error["type"], functions(error["stack"])[0], maker("allocated"),
                     maker("freed")))
        if got != MISUSE:
            problems.append(f"errors {sorted(got, key=str)}")
        return problems
    cases.append(("routes", f"invalid frees, and a stolen block, {how}", misuse))


@case("routes", "32 threads, addresses reused at once: nothing wrong, nothing lost")
def race(place):
    command, env = [program("routes-race")], {"STANDIN_ARENAS": "1"}
    bare, traced = run(place, command, env=env), run(place, command, preload=[ours()], env=env)
    problems = not_clean(bare) + differences(bare, traced)
    problems += judge(traced.report, (128000, 128000 * 512), [])
    if traced.report and traced.report["notes"]:
        problems.append(f"notes {traced.report['notes']}")
    return problems


# ---- 29 and 30: ends and children ----

def reports_of(place):
    return [json.loads(path.read_text()) for path in sorted(place.work.glob("report.*"))]


def ending(how, wanted, ended=None, reports=1):
    """The report of each process that made calls, and only of these."""
    def check(place):
        command = [program("routes-ends"), how]
        bare = run(place, command)
        traced = run(place, command, preload=[ours()],
                     env={"GPULEAK_REPORT": str(place.work / "report.%p")})
        problems = differences(bare, traced)
        if bare.status != wanted:
            problems.append(f"status {bare.status} without the preload")
        got = reports_of(place)
        if len(got) != reports:
            problems.append(f"{len(got)} reports, not {reports}")
        for report in got:
            if how == "fork under fire":
                blocks = report["summary"]["allocated_blocks"]
                problems += judge(report, (blocks, (blocks - 2) * 512 + LEAK + PAIR),
                                  [("cuMemAlloc_v2", "device", 1, LEAK, "leak_here")])
            else:
                problems += judge(report, (2, LEAK + PAIR),
                                  [("cuMemAlloc_v2", "device", 1, LEAK, "leak_here")])
            if ended and report["process"]["ended"] != ended:
                problems.append(f"ended {report['process']['ended']}")
            if ended in ("exit", "_exit") and report["process"]["status"] != wanted:
                problems.append(f"status {report['process']['status']}")
        return problems
    cases.append(("ends", how, check))


for how in ("return", "exit", "quick_exit", "exec fails"):
    ending(how, 3, "exit")
for how in ("_exit", "_Exit"):
    ending(how, 3, "_exit")
for how in ("execv", "execve", "execlp"):
    ending(how, 0, "exec")
ending("pthread_exit", 0, "exit")
for how in ("fork, child exits", "fork, child _exits", "vfork and exec", "vfork and _exit",
            "posix_spawn", "system", "fork under fire"):
    ending(how, 3, "exit")
ending("fork before", 3, reports=2)

for how in ("abort", "SIGTERM", "SIGSEGV", "SIGKILL"):
    def killed(place, how=how):
        ledger = place.root / "ledger"
        command = [program("routes-ends"), how]
        bare = run(place, command)
        traced = run(place, command, preload=[ours()], env={"GPULEAK_LEDGER": str(ledger)})
        done = subprocess.run([options.command, "report", "--format", "json", str(ledger)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if bare.status >= 0 or not done.stdout:
            return [f"status {bare.status}, report {done.returncode} {done.stderr[:300]!r}"]
        return differences(bare, traced) + judge(
            json.loads(done.stdout), (2, LEAK + PAIR),
            [("cuMemAlloc_v2", "device", 1, LEAK, "leak_here")])
    cases.append(("ends", f"{how}, by the ledger that is left", killed))


# ---- 2: transparency of lookups ----

def as_the_program_says(traced, built):
    """The one difference that stays: where our export stands in for a driver that is not
    there, the failing lookup's message names our library and not the caller's."""
    ours_fails, its_fails = (f"{path}: undefined symbol: c".encode()
                             for path in (ours(), program(built)))
    traced.out = traced.out.replace(ours_fails, its_fails)
    return traced


def same_lookups(built, what, must_have):
    def check(place):
        command = [program(built), program("libroutes-alike.so"), what]
        bare = run(place, command)
        traced = as_the_program_says(run(place, command, preload=[ours()]), built)
        problems = not_clean(bare) + differences(bare, traced) + silent(traced)
        return problems + [f"without the preload no {text}" for text in must_have
                           if text.encode() not in bare.out]
    return check


for built, caller in (("routes-lookups", "the compiler's dlsym"),
                      ("routes-lookups-old", "the oldest dlsym"),
                      ("routes-lookups-new", "dlsym@GLIBC_2.34")):
    cases.append(("lookups", f"names that look alike, {caller}", same_lookups(
        built, "names", ["cuFoo: 3", "own cuMemAlloc_v2: 4242 100", "0x4d 4343"])))
    cases.append(("lookups", f"dlerror() after lookups, {caller}", same_lookups(
        built, "errors", ["undefined symbol: cuInit", "undefined symbol: nothing"])))
    cases.append(("lookups", f"RTLD_NEXT forwarders, 8 threads, {caller}", same_lookups(
        built, "forwarders", ["forwarders: 321, again: 321", "thread 7: 12840000"])))


@case("lookups", "linked to a look-alike with no driver: its own functions, nothing recorded")
def alike_linked(place):
    command = [program("routes-alike-linked")]
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    return not_clean(bare) + differences(bare, traced) + silent(traced)


@case("lookups", "no driver in the process: dlsym(RTLD_DEFAULT) and dlopen(NULL) find nothing")
def absent(place):
    command = [program("routes-absent")]
    bare = run(place, command)
    traced = as_the_program_says(run(place, command, preload=[ours()]), "routes-absent")
    return not_clean(bare) + differences(bare, traced) + silent(traced)


for what, name in (("state", "results, errno and signal mask around calls"),
                   ("dlerror", "a dlerror() message that is pending while calls are made"),
                   ("scope", "a driver opened RTLD_LOCAL is in nobody's global scope")):
    def quiet(place, what=what):
        command = [program("routes-quiet-state"), what]
        bare, traced = run(place, command), run(place, command, preload=[ours()])
        return not_clean(bare) + differences(bare, traced)
    cases.append(("lookups", name, quiet))


for order in ("first", "second"):
    def hooked(place, order=order):
        preload = [ours(), program("libroutes-hook.so")] if order == "first" else [program("libroutes-hook.so"), ours()]
        traced = run(place, [program("routes-hook-user")], preload=preload)
        return judge_work(traced, out=b"version 777, hook saw them all\nworked\n")
    cases.append(("lookups", f"another preload hooks dlsym, we are {order}", hooked))
    for wrapper in ("wrap", "wrap-handle"):
        for how in ("linked", "default", "handle"):
            def wrapped(place, order=order, wrapper=wrapper, how=how):
                other = program(f"libroutes-{wrapper}.so")
                preload = [ours(), other] if order == "first" else [other, ours()]
                command = [program(LINKED), how]
                bare = run(place, command, preload=[other])
                traced = run(place, command, preload=preload)
                return not_clean(bare) + differences(bare, traced) + judge_work(traced)
            cases.append(("lookups", f"another preload wraps cuMemAlloc_v2 ({wrapper}), we are "
                          f"{order}, {how}", wrapped))


# ---- 3: C++ ----

@case("cxx", "exceptions, also through frames registered at run time")
def exceptions(place):
    command = [program("routes-throw")]
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    problems = not_clean(bare) + differences(bare, traced)
    if bare.out.count(b"through registered code") != 4:
        problems.append(f"without the preload: {bare.out}")
    blocks = ((traced.report or {}).get("summary") or {}).get("allocated_blocks")
    if blocks != 2 * 10000 + 100 + 1:
        problems.append(f"{blocks} blocks")
    return problems + judge(traced.report, (blocks, (2 * 10000 + 100) * 512 + LEAK),
                            [("cuMemAlloc_v2", "device", 1, LEAK, "leak_here")])


@case("cxx", "_Unwind_* of a library opened after GPU calls are libgcc's")
def whose_unwind(place):
    command = [program("routes-late-cxx"), program("libroutes-thrower.so")]
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    problems = not_clean(bare) + differences(bare, traced) + judge_work(traced)
    if traced.out.count(b": libgcc_s.so") != 3:
        problems.append(f"stdout {traced.out}")
    return problems


@case("cxx", "that test sees an unwinder that came in front")
def sees_unwind(place):
    command = [program("routes-late-cxx"), program("libroutes-thrower.so")]
    other = path_of_library(find_library("unwind"))
    if b"_Unwind_RaiseException" not in pathlib.Path(other).read_bytes():
        # On aarch64 it exports no such functions: take libgcc's under its name.
        shutil.copy(path_of_library(find_library("gcc_s")), place.root / "libunwind.so.8")
        other = str(place.root / "libunwind.so.8")
    with_it = run(place, command, preload=[other])
    return [] if b": libunwind.so" in with_it.out else [f"stdout {with_it.out}"]


# ---- 4: OpenCL ----

def needs_device(result):
    if result.status == 77:
        raise Skip("no OpenCL device")


def hashed_loader(place, soname=False):
    """A loader as wheels bring it: another file name, and if asked another soname too."""
    name = ctypes.util.find_library("OpenCL")
    if not name:
        raise Skip("no OpenCL loader")
    image = pathlib.Path(path_of_library(name)).read_bytes()
    target = place.root / ("libOpenCL-c4.1" if soname else "libOpenCL-cf4d6695.so.1.0.0")
    if soname:
        if b"libOpenCL.so.1\0" not in image:
            raise Skip("the loader has another soname")
        image = image.replace(b"libOpenCL.so.1\0", b"libOpenCL-c4.1\0")
    target.write_bytes(image)
    return str(target)


def cl_standin():
    return program("libOpenCL-standin.so")


def opencl(name, built, how, story, loader, allocated, leaks, freed=None, env=None, errors=()):
    def check(place):
        path = [loader(place)] if loader else []
        command = [program(built), how, story] + path
        bare = run(place, command, env=env)
        needs_device(bare)
        traced = run(place, command, preload=[ours()], env=env)
        return not_clean(bare) + differences(bare, traced) + judge(
            traced.report, allocated, leaks, freed=freed, errors=errors)
    cases.append(("opencl", name, check))


CL_PAIR = 8192
ONE_LOST = ((2, LEAK + CL_PAIR), [("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")])
BUFFER_LOST = [("clCreateBuffer", "cl-buffer", 1, CL_PAIR, "main")]
plain_loader = lambda place: find_library("OpenCL")
any_standin = lambda place: cl_standin()
opencl("linked", "routes-cl-linked", "linked", "work", None, *ONE_LOST)
opencl("dlopen + dlsym", "routes-cl", "path", "work", plain_loader, *ONE_LOST)
opencl("a loader under a wheel's file name", "routes-cl", "path", "work", hashed_loader, *ONE_LOST)
opencl("a loader under a wheel's soname", "routes-cl", "path", "work",
       lambda place: hashed_loader(place, soname=True), *ONE_LOST)
opencl("two loaders in one process", "routes-cl-linked", "path", "work", hashed_loader, *ONE_LOST)
opencl("clGetExtensionFunctionAddress", "routes-cl", "extension", "work", any_standin, *ONE_LOST)
opencl("clGetExtensionFunctionAddressForPlatform", "routes-cl", "extension of platform", "work",
       any_standin, *ONE_LOST)
for built, how, loader, where in (("routes-cl-linked", "linked", None, "linked"),
                                  ("routes-cl", "path", plain_loader, "by dlsym")):
    opencl(f"sub-buffer outlives its parent's last reference, {where}", built, how, "sub-buffer",
           loader, (2, CL_PAIR + 4096), [])
    opencl(f"sub-buffer lost, its parent released, {where}", built, how, "sub-buffer lost", loader,
           (2, CL_PAIR + 4096), [("clCreateSubBuffer", "cl-sub-buffer", 1, 4096, "main")],
           freed=0)  # the parent is released, not freed
    opencl(f"context released before its buffer, {where}", built, how, "context first", loader,
           (1, CL_PAIR), [])
    opencl(f"context released, buffer lost, {where}", built, how, "context first, lost", loader,
           (1, CL_PAIR), BUFFER_LOST)
    opencl(f"retained twice, released twice, {where}", built, how, "retained", loader,
           (1, CL_PAIR), BUFFER_LOST)
opencl("a refused release does not count", "routes-cl", "path", "refused", any_standin,
       (1, CL_PAIR), [("clCreateBuffer", "cl-buffer", 1, CL_PAIR, "main")],
       env={"CL_STANDIN": "refuse"})
opencl("a refused release, done again", "routes-cl", "path", "refused, again", any_standin,
       (1, CL_PAIR), [], env={"CL_STANDIN": "refuse"})
opencl("a second release is an error", "routes-cl", "path", "released twice", any_standin,
       (1, CL_PAIR), [], errors=["double-free"])
opencl("a second release by extension address", "routes-cl", "extension", "released twice",
       any_standin, (1, CL_PAIR), [], errors=["double-free"])



def released(name, story, wish, leaks, freed, peak, held=(), errors=(), allocated=(1, CL_PAIR),
             least_ns=0, most_ns=None):
    """Released is not yet freed, on the stand-in, which frees when it is told to. HELD: bytes
    of what is held at the end."""
    def check(place):
        command = [program("routes-cl"), "path", story, cl_standin()]
        env = {"CL_STANDIN": wish}
        bare = run(place, command, env=env)
        traced = run(place, command, preload=[ours()], env=env)
        problems = not_clean(bare) + differences(bare, traced) + judge(
            traced.report, allocated, leaks, freed=freed, errors=errors)
        told = traced.report["released"]
        got = (told["peak_bytes"], tuple(h["bytes"] for h in told["held"]))
        if got != (peak, held):
            problems.append(f"peak and held {got}")
        if not least_ns <= told["longest_wait_ns"] <= (most_ns or 1 << 62):
            problems.append(f"longest wait {told['longest_wait_ns']}")
        if (told["longest"] is None) != (told["longest_wait_ns"] == 0):
            problems.append(f"longest {told['longest']}")
        return problems
    cases.append(("opencl", name, check))


released("a driver that waits inside the release", "refused", "wait", [], 1, CL_PAIR,
         least_ns=20000000)
released("a buffer that another thread frees later", "held, freed", "hold", [], 1, CL_PAIR,
         least_ns=1)
released("a buffer that is released and never freed", "held, forgotten", "hold", [], 0, CL_PAIR,
         held=(CL_PAIR,), least_ns=1)
released("a second release while the memory is held", "held, again", "hold", [], 1, CL_PAIR,
         errors=["double-free"], least_ns=1)
released("a released buffer that is retained again", "held, retained", "hold",
         [("clCreateBuffer", "cl-buffer", 1, CL_PAIR, "main")], 0, CL_PAIR, most_ns=0)
released("a handle that is used again after its end", "held, reused", "hold",
         [("clCreateBuffer", "cl-buffer", 1, LEAK, "held")], 1, CL_PAIR,
         allocated=(2, CL_PAIR + LEAK), least_ns=1)
released("a driver without destructor callbacks", "held, forgotten", "hold, deaf", [], 1, 0,
         most_ns=0)
released("a handle used again, without callbacks", "held, reused", "hold, deaf",
         [("clCreateBuffer", "cl-buffer", 1, LEAK, "held")], 1, 0,
         allocated=(2, CL_PAIR + LEAK), most_ns=0)


@case("opencl", "a forked child starts with no blocks and has its own report")
def forked(place):
    command = [program("routes-cl"), "path", "fork", cl_standin()]
    bare = run(place, command)
    traced = run(place, command, preload=[ours()],
                 env={"GPULEAK_REPORT": str(place.work / "report.%p")})
    problems = not_clean(bare) + differences(bare, traced)
    reports = sorted(reports_of(place), key=lambda r: r["summary"]["allocated_bytes"])
    if len(reports) != 2:
        return problems + [f"{len(reports)} reports"]
    problems += judge(reports[0], (1, LEAK),
                      [("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")])
    return problems + judge(reports[1], (1, CL_PAIR),
                            [("clCreateBuffer", "cl-buffer", 1, CL_PAIR, "forked")])


@case("opencl", "a second release is on file before the driver dies of it")
def before_the_driver(place):
    ledger = place.root / "ledger"
    traced = run(place, [program("routes-cl"), "path", "released twice", cl_standin()],
                 preload=[ours()], env={"CL_STANDIN": "die", "GPULEAK_LEDGER": str(ledger)})
    if traced.status != -signal.SIGKILL:
        return [f"status {traced.status}"]
    done = subprocess.run([options.command, "report", "--format", "json", str(ledger)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if not done.stdout:
        return [f"gpuleak report: {done.returncode}, {done.stderr[:300]!r}"]
    report = json.loads(done.stdout)
    problems = judge(report, (1, CL_PAIR), [], errors=["double-free"])
    for error in report["errors"]:
        if "release_again" not in functions(error["stack"]):
            problems.append(f"stack {functions(error['stack'])}")
        if error["allocated"]["bytes"] != CL_PAIR:
            problems.append(f"allocated {error['allocated']}")
        if "release_again" in functions(error["freed"]["stack"]):
            problems.append("the first release has the second's stack")
    return problems


# ---- 5: byte for byte ----

def untouched(name, argv, prepare=None, status=0, env=None, preload=None):
    """A program without GPU calls: same output and status, no report, no file."""
    def check(place):
        command = argv() if callable(argv) else argv
        if not shutil.which(command[0]):
            raise Skip(f"no {command[0]}")
        others = [p() for p in preload or [] if p is not ours]
        bare = run(place, command, preload=others, env=env)
        traced = run(place, command, preload=[p() for p in preload or [ours]], env=env)
        problems = differences(bare, traced) + silent(traced)
        if bare.status != status:
            problems.append(f"without the preload: status {bare.status}, {bare.err[:300]!r}")
        if any(place.runtime.iterdir()):
            problems.append("something was made in XDG_RUNTIME_DIR")
        return problems
    cases.append(("programs", name, check))


untouched("a process starts without a use of its heap and without a stack of gpuleak's own",
          lambda: [program("routes-at-start")])

GIT = """
set -e
export GIT_AUTHOR_DATE=2001-01-01T00:00:00Z GIT_COMMITTER_DATE=2001-01-01T00:00:00Z
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_CONFIG_NOSYSTEM=1
git init -q -b main repo; cd repo
for i in 1 2 3; do echo $i >f$i; git add f$i; git commit -qm "c$i"; done
git log --stat; git diff HEAD~2; git gc -q; git fsck --strict; git archive HEAD | wc -c
git checkout -q HEAD~1; git status; git clone -q . ../copy; git -C ../copy log --oneline
git nosuch || echo "status $?"
"""
C = r"""
set -e
cat >a.c <<'X'
#include <stdio.h>
#include <stdlib.h>
int main(int c, char **v) { int unused; printf("%d %s\n", c, v[1]); return atoi(v[1]); }
X
gcc -Wall -O2 a.c -o a; ./a 0; ./a 3 || echo "status $?"
gcc -c nothere.c || echo "status $?"
"""
PIPES = r"""
seq 1 5000 | sort -rn | head -3 | tr '0-9' 'a-j'
false | true; echo "${PIPESTATUS[@]}"
yes | head -2 >/dev/null; echo "${PIPESTATUS[@]}"
(exit 9); echo $?; nosuchcommand; echo $?
(bash -c 'kill -SEGV $$'; echo $?) 2>/dev/null
trap 'echo trapped' EXIT; x=$(echo sub | cat); echo "$x"; exec 3>&1; echo three >&3
exit 5
"""
PYTHON_TEXT = """
import gc, multiprocessing, os, subprocess, sys, threading
def square(n):
    return n * n
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(square, range(5)))
    del pool
    gc.collect()  # else Python 3.14 names the semaphores that exec leaves behind, by random numbers
    print(subprocess.run(["sh", "-c", "echo out; echo err >&2; exit 4"], capture_output=True))
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    t = threading.Thread(target=lambda: print("thread"))
    t.start(); t.join()
    sys.stdout.flush()
    os.execvp("sh", ["sh", "-c", "echo exec; exit 6"])
"""


def python_file():
    path = pathlib.Path(options.scratch) / "processes.py"
    path.write_text(PYTHON_TEXT)
    return [PYTHON, str(path)]


untouched("/bin/true", ["/bin/true"])
untouched("/bin/false", ["/bin/false"], status=1)
untouched("death by signal", ["/bin/sh", "-c", "kill -TERM $$"], status=-15)
untouched("bash pipelines", ["bash", "-c", PIPES], status=5)
untouched("python3 with processes of every sort", python_file, status=6)
untouched("gcc, and what it made", ["bash", "-c", C])
untouched("git in a repository", ["bash", "-c", GIT])
untouched("a static binary", lambda: [program("routes-static-program")], status=3)
for allocator in ("jemalloc", "tcmalloc_minimal"):
    for order in ("first", "second"):
        other = lambda allocator=allocator: find_library(allocator)
        both = [ours, other] if order == "first" else [other, ours]
        untouched(f"bash under {allocator}, we are {order}", ["bash", "-c", PIPES], status=5,
                  preload=both)
        untouched(f"python3 under {allocator}, we are {order}", python_file, status=6,
                  preload=both)

        def with_allocator(place, other=other, order=order):
            more = [ours(), other()] if order == "first" else [other(), ours()]
            problems = []
            for built, how in ((LINKED, "linked"), ("routes-route", "cudart")):
                command = [program(built), how]
                bare = run(place, command, preload=[other()])
                traced = run(place, command, preload=more)
                problems += not_clean(bare) + differences(bare, traced) + judge_work(traced)
            command = [program("routes-threads")]
            bare, traced = run(place, command, preload=[other()]), run(place, command, preload=more)
            return problems + differences(bare, traced) + judge(
                traced.report, (1010, 1000 * PAIR + 10 * LEAK),
                [("cuMemAlloc_v2", "device", 10, 10 * LEAK, "leak_here")])
        cases.append(("programs", f"GPU calls under {allocator}, we are {order}", with_allocator))

ASAN = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}


@case("programs", "a program built with AddressSanitizer")
def with_asan(place):
    command = [program("routes-asan"), "linked"]
    bare = run(place, command, env=ASAN)
    traced = run(place, command, preload=[ours()], env=ASAN)
    return not_clean(bare) + differences(bare, traced) + judge_work(traced)


@case("programs", "AddressSanitizer still finds its own errors")
def asan_error(place):
    command = [program("routes-asan"), "plugin", "/nothing"]
    env = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=1"}
    bare, traced = run(place, command, env=env), run(place, command, preload=[ours()], env=env)
    return differences(bare, traced)


@case("programs", "a kernel by python3 with PyOpenCL")
def kernel(place):
    # Debian 13's PyOpenCL warns if a package is missing that its own one only recommends.
    command = [PYTHON, "-W", "ignore", str(pathlib.Path(__file__).resolve().parent / "kernel.py")]
    if subprocess.run([PYTHON, "-c", "import pyopencl; pyopencl.get_platforms()"], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        raise Skip("no PyOpenCL, or no platform")
    run(place, command)  # fills the caches
    bare, traced = run(place, command), run(place, command, preload=[ours()])
    return not_clean(bare) + differences(bare, traced) + judge(
        traced.report, (2, 8000), [])


@case("programs", "no file without XDG_RUNTIME_DIR either")
def no_file(place):
    place.clear()
    env = environment(place, {}, [ours()])
    del env["XDG_RUNTIME_DIR"]
    with subprocess.Popen(["/bin/true"], env=env) as child:
        # Until wait() the process is there, if only as a zombie. A file's name has its start
        # time: another test's killed process may have had the same number before.
        stat = pathlib.Path(f"/proc/{child.pid}/stat").read_text(encoding="ascii")
        started = stat.rsplit(")", 1)[1].split()[19]
        child.wait()
    # glob.glob() ignores a folder that another test removes meanwhile.
    left = [path for root in ("/dev/shm", "/tmp")
            for path in glob.glob(f"{root}/gpuleak-*/{child.pid}-{started}*")]
    return [f"left {left}"] if left else []


@case("programs", "a setuid program takes no notice")
def setuid(place):
    if os.geteuid():
        raise Impossible("needs root")
    root = pathlib.Path(tempfile.mkdtemp(prefix="routes"))
    try:
        if os.statvfs(root).f_flag & os.ST_NOSUID:
            raise Impossible("the file system knows no setuid")
        root.chmod(0o755)
        copy = root / "id"
        shutil.copy(shutil.which("id"), copy)
        copy.chmod(0o4755)
        problems = []
        for name in ("libgpuleak.so", ours()):
            place.clear()
            results = []
            for preload in ([], [name]):
                env = environment(place, {"GPULEAK_LEDGER": str(root / "ledger")}, preload)
                results.append(subprocess.run([str(copy), "-u"], env=env, user=65534, cwd="/",
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                              check=False))
            if results[0].stdout != b"0\n":
                raise Impossible("setuid has no effect here")
            if (results[0].stdout, results[0].returncode) != (results[1].stdout,
                                                              results[1].returncode):
                problems.append(f"{name}: {results[1]}")
            # ld.so may say of a plain name that it did not find it. Nobody else may speak.
            if results[1].stderr and not re.fullmatch(
                    rb"ERROR: ld.so: object '[^']*' from LD_PRELOAD cannot be preloaded "
                    rb"\([^)]*\): ignored\.\n", results[1].stderr):
                problems.append(f"{name}: stderr {results[1].stderr!r}")
            if (root / "ledger").exists():
                problems.append("a ledger was made")
        return problems
    finally:
        shutil.rmtree(root)


# ---- 7: remembered stacks ----

NAMED = re.compile(r"innermost|recurse|frame_(?!by)|chain_|top_|on_usr1")


def named(stack):
    return "<".join(name for name in functions(stack) if NAMED.match(name))


def chains(built, frame, least):
    """Each chain has exactly the blocks that it made."""
    def check(place):
        command = [program(built), frame, "8000" if frame == "all" else "3000"]
        bare, traced = run(place, command), run(place, command, preload=[ours()])
        problems = not_clean(bare) + differences(bare, traced)
        wanted, got = {}, {}
        for line in bare.out.decode().splitlines():
            size, blocks, names = line.split()
            wanted[names] = (int(blocks), int(blocks) * int(size))
        for leak in (traced.report or {}).get("leaks", []):
            names = named(leak["stack"])
            blocks, size = got.get(names, (0, 0))
            got[names] = (blocks + leak["blocks"], size + leak["bytes"])
        if sum(blocks for blocks, _ in wanted.values()) < least:
            problems.append("too few blocks")
        wrong = sorted(n for n in set(wanted) | set(got) if wanted.get(n) != got.get(n))
        if wrong:
            problems.append(f"{len(wrong)} of {len(wanted)} chains have other blocks than they "
                            f"made: {wrong[0]} has (blocks, bytes) {got.get(wrong[0])}, not "
                            f"{wanted.get(wrong[0])}")
        return problems
    return check


def chains_of_frees(built):
    """The three stacks of a double free are those of its own three calls."""
    def check(place):
        command = [program(built), "frees"]
        bare, traced = run(place, command), run(place, command, preload=[ours()])
        problems = not_clean(bare) + differences(bare, traced)
        wanted = dict(line.split(maxsplit=1) for line in bare.out.decode().splitlines())
        errors = (traced.report or {}).get("errors", [])
        if len(errors) != 1500 or len(wanted) != 1500:
            problems.append(f"{len(errors)} errors of {len(wanted)}")
        wrong = []
        for error in errors:
            got = " ".join(named(stack) for stack in (
                error["allocated"]["stack"], error["freed"]["stack"], error["stack"]))
            if wanted.get(error["address"]) != got:
                wrong.append(f"{got}, not {wanted.get(error['address'])}")
        return problems + ([f"{len(wrong)} of 1500 wrong: {wrong[0]}"] if wrong else [])
    return check


for build in ("O0", "O2", "fp"):
    for frame in ("frame_plain", "frame_alloca", "frame_levelled", "frame_vla", "frame_aligned",
                  "frame_rbx", "frame_longjmp", "frame_signal"):
        cases.append(("stacks", f"{frame}, {build}",
                      chains(f"routes-chains-{build}", frame, 14000)))
    cases.append(("stacks", f"all sorts of frames mixed, {build}",
                  chains(f"routes-chains-{build}", "all", 30000)))
    cases.append(("stacks", f"the three stacks of a double free, {build}",
                  chains_of_frees(f"routes-chains-{build}")))


cases_coverage.add(sys.modules[__name__])


# ---- TAP ----

def one(function):
    with tempfile.TemporaryDirectory(prefix="routes", ignore_cleanup_errors=True) as root:
        options.scratch = root
        try:
            return function(Place(root)), None
        except Skip as skip:
            return [], skip
        except subprocess.TimeoutExpired as late:
            return [f"did not end: {late}"], None
        except (KeyError, TypeError, ValueError, OSError, subprocess.SubprocessError) as error:
            return [f"{type(error).__name__}: {error}"], None


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("group")
    for name in ("preload", "command", "standin", "programs"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    must = os.environ.get("GPULEAK_MUST_RUN")
    chosen = [(name, f) for group, name, f in cases
              if group == options.group and options.only in name]
    print(f"1..{len(chosen)}")
    failed = skipped = 0
    for number, (name, function) in enumerate(chosen, 1):
        problems, skip = one(function)
        if skip and must and not isinstance(skip, Impossible):
            problems, skip = [f"must run, but: {skip}"], None
        print("not ok" if problems else "ok", number, "-", name, f"# SKIP {skip}" if skip else "")
        for problem in problems[:20]:
            print("#", problem)
        sys.stdout.flush()
        failed += bool(problems)
        skipped += bool(skip)
    if failed:
        return 1
    return 77 if skipped and skipped == len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
