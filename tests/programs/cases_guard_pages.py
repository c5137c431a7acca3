# SPDX-License-Identifier: MIT
"""The guard's level pages: planted accesses, each with a clean twin, and what an application must
not notice."""

import os

from harness import compare, line_of
from stories import needs, reporting

SOURCE = "guard_pages.c"


def run_one(place, args, **env):
    """(standard output, report) of the program ARGS under the guard."""
    run = place.preloaded([place.program("guard_pages"), *args.split()],
                          reporting(place, STANDIN_ASYNC="1",
                                    **{"GPULEAK_GUARD": "pages", "GPULEAK_GUARD_SAMPLE": "1",
                                       **env}))
    compare("status of " + args, 0, run.status)
    return run.stdout, place.json("report.json")


def bare(place, args):
    run = place.run([place.program("guard_pages"), *args.split()], {"STANDIN_ASYNC": "1"})
    compare("bare status of " + args, 0, run.status)
    return run.stdout


def places(stack):
    """The lines in the program's own source, innermost first."""
    return [frame["line"] for frame in stack or []
            if os.path.basename(frame["file"] or "") == SOURCE]


def fault(report):
    """The only error: (kernel, certainty, block's bytes, line of the launch, of the allocation, of
    the free), or None if there is none."""
    errors = [error for error in report["errors"] if error["type"] == "access-fault"]
    if not errors:
        return None
    compare("number of faults", 1, len(errors))
    error = errors[0]
    first = [places(event and event["stack"])[:1] for event in
             (error, error["allocated"], error["freed"])]
    return (error.get("kernel"), error.get("certainty"), (error["allocated"] or {}).get("bytes"),
            *[lines[0] if lines else None for lines in first])


def wanted(size, free=None, kernel="gl_touch", launch="launch", certainty="likely"):
    return (kernel, certainty, size, line_of(SOURCE, launch), line_of(SOURCE, "made"),
            free and line_of(SOURCE, free))


# (arguments, options, what is found): the twin of each is the access that follows it.
PLANTED = [
    ("touch 1024 1024 w", {}, wanted(1024)),
    ("touch 1000 1024 w", {}, wanted(1000)),
    ("touch 1000 1008 w", {"GPULEAK_GUARD_ALIGN": "16"}, wanted(1000)),
    ("touch 1000 1040 r", {}, wanted(1000)),
    ("touch 1000 1024 w", {"GPULEAK_GUARD_ALIGN": "200"}, wanted(1000)),
    ("touch 1200 1536 w", {"GPULEAK_GUARD_ALIGN": "512"}, wanted(1200)),
    ("touch 1024 1280 w", {}, wanted(1024)),
    ("touch 1024 5120 r", {}, wanted(1024)),
    ("touch 100000 100096 w", {"GPULEAK_GUARD_ALIGN": "256"}, wanted(100000)),
    ("touch 100000 100352 w", {}, wanted(100000)),
    ("touch 5000000 5000192 w", {}, wanted(5000000)),
    ("touch 1000 -1 w", {"GPULEAK_GUARD_SIDE": "before"}, wanted(1000)),
    ("touch 1000 -4096 r", {"GPULEAK_GUARD_SIDE": "before"}, wanted(1000)),
    ("touch 1000 0 w freed", {}, wanted(1000, "freed")),
    ("touch 1000 999 r freed", {}, wanted(1000, "freed")),
    ("touch 300000 5 w freed", {}, wanted(300000, "freed")),
    ("touch 300000 5 w freed_async", {}, wanted(300000, "freed_async")),
    ("touch 1000 1024 w", {"GPULEAK_GUARD_SYNC": "1"}, wanted(1000, certainty="proven")),
    ("touch 1000 7 w freed", {"GPULEAK_GUARD_SYNC": "1"},
     wanted(1000, "freed", certainty="proven")),
    ("struct wrong", {}, wanted(300, kernel="gl_touch_struct", launch="by_struct")),
    ("struct large", {}, wanted(1 << 20, kernel="gl_touch_struct", launch="by_struct")),
    ("copy w", {}, wanted(70000)),
    ("copy w", {"GPULEAK_GUARD_SYNC": "1"}, wanted(70000, certainty="proven")),
]
CLEAN = ["touch 1024 1023 w", "touch 1000 999 r", "touch 100000 99999 w", "touch 5000000 4999999 w",
         "touch 1000 0 w", "struct ok", "copy ok", "pitch ok", "query", "work", "capture",
         "reset ok", "many", "threads"]


def planted(args, options, want):
    @needs("guard_pages")
    def story(place):
        out, report = run_one(place, args, **options)
        compare("fault", want, fault(report))
        compare("700 in the output", True, "700" in out)

    story.__doc__ = "guard pages: found: %s %s" % (args, " ".join(options.values()))
    return story


