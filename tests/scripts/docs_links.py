#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every relative link of the documentation leads to a file of this tree, and to a heading of it
where it names one: docs_links.py ROOT. TAP, one line a page."""
import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(path):
    """As GitHub makes them."""
    for heading in re.findall(r"^#+ +(.*)$", path.read_text(encoding="utf-8"), flags=re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        if not path.exists():
            yield "%s: not there" % target
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            yield "%s: no such heading" % target


def main():
    root = pathlib.Path(sys.argv[1])
    pages = [root / "README.md", root / "CONTRIBUTING.md"] + sorted((root / "docs").rglob("*.md"))
    failed = 0
    for number, page in enumerate(pages, 1):
        problems = list(broken(page))
        failed += bool(problems)
        print("%sok %d - %s" % ("not " if problems else "", number, page.relative_to(root)))
        for problem in problems:
            print("# " + problem)
    print("1..%d" % len(pages))
    return 1 if failed else 0


sys.exit(main())
