# SPDX-License-Identifier: MIT
"""`gpuleak attach`: a service that already runs with four threads is recorded for a while: its calls
are counted exactly, the line that keeps memory is named, leaks are not judged, and afterwards it
runs as before. Every way to end the recording, and what is refused."""

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from cases_top import Holder
from harness import Failed, Missing, SLOWER, TIMEOUT, compare, line_of
from stories import needs


class Service(Holder):
    """The program p_attach, which runs without gpuleak."""

    def __init__(self, place, program=("attach",), **env):
        super().__init__(place, program, LD_PRELOAD=None, GPULEAK_REPORT=None, **env)
        self.allocated = self.freed = 0

    def work(self, requests):
        self.tell("work %d" % requests)
        if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
            raise Failed("the service does not answer")
        allocated, freed = map(int, self.process.stdout.readline().split())
        self.allocated += allocated
        self.freed += freed

    def end(self, status=7):
        self.tell("end")
        output = self.process.stdout.read().decode()
        compare("status of the service", status, self.process.wait(TIMEOUT))
        return output


class Attach:
    """`gpuleak attach`, until it has said that it records. Calls `meanwhile` until then."""

    def __init__(self, place, service, *flags, meanwhile=None, **env):
        self.file = place.file("report.json")
        argv = [place.options.command, "attach", "--report", self.file, *flags, str(service.pid)]
        self.process = place.start(argv, env, stderr=subprocess.PIPE)
        while meanwhile and not select.select([self.process.stderr], [], [], 0)[0]:
            meanwhile()
        self.first = self.process.stderr.readline().decode()
        if "cannot be traced" in self.first or "can be traced only" in self.first:
            self.process.communicate()
            raise Missing("ptrace is not permitted here")
        if "recording process %d" % service.pid not in self.first:
            raise Failed("it did not attach: " + self.first + self.process.stderr.read().decode())

    def finish(self, signal_number=signal.SIGINT):
        """Ends it. Returns its status and the rest of its stderr."""
        if signal_number:
            self.process.send_signal(signal_number)
        _, said = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, said.decode()

    def report(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)


def bare(place, *numbers):
    with Service(place) as service:
        for number in numbers:
            service.work(number)
        return service.end()


@contextlib.contextmanager
def recorded(place, *flags, **env):
    """A service that has worked, and a `gpuleak attach` that records it."""
    with Service(place) as service:
        service.work(20)
        service.allocated = service.freed = 0
        attach = Attach(place, service, *flags, **env)
        try:
            yield service, attach
        finally:
            if attach.process.poll() is None:
                attach.process.kill()
                attach.process.communicate()


def check_sums(service, report):
    """All calls since the attachment are counted, and no block is called a leak."""
    summary = report["summary"]
    compare("sums", (service.allocated, service.freed, 0, service.allocated - service.freed),
            tuple(summary[key] for key in ("allocated_blocks", "freed_blocks", "leaked_blocks",
                                           "kept_blocks")))
    compare("leaks and errors", ([], []), (report["leaks"], report["errors"]))
    kept = report["kept"][0]
    compare("what is kept", ("cuMemAlloc_v2", "device", service.allocated - service.freed),
            (kept["api"], kept["kind"], kept["blocks"]))
    compare("where", line_of("attach.c", "remember"), next(
        frame["line"] for frame in kept["stack"] if frame["function"] == "remember"))
    process = report["process"]
    compare("process", ("running", True), (process["ended"], process["attached_seconds"] > 0))


@needs("attach")
def growing(place):
    """attach: the first line names the line of a working service that keeps memory"""
    with recorded(place, "--for", "%ds" % (4 * SLOWER), "--gate") as (service, attach):
        while attach.process.poll() is None:
            service.work(5)
        status, said = attach.finish(None)
        compare("status", 23, status)
        report = attach.report()
        if not report["growth"]["suspects"]:
            raise Failed("no growth after %d steps of %d allocations: %s" % (
                len(report["growth"]["steps"]), report["summary"]["allocated_blocks"], said))
        compare("place of the growth", line_of("attach.c", "remember"), next(
            frame["line"] for frame in report["growth"]["suspects"][0]["stack"]
            if frame["function"] == "remember"))
        if "growth of" not in said.split("\n")[0] and "accumulate" not in said.split("\n")[0]:
            raise Failed("the first line names no growth: " + said)
        service.end()
    place.nothing_left()


