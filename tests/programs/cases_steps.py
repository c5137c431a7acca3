# SPDX-License-Identifier: MIT
"""While it runs: steps by call, signal and clock, and who is suspected by when; reports on demand,
also in a process that makes no GPU call; `gpuleak run --every`; the growth gate; ages."""

import json
import os
import re
import select
import signal
import time

from cases_top import Holder
from harness import Failed, TIMEOUT, compare, line_of, no_call_seen, until, without_earlier

MIB = 1 << 20
PROGRAM = "steps"


def marked(marker):
    return line_of("steps.c", marker)


def story(place, name, count, **env):
    """JSON of what STORY reports at its end, and its output."""
    run = place.preloaded([place.program(PROGRAM), name, str(count)], {
        "GPULEAK_FORMAT": "json", "GPULEAK_REPORT": place.file("report.json"), **env})
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    return place.json("report.json"), run.stdout


def suspects(report):
    """(line, bytes per step, bytes, blocks) of each."""
    return [(item["stack"][0]["line"], item["bytes_per_step"], item["bytes"], item["blocks"])
            for item in report["growth"]["suspects"]]


def the_leak(steps):
    """What must be said of the leak at that step, and of nothing else."""
    return [(marked("leak"), MIB, steps * MIB, steps * 4)] if steps >= 4 else []


def by_call(place):
    """steps: by the C function: the leak is named by the fourth step, the cache never"""
    for count in (*range(1, 10), 16, 17, 20):
        report, out = story(place, "call", count)
        compare("numbers of the steps", " ".join(map(str, range(count + 1))) + "\n", out)
        compare("steps", (count, count), (report["growth"]["step_count"],
                                          len(report["growth"]["steps"])))
        compare("suspects at step %d" % count, the_leak(count), suspects(report))
        last = report["growth"]["steps"][-1]
        compare("label", ("request %d, of which this is a long name" % count)[:32], last["label"])
        cache = 8 * MIB * {1: 4, 2: 6}.get(count, 7)
        other = 64 * MIB * (count % 2 == 0)
        compare("live bytes", count * MIB + cache + other, last["live_bytes"])
        compare("live blocks", count * 4 + cache // 8 // MIB + other // 64 // MIB,
                last["live_blocks"])


def one_line(place):
    """steps: two calls of one line are one suspect"""
    report, _ = story(place, "line", 5)
    compare("suspects", [(marked("leak"), 3 * MIB, 15 * MIB, 10)], suspects(report))


def many_steps(place):
    """steps: more than the ledger keeps: the last 255, and a suspect over the last 15"""
    report, _ = story(place, "call", 300)
    growth = report["growth"]
    compare("steps", (300, 46, 300), (growth["step_count"], growth["steps"][0]["number"],
                                      growth["steps"][-1]["number"]))
    compare("suspects", the_leak(300), suspects(report))
    compare("over", 15, growth["suspects"][0]["grew_in_steps"])
    compare("series", [i * MIB for i in range(285, 301)],
            growth["suspects"][0]["bytes_at_steps"])


STEP_KEYS = ("name", "count", "open", "allocated_bytes", "allocated_blocks", "freed_bytes",
             "freed_blocks", "left_bytes", "left_blocks", "peak_bytes")


def named_steps(report):
    return [tuple(step[key] for key in STEP_KEYS) for step in report["steps"]]


