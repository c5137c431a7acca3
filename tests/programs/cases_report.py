# SPDX-License-Identifier: MIT
"""What reports say in words: names of functions, results and places."""

import os
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
    # gcc's debug information names the part that the compiler made, clang's the function itself.
    compare("the part that the compiler made", [True] * 3,
            [bool(re.search(r"\)( \[clone \.(actor|resume)\])?$", name)) for name in names[:3]])
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
    compare("the form", True, "this is the short form of the report" in run.stderr)
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
    compare("totals", True, "allocated by ends\\x0A" in run.stderr.split("\n")[1])


def hostile_messages(place):
    """names: a command's messages spell out newlines and characters that turn text"""
    ledger = place.file(HOSTILE)
    for argv in (["report", ledger], ["check", ledger], ["diff", ledger, ledger], [HOSTILE],
                 ["report", "--" + HOSTILE], ["run", "--", ledger], ["top", HOSTILE],
                 ["run", "--format", HOSTILE, "--", "true"],
                 ["run", "--baseline", ledger, "--", "true"]):
        run = place.command(*argv)
        compare("%s: status" % argv, True, run.status != 0)
        harmless("%s" % argv, run.stderr + run.stdout, run.stderr.count("ends\\x0A"))
        compare("%s: named" % argv, True, "ends\\x0A" in run.stderr)


# ---- results of drivers, and places ----

def cuda_results(place):
    """results: an error has the name that cuGetErrorName gives what the driver answered"""
    argv = [place.program("only_main"), "more", "twice"]
    compare("text", 1, place.preloaded(argv).stderr.count(
        "freed already (the driver returned CUDA_ERROR_INVALID_VALUE (1))"))
    place.preloaded(argv, reporting(place))
    compare("json", [(1, "CUDA_ERROR_INVALID_VALUE")],
            [(error["result"], error["result_name"])
             for error in place.json("report.json")["errors"]])


@needs("cl_leak")
def opencl_results(place):
    """results: an error has OpenCL's name of what the driver answered"""
    argv = [place.program("cl_leak"), "twice"]
    pool = {"GPULEAK_POOL": "strict"} # it answers itself, where drivers crash
    compare("text", 1, place.preloaded(argv, pool).stderr.count(
        "(the driver returned CL_INVALID_MEM_OBJECT (-38))"))
    place.preloaded(argv, reporting(place, **pool))
    compare("json", [(-38, "CL_INVALID_MEM_OBJECT")],
            [(error["result"], error["result_name"])
             for error in place.json("report.json")["errors"]])


def first_line(place):
    """places: the first line names that of the worst leak, or of an error"""
    source = r"only_main\.c:%d\)"
    for words, said in (
            (["more"], r"gpuleak: 2 leaks, \S+ KiB in 2 blocks never freed, most \(1\.9 KiB\) at main \(\S+" +
             source % line_of("only_main.c", "main")),
            (["more", "twice"], r"gpuleak: double free of 0x[0-9a-f]+ at give_back \(\S+" +
             source % line_of("only_main.c", "give_back"))):
        lines = place.preloaded([place.program("only_main"), *words]).stderr.split("\n")
        compare("place in " + lines[0], True, re.match(said, lines[0]) is not None)
        compare("other finding", "twice" in words, lines[1].startswith("gpuleak: also: 2 leaks ("))


def without_debuginfo(place):
    """places: of a program without debug information the report says once what helps"""
    said = ("note: lines or functions are missing above, because these modules have no debug information: "
            "%s; compile them with -g (Rust: debug = 1 in Cargo.toml) and do not strip them" % place.program("stripped"))
    text = place.command("run", "--", "sh", "-c", "%s; %s more thread" %
                         (2 * (place.program("stripped"),))).stderr
    compare("processes", 2, text.count("exited with status"))
    compare("lines", [said], [line for line in text.split("\n") if "-g" in line.split()])
    text = place.preloaded([place.program("only_main"), "more"]).stderr
    compare("a program with -g", 0, text.count("compile with"))
    ledger, program = place.file("ledger"), place.file("gone")
    shutil.copy(place.program("stripped"), program)
    place.preloaded([program], {"GPULEAK_LEDGER": ledger, "GPULEAK_REPORT": "none"})
    os.unlink(program)
    text = place.command("report", ledger).stdout
    compare("a program that is gone", (0, 1), (text.count("compile with"),
                                               text.count("gone cannot be read")))


def without_unwind_tables(place):
    """places: where unwind tables lack the report says once why callers are missing"""
    said = ("note: callers are missing above, because these modules have no unwind tables: %s; compile them "
            "with -fasynchronous-unwind-tables or -fno-omit-frame-pointer" % place.program("no_tables"))
    text = place.command("run", "--", "sh", "-c", "%s; %s more" %
                         (2 * (place.program("no_tables"),))).stderr
    compare("processes", 2, text.count("exited with status"))
    compare("lines", [said], [line for line in text.split("\n") if "unwind" in line])
    for program in ("frame_pointers", "only_main"):
        text = place.preloaded([place.program(program)]).stderr
        compare(program, 0, text.count("unwind"))


@needs("static_object")
def static_objects(place):
    """places: a static object's memory is perhaps freed after the driver's end, a local's is not"""
    run = place.preloaded([place.program("static_object")])
    compare("frees", "~Buffer: 4\n~Buffer: 4\n", run.stdout)
    leaks = run.stderr.split("\nLeak of ")
    compare("headline", True, "; perhaps freed by a destructor after the driver had shut down" in
            leaks[0].replace(";\ngpuleak: ", "; "))
    compare("leaks", [("5,000", True), ("4,000", False)],
            [(leak.split(" bytes")[0], "Perhaps freed by a destructor after" in leak)
             for leak in leaks[1:]])


def frames_that_start(place):
    """places: frames of the C library that start a program need no lines, and no report shows it"""
    ledger, rules = place.file("ledger"), place.file("rules")
    place.preloaded([place.program("begins")], {"GPULEAK_LEDGER": ledger, "GPULEAK_REPORT": "none"})
    with open(rules, "w", encoding="utf-8"):
        pass
    for verbose in "0", "1":
        names, lines = (place.command("report", "--verbose", verbose, *more, ledger).stdout
                        for more in ((), ("--rules", rules)))
        compare("text", lines, names)
        compare("ways", (6, 6), (names.count("\nLeak of "), names.count("#0 leak ")))


REPORT = [frames_that_start, static_objects, coroutines, hostile_short_form, hostile_text, hostile_messages, cuda_results,
          opencl_results, first_line, without_debuginfo, without_unwind_tables]
