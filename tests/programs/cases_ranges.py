# SPDX-License-Identifier: MIT
"""NVTX ranges: bytes by range, names, domains, threads; hostile programs; another tool that is the
injection; a process that loads the library for NVTX alone."""

import json
import os

from cases_top import Holder
from harness import Skipped, compare

KIB = 1 << 10
OUTSIDE = "(outside)"
OTHER = "(other)"


def rows(report):
    """{(name, domain): (allocated, freed, left, peak)} in KiB, with the numbers of blocks left."""
    ret = {}
    for item in report.get("ranges", []):
        name = OUTSIDE if item.get("outside") else OTHER if item["name"] is None else item["name"]
        figures = (item["allocated_bytes"], item["freed_bytes"], item["left_bytes"], item["peak_bytes"])
        ret[name, item["domain"]] = tuple(None if one is None else one // KIB for one in figures)
        compare("blocks left of " + name, bool(item["left_bytes"]), bool(item["left_blocks"]))
    return ret


def story(place, *words, stdout="", **env):
    """Ranges that the report on these stories has, and the report."""
    run = place.preloaded([place.program("ranges"), *words], {
        "GPULEAK_FORMAT": "json", "GPULEAK_REPORT": place.file("report.json"), **env})
    compare("status and output", (0, stdout, ""), (run.status, run.stdout, run.stderr))
    report = place.json("report.json")
    found = rows(report)
    if found:
        compare("all that was allocated", report["summary"]["allocated_bytes"],
                sum(item["allocated_bytes"] for item in report["ranges"]))
    return found, report


def nested(place):
    """ranges: one inside another; each has only its own memory; control characters"""
    found, report = story(place, "nested")
    compare("ranges", {
        ("serve/decode/inner\x1b[#m\n", None): (3, 0, 3, 3),
        ("serve/decode", None): (6, 4, 2, 2),
        ("serve", None): (1, 1, 0, 1),
        (OUTSIDE, None): (10, 0, 10, None),
    }, found)
    compare("order", ["serve/decode/inner\x1b[#m\n", "serve/decode", "serve", None],
            [item["name"] for item in report["ranges"]])
    text = place.preloaded([place.program("ranges"), "nested"]).stderr
    compare("text", True, "  3.0 KiB  serve/decode/inner\\x1B[#m\\x0A\n" in text)
    compare("no control characters", False, "\x1b" in text)


def folded(place):
    """ranges: names that differ in digits are one range, unless the user wants them as named"""
    compare("folded", {("request # of #", None): (5, 0, 5, 5)}, story(place, "folded")[0])
    found, _ = story(place, "folded", GPULEAK_RANGES_AS_NAMED="1")
    compare("as named", {("request %d of 1%d" % (i * 7, i), None): (1, 0, 1, 1) for i in range(5)},
            found)


def slashes(place):
    """ranges: two that look the same are one row, and one series of the metrics"""
    compare("ranges", {("layer/attention", None): (7, 2, 5, None)}, story(place, "slashes")[0])
    text = place.preloaded([place.program("ranges"), "slashes"],
                           {"GPULEAK_FORMAT": "openmetrics"}).stderr
    compare("series", 1, text.count("\ngpuleak_range_left_bytes{"))


def domains(place):
    """ranges: two domains that overlap; registered, wide and missing names"""
    wide = "gr\u00f6\u00dfe \u20ac \U0001f600"
    compare("ranges", {
        ("step/registered", "my library"): (1, 0, 1, 1),
        ("step/registered/" + wide, "other"): (2, 0, 2, 2),
        ("step/" + wide, "other"): (4, 0, 4, 4),
        ("wide", None): (8, 0, 8, 8),
        ("(no name)", "other"): (16, 0, 16, 16),
    }, story(place, "domains")[0])


def rmm(place):
    """ranges: RMM's domain, with registered names and payloads, inside those of the program"""
    call = "cuda_async_memory_resource::allocate"
    compare("ranges", {
        ("query #/" + call, "librmm"): (14, 12, 2, 12), ("query #", None): (1, 0, 1, 1),
        (call, "librmm"): (16, 16, 0, 16),
    }, story(place, "rmm")[0])


def threads(place):
    """ranges: of each thread; a range that is popped in another thread, or never"""
    found, report = story(place, "threads")
    compare("ranges", {
        ("even", None): (18, 16, 2, 10), ("odd", None): (18, 16, 2, 10),
        ("main", None): (1, 0, 1, 1), (OUTSIDE, None): (4, 0, 4, None),
    }, found)
    compare("notes", ["5 NVTX ranges were ended that their thread, or the program, had not begun: "
                      "they changed nothing"], report.get("notes"))


def started(place):
    """ranges: started and ended, by any thread; ended twice, or never"""
    found, report = story(place, "started")
    compare("ranges", {
        ("job #/other/part", None): (1, 0, 1, 1), ("other/part", None): (2, 0, 2, 2),
        ("other", None): (4, 0, 4, 4), (OUTSIDE, None): (8, 0, 8, None),
        ("/".join(["not ended"] * 31), None): (16, 0, 16, 16),
    }, found)
    compare("notes", 2, sum("1 NVTX ranges were ended that" in note or "were begun inside 31" in note
                            for note in report["notes"]))


def budgets(place):
    """ranges: a budget for what is left of them; it counts beside the leaks"""
    ledger = place.file("ledger")
    place.preloaded([place.program("ranges"), "nested"], {"GPULEAK_LEDGER": ledger})
    for rule, status, reason in (
            ("range:^serve/decode$ 2KiB", 0, ""), ("range:^serve/ 5KiB", 0, ""),
            ("range:^serve/ 1 blocks", 23, "2 blocks left, 1 block allowed"),
            ("range:decode 4KiB", 23, "in 2 blocks left, 4"),
            ("range:^serve$ 0", 0, ""), ("range:nowhere 0", 0, "")):
        path = place.write("budgets", rule + "\n")
        run = place.command("check", "--max-leaked-bytes", "1GiB", "--budgets", path, ledger)
        compare(rule, (status, True), (run.status, reason in run.stderr + run.stdout))


def deep(place):
    """ranges: one that is begun again and again; afterwards all is as before"""
    found, report = story(place, "deep")
    compare("ranges", {("/".join(["again"] * 31), None): (1, 0, 1, 1), ("after", None): (2, 0, 2, 2)},
            found)
    compare("notes", 1, sum("69 NVTX ranges were begun inside 31 others" in note
                            for note in report["notes"]))


def many(place):
    """ranges: a million names fill a table of fixed size; the rest is one row"""
    found, report = story(place, "many")
    compare("sum", (1001, 1), (sum(row[0] for row in found.values()), found[OTHER, None][2]))
    compare("rows", True, 1 < len(found) < 4096)
    compare("largest file", True, report["summary"]["peak_bytes"] == KIB)
    compare("notes", 1, sum('had no room in the table of ranges: their memory counts for "other"' in note
                            for note in report["notes"]))


def reset(place):
    """ranges: the device is reset in the middle"""
    compare("ranges", {("before", None): (3, 1, 2, 2)}, story(place, "reset")[0])


def clean(place):
    """ranges: a process without ranges has none; one that frees all keeps its one line"""
    found, report = story(place)
    compare("ranges", ({}, False), (found, "ranges" in report))
    run = place.command("run", "--format", "openmetrics", "--", place.program("ranges"), "nested")
    for line in ('gpuleak_range_left_bytes{%s,range="serve/decode",domain="",outside="0"} 2048',
                 'gpuleak_range_freed_bytes_total{%s,range="serve",domain="",outside="0"} 1024',
                 'gpuleak_range_peak_bytes{%s,range="serve/decode",domain="",outside="0"} 2048'):
        begin, end = line.split("%s")
        compare(line, 1, sum(got.startswith(begin) and got.endswith(end)
                             for got in run.stderr.splitlines()))
    compare("no peak outside", 0, sum(line.startswith("gpuleak_range_peak_bytes") and
                                      'outside="1"' in line for line in run.stderr.splitlines()))


def other_tool(place):
    """ranges: another tool is the injection: it sees the same ranges, and its results count"""
    tool = {"NVTX_INJECTION64_PATH": place.module("nvtx_tool")}
    seen = "tool: push serve\ntool: push decode\ntool: push inner\x1b[31m\n\ntool: pop\ntool: pop\ntool: pop\n"
    bare = place.run([place.program("ranges"), "nested", "domains"], tool)
    want, _ = story(place, "nested")
    compare("bare", True, bare.stdout.startswith(seen))
    compare("ranges", want, story(place, "nested", stdout=seen, **tool)[0])
    found, _ = story(place, "nested", "domains", stdout=bare.stdout, **tool)
    compare("same names", True, ("step/(no name)", "other") in found or
            ("step/registered", "other") in found)
    bare = place.run([place.program("ranges"), "started"], tool)
    compare("started, bare", True, "tool: start job 1\n" in bare.stdout and "tool: end 0\n" in bare.stdout)
    compare("started", story(place, "started")[0], story(place, "started", stdout=bare.stdout, **tool)[0])
    found, _ = story(place, "nested", TOOL_FAILS="1", **tool)
    compare("a tool that fails", want, found)
    found, _ = story(place, "nested", stdout="no tool\n", NVTX_INJECTION64_PATH="/nonexistent")
    compare("no library", {}, found)


def passive(place):
    """ranges: a process without the preload that loads the library for NVTX: it does nothing"""
    alone = {"NVTX_INJECTION64_PATH": os.path.abspath(place.options.preload),
             "GPULEAK_LEDGER": place.file("ledger"), "GPULEAK_REPORT": place.file("report")}
    run = place.run([place.program("ranges"), "nested"], alone)
    compare("output", (0, "no tool\n", ""), (run.status, run.stdout, run.stderr))
    compare("files", [False, False], [os.path.exists(place.file(name)) for name in ("ledger", "report")])
    place.nothing_left()
    run = place.command("run", "--gate", "--follow", "off", "--", "env", "-u", "LD_PRELOAD",
                        place.program("ranges"), "nested")
    compare("status of a gate: nothing was recorded", (24, True), (run.status, "without gpuleak" in run.stderr))


def environment(place):
    """ranges: the variable is set beside an environment that stays the same"""
    run = place.preloaded(["/usr/bin/env", "-0"], {"MORE": "1"})
    bare = place.run(["/usr/bin/env", "-0"], {"MORE": "1"})
    more = set(run.stdout.split("\0")) - set(bare.stdout.split("\0"))
    compare("more", {"LD_PRELOAD", "NVTX_INJECTION64_PATH"}, {line.split("=")[0] for line in more})


def real_header(place):
    """ranges: a program with NVIDIA's header"""
    if not os.path.exists(place.program("ranges_nvtx")):
        raise Skipped("nvtx3/nvToolsExt.h is not installed")
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        place.program("ranges_nvtx"))
    compare("output", (0, ""), (run.status, run.stdout))
    compare("ranges", {("outer", None): (1, 0, 1, 1), ("outer/registered", "library"): (2, 0, 2, 2),
                       ("outer/wide", None): (4, 0, 4, 4)}, rows(json.loads(place.read("report.json"))))