def named(place):
    """named steps: what each allocated, freed and left, its peak; any bytes; the last one is open"""
    signals = {"GPULEAK_STEP_SIGNAL": str(int(signal.SIGUSR2))}
    report, out = story(place, "named", 3, **signals)
    compare("numbers", "0 2 3 4\n", out)
    name = "\ufffd\x1b<b>\n\"open\", which is longer than there is room for in a record of a ledger"
    compare("steps", [
        ("warm-up", 1, False, 4 * MIB, 3, 2 * MIB, 1, 2 * MIB, 2, 3 * MIB),
        ("train", 3, False, 15 * MIB, 3, 15 * MIB, 3, 0, 0, 8 * MIB),
        ("evaluate", 1, False, 32 * MIB + (64 << 10), 2, 32 * MIB + (64 << 10), 2, 0, 0, 34 * MIB),
        ("free", 1, False, 0, 0, MIB, 1, -MIB, -1, 2 * MIB),
        (name[:64], 1, True, 32 * MIB, 2, 16 * MIB, 1, 16 * MIB, 1, 33 * MIB),
    ], named_steps(report))
    compare("keys", list(STEP_KEYS), list(report["steps"][0]))
    compare("label", ["a label", name[:32]],
            [step["label"] for step in report["growth"]["steps"]][-2:])
    run = place.preloaded([place.program(PROGRAM), "named", "3"], signals)
    lines = run.stderr.split("\n")
    at = lines.index("gpuleak: named steps:")
    compare("table", [
        "       times     allocated         freed          left  largest peak  step",
        '           1       4.0 MiB       2.0 MiB       2.0 MiB       3.0 MiB  "warm-up"',
        '           3      15.0 MiB      15.0 MiB       0 bytes       8.0 MiB  "train"',
        '           1      32.0 MiB      32.0 MiB       0 bytes      34.0 MiB  "evaluate"',
        '           1       0 bytes       1.0 MiB      -1.0 MiB       2.0 MiB  "free"',
        '           1      32.0 MiB      16.0 MiB      16.0 MiB      33.0 MiB  "\\xFF\\x1B<b>\\x0A'
        '"open", which is longer than there is room for in a record", not ended'], lines[at + 1:at + 7])


def many_names(place):
    """named steps: 100,000 of one name are one record; after 100 names the others are one record"""
    report, _ = story(place, "names", 100000)
    found = named_steps(report)
    compare("records", 101, len(found))
    compare("same", ("same", 100001, False, 100000 << 10, 100000, 100000 << 10, 100000, 0, 0, 1024),
            found[0])
    compare("names", [("name %d" % i, 1, False, i + 1 << 10, 1, i + 1 << 10, 1, 0, 0, i + 1 << 10)
                      for i in range(99)], found[1:100])
    size = sum(range(100, 151)) << 10
    compare("others", (None, 51, False, size, 51, size, 51, 0, 0, 150 << 10), found[100])
    run = place.preloaded([place.program(PROGRAM), "names", "1"])
    compare("text", True, "\n  and 81 more; --format json lists all\n" in run.stderr)


def killed_in_step(place):
    """named steps: of a process that was killed the step has all until then"""
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        place.program(PROGRAM), "killed", "0")
    compare("status", 137, run.status)
    compare("steps", [("killed", 1, True, 4 * MIB, 2, 3 * MIB, 1, MIB, 1, 3 * MIB)],
            named_steps(place.json("report.json")))


def by_signal(place):
    """steps: by signal"""
    report, _ = story(place, "signal", 5, GPULEAK_STEP_SIGNAL=str(int(signal.SIGUSR2)))
    compare("steps", 5, report["growth"]["step_count"])
    compare("suspects", the_leak(5), suspects(report))


def without(place):
    """steps: none marked: nothing is said of growth; not preloaded: the functions are not there"""
    bare = place.run([place.program(PROGRAM), "call", "4"])
    compare("without the preload", (0, "0\n", ""), (bare.status, bare.stdout, bare.stderr))
    with Service(place, "idle", 0) as service:
        service.tell("end")
    report = place.json("report.json")
    compare("keys", (False, False), ("growth" in report, "steps" in report))


