#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what can be checked of .github/workflows and action.yml without the services: workflows.py
ROOT. TAP.

Actions are pinned by commit, a workflow has no permission that a job does not name, no expression
is part of a shell script, and the release only calls scripts whose steps exist."""

import os
import pathlib
import re
import subprocess
import sys

PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$")
STEP = re.compile(r"(?:sudo )?packaging/release\.sh (\S+)")
# What a job may do, and what only one job of one workflow may.
MAY = {("contents", "read"), ("security-events", "write"), ("id-token", "write"),
       ("attestations", "write")}
ALONE = {("release.yml", "github"): ("contents", "write"), ("pages.yml", "deploy"): ("pages", "write")}


def uses(text):
    """Yields (number, reference) of each line with `uses:`."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*(?:- )?uses:\s*(.*)$", line)
        if found:
            yield number, found[1]


def scripts(jobs):
    for job in jobs:
        for step in job.get("steps", []):
            if "run" in step:
                yield step["run"]


def permissions(name, document):
    """Yields what a workflow may do without need."""
    if document.get("permissions") != {}:
        yield "%s: `permissions: {}` is missing at the top" % name
    for job, content in document["jobs"].items():
        if "permissions" not in content:
            yield "%s: job %s names no permissions" % (name, job)
        for right in (content.get("permissions") or {}).items():
            if right not in MAY and right != ALONE.get((name, job)):
                yield "%s: job %s: %s: %s" % (name, job, *right)
        if "timeout-minutes" not in content:
            yield "%s: job %s has no limit of time" % (name, job)


def keeps_credentials(job):
    return [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")
            and (step.get("with") or {}).get("persist-credentials") is not False]


def release(root, document):
    """Yields what the release does that no script does, and steps that the script does not have."""
    known = subprocess.run([root / "packaging/release.sh"], capture_output=True, text=True,
                           check=False).stdout
    for script in scripts(document["jobs"].values()):
        for line in script.splitlines():
            step = STEP.match(line)
            if step and not re.search(r"^ *%s\b" % step[1], known, re.M) and step[1] != '"$STEP"':
                yield "packaging/release.sh has no step %s" % step[1]
            if not step and not re.match(r"(sudo )?(apt-get|tools/setup\.sh|git config)\b", line):
                yield "not a script: " + line
    for step in document["jobs"]["smoke"]["strategy"]["matrix"]["step"]:
        if not re.search(r"^ *%s\b" % step, known, re.M):
            yield "packaging/release.sh has no step %s" % step


def main():
    root = pathlib.Path(sys.argv[1])
    try:
        import yaml
    except ImportError:
        sys.exit("Bail out! no python3-yaml" if os.environ.get("GPULEAK_MUST_RUN")
                 else print("1..0 # SKIP no python3-yaml"))
    files = sorted((root / ".github/workflows").glob("*.yml"))
    texts = {path.name: path.read_text(encoding="utf-8") for path in files + [root / "action.yml"]}
    documents = {name: yaml.safe_load(text) for name, text in texts.items()}
    flows = {name: one for name, one in documents.items() if "jobs" in one}
    steps = [job for one in flows.values() for job in one["jobs"].values()]
    checks = [
        ("actions are pinned by a commit, with the version beside it",
         ["%s:%d: %s" % (name, number, what) for name, text in texts.items()
          for number, what in uses(text) if not PINNED.match(what)]),
        ("a job may do only what it names",
         [wrong for name, one in flows.items() for wrong in permissions(name, one)]),
        ("no checkout leaves a token behind",
         [step for job in steps for step in keeps_credentials(job)]),
        ("no expression is part of a shell script",
         [run for run in scripts(steps + [documents["action.yml"]["runs"]]) if "${{" in run]),
        ("no workflow runs a stranger's code with permissions",
         [name for name, text in texts.items() if "pull_request_target" in text]),
        ("a release only calls scripts, by steps that exist",
         list(release(root, documents["release.yml"]))),
    ]
    for number, (name, wrong) in enumerate(checks, 1):
        print("%sok %d - %s" % ("not " if wrong else "", number, name))
        for line in wrong:
            print("# %s" % line)
    print("1..%d" % len(checks))
    return 1 if any(wrong for _, wrong in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
