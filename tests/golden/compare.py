#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what two builds of gpuleak print for the same ledgers, byte by byte.

compare.py OLD_BUILD NEW_BUILD CORPUS runs `report` in every format and with options, `check`,
`diff` and one frame of `top` for the ledgers of CORPUS (see corpus.py). It prints each command
whose standard output, standard error or exit status differs, with the first lines of a diff, and
ends with status 1 if there was one. CORPUS keeps hashes of what the old build printed, so that the
old build runs once."""

import argparse
import concurrent.futures
import difflib
import gzip
import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FORMATS = ("text", "json", "html", "junit", "sarif", "github", "folded", "pprof", "openmetrics",
           "memory-viz", "perfetto")
QUICK = 28  # ledgers
DIFF_LINES = 20
LONG = 300  # characters of a line
TIMEOUT_S = 120
NOT_ENDED = "not ended"
ALL_GATES = ("--gate-caches", "1", "--gate-held", "1", "--gate-accumulation", "1", "--gate-objects",
             "1", "--max-leaked-bytes", "1KiB")

# Each ledger gets these commands.
ALWAYS = [("report", "--format", name, "{ledger}") for name in FORMATS] + [
    ("check", "{ledger}"),
    ("report", "--verbose", "1", "--budgets", "budgets", *ALL_GATES, "{ledger}"),
    ("top", "--once", "{ledger}"),
]
# Each ledger gets a few of these, the next one the next few.
IN_TURN = [
    ("report", "--format", name, "--baseline", "baseline", "--budgets", "budgets",
     *ALL_GATES, "{ledger}") for name in FORMATS[1:6]] + [
    ("report", "--verbose", "1", "--color", "always", "{ledger}"),
    ("report", "--older", "1ms", "{ledger}"),
    ("report", "--older", "1h", "--format", "json", "{ledger}"),
    ("report", "--format", "json", "--addresses", "{ledger}"),
    ("report", "--format", "json", "--since", "1", "{ledger}"),
    ("report", "--suppressions", "suppressions", "{ledger}"),
    ("report", "--suppressions", "suppressions", "--format", "json", "{ledger}"),
    ("report", "--suppressions", "suppressions", "--format", "html", "{ledger}"),
    ("report", "--rules", "rules", "--verbose", "1", "{ledger}"),
    ("report", "--rules", "rules", "--format", "json", "{ledger}"),
    ("report", "--gen-suppressions", "/dev/stdout", "{ledger}"),
    ("check", "--only-at", "only-at", "--verbose", "1", "{ledger}"),
    ("check", "--only-at", "only-at", "--format", "junit", "{ledger}"),
    ("check", "--baseline", "baseline", "{ledger}"),
    ("check", "--baseline", "{new}", "--update-baseline", "--gate-objects", "1", "{ledger}"),
    ("check", "--budgets", "budgets", "{ledger}"),
    ("check", "--budgets", "tight-budgets", "--format", "json", "{ledger}"),
    ("check", "--max-growth", "1", "{ledger}"),
    ("check", "--max-growth", "1KiB", "--format", "json", *ALL_GATES, "{ledger}"),
    ("check", *ALL_GATES, "--suppressions", "suppressions", "{ledger}"),
    ("top", "--once", "--sort", "growth", "--sites", "3", "{ledger}"),
    ("top", "--once", "--sort", "rate", "--older", "1ms", "{ledger}"),
    ("diff", "{ledger}", "{next}"),
    ("diff", "--gate", "--format", "json", "{next}", "{ledger}"),
]
IN_TURN_COUNT = 5
# Each folder of several ledgers gets these.
OF_A_GROUP = [("report", "--format", name, "{group}") for name in FORMATS] + [
    ("report", "--verbose", "1", *ALL_GATES, "--budgets", "budgets", "{group}"),
    ("report", "--format", "json", "--suppressions", "suppressions", "{group}"),
    ("check", "{group}"),
    ("check", "--format", "github", *ALL_GATES, "{group}"),
    ("diff", "--format", "json", "{next}", "{group}"),
]


def commands(corpus, quick):
    """Returns all commands, in an order that depends only on the corpus."""
    ledgers = (corpus / "order").read_text().split()
    groups = sorted(path.name for path in (corpus / "groups").iterdir())
    turn = 0
    ret = []
    for number, name in enumerate(ledgers[:QUICK] if quick else ledgers):
        turns = [IN_TURN[(turn + i) % len(IN_TURN)] for i in range(IN_TURN_COUNT)]
        turn += IN_TURN_COUNT
        words = {"{ledger}": "ledgers/" + name,
                 "{next}": "ledgers/" + ledgers[(number + 1) % len(ledgers)]}
        ret += [[words.get(word, word) for word in command] for command in ALWAYS + turns]
    for number, name in enumerate(groups[:3] if quick else groups):
        words = {"{group}": "groups/" + name,
                 "{next}": "groups/" + groups[(number + 1) % len(groups)]}
        ret += [[words.get(word, word) for word in command] for command in OF_A_GROUP]
    return ret


class Build:
    """One build's command. Both are called gpuleak, in the same folder, in the same environment."""

    def __init__(self, build, corpus, home):
        self.executable = str(pathlib.Path(build).resolve() / "tools" / "gpuleak")
        self.corpus = corpus
        self.new = itertools.count(1)
        self.home = home
        self.env = {"PATH": "/usr/bin:/bin", "HOME": home, "LC_ALL": "C.UTF-8", "TZ": "UTC",
                    "XDG_RUNTIME_DIR": home}

    def run(self, command):
        """Returns the status, the output with the file {new}, and the errors of COMMAND."""
        path = os.path.join(self.home, "%d-%d" % (id(self), next(self.new)))
        words = [path if word == "{new}" else word for word in command]
        try:
            ran = subprocess.run(["gpuleak", *words], executable=self.executable, env=self.env,
                                 cwd=self.corpus, stdin=subprocess.DEVNULL, capture_output=True,
                                 timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return NOT_ENDED, b"", b""
        written = pathlib.Path(path).read_bytes() if os.path.exists(path) else b""
        return (ran.returncode, ran.stdout.replace(path.encode(), b"{new}") + written,
                ran.stderr.replace(path.encode(), b"{new}"))

    def hash(self, command):
        status, out, err = self.run(command)
        if status == NOT_ENDED:
            return status
        return hashlib.sha256(b"%s %d " % (str(status).encode(), len(out)) + out + err).hexdigest()


def hashes(build, wanted, pool, store=None):
    """Returns {command: hash}. STORE is a file of the ones that are known already."""
    known = json.loads(store.read_text()) if store and store.exists() else {}
    missing = [command for command in wanted if " ".join(command) not in known]
    for command, digest in zip(missing, pool.map(build.hash, missing)):
        known[" ".join(command)] = digest
    if store and missing:
        ended = {key: digest for key, digest in known.items() if digest != NOT_ENDED}
        new = store.with_name("%s.%d" % (store.name, os.getpid()))
        new.write_text(json.dumps(ended))
        new.replace(store)
    return known


def text_of(result):
    """The lines of a result, long ones cut at commas, so that a diff shows only what differs."""
    status, out, err = result
    if out.startswith(b"\x1f\x8b"):
        out = repr(gzip.decompress(out)).replace("\\n", "\n").encode()
    ret = ["status %s" % status]
    for name, data in (("stdout", out), ("stderr", err)):
        ret.append(name)
        for line in data.decode("utf-8", "backslashreplace").split("\n"):
            cut = re.sub(r"([,>])(?=\S)", "\\1\n", line) if len(line) > LONG else line
            ret += cut.split("\n")
    return ret


def show(old, new, command):
    print("==== gpuleak " + " ".join(command))
    before, after = old.run(command), new.run(command)
    lines = list(difflib.unified_diff(text_of(before), text_of(after), "old", "new", n=2,
                                      lineterm=""))
    if not lines:
        print("the bytes differ, the text does not; or it is not the same in every run")
    for line in lines[:DIFF_LINES]:
        print(line[:LONG])
    if len(lines) > DIFF_LINES:
        print("... %d more lines" % (len(lines) - DIFF_LINES))


def store_of(build, corpus):
    digest = hashlib.sha256(pathlib.Path(build.executable).read_bytes())
    digest.update((corpus / "order").read_bytes())
    (corpus / "known").mkdir(exist_ok=True)
    return corpus / "known" / digest.hexdigest()[:32]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("old_build", "new_build", "corpus"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="only %d ledgers" % QUICK)
    parser.add_argument("--only", default="", help="only commands that contain this text")
    parser.add_argument("--shown", type=int, default=10, help="show at most this many (10)")
    parser.add_argument("--fresh", action="store_true", help="also run the old build")
    return parser.parse_args()


def main():
    args = parse()
    corpus = args.corpus.resolve()
    wanted = [command for command in commands(corpus, args.quick)
              if args.only in " ".join(command)]
    with tempfile.TemporaryDirectory(prefix="gpuleak-golden-") as home, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        old, new = (Build(build, corpus, home) for build in (args.old_build, args.new_build))
        before = hashes(old, wanted, pool, None if args.fresh else store_of(old, corpus))
        after = hashes(new, wanted, pool)
        different = [command for command in wanted
                     if before[" ".join(command)] != after[" ".join(command)]]
        for command in different[:args.shown]:
            show(old, new, command)
    for command in different[args.shown:]:
        print("also differs: gpuleak " + " ".join(command))
    print("%d outputs, %d differ" % (len(wanted), len(different)))
    return 1 if different else 0


sys.exit(main())
