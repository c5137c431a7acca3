# SPDX-License-Identifier: MIT
"""The guard: what is on, what it finds, and clean programs that it must not blame."""

from harness import compare
from stories import needs, reporting


@needs("clean")
def levels(place):
    """guard: the report lists the levels that are on; without the option it has none"""
    for value, want in (("copies", ["copies"]), ("pages,copies", ["copies", "pages"]),
                        ("off", None), (None, None)):
        env = {} if value is None else {"GPULEAK_GUARD": value}
        run = place.preloaded([place.program("clean")], reporting(place, **env))
        compare("status and stderr", (0, ""), (run.status, run.stderr))
        compare(value, want, place.json("report.json").get("guard", {}).get("levels"))


@needs("clean")
def bad_values(place):
    """guard: a value that is no list of levels is named once, and nothing is guarded"""
    for value in ("copy", "copies,", "copies,off", ""):
        run = place.preloaded([place.program("clean")], reporting(place, GPULEAK_GUARD=value))
        compare(value, (0, 1, True), (run.status, run.stderr.count("\n"), run.stderr.startswith(
            "gpuleak: bad value '%s' of GPULEAK_GUARD: expected is off, or a list" % value)))
        compare("guard", None, place.json("report.json").get("guard"))


@needs("clean")
def pool(place):
    """guard: it turns the pool off; a named pool is one warning, and 125 by gpuleak run"""
    run = place.preloaded([place.program("clean")], reporting(place, GPULEAK_GUARD="copies",
                                                              GPULEAK_POOL="fast"))
    compare("status and stderr", (0, "gpuleak: GPULEAK_GUARD turns the pool off: GPULEAK_POOL is "
                                  "ignored\n"), (run.status, run.stderr))
    compare("pool", (None, ["copies"]), (place.json("report.json").get("pool"),
                                         place.json("report.json")["guard"]["levels"]))
    for env, flags in (({}, ("--pool", "fast")), ({"GPULEAK_POOL": "strict"}, ())):
        run = place.command("run", "--guard", "copies", *flags, "--", place.program("clean"), env=env)
        compare("run", (125, 1), (run.status, run.stderr.count("\n")))
        compare("line", True, "--guard turns the pool off" in run.stderr)


GUARD = [levels, bad_values, pool]
