#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that python/gpuleak/_kinds.py has the words of ledger/kinds.def. With --write it writes
them. pip installs the package without a build, so the file is in the repository. TAP."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TARGET = os.path.join(ROOT, "python", "gpuleak", "_kinds.py")
HEAD = '''# SPDX-License-Identifier: MIT
"""The words of reports for kinds of memory. Made from ledger/kinds.def by
tests/scripts/python_kinds.py --write."""

WORDS = {
'''
TAIL = '''}


def words_of(kind):
    """Returns what a report calls KIND: "device memory" for "device"."""
    return WORDS.get(kind, kind)
'''


def made():
    with open(os.path.join(ROOT, "ledger", "kinds.def"), encoding="utf-8") as file:
        rows = re.findall(r'^KIND\(\s*"([^"]+)",\s*"([^"]+)",', file.read(), re.MULTILINE)
    return HEAD + "".join('    "%s": "%s",\n' % row for row in rows) + TAIL, len(rows)


def main():
    text, count = made()
    if "--write" in sys.argv:
        with open(TARGET, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(TARGET, encoding="utf-8") as file:
        same = file.read() == text and count > 0
    print("%sok 1 - python/gpuleak/_kinds.py has the words of ledger/kinds.def" % (
        "" if same else "not "))
    if not same:
        print("# run tests/scripts/python_kinds.py --write")
    print("1..1")
    return 0 if same else 1


sys.exit(main())
