# SPDX-License-Identifier: MIT
"""The command line itself: what it answers to mistyped words and values, where a report goes and
what is said of it, and programs that can't be recorded."""

import os
import re

from harness import Failed, HERE, compare
from stories import gate, one_line

# Public names: docs/gate.md.
KINDS = ("device", "managed", "pinned", "registered", "stream-ordered", "mempool", "array", "vmm-handle",
         "vmm-reservation", "vmm-mapping", "ipc", "external", "graph", "cl-buffer", "cl-sub-buffer",
         "cl-image", "cl-pipe", "cl-svm", "cl-usm")
SOURCES = os.path.dirname(os.path.dirname(HERE))


# ---- words and values ----

def switches(place):
    """a switch takes 0 or 1 as its value, and not the program behind it"""
    for words, wanted in ((["--verbose"], True), (["--verbose", "1"], True), (["--verbose=1"], True),
                          (["--verbose", "0"], False), ([], False), (["-v"], True)):
        run = place.command("run", *words, place.program("clean"))
        compare("%s: status and stdout" % words, (0, "clean\n"), (run.status, run.stdout))
        compare("%s: how the process reached the drivers" % words, wanted, "p_clean" in
                "".join(run.stderr.splitlines(True)[1:]))
    run = place.command("run", "--gate-caches", "--lsan-suppressions", "--gate", place.program("clean"))
    compare("several: status and stdout", (0, "clean\n"), (run.status, run.stdout))
    run = place.command("run", "--verbose=2", place.program("clean"))
    compare("neither 0 nor 1", (125, "gpuleak: run: bad value '2' of --verbose: expected is 0 or 1\n"),
            (run.status, run.stderr))


def durations(place):
    """durations may have a decimal point"""
    for text, status in (("0.5s", 0), ("1.5m", 0), ("100.9ms", 0), ("0.1", 0), ("0.25h", 0), ("0.0", 0),
                         ("0.05s", 125), ("0.0001s", 125), ("0.5ms", 125), (".5s", 125), ("1.s", 125),
                         ("1.5.5s", 125), ("1.5x", 125), ("0.5 s", 125)):
        run = place.command("run", "--every", text, "--", place.program("no_gpu"))
        compare("status for " + text, status, run.status)
    run = place.command("run", "--every", "0.0999s", "--", place.program("no_gpu"))
    compare("99 ms", True, run.stderr.startswith(
        "gpuleak: run: bad value '0.0999s' of --every: expected is a duration from 100ms on"))
    for text, wanted in (("0.2s", "no leaks"), ("0.0001s", "gpuleak: bad value '0.0001s' of "
                         "GPULEAK_STEP_EVERY: expected is a duration")):
        run = place.preloaded([place.program("clean")], {"GPULEAK_STEP_EVERY": text})
        compare("%s in the library" % text, (0, True), (run.status, wanted in run.stderr))


def suggestions(place):
    """a mistyped command or option: the one that is probably meant; none for a far-off word"""
    for words, status, said in (
            (["reprot"], 2, "unknown command 'reprot' (did you mean report?); `gpuleak --help` lists them"),
            (["help", "chekc"], 2, "unknown command 'chekc' (did you mean check?); `gpuleak --help` lists "
             "them"),
            (["server"], 2, "unknown command 'server'; `gpuleak --help` lists them"),
            (["run", "--supressions", "x"], 125, "run: unknown flag '--supressions' (did you mean "
             "--suppressions?); `gpuleak run --help` lists them"),
            (["run", "--fromat=json"], 125, "run: unknown flag '--fromat=json' (did you mean --format?); "
             "`gpuleak run --help` lists them"),
            (["run", "--gat"], 125, "run: unknown flag '--gat' (did you mean --gate?); `gpuleak run --help` "
             "lists them"),
            (["diff", "--pool", "fast"], 2, "diff: unknown flag '--pool'; `gpuleak diff --help` lists them"),
            (["top", "--intervall", "1"], 2, "top: unknown flag '--intervall' (did you mean --interval?); "
             "`gpuleak top --help` lists them"),
            (["top", "--colour"], 2, "top: unknown flag '--colour'; `gpuleak top --help` lists them"),
            (["run", "--" + "x" * 4000], 125, "run: unknown flag '--%s'; `gpuleak run --help` lists them" % (
                "x" * 4000))):
        run = place.command(*words)
        compare("%s" % words, (status, "", "gpuleak: %s\n" % said), (run.status, run.stdout, run.stderr))