@needs("attach")
def as_bare(place):
    """attach: calls are counted exactly, and after it all results are those of a bare run"""
    with recorded(place) as (service, attach):
        service.work(30)
        compare("status", 0, attach.finish()[0])
        report = attach.report()
        check_sums(service, report)
        service.work(40)
        got = service.end()
    compare("output", bare(place, 20, 30, 40), got)
    place.nothing_left()


@needs("attach")
def detached(place):
    """attach: --detach from elsewhere ends it, and the first command reports"""
    with recorded(place) as (service, attach):
        service.work(30)
        run = place.command("attach", "--detach", str(service.pid))
        compare("--detach", (0, "", ""), (run.status, run.stdout, run.stderr))
        status, _ = attach.finish(None)
        compare("status", 0, status)
        check_sums(service, attach.report())
        run = place.command("attach", "--detach", str(service.pid))
        compare("status of a second --detach", 125, run.status)
        service.work(10)
        service.end()


@needs("attach")
def again(place):
    """attach: a second attachment is a new ledger, in which earlier blocks are not counted"""
    with recorded(place) as (service, attach):
        service.work(30)
        attach.finish(signal.SIGTERM)
        service.allocated = service.freed = 0
        second = Attach(place, service)
        service.work(15)
        compare("status", 0, second.finish(signal.SIGHUP)[0])
        check_sums(service, second.report())
        service.end()


@needs("attach")
def many_attachments(place):
    """attach: again and again while it works, each report has the calls of its time; then as bare"""
    rounds = int(os.environ.get("TEST_ROUNDS", "5"))
    with Service(place) as service:
        service.work(20)
        before = kept_open(service.pid)
        for _ in range(rounds):
            service.allocated = service.freed = 0
            attach = Attach(place, service)
            service.work(5)
            compare("status", 0, attach.finish()[0])
            check_sums(service, attach.report())
        until = time.monotonic() + TIMEOUT
        while kept_open(service.pid) != before and time.monotonic() < until:
            time.sleep(0.05)  # a thread may not have ended yet
        compare("descriptors and threads", before, kept_open(service.pid))
        compare("output", bare(place, 20, *[5] * rounds), service.end())
    place.nothing_left()


def kept_open(pid):
    return [len(os.listdir("/proc/%d/%s" % (pid, what))) for what in ("fd", "task")]


@needs("attach")
def ended(place):
    """attach: if the service ends, what it freed at its end is freed"""
    with recorded(place) as (service, attach):
        service.work(10)
        kept = service.allocated - service.freed
        service.end()
        compare("status", 0, attach.finish(None)[0])
        report = attach.report()
        compare("ended", ("exit", 7), (report["process"]["ended"], report["process"]["status"]))
        compare("sums", (service.allocated, service.freed + kept, 0), tuple(
            report["summary"][key] for key in ("allocated_blocks", "freed_blocks",
                                               "leaked_blocks")))
    place.nothing_left()


@needs("attach")
def killed(place):
    """attach: a service that is killed is reported"""
    with recorded(place) as (service, attach):
        service.work(10)
        service.process.kill()
        compare("status", 0, attach.finish(None)[0])
        report = attach.report()
        compare("leaks", ([], service.allocated - service.freed),
                (report["leaks"], report["summary"]["kept_blocks"]))


@needs("attach")
def killed_command(place):
    """attach: if the command is killed, the process ends the recording by itself, and runs as bare"""
    with recorded(place) as (service, attach):
        service.work(30)
        attach.process.kill()
        attach.process.communicate()
        until = time.monotonic() + TIMEOUT
        while "gpuleak" in names_of_threads(service.pid):
            compare("the end in time", True, time.monotonic() < until)
            time.sleep(0.05)
        check_sums(service, json.loads(place.command(
            "report", "--format", "json", str(service.pid)).stdout))
        service.work(10)  # not recorded
        service.allocated = service.freed = 0
        second = Attach(place, service)
        service.work(15)
        compare("status", 0, second.finish()[0])
        check_sums(service, second.report())
        compare("output", bare(place, 20, 30, 10, 15), service.end())


