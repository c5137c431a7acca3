# SPDX-License-Identifier: MIT
"""OpenCL: who retained and who released what was never freed. An event reads OPERATION,
FUNCTION@MARKER of the two frames outside the helpers, and the number of its partner."""

import json

from harness import Case, Leak, compare, line_of
from stories import no_core, reporting

SOURCE = "cl_history.c"
HELPERS = ("create", "retain", "release")


def places(stack):
    """FUNCTION:LINE of the application's frames outside the helpers, innermost first."""
    ret = []
    for frame in stack:
        if frame["function"] not in HELPERS and frame["function"] != "main" and \
                (frame["file"] or "").endswith(SOURCE):
            ret.append("%s:%d" % (frame["function"], frame["line"]))
    return ret


def at(*marked):
    return ["%s:%d" % (function, line_of(SOURCE, marker))
            for function, _, marker in (place.partition("@") for place in marked)]


def told(history):
    return [(event["op"], places(event["stack"]), event["partner"])
            for event in history["events"]]


def run_story(place, story):
    run = place.preloaded([place.program("cl_history"), story], reporting(place))
    compare("status", 0, run.status)
    return place.json("report.json")


def the_history(place, story):
    (leak,) = run_story(place, story)["leaks"]
    return leak["history"]


def needs(function):
    function.needs = "cl_history"
    return function


@needs
def second_owner(place):
    """OpenCL history: the owner that never lets go has no partner"""
    history = the_history(place, "two")
    compare("events", [
        ("create", at("two_owners@two_create"), 4),
        ("retain", at("borrow@borrow_retain", "two_owners@two_borrow"), 2),
        ("release", at("borrow@borrow_release", "two_owners@two_borrow"), 1),
        ("retain", at("take_over@take_over", "two_owners@two_take"), None),
        ("release", at("two_owners@two_release"), 0),
    ], told(history))
    compare("rest", (1, [3], 0, True), (history["references"], history["unpartnered"],
                                        history["left_out"], history["complete"]))
    compare("guesses", [True, True, True, None, True],
            [event.get("guess") for event in history["events"]])
    compare("calls", ["clCreateBuffer", "clRetainMemObject", "clReleaseMemObject",
                      "clRetainMemObject", "clReleaseMemObject"],
            [event["api"] for event in history["events"]])
    times = [event["time_ns"] for event in history["events"]]
    compare("order of times", sorted(times), times)


@needs
def creator_forgot(place):
    """OpenCL history: where every owner lets go, the creator has no partner"""
    history = the_history(place, "creator")
    compare("events", [
        ("create", at("creator@creator_create"), None),
        ("retain", at("borrow@borrow_retain", "creator@creator_borrow"), 2),
        ("release", at("borrow@borrow_release", "creator@creator_borrow"), 1),
    ], told(history))
    compare("rest", (1, [0], 0), (history["references"], history["unpartnered"],
                                  history["left_out"]))


@needs
def hundred_pairs(place):
    """OpenCL history: of a hundred pairs the oldest are left out and counted, never an owner"""
    history = the_history(place, "hundred")
    events = told(history)
    kept = len(events) // 2 - 1  # pairs; an owner and a release beside them
    compare("first", [("create", at("hundred@hundred_create"), len(events) - 1),
                      ("retain", at("take_over@take_over", "hundred@hundred_take"), None)],
            events[:2])
    for number in range(2, 2 + 2 * (kept - 0) - 1, 2):
        compare("pair at %d" % number, [
            ("retain", at("borrow@borrow_retain", "hundred@hundred_borrow"), number + 1),
            ("release", at("borrow@borrow_release", "hundred@hundred_borrow"), number),
        ], events[number:number + 2])
    compare("last", ("release", at("hundred@hundred_release"), 0), events[-1])
    compare("pairs", 100, history["left_out"] + (len(events) - 3) // 2)
    compare("rest", (1, [1], True), (history["references"], history["unpartnered"],
                                     history["complete"]))


@needs
def forty_retains(place):
    """OpenCL history: more retains than there is room for, released all but two"""
    history = the_history(place, "many")
    events = told(history)
    compare("references", 3, history["references"])
    compare("complete", True, history["complete"])
    compare("retains", 40, history["left_out"] + sum(op == "retain" for op, _, _ in events))
    compare("releases", 38, history["left_out"] + sum(op == "release" for op, _, _ in events))
    compare("open", 3, len(history["unpartnered"]))


@needs
def one_of_several(place):
    """OpenCL history: of several blocks from one line it is that with the most references"""
    report = run_story(place, "several")
    (leak,) = report["leaks"]
    compare("blocks", (3, 1500), (leak["blocks"], leak["bytes"]))
    compare("events", [
        ("create", at("several@several_create"), None),
        ("retain", at("take_over@take_over", "several@several_take"), None),
    ], told(leak["history"]))
    compare("references", 2, leak["history"]["references"])


@needs
def of_threads(place):
    """OpenCL history: eight threads' pairs do not hide the owner"""
    history = the_history(place, "threads")
    compare("complete", True, history["complete"])
    compare("pairs", 16000, history["left_out"] + (len(history["events"]) - 3) // 2)
    events = told(history)
    compare("owner", ("retain", at("take_over@take_over", "threads@threads_take")), events[1][:2])
    compare("references", 1, history["references"])
    compare("open", [1], history["unpartnered"])


@needs
def after_a_kill(place):
    """OpenCL history: is on file when the process is killed"""
    run = place.preloaded([place.program("cl_history"), "killed"], {
        "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("kept")}, preexec_fn=no_core)
    compare("status", -6, run.status)
    report = json.loads(place.command("report", "--format", "json", place.file("kept")).stdout)
    compare("events", [
        ("create", at("killed@killed_create"), None),
        ("retain", at("take_over@take_over", "killed@killed_take"), None),
    ], told(report["leaks"][0]["history"]))


@needs
def in_words(place):
    """OpenCL history: the text tells who has no partner, with the stack, and what is a guess"""
    text = place.preloaded([place.program("cl_history"), "two"]).stderr.split("\n")
    compare("first lines", True, "no release matches the retain at retain (" in text[0] + text[1]
            and "called from take_over (" in text[0] + text[1])
    start = text.index("  References: 1 left")
    lines = text[start:text.index("", start)]
    first = [line.split(" at ")[0].split(", called")[0] for line in lines if line[4] != "#"]
    compare("events", ["  References: 1 left", "    0 created as above",
                       "    1 retained by clRetainMemObject",
                       "    2 released by clReleaseMemObject",
                       "    3 retained by clRetainMemObject: UNMATCHED, at:",
                       "    4 released by clReleaseMemObject"], first)
    compare("guess", True, lines[-1].endswith(": matches the creation "
                                              "(a best guess)"))
    compare("stack", True, any("#1 take_over " in line for line in lines))


def clean_leak(name, story, **more):
    return Case("OpenCL history: " + name, "cl_history", (story,), **more)


CL_HISTORY = [
    clean_leak("pairs leave nothing behind", "clean", allocated=(201, 20100), freed=201,
               peak=100),
    clean_leak("a leak by every route", "two", allocated=(1, 1000), peak=1000,
               leaks=[Leak("clCreateBuffer", 1000, ["create@cl.h:create",
                                                    "two_owners@two_create", "main@main"],
                           kind="cl-buffer")]),
    second_owner, creator_forgot, hundred_pairs, forty_retains, one_of_several, of_threads,
    after_a_kill, in_words,
]

FAMILIES = {"cl-history": CL_HISTORY}
