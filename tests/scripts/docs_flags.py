#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that what the documentation names exists: docs_flags.py SOURCE GPULEAK. TAP.

- Each GPULEAK_ variable of a page is an option, or one of the few others in OTHERS.
- Each flag behind `gpuleak COMMAND` is one of that command.
- Each flag in the column "gpuleak" of docs/guides/coming-from.md is a flag of some command.
- Each function of the C header that coming-from.md names is in the header."""
import pathlib
import re
import subprocess
import sys

# Variables that are not options: of the command, of tests and scripts, of the headers.
OTHERS = {"LIBRARY", "ROSTER", "BYPASS", "MUST_RUN", "WHEEL"}
COMMANDS = ("run", "attach", "report", "check", "diff", "top", "doctor")


def flags_of(gpuleak, command):
    text = subprocess.run([gpuleak, command, "--help-all"], check=True, capture_output=True,
                          text=True).stdout
    return set(re.findall(r"^  (?:-\w, )?(--?[\w-]+)", text, flags=re.M)) | {
        "--help", "--help-all", "-h", "--"} | ({"-v"} if "-v, " in text else set())


def pages(source):
    return [source / "README.md", *sorted((source / "docs").rglob("*.md"))]


def unknown_variables(source):
    table = (source / "ledger/options.def").read_text(encoding="utf-8")
    known = set(re.findall(r"^OPTION\( (\w+),", table, flags=re.M)) | OTHERS
    if len(known) < 30:
        yield "the table of options was not understood"
    for page in pages(source):
        for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
            for name in re.findall(r"\bGPULEAK_([A-Z][A-Z_]*[A-Z])\b(?!\()", line):
                if name not in known and "developers" not in page.parts:
                    yield "%s:%d: there is no option GPULEAK_%s" % (page.relative_to(source), number, name)


def unknown_flags(source, flags):
    count = 0
    for page in pages(source):
        if "developers" in page.parts:
            continue  # they also have flags that only the library passes to the command
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"\bgpuleak (%s)\b((?: [^\s`|&;#]+)*)" % "|".join(COMMANDS), text):
            for word in match[2].split():
                if word == "--" or match[1] == "run" and word[0] != "-" and "/" in word:
                    break  # the program, with flags of its own
                flag = re.match(r"--?[a-z][\w-]*", word)
                count += bool(flag)
                if flag and flag[0] not in flags[match[1]]:
                    yield "%s:%d: gpuleak %s has no flag %s" % (
                        page.relative_to(source), text[:match.start()].count("\n") + 1, match[1], flag[0])
    if count < 50:
        yield "only %d flags were found: the pages were not understood" % count


def unknown_in_table(source, flags):
    every = set().union(*flags.values()) | {"--gpuleak"}  # of the pytest plugin
    header = (source / "include/gpuleak.h").read_text(encoding="utf-8")
    rows = 0
    for line in (source / "docs/guides/coming-from.md").read_text(encoding="utf-8").split("\n"):
        if not line.startswith("| "):
            continue
        ours = line.split("|")[2]
        rows += 1
        for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", ours):
            if flag not in every:
                yield "coming-from.md: no command has the flag " + flag
        for name in re.findall(r"\b(gpuleak_\w+)\(\)", ours):
            if name + "(" not in header:
                yield "coming-from.md: gpuleak.h has no " + name
    if rows < 50:
        yield "coming-from.md has only %d rows" % rows


def main():
    source, gpuleak = pathlib.Path(sys.argv[1]), sys.argv[2]
    flags = {command: flags_of(gpuleak, command) for command in COMMANDS}
    checks = [("the variables exist", list(unknown_variables(source))),
              ("the flags of commands exist", list(unknown_flags(source, flags))),
              ("the flags and functions beside those of other tools exist",
               list(unknown_in_table(source, flags)))]
    print("1..%d" % len(checks))
    for number, (name, problems) in enumerate(checks, 1):
        print("%sok %d - %s" % ("not " if problems else "", number, name))
        for problem in problems:
            print("# " + problem)
    return any(problems for _, problems in checks)


sys.exit(main())