def names_of_threads(pid):
    ret = []
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, thread), encoding="utf-8") as file:
            ret.append(file.read().strip())
    return ret


@needs("attach")
def gate_words(place):
    """attach: the gate passes if nothing grows, and its line states that leaks are not judged"""
    with recorded(place, "--step-every", "100ms", "--gate") as (service, attach):
        service.work(5)
        time.sleep(3 * SLOWER)
        status, said = attach.finish()
        compare("status", 0, status)
        if "gate passed: " not in said or "leaks not judged" not in said:
            raise Failed(said)
        if "no leaks" in said:
            raise Failed("it states that there are no leaks: " + said)
        service.end()


@needs("attach")
def gate_nothing(place):
    """attach: a gate has nothing to judge if nothing was allocated meanwhile"""
    with recorded(place, "--gate", "--step-every", "100ms") as (service, attach):
        time.sleep(0.25)  # one to three steps, too few to judge growth
        status, said = attach.finish()
        compare("status", 24, status)
        if "nothing was allocated while gpuleak was attached" not in said:
            raise Failed(said)
        service.end()


@needs("attach")
def formats(place):
    """attach: no format calls a kept block a leak"""
    with recorded(place, "--ledger", place.file("kept.ledger")) as (service, attach):
        service.work(10)
        attach.finish()
        service.end()
    for name in ("text", "json", "html", "junit", "sarif", "github", "folded", "openmetrics"):
        run = place.command("report", "--format", name, place.file("kept.ledger"))
        compare("status of " + name, 0, run.status)
        got = run.stdout
        if name == "sarif":  # without its list of rules
            got = json.dumps(json.loads(got)["runs"][0]["results"])
        for word in ("no leaks", "1 leak", "never freed", "Leak of", "GPU memory leak"):
            if word in got and name != "html":
                raise Failed("%s has '%s': %s" % (name, word, got))
        if name in ("text", "json", "sarif", "folded") and "remember" not in run.stdout:
            raise Failed("%s does not name the place: %s" % (name, run.stdout))
    run = place.command("check", place.file("kept.ledger"))
    compare("status of check", 23, run.status)  # too few steps: fails closed


@needs("attach")
def text(place):
    """attach: the text names what was kept, since when, and that leaks are not judged"""
    with recorded(place, "--format", "text", "--report", "stderr") as (service, attach):
        service.work(10)
        status, said = attach.finish()
        lines = said.split("\n")
        compare("status", 0, status)
        if not re.match(r"gpuleak: kept 640\.0 KiB of 800\.0 KiB allocated in [0-9.]+ s at ",
                        lines[0]):
            raise Failed(said)
        if not re.search(r"^gpuleak: attached \d\d:\d\d:\d\d for [0-9.]+ s, .*leaks are not judged$",
                         said, re.M):
            raise Failed(said)
        service.end()


def refused(place, pid, *parts):
    run = place.command("attach", str(pid))
    compare("status", 125, run.status)
    compare("lines of the refusal", 1, run.stderr.count("\n"))
    for part in parts:
        if part not in run.stderr:
            raise Failed("'%s' is not in %s" % (part, run.stderr))


@needs("attach")
def twice(place):
    """attach: a process that is recorded is refused, and top shows it"""
    with recorded(place) as (service, attach):
        service.work(5)
        refused(place, service.pid, "is recorded already", "gpuleak top %d" % service.pid)
        run = place.command("doctor", str(service.pid))
        compare("doctor", (1, True), (run.status, "is recorded already" in run.stdout))
        run = place.command("top", "--once", str(service.pid))
        compare("top", (0, True), (run.status, "remember" in run.stdout))
        attach.finish()
        service.end()


