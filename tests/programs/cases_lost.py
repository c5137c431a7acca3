# SPDX-License-Identifier: MIT
"""Processes that made GPU calls and could not record them: each is named, with the reason, and no
gate passes. A process without a GPU call fails no gate. What a process gave up: lost.c."""

import os
import re

from harness import Failed, compare
from stories import can_drop, needs, one_line

PERMISSION, MISSING = "Permission denied", "No such file or directory"


def can_mount(options):
    del options
    return None if os.geteuid() == 0 else "only root can mount and change its root directory"


def lost_line(run, reason, before="gate failed: "):
    """The line that names p_lost in RUN's stderr, of a directory of a run and with REASON."""
    line = one_line(run.stderr, "gpuleak: %snot recorded completely: p_lost (pid " % before)
    if not re.search(r"\(pid \d+\): no ledger could be made in /\S+/run-[^/]+: " + reason, line):
        raise Failed("the line does not say where and why: " + line)


def is_lost(place, words, reason):
    """p_lost with WORDS under run: alone, beside a process that is clean, and without a gate."""
    argv = [place.program("lost"), *words]
    bare = place.run(argv)
    compare("bare", (0, "lost\n"), (bare.status, bare.stdout))
    run = place.command("run", "--gate", "--", *argv)
    compare("alone", (23, "lost\n"), (run.status, run.stdout))
    lost_line(run, reason)
    both = ["sh", "-c", place.program("clean") + ' && "$@"', "sh", *argv]
    run = place.command("run", "--gate", "--report", "none", "--", *both)
    compare("beside a clean process", (23, "clean\nlost\n"), (run.status, run.stdout))
    lost_line(run, reason)
    compare("lines of ours", 1, len(run.stderr.splitlines()))
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        *both)
    compare("without a gate", (0, "clean\nlost\n"), (run.status, run.stdout))
    lost_line(run, reason, "")
    compare("lines of ours", 1, len(run.stderr.splitlines()))
    one_line("\n".join(place.json("report.json")["notes"]), "not recorded completely: p_lost",
             reason)
    place.nothing_left()


def story(text, words, reason, probe=None):
    def tell(place):
        os.chmod(place.path, 0o711)
        is_lost(place, [word.replace("{runtime}", place.runtime).replace("{tmp}", place.path)
                        for word in words], reason)
    tell.__doc__ = text
    tell.needs = "lost"
    if probe:
        tell.probe = probe
    return tell


@needs("lost")
def full(place):
    """a process whose file system is full is named, and the gate fails"""
    words = ["fill", os.path.join(place.runtime, "filler")]
    for more, stdout in (("", "lost\n"), (place.program("clean") + " && ", "clean\nlost\n")):
        run = place.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=3m,mode=700 none "$0" '
                         '&& exec "$@"', place.runtime, place.options.command, "run", "--gate",
                         "--report", "none", "--", "sh", "-c", more + 'exec "$@"', "sh",
                         place.program("lost"), *words])
        compare("status and stdout", (23, stdout), (run.status, run.stdout))
        lost_line(run, "No space left on device")


full.probe = can_mount


@needs("lost")
def without_gpu(place):
    """a process that gave up all it needs and made no GPU call fails no gate"""
    words = ["space", "500", "files", "1", "open", "3", "idle"]
    run = place.command("run", "--gate", "--", place.program("lost"), *words)
    compare("alone", (24, "idle\n"), (run.status, run.stdout))
    run = place.command("run", "--gate", "--", "sh", "-c", place.program("clean") + ' && "$@"',
                        "sh", place.program("lost"), *words)
    compare("beside a clean process", (0, "clean\nidle\n"), (run.status, run.stdout))


@needs("lost")
def ledger_removed(place):
    """a process that recorded and whose ledger is gone at the end fails the gate"""
    run = place.command("run", "--gate", "--", "sh", "-c",
                        place.program("lost") + "; " + place.program("clean") +
                        '; rm "$XDG_RUNTIME_DIR"/gpuleak/run-*/*.gpuleak')
    compare("status and stdout", (23, "lost\nclean\n"), (run.status, run.stdout))
    one_line(run.stderr, "gate failed: not recorded completely: p_lost (pid ",
             "its ledger is no longer in ")
    one_line(run.stderr, "gate failed: not recorded completely: p_clean (pid ",
             "its ledger is no longer in ")


@needs("lost")
def scribbled(place):
    """an application that writes over the list of processes: few lines, and the gate fails"""
    for seed in range(12):
        run = place.command("run", "--gate", "--", place.program("lost"), "scribble", str(seed),
                            "open", "3")
        compare("seed %d: stdout" % seed, "scribbled\nlost\n", run.stdout)
        compare("seed %d: status" % seed, 23, run.status)
        compare("seed %d: few lines" % seed, True, len(run.stderr.splitlines()) <= 25)
        if seed % 4:  # something else than zeros or ones everywhere
            one_line(run.stderr, "gate failed: not recorded completely: a process has written over")


@needs("lost")
def plain(place):
    """plain preload: a process that could not record says so and ends with GPULEAK_EXITCODE"""
    argv = [place.program("lost"), "space", "6000"]
    for variables, status in (({"GPULEAK_EXITCODE": "57"}, 57), ({}, 0)):
        run = place.preloaded(argv, variables)
        compare("status and stdout", (status, "lost\n"), (run.status, run.stdout))
        compare("lines", 1, len(run.stderr.splitlines()))
        one_line(run.stderr, "gpuleak: not recorded completely: p_lost (pid %d): " % run.pid,
                 "Cannot allocate memory; raise its limit on address space (ulimit -v)")
    run = place.preloaded(argv, {"GPULEAK_REPORT": "none", "GPULEAK_EXITCODE": "57"})
    compare("no report", (57, "lost\n", ""), (run.status, run.stdout, run.stderr))
    run = place.preloaded(argv + ["idle"], {"GPULEAK_EXITCODE": "57"})
    compare("no GPU call", (0, "idle\n", ""), (run.status, run.stdout, run.stderr))


LOST = [
    story("a process that dropped its privileges is named, and the gate fails", ["nobody"],
          PERMISSION, can_drop),
    story("a process that dropped its privileges and then started a program is named",
          ["close", "nobody", "exec"], PERMISSION, can_drop),
    story("a process with another root directory is named, and the gate fails",
          ["chroot", "{tmp}/runtime"], MISSING, can_mount),
    story("a process with a private file system there is named, and the gate fails",
          ["tmpfs", "{runtime}"], MISSING, can_mount),
    story("a program that starts with a private file system there is named",
          ["close", "tmpfs", "{runtime}", "exec"], MISSING, can_mount),
    full,
    story("a process without address space is named, and the gate fails", ["space", "6000"],
          "Cannot allocate memory"),
    story("a process without descriptors is named, and the gate fails", ["open", "3"],
          "Too many open files"),
    without_gpu, ledger_removed, scribbled, plain,
]
