#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the size of the source with the ceilings of docs/developers/size.md.

    size.py ROOT          TAP, one line a rule
    size.py ROOT table    the tables of the page with today's numbers and the page's limits

Lines are those of the files that git tracks and whose name matches COUNTED. Comments, functions and
their lines are those of C and assembly."""
import collections
import pathlib
import re
import statistics
import subprocess
import sys

from text_layout import checkout, functions, tracked

PAGE = "docs/developers/size.md"
COUNTED = re.compile(r"\.([chS]|def|inc|py|js|css|rules)$")
IN_C = re.compile(r"\.([chS]|def|inc)$")
SIX = ["report", "interpose", "ledger", "tools", "python", "include"]
FOLDERS = SIX + ["standin"]
TOGETHER = "the six together"
ROW = re.compile(r"^\| `?([^|`]+?)/?`? \|(.*)\|$", re.M)
PIECE = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/|\n|'
                   r'[^\s"\'/][^\n"\'/]*|\S', re.S)


def number(cell):
    digits = cell.replace(",", "").strip()
    return float(digits) if re.fullmatch(r"[\d.]+", digits) else None


def tables(page):
    """Returns {folder: [cells]} of the table of lines and of the table of functions."""
    parts = page.split("\n## ")
    found = [{}, {}]
    for part in parts:
        if part.startswith(("Lines\n", "Functions and comments\n")):
            found[part.startswith("F")] = {
                name: [number(cell) for cell in cells.split("|")]
                for name, cells in ROW.findall(part) if number(cells.split("|")[0]) is not None}
    return found


def ceilings(page):
    return {name: cells[1] for name, cells in tables(page)[0].items()}


def count_comments(text):
    """Returns the number of lines with code, and that of lines with a comment."""
    code, comments, line = set(), set(), 1
    for piece in PIECE.findall(text):
        last = line + piece.count("\n")
        if piece.startswith(("//", "/*")):
            if "SPDX-License" not in piece:
                comments.update(range(line, last + 1))
        elif piece != "\n":
            code.update(range(line, last + 1))
        line = last
    return len(code), len(comments)


class Size:
    """The size of one file, or of all files of a folder and of the folders below it."""

    def __init__(self, name="", text=""):
        self.lines = text.count("\n")
        self.code = self.comments = 0
        self.functions = []
        if IN_C.search(name):
            self.code, self.comments = count_comments(text)
            self.functions = [count for _, count in functions(text.split("\n"))]

    def add(self, other):
        self.lines += other.lines
        self.code += other.code
        self.comments += other.comments
        self.functions += other.functions

    def shape(self):
        """Returns longest function, median function, and comment lines per 100 lines of code."""
        return (max(self.functions, default=0), statistics.median(self.functions or [0]),
                100 * self.comments / max(self.code, 1))


def measure(root):
    sizes = collections.defaultdict(Size)
    for name in tracked(root):
        parts = name.split("/")
        if parts[0] not in FOLDERS or not COUNTED.search(name):
            continue
        size = Size(name, (root / name).read_text(encoding="utf-8"))
        for depth in range(1, len(parts)):
            sizes["/".join(parts[:depth])].add(size)
        if parts[0] in SIX:
            sizes[TOGETHER].add(size)
    return sizes


def too_large(sizes, page):
    for name, ceiling in ceilings(page).items():
        lines = sizes[name].lines
        if lines > ceiling:
            yield ("%s has %s lines, %s above its ceiling of %s: remove lines, or raise the ceiling in %s "
                   "in a commit that touches nothing else and says why"
                   % (name, *(format(int(n), ",") for n in (lines, lines - ceiling, ceiling)), PAGE))


def without_row(sizes, page):
    """Yields what is wrong with the rows. Folders below report/ and interpose/ have one, too."""
    rows = ceilings(page)
    for name in sorted(sizes):
        if (name in FOLDERS or name.startswith(("report/", "interpose/"))) and name not in rows:
            yield "%s/ has no ceiling: give it a row in %s" % (name, PAGE)
    for name in rows:
        if not sizes[name].lines:
            yield "%s/ is not there: remove its row from %s" % (name, PAGE)


def worse(sizes, page):
    for name, limits in tables(page)[1].items():
        longest, median, comments = sizes[name].shape()
        for what, now, limit in (("lines in its longest function", longest, limits[0]),
                                 ("lines in its median function", median, limits[1])):
            if now > limit:
                yield "%s/ has %g %s; %s allows %g: split functions" % (name, now, what, PAGE, limit)
        if round(comments, 1) < limits[2]:
            yield ("%s/ has %.1f comment lines per 100 lines of code; %s wants %g: say why the code is "
                   "as it is" % (name, comments, PAGE, limits[2]))


def git(root, *words):
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), *words],
                          capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def far_from_goals(sizes, page):
    for name, (_, ceiling, goal) in tables(page)[0].items():
        if goal and sizes[name].lines > goal:
            yield "%s: %s lines, ceiling %s, goal %s" % (
                name, *(format(int(n), ",") for n in (sizes[name].lines, ceiling, goal)))


def rises(old, new):
    """Yields what rises between two pages. Lines may move between folders below one folder."""
    (before, limits_before), (after, limits_after) = (
        ({name: cells[1] for name, cells in lines.items()}, shapes)
        for lines, shapes in (tables(old), tables(new)))
    above = {name.rpartition("/")[0] for name in after} - {""}
    groups = [[name] for name in after if "/" not in name]
    groups += [[name for name in set(before) | set(after) if name.rpartition("/")[0] == folder]
               for folder in above]
    for names in groups:
        sums = [sum(page.get(name, 0) for name in names) for page in (before, after)]
        if sums[1] > sums[0] and any(name in before for name in names):
            yield names[0].rpartition("/")[0] + "/..." if "/" in names[0] else names[0]
    for name, (longest, median, comments) in limits_after.items():
        if name in limits_before and (longest > limits_before[name][0] or
                                      median > limits_before[name][1] or
                                      comments < limits_before[name][2]):
            yield "the limits of functions and comments of " + name


def hidden_rises(root):
    """Names each commit that raises a ceiling and changes another file, or gives no reason."""
    for commit in git(root, "log", "--format=%H", "--no-merges", "--", PAGE).split():
        old, new = (git(root, "show", "%s:%s" % (at, PAGE)) for at in (commit + "^", commit))
        risen = list(rises(old, new)) if old and new else []
        if not risen:
            continue
        short = git(root, "log", "-1", "--format=%h %s", commit).strip()
        files = git(root, "diff-tree", "--no-commit-id", "--name-only", "-r", commit).split()
        if files != [PAGE]:
            yield "%s raises %s and touches other files: make it a commit of its own" % (
                short, ", ".join(risen))
        if not git(root, "log", "-1", "--format=%b", commit).strip():
            yield "%s raises %s and gives no reason" % (short, ", ".join(risen))


def print_table(sizes, page):
    lines, shapes = tables(page)
    for name, cells in lines.items():
        goal = " goal %s" % format(int(cells[2]), ",") if cells[2:] and cells[2] else ""
        print("| %s | %s | %s |%s |" % (name if name == TOGETHER else "`%s/`" % name,
                                        format(sizes[name].lines, ","), format(int(cells[1]), ","), goal))
    for name in shapes:
        print("| `%s/` | %d | %g | %.1f |" % (name, *sizes[name].shape()))


def main():
    root = checkout()
    page = (root / PAGE).read_text(encoding="utf-8")
    sizes = measure(root)
    if sys.argv[2:] == ["table"]:
        print_table(sizes, page)
        return 0
    checks = [("no folder has more lines than its ceiling", list(too_large(sizes, page))),
              ("every folder has a ceiling", list(without_row(sizes, page))),
              ("functions do not become longer, nor comments fewer", list(worse(sizes, page))),
              ("a ceiling rises only in a commit of its own", list(hidden_rises(root)))]
    print("1..%d" % len(checks))
    for at, (name, problems) in enumerate(checks, 1):
        print("%sok %d - %s" % ("not " if problems else "", at, name))
        for problem in problems:
            print("# " + problem)
    for line in far_from_goals(sizes, page):
        print("# " + line)
    return any(problems for _, problems in checks)


sys.exit(main())
