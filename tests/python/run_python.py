#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python frames in stacks: every program of programs.py under every CPython that is found here.
A program notes what the interpreter itself says of each allocation's frames; the report must
have the same functions, files and lines, one allocation more or less is a failure.

run_python.py --preload LIB --command EXE --standin DIR --helper LIB [--only TEXT] [--python EXE]
              [--group core|rough|stress]

GPULEAK_PYTHONS: paths of more interpreters, separated by colons."""

import argparse
import collections
import glob
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

from harness import SLOWER, Failed, Tap  # noqa: E402

FIRST, LAST = (3, 8), (3, 15)
GROUPS = {
    "rough": ["native_signal", "daemon_threads", "native_at_end", "finalization", "sub_interpreters"],
    "stress": ["stress"],
}
INEXACT = {"daemon_threads", "native_signal"}  # what leaks is not the question


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("preload", "command", "standin", "helper"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--fake", help="the program that only pretends to be Python")
    parser.add_argument("--only", default="")
    parser.add_argument("--python")
    parser.add_argument("--group", choices=["core"] + sorted(GROUPS))
    options = parser.parse_args()
    for name in ("preload", "command", "standin", "helper", "fake"):
        if getattr(options, name) is None:
            continue
        setattr(options, name, os.path.realpath(getattr(options, name)))
    return options


def version_of(path):
    """(major, minor) of the CPython at PATH, or None: another one, or one that can't do it."""
    ask = ("import sys, ctypes, asyncio; "
           "print(sys.implementation.name, *sys.version_info[:3], sys.executable, "
           "getattr(sys, '_is_gil_enabled', lambda: True)())")
    try:
        told = subprocess.run([path, "-c", ask], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=60 * SLOWER,
                              check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(map(int, told[1:4])) if told[0] == b"cpython" and told[5] == b"True" else None


def interpreters():
    """One path for each build found: [(path, version)]."""
    names = ["python3"] + ["python3.%d" % minor for minor in range(8, 16)]
    paths = [os.path.join(folder, name) for name in names
             for folder in ["/usr/bin"] + os.environ.get("PATH", "").split(":")]
    paths += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
    paths += [path for path in os.environ.get("GPULEAK_PYTHONS", "").split(":") if path]
    found, seen = [], set()
    for path in paths:
        real = os.path.realpath(path)
        if not os.access(path, os.X_OK) or real in seen or "/shims/" in path:
            continue
        seen.add(real)
        version = version_of(path)
        if version:
            found.append((path, version))
    return found


class Place:
    def __init__(self, options):
        self.options = options
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.expected = self.root / "expected"
        self.expected.touch()

    def close(self):
        shutil.rmtree(self.root)

    def run(self, python, name, *arguments, env=None):
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": os.environ.get("HOME", "/"),
            "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": self.options.standin,
            "PYTHON_HELPER": self.options.helper, "PYTHON_EXPECTED": str(self.expected),
            "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.root), **(env or {}),
        }
        for kept in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "PYTHON_STRESS_S"):
            if kept in os.environ:
                environment[kept] = os.environ[kept]
        return subprocess.run(
            [self.options.command, "run", *arguments, "--", python, str(HERE / "programs.py"),
             name], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=300 * SLOWER)

    def report(self, python, name, env=None):
        path = self.root / "report.json"
        run = self.run(python, name, "--format", "json", "--report", str(path), env=env)
        if run.returncode != 0:
            raise Failed("status %d\n%s" % (run.returncode, run.stderr.decode()[-2000:]))
        return json.loads(path.read_text())

    def notes(self):
        """What the interpreter said: {stack: [bytes, blocks]}."""
        ret = collections.defaultdict(lambda: [0, 0])
        for line in self.expected.read_text().splitlines():
            size, blocks, stack = json.loads(line)
            add(ret, printable(stack), size * blocks, blocks)
        return ret


def printable(stack):
    """As the report has it: bytes that are no UTF-8 can't be in JSON."""
    return tuple((function, re.sub("[\udc80-\udcff]", "\ufffd", file), line)
                 for function, file, line in stack)


def add(sums, stack, size, blocks):
    sums[stack][0] += size
    sums[stack][1] += blocks


def processes(report):
    return report.get("processes", [report])


def python_frames(stack):
    return tuple((frame["function"], frame["file"], frame["line"]) for frame in stack
                 if frame.get("language") == "python")


