#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the completions that completion.py made: completion_test.py GPULEAK BASH ZSH FISH. TAP.

Each shell completes command lines. The answers of bash are compared with the command's own --help."""

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

# A terminal in which zsh completes each word list of "$@". The function before compadd stores what is
# offered, and END when the completion has ended.
ZSH = r"""
zmodload zsh/zpty || exit 77
export SEEN=$1 FOLDER=$2
shift 2
zpty shell zsh -f -i
zpty -w shell "PROMPT='' fpath=(\$FOLDER \$fpath); autoload -U compinit && compinit -D -u
compadd() {
	local -a offered
	builtin compadd -O offered \"\$@\"
	print -rl -- \$offered >>\$SEEN
	builtin compadd \"\$@\"
}
all() { zle complete-word; print END >>\$SEEN }
zle -N all && bindkey '^I' all && print REA''DY"
while zpty -r shell line && [[ $line != *READY* ]]; do :; done
for words; do
	: >$SEEN
	zpty -w -n shell "$words"$'\t'
	for ((i = 0; i < 600; i++)); do
		[[ "$(<$SEEN)" != *END* ]] || break
		sleep 0.05
	done
	print -r -- "= $words"
	cat $SEEN
	zpty -w -n shell $'\x15'
done
"""

# Name, command line, words that a shell must offer for it, and words that it must not offer.
LINES = [
    ("the arguments of a program without run", "gpuleak cat rep", {"report.json"}, {"report"}),
    ("a topic", "gpuleak help gat", {"gate"}, {"run", "options"}),
    ("the commands", "gpuleak r", {"run", "report"}, {"check"}),
    ("a flag's beginning", "gpuleak run --pool-d", {"--pool-decay"}, {"--pool-cache"}),
    ("a flag of another command", "gpuleak check --suppr", {"--suppressions"}, {"--pool"}),
    ("the words of an option", "gpuleak run --pool ", {"off", "strict", "fast"}, {"report.json"}),
    ("files for a path", "gpuleak run --report rep", {"report.json"}, {"report"}),
    ("files for a ledger", "gpuleak report rep", {"report.json"}, set()),
    ("programs for run", "gpuleak run basenam", {"basename"}, {"report.json"}),
    ("programs for doctor", "gpuleak doctor basenam", {"basename"}, set()),
    ("behind --", "gpuleak run -- basenam", {"basename"}, set()),
    ("behind a flag's value", "gpuleak run --pool fast basenam", {"basename"}, set()),
    ("the program's own arguments", "gpuleak run --pool fast cat rep", {"report.json"}, set()),
]


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

    commands = {"run", "attach", "report", "top", "check", "diff", "help"}
    found = complete(script, "")
    tap.check(commands < found and "--version" in found, "the commands", found)
    for command in sorted(found - {"--help", "--version", "help"}):
        flags = set()
        for line in full_help(gpuleak, command):
            match = re.match(r"  (-[^ ,]+)(?:, (-[^ ]+))?", line)
            flags |= set(match.groups()) - {None} if match else set()
        same("the flags of %s" % command, flags | {"--help", "--help-all"}, command, "-")
    tap.check("python3" in complete(script, "python"), "a program without run", complete(script, "python"))
    same("the program's files", {"report.json"}, "python3", "rep")
    same("a topic", {"gate"}, "help", "gat")
    same("a flag's beginning", {"--pool-decay"}, "run", "--pool-d")
    same("the words of an option", {"off", "strict", "fast"}, "run", "--pool", "")
    same("behind an equals sign", {"json", "junit"}, "run", "--format", "=", "j")
    same("just behind it", {"auto", "off", "on"}, "run", "--accumulation", "=")
    same("files for a path", {"report.json"}, "run", "--report", "rep")
    same("no words for a number", set(), "run", "--stack-depth", "")
    same("files for a ledger", {"report.json"}, "report", "rep")
    tap.check("bash" in complete(script, "run", "bas"), "programs for run")
    tap.check("bash" in complete(script, "run", "--gate", "--", "bas"), "behind --")
    same("the program's own arguments", {"report.json"}, "run", "--pool", "fast", "cat", "rep")


def ask_zsh(script, folder):
    """Returns {command line: what zsh offers}."""
    shutil.copy(script, os.path.join(folder, "_gpuleak"))
    done = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", os.path.join(folder, "seen"), folder,
                           *(line for _, line, _, _ in LINES)], check=False, cwd=folder,
                          capture_output=True, text=True, env=dict(os.environ, TERM="dumb"))
    parts = re.split(r"^= (.*)\n", done.stdout, flags=re.M)[1:]
    return dict(zip(parts[::2], (set(part.split("\n")) for part in parts[1::2])))


def ask_fish(script, folder):
    def ask(line):
        done = subprocess.run(["fish", "--no-config", "-c", 'source "$argv[1]"; complete -C "$argv[2]"',
                               script, line], check=False, capture_output=True, text=True, cwd=folder,
                              env=dict(os.environ, HOME=folder))
        return {answer.split("\t")[0] for answer in done.stdout.split("\n")}
    return {line: ask(line) for _, line, _, _ in LINES}


def check_other(tap, shell, ask, script):
    if not shutil.which(shell):
        tap.check(not os.environ.get("GPULEAK_MUST_RUN"), shell + " # SKIP it is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        open(folder + "/report.json", "w").close()
        answers = ask(script, folder)
    for name, line, wanted, unwanted in LINES:
        found = answers.get(line, set())
        tap.check(wanted <= found and not unwanted & found, "%s: %s" % (shell, name), line, sorted(found))


def main():
    gpuleak, bash, zsh, fish = map(os.path.abspath, sys.argv[1:])
    tap = Tap()
    check_bash(tap, gpuleak, bash)
    check_other(tap, "zsh", ask_zsh, zsh)
    check_other(tap, "fish", ask_fish, fish)
    print("1..%d" % tap.number)
    sys.exit(tap.failed)


if __name__ == "__main__":
    main()