def by_range(place):
    """ranges: --by range lists what one call site left in each range; sums stay; top does so, too"""
    ledger = place.file("ledger")
    place.preloaded([place.program("ranges"), "folded"],
                    {"GPULEAK_LEDGER": ledger, "GPULEAK_RANGES_AS_NAMED": "1"})
    reports = [json.loads(place.command("report", "--format", "json", *flags, ledger).stdout)
               for flags in ((), ("--by", "call-site"), ("--by", "range"))]
    compare("call-site is the default", reports[0], reports[1])
    compare("one call site", [(5 * KIB, None)],
            [(leak["bytes"], leak.get("range")) for leak in reports[0]["leaks"]])
    compare("summary", reports[0]["summary"], reports[2]["summary"])
    compare("leaks", {"in the range request %d of 1%d" % (i * 7, i): KIB for i in range(5)},
            {leak["range"]: leak["bytes"] for leak in reports[2]["leaks"]})
    text = place.command("report", "--by", "range", ledger).stdout
    compare("text", 1, text.count(", in the range request 14 of 12, allocated at:\n"))
    for style in ("folded", "github", "sarif", "junit"):
        shown = place.command("report", "--by", "range", "--format", style, ledger).stdout
        compare(style, True, "in the range request 14 of 12" in shown)
    for flags in (("--by", "colour"), ("--by", "range", "--max-leaked-bytes", "1GiB")):
        compare(flags, 2, place.command("report", *flags, ledger).status)
    with Holder(place, ("ranges", "nested", "wait")) as holder:
        shown = place.command("top", "--once", "--by", "range", holder.pid).stdout
        compare("top", (1, 1, 1), (shown.count(", in the range serve/decode,"),
                                   shown.count(", in the range serve/decode/inner\\x1B[#m\\x0A,"),
                                   shown.count(", outside all ranges,")))
        holder.end(0)


RANGES = [by_range, nested, folded, slashes, domains, rmm, threads, started, budgets, deep, many, reset, clean, other_tool, passive, environment,
          real_header]
