# SPDX-License-Identifier: MIT
"""Names of functions whose code has no file when the report is made."""

import glob
import os
import re
import shutil
import subprocess

from harness import HERE, Missing, compare


def frames(place, *argv):
    """Returns what the only leak's stack has up to main, (function, line) each, and the report."""
    path = place.file("report.json")
    run = place.command("run", "--format", "json", "--report", path, "--", *argv)
    compare("run", (0, "worked\n"), (run.status, run.stdout))
    report = place.json("report.json")
    compare("leaks", 1, len(report["leaks"]))
    stack = [(frame["function"], frame["line"]) for frame in report["leaks"][0]["stack"]]
    names = [function for function, _ in stack]
    return stack[:names.index("main")], report


def unpacked(place):
    """libraries that are unpacked for one run: their names are in the ledger"""
    plugin = place.module("unpacked_plugin")
    for mode in ("after", "memfd"):
        stack, report = frames(place, place.program("unpacked"), plugin, mode)
        compare(mode, [("keep", 0), ("work", 0)], stack)
    # Only the loader's own table is left of a library that is removed before.
    stack, report = frames(place, place.program("unpacked"), plugin, "before")
    compare("before", [(None, 0), ("work", 0)], stack)
    compare("notes", [True], [note.endswith("(No such file or directory): its lines are missing")
                              for note in report["notes"]])


def unpacked_twice(place):
    """a library that is unpacked twice is one library: equal calls are one leak"""
    stack, report = frames(place, place.program("unpacked"), place.module("unpacked_plugin"), "twice")
    compare("stack", [("keep", 0), ("work", 0)], stack)
    compare("blocks", 2, report["leaks"][0]["blocks"])


def jitted(place):
    """code that was compiled at run time: its name is in the map that its runtime wrote"""
    program = place.program("jitted")
    stack, report = frames(place, program, "none")
    compare("none", [("leak", True), (None, False)], [(name, bool(line)) for name, line in stack])
    compare("notes", [], report["notes"])
    compare("no language is known", False, "partial" in report["leaks"][0])
    shutil.copy(program, place.file("node"))
    stack, report = frames(place, place.file("node"), "none")
    compare("notes of node", ["functions that were interpreted or compiled at run time are missing "
                              "or have no names: use node --perf-basic-prof --interpreted-frames-native-stack"],
            report["notes"])
    leak = report["leaks"][0]
    compare("partial", (True, True), (leak["partial"], leak["fingerprint"].endswith("-partial")))
    try:
        for mode, step, place_of, notes in (
                ("map", "step", ("/app/a.js", 30), []),
                ("reused", "step", ("/app/a.js", 30), [
                    "code that was compiled at run time: step may be another function: the "
                    "code of before was at the same address earlier"]),
                ("old", None, (None, 0), [])):
            stack, report = frames(place, program, mode)
            compare(mode, [("leak", True), (step, bool(step))],
                    [(name, bool(line)) for name, line in stack])
            compare("line", place_of, [
                (frame["file"], frame["line"]) for frame in report["leaks"][0]["stack"]][1])
            compare("notes", notes, report["notes"])
            os.unlink("/tmp/perf-%d.map" % report["process"]["pid"])
    finally:
        for path in glob.glob("/tmp/perf-%d.map" % report["process"]["pid"]):
            os.unlink(path)


def headline(place, *argv, env=None, stdout="worked\n"):
    """Returns the place of the only leak as the first lines name it, with markers for lines."""
    run = place.command("run", "--verbose", "1", "--", *argv, env=env)
    compare("run", (0, stdout), (run.status, run.stdout))
    place_of = re.search(" allocated at (.*)", run.stderr.split("\n", 1)[0]).group(1)
    return re.sub(r"\(\S*/(\w+\.c):(\d+)\)", lambda found: "@" + next(
        marker for number, marker in markers(found.group(1)) if number == int(found.group(2))), place_of)


def markers(source):
    with open(os.path.join(HERE, source), encoding="utf-8") as file:
        return [(number, found.group(1)) for number, line in enumerate(file, 1)
                if (found := re.search(r"@(\w+)", line))]


def shared(place):
    """functions that allocated for somebody who freed: the first line names the caller that did not"""
    program = place.program("shared")
    compare("alone", "allocate @allocate, called from from_pool @from_pool", headline(place, program))
    compare("shared", "lose @lose through from_pool, called from main @lose_main",
            headline(place, program, "balance"))


def library(place):
    """a function in a library: the first line names the library and who called it"""
    compare("place", "work @leak in bypassed_plugin.so, for main @work",
            headline(place, place.program("bypassed"), place.module("bypassed_plugin"), "plain"))
    compare("its caller in the library", "work @lose through take in bypassed_plugin.so, for main @work",
            headline(place, place.program("bypassed"), place.module("bypassed_plugin"), "plain",
                     env={"PLUGIN_TAKES": "1"}))


def threads(place):
    """a block per thread: the first line states that, and not of blocks of one thread"""
    compare("each", "storm @storm_lost, one per thread",
            headline(place, place.program("threads"), "storm", stdout="done\n"))
    compare("one", "allocate @allocate, called from main @many",
            headline(place, place.program("grouping"), "many", stdout=""))


def no_lines(place):
    """a program without line tables: the first line has no address, and states what to do"""
    if not shutil.which("objcopy"):
        raise Missing("objcopy is not installed")
    bare = place.file("bare")
    subprocess.run(["objcopy", "--strip-debug", place.program("shared"), bare], check=True)
    compare("place", "allocate (%s: compile with -g for its line), called from from_pool (%s)"
            % (bare, bare), headline(place, bare))


NAMES = [unpacked, unpacked_twice, jitted, shared, library, no_lines, threads]
