# SPDX-License-Identifier: MIT
"""What reports say in words: names of functions, results and places."""

import re

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


REPORT = [coroutines]
