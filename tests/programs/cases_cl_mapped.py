# SPDX-License-Identifier: MIT
"""OpenCL memory that is released and still there at the end: what is mapped is a leak, and every
other reason is named where it is proven, and nowhere else."""

import os
import re
import shutil

from cases_cl_released import created, let_go
from harness import compare, frame_text
from stories import reporting

PROGRAM = "cl_mapped"
SOURCE = "cl_mapped.c"
SIZE = 4096


def stack_of(event):
    return [text for text in (frame_text(frame, SOURCE) for frame in event["stack"]) if text]


def mapped(story, marker):
    return ["map@map", "%s@%s" % (story, marker), "main@main"]


def run_story(place, story, status=0, **env):
    run = place.preloaded([place.program(PROGRAM), story], reporting(place, **env))
    compare("status", status, run.status)
    return place.json("report.json")


def gate(place, story, *flags):
    return place.command("run", "--gate", *flags, "--", place.program(PROGRAM), story)


def test(name):
    def add(function):
        function.needs = PROGRAM
        function.__doc__ = "OpenCL mapped: " + name
        CL_MAPPED.append(function)
        return function
    return add


CL_MAPPED = []


def check_leak(report, blocks, size, stacks):
    """The only leak, and its three STACKS: allocated, mapped, released."""
    (leak,) = report["leaks"]
    compare("leak", ("clCreateBuffer", "cl-buffer", blocks, size),
            (leak["api"], leak["kind"], leak["blocks"], leak["bytes"]))
    compare("calls", ("clEnqueueMapBuffer", "clReleaseMemObject"),
            (leak["mapped"]["api"], leak["released"]["api"]))
    compare("stacks", stacks, [stack_of(leak), stack_of(leak["mapped"]),
                               stack_of(leak["released"])])
    compare("sums", (blocks, size), (report["summary"]["leaked_blocks"],
                                     report["summary"]["leaked_bytes"]))
    compare("held", (0, 0, []), (report["released"]["held_blocks"],
                                 report["released"]["held_bytes"], report["released"]["held"]))


@test("50 buffers that were released while they were mapped are one leak of 50 blocks")
def of_buffers(place):
    report = run_story(place, "buffers")
    check_leak(report, 50, 50 * SIZE, [created("buffers", "buffer"),
                                       mapped("buffers", "buffer_map"),
                                       let_go("buffers", "buffer_release")])
    compare("freed", 0, report["summary"]["freed_blocks"])


@test("the first line and the gate name the mapping")
def in_words(place):
    run = gate(place, "buffers")
    compare("status", 23, run.status)
    lines = run.stderr.split("\n")
    compare("first line", True, "blocks released, but never unmapped (clEnqueueUnmapMemObject "
            "missing), mapped at map (" in lines[0] and
            "/cl_mapped.c:%d)" % line_of("buffer_map") in lines[0] + lines[1])
    compare("paragraphs", 1, sum("released, but never unmapped" in line for line in lines[1:]))
    compare("a driver's commands are not blamed", False, "commands" in run.stderr)
    compare("gate", 1, lines.count("gpuleak: gate failed: 50 blocks, 204,800 bytes (200.0 KiB) "
                                   "leaked, 0 allowed"))
    compare("suppressed", 0, gate(place, "buffers", "--suppressions", place.write(
        "known", "leak:^buffers$\n")).status)


def line_of(marker):
    with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), SOURCE),
              encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if "/* @%s */" % marker in line:
                return number
    return None


@test("every format counts it and names the mapping")
def in_formats(place):
    missing = "never unmapped (clEnqueueUnmapMemObject missing), mapped at map ("
    words = {"html": '"mapped": {', "junit": missing, "sarif": missing, "github": missing,
             "folded": "cl-buffer on device 0, released but never unmapped;",
             "openmetrics": 'reason="released but never unmapped"'}
    for name, wanted in words.items():
        report = place.file("report." + name)
        compare(name + ": status", 23, gate(place, "buffers", "--format", name, "--report",
                                            report).status)
        text = place.read("report." + name)
        compare(name, True, wanted in text or wanted.replace(" ", "") in text)
    compare("pprof", 23, gate(place, "buffers", "--format", "pprof", "--report",
                              place.file("report.pprof")).status)