def text(place):
    """steps: in the text report, after the leaks"""
    run = place.preloaded([place.program(PROGRAM), "call", "4"])
    compare("also", "gpuleak: also: growth from step to step at 1 place", run.stderr.split("\n")[1])
    lines = run.stderr[run.stderr.index("\ngpuleak: suspect: "):].split("\n")
    compare("suspect", True, re.fullmatch(
        r"gpuleak: suspect: 1\.0 MiB per step at leak \(/.*/steps\.c:%d\), called from work .*, "
        r"cuMemAlloc_v2 \(device memory, device 0\): grew over the last 3 steps, to 4\.0 MiB in 16 "
        r"blocks" % marked("leak"), lines[1]) is not None)
    compare("steps", 'gpuleak: 4 steps marked, the last one "request 4, of which this is a lo"',
            lines[2])
    run = place.preloaded([place.program(PROGRAM), "call", "3"])
    compare("too few", True, 'gpuleak: 3 steps marked, the last one "request 3, of which this is a lo": '
            "growth is reported from 4 steps on" in run.stderr.split("\n"))


def suppressed(place):
    """steps: a suppression applies to suspects as to leaks"""
    report, _ = story(place, "call", 6, GPULEAK_SUPPRESSIONS=place.write("rules", "leak:^leak$\n"))
    compare("suspects", ([], 1), (suspects(report), report["growth"]["suppressed"]))


def churn(place):
    """steps: while other threads allocate and free, nothing is lost"""
    report, _ = story(place, "churn", 20)
    last = report["growth"]["steps"][-1]
    compare("at rest", (21 * MIB, 21, "quiet"),
            (last["live_bytes"], last["live_blocks"], last["label"]))
    first = [item for item in suspects(report) if item[0] == marked("leak")]
    compare("the leak", [(marked("leak"), MIB, 21 * MIB, 21)], first)
    for step in report["growth"]["steps"][:-1]:  # three threads have at most a block each
        over = step["live_bytes"] - step["number"] * MIB
        compare("step %d" % step["number"], True, 0 <= over <= 3 * 1024)


def forked(place):
    """steps: a forked child has none until it makes a GPU call; then its own"""
    run = place.command("run", "--format", "json", "--report", place.file("report.json"),
                        "--step-signal", str(int(signal.SIGUSR2)), "--",
                        place.program(PROGRAM), "fork", "5")
    compare("output", "child ended with 0\nstep 0, report -1 ENODATA\nchild ended with 0\n",
            run.stdout)
    reports = place.json("report.json")["processes"]
    compare("steps", [5, 6], sorted(item["growth"]["step_count"] for item in reports))
    for item in reports:
        count = item["growth"]["step_count"]
        compare("suspects", [(marked("leak"), MIB, count * MIB, count)], suspects(item))


class Service(Holder):
    """p_steps, which runs on until it is told to end; its report is in JSON."""

    def __init__(self, place, name, count, **env):
        super().__init__(place, (PROGRAM, name, str(count)), **{
            "GPULEAK_REPORT": place.file("report.json"), "GPULEAK_FORMAT": "json", **env})

    def tell(self, line):
        super().tell(line)
        if line == "end":
            compare("status", 0, self.process.wait(TIMEOUT))


def demand_by_signal(place):
    """on demand: by signal, in a process that makes no GPU call; the last report is not touched"""
    with Service(place, "idle", 0, GPULEAK_REPORT_SIGNAL=str(int(signal.SIGUSR1))) as service:
        for number in (1, 2):
            service.process.send_signal(signal.SIGUSR1)
            path = place.file("report.json.%d" % number)
            until("report %d" % number, lambda path=path: os.path.exists(path))
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
            compare("who", (service.process.pid, "running"),
                    (report["process"]["pid"], report["process"]["ended"]))
            compare("what", [(4 * MIB, 1)], [(leak["bytes"], leak["blocks"])
                                             for leak in report["leaks"]])
            compare("no verdict yet", False, "gate" in report)
        compare("the last one", False, os.path.exists(place.file("report.json")))
        compare("threads", ["gpuleak", "p_steps"], threads_of(service.process.pid))
        service.tell("end")
    compare("at the end", "exit", place.json("report.json")["process"]["ended"])
    compare("no more", False, os.path.exists(place.file("report.json.3")))
    place.nothing_left()


def threads_of(pid):
    names = []
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, thread), encoding="ascii") as file:
            names.append(file.read().strip())
    return sorted(names)


