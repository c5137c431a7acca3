# SPDX-License-Identifier: MIT
"""What reports say in words: names of functions, results and places."""

import re
import shutil

from harness import compare, line_of
from stories import needs, reporting


# ---- names ----

@needs("coroutine")
def coroutines(place):
    """names: functions of C++20 coroutines are demangled"""
    place.preloaded([place.program("coroutine")], reporting(place))
    leaks = place.json("report.json")["leaks"]
    frames = [leak["stack"][0] for leak in leaks]
    names = [frame["function"] for frame in frames]
    compare("mangled names", [], [frame["function"] for leak in leaks for frame in leak["stack"]
                                  if (frame["function"] or "").startswith("_Z")])
    compare("functions", ["fill", "receive", "receive", "part", "clang"],
            [re.search(r"net::(?:Session::)?(\w+)[<(]", name).group(1) for name in names])
    compare("the part that the compiler made", [True] * 3,
            [bool(re.search(r" \[clone \.(actor|resume)\]$", name)) for name in names[:3]])
    compare("what optimization made, and what it did not",
            ["net::part(unsigned long)", "net::clang(unsigned long) [clone .resume]"], names[3:])
    compare("lines", [line_of("coroutine.cpp", name)
                      for name in ("fill", "second", "first", "part", "clang")],
            [frame["line"] for frame in frames])


HOSTILE = "ends\n::error::owned\u202e\u2066\x1b[31m"


def harmless(what, text, times):
    """No name in TEXT ends a line or turns text; it stands there TIMES, spelled out."""
    compare(what + ": lines that a name began", [],
            [line for line in text.split("\n") if line.startswith("::")])
    compare(what + ": characters that passed", [],
            re.findall("[\0-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", text))
    compare(what + ": spelled out", times,
            text.count("\\x0A::error::owned\\xE2\\x80\\xAE\\xE2\\x81\\xA6\\x1B[31m"))


def hostile_short_form(place):
    """names: the fallback report spells out newlines and characters that turn text"""
    program, library = place.file(HOSTILE), place.file("libgpuleak.so")
    shutil.copy(place.program("ends"), program)
    shutil.copy(place.options.preload, library) # no command beside it
    run = place.run([program], {"LD_PRELOAD": library})
    compare("the form", True, "this is the short form" in run.stderr)
    harmless("short form", run.stderr, run.stderr.count("(ends"))
    run = place.run([program], {"LD_PRELOAD": library, "GPULEAK_" + HOSTILE: "1",
                                "GPULEAK_STACK_DEPTH": "1"})
    harmless("a message", run.stderr, 1 + run.stderr.count("(ends"))


def hostile_text(place):
    """names: the text report spells out newlines and characters that turn text"""
    program = place.file(HOSTILE)
    shutil.copy(place.program("ends"), program)
    run = place.preloaded([program])
    harmless("report", run.stderr, run.stderr.count("ends\\x0A"))
    compare("first line", True, "never freed by ends\\x0A" in run.stderr.split("\n")[0])


REPORT = [coroutines, hostile_short_form, hostile_text]