@needs("attach")
def held(place):
    """attach: while another command is about to attach, a process is refused, and then not"""
    with Service(place) as service:
        Attach(place, service).finish()
        folder = os.open("/proc/%d" % service.pid, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        refused(place, service.pid, "another gpuleak is about to attach to it")
        os.close(folder)
        compare("status", 0, Attach(place, service).finish()[0])
        service.end()


class Prepared(Service):
    """The service, started with GPULEAK_RECORD=off."""

    def __init__(self, place):
        Holder.__init__(self, place, ("attach",), LD_PRELOAD=place.options.preload,
                        GPULEAK_REPORT=None, GPULEAK_RECORD="off")
        self.allocated = self.freed = 0


@needs("attach")
def by_page(place):
    """attach: a process with GPULEAK_RECORD=off takes the request at its next call, and a request that
    it did not take in time is withdrawn"""
    with Prepared(place) as service:
        service.work(1)
        refused(place, service.pid, "it made no GPU call for 10 seconds")
        service.work(1)
        for _ in range(2):
            attach = Attach(place, service, meanwhile=lambda: service.work(1))
            service.allocated = service.freed = 0
            service.work(10)
            compare("status", 0, attach.finish()[0])
            summary = attach.report()["summary"]
            compare("at least these", True, summary["allocated_blocks"] >= service.allocated
                    and summary["freed_blocks"] >= service.freed > 0)
            compare("where", line_of("attach.c", "remember"), next(
                frame["line"] for frame in attach.report()["kept"][0]["stack"]
                if frame["function"] == "remember"))
        service.end()
    place.nothing_left()


@needs("attach")
def under_gpuleak(place):
    """attach: a process that was started under gpuleak is refused"""
    with Holder(place) as holder:
        refused(place, holder.pid, "is recorded already")
        holder.end()


HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall(60 if __import__("os").uname().machine == "x86_64" else 93, 0)
"""


@needs("attach")
def refusals(place):
    """attach: no process, a zombie, one without its first thread, a stopped one, no pid"""
    refused(place, 2 ** 22 + 1, "there is no such process")
    for word in ("app", "0", "99999999999"):
        refused(place, word, ": %s is not the pid of a process" % word)
    zombie = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    refused(place, zombie.pid, "has ended")
    zombie.wait()
    headless = subprocess.Popen([sys.executable, "-c", HEADLESS], stdout=-1)
    try:
        headless.stdout.readline()
        time.sleep(0.3 * SLOWER)
        refused(place, headless.pid, "runs on without its main thread")
    finally:
        headless.kill()
        headless.communicate()
    sleeper = subprocess.Popen(["/bin/sleep", "60"])
    try:
        sleeper.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
        refused(place, sleeper.pid, "kill -CONT")
    finally:
        sleeper.kill()
        sleeper.wait()


@needs("attach")
def other_user(place):
    """attach: another user's process is refused"""
    if os.geteuid() != 0:
        raise Missing("needs root")
    sleeper = subprocess.Popen(["/bin/sleep", "60"])
    try:
        os.chmod(place.path, 0o755)
        command = shutil.copy(place.options.command, place.file("gpuleak"))
        library = shutil.copy(place.options.preload, place.file("libgpuleak.so"))
        run = place.run([command, "attach", str(sleeper.pid)], {"GPULEAK_LIBRARY": library},
                        user=65534)
        compare("status", 125, run.status)
        if "another user's process; run gpuleak as root" not in run.stderr:
            raise Failed(run.stderr)
    finally:
        sleeper.kill()
        sleeper.wait()


DROPPED = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
wrong = cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
os.setgid(65534)
os.setuid(65534)
print("ready", flush=True)
for line in sys.stdin:
    wrong = wrong or cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(4096))
    print("done" if not wrong else "failed", flush=True)
"""


@needs("attach")
def dropped_user(place):
    """attach: a process that gave up root, and cannot read gpuleak's folder, is recorded by root"""
    if os.geteuid() != 0:
        raise Missing("needs root")
    os.mkdir(place.file("private"), 0o700)
    library = shutil.copy(place.options.preload, place.file("private/libgpuleak.so"))
    with Script(place, DROPPED) as process:
        attach = Attach(place, process, GPULEAK_LIBRARY=library)
        process.more()
        compare("status", 0, attach.finish()[0])
        compare("kept", [4096], [one["bytes"] for one in attach.report()["kept"]])


