# SPDX-License-Identifier: MIT
"""One allocation of the gpuleak command fails (fail_malloc.c): it prints the same report as always, or
one line and no report. Each story lets another allocation fail in each run. tools/test.sh --long tries
all of them."""

import os
import re
import shutil
import stat

from harness import Failed, compare

EVERY = int(os.environ.get("GPULEAK_TEST_EVERY", "37"))
LINE = "gpuleak: out of memory: nothing is reported; free memory"
NO_MEMORY = 125


def is_sanitized(options):
    """AddressSanitizer has a malloc() of its own."""
    with open(options.command, "rb") as file:
        return "the command is sanitized" if b"__asan_init" in file.read() else None


def allocations(place, argv):
    """Returns how many allocations the command ARGV makes."""
    place.run(argv, failing(place, 0, FAIL_MALLOC_COUNT=place.file("count")))
    count = int(place.read("count"))
    os.unlink(place.file("count"))
    return count


def failing(place, number, **more):
    return {"LD_PRELOAD": place.module("fail_malloc"), "FAIL_MALLOC_AT": str(number), **more}


def ledger(place):
    place.preloaded([place.program("cuda_wrong_frees")],
                    {"GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("it.gpuleak")})
    return place.file("it.gpuleak")


def same_or_one_line(place, every, *argv):
    """ARGV: a subcommand that reports on a ledger. The last allocation fails in one of the runs."""
    argv = [place.options.command, *argv]
    usual = place.run(argv)
    count = allocations(place, argv)
    compare("allocations enough for this test", True, count > 100)
    every = min(every, count // 25)  # without debug information of libc there are few allocations
    for number in [*range(1, count, every), count]:
        run = place.run(argv, failing(place, number))
        if (run.status, run.stdout, run.stderr) == (usual.status, usual.stdout, usual.stderr):
            continue
        compare("allocation %d: status, stdout, lines on stderr" % number,
                (NO_MEMORY, "", 1, True),
                (run.status, run.stdout, run.stderr.count("\n"), run.stderr.startswith(LINE)))


def report(place):
    """report: the same report, or one line and 125"""
    same_or_one_line(place, EVERY, "report", ledger(place))


def report_json(place):
    """report --format json: the same report, or one line and 125"""
    same_or_one_line(place, EVERY, "report", "--format", "json", ledger(place))


def check(place):
    """check: the same verdict, or one line and 125"""
    same_or_one_line(place, min(EVERY * 5, EVERY ** 2), "check", ledger(place))


def diff(place):
    """diff: the same comparison, or one line and 125"""
    path = ledger(place)
    json = place.command("report", "--format", "json", path).stdout
    same_or_one_line(place, min(EVERY * 5, EVERY ** 2), "diff", place.write("it.json", json), path)


def run_with_gate(place):
    """run --gate: 23 and no report, or the same report"""
    argv = [place.options.command, "run", "--gate", "--", place.program("clean")]
    usual = place.run(argv)
    compare("status", 0, usual.status)
    count = allocations(place, argv)
    for number in [*range(1, count, EVERY * 3), count]:
        run = place.run(argv, failing(place, number))
        if run.status == 0:
            compare("allocation %d: stderr" % number, re.sub(r"pid \d+", "pid", usual.stderr),
                    re.sub(r"pid \d+", "pid", run.stderr))
            continue
        # 125: before the words of the command line were read
        compare("allocation %d: status, line" % number, (23 if number > 1 else NO_MEMORY, True),
                (run.status, LINE in run.stderr))
        # The program has run as usual, or was never started.
        if run.stdout not in ("clean\n", ""):
            raise Failed("allocation %d: stdout %r" % (number, run.stdout))


def run_without_gate(place):
    """run: waits for the program, whose exit status is kept"""
    argv = [place.options.command, "run", "--every", "5ms", "--", "/bin/sh", "-c",
            "%s; sleep 0.1; exit 3" % place.program("clean")]
    for number in range(1, allocations(place, argv), EVERY * 9):
        run = place.run(argv, failing(place, number))
        if run.stdout:
            compare("allocation %d: status" % number, 3, run.status)
        else:
            compare("allocation %d: not started" % number, (NO_MEMORY, True),
                    (run.status, LINE in run.stderr))


def command_that_fails(place):
    """Returns a library beside which lies a command that preloads fail_malloc.c."""
    for name in ("here/interpose", "here/tools"):
        os.makedirs(place.file(name))
    path = place.write("here/tools/gpuleak", "#!/bin/sh\nFAIL_MALLOC_AT=$(cat %s) LD_PRELOAD=%s "
                       "exec %s \"$@\"\n" % (place.file("number"), place.module("fail_malloc"),
                                             place.options.command))
    os.chmod(path, stat.S_IRWXU)
    return shutil.copy(place.options.preload, place.file("here/interpose/libgpuleak.so"))


def preload(place):
    """the preloaded library: the same report or its own short one, and GPULEAK_EXITCODE holds"""
    library = command_that_fails(place)
    env = {"LD_PRELOAD": library, "GPULEAK_EXITCODE": "57"}
    for program, status, words in (
            ("clean", 0, "gpuleak: no leaks: 3 blocks allocated\n"),
            ("cuda_wrong_frees", 57, "gpuleak: 1 blocks, 100000 bytes never freed, 3 invalid frees\n")):
        place.write("number", "0")
        usual = place.run([place.program(program)], env)
        compare("%s: usual status" % program, status, usual.status)
        short = 0
        for number in range(1, 6000, EVERY * 19):
            place.write("number", str(number))
            run = place.run([place.program(program)], env)
            compare("%s, allocation %d: status" % (program, number), status, run.status)
            if "this is the short form" in run.stderr:
                short += 1
                compare("%s, allocation %d: the short form" % (program, number), (True, True, True),
                        (LINE in run.stderr, words in run.stderr,
                         "the gpuleak command had too little memory" in run.stderr))
            else:
                compare("%s, allocation %d: stderr" % (program, number),
                        re.sub(r"pid \d+", "pid", usual.stderr),
                        re.sub(r"pid \d+", "pid", run.stderr))
        compare("%s: short forms" % program, True, short > 0)
    place.nothing_left()


SHORT_MEMORY = [report, report_json, check, diff, run_with_gate, run_without_gate, preload]
for story in SHORT_MEMORY:
    story.probe = is_sanitized
