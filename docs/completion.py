#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the completion of a shell: completion.py bash|zsh|fish GPULEAK SOURCE_ROOT.

Commands and flags come from the command's own --help-all, as the manual does. The words that an option
takes come from ledger/options.def and options.h. So a new option needs no change here."""

import pathlib
import re
import subprocess
import sys

from man import Help, commands
from render import rows

# The commands whose operands are another program.
RUNS = ("run", "doctor")
HELP = "print a page of the documentation"


def topics(root):
    """Returns what `gpuleak help` prints: the pages' names."""
    return sorted({path.stem for pages in ("*.md", "guides/**/*.md", "reference/**/*.md")
                   for path in (root / "docs").glob(pages)} - {"README"})


class Flag:
    """NAMES as ["-v", "--verbose"]; WORDS that its value may have, or "file", or None for no value."""

    def __init__(self, names, value, words, what):
        self.names, self.value, self.words, self.what = names, value, words, what


def words_of_types(root):
    """Returns {type of an option: its words}, from the head of options.def."""
    head = (root / "ledger/options.def").read_text().split("*/")[0]
    types = {name: re.split(r", | or ", words) for name, words in
             re.findall(r"^ \* (\w+) +(\S.*?)  +int, enum", head, re.M)}
    formats = (root / "ledger/options.h").read_text()
    types["FORMAT"] = re.findall(r'\bX\(\w+, "(\w+)"\)', formats)
    return types


def words_of_options(root):
    """Returns {flag: words or "file"} for the options whose values can be completed."""
    types, found = words_of_types(root), {}
    for row in rows((root / "ledger/options.def").read_text(), "OPTION"):
        flag, kind = "--" + row[1].strip('"'), row[3]
        if kind in types:
            found[flag] = types[kind]
        elif kind in ("PATH", "PATTERN"):
            found[flag] = "file"
    return found


def full_help(gpuleak, command):
    """Returns the lines that list every option of COMMAND."""
    return subprocess.run([gpuleak, command, "--help-all"], check=True, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL).stdout.split("\n")


def flags_of(gpuleak, command, options):
    flags = []
    for names, value, what in Help(full_help(gpuleak, command)).flags:
        if not names:
            continue  # the title of a group
        names, optional = names.split(", "), value.startswith("[")
        if optional:  # "[0|1] 1: text": the text may follow at once
            value, _, rest = value.partition("] ")
            what = [rest] * bool(rest) + what
        # Only the first of the values that a text explains, without the value.
        first = re.split(r"[.;] |[.;:] *$|: (?!the )", re.sub(r"^1: ", "", " ".join(what)))[0]
        # An optional value is left out.
        words = options.get(names[-1], []) if value and not optional else None
        flags.append(Flag(names, value, words, first))
    known = {name for flag in flags for name in flag.names}
    for name, what in (("--help", "print the options that matter first"),
                       ("--help-all", "print all options")):
        if name not in known:
            flags.append(Flag([name], "", None, what))
    return flags


# ---- bash ----

BASH = r"""# bash completion for gpuleak. Made by docs/completion.py; do not edit.
_gpuleak()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
	local flags='' words='' i
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		COMPREPLY=($(compgen -W '@COMMANDS@ help --help --version' -- "$word"))
		[ "${#COMPREPLY[@]}" != 0 ] || COMPREPLY=($(compgen -c -- "$word"))
		return
	fi
	case ' @COMMANDS@ help ' in
	*" $command "*) ;;
	*) _gpuleak_program 1 "$word"; return ;; # gpuleak PROGRAM
	esac
	# "--format=json" is three words to bash.
	[ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}
	if [ "$word" = = ]; then before=${COMP_WORDS[COMP_CWORD-1]} word=; fi
	if [ "$command" = help ]; then
		COMPREPLY=($(compgen -W '@TOPICS@' -- "$word"))
		return
	fi
	case $command in
@RUNS@)
		# Behind the flags is a command line of its own.
		for ((i = 2; i < COMP_CWORD; i++)); do
			case " $(_gpuleak_valued) " in
			*" ${COMP_WORDS[i]} "*) i=$((i + 1)); [ "${COMP_WORDS[i]}" != = ] || i=$((i + 1)); continue ;;
			esac
			case ${COMP_WORDS[i]} in
			--) i=$((i + 1)) ;;
			-* | =) continue ;;
			esac
			_gpuleak_program "$i" "$word"
			return
		done ;;
	esac
	case $command:$before in
@VALUES@
	esac
	case $command in
@FLAGS@
	esac
	case $word in
	-*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
	*) case " @RUNSWORDS@ " in
		*" $command "*) COMPREPLY=($(compgen -c -- "$word")) ;;
		*) COMPREPLY=($(compgen -f -- "$word")) ;;
		esac ;;
	esac
}
_gpuleak_valued() { echo '@VALUED@'; }
_gpuleak_program()
{
	if [ "$(type -t _command_offset)" = function ]; then
		_command_offset "$1"
	elif [ "$1" = "$COMP_CWORD" ]; then
		COMPREPLY=($(compgen -c -- "$2"))
	else
		COMPREPLY=($(compgen -f -- "$2"))
	fi
}
complete -o filenames -o bashdefault -F _gpuleak gpuleak
"""


