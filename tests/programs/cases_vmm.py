# SPDX-License-Identifier: MIT
"""Virtual memory, multicast, and numbers handed to the wrong call: cases as in cases.py."""

import dataclasses
import json
import os
import re

from harness import ANY, HERE, Call, Case, Error, Leak, Refused, check_process, compare, line_of

GRAIN = 2 << 20
FREE = "cuMemFree_v2"
CREATE = "create_on@vmm.h:create"
RESERVE = "reserve@vmm.h:reserve"
MAP = "map@vmm.h:map"


def story(name, text, **more):
    return Case("virtual memory: " + text, "vmm", (name,), **more)


def handle(size, stack, device=0, api="cuMemCreate", blocks=1, keeps=None):
    return Leak(api, size, stack, kind="vmm-handle", device=device, blocks=blocks, keeps=keeps)


def mapping(size, stack, device=0, api="cuMemMap", blocks=1):
    return Leak(api, size, stack, kind="vmm-mapping", device=device, blocks=blocks)


def reservation(stack):
    return Leak("cuMemAddressReserve", 0, stack, kind="vmm-reservation", device=-1)


def made(function, marker="on_device"):
    """The stack of a handle that FUNCTION made by create()."""
    return [CREATE, "create@" + marker] + function + ["main@main"]


STORIES = [
    # The handle has the bytes, its mapping none; drop the handle's block and nobody has them.
    story("left", "all left", allocated=(3, 2 * GRAIN), freed=0, peak=2 * GRAIN,
          leaks=[handle(2 * GRAIN, made(["all_left@left_map"])),
                 mapping(0, [MAP, "all_left@left_map", "main@main"]),
                 reservation([RESERVE, "all_left@left", "main@main"])]),
    story("freed", "all freed", allocated=(3, 2 * GRAIN), freed=3, peak=2 * GRAIN),
    story("reservation", "address space left", allocated=(2, 2 * GRAIN), freed=1, peak=2 * GRAIN,
          leaks=[reservation([RESERVE, "reservation_left@only", "main@main"])]),
    # Bytes that ended with the handle would make this a leak of nothing.
    story("outlives", "memory outlives its handle", allocated=(3, 2 * GRAIN), freed=1,
          peak=2 * GRAIN,
          leaks=[mapping(2 * GRAIN, [MAP, "outlives_handle@outliving", "main@main"]),
                 reservation([RESERVE, "outlives_handle@outliving_range", "main@main"])]),
    story("passed", "one memory, three mappings", allocated=(5, 2 * GRAIN), freed=3,
          peak=2 * GRAIN,
          leaks=[mapping(2 * GRAIN, [MAP, "passed_on@thrice", "main@main"]),
                 reservation([RESERVE, "passed_on@thrice_range", "main@main"])]),
    story("back", "a handle that came back", allocated=(4, 2 * GRAIN), freed=3, peak=2 * GRAIN,
          leaks=[handle(2 * GRAIN, ["retain@vmm.h:retain", "came_back@back", "main@main"],
                        api="cuMemRetainAllocationHandle")]),
    story("went", "a handle that came back and went", allocated=(5, 4 * GRAIN), freed=5,
          peak=2 * GRAIN),
    story("referenced", "a handle with references left", allocated=(3, 2 * GRAIN), freed=2,
          peak=2 * GRAIN,
          leaks=[handle(2 * GRAIN, made(["still_referenced@referenced"]))]),
    story("many", "many mappings in one unmap, with a hole",
          stdout="unmap: 0\nonce more: 0\nfree: 0\n", allocated=(7, 3 * GRAIN), freed=7,
          peak=3 * GRAIN),
    story("host", "memory of the host", allocated=(1, 2 * GRAIN), freed=0, peak=2 * GRAIN,
          leaks=[handle(2 * GRAIN, [CREATE, "at_host@host", "main@main"], device=-1)]),
    story("thread", "a thread without a context", allocated=(3, 2 * GRAIN), freed=0,
          peak=2 * GRAIN,
          leaks=[handle(2 * GRAIN, [CREATE, "create@on_device", "without_context@without"]),
                 mapping(0, [MAP, "without_context@without"]),
                 reservation([RESERVE, "without_context@without"])]),
    # Imported memory is others' and never adds bytes, but an import keeps it.
    story("shared", "imported memory", allocated=(5, 2 * GRAIN), freed=2, peak=2 * GRAIN,
          leaks=[handle(0, ["import@import", "shared@others", "main@main"], device=-1,
                        api="cuMemImportFromShareableHandle", keeps=2 * GRAIN),
                 mapping(0, [MAP, "shared@others_map", "main@main"], device=-1),
                 reservation([RESERVE, "shared@others_map", "main@main"])]),
    story("nulls", "bad arguments",
          stdout="create: 1 1 1\nreserve: 1 1\nretain: 1 1\nimport: 1\n"
                 "map: 1, unmap: 1 1, free: 1, release: 1\nmulticast: 1 1\n", peak=0,
          errors=[]),
]

