# SPDX-License-Identifier: MIT
"""Programs built with sanitizers, by gcc and clang: under `gpuleak run` they print and end as they do
without it, the sanitizer finds what it is for, and the GPU leak is reported."""

import re

from harness import Case, Leak, check_process, compare, shell_status

LEAK = Case("", "", allocated=(1, 4096), peak=4096, leaks=[
    Leak("cuMemAlloc_v2", 4096, ["leak_gpu@leak", "main@main"])])
MISTAKES = {
    "address": ("use-after-free", "ERROR: AddressSanitizer: heap-use-after-free"),
    "leak": ("leak", "SUMMARY: LeakSanitizer: 77 byte"),
    "thread": ("race", "WARNING: ThreadSanitizer: data race"),
    "undefined": ("overflow", "runtime error: signed integer overflow"),
}
# Every way to have a runtime: gcc's is shared, clang's is part of the program.
BUILDS = ("gcc_address", "gcc_leak", "gcc_thread", "gcc_undefined", "clang_address", "clang_address_shared",
          "clang_leak", "clang_thread", "clang_undefined")


def both_ways(place, program, *args, env=None):
    """A program of fixed addresses (ThreadSanitizer's need), bare and by `gpuleak run --gate`."""
    argv = ["setarch", "-R", place.program(program), *args]
    bare = place.run(argv, env)
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--gate", "--", *argv,
                        env=env)
    return bare, run


def said(run):
    """The sanitizer's own lines, without process numbers and what gpuleak says."""
    return re.sub(r"==\d+==|\(pid=\d+\)", "", "".join(
        line for line in run.stderr.splitlines(True) if not line.startswith("gpuleak: ")))


def sanitized(build):
    mistake, words = MISTAKES[build.split("_")[1]]

    def story(place):
        program = "sanitized_" + build
        bare, run = both_ways(place, program)
        compare("without a mistake", (0, "worked\n", ""), (bare.status, bare.stdout, bare.stderr))
        compare("under run", (23, "worked\n", ""), (run.status, run.stdout, said(run)))
        check_process(LEAK, place.json("report.json"), "sanitized.c")
        bare, run = both_ways(place, program, mistake)
        compare("the sanitizer's words", True, words in bare.stderr)
        compare("status and stdout of a mistake", (shell_status(bare.status) or 23, bare.stdout),
                (run.status, run.stdout))
        compare("the sanitizer's words under run", True, words in run.stderr)
        check_process(LEAK, place.json("report.json"), "sanitized.c")
        place.nothing_left()
    story.__doc__ = "a program with %s: it ends as without gpuleak, its own mistake and the GPU leak are found" % (
        build.replace("_", ", "))
    story.needs = "sanitized_" + build
    return story


def started_by_a_shell(place):
    """a program with AddressSanitizer that a shell starts, and the user's own ASAN_OPTIONS"""
    program = place.program("sanitized_gcc_address")
    run = place.command("run", "--gate", "--", "/bin/sh", "-c", "'%s'; exit $?" % program)
    compare("by a shell", (23, "worked\n"), (run.status, run.stdout))
    env = {"ASAN_OPTIONS": "exitcode=77"}
    run = place.command("run", "--", program, "use-after-free", env=env)
    compare("the user's options hold", 77, run.status)
    env = {"ASAN_OPTIONS": "verify_asan_link_order=1"}
    run = place.command("run", "--", program, env=env)
    compare("also where they are against it", (1, "", True), (
        run.status, run.stdout, "ASan runtime does not come first" in run.stderr))
    env = {"ASAN_OPTIONS": "verify_asan_link_order=0", "LD_PRELOAD": place.options.preload}
    run = place.run([program], env)
    compare("a plain preload, as docs say", (0, "worked\n", True), (
        run.status, run.stdout, run.stderr.startswith("gpuleak: 1 leak, ")))


started_by_a_shell.needs = "sanitized_gcc_address"

SANITIZED = [sanitized(build) for build in BUILDS] + [started_by_a_shell]