def clean(args, options):
    @needs("guard_pages")
    def story(place):
        want = bare(place, args)
        out, report = run_one(place, args, **options)
        compare("output", want, out)
        compare("faults", None, fault(report))
        compare("guarded blocks", True, report["guard"]["guarded_blocks"] > 0)

    story.__doc__ = "guard pages: no change: %s %s" % (args, " ".join(options.values()))
    return story


def damaged(args, distance, levels, **env):
    @needs("guard_pages")
    def story(place):
        out, report = run_one(place, args, GPULEAK_GUARD=levels, **env)
        compare("output", bare(place, args), out)
        found = [(error["type"], int(error["address"], 16) - int(error["block_address"], 16),
                  error["accessed_bytes"], places(error["allocated"]["stack"])[:1])
                 for error in report["errors"]]
        compare("damage", [("write-out-of-bounds", distance, 1, [line_of(SOURCE, "made")])], found)

    story.__doc__ = "guard pages: %s finds in the pattern: %s %s" % (levels, args, " ".join(env.values()))
    return story


@needs("guard_pages")
def suspects(place):
    """guard pages: all launches and blocks that may have faulted are named, the most likely first"""
    error = [each for each in run_one(place, "struct wrong")[1]["errors"]
             if each["type"] == "access-fault"][0]
    compare("others", [("gl_touch_struct", 1 << 20, "by_struct"), ("gl_touch", 1 << 20, "launch")],
            [(each["kernel"], each["allocated"]["bytes"],
              {line_of(SOURCE, name): name for name in ("by_struct", "launch")}[
                  places(each["stack"])[0]]) for each in error["other_suspects"]])
    run = place.command("run", "--guard", "pages", "--guard-sample", "1", "--",
                        place.program("guard_pages"), "struct", "wrong",
                        env={"STANDIN_ASYNC": "1"})
    compare("words", 2, run.stderr.count("  Or cuLaunchKernel launched gl_touch"))


@needs("guard_pages")
def filled(place):
    """guard pages: fresh memory of a block holds the pattern if the level patterns is on"""
    for levels in ("pages", "patterns,pages"):
        out, report = run_one(place, "fresh", GPULEAK_GUARD=levels)
        compare("errors", [], report["errors"])
        compare("the pattern by " + levels, levels != "pages", out == "fresh 7ffb7ffb\n")


@needs("guard_pages")
def pitched(place):
    """guard pages: rows of cuMemAllocPitch end at the unmapped page"""
    out, report = run_one(place, "pitch w")
    compare("output", "pitch 512, aligned 1\nresult 700\n", out)
    compare("bytes", 5120, fault(report)[2])


@needs("guard_pages")
def after_reset(place):
    """guard pages: a block ends with its context, and its addresses are illegal"""
    out, report = run_one(place, "reset w")
    compare("output", "back 1\nresult 700\n", out)
    compare("block", 8 << 20, fault(report)[2])


@needs("guard_pages")
def sampled(place):
    """guard pages: by default all blocks from 64 KiB on, and one of 16 smaller ones"""
    report = run_one(place, "work", GPULEAK_GUARD_SAMPLE="0")[1]
    # of 40 sizes 4 * (100 + 700 i * i) those from i = 5 on have 64 KiB
    compare("guarded", 5 * 35 + 2, report["guard"]["guarded_blocks"])
    compare("not guarded", [{"reason": "not in the sample", "blocks": 23}],
            report["guard"]["unguarded"])