CALLS = ("create", "reserve", "map", "map", "release", "release", "unmap", "unmap", "free", "free")
RELEASED_TWICE = Error(
    "double-free", "cuMemRelease", ["refused@second_release", "main@main"], 1,
    Call("cuMemCreate", ["refused@try_create", "main@main"], 2 * GRAIN),
    Call("cuMemRelease", ["refused@first_release", "main@main"]))
FREED_TWICE = Error(
    "double-free", "cuMemAddressFree", ["refused@second_free", "main@main"], 1,
    Call("cuMemAddressReserve", ["refused@try_reserve", "main@main"], 4 * GRAIN),
    Call("cuMemAddressFree", ["refused@first_free", "main@main"]))


def no_end(api, result, marker, made_by, maker, size, what="freed later"):
    """A call of refused() that ended nothing of what MADE_BY made at MAKER."""
    return Refused(api, ["refused@" + marker, "main@main"], result,
                   Call(made_by, ["refused@" + maker, "main@main"], size), what=what)


LATE = "after the shutdown"
ALL_LATE = [no_end("cuMemRelease", 4, "first_release", "cuMemCreate", "try_create", 0, LATE),
            no_end("cuMemUnmap", 4, "first_unmap", "cuMemMap", "first_map", 0, LATE),
            no_end("cuMemUnmap", 4, "first_unmap", "cuMemMap", "second_map", 2 * GRAIN, LATE),
            no_end("cuMemAddressFree", 4, "first_free", "cuMemAddressReserve", "try_reserve", 0, LATE)]


def refused(text, fail, answers, **more):
    """A run of refused(): every call answers 0 but those that ANSWERS tells, in their order."""
    return Case("virtual memory: " + text, "vmm", ("refused",),
                env={"STANDIN_FAIL": fail} if fail else {}, peak=2 * GRAIN,
                stdout="".join("%s: %s\n" % pair for pair in zip(CALLS, answers)), **more)