def reported(report):
    ret = collections.defaultdict(lambda: [0, 0])
    for process in processes(report):
        for leak in process["leaks"]:
            add(ret, python_frames(leak["stack"]), leak["bytes"], leak["blocks"])
    return ret


def differences(said, told):
    lines = []
    for stack in sorted(set(said) | set(told), key=str):
        if said.get(stack) != told.get(stack):
            lines.append("%s in the report, %s expected:" % (told.get(stack), said.get(stack)))
            lines += ["    %s %s:%s" % frame for frame in stack]
    return lines


def check_weave(name, leak, version):
    """Where Python frames stand among the native ones."""
    stack = leak["stack"]
    python = [i for i, frame in enumerate(stack) if frame.get("language") == "python"]
    if not python:
        return
    loops = [frame for frame in stack if (frame["function"] or "").startswith("_PyEval_EvalFrameD")]
    if loops and len(stack) < 60 and name != "sub_interpreters":
        raise Failed("a frame of the evaluation loop is left: %s" % json.dumps(stack, indent=1))
    if name == "callbacks":
        functions = [frame["function"] for frame in stack]
        outer = [i for i in python if functions[i] == "callbacks"]
        inner = [i for i in python if functions[i] in ("callbacks.<locals>.order", "order",
                                                       "callbacks.<locals>.again", "again")]
        modules = [frame["module"] or "" for frame in stack[inner[-1]:outer[0]]]
        if not any("libffi" in module for module in modules):
            raise Failed("no native frames between callback and caller: %s" % functions)


def check_exact(options, python, version, name):
    place = Place(options)
    try:
        report = place.report(python, name)
        if name in INEXACT:
            if any(not process["summary"]["allocated_blocks"] for process in processes(report)):
                raise Failed("nothing was recorded")
            return
        said, told = place.notes(), reported(report)
        if said != told:
            raise Failed("\n".join(differences(said, told)[:60]))
        notes = [note for process in processes(report) for note in process.get("notes", [])]
        left = [note for note in notes if note.startswith("no Python lines")]
        if bool(left) != (name == "sub_interpreters" and version < (3, 12)):
            raise Failed("notes of the report: %s" % notes)
        if name != "freed" and not said:
            raise Failed("the program noted nothing")
        for process in processes(report):
            for leak in process["leaks"]:
                check_weave(name, leak, version)
    finally:
        place.close()


def line_of(text):
    """The number of the line of traced.py that begins with TEXT."""
    lines = (HERE / "traced.py").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.strip().startswith(text))


def check_text(options, python, _version, _name):
    """The headline and the frames of the text report."""
    place = Place(options)
    try:
        run = place.run(python, "classes", "--report", str(place.root / "report"))
        text = (place.root / "report").read_text()
        where = "%s:%d" % (HERE / "traced.py", line_of("note(size); result"))
        if run.returncode or not re.match(r"gpuleak: .* at \S*__init__ "
                                          r"\(\S*/programs\.py:\d+\) through alloc,\s", text):
            raise Failed("status %d, %s" % (run.returncode, text.split("\n")[0]))
        if not re.search(r"^    #\d+ alloc %s$" % re.escape(where), text, re.MULTILINE):
            raise Failed("no frame of Python: " + text)
    finally:
        place.close()


def check_suppressed(options, python, version, _name):
    """Suppressions see functions and files of Python."""
    place = Place(options)
    try:
        method = "Holder.of_class" if version >= (3, 11) else "of_class"
        (place.root / "one").write_text("leak:^%s$\n" % method)
        (place.root / "all").write_text("leak:*/traced.py$\n")
        for pattern, blocks in (("one", 1), ("all", 7)):
            report = place.report(python, "classes",
                                  {"GPULEAK_SUPPRESSIONS": str(place.root / pattern)})
            got = report["summary"]["suppressed_blocks"]
            if got != blocks + (pattern == "all"):
                raise Failed("%s: %d blocks suppressed" % (pattern, got))
    finally:
        place.close()


def check_no_stacks(options, python, _version, _name):
    """With GPULEAK_STACK_DEPTH=0 nothing is read; a small one cuts Python's frames too."""
    place = Place(options)
    try:
        report = place.report(python, "recursion", {"GPULEAK_STACK_DEPTH": "0"})
        if any(leak["stack"] for leak in report["leaks"]):
            raise Failed("stacks without being asked for")
        report = place.report(python, "recursion", {"GPULEAK_STACK_DEPTH": "5"})
        longest = max(len(python_frames(leak["stack"])) for leak in report["leaks"])
        if longest != 5:
            raise Failed("%d frames of Python, 5 were asked for" % longest)
    finally:
        place.close()