def demand_by_call(place):
    """on demand: by the C function: to a file, to stderr, nowhere"""
    with Service(place, "idle", 0) as service:
        service.tell("report")
        service.expect("0 Success")
        compare("file", 4 * MIB, place.json("report.json.1")["summary"]["leaked_bytes"])
        compare("threads", ["p_steps"], threads_of(service.process.pid))
        service.tell("end")
    with Service(place, "idle", 0, GPULEAK_REPORT="none") as service:
        service.tell("report")
        service.expect("-1 Operation not supported")
        service.tell("end")
    with Service(place, "idle", 0, GPULEAK_REPORT="none", GPULEAK_FORMAT="text",
                 GPULEAK_REPORT_NOW="stderr") as service:
        service.tell("report")
        service.expect("0 Success")
        service.tell("end")
        said = service.process.stderr.read().decode()
        compare("stderr", True, said.startswith(
            "gpuleak: 1 leak, 4.0 MiB in 1 block not freed so far, allocated at ") and
                "allocated by p_steps (pid %d, still running)" % service.process.pid in said)


def demand_in_run(place):
    """on demand: under `gpuleak run`, to the place of its report, in the format that this implies"""
    def demand(path, *options):
        run = place.start([place.options.command, "run", "--report", "whole.json", "--report-signal", "USR1",
                           *options, "--", place.program(PROGRAM), "idle", "0"], {}, stdin=-1)
        compare("ready", b"ready\n", run.stdout.readline())
        run.send_signal(signal.SIGUSR1)  # which hands it on
        until("report", lambda: os.path.exists(place.file(path)))
        run.communicate(b"end\n", timeout=TIMEOUT)
        compare("at the end", "exit", place.json("whole.json")["process"]["ended"])
    demand("whole.json.1")
    compare("what", 4 * MIB, place.json("whole.json.1")["summary"]["leaked_bytes"])
    demand("now.1", "--report-now", "now")
    compare("another place is text", True, place.read("now.1").startswith("gpuleak: 1 leak, 4.0 MiB "))


def signals_taken(place):
    """on demand: a signal of the application's stays its own, and that is said"""
    program = place.program(PROGRAM)
    number = int(signal.SIGUSR2)
    for option, what in (("REPORT", "no report is written at this signal"),
                         ("STEP", "no step is marked at this signal")):
        name = "GPULEAK_%s_SIGNAL" % option
        env = {"GPULEAK_REPORT": "none", "GPULEAK_REPORT_NOW": "stderr"}
        before = place.preloaded([program, "handled", "0"], {**env, name: str(number)})
        compare("before", (0, "caught %d\n" % number, "gpuleak: %s: signal %d is not caught, because "
                           "the application handles or ignores it: %s; USR1 is free\n" % (name, number, what)),
                (before.status, before.stdout, before.stderr))
        later = place.preloaded([program, "handled", "1"], {**env, name: str(number)})
        compare("later", (0, "caught %d\n" % number, ""),
                (later.status, later.stdout, later.stderr))
        fault = place.preloaded([program, "handled", "1"], {**env, name: "11"})
        compare("fault", "gpuleak: %s: signal 11 cannot be caught: %s\n" % (name, what), fault.stderr)
    run = place.preloaded([program, "handled", "1"], {
        "GPULEAK_REPORT": "none", "GPULEAK_REPORT_SIGNAL": "10"})
    compare("no place", "gpuleak: GPULEAK_REPORT_SIGNAL: GPULEAK_REPORT is none, so no report is "
            "written at the signal; set GPULEAK_REPORT_NOW to a path\n", run.stderr)


def last_thread(place):
    """helper: a process whose threads all end by themselves ends, helper or not"""
    # A helper that stayed would stay for an hour: the harness ends that as a failure.
    run = place.preloaded([place.program(PROGRAM), "threads", "0"], {
        "GPULEAK_STEP_EVERY": "1h", "GPULEAK_REPORT": place.file("report.json"),
        "GPULEAK_FORMAT": "json"})
    compare("status, output", (0, "worker ends\n", ""), (run.status, run.stdout, run.stderr))
    compare("end", "exit", place.json("report.json")["process"]["ended"])