class Sleeper:
    """A program that only waits."""

    def __init__(self, place, argv, **how):
        self.process = place.start(argv, {}, stdin=-1, **how)
        self.pid = self.process.pid
        select.select([self.process.stdout], [], [], TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def compiled(place, *compiler):
    """The path of a program that prints a line and waits."""
    if not shutil.which(compiler[0]):
        raise Missing("no " + compiler[0])
    source = place.write("waits.c", "#include <stdio.h>\nint main(void) { puts(\"ready\"); "
                         "fflush(stdout); getchar(); return 0; }\n")
    run = place.run([*compiler, source, "-o", place.file("waits")])
    if run.status:
        raise Missing("%s cannot link: %s" % (compiler[0], run.stderr.strip().split("\n")[-1]))
    return place.file("waits")


@needs("attach")
def static_program(place):
    """attach: a program that is linked statically is refused"""
    with Sleeper(place, [compiled(place, "cc", "-static")]) as sleeper:
        refused(place, sleeper.pid, "is linked statically")


@needs("attach")
def musl_program(place):
    """attach: a program with musl is refused"""
    with Sleeper(place, [compiled(place, "musl-gcc")]) as sleeper:
        refused(place, sleeper.pid, "uses musl, and gpuleak needs glibc")


FILTERED = """
import ctypes, struct, sys
allow = struct.pack("HBBI", 6, 0, 0, 0x7fff0000)
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
libc.prctl(22, 2, ctypes.byref(Program(1, allow)), 0, 0)
print("ready", flush=True)
sys.stdin.read()
"""


@needs("attach")
def own_filter(place):
    """attach: a program that has set a filter of system calls is refused"""
    with Sleeper(place, [sys.executable, "-c", FILTERED]) as sleeper:
        with open("/proc/%d/status" % sleeper.pid, encoding="ascii") as file:
            if "Seccomp_filters:" not in file.read():
                raise Missing("the kernel does not count filters")
        refused(place, sleeper.pid, "a seccomp filter of its own")


TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None)
print(libc.ptrace(0x4206, int(sys.argv[1]), None, None), flush=True)
sys.stdin.read()
"""


@needs("attach")
def debugger(place):
    """attach: a process that is traced already is refused, with the tracer's pid"""
    with Service(place) as service, Sleeper(
            place, [sys.executable, "-c", TRACER, str(service.pid)]) as tracer:
        if tracer.process.stdout.readline() != b"0\n":
            raise Missing("ptrace is not permitted here")
        refused(place, service.pid, "is traced by process %d already" % tracer.pid)


def named(report):
    compare("functions", True, all(kept["stack"][0]["function"] for kept in report["kept"]))


class Copied(Service):
    """The service, whose program is the file PATH."""

    def __init__(self, place, path):
        self.place = place
        self.allocated = self.freed = 0
        self.process = place.start([path], {}, stdin=-1)
        self.expect("ready")


@needs("attach")
def replaced(place):
    """attach: the program's file was replaced or deleted meanwhile: its functions are known"""
    for new in (None, "/bin/true"):
        path = place.file("service")
        shutil.copy(place.program("attach"), path)
        with Copied(place, path) as service:
            os.unlink(path)
            if new:
                shutil.copy(new, path)
            attach = Attach(place, service)
            service.work(20)
            compare("status", 0, attach.finish()[0])
            named(attach.report())
            service.end()


class Contained(Service):
    """The service in namespaces of its own, with its own /tmp that has the program, and without the
    library."""

    def __init__(self, place):
        self.place = place
        self.allocated = self.freed = 0
        self.process = place.start(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh", "-c",
             "mount -t tmpfs none /tmp && cp %s /tmp/service && mount -t tmpfs none %s && "
             "exec /tmp/service" % (place.program("attach"), os.path.dirname(place.options.preload))],
            {}, stdin=-1)
        if not select.select([self.process.stdout], [], [], TIMEOUT)[0] or \
                self.process.stdout.readline() != b"ready\n":
            raise Missing("no namespaces here: " + self.process.stderr.readline().decode())
        path = "/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)
        with open(path, encoding="ascii") as file:
            self.inner = int(file.read())

    @property
    def pid(self):
        return self.inner


