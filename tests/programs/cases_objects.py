# SPDX-License-Identifier: MIT
"""CUDA objects that are no memory: what is left of each kind is listed with its line and counted,
is no leak, and fails a gate only on demand."""

import json
import os

from harness import Case, compare, frame_text, line_of
from stories import reporting

PROGRAM = "objects"
SOURCE = "objects.c"


def needs(function):
    function.needs = PROGRAM
    return function


def stack_of(item):
    return [text for text in (frame_text(frame, SOURCE) for frame in item["stack"]) if text]


def run_story(place, story, **env):
    """The report of STORY, and what the program printed."""
    run = place.preloaded([place.program(PROGRAM), story], reporting(place, **env))
    compare("status", (0, ""), (run.status, run.stderr))
    return place.json("report.json"), run.stdout


def listed(report):
    return sorted("%s by %s, %d of %d with %d, %s" % (
        item["kind"], item["api"], item["count"], item["created"], item["references"],
        " ".join(stack_of(item)[:2])) for item in report["objects"])


def totals(report):
    """Of each kind: left, created, destroyed, ended with a context."""
    return {item["kind"]: (item["count"], item["created"], item["destroyed"],
                           item["ended_with_context"]) for item in report["object_kinds"]}


@needs
def left(place):
    """objects: two of three are left of every kind, each at its line, and nothing leaked"""
    report, _ = run_story(place, "left")
    compare("objects", [
        "event by cuEventCreate, 2 of 3 with 1, make_in_context@event make@in",
        "graph by cuGraphCreate, 2 of 3 with 1, make_without_context@graph make@without",
        "graph-exec by cuGraphInstantiateWithFlags, 2 of 3 with 1, make_without_context@exec "
        "make@without",
        "green-context by cuGreenCtxCreate, 2 of 3 with 1, make_green@green some@made_green",
        "library by cuLibraryLoadData, 2 of 3 with 1, load_library@library "
        "make_without_context@loaded",
        "module by cuModuleLoadData, 2 of 3 with 1, make_in_context@module make@in",
        "primary-context by cuDevicePrimaryCtxRetain, 1 of 1 with 1, begin@cu.h:retain "
        "some@retained",
        "semaphore by cuImportExternalSemaphore, 2 of 3 with 1, make_in_context@semaphore make@in",
        "stream by cuStreamCreate, 2 of 3 with 1, make_in_context@stream make@in",
        "stream by cuStreamCreateWithPriority, 2 of 3 with 1, make_in_context@priority make@in",
        "surface by cuSurfObjectCreate, 2 of 3 with 1, make_in_context@surface make@in",
        "texture by cuTexObjectCreate, 2 of 3 with 1, make_in_context@texture make@in",
        "user-object by cuUserObjectCreate, 2 of 3 with 1, make_without_context@user make@without",
    ], listed(report))
    compare("memory", (0, 0, 0, 0), tuple(report["summary"][key] for key in (
        "leaked_blocks", "allocated_blocks", "peak_bytes", "errors")))
    for kind, counts in totals(report).items():
        each = 2 if kind == "stream" else 1
        compare(kind, (1, 1, 0, 0) if kind == "primary-context" else
                (2 * each, 3 * each, each, 0), counts)


@needs
def nothing_left(place):
    """objects: all are destroyed, and none is listed"""
    report, _ = run_story(place, "clean")
    compare("objects", [], report["objects"])
    compare("errors", [], report["errors"])
    compare("kinds", 12, len(report["object_kinds"]))
    for kind, (count, created, destroyed, with_context) in totals(report).items():
        compare(kind, (0, created, 0), (count, destroyed, with_context))


