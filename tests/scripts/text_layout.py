#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the layout of every file that git tracks: text_layout.py ROOT. TAP, one line a rule.

The rules are those of .editorconfig and CONTRIBUTING.md that hold in the whole tree."""
import os
import pathlib
import re
import subprocess
import sys

COLUMNS = 100
FUNCTION_LINES = 70
BYTES_MATTER = re.compile(r"tests/fuzz/corpus-|tests/corpora/.*\.tsv$")


def tracked(root):
    git = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z"]
    names = subprocess.run(git, capture_output=True, check=True).stdout.decode().split("\0")
    return [name for name in names if name and (root / name).is_file()]


def is_text(name, data):
    return not BYTES_MATTER.match(name) and b"\0" not in data


def wrong_lines(lines, is_wrong):
    return [number for number, line in enumerate(lines, 1) if is_wrong(line)]


def functions(lines):
    """Yields (first line, number of lines) of each function's body, braces included."""
    begin = 0
    for number, line in enumerate(lines, 1):
        if line == "{":
            begin = number
        elif line == "}" and begin:
            yield begin, number - begin + 1
            begin = 0


def breaches(name, data):
    """Yields (rule, line) for each line of the file NAME that breaks a rule."""
    lines = data.decode("utf-8").split("\n")
    if data and lines.pop() != "":
        yield "a file ends with a newline", len(lines) + 1
    for number in wrong_lines(lines, re.compile(r"<{7} |>{7} ").match):
        yield "no line is left of a merge conflict", number
    for number in wrong_lines(lines, lambda line: line != line.rstrip()):
        yield "no line ends with blanks or a carriage return", number
    if name.endswith((".c", ".h", ".S")):
        for number in wrong_lines(lines, lambda line: len(line.expandtabs(8)) > COLUMNS):
            yield "C and assembly lines have at most %d columns" % COLUMNS, number
        for number in wrong_lines(lines, re.compile(r"\t* {8,}[^ \\]").match):
            yield "C and assembly are indented with tabs", number
    if name.endswith((".c", ".cpp")):
        for number, count in functions(lines):
            if count > FUNCTION_LINES:
                yield "functions have at most %d lines" % FUNCTION_LINES, number


RULES = ["files are UTF-8", "a file ends with a newline",
         "no line ends with blanks or a carriage return",
         "no line is left of a merge conflict",
         "C and assembly lines have at most %d columns" % COLUMNS,
         "C and assembly are indented with tabs",
         "functions have at most %d lines" % FUNCTION_LINES]


def checkout():
    """The root of the checkout that the first argument names. Ends the test if git does not know it."""
    root = pathlib.Path(sys.argv[1])
    if not (root / ".git").exists():
        if os.environ.get("GPULEAK_MUST_RUN"):
            sys.exit("Bail out! not a git checkout")
        print("1..0 # SKIP not a git checkout")
        sys.exit(0)
    return root


def main():
    root = checkout()
    found = {rule: [] for rule in RULES}
    for name in tracked(root):
        data = (root / name).read_bytes()
        if not is_text(name, data):
            continue
        try:
            for rule, line in breaches(name, data):
                found[rule].append("%s:%d" % (name, line))
        except UnicodeDecodeError as error:
            found["files are UTF-8"].append("%s: byte %d" % (name, error.start))
    for number, rule in enumerate(RULES, 1):
        print("%sok %d - %s" % ("not " if found[rule] else "", number, rule))
        for place in found[rule]:
            print("# " + place)
    print("1..%d" % len(RULES))
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