@needs("guard_pages")
def bounded(place):
    """guard pages: guards take an eighth of the device, and all requests are served"""
    report = run_one(place, "many", STANDIN_MEMORY=str(1 << 30))[1]
    taken = (2 << 20) - 70000
    compare("guarded", (128 << 20) // taken, report["guard"]["guarded_blocks"])
    compare("reason", ["no memory left for guards"],
            [each["reason"] for each in report["guard"]["unguarded"]])


@needs("guard_pages")
def refused(place):
    """guard pages: if a step of the driver fails, the driver serves the request"""
    for step in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAddressReserve"):
        out, report = run_one(place, "touch 1000 999 w", STANDIN_FAIL=step + ":1+=2")
        compare(step, ("result 0, then 0\n", 0),
                (out, report["guard"]["guarded_blocks"]))
        compare(step + " counted", 1, len(report["guard"]["unguarded"]))


@needs("guard_pages")
def captured(place):
    """guard pages: a block that is made while a stream is captured is not guarded, and counted"""
    report = run_one(place, "capture")[1]
    compare("guarded", 1, report["guard"]["guarded_blocks"])
    compare("reason", [{"reason": "made while a stream was captured", "blocks": 1}],
            report["guard"]["unguarded"])
    compare("graphs", 1, report["guard"]["unknown_launches"])


@needs("guard_pages")
def waiting(place):
    """guard pages: a free waits for the device, or with --guard-wait 0 and --bypass-pools it does not"""
    for levels in ("pages", "patterns", "copies,patterns,pages"):
        for wait, kernel in (("1", 0), ("0", 600)):
            out, report = run_one(place, "waits", GPULEAK_GUARD=levels, GPULEAK_GUARD_WAIT=wait)
            compare("output", "free 0, kernel %d\n" % kernel, out)
            compare("errors", [], report["errors"])
    for options, kernel in ((["--bypass-pools"], 600), (["--bypass-pools", "--guard-wait", "1"], 0), ([], 0)):
        run = place.command("run", "--guard", "pages,patterns", *options, "--",
                            place.program("guard_pages"), "waits", env={"STANDIN_ASYNC": "1"})
        compare("with %s" % options, "free 0, kernel %d\n" % kernel, run.stdout)


@needs("guard_pages")
def reused(place):
    """guard pages: memory of freed blocks serves later ones, with no new memory of the driver"""
    for size, levels, call in (("70000", "pages", "cuMemCreate"), ("1000", "patterns", "cuMemAlloc_v2"),
                               ("70000", "copies,patterns,pages", "cuMemCreate"),
                               ("70000", "copies,patterns,pages", "cuMemAlloc_v2")):
        for wait in ("0", "1"):
            out, report = run_one(place, "churn " + size, GPULEAK_GUARD=levels, GPULEAK_GUARD_WAIT=wait,
                                  GPULEAK_GUARD_HOLD="4KiB", STANDIN_FAIL=call + ":90+=2")
            compare("output", "failed 0\n", out)
            compare("errors and blocks", ([], 300, []),
                    (report["errors"], report["guard"]["guarded_blocks"], report["guard"]["unguarded"]))


@needs("guard_pages")
def excluded(place):
    """guard pages: blocks of excluded libraries are not guarded"""
    report = run_one(place, "touch 1000 999 w", GPULEAK_GUARD_EXCLUDE="libx,libc.so")[1]
    compare("excluded", [{"reason": "made by an excluded library", "blocks": 1}],
            report["guard"]["unguarded"])


@needs("guard_pages")
def undescribed(place):
    """guard pages: a driver that does not describe parameters: the fault names no launch"""
    out, report = run_one(place, "touch 1000 1024 w", STANDIN_VERSION="12000")
    compare("output", "result 700, then 700\n", out)
    compare("fault", (None, None, None), fault(report)[:3])
    compare("unknown", 1, report["guard"]["unknown_launches"])


@needs("guard_pages")
def gated(place):
    """guard pages: the gate fails, and the text names kernel, block and distance"""
    run = place.command("run", "--guard", "pages", "--guard-sample", "1", "--gate", "--",
                        place.program("guard_pages"), "touch", "1000", "1024", "w",
                        env={"STANDIN_ASYNC": "1"})
    compare("status", 23, run.status)
    compare("words", True, "cuLaunchKernel launched gl_touch with an address in a block, "
                           "1000 bytes before its end" in run.stderr.replace("1,000", "1000"))


NO_WAIT = {"GPULEAK_GUARD_WAIT": "0"}

GUARD_PAGES = [planted(*each) for each in PLANTED] + \
    [planted(args, {**options, **NO_WAIT}, want) for args, options, want in PLANTED] + \
    [clean(args, {"GPULEAK_GUARD": levels, **NO_WAIT}) for args in CLEAN
     for levels in ("pages", "copies,patterns,pages")] + \
    [clean(args, {}) for args in CLEAN] + \
    [clean(args, {"GPULEAK_GUARD_SYNC": "1"}) for args in ("struct ok", "capture", "threads")] + \
    [clean(args, {"GPULEAK_GUARD_SIDE": "before"}) for args in ("work", "query", "reset ok")] + \
    [clean("work", {"GPULEAK_GUARD": "copies,pages"})] + \
    [clean(args, {"GPULEAK_GUARD": "copies,patterns,pages", "GPULEAK_GUARD_SAMPLE": "2"})
     for args in ("work", "pitch ok", "reset ok", "many", "threads", "copy ok", "capture")] + \
    [damaged("touch %d %d w" % (size, at), at, levels)
     for size, at, levels in ((1000, 1000, "pages"), (1000, 1023, "pages"), (999, 999, "pages"),
                              (1000, 1000, "patterns,pages"), (2 << 20, -1, "patterns,pages"),
                              (70000, -512, "patterns,pages"))] + \
    [damaged("touch 70000 %d w" % at, at, "patterns,pages", GPULEAK_GUARD_SIDE="before")
     for at in (70000, 70000 + 511)] + \
    [suspects, filled, pitched, after_reset, sampled, bounded, refused, captured, excluded, undescribed,
     waiting, reused, gated]