@needs
def with_context(place):
    """objects: what belongs to a context ends with it; a later destroy is no error"""
    report, out = run_story(place, "context")
    compare("stdout", "late: 400 400\n", out)
    compare("errors", [], report["errors"])
    compare("totals", {
        "context": (1, 2, 1, 0), "stream": (2, 4, 0, 2), "event": (1, 2, 0, 1),
        "module": (1, 2, 0, 1), "texture": (1, 2, 0, 1), "surface": (1, 2, 0, 1),
        "semaphore": (1, 2, 0, 1), "library": (1, 1, 0, 0), "graph": (1, 1, 0, 0),
        "graph-exec": (1, 1, 0, 0), "user-object": (1, 1, 0, 0)}, totals(report))
    (stream,) = [item for item in report["objects"] if item["api"] == "cuStreamCreate"]
    compare("left in the other context", "context@left_behind", stack_of(stream)[1])
    (lasting,) = [item for item in report["objects"] if item["kind"] == "context"]
    compare("the other context", "context@other", stack_of(lasting)[0])


@needs
def same_numbers(place):
    """objects: equal handles of two kinds and of two contexts are kept apart"""
    report, out = run_story(place, "numbers")
    compare("numbers", "1 1 1\n", out)
    compare("left", ["context by cuCtxCreate_v2", "surface by cuSurfObjectCreate",
                     "texture by cuTexObjectCreate"],
            [line.split(",")[0] for line in listed(report)])
    compare("texture", ["numbers@first_texture", "main@main"], stack_of(
        next(item for item in report["objects"] if item["kind"] == "texture")))
    compare("notes", [], report["notes"])


@needs
def twice(place):
    """objects: a second destroy is an error; of a handle that was none, nothing is said"""
    report, out = run_story(place, "twice")
    compare("answers", "400 400 400 400\n400 400\n", out)
    compare("errors", [
        ("double-free", "cuStreamDestroy_v2", "twice@second_stream", "make_in_context@stream",
         "cuStreamDestroy_v2"),
        ("double-free", "cuEventDestroy_v2", "twice@second_event", "make_in_context@event",
         "cuEventDestroy_v2"),
        ("double-free", "cuModuleUnload", "twice@second_module", "make_in_context@module",
         "cuModuleUnload"),
        ("double-free", "cuTexObjectDestroy", "twice@second_texture", "make_in_context@texture",
         "cuTexObjectDestroy"),
    ], [(error["type"], error["api"], stack_of(error)[0], stack_of(error["allocated"])[0],
         error["freed"]["api"]) for error in report["errors"]])
    compare("the texture's handle", "0x1", report["errors"][3]["address"])
    compare("totals", True, all(counts[0] == 0 for kind, counts in totals(report).items()
                                if kind != "primary-context"))


@needs
def references(place):
    """objects: retains and releases are counted, of several references at once too"""
    report, out = run_story(place, "references")
    compare("a release of too many", "1\n", out)
    compare("objects", [
        "graph by cuGraphCreate, 1 of 1 with 1, references@keeper main@main",
        "primary-context by cuDevicePrimaryCtxRetain, 1 of 1 with 2, begin@cu.h:retain "
        "references@first_retain",
        "user-object by cuUserObjectCreate, 1 of 1 with 2, references@three main@main",
    ], listed(report))
    (primary,) = [item for item in report["objects"] if item["kind"] == "primary-context"]
    compare("history", ["create", "retain", "retain", "release"],
            [event["op"] for event in primary["history"]["events"]])
    compare("second", "references@second_retain", stack_of(primary["history"]["events"][1])[0])


@needs
def attached(place):
    """objects: a context ends with its last detach; a green context ends without its streams"""
    report, _ = run_story(place, "attached")
    compare("objects", [
        "context by cuCtxCreate_v2, 1 of 1 with 1, attached@kept main@main",
        "stream by cuGreenCtxStreamCreate, 1 of 1 with 1, attached@green_stream main@main",
    ], listed(report))
    compare("totals", {"context": (1, 2, 1, 0), "green-context": (0, 1, 1, 0),
                       "stream": (1, 1, 0, 0)}, totals(report))


