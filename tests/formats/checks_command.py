# SPDX-License-Identifier: MIT
"""Where reports go: terminals, files, standard output; bad words and places."""

import gzip
import json
import os
import pty
import re
import shutil

from tools import TIMEOUT, same, true
import subprocess

FORMATS = ["text", "json", "html", "junit", "sarif", "github", "folded", "pprof", "openmetrics",
           "memory-viz", "perfetto"]


def unknown(place):
    """A format that does not exist: one line with all that do."""
    done = place.command("report", "--format", "xml", "x", status=2)
    same(done.stderr.decode(), "gpuleak: report: bad value 'xml' of --format: expected is %s\n"
         % " or ".join(FORMATS))


TURNING = "\u202e\u2066\u200f\u2028\u0085\ufeff"


def names(place):
    """Names of any bytes: no format lets a control or invisible character through."""
    for words, more in [(words, {}) for words in FORMATS] + [("github", {"MADE_SUMMARY": "1"})]:
        content = place.made(words, "hostile", "23", env=more)
        if words in ("pprof", "memory-viz", "perfetto"):
            content = gzip.decompress(content) if words == "pprof" else content
            found = [c for c in TURNING if c.encode() in content]
        else: # must be UTF-8
            text = content.decode("utf-8")
            found = re.findall("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e"
                               "\u2066-\u2069\ufeff]", text)
        same((words, more, found), (words, more, []), "what passed")
        if words not in ("pprof", "html", "memory-viz", "perfetto"): # there the page's code may begin so
            same([line for line in text.split("\n") if line.startswith("::") and
                  not re.match("::(error|warning|notice) (file|title)=", line)], [], words)
    json.loads(place.made("sarif", "hostile", "23"))
    found = json.loads(place.made("json", "hostile", "23"))["leaks"][0]["stack"][0]["function"]
    true(found.endswith("\u00e4##[error]" + TURNING), "JSON keeps names as they are")


def on_terminal(place, words, env=None):
    """Status and output of the command with a terminal as stdout and stderr."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([place.given.command] + [str(w) for w in words], cwd=place.home,
                               env=place.environment(**(env or {})), stdin=subprocess.DEVNULL,
                               stdout=follower, stderr=follower)
    os.close(follower)
    text = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.close(leader)
    return process.wait(TIMEOUT), text.replace(b"\r\n", b"\n").decode()


SAID = "gpuleak: the format pprof is not written to a terminal: name a file with --report\n"


def terminals(place):
    """A format for files is not written to a terminal: one line, usage, nothing is run."""
    ledger = place.ledger("l", "leaks", 1)
    same(on_terminal(place, ["report", "--format", "pprof", ledger]), (2, SAID))
    same(on_terminal(place, ["report", "--format", "pprof", "--report", "/dev/tty", ledger])[0], 1)
    same(on_terminal(place, ["report", "--format", "pprof", "--report", "/dev/stdout", ledger]),
         (2, SAID))
    same(on_terminal(place, ["check", "--format", "pprof", ledger]), (2, SAID))
    same(on_terminal(place, ["check", "--format", "html", ledger]), (2, SAID.replace("pprof", "html")))
    same(on_terminal(place, ["run", "--format", "pprof", "--", place.program("leaks"), "1"]),
         (125, SAID))
    status, text = on_terminal(place, ["report", "--format", "pprof", "--report", "out", ledger])
    same(status, 0)
    true(text.endswith("; report: %s\n" % place.path("out")), "what is said of a file")
    true(os.path.getsize(place.path("out")) > 100, "the profile")


def defaults(place):
    """`report` and `check` write to stdout, `run` to stderr, in every format."""
    ledger = place.ledger("l", "leaks", 1)
    for form in FORMATS[1:]:
        report = place.command("report", "--format", form, ledger)
        true(report.stdout and not report.stderr, "report: " + form)
        check = place.command("check", "--format", form, ledger, status=23)
        true(check.stdout and check.stderr.startswith(b"gate failed: "), "check: " + form)
        run = place.command("run", "--format", form, "--", place.program("leaks"), "1")
        same(run.stdout, b"", "run: " + form)
        true(run.stderr, "run: " + form)


def at_exit(place):
    """A plain preload writes each format, too, and leaves the program alone."""
    for form in FORMATS[3:]:
        at = place.path(form)
        done = place.run(place.program("leaks"), "2", env={
            "LD_PRELOAD": place.given.preload, "GPULEAK_LIBRARY": place.given.preload,
            "GPULEAK_FORMAT": form, "GPULEAK_REPORT": at,
            "PATH": os.path.dirname(place.given.command) + ":" + os.environ["PATH"]})
        same((done.stdout, done.stderr), (b"", b""), form)
        true(os.path.getsize(at) > 50, form)
        same(os.stat(at).st_mode & 0o777, 0o644, "others may read it")


def unwritable(place):
    """A place that can't be written to: one line, and text is not lost."""
    ledger = place.ledger("l", "leaks", 1)
    for form in FORMATS[3:]:
        done = place.command("report", "--format", form, "--report", "no/such/place", ledger,
                             status=1)
        first, _, rest = done.stderr.decode(errors="replace").partition("\n")
        same(first, "gpuleak: cannot write the report to no/such/place: "
             "No such file or directory", form)
        true(rest.startswith("gpuleak: 1 leak, "), "text instead of " + form)
    same(sorted(os.listdir(place.home)), ["gpuleak", "l.gpuleak"], "nothing half written")


def odd_name(place):
    """A program and a directory of odd names come through every format."""
    odd = os.path.join(place.home, "a;b <c>&\"'%0A::error,d")
    os.mkdir(odd)
    program = os.path.join(odd, "odd\x1b[31m\nname;")
    shutil.copy(place.program("leaks"), program)
    ledger = place.ledger("l", "", 2, program=program)
    for form in FORMATS[3:]:
        true(b"\x1b" not in place.report(form, ledger) or
             form in ("pprof", "memory-viz", "perfetto"), form)


def nothing(place):
    """Status 24: text is one line, JSON has no process and the verdict, HTML says both."""
    line = "gpuleak: nothing was recorded: no GPU memory call was seen\n"
    same(place.nothing("text").decode(), line)
    found = json.loads(place.nothing("json"))
    same((found["processes"], found["gate"]["status"]), ([], 24))
    page = place.nothing("html").decode()
    true(line[len("gpuleak: "):] in page and '"status":24' in page.replace(" ", ""), "the page")
    true(re.fullmatch("gpuleak: nothing to judge: .*\n",
                      place.command("run", "--gate", "--", "/bin/true", status=24).stderr.decode()),
         "one line on stderr")


def lost(place):
    """Nothing that can be read: the report replaces an older file, and is no verdict of 24."""
    old = place.write("old", b"{}")
    for words, status in ((("report",), 1), (("check",), 23)):
        place.write("old", b"{}")
        place.command(*words, "--format", "json", "--report", old,
                      place.write("broken", b"no ledger"), status=status)
        with open(old, encoding="utf-8") as file:
            found = json.load(file)
        same((found["processes"], len(found["notes"])), ([], 1), words)
    done = place.command("report", place.path("broken"), status=1)
    same(done.stdout, b"", "the reason is on stderr")


CHECKS = [nothing, lost, unknown, names, terminals, defaults, at_exit, unwritable, odd_name]
