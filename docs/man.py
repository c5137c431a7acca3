#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the manual pages of the subcommands from the output of `gpuleak COMMAND --help-all`, and from
docs/man/COMMAND.in (roff). So every flag is in the manual.

    man.py page GPULEAK COMMAND WORDS VERSION     prints the page
    man.py check GPULEAK PAGE...                  TAP: every command has a page with all its flags
"""
import os
import re
import shutil
import subprocess
import sys

FLAG = re.compile(r"^  ((?:-\w, )?--?[\w-]+)((?: \S+)*?)(?:  +(.*))?$")


def output_of(gpuleak, *words):
    """Returns the lines that the command prints."""
    return subprocess.run([gpuleak, *words], check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL).stdout.split("\n")


def commands(gpuleak):
    """Returns {name: its line in --help}."""
    found = (re.match(r"  gpuleak (\w+) +(\w.*)$", line) for line in output_of(gpuleak, "--help"))
    return {match[1]: match[2] for match in found if match}


class Help:
    """The parts of a command's --help-all: usage, prose, flags, tail. `flags` is a list of
    (flags, value, lines); (None, title, []) begins a group of flags."""

    def __init__(self, lines):
        self.usage = lines[0].partition(": ")[2]
        self.prose, self.flags, self.tail, remark = [], [], [], []
        for line, following in zip(lines[1:], lines[2:] + [""]):
            match = FLAG.match(line)
            if line.endswith(":") and FLAG.match(following) and not self.tail:
                self.flags.append((None, line[:-1], []))
                continue
            if match and not self.tail:
                self.flags.append((match[1], match[2].strip(), [match[3]] if match[3] else []))
            elif self.flags and not self.tail and line.startswith("    "):
                self.flags[-1][2].append(line.strip())
            elif re.match(r"Every option.* is also a variable", line):
                remark.append(line)
            elif self.flags and (line.strip() or self.tail):
                self.tail.append(line)
            elif not self.flags:
                self.prose.append(line)
        self.remark = "".join(remark)

    def names(self):
        return {name for flags, _, _ in self.flags if flags for name in re.findall(r"--?[\w-]+", flags)}


def roff(text):
    text = text.replace("\\", "\\e").replace("--", "\\-\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def paragraphs(lines):
    out = []
    for line in "\n".join(lines).strip("\n").split("\n"):
        out.append(roff(line.strip()) if line.strip() else ".PP")
    return out


def page(gpuleak, command, words, version):
    manual = Help(output_of(gpuleak, command, "--help-all"))
    with open(words, encoding="utf-8") as file:
        more = file.read().split("\n.SH ", 1)
    usage = manual.usage.split(" ", 2)
    out = ['.\\" SPDX-License-Identifier: MIT',
           '.TH GPULEAK\\-%s 1 "" "gpuleak %s" "User commands"' % (command.upper(), version),
           ".SH NAME", "gpuleak\\-%s \\- %s" % (command, roff(commands(gpuleak)[command])),
           ".SH SYNOPSIS", ".B %s %s" % (usage[0], usage[1]), roff(" ".join(usage[2:])),
           ".SH DESCRIPTION"] + paragraphs(manual.prose)
    beginning = [line for line in more[0].rstrip("\n").split("\n") if not line.startswith('.\\"')]
    out += beginning if any(beginning) else []
    out += [".SH OPTIONS"]
    if manual.remark:
        alone = re.search(r"except (.*) is also", manual.remark)
        out += ["Every option%s is also a variable of the environment:" % (
                    " except " + roff(alone[1]) if alone else ""),
                "\\fB\\-\\-suppressions\\fR is \\fBGPULEAK_SUPPRESSIONS\\fR."]
    for flags, value, what in manual.flags:
        if not flags:
            out += [] if value == "Options" else [".SS " + roff(value)]
            continue
        bold = ", ".join("\\fB%s\\fR" % flag.replace("-", "\\-") for flag in flags.split(", "))
        out += [".TP", bold + (" \\fI%s\\fR" % value if value else "")]
        out += [roff(line) for line in what]
    tail = "\n".join(manual.tail).strip("\n")
    if tail.startswith("exit status:"):
        status, _, tail = tail.partition("\n\n")
        lines = status[len("exit status:"):].strip()
        out += [".SH EXIT STATUS"] + paragraphs(lines.split("\n"))
    if tail.strip():
        out += [".SH NOTES"] + paragraphs(tail.split("\n"))
    if len(more) > 1:
        out += [(".SH " + more[1]).rstrip("\n")]
    return "\n".join(out) + "\n"


# ---- the test ----

def complaints(path):
    """Yields the warnings of the installed formatters."""
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], check=False,
                              capture_output=True, text=True)
        yield from (line for line in (done.stdout + done.stderr).split("\n")
                    if "missing date" not in line)  # the page has the version instead
    elif os.environ.get("GPULEAK_MUST_RUN"):
        yield "no mandoc"
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", path], check=False,
                              capture_output=True, text=True)
        yield from done.stderr.split("\n")


def flags_of(gpuleak, command, which):
    """The flags that --help or --help-all explains."""
    flags = set()
    for line in output_of(gpuleak, command, which):
        match = re.match(r"  (-[^ ,]+)(?:, (-[^ ]+))?", line)
        flags |= set(match.groups()) - {None} if match else set()
    return flags


def problems_of_short_help(gpuleak, command, all_flags):
    """--help explains at most ten flags, and names every other one."""
    explained = flags_of(gpuleak, command, "--help")
    named = set(re.findall(r"(?<!\S)--?[a-z][\w-]*", "\n".join(output_of(gpuleak, command, "--help"))))
    ret = ["--help explains %s, --help-all does not" % flag for flag in sorted(explained - all_flags)]
    ret += ["--help does not name %s" % flag for flag in sorted(all_flags - explained - named)]
    long = {flag for flag in explained if flag.startswith("--")}
    if not 1 <= len(long) <= 10:
        ret.append("--help explains %d flags: at most ten matter most" % len(long))
    return ret


def problems_of(gpuleak, command, pages):
    name = "gpuleak-%s.1" % command
    path = next((path for path in pages if os.path.basename(path) == name), None)
    if not path:
        return ["there is no %s: docs/meson.build lists them" % name]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    plain = text.replace("\\-", "-")
    flags = set(re.findall(r"^\\fB(--?[\w-]+)\\fR|, \\fB(--?[\w-]+)\\fR", plain, flags=re.M))
    flags = {flag for pair in flags for flag in pair if flag}
    help_flags = flags_of(gpuleak, command, "--help-all")
    ret = ["no flags in --help-all"] if not help_flags else []
    ret += ["--help-all has %s, the page does not" % flag for flag in sorted(help_flags - flags)]
    ret += ["the page has %s, --help-all does not" % flag for flag in sorted(flags - help_flags)]
    ret += problems_of_short_help(gpuleak, command, help_flags)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES",
                    "SEE ALSO"):
        if "\n.SH %s\n" % section not in text:
            ret.append("no section " + section)
    return ret + [line for line in complaints(path) if line]


def check(gpuleak, pages):
    number = failed = 0
    main = next(path for path in pages if os.path.basename(path) == "gpuleak.1")
    with open(main, encoding="utf-8") as file:
        overview = file.read().replace("\\-", "-")
    known = commands(gpuleak)
    checks = [("gpuleak.1", [line for line in complaints(main) if line] + [
        "it does not name gpuleak-%s(1)" % command for command in known
        if ".BR gpuleak-%s (1)" % command not in overview])]
    checks += [("gpuleak-%s.1" % command, problems_of(gpuleak, command, pages))
               for command in known]
    if len(known) < 4:
        checks.append(("commands", ["gpuleak --help lists only %s" % sorted(known)]))
    for name, problems in checks:
        number, failed = number + 1, failed + bool(problems)
        print("%sok %d - %s" % ("not " if problems else "", number, name))
        for problem in problems:
            print("# " + problem)
    print("1..%d" % number)
    return 1 if failed else 0


def main():
    if sys.argv[1] == "check":
        sys.exit(check(os.path.abspath(sys.argv[2]), sys.argv[3:]))
    sys.stdout.write(page(os.path.abspath(sys.argv[2]), *sys.argv[3:]))


if __name__ == "__main__":
    main()