@needs
def every(place):
    """objects: run --every names the call site that leaves one from time to time, and no memory"""
    run = place.command("run", "--every", "300ms", "--", place.program(PROGRAM), "serves")
    told = [line for line in run.stderr.splitlines() if "; suspect in pid " in line]
    compare("a suspect", True, bool(told) and " streams per step at serves (" in told[0] and
            "objects.c:%d)" % line_of(SOURCE, "serving") in told[0])
    compare("live memory", True, ": live 0 bytes (=) in 0 blocks" in told[0])


@needs
def graphs(place):
    """objects: graphs of captures and clones count; a child that moved into its parent does not"""
    report, out = run_story(place, "graphs")
    compare("captured into the application's graph", "1\n", out)
    compare("objects", [
        "graph by cuGraphClone, 1 of 1 with 1, graphs@clone main@main",
        "graph by cuGraphCreate, 1 of 1 with 1, graphs@parent main@main",
        "graph by cuStreamEndCapture, 1 of 1 with 1, graphs@captured main@main",
    ], [line for line in listed(report) if line.startswith("graph")])
    compare("totals", (3, 4, 1, 0), totals(report)["graph"])


@needs
def looked_up(place):
    """objects: by functions that cuGetProcAddress returned"""
    report, _ = run_story(place, "looked-up")
    compare("events", (1, 2, 1, 0), totals(report)["event"])
    (event,) = [item for item in report["objects"] if item["kind"] == "event"]
    compare("at", ["looked_up@looked_up", "main@main"], stack_of(event))


@needs
def who(place):
    """objects: gpuleak_who() knows their handles"""
    _, out = run_story(place, "who")
    compare("block", "0 cuEventCreate object/event 1 -1\n", out)


@needs
def grows(place):
    """objects: a call site that leaves some at every step is a suspect, and fails no gate unasked"""
    report, _ = run_story(place, "grows")
    growth = report["growth"]
    compare("suspects", [("object/stream", "grows@growing", 0, 2, 12, 12)],
            [(item["kind"], stack_of(item)[0], item["bytes_per_step"], item["blocks_per_step"],
              item["blocks"], growth["steps"][-1]["number"] * 2) for item in growth["suspects"]])
    compare("memory", [(4096, 1)] * 6, [(step["live_bytes"], step["live_blocks"])
                                        for step in growth["steps"]])
    text = place.preloaded([place.program(PROGRAM), "grows"]).stderr
    compare("words", True, "gpuleak: suspect: 2 streams per step at grows (" in text and
            "grew over the last 5 steps, to 12 streams\n" in text)
    gate = ("run", "--max-growth", "0")
    compare("the gate", 0, place.command(*gate, "--", place.program(PROGRAM), "grows").status)
    run = place.command(*gate, "--gate-objects", "1", "--", place.program(PROGRAM), "grows")
    compare("on demand", (23, True), (run.status, ": grows in process" in run.stderr and
                                      "grows by 2 streams per step, 0 allowed" in run.stderr))


@needs
def text(place):
    """objects: in the first line of the text report, all of them with -v, not a single context"""
    run = place.preloaded([place.program(PROGRAM), "left"])
    compare("columns", True, max(len(line) for line in run.stderr.splitlines()) <= 160)
    compare("the totals", True, run.stderr.splitlines()[-1].startswith(
        "gpuleak: nothing allocated by p_objects ("))
    lines = run.stderr.replace("\ngpuleak: ", " ")
    events = "gpuleak: no memory leaked; never destroyed: 2 events at make_in_context ("
    compare("its parts", (True, True, True), (
        events in lines and "objects.c:%d); 2 graphs at " % line_of(SOURCE, "event") in lines,
        "; 4 streams, most at make_in_context (" in lines, "; 2 user objects at " in lines))
    run = place.preloaded([place.program(PROGRAM), "left"], {"GPULEAK_VERBOSE": "1"})
    compare("group", True, "\nNot released: 2 events of 3, made by cuEventCreate at:\n"
            in run.stderr)
    compare("total", True, "\n  stream: 6 created, 2 destroyed, 4 left\n" in run.stderr)
    runtime = [place.program(PROGRAM), "runtime",
               os.path.join(os.path.dirname(place.program(PROGRAM)), "libcudart-objects.so")]
    run = place.preloaded(runtime, {"GPULEAK_VERBOSE": "1"})
    compare("what a runtime loads is listed", True,
            "\nNot released: 1 library, made by cuLibraryLoadData at:\n" in run.stderr)
    compare("and not named at first", False, "destroyed" in place.preloaded(runtime).stderr)
    compare("a context alone", False,
            "destroyed" in place.preloaded([place.program("clean")]).stderr)


