# SPDX-License-Identifier: MIT
"""OpenCL: objects that are no memory. What is left of them is listed, is no leak, and explains
what holds a buffer."""

from harness import Case, Leak, compare, frame_text
from stories import no_core, reporting

PROGRAM = "cl_objects"
SOURCE = "cl_objects.c"


def stack_of(event):
    return [text for text in (frame_text(frame, SOURCE) for frame in event["stack"]) if text]


def run_story(place, story, **env):
    run = place.preloaded([place.program(PROGRAM), story], reporting(place, **env))
    compare("status", 0, run.status)
    return place.json("report.json")


def needs(function):
    function.needs = PROGRAM
    return function


def object_lines(report):
    return sorted("%s by %s, %d with %d, %s" % (item["kind"], item["api"], item["count"],
                                                item["references"], stack_of(item)[:2])
                  for item in report["objects"])


CONTEXT = ("object/cl-context by clCreateContext, 1 with 1, "
           "['begin@cl.h:context', 'main@main_begin']")


@needs
def left(place):
    """OpenCL objects: what is left is listed, grouped by stack, and is no leak"""
    # PoCL compiles inside the traced process: nothing of that is listed.
    report = run_story(place, "left", POCL_CACHE_DIR=place.file("pocl"))
    compare("objects", [
        CONTEXT,
        "object/cl-event by clCreateUserEvent, 1 with 1, ['make_event@event', 'left@left_user']",
        "object/cl-event by clEnqueueMarkerWithWaitList, 2 with 1, "
        "['mark@marker', 'left@left_event']",
        "object/cl-kernel by clCreateKernel, 1 with 1, ['make_kernel@kernel', "
        "'left@left_kernel']",
        "object/cl-program by clCreateProgramWithSource, 1 with 1, ['make_program@program', "
        "'left@left_program']",
        "object/cl-queue by clCreateCommandQueue, 1 with 2, ['make_queue@queue', "
        "'left@left_queue']",
        "object/cl-sampler by clCreateSampler, 1 with 1, ['make_sampler@sampler', "
        "'left@left_sampler']",
    ], object_lines(report))
    (queue,) = [item for item in report["objects"] if item["kind"] == "object/cl-queue"]
    compare("history", ["create", "retain"],
            [event["op"] for event in queue["history"]["events"]])
    compare("retained at", ["left@left_retain", "main@main"],
            stack_of(queue["history"]["events"][1]))
    run = place.command("run", "--gate", "--", place.program(PROGRAM), "left")
    compare("the gate", 0, run.status)


@needs
def nothing_left(place):
    """OpenCL objects: all released, none is listed"""
    report = run_story(place, "clean")
    compare("objects", [], report["objects"])
    compare("errors", 0, report["summary"]["errors"])


@needs
def held_by_kernel(place):
    """OpenCL objects: a released buffer that is a kernel's argument is explained by it"""
    report = run_story(place, "with-kernel")
    (held,) = report["released"]["held"]
    compare("block", (5000, ["release@cl.h:release", "argument@arg_release",
                             "with_kernel@with", "main@main"]),
            (held["bytes"], stack_of(held["released"])))
    (holder,) = held["held_by"]
    compare("the reason is another", "user-event", held["reason"])
    compare("holder", ("kernel", "object/cl-kernel", "clCreateKernel",
                       ["make_kernel@kernel", "argument@arg_kernel", "with_kernel@with",
                        "main@main"]),
            (holder["what"], holder["kind"], holder["allocated"]["api"],
             stack_of(holder["allocated"])))
    text = place.preloaded([place.program(PROGRAM), "with-kernel"]).stderr
    compare("words", True, "  The memory is held by a command that waits for a user event that was never set\n"
            in text and
            "  The memory is an argument of OpenCL kernel, made by clCreateKernel at make_kernel (" in text)


@needs
def held_by_commands(place):
    """OpenCL objects: a kernel that was released explains nothing any more"""
    (held,) = run_story(place, "without-kernel")["released"]["held"]
    compare("held by", ("user-event", []), (held["reason"], held["held_by"]))


@needs
def queue_twice(place):
    """OpenCL objects: a second release is told of before the driver is called"""
    place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                  place.program(PROGRAM), "queue-twice", preexec_fn=no_core)
    (error,) = place.json("report.json")["errors"]
    compare("error", ("double-free", "clReleaseCommandQueue"), (error["type"], error["api"]))
    compare("by", ["queue_twice@twice_second", "main@main"], stack_of(error))
    compare("made", ["make_queue@queue", "queue_twice@twice_queue", "main@main"],
            stack_of(error["allocated"]))
    compare("released", ["queue_twice@twice_first", "main@main"], stack_of(error["freed"]))
    text = place.command("run", "--", place.program(PROGRAM), "queue-twice",
                         preexec_fn=no_core).stderr
    compare("words", True, "clReleaseCommandQueue was given an object that had been released for "
            "the last time" in text and "  The object was an OpenCL command queue.\n" in text)


def case(name, story, **more):
    return Case("OpenCL objects: " + name, PROGRAM, (story,), **more)


CL_OBJECTS = [
    case("clean", "clean", stdout="2 kernels\n", allocated=(2, 8192), freed=2, peak=8192),
    case("left, and nothing allocated", "left", peak=0),
    case("context released first", "context-first", stdout="1\n", allocated=(2, 1500), freed=1,
         peak=1500,
         leaks=[Leak("clCreateBuffer", 800, ["create@cl.h:create",
                                             "context_first@context_lost", "main@main"],
                     kind="cl-buffer")]),
    case("addresses that go from one sort to another", "turns", allocated=(1200, 76800),
         freed=1200),
    case("calls that fail", "failing", stdout="0 -36 -48 -58 -48 -44\n", peak=0),
    left, nothing_left, held_by_kernel, held_by_commands, queue_twice,
]

FAMILIES = {"cl-objects": CL_OBJECTS}
