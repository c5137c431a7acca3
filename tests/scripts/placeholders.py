#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the table of placeholders in RELEASING.md with the files that have one: placeholders.py
ROOT. TAP. Whoever publishes gpuleak fills them in, so none may be missing in that table."""

import pathlib
import re
import sys

from text_layout import tracked

PAGE = "RELEASING.md"
# The scripts that fill them in or check them, and pages that only explain them.
EXPLAINED = {PAGE, "packaging/recipes/fill.sh", "packaging/recipes/README.md",
             "packaging/action/install.sh", "tests/fuzz/oss-fuzz/README.md",
             "tests/scripts/docs_workflows.py", "tests/scripts/placeholders.py"}
# What looks like a placeholder. A row of the table must have it.
LOOKS = re.compile(r"@OWNER@|\bOWNER/\w+|\bCONTACT\b|\bYOUR[_-][A-Z]+|[\w.@-]+\.invalid\b|<(?:the|your) [a-z ]+>")


def table(text):
    """Returns {placeholder: its files} as the page has them."""
    return {found[1]: set(re.findall(r"`([^`]+)`", found[2]))
            for found in re.finditer(r"^\| `([^`]+)` \|[^|]*\| (`.*`) \|$", text, re.MULTILINE)}


def texts(root):
    for name in tracked(root):
        data = (root / name).read_bytes()
        if b"\0" not in data and not name.startswith(("tests/fuzz/corpus", "tests/corpora/")):
            yield name, data.decode("utf-8", "replace")


def missing(name, text, rows):
    """Returns the placeholders in TEXT, of file NAME, that no row has for this file."""
    mine = [placeholder for placeholder, names in rows.items() if name in names]
    looks = {found[0] for found in LOOKS.finditer(text)}
    return ["%s: %s is not in the table of %s" % (name, one, PAGE)
            for one in sorted(looks | {row for row in rows if row in text})
            if not any(one in row or row in one for row in mine)]


def check(number, what, wrong):
    print("%sok %d - %s" % ("not " if wrong else "", number, what))
    for line in wrong:
        print("# " + line)
    return bool(wrong)


def main():
    root = pathlib.Path(sys.argv[1])
    rows = table((root / PAGE).read_text(encoding="utf-8"))
    files = dict(texts(root))
    failed = check(1, "each row of the table has its files", [
        "%s lists %s for %s, which does not have it" % (PAGE, name, placeholder)
        for placeholder, names in rows.items() for name in sorted(names)
        if placeholder not in files.get(name, "")] if rows else ["no table in " + PAGE])
    failed |= check(2, "each placeholder of a file is in the table", [
        line for name, text in files.items() if name not in EXPLAINED
        for line in missing(name, text, rows)])
    print("1..2")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