@needs
def contexts(place):
    """objects: several contexts of one place are named, and each retain that was not released"""
    run = place.preloaded([place.program(PROGRAM), "contexts"])
    compare("line", True, "never destroyed: 3 contexts at many_contexts (" in run.stderr and
            "objects.c:%d); 3 retains of a primary context at many_contexts (" %
            line_of(SOURCE, "contexts") in run.stderr and
            "objects.c:%d)\ngpuleak: nothing allocated by " % line_of(SOURCE, "retains")
            in run.stderr)


@needs
def accumulating(place):
    """objects: what accumulates while the program runs stands first; what is made at first does not"""
    run = place.preloaded([place.program(PROGRAM), "frames"])
    compare("first", True, run.stderr.startswith(
        "gpuleak: never destroyed: 200 events, 200 of them accumulating, ") and
        " per second at frames (" in run.stderr and
        "objects.c:%d)\ngpuleak: " % line_of(SOURCE, "frame") in run.stderr)
    report, _ = run_story(place, "frames")
    trends = {item["kind"]: item["trend"] for item in report["objects"]}
    compare("trends", {"event": "accumulating", "primary-context": None}, trends)
    report, _ = run_story(place, "at-first")
    compare("at first", ["filled"], [item["trend"] for item in report["objects"]
                                     if item["kind"] == "event"])
    run = place.command("run", "--gate-objects", "1", "--", place.program(PROGRAM), "contexts")
    compare("--gate-objects alone is a gate", 23, run.status)


@needs
def gate(place):
    """objects: outside the gate, unless --gate-objects or a budget counts them"""
    def status(*options):
        run = place.command("run", *options, "--", place.program(PROGRAM), "left")
        return run.status, [line for line in run.stderr.splitlines() if "gate " in line]

    compare("without", 0, status("--gate")[0])
    code, lines = status("--gate", "--gate-objects", "1")
    compare("with", (23, 12), (code, len(lines)))
    compare("a line", True, any(
        "gate failed: 4 streams not destroyed, 0 allowed; most at make_in_context (" in line and
        "objects.c:%d)" % line_of(SOURCE, "stream") in line for line in lines))
    budgets = place.write("budgets", "object:stream 3\nobject:event 2\n")
    code, lines = status("--budgets", budgets)
    compare("budget", (23, 1), (code, len(lines)))
    compare("its line", True, "object:stream (%s:1): 4 streams not destroyed, 3 allowed, 1 over; "
            "most at make_in_context (" % budgets in lines[0])
    compare("enough", 0, status("--budgets", place.write("budgets", "object:stream 4\n"))[0])
    rules = place.write("rules", "leak:^make_\n leak:^begin$\n")
    compare("suppressed", 0, status("--gate", "--gate-objects", "1", "--suppressions", rules)[0])
    for line, words in (("object:strem 3", "'strem' is not a kind of object; known are context"),
                        ("object:stream 3KiB", "objects have no bytes")):
        run = place.command("run", "--budgets", place.write("budgets", line + "\n"), "--",
                            place.program(PROGRAM), "clean")
        compare(line, (125, True), (run.status, words in run.stderr))


