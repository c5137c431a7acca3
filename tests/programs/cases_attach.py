# SPDX-License-Identifier: MIT
"""`gpuleak attach`: a service that already runs with four threads is recorded for a while: its calls
are counted exactly, the line that keeps memory is named, leaks are not judged, and afterwards it
runs as before. Every way to end the recording, and what is refused."""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
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
    """`gpuleak attach`, until it has said that it records."""

    def __init__(self, place, service, *flags, **env):
        self.file = place.file("report.json")
        argv = [place.options.command, "attach", "--report", self.file, *flags, str(service.pid)]
        self.process = place.start(argv, env, stderr=subprocess.PIPE)
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
    with recorded(place, "--for", "700ms") as (service, attach):
        service.work(30)
        compare("status", 0, attach.finish(None)[0])
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
def gate_words(place):
    """attach: the gate passes if nothing grows, and its line states that leaks are not judged"""
    with recorded(place, "--step-every", "100ms", "--gate") as (service, attach):
        service.work(5)
        time.sleep(SLOWER)
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
    with recorded(place, "--gate") as (service, attach):
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
def under_gpuleak(place):
    """attach: a process that was started under gpuleak is refused"""
    with Holder(place) as holder:
        refused(place, holder.pid, "is recorded already")
        holder.end()


@needs("attach")
def refusals(place):
    """attach: no process, a zombie, a stopped process, words that are no pid"""
    refused(place, 2 ** 22 + 1, "there is no such process")
    refused(place, "app", "is not the pid of a process")
    zombie = subprocess.Popen(["/bin/true"])
    time.sleep(0.3 * SLOWER)
    refused(place, zombie.pid, "has ended")
    zombie.wait()
    sleeper = subprocess.Popen(["/bin/sleep", "60"])
    try:
        time.sleep(0.3 * SLOWER)
        sleeper.send_signal(signal.SIGSTOP)
        time.sleep(0.3 * SLOWER)
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


ATTACH = [growing, as_bare, detached, again, ended, killed, gate_words, gate_nothing, formats, text,
          twice, under_gpuleak, refusals, other_user, doctor]
