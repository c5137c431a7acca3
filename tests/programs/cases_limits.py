# SPDX-License-Identifier: MIT
"""GPULEAK_LIMIT and GPULEAK_FAIL_AT as a user meets them: which call fails, what is said of
it, and what bad values get. That every call of every API can fail so: tests/matrix."""

import os
import re

from harness import compare
from stories import needs, one_line, reporting

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..", "..")
GIB = 1 << 30
ALL = ["alloc:1", "managed:1", "async:1", "pinned:1", "pitch:4:1", "array:4"]


def ran(place, *words, **env):
    """p_limits' output and the report's part on refusals; nothing else may be said."""
    run = place.preloaded([place.program("limits"), *words], reporting(place, **env))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    report = place.json("report.json")
    compare("leaks and errors", ([], []), (report["leaks"], report["errors"]))
    return run.stdout.split("\n")[:-1], report


def told(place, *words, **env):
    """What it says on stderr before a report in text."""
    run = place.preloaded([place.program("limits"), *words], env)
    compare("status", 0, run.status)
    return run.stdout.split("\n")[:-1], run.stderr


@needs("limits")
def nth(place):
    """GPULEAK_FAIL_AT=N: that call alone, of whatever kind, and the report says where"""
    for n in range(1, len(ALL) + 1):
        out, report = ran(place, *ALL, GPULEAK_FAIL_AT=str(n))
        compare("answers", ["%s %d" % (word, 2 if at == n else 0)
                            for at, word in enumerate(ALL, 1)], out)
        compare("injected", 1, report["pool"]["injected_failures"])
        compare("refused", (0, None), (report["pool"]["refused"], report["pool"]["first_refused"]))
        compare("blocks", len(ALL) - 1, report["summary"]["allocated_blocks"])
        first = report["pool"]["first_injected"]
        functions = [frame["function"] for frame in first["stack"]]
        compare("stack", True, "main" in functions[functions.index("allocate"):])
    out, report = ran(place, *ALL, GPULEAK_FAIL_AT="7")
    compare("answers", [word + " 0" for word in ALL], out)
    compare("injected", (0, None),
            (report["pool"]["injected_failures"], report["pool"]["first_injected"]))


@needs("limits")
def from_nth(place):
    """GPULEAK_FAIL_AT=N+: from there on, in the text report, too"""
    out, err = told(place, "alloc:1", *ALL, GPULEAK_FAIL_AT="3+")
    compare("answers", ["alloc:1 0", "alloc:1 0"] + [word + " 2" for word in ALL[1:]], out)
    compare("line", True, re.search(
        r"gpuleak: GPULEAK_FAIL_AT: 5 allocations made to fail, the first a cuMemAllocManaged at allocate "
        r"\(\S+limits\.c:\d+\), called from main ", err) is not None)


@needs("limits")
def limit(place):
    """GPULEAK_LIMIT: to the byte, over kinds of device memory, and given back by any end"""
    out, report = ran(place, "alloc:600", "managed:300", "async:101", "async:100", "alloc:1",
                      "pinned:5000", "free", "free", "array:100", "alloc:1", "reset", "alloc:900",
                      "alloc:1", "free", "alloc:901", "alloc:900", GPULEAK_LIMIT="1000")
    compare("answers", ["alloc:600 0", "managed:300 0", "async:101 2", "async:100 0", "alloc:1 2",
                        "pinned:5000 0", "free 0", "free 0", "array:100 0", "alloc:1 2",
                        "reset 0", "alloc:900 0", "alloc:1 0", "free 0", "alloc:901 2",
                        "alloc:900 2"], out)
    compare("refused", 5, report["pool"]["refused"])
    compare("limit", 1000, report["pool"]["limit_bytes"])
    compare("first", "cuMemAllocAsync", report["pool"]["first_refused"]["api"])
    compare("peak", True, report["summary"]["peak_bytes"] <= 1000 + 5000)


