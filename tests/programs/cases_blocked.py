# SPDX-License-Identifier: MIT
"""Nobody reads standard error: the application ends nevertheless, and nothing of the report is lost."""

import fcntl
import json
import os
import shutil
import signal
import subprocess

from harness import TIMEOUT, Failed, Run, compare, until

F_SETPIPE_SZ = 1031


class BlockedPipe:
    """A pipe of one page that nobody reads until read() is called."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self.size = fcntl.fcntl(self.writer, F_SETPIPE_SZ, 4096)
        self.filled = 0

    def fill(self):
        os.set_blocking(self.writer, False)
        try:
            while True:
                self.filled += os.write(self.writer, b"x" * self.size)
        except BlockingIOError:
            os.set_blocking(self.writer, True)

    def close_writer(self):
        """Only the application and its reporter have the pipe now."""
        os.close(self.writer)

    def read(self):
        """Returns what was written after fill(), up to the end of the last writer."""
        text = b""
        while True:
            part = os.read(self.reader, 65536)
            if not part:
                return text[self.filled:].decode()
            text += part


def blocked(place, argv, env, full=True, preload=None):
    """Runs ARGV with the preload and a pipe for stderr that nobody reads. Returns a Run without stderr, and
    the pipe."""
    pipe = BlockedPipe()
    if full:
        pipe.fill()
    process = place.start(argv, {"LD_PRELOAD": preload or place.options.preload, **env},
                          stderr=pipe.writer)
    pipe.close_writer()
    try:
        out, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failed("%s did not end while nobody read stderr" % argv) from None
    compare("flags of the pipe", 0, fcntl.fcntl(pipe.reader, fcntl.F_GETFL) & os.O_NONBLOCK)
    return Run(process.returncode, out.decode(), "", process.pid), pipe


def nothing_stays(place):
    """The ledger is removed after the report's file was closed, which is what its reader waits for."""
    until("every ledger is removed", lambda: not place.left_behind())


def report_larger_than_the_pipe(place):
    """a report that is larger than the pipe: the process ends with its verdict, the report is complete"""
    run, pipe = blocked(place, [place.program("cuda_wrong_frees")],
                        {"GPULEAK_FORMAT": "json", "GPULEAK_EXITCODE": "23"}, full=False)
    compare("status", 23, run.status)
    compare("ledgers while the report is not written", 1, len(place.left_behind()))
    report = json.loads(pipe.read())
    compare("leaked bytes, errors, pid", (100000, 3, run.pid),
            (report["summary"]["leaked_bytes"], report["summary"]["errors"],
             report["process"]["pid"]))
    nothing_stays(place)


def clean_program(place):
    """a full pipe: a clean program ends, by every end, and its line follows"""
    for program, *args in (["clean"], ["ends", "_exit"], ["ends", "quick_exit"]):
        argv = [place.program(program), *args]
        run, pipe = blocked(place, argv, {})
        compare("%s %s: status" % (program, args), place.run(argv).status, run.status)
        usual = place.preloaded(argv)
        compare("%s %s: stderr" % (program, args),
                usual.stderr.replace("(pid %d)" % usual.pid, "(pid %d)" % run.pid), pipe.read())
    nothing_stays(place)


def own_lines(place):
    """a full pipe: the library's own line about a bad variable does not hang the program"""
    run, pipe = blocked(place, [place.program("clean")], {"GPULEAK_STACK_DEPTH": "many"})
    compare("status", 0, run.status)
    compare("report", "gpuleak: no leaks: ", pipe.read()[:19])
    nothing_stays(place)


def without_command(place):
    """a full pipe, and no command that reports: the process ends, and its ledger stays"""
    os.mkdir(place.file("alone"))
    shutil.copy(place.options.preload, place.file("alone/libgpuleak.so"))
    run, pipe = blocked(place, [place.program("cuda_wrong_frees")], {"GPULEAK_EXITCODE": "23"},
                        preload=place.file("alone/libgpuleak.so"))
    compare("status", 23, run.status)
    compare("stderr", "", pipe.read())
    told = place.command("report", "--format", "json", str(run.pid))
    compare("status of report PID", 0, told.status)
    compare("leaked bytes", 100000, json.loads(told.stdout)["summary"]["leaked_bytes"])


def reader_leaves(place):
    """a reader that closes the pipe ends the reporter, which removes the ledger"""
    _, pipe = blocked(place, [place.program("cuda_wrong_frees")], {"GPULEAK_FORMAT": "json"},
                      full=False)
    compare("ledgers", 1, len(place.left_behind()))
    os.close(pipe.reader)
    until("the ledger is removed", lambda: not place.left_behind())


def reporters(place):
    """The processes that read a ledger of PLACE."""
    ret = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"--at-exit" in words and any(place.runtime.encode() in word for word in words):
            ret.append(int(pid))
    return ret


def reporter_is_killed(place):
    """a reporter that is killed leaves the ledger, and `gpuleak report PID` finds it"""
    run, pipe = blocked(place, [place.program("cuda_wrong_frees")], {"GPULEAK_FORMAT": "json"},
                        full=False)
    for pid in reporters(place):
        os.kill(pid, signal.SIGKILL)
    pipe.read()
    told = place.command("report", "--format", "json", str(run.pid))
    compare("status of report PID", 0, told.status)
    compare("leaked bytes", 100000, json.loads(told.stdout)["summary"]["leaked_bytes"])


def fifo(place):
    """GPULEAK_REPORT names a FIFO whose reader does not read: the same"""
    os.mkfifo(place.file("fifo"))
    reader = os.open(place.file("fifo"), os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, F_SETPIPE_SZ, 4096)
    run = place.preloaded([place.program("cuda_wrong_frees")],
                          {"GPULEAK_FORMAT": "json", "GPULEAK_REPORT": place.file("fifo"),
                           "GPULEAK_EXITCODE": "23"})
    compare("status and stderr", (23, ""), (run.status, run.stderr))
    os.set_blocking(reader, True)
    with os.fdopen(reader, "rb") as file:
        compare("leaked bytes", 100000, json.loads(file.read())["summary"]["leaked_bytes"])
    nothing_stays(place)


BLOCKED = [report_larger_than_the_pipe, clean_program, own_lines, without_command, reader_leaves,
           reporter_is_killed, fifo]