FAILING = [
    refused("ended twice", None, (0, 0, 0, 0, 0, 1, 0, 0, 0, 1), allocated=(4, 2 * GRAIN),
            freed=4, errors=[RELEASED_TWICE, FREED_TWICE]),
    # What failed made nothing; the second attempt has another line.
    refused("create fails", "cuMemCreate:1=2", (2, 0, 0, 0, 0, 1, 0, 0, 0, 1),
            allocated=(4, 2 * GRAIN), freed=4,
            errors=[Error("double-free", "cuMemRelease", RELEASED_TWICE.stack, 1,
                          Call("cuMemCreate", [CREATE, "create@on_device", "refused@create_again",
                                               "main@main"], 2 * GRAIN), RELEASED_TWICE.freed),
                    FREED_TWICE]),
    refused("reserve fails", "cuMemAddressReserve:1=2", (0, 2, 0, 0, 0, 1, 0, 0, 0, 1),
            allocated=(4, 2 * GRAIN), freed=4,
            errors=[RELEASED_TWICE,
                    Error("double-free", "cuMemAddressFree", FREED_TWICE.stack, 1,
                          Call("cuMemAddressReserve", [RESERVE, "refused@reserve_again",
                                                       "main@main"], 4 * GRAIN),
                          FREED_TWICE.freed)]),
    refused("map fails", "cuMemMap:2=2", (0, 0, 0, 2, 0, 1, 0, 0, 0, 1),
            allocated=(3, 2 * GRAIN), freed=3, errors=[RELEASED_TWICE, FREED_TWICE]),
    # Put back each time: the second call ends what the first did not.
    refused("release fails", "cuMemRelease:1=999", (0, 0, 0, 0, 999, 0, 0, 0, 0, 1),
            allocated=(4, 2 * GRAIN), freed=4, errors=[FREED_TWICE],
            refused=[no_end("cuMemRelease", 999, "first_release", "cuMemCreate", "try_create",
                            2 * GRAIN)]),
    refused("unmap of two fails", "cuMemUnmap:1=999", (0, 0, 0, 0, 0, 1, 999, 0, 0, 1),
            allocated=(4, 2 * GRAIN), freed=4, errors=[RELEASED_TWICE, FREED_TWICE],
            refused=[no_end("cuMemUnmap", 999, "first_unmap", "cuMemMap", "first_map", 2 * GRAIN)]),
    refused("free fails", "cuMemAddressFree:1=999", (0, 0, 0, 0, 0, 1, 0, 0, 999, 0),
            allocated=(4, 2 * GRAIN), freed=4, errors=[RELEASED_TWICE],
            refused=[no_end("cuMemAddressFree", 999, "first_free", "cuMemAddressReserve",
                            "try_reserve", 0)]),
    # A driver that is broken from here on: the application did its part.
    refused("all ends late", "cuMemRelease:1+=4,cuMemUnmap:1+=4,cuMemAddressFree:1+=4",
            (0, 0, 0, 0, 4, 4, 4, 4, 4, 4), allocated=(4, 2 * GRAIN), freed=4, late=4,
            refused=ALL_LATE, errors=[dataclasses.replace(RELEASED_TWICE, result=4)]),
    story("nothing", "nothing ended", env={"STANDIN_FAIL":
          "cuMemRelease:1=1,cuMemUnmap:1=1,cuMemAddressFree:1=999"},
          stdout="unmap: 1\nrelease: 1\nfree: 999\n", allocated=(4, 2 * GRAIN), freed=0,
          peak=2 * GRAIN,
          refused=[Refused(api, ["nothing_ended@" + at, "main@main"], result,
                           Call(maker, stack + ["main@main"], size))
                   for api, at, result, maker, stack, size in (
                       ("cuMemUnmap", "no_unmap", 1, "cuMemMap", [MAP, "nothing_ended@kept_map"], 0),
                       ("cuMemRelease", "no_release", 1, "cuMemCreate",
                        [CREATE, "create@on_device", "nothing_ended@kept_handle"], 2 * GRAIN),
                       ("cuMemAddressFree", "no_free", 999, "cuMemAddressReserve",
                        [RESERVE, "nothing_ended@kept_range"], 0))],
          leaks=[handle(2 * GRAIN, made(["nothing_ended@kept_handle"])),
                 mapping(0, [MAP, "nothing_ended@kept_map", "main@main"]),
                 mapping(0, [MAP, "nothing_ended@kept_other", "main@main"]),
                 reservation([RESERVE, "nothing_ended@kept_range", "main@main"])]),
]


def multicast(name, text, **more):
    return Case("multicast: " + text, "multicast", (name,), peak=2 * GRAIN, **more)


def binding(size, marker, story_):
    return mapping(size, ["bind@bind", marker, "main@" + story_], api="cuMulticastBindMem")