@needs
def known(place):
    """objects: a baseline lists them with --gate-objects, and more of them than it lists fail"""
    path = place.file("baseline")

    def status(*options):
        run = place.command("run", "--baseline", path, *options, "--", place.program(PROGRAM),
                            "left")
        return run.status, [line for line in run.stderr.splitlines() if "gate failed" in line]

    def lines():
        with open(path, encoding="utf-8") as file:
            return [line for line in file.read().splitlines() if " object/" in line]

    compare("without the option", 0, status("--update-baseline")[0])
    compare("no lines", [], lines())
    compare("not known", 23, status("--gate-objects", "1")[0])
    compare("updated", 0, status("--gate-objects", "1", "--update-baseline")[0])
    streams = [line for line in lines() if " object/stream " in line]
    compare("streams", ["0 2", "0 2"], [" ".join(line.split()[1:3]) for line in streams])
    compare("known", (0, []), status("--gate-objects", "1"))
    compare("without the option, again", (0, []), status())
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(streams[0], streams[0].replace(" 0 2 ", " 0 1 ")))
    code, failed = status("--gate-objects", "1")
    compare("one more", (23, 1), (code, len(failed)))
    compare("its line", True, "gate failed: 1 stream not destroyed, 0 allowed; most at make_" in
            failed[0])


@needs
def compared(place):
    """objects: diff compares them by fingerprint; they make no report worse"""
    paths = {}
    for story in ("clean", "left"):
        paths[story] = place.file(story + ".gpuleak")
        place.preloaded([place.program(PROGRAM), story],
                        {"GPULEAK_LEDGER": paths[story], "GPULEAK_REPORT": "none"})
    run = place.command("diff", paths["clean"], paths["left"])
    text = run.stdout
    compare("status", 0, run.status)
    compare("sum", True, "; objects: 13 new, 0 grew, 0 shrank, 0 gone, 0 unchanged\n" in text)
    compare("a row", True, "\nobjects, new: 2 events (cuEventCreate), fingerprint " in text)
    text = place.command("diff", paths["left"], paths["clean"]).stdout
    compare("gone", True, "\nobjects, gone: 2 events (cuEventCreate), fingerprint " in text)
    report = place.write("left.json", place.command("report", "--format", "json",
                                                    paths["left"]).stdout)
    found = json.loads(place.command("diff", "--format", "json", paths["left"], report).stdout)
    compare("a JSON report has the same", {"new": 0, "grew": 0, "shrank": 0, "gone": 0,
                                           "unchanged": 13}, found["objects_counts"])
    compare("an entry", (2, 2), next((one["before"], one["after"]) for one in found["objects"]
                                     if one["kind"] == "event"))
    same = place.command("diff", paths["clean"], paths["clean"]).stdout
    compare("no objects", False, "objects" in same)


STREAMS = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, made = ctypes.c_void_p(), [ctypes.c_void_p() for _ in range(4)]
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
address = ctypes.c_uint64()
cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
for one in made[:3]:
    cuda.cuStreamCreate(ctypes.byref(one), 0)
cuda.cuEventCreate(ctypes.byref(made[3]), 0)
print("made", flush=True)
input()
"""


def seen_in_top(place):
    """objects: top lists them by kind"""
    ledger = place.file("ledger")
    process = place.start(["/usr/bin/python3", "-c", STREAMS],
                          {"LD_PRELOAD": place.options.preload, "GPULEAK_LEDGER": ledger,
                           "GPULEAK_REPORT": "none"}, stdin=-1)
    process.stdout.readline()
    text = place.command("top", "--once", ledger).stdout
    process.communicate(b"\n")
    compare("line", ["objects: 1 primary context, 3 streams, 1 event"],
            [line for line in text.splitlines() if line.startswith("objects: ")])


def case(name, story, **more):
    return Case("objects: " + name, PROGRAM, (story,), **more)


OBJECTS = [
    case("clean", "clean", peak=0),
    case("left, and nothing allocated", "left", peak=0),
    left, nothing_left, with_context, same_numbers, twice, references, attached, every, graphs, looked_up, who, grows,
    text, contexts, accumulating, gate, known, compared, seen_in_top,
]