def by_clock(place):
    """steps: every so often, by the helper: the leak of a service that goes on is named"""
    def read():
        run = place.command("report", "--format", "json", str(service.process.pid))
        return json.loads(run.stdout)

    def named():
        found.append(suspects(read()) if "growth" in read() else [])
        return found[-1]
    found = []
    with Service(place, "serve", 30, GPULEAK_STEP_EVERY="200ms") as service:
        until("a suspect", named)
        lines = {item[0] for items in found for item in items}
        compare("who was ever suspected", {marked("leak")}, lines)


def read_while_marked(place):
    """steps: a ledger that is read while steps are marked as fast as can be"""
    process = place.start([place.program(PROGRAM), "call", "100000"], {
        "LD_PRELOAD": place.options.preload, "GPULEAK_REPORT": "none",
        "GPULEAK_LEDGER": place.file("ledger")}, stdout=-3)
    try:
        until("ledger", lambda: os.path.exists(place.file("ledger")))
        looks = 0
        while looks < 40:
            run = place.command("report", "--format", "json", place.file("ledger"))
            compare("status and stderr", (0, ""), (run.status, run.stderr))
            report = json.loads(run.stdout)
            if "growth" not in report or report["growth"]["step_count"] < 20:
                continue
            looks += 1
            for item in report["growth"]["suspects"]:
                compare("suspect", (marked("leak"), MIB, 4),
                        (item["stack"][0]["line"], item["bytes_per_step"],
                         item["blocks_per_step"]))
                compare("series", True, all(
                    after - before == MIB for before, after in
                    zip(item["bytes_at_steps"], item["bytes_at_steps"][1:])))
    finally:
        process.kill()
        process.communicate()


def gate(place):
    """growth gate: by what grows per step, closed where there are too few steps"""
    def run(count, *flags):
        result = place.command("run", "--report", "none", *flags, "--",
                               place.program(PROGRAM), "call", str(count))
        return result.status, [line for line in result.stderr.split("\n")[:-1]]
    status, said = run(6, "--max-growth", "1MiB")
    compare("at the budget", (0, ["gpuleak: gate passed: nothing keeps growing beyond what is "
                                  "allowed"]), (status, said))
    status, said = run(6, "--max-growth", "1048575")
    compare("beyond it", (23, 1), (status, len(said)))
    compare("reason", True, re.fullmatch(
        r"gpuleak: gate failed: memory allocated by leak in process \d+ \(p_steps\) grows by 1,048,576 bytes \(1\.0 MiB\) "
        r"per step, 1,048,575 bytes \(1023\.9 KiB\) allowed", said[0]) is not None)
    status, said = run(3, "--max-growth", "1GiB")
    compare("too few", (23, True), (status, "marked 3 steps: growth is judged from 4 steps on" in said[0]))
    status, said = run(6, "--max-growth", "1MiB", "--gate")
    compare("leaks as well", (23, True), (status, "leaked, 0 allowed" in said[0]))
    status, said = run(6, "--max-growth", "1MiB", "--max-leaked-bytes", "1GiB")
    compare("with a budget", (0, 2), (status, len(said)))
    nothing = place.command("run", "--max-growth", "0", "--", "true")
    compare("nothing", 24, nothing.status)
    plain = place.preloaded([place.program(PROGRAM), "call", "6"], {
        "GPULEAK_REPORT": "none", "GPULEAK_MAX_GROWTH": "0", "GPULEAK_EXITCODE": "9"})
    compare("plain preload", 9, plain.status)
    with Service(place, "serve", 20, GPULEAK_STEP_EVERY="100ms") as service:
        until("a suspect", lambda: place.command(
            "check", "--max-growth", "0", str(service.process.pid)).stdout.count(" grows by "))
        checked = place.command("check", "--max-growth", "1GiB", str(service.process.pid))
        compare("of one that runs", (0, "gate passed: nothing keeps growing beyond what is allowed\n"),
                (checked.status, checked.stdout))


