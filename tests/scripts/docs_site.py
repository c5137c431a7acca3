#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the documentation site: docs_site.py GPULEAK ROOT VENV builds it with docs/site.sh, and looks
at what it wrote. VENV is where mkdocs is, or will be. TAP; skipped where mkdocs or PyOpenCL is
missing."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MISSING = 77  # of docs/site.sh: no mkdocs


def build(gpuleak, root, site, venv):
    return subprocess.run([root / "docs/site.sh", "--offline", gpuleak, site, venv], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def why_not(run):
    """Why the site cannot be built here, or None."""
    found = re.search(r"no mkdocs.*|the example report needs.*", run.stdout)
    return found and run.returncode in (MISSING, 1) and found[0]


def pages(root, site):
    """Yields each page of docs/ that the site lacks."""
    for page in sorted((root / "docs").rglob("*.md")):
        name = page.relative_to(root / "docs").with_suffix(".html")
        if not (site / name).is_file() and name.name != "README.html":
            yield str(name)
    if "54 leaked" not in (site / "index.html").read_text(encoding="utf-8"):
        yield "index.html has no transcript"


def example(site):
    """Yields what is wrong with the report of this build."""
    report = (site / "report.html").read_text(encoding="utf-8")
    if "88.0 MiB in 54 blocks never freed" not in report:
        yield "report.html is not the report of the example"
    if 'src="report.html"' not in (site / "example.html").read_text(encoding="utf-8"):
        yield "example.html does not show report.html"


def foreign(site):
    """Yields what pages load from another host."""
    for page in sorted(site.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", text):
            if re.search(r'(?:src|href)="(?:https?:)?//', tag) and "canonical" not in tag:
                yield "%s: %s" % (page.relative_to(site), tag)


def searched(gpuleak, site):
    """Yields the flags of `gpuleak run` that the search does not know."""
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    text = "".join(entry["text"] for entry in index["docs"]
                   if entry["location"].startswith("reference/commands.html"))
    printed = subprocess.run([gpuleak, "run", "--help-all"], check=True, capture_output=True,
                             text=True).stdout
    flags = re.findall(r"^  (?:-\w, )?(--[\w-]+)", printed, flags=re.M)
    if len(flags) < 30:
        yield "only %d flags" % len(flags)
    yield from (flag for flag in flags if flag not in text)


def strict(gpuleak, root, venv):
    """Yields links to nothing with which a copy of docs/ builds all the same."""
    links = ("not-there.md", "guides/gate.md#not-there", "../not-there.c")
    with tempfile.TemporaryDirectory(prefix="gpuleak-site-") as name:
        copy = pathlib.Path(name)
        for entry in root.iterdir():
            if entry.name != "docs" and not entry.name.startswith("."):
                (copy / entry.name).symlink_to(entry)
        shutil.copytree(root / "docs", copy / "docs", ignore=shutil.ignore_patterns("__pycache__"))
        with open(copy / "docs/glossary.md", "a", encoding="utf-8") as page:
            page.write("".join("\n[link](%s)\n" % link for link in links))
        run = build(gpuleak, copy, copy / "site", venv)
    if run.returncode != 1:
        yield "status %d: %s" % (run.returncode, run.stdout)
    yield from (link for link in links if "'%s'" % link not in run.stdout)


def main():
    gpuleak, root, venv = os.path.realpath(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    with tempfile.TemporaryDirectory(prefix="gpuleak-site-") as name:
        site = pathlib.Path(name) / "site"
        run = build(gpuleak, root, site, venv)
        why = why_not(run)
        if why and not os.environ.get("GPULEAK_MUST_RUN"):
            print("1..0 # SKIP " + why)
            return 0
        checks = [("it builds strictly", [run.stdout] if run.returncode else [])]
        if not run.returncode:
            checks += [("each page of docs/ is there", list(pages(root, site))),
                       ("the example is a report of this build", list(example(site))),
                       ("no page loads anything from another host", list(foreign(site))),
                       ("the search knows each flag of gpuleak run", list(searched(gpuleak, site))),
                       ("a link to nothing is an error", list(strict(gpuleak, root, venv)))]
    print("1..%d" % len(checks))
    for number, (what, problems) in enumerate(checks, 1):
        print("%sok %d - %s" % ("not " if problems else "", number, what))
        for line in "\n".join(problems).split("\n") if problems else ():
            print("# " + line)
    return any(problems for _, problems in checks)


sys.exit(main())