MULTICAST = [
    # Only the binding keeps the memory: the bytes are its.
    multicast("left", "a binding is left", allocated=(3, 2 * GRAIN), freed=1,
              leaks=[binding(2 * GRAIN, "left@kept", "main_left"),
                     handle(0, ["make_object@object", "left@left", "main@main_left"], device=-1,
                            api="cuMulticastCreate")]),
    Case("multicast: all freed", "multicast", ("freed",), allocated=(8, 4 * GRAIN), freed=8,
         peak=2 * GRAIN),
    multicast("gone", "bindings end with their object", allocated=(8, 4 * GRAIN), freed=8),
    multicast("twice", "unbound twice", stdout="again: 1\nstranger: 1\n",
              allocated=(3, 2 * GRAIN), freed=3,
              errors=[Error("double-free", "cuMulticastUnbind",
                            ["twice@again", "main@main_twice"], 1,
                            Call("cuMulticastBindMem", ["bind@bind", "twice@twice",
                                                        "main@main_twice"], 2 * GRAIN),
                            Call("cuMulticastUnbind", ["twice@once", "main@main_twice"])),
                      Error("invalid-free", "cuMulticastUnbind",
                            ["twice@stranger", "main@main_twice"], 1)]),
    multicast("refused", "unbind refused", env={"STANDIN_FAIL": "cuMulticastUnbind:2=999"},
              stdout="half: 1\nunbind: 999\nunbind: 0\n", allocated=(3, 2 * GRAIN), freed=3,
              refused=[Refused("cuMulticastUnbind", ["refused@unbind", "main@main_refused"], 999,
                               Call("cuMulticastBindMem", ["bind@bind", "refused@sized",
                                                           "main@main_refused"], 0),
                               what="freed later")],
              errors=[Error("mismatched-free", "cuMulticastUnbind",
                            ["refused@half_unbind", "main@main_refused"], 1,
                            Call("cuMulticastBindMem", ["bind@bind", "refused@sized",
                                                        "main@main_refused"], 2 * GRAIN),
                            asked=GRAIN)]),
]


def wrong(name, text, **more):
    return Case("wrong call: " + text, "vmm_wrong", (name,), **more)


def mismatch(api, stack, allocated, error="mismatched-free", result=1):
    return Error(error, api, stack, result, allocated)


def of(function, api, size, main):
    """(call, marker) -> the error of freeing by CALL, in FUNCTION, what API made there."""
    made_here = lambda marker: Call(api, [function + "@" + marker, "main@" + main], size)
    return lambda call, at, marker, **more: mismatch(
        call, [function + "@" + at, "main@" + main], made_here(marker), **more)


LINEAR = of("linear", "cuMemAlloc_v2", 5000, "main_linear")
POOLED = of("linear", "cuMemAllocAsync", 6000, "main_linear")
PINNED = of("linear", "cuMemHostAlloc", 7000, "main_linear")
LENT = of("lent_memory", "cuMemHostRegister_v2", 4096, "main_lent")
ARRAY = of("handles", "cuArrayCreate_v2", 16000, "main_handles")
HANDLE = Call("cuMemCreate", [CREATE, "handles@handle", "main@main_handles"], 2 * GRAIN)
MAPPED = Call("cuMemMap", [MAP, "ranges@mapping", "main@main_ranges"], 2 * GRAIN)
RANGE = Call("cuMemAddressReserve", [RESERVE, "ranges@range", "main@main_ranges"], 8 * GRAIN)


def handles(call, at):
    return mismatch(call, ["handles@" + at, "main@main_handles"], HANDLE)


def mapped(call, at, error="mismatched-free", asked=None):
    ret = mismatch(call, ["mapped@" + at, "ranges@mapped", "main@main_ranges"], MAPPED, error)
    return dataclasses.replace(ret, asked=asked)


def reserved(call, at, error="mismatched-free", asked=None):
    ret = mismatch(call, ["reserved@" + at, "ranges@reserved", "main@main_ranges"], RANGE, error)
    return dataclasses.replace(ret, asked=asked)