def pid_of(line):
    return int(re.search(r" in pid (\d+): ", line).group(1))


def every(place):
    """run --every: lines from outside: what lives, what came, each suspect once, and its end"""

    def read_line():
        if not select.select([run.stderr], [], [], TIMEOUT)[0]:
            raise Failed("nothing is printed")
        lines.append(run.stderr.readline().decode().rstrip("\n"))
        return lines[-1]

    lines = []
    run = place.start([place.options.command, "run", "--every", "500ms", "--report",
                       place.file("whole.json"), "--format", "json", "--",
                       place.program(PROGRAM), "serve", "100"], {}, stdin=-1)
    while len(lines) < 6:
        read_line()
    with open(place.file("whole.json"), encoding="utf-8") as file:
        compare("file", "running", json.load(file)["process"]["ended"])
    run.stdin.write(b"rest\n")
    run.stdin.flush()
    while "no longer growing" not in read_line():
        compare("nothing is suspected by the 14th look", True, len(lines) < 14)
    read_line()
    run.communicate(b"end\n", timeout=TIMEOUT)
    for number, line in enumerate(lines, 1):
        compare("line %d: %s" % (number, line), True, re.fullmatch(
            r"gpuleak: after \d+(\.\d)?s: live \S+ \S+ \((=|[-+]\S+ \S+)\) in \d+ blocks"
            r"(; suspect in pid \d+: (now )?\S+ \S+ per step at .*|"
            r"; no longer growing in pid \d+: leak \(.*)?", line) is not None)
    told = [number for number, line in enumerate(lines, 1) if "; suspect" in line]
    compare("suspected by the fourth look: %s" % told, True, told != [] and 4 <= told[0] <= 6)
    compare("never the cache", True, all("per step at leak (" in line and line.count("suspect") == 1
                                         for line in lines if "suspect" in line))
    compare("once, and then what changed", [False] + [True] * (len(told) - 1),
            ["; suspect in pid %d: now " % pid_of(line) in line for line in lines
             if "; suspect" in line])
    compare("the end of it, once", 1, sum("no longer growing" in line for line in lines))
    compare("at the end", "exit", place.json("whole.json")["process"]["ended"])
    place.nothing_left()
    quiet = place.command("run", "--every", "10s", "--", "true")
    compare("nothing to say", (0, no_call_seen("true")), (quiet.status, quiet.stderr))
    for value in ("", "x", "5 s", "99ms", "-1s", "400d", "99999999999999999999s"):
        bad = place.command("run", "--every", value, "--", "true")
        if value:
            compare("bad value", (125, "gpuleak: run: bad value '%s' of --every: expected is a "
                                  "duration from 100ms on, such as 10s, 5m or 1h\n" % value),
                    (bad.status, bad.stderr))


def every_quiet(place):
    """run --every-quiet: only lines with news: the first memory, a suspect, its end; the file at each interval"""

    def read_line():
        if not select.select([run.stderr], [], [], TIMEOUT)[0]:
            raise Failed("nothing is printed")
        lines.append(run.stderr.readline().decode())

    run = place.start([place.options.command, "run", "--every", "200ms", "--every-quiet", "1", "--report",
                       "whole.json", "--", place.program(PROGRAM), "idle", "0"], {}, stdin=-1)
    compare("ready", b"ready\n", run.stdout.readline())
    until("the file", lambda: os.path.exists(place.file("whole.json")))
    first = os.stat(place.file("whole.json")).st_ino
    until("the file again", lambda: os.stat(place.file("whole.json")).st_ino != first)
    time.sleep(1)
    _, said = run.communicate(b"end\n", timeout=TIMEOUT)
    lines = [line for line in said.decode().split("\n") if line.startswith("gpuleak: after ")]
    compare("lines without news: %s" % lines, 1, len(lines))
    compare("the first memory", True, ": live 4.0 MiB (+4.0 MiB) in 1 block" in lines[0])
    run = place.start([place.options.command, "run", "--every", "100ms", "--every-quiet", "--",
                       place.program(PROGRAM), "serve", "20"], {}, stdin=-1)
    lines = []
    while not any("; suspect" in line for line in lines):
        read_line()
    run.stdin.write(b"rest\n")
    run.stdin.flush()
    while "no longer growing" not in lines[-1]:
        read_line()
    time.sleep(0.5)
    _, said = run.communicate(b"end\n", timeout=TIMEOUT)
    lines += [line for line in said.decode().split("\n") if line.startswith("gpuleak: after ")]
    compare("the end of it", 1, sum("no longer growing" in line for line in lines))
    before = 0
    for line in lines:
        live = float(re.search(r"live (\S+) MiB", line)[1])
        if ";" not in line:
            compare("a quarter more or less: %s" % lines, True, abs(live - before) > max(live, before) / 4 - 0.1)
        before = live


