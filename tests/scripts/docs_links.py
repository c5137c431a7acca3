#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every relative link of the documentation leads to a file of this tree, and to a
heading of that file if the link has one. docs/README.md must link to every guide. A path in
backticks (`ledger/format.h`) must exist too. docs_links.py ROOT prints TAP, one line per page."""
import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = "docs|include|interpose|ledger|packaging|python|report|results|standin|tests|tools"
NAMED = re.compile(r"`((?:%s)/[\w./*-]+)(?: [^`]*)?`" % FOLDERS)


def anchors(path):
    """Yields the anchors that GitHub makes."""
    for heading in re.findall(r"^#+ +(.*)$", path.read_text(encoding="utf-8"), flags=re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken(root, page):
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
    guides = root / "docs" / "guides"
    for guide in sorted(guides.rglob("*.md")) if page == root / "docs" / "README.md" else ():
        if "(%s)" % guide.relative_to(page.parent) not in text:
            yield "%s: no link to it" % guide.relative_to(page.parent)
    for name in NAMED.findall(text):
        if not any(root.glob(name.rstrip("/"))):
            yield "%s: not in this tree" % name


def main():
    root = pathlib.Path(sys.argv[1])
    pages = sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md"))
    failed = 0
    for number, page in enumerate(pages, 1):
        problems = list(broken(root, page))
        failed += bool(problems)
        print("%sok %d - %s" % ("not " if problems else "", number, page.relative_to(root)))
        for problem in problems:
            print("# " + problem)
    print("1..%d" % len(pages))
    return 1 if failed else 0


sys.exit(main())
