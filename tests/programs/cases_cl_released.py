# SPDX-License-Identifier: MIT
"""OpenCL: released is not yet freed. The programs keep commands waiting at a gate of their
own, so that nothing here depends on how fast a driver is."""

import json

from harness import Case, Leak, compare, frame_text
from stories import no_core, reporting, reports_by_pid

PROGRAM = "cl_released"
SOURCE = "cl_released.c"


def stack_of(event):
    return [text for text in (frame_text(frame, SOURCE) for frame in event["stack"]) if text]


def run_story(place, story, status=0, **env):
    run = place.preloaded([place.program(PROGRAM), story], reporting(place, **env))
    compare("status", status, run.status)
    return place.json("report.json")


def needs(function):
    function.needs = PROGRAM
    return function


def created(story, marker):
    return ["create@cl.h:create", "%s@%s" % (story, marker), "main@main"]


def let_go(story, marker):
    return ["release@cl.h:release", "%s@%s" % (story, marker), "main@main"]


@needs
def by_a_command(place):
    """OpenCL released: bytes and the longest wait of buffers that commands hold"""
    report = run_story(place, "command")
    told = report["released"]
    compare("leaks and freed", ([], 2), (report["leaks"], report["summary"]["freed_blocks"]))
    compare("peak, held", (30000, 0, 0, []), (told["peak_bytes"], told["held_blocks"],
                                              told["held_bytes"], told["held"]))
    compare("waited at the gate", True, told["longest_wait_ns"] >= 30000000)
    compare("longest", ("cl-buffer", "clCreateBuffer", "clReleaseMemObject"),
            (told["longest"]["kind"], told["longest"]["allocated"]["api"],
             told["longest"]["released"]["api"]))
    # both were released before the wait, the first one a moment earlier
    if told["longest"]["bytes"] == 10000:
        compare("released by", let_go("command", "first"),
                stack_of(told["longest"]["released"]))
    compare("timeline begins", True, told["timeline"][0][1] in (10000, 30000))
    compare("timeline ends", 0, told["timeline"][-1][1])
    compare("timeline's times", sorted(t for t, _ in told["timeline"]),
            [t for t, _ in told["timeline"]])
    compare("peak in time", True, told["peak_ns"] > 0)


@needs
def never_freed(place):
    """OpenCL released: what was released and never freed, who did it, and no leak"""
    report = run_story(place, "never")
    compare("leaks", (0, 1), (report["summary"]["leaked_blocks"],
                              report["summary"]["freed_blocks"]))
    told = report["released"]
    compare("held", (1, 30000), (told["held_blocks"], told["held_bytes"]))
    compare("timeline ends", 30000, told["timeline"][-1][1])
    (held,) = told["held"]
    compare("block", ("cl-buffer", 30000, "clCreateBuffer", "clReleaseMemObject"),
            (held["kind"], held["bytes"], held["allocated"]["api"], held["released"]["api"]))
    compare("allocated", created("never", "never"), stack_of(held["allocated"]))
    compare("released", let_go("never", "never_release"), stack_of(held["released"]))
    compare("held by", ("user-event", []), (held["reason"], held["held_by"]))
    run = place.command("run", "--gate", "--", place.program(PROGRAM), "never")
    compare("the gate", 23, run.status)
    lines = run.stderr.split("\n")
    compare("first line", True, "gpuleak: 1 released block, 30,000 bytes (29.2 KiB), held by a user event" in
            lines[0])
    compare("totals", True, "1 freed, 1 released but not freed" in run.stderr)
    compare("words", 1, lines.count("Released but not freed: 30,000 bytes (29.2 KiB) of "
                                    "OpenCL buffer"))
    compare("held by", 1, lines.count("  The memory is held by a command that waits for a user event that "
                                      "was never set"))