@needs("attach")
def contained(place):
    """attach: a process in a container, which has its own pids and /tmp, is recorded from outside"""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Missing("needs root and unshare")
    if place.options.programs.startswith("/tmp/"):
        raise Missing("the programs are in /tmp")
    with Contained(place) as service:
        attach = Attach(place, service)
        service.work(20)
        compare("status", 0, attach.finish()[0])
        check_sums(service, attach.report())
        named(attach.report())
        compare("its /tmp", ["service"], os.listdir("/proc/%d/root/tmp" % service.pid))
        service.end()


PARENT = """
import subprocess, sys
kids = [subprocess.Popen([sys.argv[1]], stdin=-1, stdout=-1) for _ in range(2)]
def answers(text):
    for kid in kids:
        kid.stdin.write(text)
        kid.stdin.flush()
    return [kid.stdout.readline() for kid in kids]
answers(b"")
print("ready", flush=True)
for line in sys.stdin:
    answers(b"work 5\\n")
    print("done", flush=True)
answers(b"end\\n")
for kid in kids:
    kid.wait()
"""
FORKING = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        block, context = ctypes.c_uint64(), ctypes.c_void_p()
        wrong = cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
        for _ in range(3):
            wrong = wrong or cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(4096))
        os._exit(wrong or cuda.cuMemFree_v2(block))
    print("done" if os.waitpid(pid, 0)[1] == 0 else "failed", flush=True)
"""


class Script(Holder):
    """A Python program that works when it gets a line."""

    def __init__(self, place, text, *words, **env):
        self.place = place
        self.process = place.start([sys.executable, "-c", text, *words], env, stdin=-1)
        self.expect("ready")


def sums(report):
    return sorted((process["summary"]["allocated_blocks"], process["summary"]["freed_blocks"])
                  for process in report.get("processes", [report]))


@needs("attach")
def tree(place):
    """attach --tree: the processes below are recorded too, in one report"""
    with Script(place, PARENT, place.program("attach")) as parent:
        attach = Attach(place, parent, "--tree")
        if "and 2 below it" not in attach.first:
            raise Failed(attach.first)
        for _ in range(3):
            parent.more()
        compare("status", 0, attach.finish()[0])
        compare("allocated and freed", [(75, 60), (75, 60)],
                [pair for pair in sums(attach.report()) if pair != (0, 0)])
        parent.more()
    place.nothing_left()


@needs("attach")
def forked(place):
    """attach: children that are forked meanwhile are recorded with --tree, and otherwise not"""
    for flags, wanted in (((), []), (("--tree",), [(3, 1), (3, 1)])):
        with Script(place, FORKING) as parent:
            parent.more()
            attach = Attach(place, parent, *flags)
            parent.more()
            parent.more()
            compare("status", 0, attach.finish()[0])
            report = attach.report()
            compare("allocated and freed", wanted, [pair for pair in sums(report) if pair != (0, 0)])
            for process in report.get("processes", [report]):
                compare("leaks are not judged", ([], True), (
                    process["leaks"], process["process"]["attached_seconds"] is not None))
            compare("kept", [2] * len(wanted), [one["blocks"] for process in
                                                report.get("processes", [report])
                                                for one in process.get("kept", ())])
            parent.more()
    place.nothing_left()


LATE = """
import ctypes, sys
print("ready", flush=True)
for line in sys.stdin:
    module, cuda = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
    context, blocks = ctypes.c_void_p(), (ctypes.c_uint64 * 4)()
    wrong = cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    module.module_fill(cuda.cuMemAlloc_v2, cuda.cuGetProcAddress)
    module.module_allocate(ctypes.c_size_t(2000), blocks)
    print("done" if not wrong else "failed", flush=True)
