# SPDX-License-Identifier: MIT
"""Processes that made GPU calls and could not record them: each is named, with the reason, and no
gate passes. A process without a GPU call fails no gate. What a process gave up: lost.c."""

import os
import re
import shutil

from harness import Failed, compare
from stories import can_drop, can_mount, copied_for_nobody, limited, needs, one_line

PERMISSION, MISSING = "Permission denied", "No such file or directory"


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
    one_line("\n".join(place.json("report.json")["notes"]), "not recorded completely: p_lost",
             reason)
    run = place.command("run", "--", *both)
    one_line(run.stderr, "not recorded completely: p_lost", reason)
    place.nothing_left()


def story(text, words, reason, probe=None):
    def tell(place):
        copied_for_nobody(place, "lost", "clean")
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
def interrupted(place):
    """signals that interrupt each fallocate() of the ledger: recorded completely all the same"""
    argv = [place.program("lost"), "interrupt"]
    for way, run in (("plain", place.preloaded(argv)), ("run", place.command("run", "--", *argv))):
        compare(way, (0, "lost\n"), (run.status, run.stdout))
        one_line(run.stderr, "gpuleak: ", "1 leak, 100 bytes in 1 block")
        compare("complaints, " + way, [], [line for line in run.stderr.splitlines()
                                           if "Interrupted" in line or "not recorded" in line])


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


KIB = 1024


@needs("ends")
def file_limits(place):
    """a limit on file sizes: every end as without gpuleak, plain and under run"""
    os.truncate(place.write("stderr", ""), 300 * KIB)
    for kib in (0, 1, 64, 100, 128, 200):
        for program, args, status in (("clean", [], 0), ("ends", ["return"], 0),
                                      ("ends", ["exit3"], 3), ("ends", ["_exit"], 0)):
            argv = [place.program(program), *args]
            how = {"preexec_fn": limited(kib * KIB)}
            bare = place.run(argv, **how)
            compare("bare", status, bare.status)
            for way, run in ways(place, argv, how):
                compare("%d KiB, %s %s, %s" % (kib, program, args, way),
                        (status, bare.stdout), (run.status, run.stdout))
                if "file" not in way:
                    check_told(kib, program, way, run.stderr)
    place.nothing_left()


def ways(place, argv, how):
    """(name, Run) of ARGV under plain preload and run, with stderr to a pipe and to a file that is
    larger than the limit."""
    ret = [("plain", place.preloaded(argv, **how)),
           ("run", place.command("run", "--", *argv, **how))]
    with open(place.file("stderr"), "a", encoding="utf-8") as file:
        ret += [("plain, to a file", place.preloaded(argv, stderr=file, **how)),
                ("run, to a file", place.command("run", "--", *argv, stderr=file, **how))]
    return ret


def check_told(kib, program, way, text):
    """Plain, the report is whole, from memory; under run the process is named."""
    if kib < 128 and way == "plain":
        one_line(text, "gpuleak: ", "3 blocks" if program == "ends" else "no leaks found")
        one_line(text, "File too large: recorded in memory only")
    elif kib < 128:
        one_line(text, "gpuleak: not recorded completely: p_%s (pid " % program,
                 "File too large; raise its limit on file sizes (ulimit -f)")


@needs("ends")
def file_limits_gate(place):
    """a limit on file sizes: the gate fails, also for a clean program"""
    for program in ("ends", "clean"):
        for kib in (1, 64, 100):
            how = {"preexec_fn": limited(kib * KIB)}
            run = place.command("run", "--gate", "--", place.program(program), **how)
            compare("run, %d KiB" % kib, 23, run.status)
            run = place.preloaded([place.program(program)], {"GPULEAK_EXITCODE": "57"}, **how)
            compare("plain, %d KiB" % kib, 57, run.status)
    run = place.command("run", "--gate", "--", place.program("no_gpu"),
                        preexec_fn=limited(KIB))
    compare("no GPU call", 24, run.status)


@needs("clean")
def fifo_for_ledger(place):
    """GPULEAK_LEDGER naming a FIFO or a device: refused in one line, recorded in memory"""
    os.mkfifo(place.file("fifo"))
    os.symlink(place.file("fifo"), place.file("link"))
    argv = [place.program("clean")]
    for path, why in ((place.file("fifo"), "not a regular file"),
                      (place.file("link"), "not a regular file"),
                      ("/dev/null", "not a regular file"), (place.path, "Is a directory")):
        before = sorted(os.listdir(place.path))
        run = place.preloaded(argv, {"GPULEAK_LEDGER": path})
        compare("status and stdout", (0, "clean\n"), (run.status, run.stdout))
        one_line(run.stderr, "gpuleak: %s: %s: recorded in memory only; set GPULEAK_LEDGER to a "
                 "path that can be written" % (path, why))
        one_line(run.stderr, "gpuleak: no leaks found")
        compare("files", before, sorted(os.listdir(place.path)))
    compare("files in /dev", [], [name for name in os.listdir("/dev") if name.startswith("null.")])


