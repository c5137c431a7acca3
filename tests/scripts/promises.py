#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that each row of the threat model in SECURITY.md names tests that exist: promises.py ROOT
BUILD. TAP. A word is the name of a test of meson. A text in quotes is the name of a case, or what it
checks, and stands somewhere below tests/."""

import json
import pathlib
import re
import subprocess
import sys

ROW = re.compile(r"^\|(.*)\|(.*)\|(.*)\|(.*)\|$", re.M)


def rows(page):
    """Yields (who and what, the cell of tests) of the table."""
    part = page.partition("\n## Threat model\n")[2].partition("\n## ")[0]
    for who, tries, _, tests in ROW.findall(part):
        if "`" in tests:
            yield "%s %s" % (who.strip(), tries.strip()), tests


def sources(root):
    names = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "tests"],
                           capture_output=True, text=True, check=False).stdout.split("\n")
    paths = [root / name for name in names if name.endswith((".py", ".sh", ".c"))]
    paths = paths or [path for path in (root / "tests").rglob("*")
                      if path.suffix in (".py", ".sh", ".c")]
    return " ".join(re.sub(r'[\s"]+', " ", path.read_text(encoding="utf-8", errors="replace"))
                    for path in paths if path.name != "promises.py")


def main():
    root, build = map(pathlib.Path, sys.argv[1:])
    known = {one["name"] for one in json.loads((build / "meson-info/intro-tests.json").read_text())}
    text, number, failed = sources(root), 0, 0
    found = list(rows((root / "SECURITY.md").read_text(encoding="utf-8")))
    for name, tests in found:
        wrong = ["no test %s" % one for one in re.findall(r"`([\w-]+)`", tests) if one not in known]
        wrong += ["no case: %s" % one for one in re.findall(r'"([^"]+)"', tests)
                  if re.sub(r"\s+", " ", one) not in text]
        number, failed = number + 1, failed + bool(wrong)
        print("%sok %d - %s" % ("not " if wrong else "", number, name))
        for line in wrong:
            print("# " + line)
    print("%sok %d - the table has rows" % ("" if len(found) > 5 else "not ", number + 1))
    print("1..%d" % (number + 1))
    return 1 if failed or len(found) <= 5 else 0


if __name__ == "__main__":
    sys.exit(main())