WRONG = [
    wrong("linear", "linear and pinned memory", stdout="1 1 1 1 713\n1\n1 1\n",
          allocated=(3, 18000), freed=3, peak=7000,
          errors=[LINEAR("cuMemFreeHost", "linear_host", "linear"),
                  LINEAR("cuMemRelease", "linear_release", "linear"),
                  LINEAR("cuMemUnmap", "linear_unmap", "linear"),
                  LINEAR("cuMemAddressFree", "linear_free", "linear"),
                  LINEAR("cuMemHostUnregister", "linear_unregister", "linear", result=713),
                  POOLED("cuIpcCloseMemHandle", "pooled_close", "pooled"),
                  PINNED(FREE, "pinned_free", "pinned"),
                  PINNED("cuMemUnmap", "pinned_unmap", "pinned")]),
    wrong("lent", "registered memory", stdout="1 1\n", allocated=(1, 4096), freed=1,
          errors=[LENT("cuMemFreeHost", "lent_host", "lent"),
                  LENT(FREE, "lent_free", "lent")]),
    wrong("handles", "handles", stdout="1 1\n1 1\n", allocated=(2, 2 * GRAIN + 16000), freed=2,
          peak=2 * GRAIN,
          errors=[handles(FREE, "handle_free"), handles("cuMemUnmap", "handle_unmap"),
                  ARRAY("cuMemRelease", "array_release", "array"),
                  Error("invalid-free", "cuMemRelease", ["handles@stranger", "main@main_handles"],
                        1)]),
    wrong("ranges", "mappings and reservations",
          stdout="1 1 1 1 1 1 1\n1 1 1 1 1\n1\n1\n1\n", allocated=(3, 2 * GRAIN), freed=3,
          peak=2 * GRAIN,
          errors=[mapped(FREE, "mapped_free"), mapped("cuMemFreeAsync", "mapped_async"),
                  mapped(FREE, "inside", "interior-free"),
                  mapped("cuMemUnmap", "inside_unmap", "interior-free"),
                  mapped("cuMemUnmap", "half", asked=GRAIN),
                  mapped("cuMemUnmap", "beyond", asked=32 * GRAIN),
                  mapped("cuMemAddressFree", "while_mapped", "freed-while-mapped"),
                  reserved(FREE, "reserved_free"), reserved("cuMemFreeAsync", "reserved_async"),
                  reserved("cuMemRelease", "reserved_release"),
                  reserved("cuMemAddressFree", "reserved_part", asked=2 * GRAIN),
                  reserved("cuMemAddressFree", "reserved_inside", "interior-free"),
                  Error("double-free", "cuMemAddressFree",
                        ["ranges@range_again", "main@main_ranges"], 1, RANGE,
                        Call("cuMemAddressFree", ["ranges@range_freed", "main@main_ranges"])),
                  Error("double-free", "cuMemUnmap",
                        ["ranges@unmap_gone", "main@main_ranges"], 1, MAPPED,
                        Call("cuMemUnmap", ["ranges@unmapped", "main@main_ranges"])),
                  Error("double-free", "cuMemRelease",
                        ["ranges@released_again", "main@main_ranges"], 1,
                        Call("cuMemCreate", [CREATE, "ranges@range_handle", "main@main_ranges"],
                             2 * GRAIN),
                        Call("cuMemRelease", ["ranges@released", "main@main_ranges"]))]),
    wrong("right", "what is legal", allocated=(2, 3000), freed=2, peak=2000),
]


def storm(place):
    """virtual memory: a storm of threads leaves nothing and does nothing wrong"""
    for arenas in ("1", "256"):
        run = place.preloaded([place.program("vmm_storm")], {
            "STANDIN_ARENAS": arenas, "GPULEAK_FORMAT": "json",
            "GPULEAK_REPORT": place.file("report.json")})
        compare("status, stdout, stderr", (0, "done\n", ""), (run.status, run.stdout, run.stderr))
        report = place.json("report.json")
        blocks = report["summary"]["allocated_blocks"] # handles that came back depend on luck
        check_process(Case("", "", allocated=(blocks, 8 * 400 * 2 * GRAIN + 4 * GRAIN),
                           freed=blocks, peak=ANY), report, "vmm_storm.c")
        place.nothing_left()


