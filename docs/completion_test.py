#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the completions that completion.py made: completion_test.py GPULEAK BASH ZSH FISH. TAP.

bash completes command lines and its answers are compared with the command's own --help. zsh and fish
check the syntax of their files, if they are installed."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from completion import full_help

DRIVER = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_gpuleak
printf '%s\\n' "${COMPREPLY[@]}"
"""


class Tap:
    def __init__(self):
        self.number, self.failed = 0, False

    def check(self, good, name, *remarks):
        self.number += 1
        print("%sok %d - %s" % ("" if good else "not ", self.number, name))
        if not good:
            self.failed = True
            for remark in remarks:
                print("# %s" % (remark,))


def complete(script, *words):
    """Returns what bash offers for the last of WORDS."""
    with tempfile.TemporaryDirectory() as folder:
        open(folder + "/report.json", "w").close()
        done = subprocess.run(["bash", "-c", DRIVER, "bash", script, "gpuleak", *words],
                              check=True, capture_output=True, text=True, cwd=folder)
    return set(done.stdout.split())


def check_bash(tap, gpuleak, script):
    def same(name, expected, *words):
        found = complete(script, *words)
        tap.check(found == expected, name, found, expected)

    commands = {"run", "report", "top", "check", "diff"}
    found = complete(script, "")
    tap.check(commands < found and "--version" in found, "the commands", found)
    for command in sorted(found - {"--help", "--version"}):
        flags = set()
        for line in full_help(gpuleak, command):
            match = re.match(r"  (-[^ ,]+)(?:, (-[^ ]+))?", line)
            flags |= set(match.groups()) - {None} if match else set()
        same("the flags of %s" % command, flags | {"--help", "--help-all"}, command, "-")
    same("a flag's beginning", {"--pool-decay"}, "run", "--pool-d")
    same("the words of an option", {"off", "strict", "fast"}, "run", "--pool", "")
    same("behind an equals sign", {"json", "junit"}, "run", "--format", "=", "j")
    same("just behind it", {"off", "on"}, "run", "--accumulation", "=")
    same("files for a path", {"report.json"}, "run", "--report", "rep")
    same("no words for a number", set(), "run", "--stack-depth", "")
    same("files for a ledger", {"report.json"}, "report", "rep")
    tap.check("bash" in complete(script, "run", "bas"), "programs for run")
    tap.check("bash" in complete(script, "run", "--gate", "--", "bas"), "behind --")
    same("the program's own arguments", {"report.json"}, "run", "--pool", "fast", "cat", "rep")


def main():
    gpuleak, bash, zsh, fish = map(os.path.abspath, sys.argv[1:])
    tap = Tap()
    check_bash(tap, gpuleak, bash)
    for shell, path in (("zsh", zsh), ("fish", fish)):
        if shutil.which(shell):
            done = subprocess.run([shell, "-n", path], check=False, capture_output=True, text=True)
            tap.check(done.returncode == 0, shell + " reads its file", done.stderr)
    print("1..%d" % tap.number)
    sys.exit(tap.failed)


if __name__ == "__main__":
    main()