@needs
def killed(place):
    """OpenCL released: a killed process leaves it on file"""
    run = place.preloaded([place.program(PROGRAM), "dark"], {
        "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("kept")}, preexec_fn=no_core)
    compare("status", -6, run.status)
    report = json.loads(place.command("report", "--format", "json", place.file("kept")).stdout)
    compare("leaks", [], report["leaks"])
    (held,) = report["released"]["held"]
    compare("released", let_go("in_the_dark", "dark_release"), stack_of(held["released"]))
    compare("allocated", created("in_the_dark", "dark"), stack_of(held["allocated"]))


@needs
def twice(place):
    """OpenCL released: a second release is told of before the driver is called"""
    argv = [place.program(PROGRAM), "again"]
    place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                  *argv, preexec_fn=no_core)
    report = place.json("report.json")
    (error,) = report["errors"]
    compare("type", ("double-free", "clReleaseMemObject"), (error["type"], error["api"]))
    compare("by", ["again@again_second", "main@main"], stack_of(error))
    compare("allocated", created("again", "again"), stack_of(error["allocated"]))
    compare("freed", let_go("again", "again_first"), stack_of(error["freed"]))


@needs
def retained_again(place):
    """OpenCL released: a retain brings a released buffer back, and it leaks"""
    report = run_story(place, "back")
    (leak,) = report["leaks"]
    compare("leak", (6000, created("back_to_life", "back")), (leak["bytes"], stack_of(leak)))
    compare("history", ["create", "release", "retain"],
            [event["op"] for event in leak["history"]["events"]])
    compare("open", ([2], 1), (leak["history"]["unpartnered"], leak["history"]["references"]))
    compare("held", (0, 6000), (report["released"]["held_blocks"],
                                report["released"]["peak_bytes"]))


@needs
def parent(place):
    """OpenCL released: a parent is held by its sub-buffer, and that is said"""
    report = run_story(place, "parts")
    (held,) = report["released"]["held"]
    compare("block", (8192, created("parts", "parts"), let_go("parts", "parent")),
            (held["bytes"], stack_of(held["allocated"]), stack_of(held["released"])))
    (holder,) = held["held_by"]
    compare("holder", ("sub-buffer", "cl-sub-buffer", "clCreateSubBuffer", 4096,
                       ["parts@part", "main@main"]),
            (holder["what"], holder["kind"], holder["allocated"]["api"],
             holder["allocated"]["bytes"], stack_of(holder["allocated"])))
    text = place.preloaded([place.program(PROGRAM), "parts"]).stderr
    compare("words", True, "  The memory is held by OpenCL sub-buffer of 4,096 bytes (4.0 KiB), made by "
            "clCreateSubBuffer at parts (" in text)
    compare("the gate counts the parent", [23, 0], [
        place.command("run", "--gate", "--max-leaked-bytes", limit, "--",
                      place.program(PROGRAM), "parts").status for limit in ("8191", "8192")])


@needs
def of_threads(place):
    """OpenCL released: six threads' buffers behind one gate, every byte of them"""
    report = run_story(place, "threads")
    compare("freed", 1200, report["summary"]["freed_blocks"])
    # the others were free at once, or within the call; or, by a thread of the driver, a moment later
    low, high = 6 * 100 * 512, 6 * 100 * (512 + 256)
    compare("peak", True, low <= report["released"]["peak_bytes"] <= high)
    compare("held", 0, report["released"]["held_blocks"])


@needs
def limited(place):
    """OpenCL released: what the driver has still to free does not count against GPULEAK_LIMIT"""
    run = place.preloaded([place.program(PROGRAM), "limited"],
                          reporting(place, GPULEAK_LIMIT="100000"))
    compare("status and stdout", (0, "held: -4\nreleased: 0\nretained: -4\nleft: 0\n"),
            (run.status, run.stdout))


@needs
def in_a_child(place):
    """OpenCL released: a forked child has none of its parent's, also when it ends one there"""
    run = place.preloaded([place.program(PROGRAM), "child"],
                          reporting(place, GPULEAK_REPORT=place.file("%p.json")))
    compare("status", (0, "child 0\n"), (run.status, run.stdout))
    reports = reports_by_pid(place)
    compare("processes", 2, len(reports))
    parent = reports.pop(run.pid)
    (child,) = reports.values()
    compare("parent", (1, 1, 0), tuple(parent["summary"][key] for key in (
        "allocated_blocks", "freed_blocks", "errors")))
    compare("child", (0, 0, 0, 0), tuple(child["summary"][key] for key in (
        "allocated_blocks", "freed_blocks", "leaked_blocks", "errors")))
    compare("held", (0, 0), (parent["released"]["held_blocks"],
                             child["released"]["held_blocks"]))


@needs
def at_the_very_end(place):
    """OpenCL released: a buffer that is released after the driver's exit handlers"""
    late = [place.program(PROGRAM), "late"]
    for run in (lambda: place.preloaded(late, reporting(place)),
                lambda: place.command("run", "--format", "json", "--report",
                                      place.file("report.json"), "--", *late)):
        ran, report = run(), place.json("report.json")
        summary = report["summary"]
        compare("status, leaks, errors", (0, [], []), (ran.status, report["leaks"],
                                                       report["errors"]))
        compare("allocated", (2, 1000), (summary["allocated_blocks"], summary["allocated_bytes"]))
        # PoCL 7.1 frees on a thread of its own: before the verdict, after it, or not
        in_call = ran.stdout == "1\n"
        compare("peak", True, summary["peak_bytes"] in ((900,) if in_call else (900, 1000)))
        compare("frees, late ones, pending", True, (
            summary["freed_blocks"], summary["late_blocks"], report["released"]["held_blocks"])
            in ([(2, 1, 0)] if in_call else [(2, 0, 0), (2, 1, 0), (1, 0, 1)]))


def case(name, story, **more):
    return Case("OpenCL released: " + name, PROGRAM, (story,), **more)


CL_RELEASED = [
    case("a report of one line", "command", allocated=(2, 30000), freed=2, peak=30000),
    case("callbacks of the application's own", "callbacks", stdout="first 2, second 1\n",
         allocated=(3, 600), freed=3, peak=600),
    case("a parent and its part", "parts", stdout="1\n", allocated=(2, 12288), freed=0,
         peak=12288,
         leaks=[Leak("clCreateSubBuffer", 4096, ["parts@part", "main@main"],
                     kind="cl-sub-buffer", keeps=8192)]),
    by_a_command, never_freed, killed, twice, retained_again, parent, of_threads,
    limited, in_a_child, at_the_very_end,
]

FAMILIES = {"cl-released": CL_RELEASED}
