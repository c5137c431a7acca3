#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints C source with a file's bytes: embed.py FILE NAME HEADER. Each line becomes a string
of its own, so that no compiler's limit for one is met and the result can be read."""
import sys


def c_string(line):
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else "\\%03o" % b for b in line)


def main():
    path, name, header = sys.argv[1:]
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    print('#include "%s"\n\nconst char %s[] =' % (header, name))
    for line in lines:
        print('\t"%s"' % c_string(line))
    print('\t"";\nconst size_t %s_length = sizeof(%s) - 1;' % (name, name))


main()