def quoted(place):
    """a bad value is quoted, by the command and by the library"""
    line = ("gpuleak: bad value 'jsn' of GPULEAK_FORMAT: expected is text or json or html or junit or sarif "
            "or github or folded or pprof or openmetrics; the default is used: text")
    run = place.preloaded([place.program("clean")], {"GPULEAK_FORMAT": "jsn"})
    compare("the library", line, run.stderr.split("\n")[0])
    run = place.command("run", "--", place.program("clean"), env={"GPULEAK_FORMAT": "jsn"})
    compare("the command", line, run.stderr.split("\n")[0])
    run = place.preloaded([place.program("clean")], {"GPULEAK_FORMAT": "j" * 5000})
    compare("one that fills the line", line.replace("jsn", "(too long)"), run.stderr.split("\n")[0])


def formats_of_diff(place):
    """diff --help offers the formats that diff accepts, and no other"""
    text = place.command("diff", "--help").stdout
    offered = re.search(r"--format FORMAT +(.*)\n", text)
    compare("offered", "text or json", offered and offered[1])
    for word in ("html", "junit", "sarif", "github", "folded", "pprof", "openmetrics", "jsn"):
        compare("%s in the help" % word, None, re.search(r"\b%s\b" % word, text))
        run = place.command("diff", "--format", word, "a", "b")
        compare(word, (2, "gpuleak: diff: bad value '%s' of --format: expected is text or json\n" % word),
                (run.status, run.stderr))


def kinds(place):
    """budgets and policies: every kind of memory is accepted, and a name that is no kind is refused"""
    for flag, end in (("budgets", " 1GiB\n"), ("only-at", "\n")):
        place.write("file", "".join("kind:%s%s" % (kind, end) for kind in KINDS))
        run = place.command("run", "--" + flag, place.file("file"), "--", place.program("clean"))
        compare("every kind in " + flag, (0, "clean\n"), (run.status, run.stdout))
        for kind in ("foo", "pined", "dev*", "object/cl-event", "Device"):
            place.write("file", "\nkind:%s%s" % (kind, end))
            run = gate(place, "ends", "--" + flag, place.file("file"))
            compare("%s in %s" % (kind, flag), (125, "", "gpuleak: %s:2: '%s' is no kind of memory; known are "
                    "%s\n" % (place.file("file"), kind, ", ".join(KINDS))),
                    (run.status, run.stdout, run.stderr))


def kinds_of_rows(place):
    """every kind that a row of the library gives to a block is known to budgets"""
    del place
    api = os.path.join(SOURCES, "interpose", "api")
    found = set()
    for name in sorted(os.listdir(api)):
        if name.endswith(".def"):
            with open(os.path.join(api, name), encoding="utf-8") as file:
                found |= set(re.findall(r', "([a-z][a-z-]*)", ', file.read()))
    compare("kinds of rows that no budget knows", set(), found - set(KINDS))
    if len(found) < 15:
        raise Failed("the rows were not understood: %s" % found)


def budgets_in_docs(place):
    """docs/gate.md has every kind, subject and option of a budget in one section"""
    del place
    with open(os.path.join(SOURCES, "docs", "gate.md"), encoding="utf-8") as file:
        sections = re.split(r"^## ", file.read(), flags=re.M)
    section = next(text for text in sections if text.startswith("Budgets"))
    missing = [word for word in [*KINDS, "--max-leaked-bytes", "--budgets", "--max-growth", "--gate-caches"]
               if "`" + word not in section]
    missing += [word for word in ("kind:", "device:", "api:", "site:", "cache:", "peak ", " blocks")
                if word not in section]
    compare("missing", [], missing)


WORDS = [switches, durations, suggestions, quoted, formats_of_diff, kinds, kinds_of_rows, budgets_in_docs]