storm.needs = "vmm_storm"


def other_process(place):
    """virtual memory: imported by another process, which leaves it mapped"""
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        place.program("vmm"), "process")
    compare("status, stdout", (0, ""), (run.status, run.stdout))
    parent, child = sorted(place.json("report.json")["processes"],
                           key=lambda process: process["summary"]["leaked_blocks"])
    check_process(Case("", "", allocated=(3, 2 * GRAIN), freed=3, peak=2 * GRAIN), parent,
                  "vmm.c")
    below = ["child_of@in_child", "main@main_child"]
    check_process(Case("", "", allocated=(3, 0), freed=0, peak=0, leaks=[
        handle(0, ["import@import"] + below, device=-1, api="cuMemImportFromShareableHandle",
               keeps=2 * GRAIN),
        mapping(0, [MAP] + below, device=-1), reservation([RESERVE] + below)]), child, "vmm.c")
    place.nothing_left()


def range_in_text(place):
    """wrong call: the text says that the range was wrong, not the call"""
    run = place.preloaded([place.program("vmm_wrong"), "ranges"])
    for call, size, block in (("cuMemUnmap", "2,097,152", "4,194,304"),
                              ("cuMemUnmap", "67,108,864", "4,194,304"),
                              ("cuMemAddressFree", "4,194,304", "16,777,216")):
        compare("lines of %s with %s" % (call, size), 1, run.stderr.count(
            "%s was given a range of %s bytes, which is not the range of this block of %s bytes "
            "(the driver returned CUDA_ERROR_INVALID_VALUE (1))" % (call, size, block)))


def partly_mapped(place):
    """wrong call: a reservation is freed while a part of it is mapped: named so in each format"""
    source = os.path.join(HERE, "vmm_wrong.c")
    at = {name: "while_partly_mapped (%s:%d)" % (source, line_of("vmm_wrong.c", name))
          for name in ("part", "partly")}
    for which, size in (("1", "2.0 MiB"), ("8", "2.0 MiB"), ("6", "4.0 MiB"), ("15", "8.0 MiB")):
        words = "reservation freed while %s of it is mapped at %s" % (size, at["part"])
        run = place.preloaded([place.program("vmm_wrong"), "partly", which],
                              {"GPULEAK_LEDGER": place.file("ledger")})
        compare("answer", "1\n", run.stdout)
        compare("headline", True, re.match(r"gpuleak: reservation freed while %s of it is mapped at "
                r"while_partly_mapped \(\S*/vmm_wrong\.c:%d\),\s" % (re.escape(size), line_of("vmm_wrong.c", "part")),
                run.stderr) is not None)
        compare("story", True, "\nR%s: cuMemAddressFree needs cuMemUnmap of all mappings in the "
                "reservation first (the driver returned CUDA_ERROR_INVALID_VALUE (1)), at:\n"
                % words[1:] in run.stderr)
        compare("mismatched", False, "ismatched" in run.stderr)
    for form, times in (("sarif", 1), ("junit", 1), ("github", 1), ("html", 1)):
        text = place.command("report", "--format", form, place.file("ledger")).stdout
        text = text.replace("%3A", ":")
        compare("in " + form, times, text.count(words))
        if form in ("junit", "github"):  # the others have a rule or a template for each type
            compare("in " + form, 0, text.lower().count("mismatch"))
    (error,) = json.loads(place.command("report", "--format", "json", place.file("ledger")).stdout)["errors"]
    compare("json", ("freed-while-mapped", 8 << 20, "cuMemMap"),
            (error["type"], error["mapped_bytes"], error["allocated"]["api"]))
    text = place.command("report", "--format", "openmetrics", place.file("ledger")).stdout
    compare("openmetrics", 1, text.count('type="freed-while-mapped"} 1\n'))


VMM = STORIES + FAILING + MULTICAST + WRONG + [storm, other_process, range_in_text, partly_mapped]
