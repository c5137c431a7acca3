# SPDX-License-Identifier: MIT
"""How a process or a thread leaves: for another directory, another program, out of a call, on a
small stack; and drivers that are unloaded."""

import ctypes
import os
import resource
import shutil

from harness import Case, Error, Failed, Leak, check_process, compare

ALLOC = "cuMemAlloc_v2"


def reloaded():
    return Case("a driver that was unloaded and lies elsewhere when it is loaded again",
                "reloaded", stdout="used twice\n", allocated=(2, 300), freed=1, peak=200,
                leaks=[Leak(ALLOC, 200, ["allocate@alloc", "main@second"])])


# ---- another directory ----

def trap(place):
    """A directory beside which lies what a relative look-up of the command would find."""
    for name in ("trap/here", "trap/tools", "trap/bin", "bin"):
        os.makedirs(place.file(name), exist_ok=True)
    for name in ("trap/tools/gpuleak", "trap/bin/gpuleak", "bin/gpuleak"):
        path = place.write(name, "#!/bin/sh\ntouch %s\n" % place.file("sprung"))
        os.chmod(path, 0o700)
    return place.file("trap/here")


def relative_library(place):
    """a library with a relative path finds its command where it was loaded, never elsewhere"""
    here = trap(place)
    os.makedirs(place.file("deep/home/interpose"))
    os.makedirs(place.file("deep/home/tools"))
    shutil.copy(place.options.preload, place.file("deep/home/interpose/libgpuleak.so"))
    os.symlink(place.options.command, place.file("deep/home/tools/gpuleak"))
    for directory, library in (("home/interpose", "./libgpuleak.so"),
                               ("home", "interpose/libgpuleak.so")):
        run = place.run([place.program("leaving"), "directory", here],
                        {"LD_PRELOAD": library, "GPULEAK_FORMAT": "json",
                         "GPULEAK_REPORT": place.file("report.json")},
                        cwd=place.file("deep/" + directory))
        compare("status and stderr", (0, ""), (run.status, run.stderr))
        compare("leaked", 100, place.json("report.json")["summary"]["leaked_bytes"])
        os.unlink(place.file("report.json"))
    if os.path.exists(place.file("sprung")):
        raise Failed("a program beside the working directory was executed")
    place.nothing_left()


def linked_library(place):
    """a library that is loaded through a link finds the command that lies beside the file itself"""
    trap(place)
    os.symlink(os.path.realpath(place.options.preload), place.file("trap/here/libgpuleak.so"))
    run = place.run([place.program("leaving"), "directory", "/"],
                    {"LD_PRELOAD": place.file("trap/here/libgpuleak.so"), "GPULEAK_FORMAT": "json",
                     "GPULEAK_REPORT": place.file("report.json")})
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    compare("leaked", 100, place.json("report.json")["summary"]["leaked_bytes"])
    if os.path.exists(place.file("sprung")):
        raise Failed("a program beside the link was executed")
    place.nothing_left()


# ---- another program ----

BEFORE = Case("", "leaving", allocated=(1, 1234), peak=1234,
              leaks=[Leak(ALLOC, 1234, ["leak@leak", "become@before_exec", "main@exec"])])
AFTER = Case("", "clean", allocated=(3, 7096), freed=3, peak=5096)


def exec_twice(place, report):
    """The names of the reports that a program and its successor wrote."""
    run = place.preloaded([place.program("leaving"), "exec", place.program("clean")], {
        "GPULEAK_FORMAT": "json", "GPULEAK_REPORT": place.file(report)})
    compare("status, stdout, stderr", (0, "clean\n", ""), (run.status, run.stdout, run.stderr))
    place.nothing_left()
    return place.file(report.replace("%p", str(run.pid)))


def check_two(place, path):
    check_process(BEFORE, place.json(path), "leaving.c")
    check_process(AFTER, place.json(path + ".1"), "clean.c")
    return sorted(name for name in os.listdir(place.path) if "report" in name)


def exec_report_by_pid(place):
    """exec: a report with a process id in its name stays, and the next one is numbered"""
    path = exec_twice(place, "report-%p.json")
    name = os.path.basename(path)
    compare("reports", [name, name + ".1"], check_two(place, path))


def exec_report_by_name(place):
    """exec: a report without a process id in its name stays; the next run replaces both"""
    for _ in range(2):
        path = exec_twice(place, "report.json")
        compare("reports", ["report.json", "report.json.1"], check_two(place, path))


def exec_report_to_device(place):
    """exec: two reports go to one device, and nothing is numbered"""
    os.symlink("/dev/null", place.file("report"))
    exec_twice(place, "report")
    compare("reports", ["report"], [name for name in os.listdir(place.path) if "report" in name])


# ---- small stacks ----