"""


@needs("attach")
def late_driver(place):
    """attach: a driver that is loaded later, for a library that is linked to it, is recorded"""
    module = os.path.join(place.options.programs, "attached_module_b.so")
    for lazily in (None, "1"):
        with Script(place, LATE, module, LD_BIND_NOW=lazily) as process:
            attach = Attach(place, process)
            process.more()
            compare("status", 0, attach.finish()[0])
            compare("kept", [2000, 2001, 2002, 2003],
                    sorted(one["bytes"] for one in attach.report()["kept"]))


@needs("attach")
def wrong_process(place):
    """attach: the process has loaded no driver, and one below it has: the user gets its number"""
    with Script(place, PARENT, place.program("attach")) as parent:
        attach = Attach(place, parent)
        said = attach.process.stderr.readline().decode()
        attach.finish()
        below = re.search(r"neither CUDA nor OpenCL so far, but process (\d+) below it has: use "
                          r"--tree\n", said)
        if not below:
            raise Failed(said)
        with open("/proc/%s/stat" % below[1], encoding="utf-8") as file:
            compare("parent", parent.pid, int(file.read().rsplit(")", 1)[1].split()[1]))


TWO_DEVICES = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
contexts = [ctypes.c_void_p() for _ in range(2)]
wrong = cuda.cuInit(0)
for device, context in enumerate(contexts):
    wrong = wrong or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
print("ready" if not wrong else "failed", flush=True)
for line in sys.stdin:
    for context in contexts:
        block = ctypes.c_uint64()
        wrong = cuda.cuCtxSetCurrent(context) or cuda.cuMemAlloc_v2(ctypes.byref(block),
                                                                    ctypes.c_size_t(4096)) or wrong
    print("done" if not wrong else "failed", flush=True)
"""


@needs("attach")
def two_devices(place):
    """attach: a process with two devices is recorded on both"""
    with Script(place, TWO_DEVICES, STANDIN_DEVICES="2") as script:
        script.more()
        attach = Attach(place, script)
        for _ in range(3):
            script.more()
        compare("status", 0, attach.finish()[0])
        compare("blocks by device", [(0, 3), (1, 3)], sorted(
            (kept["device"], kept["blocks"]) for kept in attach.report()["kept"]))
        script.more()


def python_with(module):
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0:
            return python
    raise Missing("no " + module)


# Runs the script ARGV[1], and prints a line when that first sleeps: after its first request.
SAYS_WHEN_IT_SERVES = """
import runpy, sys, time
def sleep(seconds, sleep=time.sleep):
    time.sleep = sleep
    print("serving", flush=True)
time.sleep = sleep
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@needs("cl_leak")
def pyopencl(place):
    """attach: a PyOpenCL service's growing line is named, as growth and as accumulation"""
    script = os.path.join(os.path.dirname(__file__), "../../docs/examples/server_pyopencl.py")
    process = place.start([python_with("pyopencl"), "-c", SAYS_WHEN_IT_SERVES, script,
                           str(12 * SLOWER)], {})
    try:
        compare("the first request", b"serving\n", process.stdout.readline())
        run = place.command("attach", "--for", "%ds" % (5 * SLOWER), "--gate", "--report",
                            place.file("report.json"), str(process.pid))
        if "can be traced only" in run.stderr or "cannot be traced" in run.stderr:
            raise Missing("ptrace is not permitted here")
        compare("status", 23, run.status)
        report = place.json("report.json")
        for what, found in (("growth", report["growth"]["suspects"]),
                            ("accumulation", report["suballocations"])):
            compare(what, ["load"], [next(frame["function"] for frame in one["stack"]
                                          if "server_pyopencl.py" in (frame["file"] or ""))
                                     for one in found])
        compare("the service", (b"served\n", 0), (process.communicate(timeout=TIMEOUT)[0],
                                                  process.returncode))
    finally:
        process.kill()
        process.communicate()


@needs("attach")
def doctor(place):
    """attach: doctor PID and top PID offer it"""
    with Service(place) as service:
        run = place.command("doctor", str(service.pid))
        if "cannot be traced" in run.stdout or "can be traced only" in run.stdout:
            raise Missing("ptrace is not permitted here")
        compare("doctor", (0, True), (run.status, "can be attached to: gpuleak attach %d" %
                                      service.pid in run.stdout))
        run = place.command("top", "--once", str(service.pid))
        compare("top", (1, True), (run.status, "`gpuleak attach %d`" % service.pid in run.stderr))
        service.end()


ATTACH = [growing, as_bare, detached, again, many_attachments, ended, killed, killed_command, gate_words, gate_nothing, formats, text,
          twice, held, by_page, under_gpuleak, refusals, other_user, dropped_user, static_program, musl_program, own_filter, debugger,
          replaced, contained, tree, forked, late_driver, wrong_process, two_devices, pyopencl, doctor]
