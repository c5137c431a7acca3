#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the part of NEWS on one version as Markdown: notes.py VERSION <NEWS.

NEWS is plain text: "gpuleak VERSION (DATE)" begins a part, and a line directly before a list is a
heading. No word of it may become markup or mention an account."""

import re
import sys

FIRST = re.compile(r"gpuleak (\d+\.\d+\.\d+) \((.*)\)$")
MARKUP = re.compile(r"([\\*_<>\[\]#|~&])")


def part_of(lines, version):
    """Returns the lines below the first line of VERSION."""
    part, inside = [], False
    for line in lines:
        first = FIRST.match(line)
        if first:
            inside = first[1] == version
        elif inside:
            part.append(line)
    while part and not part[0]:
        part.pop(0)
    while part and not part[-1]:
        part.pop()
    return part


def plain(text):
    """Returns TEXT without markup; what is between backticks stays code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        pieces = ["\\`".join(pieces)]
    escape = lambda piece: MARKUP.sub(r"\\\1", piece).replace("@", "&#64;")  # noqa: E731
    return "`".join(piece if number % 2 else escape(piece) for number, piece in enumerate(pieces))


def markdown(lines):
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("    "):
            yield line
        elif line.startswith("- "):
            yield "- " + plain(line[2:])
        elif line and not line.startswith(" ") and following.startswith("- "):
            yield "### " + plain(line) + "\n"
        else:
            yield line[:len(line) - len(line.lstrip())] + plain(line.lstrip())


def main():
    part = part_of(sys.stdin.read().splitlines(), sys.argv[1])
    if not part:
        sys.exit("notes: NEWS has nothing on %s" % sys.argv[1])
    print("\n".join(markdown(part)))


if __name__ == "__main__":
    main()