SMALL_ENDS = ("_exit", "exit", "quick_exit", "exec", "execlp", "return")


def small(place, what, leaked, *args):
    """Bare and preloaded, the program ends in one way; the report has LEAKED bytes."""
    argv = [place.program("leaving"), *args]
    bare = place.run(argv)
    run = place.preloaded(argv, {"GPULEAK_FORMAT": "json",
                                 "GPULEAK_REPORT": place.file("report.json")})
    compare("%s, %s: status" % (what, args), (bare.status, ""), (run.status, run.stderr))
    compare("%s, %s: bare" % (what, args), True, bare.status in (0, 6, 7))
    summary = place.json("report.json")["summary"]
    compare("%s, %s: leaked" % (what, args), leaked, summary["leaked_bytes"])
    os.unlink(place.file("report.json"))
    place.nothing_left()


def signal_stack(place):
    """a signal stack of 8 KiB: every end, and an allocation, as without gpuleak"""
    for end in SMALL_ENDS:
        small(place, "signal stack", 3000 if end == "return" else 1000, "signal-stack", end)


def thread_stack(place):
    """a thread of 16 KiB: every end, and an allocation, also as the first GPU call of all"""
    for end in SMALL_ENDS:
        small(place, "thread", 2000 if end == "return" else 0, "thread-stack", end, "later")


def small_limit():
    resource.setrlimit(resource.RLIMIT_STACK, (16384, 16384))
    # The kernel takes up to 8 KiB of the stack away at random.
    ctypes.CDLL(None).personality(0x0040000)


def stack_limit(place):
    """ulimit -s 16: the program ends as without gpuleak, and is reported"""
    argv = [place.program("clean")]
    bare = place.run(argv, preexec_fn=small_limit)
    reported = place.reports_under_limits()
    run = place.preloaded(argv, {} if reported else {"GPULEAK_REPORT": "none"},
                          preexec_fn=small_limit)
    compare("status and stdout", (0, bare.stdout), (run.status, run.stdout))
    compare("report", "gpuleak: no leaks" if reported else "", run.stderr[:17])


# ---- cancelled ----

def cancelled():
    stack = ["be_cancelled@cancelled"]
    return Case("a thread that is cancelled stays in gpuleak, and ends where it would without",
                "leaving", ("cancelled",), stdout="4 passed\n",
                allocated=(4 * 2002, 4 * 2030), freed=4, peak=4 * 2010,
                leaks=[Leak(ALLOC, 40, ["leak@leak", *stack], blocks=4),
                       Leak(ALLOC, 8000, ["be_cancelled@cancelled_often"], blocks=8000)],
                errors=[Error("invalid-free", "cuMemFree_v2", ["be_cancelled@nothing"], 1)] * 4)


# ---- calls that do not return ----

def left_driver():
    return Case("jumps out of the driver's calls: what was recorded stays exact", "left",
                ("driver",), stdout="went on\n", allocated=(1004, 1 + 240 + 5000), freed=3,
                peak=80 + 5000,
                leaks=[Leak("cuArrayCreate_v2", 80, ["make_array@array", "out_of_driver@lost",
                                                     "main@main_driver"], kind="array"),
                       Leak(ALLOC, 5000, ["allocate@alloc", "many@many",
                                          "out_of_driver@main_many", "main@main_driver"],
                            blocks=1000)])


def left_driver_thread():
    return Case("threads that end in the driver's call: the block that it was to free is live",
                "left", ("driver-thread",), stdout="went on\n", allocated=(5, 641), freed=1,
                peak=640,
                leaks=[Leak("cuArrayCreate_v2", 640, ["make_array@array", "end_in_driver@thread"],
                            kind="array", blocks=4)])


def left_gpuleak(place):
    """a jump out of gpuleak, and a thread that ends there: no gate passes, no thread waits"""
    for how, missed in (("clock", 1001), ("lock", 1005), ("gpuleak-thread", 7)):
        for pool in ("off", "fast"):
            run = place.command("run", "--gate", "--format", "json", "--report",
                                place.file("report.json"), "--", place.program("left"), how,
                                env={"GPULEAK_POOL": pool})
            compare("%s, pool %s: status, stdout" % (how, pool), (23, "went on\n"),
                    (run.status, run.stdout))
            notes = place.json("report.json")["notes"]
            compare("%s, pool %s: notes" % (how, pool), [
                "%s calls were not recorded: a thread left gpuleak by longjmp, an exception or "
                "cancellation in the middle of its work, and recording stopped"
                % format(missed, ",")], notes)
            place.nothing_left()


LEAVING = [
    left_driver(), left_driver_thread(), left_gpuleak,
    signal_stack, thread_stack, stack_limit, cancelled(),
    reloaded(), relative_library, linked_library, exec_report_by_pid, exec_report_by_name, exec_report_to_device,
]