@needs("limits")
def pitch(place):
    """a pitch that makes a block larger than it said: it counts as large as it became"""
    out, _ = ran(place, "pitch:100:4", "alloc:1", "free", "alloc:2048", "alloc:1",
                 GPULEAK_LIMIT="2048")
    compare("answers", ["pitch:100:4 0", "alloc:1 2", "free 0", "alloc:2048 0", "alloc:1 2"], out)


@needs("limits")
def devices(place):
    """a limit is each device's own, and a percentage is of it"""
    out, report = ran(place, "alloc:%d" % (GIB // 2), "alloc:1", "device:1",
                      "alloc:%d" % (GIB // 2), "alloc:1", GPULEAK_LIMIT="50%",
                      STANDIN_MEMORY=str(GIB), STANDIN_DEVICES="2")
    compare("answers", ["alloc:536870912 0", "alloc:1 2"] * 2, out)
    compare("limit", GIB // 2, report["pool"]["limit_bytes"])


@needs("limits")
def told_what_is_left(place):
    """cuMemGetInfo: free is what may still be had, total is the device"""
    words = ["left", "alloc:600", "left", "free", "left"]
    for pool in ("off", "fast"):
        out, _ = ran(place, *words, GPULEAK_LIMIT="1000", GPULEAK_POOL=pool)
        compare("with the pool " + pool, ["1000", "400", "1000"],
                [line.split()[1] for line in out if line.startswith("left")])
        compare("total", {"17179869184"}, {line.split()[3] for line in out if " of " in line})


@needs("limits")
def children(place):
    """each process has its own limit and its own calls"""
    run = place.preloaded([place.program("limits"), "fork", "alloc:1000", "alloc:1"],
                          {"GPULEAK_LIMIT": "1000", "GPULEAK_REPORT": "none"})
    compare("answers", ["alloc:1000 0", "alloc:1 2"] * 2, run.stdout.split("\n")[:-1])
    run = place.preloaded([place.program("limits"), "fork", "alloc:1", "alloc:1"],
                          {"GPULEAK_FAIL_AT": "2", "GPULEAK_REPORT": "none"})
    compare("answers", ["alloc:1 0", "alloc:1 2"] * 2, run.stdout.split("\n")[:-1])


@needs("limits")
def bad_values(place):
    """bad limits and numbers: one line that says what is used, and the program runs on"""
    for name, values in (("LIMIT", ("0", "0%", "101%", "lots", "-1", "1.5GiB", "10%%")),
                         ("FAIL_AT", ("0", "0+", "x", "1-", "+", "-3", "1 +"))):
        for value in values:
            out, err = told(place, "alloc:1", **{"GPULEAK_" + name: value})
            compare("answers", ["alloc:1 0"], out)
            one_line(err, "gpuleak: bad value '%s' of GPULEAK_%s: expected is" % (value, name),
                     "the default is used: unset")
            compare("lines", 2, len(err.splitlines()))  # and the report
    run = place.command("run", "--limit", "0", "--", place.program("limits"))
    compare("status of run", 125, run.status)


@needs("limits")
def above_device(place):
    """a limit above the device: said once, and the device is the limit"""
    out, err = told(place, "managed:%d" % GIB, "managed:1", GPULEAK_LIMIT="2GiB",
                    STANDIN_MEMORY=str(GIB))
    compare("answers", ["managed:1073741824 0", "managed:1 2"], out)
    compare("line", ["gpuleak: GPULEAK_LIMIT: CUDA device 0 has less memory than this limit; the limit is "
                     "all of its 1073741824 bytes"],
            [line for line in err.splitlines() if "less memory than" in line])


@needs("limits")
def unknown_device(place):
    """a percentage of a device that does not tell its size: said once, and no limit"""
    out, err = told(place, "alloc:1000", "alloc:1000", GPULEAK_LIMIT="1%",
                    STANDIN_FAIL="cuDeviceTotalMem_v2:1+=999")
    compare("answers", ["alloc:1000 0"] * 2, out)
    one_line(err, "gpuleak: GPULEAK_LIMIT: CUDA device 0 does not report its size",
             "the device has no limit")
    out, _ = told(place, "alloc:1000", "alloc:1", GPULEAK_LIMIT="1000",
                  STANDIN_FAIL="cuDeviceTotalMem_v2:1+=999")
    compare("a limit in bytes needs no size", ["alloc:1000 0", "alloc:1 2"], out)


# By word: the call that is made to answer 2 at first.
SHORT = {"managed:4096": "cuMemAllocManaged", "pitch:64:64": "cuMemAllocPitch_v2",
         "async:4096": "cuMemAllocAsync", "array:4096": "cuArrayCreate_v2",
         "stream": "cuStreamCreate"}


@needs("limits")
def relieved(place):
    """out of memory in any call: the pool gives back what it keeps, and the call is made again"""
    for pool in ("strict", "fast"):
        for word, call in SHORT.items():
            fail = "%s:1=2" % call
            # The first stream is the pool's own, made at its first block.
            later = "%s:2=2" % call if word == "stream" else fail
            out, report = ran(place, "alloc:4194304", "free", word, GPULEAK_POOL=pool,
                              STANDIN_FAIL=later)
            compare("%s, %s" % (pool, word), ["alloc:4194304 0", "free 0", word + " 0"], out)
            trimmed = sum(each["trimmed_blocks"] for each in report["pool"]["pools"])
            compare("blocks given back", 1, trimmed)
            out, _ = ran(place, word, GPULEAK_POOL=pool, STANDIN_FAIL=fail)
            compare("with nothing to give", word + " 2", out[-1].replace(" and an address", ""))
    out, _ = ran(place, "alloc:4194304", "free", "stream", STANDIN_FAIL="cuStreamCreate:1=2")
    compare("without a pool", "stream 2", out[-1])


@needs("limits")
def limited_pool(place):
    """a limit with the pool on: what the pool keeps is not held, refusals are the same"""
    words = ["alloc:600", "alloc:500", "free", "alloc:1000", "alloc:1", "free", "alloc:1000",
             "free", "alloc:400", "alloc:600", "alloc:1", "reset", "alloc:1000", "alloc:1"]
    plain, _ = ran(place, *words, GPULEAK_LIMIT="1000")
    for pool in ("strict", "fast"):
        out, report = ran(place, *words, GPULEAK_LIMIT="1000", GPULEAK_POOL=pool)
        compare("answers with " + pool, plain, out)
        compare("refused", 4, report["pool"]["refused"])
        out, _ = ran(place, *words, GPULEAK_FAIL_AT="4", GPULEAK_POOL=pool)
        compare("the fourth, with " + pool, [3], [at for at, line in enumerate(
            line for line in out if line.startswith("alloc")) if line.endswith(" 2")])


def script_of(page):
    """The first block of shell in docs/PAGE."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
        return re.search(r"```sh\n(.*?)```", file.read(), re.S)[1]


@needs("limits")
def documented_loop(place):
    """the script of docs/guides/faults.md finds each call, and stops after the last"""
    command = "%s alloc:1 async:1 pinned:1" % place.program("limits")
    script = script_of("guides/faults.md").replace("./app", command)
    os.symlink(place.options.command, place.file("gpuleak"))
    run = place.run(["sh", "-c", script], {
        "PATH": "%s:%s" % (place.path, os.environ.get("PATH", "/usr/bin:/bin"))})
    compare("status", 0, run.status)
    failed = [line for line in run.stdout.splitlines() if line.endswith(" 2")]
    compare("each has failed once", ["alloc:1 2", "async:1 2", "pinned:1 2"], failed)
    compare("the end", "3 allocation calls", run.stdout.splitlines()[-1])


LIMITS = [nth, from_nth, limit, pitch, devices, told_what_is_left, children, bad_values, above_device,
          unknown_device, relieved, limited_pool, documented_loop]