@test("the library's own short report counts and names it, and user events")
def in_short(place):
    # No command beside the library: the library itself reports.
    os.mkdir(place.file("alone"))
    library = shutil.copy(place.options.preload, place.file("alone"))
    wanted = {
        "buffers": ("gpuleak: 50 blocks, 204800 bytes never freed, 0 invalid frees",
                    "50 blocks, 204800 bytes of the leaks above were released, but never unmapped; first "
                    "mapped at:"),
        "behind": ("gpuleak: no leaks: 4 blocks allocated",
                   "4 blocks, 10000 bytes were released, but a command that waits for a user "
                   "event holds them; the event was never set, and was created at:"),
    }
    for story, (first, line) in wanted.items():
        run = place.run([place.program(PROGRAM), story],
                        {"LD_PRELOAD": library, "GPULEAK_EXITCODE": "9"})
        lines = run.stderr.split("\n")
        compare(story, (9, first, 1), (run.status, lines[0], lines.count(line)))


@test("an image")
def of_an_image(place):
    (leak,) = run_story(place, "image")["leaks"]
    compare("leak", ("clCreateImage", "cl-image", 1, "clEnqueueMapImage"),
            (leak["api"], leak["kind"], leak["blocks"], leak["mapped"]["api"]))
    compare("mapped", ["image@image_map", "main@main"], stack_of(leak["mapped"]))


@test("a mapping of a sub-buffer keeps what that is part of")
def of_a_part(place):
    report = run_story(place, "part")
    # PoCL ends the sub-buffer; the mapping is the buffer's from then on.
    whole = [leak for leak in report["leaks"] if leak["kind"] == "cl-buffer"]
    parts = [leak for leak in report["leaks"] if leak["kind"] == "cl-sub-buffer"]
    compare("leaks", 1, len(whole) + len(parts))
    for leak in whole + parts:
        compare("mapped", mapped("part", "part_map"), stack_of(leak["mapped"]))


@test("an image of a buffer is the leak, and is named as what keeps the buffer")
def under_an_image(place):
    report = run_story(place, "image_of")
    (leak,) = report["leaks"]
    compare("leak", ("cl-image", False), (leak["kind"], "mapped" in leak))
    (held,) = report["released"]["held"]
    (holder,) = held["held_by"]
    compare("held", (SIZE, 1, "part", "image", "cl-image"),
            (held["bytes"], held["blocks"], held["reason"], holder["what"], holder["kind"]))
    compare("made", ["create_image@create_image", "image_of@over", "main@main"],
            stack_of(holder["allocated"]))


def clean(name, story, allocated):
    @test(name)
    def check(place):
        report = run_story(place, story)
        compare("report", ([], allocated, allocated, 0),
                (report["leaks"], report["summary"]["allocated_blocks"],
                 report["summary"]["freed_blocks"], report["released"]["held_blocks"]))
    return check


clean("unmapped after the release, by another thread", "late", 1)
clean("unmapped after the release was taken back", "revived", 1)
clean("a user event that was set is no reason", "set", 1)