def older(place):
    """ages: only blocks that are old enough, and how many are not"""
    with Service(place, "idle", 0) as service:
        pid = str(service.process.pid)
        time.sleep(0.3)
        old = json.loads(place.command("report", "--format", "json", "--older", "200ms",
                                       pid).stdout)
        compare("old enough", (1, False), (old["summary"]["leaked_blocks"],
                                           "younger_blocks" in old["summary"]))
        young = json.loads(place.command("report", "--format", "json", "--older", "1h", pid).stdout)
        compare("too young", (0, 0, 1, 4 * MIB), tuple(young["summary"][key] for key in (
            "leaked_blocks", "freed_blocks", "younger_blocks", "younger_bytes")))
        said = place.command("report", "--older", "1h", pid).stdout
        compare("text", True, said.startswith(
            "gpuleak: no leaks: 1 block (4.0 MiB) allocated by p_steps (pid %s, still running), "
            "0 freed, 1 younger than --older; peak 4.0 MiB, all of it by " % pid))
        top = place.command("top", "--once", "--older", "1h", pid).stdout
        compare("top", True, "live 0 bytes in 0 blocks" in top)
        service.tell("end")
    bad = place.command("report", "--older", "soon", "1")
    compare("bad value", (2, "gpuleak: report: bad value 'soon' of --older: expected is a duration "
                          "such as 10s, 5m or 1h\n"), (bad.status, bad.stderr))


def no_such(place):
    """report PID: a process that is gone, and one without a ledger: one line, and the status"""
    for pid, said in ((999999999, "there is no such process, and there is no ledger of it"),
                      (os.getpid(), "no ledger of this process is where gpuleak creates ledgers; it made no "
                                    "GPU call yet, does not run under gpuleak (`gpuleak attach %d` "
                                    "records it from now on), or has a GPULEAK_LEDGER of its own "
                                    "(then name that file)" % os.getpid())):
        run = place.command("report", str(pid))
        compare("told", (1, "", "gpuleak: %d: %s\n" % (pid, said)),
                (run.status, run.stdout, without_earlier(run.stderr)))


def top_suspects(place):
    """top: names what keeps growing, by steps of its own where the process marks none"""
    with Service(place, "serve", 20) as service:
        run = place.command("top", "-n", "12", "--interval", "0.1", "--step-every", "150ms",
                            str(service.process.pid))
    frames = run.stdout.split("gpuleak top: ")[1:]
    told = [number for number, frame in enumerate(frames, 1) if "\nsuspect: " in frame]
    compare("suspected from the fourth step on: %s" % told, True, told != [] and told[0] > 4)
    compare("who", True, all(re.search(r"\nsuspect: \S+ \S+ per step at leak \(", frame)
                             for frame in frames if "\nsuspect" in frame))


STEPS = [by_call, one_line, many_steps, named, many_names, killed_in_step, by_signal, without, text,
         suppressed, churn, forked, demand_by_signal, demand_by_call, demand_in_run, signals_taken, last_thread, by_clock, read_while_marked, gate,
         every, every_quiet, older, no_such, top_suspects]