PRETEND = [("pretend", "fake.py", 7)]
# (minor versions, shape, frames of Python in the report, part of a note)
FAKES = [
    (range(8, 13), "good", PRETEND, None),
    (range(8, 13), "no-thread", [], None),
    (range(8, 13), "garbage", [], None),
    (range(8, 13), "odd", [], "built in an unusual way"),
    (range(8, 13), "unaligned", [], "built in an unusual way"),
    (range(8, 13), "cycle", PRETEND * 64, None),
    (range(11, 13), "shims", [], None),
    (range(8, 13), "no-names", [(None, None, 0)], None),
    (range(8, 13), "long-name", ..., None),
    (range(8, 13), "no-lines", [("pretend", "fake.py", 0)], None),
    (range(8, 13), "huge-lines", [("pretend", "fake.py", 0)], None),
    (range(8, 13), "ending", PRETEND, None),  # by the thread that ends it
    ((13, 14, 15), "good", [], "lacks the table"),
    ((13, 14, 15), "cookie", [], "has another version"),
    ((13, 14, 15), "free-threaded", [], "gpuleak does not support free-threaded builds"),
    ((5, 7, 16, 99), "good", [], "this version of Python is newer or older than"),
    # Newer than all that are known, with a table: used if the thread's frames agree with it.
    ((16, 99), "newer", [("pretend", "fake.py", 8)], None),
    ((16,), "newer-later", [], None),
    *(((16,), "newer-" + what, [], "this version of Python is newer or older than")
      for what in ("instruction", "lines", "name", "unmapped", "shifted")),
]


def check_fake(options, minor, shape, frames, note):
    place = Place(options)
    try:
        path = place.root / "report.json"
        run = subprocess.run(
            [options.command, "run", "--format", "json", "--report", str(path), "--", options.fake,
             "3.%d.0 (fake)" % minor, shape], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "LD_LIBRARY_PATH": options.standin}, timeout=60 * SLOWER)
        if run.returncode:
            raise Failed("status %d: %s" % (run.returncode, run.stdout.decode()))
        report = json.loads(path.read_text())
        stacks = [python_frames(leak["stack"]) for leak in report["leaks"]]
        if report["summary"]["leaked_blocks"] != 3:
            raise Failed("%d blocks" % report["summary"]["leaked_blocks"])
        # Where a build turns out to differ, no stack has frames.
        if frames is not ... and (not stacks or any(list(stack) != frames for stack in stacks)):
            raise Failed("frames %s, not %s" % (stacks, frames))
        notes = [text for text in report["notes"] if "no Python lines" in text]
        if len(notes) != (note is not None) or (note and note not in notes[0]):
            raise Failed("notes %s" % report["notes"])
    finally:
        place.close()


def fakes(tap, options):
    for minors, shape, frames, note in FAKES:
        for minor in minors:
            name = "fake 3.%d %s" % (minor, shape)
            if options.only in name:
                tap.step(name, check_fake, options, minor, shape, frames, note)


def main():
    options = parse()
    tap = Tap()
    if options.fake and options.group in (None, "rough"):
        fakes(tap, options)
    sys.path.insert(0, str(HERE))
    listed = re.findall(r"^@program\ndef (\w+)", (HERE / "programs.py").read_text(), re.MULTILINE)
    special = {name for names in GROUPS.values() for name in names}
    core = [name for name in listed if name not in special]
    names = {"core": core, **GROUPS}[options.group] if options.group else listed
    checks = [(name, check_exact) for name in names]
    if options.group in (None, "core"):
        checks += [("text", check_text), ("suppressed", check_suppressed),
                   ("no stacks", check_no_stacks)]
    found = [(options.python, version_of(options.python))] if options.python else interpreters()
    for path, version in found:
        if not FIRST <= version[:2] <= LAST:
            continue
        for name, check in checks:
            full = "%s %s" % (".".join(map(str, version)), name)
            if options.only in full:
                tap.step("%s (%s)" % (full, path), check, options, path, version, name)
    if not found:
        if os.environ.get("GPULEAK_MUST_RUN"):
            tap.line("interpreters", "no CPython from 3.8 to 3.15 was found")
        else:
            tap.line("interpreters", skip="no CPython from 3.8 to 3.15 was found")
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


sys.exit(main())