@test("3,000 pairs of map and unmap leave a ledger as large as 10 do")
def pairs(place):
    for story in ("few_pairs", "many_pairs"):
        run = place.preloaded([place.program(PROGRAM), story], {
            "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file(story)})
        compare("status", 0, run.status)
    compare("size", os.path.getsize(place.file("few_pairs")),
            os.path.getsize(place.file("many_pairs")))
    compare("clean", 0, place.command("check", place.file("many_pairs")).status)


@test("what the driver refuses neither maps nor unmaps")
def refusals(place):
    report = run_story(place, "refused")
    check_leak(report, 1, 2 * SIZE, [created("refused", "refused"),
                                     mapped("refused", "refused_map"),
                                     let_go("refused", "refused_release")])
    compare("freed", 1, report["summary"]["freed_blocks"])


@test("of two mappings the one that is left is named")
def one_of_two(place):
    check_leak(run_story(place, "second"), 1, 2 * SIZE, [
        created("second", "second"), ["second@second_map", "main@main"],
        let_go("second", "second_release")])


@test("it is what grows from step to step")
def grows(place):
    report = run_story(place, "steps")
    (suspect,) = report["growth"]["suspects"]
    compare("suspect", (SIZE, created("steps", "step")),
            (suspect["bytes_per_step"], stack_of(suspect)))
    compare("gate", 23, place.command("run", "--max-growth", "0", "--",
                                      place.program(PROGRAM), "steps").status)


@test("a kept ledger says the same")
def from_a_ledger(place):
    place.preloaded([place.program(PROGRAM), "buffers"], {
        "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("kept")})
    compare("check", 23, place.command("check", place.file("kept")).status)
    run = place.command("report", "--format", "json", "--report", place.file("report.json"),
                        place.file("kept"))
    compare("status", 0, run.status)
    compare("mapped", mapped("buffers", "buffer_map"),
            stack_of(place.json("report.json")["leaks"][0]["mapped"]))


# ---- other reasons ----

@test("programs that do not wait for their commands, or leave kernels and queues, pass the gate")
def twins(place):
    for story in ("unfinished", "objects"):
        for _ in range(4):
            run = gate(place, story)
            compare(story, 0, run.status)
            compare("first line", True, bool(re.search(r"gpuleak: no leaks: 20 blocks .*; peak ", run.stderr)))


@test("what is behind a user event that was never set is named, and fails the gate")
def behind(place):
    report = run_story(place, "behind")
    compare("leaks", [], report["leaks"])
    commands = {1000: ["fill@fill", "behind@direct", "main@main"],
                2000: ["fill@fill", "behind@chained", "main@main"],
                3000: ["fill@fill", "behind@queued", "main@main"],
                4000: ["behind@run", "main@main"]}
    held = {item["bytes"]: item for item in report["released"]["held"]}
    compare("held", sorted(commands), sorted(held))
    for size, stack in commands.items():
        item = held[size]
        compare("reason", ("user-event", "clCreateUserEvent"),
                (item["reason"], item["user_event"]["api"]))
        compare("command", stack, stack_of(item["command"]))
        compare("event", ["make_event@event", "behind@behind_event", "main@main"],
                stack_of(item["user_event"]))
    run = gate(place, "behind")
    compare("gate", 23, run.status)
    compare("first line", True, "held by a user event that was never set, created at make_event ("
            in run.stderr.split("\n")[0])
    compare("suppressed", 0, gate(place, "behind", "--suppressions", place.write(
        "known", "leak:^behind$\n")).status)


@test("a reason that is not known is called so, and fails the gate with --gate-held 1 alone")
def unknown(place):
    report = run_story(place, "busy")
    (held,) = report["released"]["held"]
    compare("held", (3, 3 * SIZE, "unknown", []),
            (held["blocks"], held["bytes"], held["reason"], held["held_by"]))
    run = gate(place, "busy")
    compare("gate", 0, run.status)
    compare("words", (1, 1), (run.stderr.count("\nReleased but not freed: 12,288 bytes (12.0 KiB) "
                                               "of OpenCL buffer in 3 blocks\n"),
                              run.stderr.count("\n  Why the driver still holds the memory is unknown: no "
                                               "recorded call explains it\n")))
    for run in (gate(place, "busy", "--gate-held", "1"),
                place.command("run", "--gate", "--", place.program(PROGRAM), "busy",
                              env={"GPULEAK_GATE_HELD": "1"})):
        compare("gate", 23, run.status)
        compare("reason", True, "gate failed: 3 blocks, 12,288 bytes (12.0 KiB) of process" in
                run.stderr and "released, but not freed for an unknown reason" in run.stderr)
    place.preloaded([place.program(PROGRAM), "busy"], {
        "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("kept")})
    compare("check", (0, 23), (place.command("check", place.file("kept")).status,
                               place.command("check", "--gate-held", "1",
                                             place.file("kept")).status))


FAMILIES = {"cl-mapped": CL_MAPPED}