@needs("clean")
def fifo_for_report(place):
    """GPULEAK_REPORT naming a FIFO: a reader gets the report, without one it is on stderr"""
    path = place.file("fifo")
    os.mkfifo(path)
    argv = [place.program("clean")]
    run = place.preloaded(argv, {"GPULEAK_REPORT": path})
    compare("status and stdout", (0, "clean\n"), (run.status, run.stdout))
    one_line(run.stderr, "cannot write the report to %s: it has no reader" % path)
    one_line(run.stderr, "gpuleak: no leaks: ", "; peak ")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    run = place.preloaded(argv, {"GPULEAK_REPORT": path})
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    one_line(os.read(reader, 65536).decode(), "gpuleak: no leaks: ", "; peak ")
    library = place.file("libgpuleak.so")  # without its command: the library reports
    shutil.copy(place.options.preload, library)
    os.close(reader)
    run = place.run(argv, {"LD_PRELOAD": library, "GPULEAK_REPORT": path})
    compare("status and stdout", (0, "clean\n"), (run.status, run.stdout))
    one_line(run.stderr, "gpuleak: no leaks: ")


# The stand-in maps 5 MiB of its own at the first block.
DRIVER_KIB = 5500


@needs("lost")
def address_space(place):
    """a limit on address space: what the application can map, it can map with gpuleak, too"""
    reported = place.reports_under_limits()
    report = {} if reported else {"GPULEAK_REPORT": "none"}
    for space in (6000, 8000, 10000, 12000, 14000, 16000, 20000, 30000, 40000, 60000, 100000,
                  300000, 1000000):
        take = (space - DRIVER_KIB) if space < 16000 else (space - DRIVER_KIB) * 6 // 10
        argv = [place.program("lost"), "space", str(space), "begin", "take", str(take - 400)]
        for way, run in (("bare", place.run(argv)), ("plain", place.preloaded(argv, report)),
                         ("run", place.command("run", "--", *argv))):
            compare("%d KiB, %s" % (space, way), (0, "lost\n"), (run.status, run.stdout))
            if way == "run" or way == "plain" and reported:
                one_line(run.stderr, "gpuleak: ", "1 leak, 100 bytes in 1 block" if space > 16384
                         else "not recorded completely: p_lost")


def least_space(place):
    """The KiB of address space with which the program just gets its block, to 16 KiB."""
    low, high = 0, 8192
    while high - low > 16:
        middle = (low + high) // 2
        bare = place.run([place.program("lost"), "space", str(middle)])
        low, high = (low, middle) if bare.status == 0 else (middle, high)
    return high


@needs("lost")
def little_address_space(place):
    """so little address space that nothing can be recorded: the application gets its block where it
    does without gpuleak"""
    least = least_space(place)
    for more in (48, 128, 200, 300):
        run = place.preloaded([place.program("lost"), "space", str(least + more)],
                              {"GPULEAK_EXITCODE": "57"})
        compare("%d + %d KiB: status, stdout" % (least, more), (57, "lost\n"),
                (run.status, run.stdout))
        one_line(run.stderr, "gpuleak: not recorded completely: p_lost",
                 "raise its limit on address space (ulimit -v)")


@needs("lost")
def no_address_space_at_end(place):
    """no address space is left for a report: one line says so, and the gate fails"""
    for space in (0, 4, 16):
        argv = [place.program("lost"), "end", str(space)]
        run = place.preloaded(argv, {"GPULEAK_EXITCODE": "57"})
        compare("%d KiB: status, stdout" % space, (57, "lost\n"), (run.status, run.stdout))
        compare("lines", 1, len(run.stderr.splitlines()))
        line = one_line(run.stderr, "gpuleak: p_lost (pid %d): no report: the process has no "
                        "memory left" % run.pid, "(ulimit -v)", "or run: gpuleak report /")
        ledger = line.split("gpuleak report ")[1]
        report = place.command("report", ledger)
        one_line(report.stdout + report.stderr, "gpuleak: 1 leak, 100 bytes in 1 block")
        os.unlink(ledger)
        place.nothing_left()


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
    without_gpu, interrupted, ledger_removed, scribbled, plain, file_limits, file_limits_gate,
    fifo_for_ledger, fifo_for_report, address_space, little_address_space, no_address_space_at_end,
]