def bash(table, pages):
    values, flags, valued = [], [], set()
    for command, entries in table.items():
        flags.append("\t%s) flags='%s' ;;" % (
            command, " ".join(name for flag in entries for name in flag.names)))
        for flag in entries:
            if flag.words is None:
                continue
            valued.update(flag.names)
            pattern = " | ".join("%s:%s" % (command, name) for name in flag.names)
            if flag.words == "file":
                values.append("\t%s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;" % pattern)
            elif flag.words:
                values.append("\t%s) COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;" % (
                    pattern, " ".join(flag.words)))
            else:
                values.append("\t%s) return ;;" % pattern)
    return (BASH.replace("@COMMANDS@", " ".join(table))
            .replace("@TOPICS@", " ".join([*table, *pages])).replace("@RUNS@", "\t" + " | ".join(RUNS))
            .replace("@RUNSWORDS@", " ".join(RUNS)).replace("@VALUES@", "\n".join(values))
            .replace("@FLAGS@", "\n".join(flags)).replace("@VALUED@", " ".join(sorted(valued))))


# ---- zsh ----

def zsh_text(text):
    return text.replace("\\", "\\\\").replace("'", "'\\''").replace("[", "\\[").replace(
        "]", "\\]").replace(":", "\\:")


def zsh_flag(flag):
    what = "[%s]" % zsh_text(flag.what)
    if flag.words is None:
        value, equals = "", ""
    else:
        action = "_files" if flag.words == "file" else "(%s)" % " ".join(flag.words)
        value, equals = ":%s:%s" % (zsh_text(flag.value), action), "="
    for name in flag.names:
        yield "'%s%s%s%s'" % (name, equals if name.startswith("--") else "", what, value)


def zsh(table, about, pages):
    out = ["#compdef gpuleak", "# Made by docs/completion.py; do not edit.", "_gpuleak() {",
           "\tlocal context state state_descr line", "\ttypeset -A opt_args",
           "\t_arguments -C '1: :->command' '*:: :->words'", "\tcase $state in", "\tcommand)",
           "\t\tlocal -a commands=("]
    out += ["\t\t\t'%s:%s'" % (name, zsh_text(about[name])) for name in table]
    out += ["\t\t\t'help:%s'" % HELP]
    out += ["\t\t)", "\t\t_describe command commands ;;", "\twords)", "\t\tcase $words[1] in"]
    for command, entries in table.items():
        rest = ["'(-)1:program:_command_names -e'", "'*::arguments:_normal'"] \
            if command in RUNS else ["'*:file:_files'"]
        specs = [spec for flag in entries for spec in zsh_flag(flag)] + rest
        out.append("\t\t%s) _arguments -S %s ;;" % (command, " \\\n\t\t\t".join(specs)))
    out.append("\t\thelp) _arguments '1:topic:(%s)' ;;" % " ".join([*table, *pages]))
    out.append("\t\t*) _normal ;;")  # gpuleak PROGRAM
    return "\n".join(out + ["\t\tesac ;;", "\tesac", "}", "_gpuleak \"$@\"", ""])


# ---- fish ----

def fish_text(text):
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "\\'")


def fish(table, about, pages):
    out = ["# fish completion for gpuleak. Made by docs/completion.py; do not edit.",
           "complete -c gpuleak -n __fish_use_subcommand -f"]
    out += ["complete -c gpuleak -n __fish_use_subcommand -a %s -d %s" % (name, fish_text(about[name]))
            for name in table]
    out += ["complete -c gpuleak -n __fish_use_subcommand -a '(__fish_complete_command)'",
            "complete -c gpuleak -n __fish_use_subcommand -a help -d '%s'" % HELP,
            "complete -c gpuleak -n '__fish_seen_subcommand_from help' -f -a '%s'" % " ".join(
                [*table, *pages])]
    for command, entries in table.items():
        start = "complete -c gpuleak -n '__fish_seen_subcommand_from %s'" % command
        if command in RUNS:
            # After "gpuleak run", and not counting these flags' values. fish's function would take
            # the names at its front for its own flags.
            valued = [name for flag in entries if flag.words is not None for name in flag.names]
            out.append(start + " -x -a '(__fish_complete_subcommand --fcs-skip=2 - %s)'" % " ".join(valued))
        for flag in entries:
            line = start
            for name in flag.names:
                line += " -l %s" % name[2:] if name.startswith("--") else " -s %s" % name[1:]
            if flag.words == "file":
                line += " -r -F"
            elif flag.words is not None:
                line += " -x" + (" -a '%s'" % " ".join(flag.words) if flag.words else "")
            out.append("%s -d %s" % (line, fish_text(flag.what)))
    return "\n".join(out) + "\n"


def main():
    shell, gpuleak, root = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    options, about = words_of_options(root), commands(gpuleak)
    table = {command: flags_of(gpuleak, command, options) for command in about}
    if not table:
        sys.exit("completion: no commands in --help")
    pages = topics(root)
    sys.stdout.write({"bash": lambda: bash(table, pages), "zsh": lambda: zsh(table, about, pages),
                      "fish": lambda: fish(table, about, pages)}[shell]())


if __name__ == "__main__":
    main()
