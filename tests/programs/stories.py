# SPDX-License-Identifier: MIT
"""The cases that are no row of a table: several processes, ends that need a witness, gates,
bad input, and what an application must not notice. One function a story, its docstring the
test's name."""

import argparse
import json
import os
import shutil
import re
import resource
import signal
import subprocess
import tempfile

from harness import (Call, Case, Error, Failed, Leak, but_written, check_ended, check_process,
                     compare, line_of, no_call_seen)

ALLOC = "cuMemAlloc_v2"


def needs(program):
    def mark(function):
        function.needs = program
        return function
    return mark


def reporting(place, **more):
    """Variables for a report as JSON in report.json."""
    return {"GPULEAK_FORMAT": "json", "GPULEAK_REPORT": place.file("report.json"), **more}


def lines_of_ours(text):
    return [line for line in text.split("\n") if line.startswith("gpuleak: ")]


def one_line(text, *parts):
    """Of TEXT's lines exactly one has all PARTS; that one."""
    found = [line for line in text.split("\n") if all(part in line for part in parts)]
    compare("number of lines with %s in\n%s" % (parts, text), 1, len(found))
    return found[0]


def absent(place, name):
    if os.path.exists(place.file(name)):
        raise Failed("%s was written" % name)


# ---- OpenCL ----

@needs("cl_leak")
def pipe(place):
    """OpenCL: a pipe is recorded exactly if the driver can make one"""
    argv = [place.program("cl_leak"), "pipe"]
    made = place.run(argv).stdout == "pipe made\n"
    place.preloaded(argv, reporting(place))
    report = place.json("report.json")
    if made:
        compare("leaks", [("clCreatePipe", "cl-pipe", 1)],
                [(leak["api"], leak["kind"], leak["blocks"]) for leak in report["leaks"]])
    else:
        check_process(Case("", "cl_leak", peak=0), report, "cl_leak.c")


def deadly_case():
    return Case("", "cl_leak", allocated=(1, 8192), freed=1, peak=8192, errors=[
        Error("double-free", "clReleaseMemObject",
              ["release_again@again", "twice@object_twice", "main@main"], None,
              Call("clCreateBuffer", ["create@create", "twice@object", "main@main"], 8192),
              Call("clReleaseMemObject", ["release@release", "twice@object_once", "main@main"]))])


@needs("cl_leak")
def deadly_release(place):
    """OpenCL: a release too many is reported also when the driver dies of it"""
    argv = [place.program("cl_leak"), "twice"]
    run = place.command("run", "--format", "json", "--report", place.file("report.json"),
                        "--gate", "--", *argv, preexec_fn=no_core)
    report = place.json("report.json")
    died = report["process"]["ended"] == "signal"  # a driver that frees later may survive it
    if os.environ.get("GPULEAK_POOL", "off") != "off":  # the pool answers, and nobody dies
        compare("answer", (False, -38), (died, report["errors"][0]["result"]))
    report["errors"][0]["result"] = None  # what it answers before it dies or goes on is its affair
    check_process(deadly_case(), report, "cl_leak.c")
    compare("exit status", 128 + report["process"]["status"] if died else 23, run.status)


@needs("cl_leak")
def opencl_child(place):
    """OpenCL: a forked child's report has the child's blocks and none of the parent's"""
    run = place.preloaded([place.program("cl_leak"), "child"],
                          reporting(place, GPULEAK_REPORT=place.file("%p.json")))
    compare("status", 0, run.status)
    reports = reports_by_pid(place)
    compare("processes", 2, len(reports))
    parent = reports.pop(run.pid)
    (child,) = reports.values()
    check_process(Case("", "", allocated=(1, 100), peak=100, leaks=[
        Leak("clCreateBuffer", 100, ["create@create", "in_child@in_parent", "main@main"],
             kind="cl-buffer")]), parent, "cl_leak.c")
    check_process(Case("", "", allocated=(1, 200), peak=200, leaks=[
        Leak("clCreateBuffer", 200, ["create@create", "in_child@in_child", "main@main"],
             kind="cl-buffer")]), child, "cl_leak.c")
    check_ended(parent["process"], "exit", 0)
    check_ended(child["process"], "_exit", 0)
    place.nothing_left()


def reports_by_pid(place):
    ret = {}
    for name in os.listdir(place.path):
        found = re.fullmatch(r"(\d+)\.json", name)
        if found:
            ret[int(found.group(1))] = place.json(name)
            compare("pid", int(found.group(1)), ret[int(found.group(1))]["process"]["pid"])
    return ret


# ---- threads ----

def ledger_stays_small(place):
    """a ledger does not grow with the number of calls"""
    run = place.preloaded([place.program("threads"), "hand"], {
        "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("ledger")})
    compare("status", 0, run.status)
    size = os.stat(place.file("ledger")).st_size
    if size > 4 << 20:
        raise Failed("100,000 pairs made a ledger of %d bytes" % size)


def fork_in_storm(place):
    """forks while other threads allocate: every child ends, every pair is counted"""
    run = place.preloaded([place.program("threads"), "fork"], reporting(place))
    compare("status and stdout", (0, "200 children ended\ndone\n"), (run.status, run.stdout))
    pairs = int(run.stderr.split()[0])
    check_process(Case("", "", allocated=(pairs, 256 * pairs), freed=pairs),
                  place.json("report.json"), "threads.c")
    place.nothing_left()


def leave_in_storm(place):
    """main returns while other threads allocate: no harm, no error, numbers that add up"""
    for turn in range(20):
        run = place.preloaded([place.program("threads"), "leave"], reporting(place))
        compare("status, stdout, stderr", (0, "done\n", ""), (run.status, run.stdout, run.stderr))
        report = place.json("report.json")
        summary = report["summary"]
        compare("errors", [], report["errors"])
        compare("allocated in turn %d" % turn, summary["allocated_blocks"],
                summary["freed_blocks"] + summary["leaked_blocks"])
        compare("no more leaks than threads", True, summary["leaked_blocks"] <= 8)
        compare("notes", [], report["notes"])
        place.nothing_left()


# ---- ends ----

def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


ENDS_CASE = dict(
    stdout="worked\n", allocated=(4, 2 * (1 << 20) + 777 + 5000), freed=1,
    peak=2 * (1 << 20) + 777 + 5000,
    leaks=[Leak(ALLOC, 1 << 20, ["leak@alloc", "lose_cache@cache", "work@work_cache",
                                 "main@main"]),
           Leak(ALLOC, 1 << 20, ["leak@alloc", "lose_cache@cache2", "work@work_cache",
                                 "main@main"]),
           Leak(ALLOC, 777, ["leak@alloc", "work@work_small", "main@main"])])

# argument: (ended, status of the process as a shell's caller sees it)
GOOD_ENDS = {
    "return": ("exit", 0), "exit": ("exit", 0), "exit3": ("exit", 3), "_exit": ("_exit", 0),
    "_Exit4": ("_exit", 4), "quick_exit": ("exit", 0), "quick_exit6": ("exit", 6),
    "handler": ("_exit", 5), "thread": ("exit", 9), "pthread_exit": ("exit", 0),
    "atexit": ("_exit", 8),
}
BAD_ENDS = {
    "abort": signal.SIGABRT, "SEGV": signal.SIGSEGV, "TERM": signal.SIGTERM,
    "KILL": signal.SIGKILL,
}


def end_row(how, ended, status):
    return Case("end by " + how, "ends", (how,), status=status, ended=ended, **ENDS_CASE)


def verdict_text(report):
    """What must be the same to the byte, whatever the end."""
    return json.dumps([report["leaks"], report["summary"], report["errors"]], indent=1).split("\n")


def same_by_every_end(place):
    """leaks and summary are the same to the byte after every end and by every way to read them"""
    wanted = None
    for how in list(GOOD_ENDS) + list(BAD_ENDS):
        for way, report in end_reports(place, how).items():
            wanted = wanted or verdict_text(report)
            compare("%s, %s" % (how, way), wanted, verdict_text(report))


def by_run(place, argv):
    place.command("run", "--format", "json", "--report", place.file("run.json"), "--", *argv)
    return place.json("run.json")


def by_ledger(place, argv):
    run = place.preloaded(argv, {"GPULEAK_REPORT": "none",
                                 "GPULEAK_LEDGER": place.file("ledger-%p")})
    told = place.command("report", "--format", "json", place.file("ledger-%d" % run.pid))
    compare("status and stderr of report", (0, ""), (told.status, told.stderr))
    return json.loads(told.stdout)


def by_pid(place, argv):
    run = place.preloaded(argv)
    told = place.command("report", "--format", "json", str(run.pid))
    compare("status of report", 0, told.status)
    one_line(told.stderr, "process %d has ended; its ledger stays at " % run.pid)
    return json.loads(told.stdout)


def end_reports(place, how):
    argv = [place.program("ends"), how]
    ret = {"run": by_run(place, argv), "ledger": by_ledger(place, argv)}
    if how in BAD_ENDS:
        ret["pid"] = by_pid(place, argv)
    else:
        place.preloaded(argv, reporting(place))
        ret["plain"] = place.json("report.json")
    return ret


def killed(how):
    def story(place):
        number = BAD_ENDS[how]
        argv = [place.program("ends"), how]
        case = end_row(how, "signal", number)
        run = place.command("run", "--format", "json", "--report", place.file("report.json"),
                            "--gate", "--", *argv)
        compare("exit status of run", 128 + number, run.status)
        compare("stdout", "worked\n", run.stdout)
        report = place.json("report.json")
        check_process(case, report, "ends.c")
        check_ended(report["process"], "signal", number)
        place.nothing_left()

        for report in (by_ledger(place, argv), by_pid(place, argv)):
            check_process(case, report, "ends.c")
            check_ended(report["process"], "unknown", 0)

        run = place.preloaded(argv)
        compare("status under plain preload", -number, run.status)
        compare("stdout under plain preload", "worked\n", run.stdout)
        compare("stderr under plain preload", "", run.stderr)
    story.__doc__ = "end by %s: by run, by the ledger, by pid" % how
    return story


def still_running(place):
    """a process that still runs is reported as such, and runs on"""
    argv = [place.program("ends"), "wait"]
    process = place.start(argv, {"LD_PRELOAD": place.options.preload})
    try:
        process.stdout.readline()
        told = place.command("report", "--format", "json", str(process.pid))
        compare("status and stderr of report", (0, ""), (told.status, told.stderr))
        report = json.loads(told.stdout)
        check_process(end_row("wait", "running", 0), report, "ends.c")
        check_ended(report["process"], "running", 0)
        text = place.command("report", str(process.pid)).stdout.split("\n")
        if " never freed" in text[0] or "not freed so far" not in text[0] or "still running" not in text[1]:
            raise Failed("the first lines call a running program's blocks leaks: %s" % text[:2])
        compare("still there", None, process.poll())
    finally:
        process.kill()
        process.communicate()


ENDS = [end_row(how, *what) for how, what in GOOD_ENDS.items()]
ENDS += [killed(how) for how in BAD_ENDS] + [same_by_every_end, still_running]


# ---- several processes, several images, several modules ----

PARENT = [Leak(ALLOC, 333, ["leak@leak", "main@after"]),
          Leak(ALLOC, 111, ["leak@leak", "main@parent"])]


def fork_case(leaks=None, **more):
    leaks = PARENT if leaks is None else leaks
    size = sum(leak.bytes for leak in leaks)
    return Case("", "fork", allocated=(len(leaks), size), freed=0, peak=size, leaks=leaks, **more)


CHILD = [Leak(ALLOC, 222, ["leak@leak", "child_work@child", "working_child@main_child",
                           "main@before"])]
CLEAN = Case("", "clean", allocated=(3, 7096), freed=3, peak=5096)


def plain_fork(place, *args, status="child: 0\n"):
    """{pid: report} and the run, of fork.c with ARGS."""
    run = place.preloaded([place.program("fork"), *args],
                          reporting(place, GPULEAK_REPORT=place.file("%p.json")))
    compare("status", 0, run.status)
    compare("stderr", "", run.stderr)
    compare("stdout's end", status, run.stdout[-len(status):])
    place.nothing_left()
    return run, reports_by_pid(place)


def run_fork(place, *args):
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        place.program("fork"), *args)
    compare("status and stderr under run", (0, ""), (run.status, but_written(run.stderr)))
    place.nothing_left()
    return place.json("report.json")


def alone(how, status="child: 0\n"):
    def story(place):
        run, reports = plain_fork(place, how, status=status)
        compare("processes that reported", [run.pid], list(reports))
        check_process(fork_case(), reports[run.pid], "fork.c")
        report = run_fork(place, how)
        check_process(fork_case(), report, "fork.c")
    return story


def story_named(text, story):
    story.__doc__ = text
    return story


def forked_early(place):
    """a child that leaks has a report of its own, without the parent's blocks"""
    run, reports = plain_fork(place, "before", status="child: 0\n")
    compare("processes that reported", 2, len(reports))
    check_process(fork_case(), reports.pop(run.pid), "fork.c")
    check_process(fork_case(CHILD), list(reports.values())[0], "fork.c")

    report = run_fork(place, "before")
    compare("processes in one report", 2, len(report["processes"]))
    for process in report["processes"]:
        child = process["summary"]["allocated_blocks"] == 1
        check_process(fork_case(CHILD if child else None), process, "fork.c")
        check_ended(process["process"], "exit", 0)
    compare("sum of leaked bytes", 666, report["summary"]["leaked_bytes"])
    compare("sum of leaked blocks", 3, report["summary"]["leaked_blocks"])
    compare("sum of allocated bytes", 666, report["summary"]["allocated_bytes"])


def started(how):
    def story(place):
        run, reports = plain_fork(place, how, place.program("clean"), status="clean\nchild: 0\n")
        compare("processes that reported", 2, len(reports))
        check_process(fork_case(), reports.pop(run.pid), "fork.c")
        check_process(CLEAN, list(reports.values())[0], "clean.c")
        report = run_fork(place, how, place.program("clean"))
        names = {os.path.basename(process["process"]["exe"]): process
                 for process in report["processes"]}
        compare("programs under run", ["p_clean", "p_fork"], sorted(names))
        check_process(fork_case(), names["p_fork"], "fork.c")
        check_process(CLEAN, names["p_clean"], "clean.c")
    story.__doc__ = "a GPU program that starts another by %s: two reports" % how
    return story


def start_fails(how, status):
    def story(place):
        run, reports = plain_fork(place, how, "/nonexistent/program", status=status)
        compare("processes that reported", [run.pid], list(reports))
        check_process(fork_case(), reports[run.pid], "fork.c")
        check_ended(reports[run.pid]["process"], "exit", 0)
        check_process(fork_case(), run_fork(place, how, "/nonexistent/program"), "fork.c")
    story.__doc__ = "%s and an exec that fails: the parent is recorded to its end" % how
    return story


BEFORE = Case("", "exec", allocated=(1, 1234), peak=1234,
              leaks=[Leak(ALLOC, 1234, ["leak@leak", "main@before"])])


def exec_plain(place):
    """exec: the report comes before, the new program has its own"""
    run = place.preloaded([place.program("exec"), "execv", place.program("clean")],
                          reporting(place, GPULEAK_REPORT=place.file("%e.json")))
    compare("status, stdout, stderr", (0, "before\nclean\n", ""),
            (run.status, run.stdout, run.stderr))
    for name, case, ended in (("p_exec", BEFORE, "exec"), ("p_clean", CLEAN, "exit")):
        report = place.json(name + ".json")
        check_process(case, report, case.program + ".c")
        check_ended(report["process"], ended, 0)
        compare("pid", run.pid, report["process"]["pid"])
    place.nothing_left()


def exec_run(place):
    """exec under run: both images in one report, each named"""
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--gate",
                        "--", place.program("exec"), "execv", place.program("clean"))
    compare("status and stdout", (23, "before\nclean\n"), (run.status, run.stdout))
    first, second = place.json("report.json")["processes"]
    check_process(BEFORE, first, "exec.c")
    check_process(CLEAN, second, "clean.c")
    check_ended(first["process"], "exec", 0)
    check_ended(second["process"], "exit", 0)
    compare("one pid", first["process"]["pid"], second["process"]["pid"])
    compare("names", ["p_exec", "p_clean"],
            [os.path.basename(each["process"]["exe"]) for each in (first, second)])
    place.nothing_left()
    text = place.command("run", "--", place.program("exec"), "execv", place.program("clean")).stderr
    for name in ("p_exec (pid ", "p_clean (pid "):
        if name not in text:
            raise Failed("%s is not named in\n%s" % (name, text))


def exec_family(place):
    """every call of the exec family ends the recording, and the new program is recorded"""
    for how in ("execv", "execve", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve"):
        run = place.preloaded([place.program("exec"), how, place.program("clean")],
                              reporting(place, GPULEAK_REPORT=place.file("%e-" + how)))
        compare(how, (0, "before\nclean\n", ""), (run.status, run.stdout, run.stderr))
        check_process(BEFORE, place.json("p_exec-" + how), "exec.c")
        check_ended(place.json("p_exec-" + how)["process"], "exec", 0)
        check_process(CLEAN, place.json("p_clean-" + how), "clean.c")
        place.nothing_left()


def daemon(place):
    """run waits for a child that outlives the program, and reports on it"""
    report = run_fork(place, "daemon")
    check_process(fork_case([Leak(ALLOC, 222, ["leak@leak", "child_work@child",
                                               "leave_child@daemon", "main@main_daemon"])]),
                  report, "fork.c")
    check_ended(report["process"], "exit", 0)


BOTH = [Leak(ALLOC, 1234, ["leak@leak", "main@before"]),
        Leak(ALLOC, 99, ["leak@leak", "main@after"])]
EXEC_FAILS = Case("exec that fails", "exec", ("execv", "/nonexistent/program"), status=2,
                  stdout="before\n", allocated=(2, 1333), peak=1333, leaks=BOTH)


def exec_not_a_program(place):
    """exec of a file that is executable and no program: the process is recorded to its end"""
    path = place.write("broken", "\0\1\2 no program\n")
    os.chmod(path, 0o700)
    argv = [place.program("exec"), "execv", path]
    compare("bare status", 2, place.run(argv).status)
    run = place.preloaded(argv, reporting(place))
    compare("status and stdout", (2, "before\n"), (run.status, run.stdout))
    case = Case("", "exec", allocated=(2, 1333), peak=1333, leaks=BOTH)
    report = place.json("report.json")
    check_process(case, report, "exec.c")
    check_ended(report["process"], "exit", 2)
    place.nothing_left()
    place.command("run", "--format", "json", "--report", place.file("run.json"), "--", *argv)
    report = place.json("run.json")
    check_process(case, report, "exec.c")
    check_ended(report["process"], "exit", 2)
    place.nothing_left()


def plugin_leak(size, function, source):
    return Leak(ALLOC, size, ["%s@%s:%s" % (function, source, function),
                              "plugin_work@%s:work" % source, "use@call", "main@main"])


def plugins(name, order, blocks):
    return Case(name, "plugins", tuple("{programs}/plugin_%s.so" % each for each in order),
                stdout="used %d\n" % len(order),
                allocated=(len(order), sum({"a": 1111, "b": 2222}[each] for each in order)),
                peak=sum({"a": 1111, "b": 2222}[each] for each in order), leaks=blocks)


PROCESSES = [
    story_named("a child that does nothing and exits prints nothing", alone("idle")),
    story_named("a child that does nothing and _exits prints nothing", alone("idle_exit")),
    story_named("a child whose GPU calls fail has no part of the parent's blocks",
                alone("failing", "child: 3\n")),
    forked_early, started("fork"), started("vfork"), started("spawn"),
    start_fails("vfork", "child: 127\n"), start_fails("fork", "child: 127\n"),
    exec_plain, exec_run, exec_family, daemon, EXEC_FAILS, exec_not_a_program,
    plugins("plugins closed again", "ab", [plugin_leak(1111, "decode", "plugin_a.c"),
                                           plugin_leak(2222, "encode", "plugin_b.c")]),
    plugins("plugins closed again, other order", "ba",
            [plugin_leak(1111, "decode", "plugin_a.c"), plugin_leak(2222, "encode", "plugin_b.c")]),
    plugins("one plugin twice", "aba",
            [Leak(ALLOC, 2222, plugin_leak(0, "decode", "plugin_a.c").stack, blocks=2),
             plugin_leak(2222, "encode", "plugin_b.c")]),
]


# ---- gate ----

def gate(place, program, *options, args=(), env=None):
    return place.command("run", *options, "--", place.program(program), *args, env=env)


def gate_statuses(place):
    """--gate: 23 for a leak, 0 for none, the program's own failure as it is"""
    compare("leak", 23, gate(place, "ends", "--gate").status)
    compare("error only", 23, gate(place, "cuda_stolen", "--gate").status)
    compare("clean", 0, gate(place, "clean", "--gate").status)
    compare("leak without a gate", 0, gate(place, "ends").status)
    compare("own status", 3, gate(place, "ends", "--gate", args=["exit3"]).status)
    compare("context only", 23, gate(place, "context", "--gate", args=["reset"]).status)
    compare("exitcode", 42, gate(place, "ends", "--exitcode", "42").status)
    compare("exitcode, clean", 0, gate(place, "clean", "--exitcode", "42").status)
    place.nothing_left()


def gate_without_gpu(place):
    """--gate: 24 for a program that makes no GPU call; without --gate a line says so"""
    run = gate(place, "no_gpu", "--gate", "--report", place.file("report"))
    compare("status and stdout", (24, "no GPU\n"), (run.status, run.stdout))
    compare("lines on stderr", 1, len(lines_of_ours(run.stderr)))
    compare("report", "gpuleak: nothing was recorded: no GPU memory call was seen\n",
            place.read("report"))
    os.unlink(place.file("report"))
    run = gate(place, "no_gpu", "--report", place.file("report"))
    compare("without gate", (0, "no GPU\n", no_call_seen(place.program("no_gpu"))),
            (run.status, run.stdout, run.stderr))
    run = gate(place, "no_gpu", "--gate", args=["9"])
    compare("own status", 9, run.status)
    absent(place, "report")
    place.nothing_left()


def silence(place):
    """plain preload: a program that makes no GPU call prints nothing and makes no file"""
    for env in ({}, {"GPULEAK_FOO": "1", "GPULEAK_FORMAT": "yaml", "GPULEAK_EXITCODE": "9",
                     "GPULEAK_LEDGER": place.file("ledger"),
                     "GPULEAK_REPORT": place.file("report")}):
        before = sorted(os.listdir(place.path))
        run = place.preloaded([place.program("no_gpu")], env)
        compare("status, stdout, stderr", (0, "no GPU\n", ""),
                (run.status, run.stdout, run.stderr))
        compare("files", before, sorted(os.listdir(place.path)))
        compare("files in the runtime directory", [], os.listdir(place.runtime))
        run = place.preloaded(["/bin/sh", "-c", "echo one | cat; exit 4"], env)
        compare("a shell", (4, "one\n", ""), (run.status, run.stdout, run.stderr))
        compare("files", before, sorted(os.listdir(place.path)))


def exitcode(place):
    """GPULEAK_EXITCODE under plain preload: only where the gate fails and the status was 0"""
    def status(program, *args, **env):
        env = {"GPULEAK_" + name: value for name, value in env.items()}
        return place.preloaded([place.program(program), *args],
                               {"GPULEAK_EXITCODE": "57", **env}).status

    for how in ("return", "exit", "_exit", "quick_exit", "pthread_exit"):
        compare("leak, " + how, 57, status("ends", how))
    compare("own failure", 3, status("ends", "exit3"))
    compare("own failure by _Exit", 4, status("ends", "_Exit4"))
    compare("own signal", -signal.SIGKILL, status("ends", "KILL"))
    compare("error", 57, status("cuda_stolen"))
    compare("clean", 0, status("clean"))
    compare("no GPU", 0, status("no_gpu"))
    compare("leak, no report wanted", 57, status("ends", REPORT="none"))
    compare("clean, no report wanted", 0, status("clean", REPORT="none"))
    compare("within budget", 0, status("ends", MAX_LEAKED_BYTES="4MiB"))
    compare("asked for nothing", 0, status("ends", EXITCODE="0"))
    run = place.preloaded([place.program("ends")], {"GPULEAK_EXITCODE": "57"})
    compare("stdout", "worked\n", run.stdout)


LEAKED = 2 * (1 << 20) + 777


def budget(place):
    """GPULEAK_MAX_LEAKED_BYTES at, below and above what leaked; it excuses no error"""
    for size, wanted in ((LEAKED, 0), (LEAKED - 1, 23), (LEAKED + 1, 0), ("2MiB", 23),
                         ("3MiB", 0), (0, 23)):
        compare("run --max-leaked-bytes %s" % size, wanted,
                gate(place, "ends", "--max-leaked-bytes", str(size)).status)
        run = place.preloaded([place.program("ends")], {
            "GPULEAK_MAX_LEAKED_BYTES": str(size), "GPULEAK_EXITCODE": "23"})
        compare("plain, %s" % size, wanted, run.status)
        place.preloaded([place.program("ends")], {
            "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("ledger")})
        compare("check --max-leaked-bytes %s" % size, wanted,
                place.command("check", "--max-leaked-bytes", str(size),
                              place.file("ledger")).status)
    compare("error", 23, gate(place, "cuda_stolen", "--max-leaked-bytes", "1GiB").status)


def suppressed_ends(name, suppressions, leaked, suppressed):
    leaks = ENDS_CASE["leaks"]
    more = dict(ENDS_CASE, leaks=[leaks[i] for i in leaked])
    return Case("suppression " + name, "ends", suppressions=suppressions,
                suppressed=[leaks[i] for i in suppressed], **more)


def suppression_table(place):
    """suppressions: what each took away, and a line for one that matched nothing"""
    path = place.write("suppressions", "# known\nleak:lose_cache\n\nleak:no_such_function\n")
    run = place.preloaded([place.program("ends")], {"GPULEAK_SUPPRESSIONS": path})
    one_line(run.stderr, "2,097,152", "lose_cache")
    one_line(run.stderr, "no_such_function", "nothing")
    run = place.preloaded([place.program("ends")], reporting(place, GPULEAK_SUPPRESSIONS=path))
    compare("table", [{"pattern": "lose_cache", "blocks": 2, "bytes": 2 << 20},
                      {"pattern": "no_such_function", "blocks": 0, "bytes": 0}],
            place.json("report.json")["suppressions"])


def suppressed_gate(place):
    """suppressed leaks pass the gate, suppressed errors do not"""
    path = place.write("suppressions", "leak:main\n")
    compare("all suppressed", 0,
            gate(place, "ends", "--gate", "--suppressions", path).status)
    compare("an error", 23,
            gate(place, "cuda_wrong_frees", "--gate", "--suppressions", path).status)
    path = place.write("suppressions", "leak:lose_cache\n")
    compare("budget counts after suppression", 0,
            gate(place, "ends", "--max-leaked-bytes", "777", "--suppressions", path).status)
    compare("budget counts after suppression", 23,
            gate(place, "ends", "--max-leaked-bytes", "776", "--suppressions", path).status)


GATE = [
    gate_statuses, gate_without_gpu, silence, exitcode, budget,
    suppressed_ends("by function", "leak:lose_cache\n", [2], [0, 1]),
    suppressed_ends("by file", "leak:/ends.c$\n", [], [0, 1, 2]),
    suppressed_ends("by module", "leak:p_ends\n", [], [0, 1, 2]),
    suppressed_ends("of another", "leak:^lose$\n", [0, 1, 2], []),
    suppression_table, suppressed_gate,
]


# ---- bad input ----

def warning(name, value):
    def story(place):
        variable = "GPULEAK_" + name
        run = place.preloaded([place.program("clean")], {variable: value})
        compare("status and stdout", (0, "clean\n"), (run.status, run.stdout))
        compare("lines of ours", 2, len(lines_of_ours(run.stderr)))
        one_line(run.stderr, variable)
        one_line(run.stderr, "no leaks")
        run = place.preloaded([place.program("no_gpu")], {variable: value})
        compare("without a GPU call", (0, "no GPU\n", ""), (run.status, run.stdout, run.stderr))
        run = place.command("run", "--gate", "--", place.program("clean"), env={variable: value})
        compare("status and stdout of run", (0, "clean\n"), (run.status, run.stdout))
        one_line(run.stderr, variable)
    story.__doc__ = "%s=%s: one line that names it, in programs with GPU calls" % (name, value)
    return story


def bad_flags(place):
    """a bad flag of run: one line, status 125, and the program is not started"""
    for options in (["--format", "yaml"], ["--stack-depth", "many"], ["--exitcode", "256"],
                    ["--max-leaked-bytes", "12parsecs"], ["--nonsense"],
                    ["--suppressions", place.file("missing")]):
        run = gate(place, "clean", *options)
        compare(" ".join(options), (125, ""), (run.status, run.stdout))
        compare("lines for " + " ".join(options), True,
                1 <= len(run.stderr.strip().split("\n")) <= 2)
    path = place.write("suppressions", "leak:fine\nleek:typo\n")
    run = gate(place, "clean", "--suppressions", path)
    compare("a line that does not parse", (125, ""), (run.status, run.stdout))
    one_line(run.stderr, "suppressions:2")


def suppressions_missing(place):
    """plain preload with a suppression file that is missing: said, and the gate does not pass"""
    run = place.preloaded([place.program("clean")], {
        "GPULEAK_SUPPRESSIONS": place.file("missing"), "GPULEAK_EXITCODE": "9"})
    compare("status and stdout", (9, "clean\n"), (run.status, run.stdout))
    one_line(run.stderr, place.file("missing"))
    run = place.preloaded([place.program("clean")], {"GPULEAK_SUPPRESSIONS": place.file("missing")})
    compare("without a gate", (0, "clean\n"), (run.status, run.stdout))


def not_programs(place):
    """run: 127 for what is not there, 126 for what can't be run, 125 for nothing"""
    path = place.write("text", "just text\n")
    for argv, wanted in (([place.file("missing")], 127), ([path], 126), ([place.path], 126),
                         (["no-such-program-anywhere"], 127), ([], 125)):
        run = place.command("run", "--", *argv)
        compare("%s" % argv, wanted, run.status)
        compare("lines for %s" % argv, 1, len(run.stderr.strip().split("\n")))
    place.nothing_left()


def unharmed(place, env, program="many", stdout="held 30000\n", **how):
    """Runs PROGRAM where a ledger is in trouble; its output and status are as always."""
    run = place.preloaded([place.program(program)], env, **how)
    compare("status and stdout", (0, stdout), (run.status, run.stdout))
    return run


def numbers(report):
    return {key: report["summary"][key] for key in
            ("leaked_bytes", "leaked_blocks", "errors", "allocated_bytes", "allocated_blocks",
             "freed_blocks", "peak_bytes")}


MANY_NUMBERS = {"leaked_bytes": 64, "leaked_blocks": 1, "errors": 0, "allocated_bytes": 1920000,
                "allocated_blocks": 30000, "freed_blocks": 29999, "peak_bytes": 1920000}


def no_such_folder(place):
    """a ledger in a folder that is not there: recorded in memory, exactly, and said"""
    ledger = place.file("missing/ledger")
    run = unharmed(place, reporting(place, GPULEAK_LEDGER=ledger))
    one_line(run.stderr, ledger, "No such file or directory")
    report = place.json("report.json")
    compare("numbers", MANY_NUMBERS, numbers(report))
    compare("notes", True, any("could not be created" in note for note in report["notes"]))
    absent(place, "missing")


def locked(folder):
    """Makes FOLDER one that can't be written to; the error it gives."""
    if os.geteuid() != 0:
        os.chmod(folder, 0o555)
        return "Permission denied"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "gpuleak-test", folder],
                   check=True)  # no mode stops root
    return "Read-only file system"


def read_only_folder(place):
    """a ledger in a folder that can't be written: recorded in memory, exactly, and said"""
    folder = place.file("locked")
    os.mkdir(folder)
    error = locked(folder)
    try:
        run = unharmed(place, reporting(place, GPULEAK_LEDGER=folder + "/ledger"))
        one_line(run.stderr, folder + "/ledger", error)
        compare("numbers", MANY_NUMBERS, numbers(place.json("report.json")))
        compare("folder", [], os.listdir(folder))
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", folder], check=True)


def limited(size):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


def says_what_is_missing(report):
    """REPORT is of many.c and incomplete: it says so, and counts nothing twice or as freed."""
    notes = [note for note in report["notes"]
             if re.match(r"[\d,]+ allocations were not recorded", note)]
    compare("notes on allocations", 1, len(notes))
    lost = int(notes[0].split()[0].replace(",", ""))
    compare("recorded and not recorded", 30000, report["summary"]["allocated_blocks"] + lost)
    compare("something was recorded", True, report["summary"]["allocated_blocks"] > 0)
    one = [note for note in report["notes"] if "bytes of allocations were not recorded" in note]
    compare("bytes not recorded", [lost * 64],
            [int(note.split()[0].replace(",", "")) for note in one])
    compare("errors", [], report["errors"])


def full(place, ledger, how):
    for where in ("stderr", "none"):
        run = place.preloaded([place.program("many")], {
            "GPULEAK_LEDGER": ledger, "GPULEAK_EXITCODE": "41", "GPULEAK_FORMAT": "json",
            "GPULEAK_MAX_LEAKED_BYTES": "1GiB", "GPULEAK_REPORT": where}, **how)
        compare("stdout", "held 30000\n", run.stdout)
        compare("the gate does not pass", 41, run.status)
        if where == "stderr":
            says_what_is_missing(json.loads(run.stderr[run.stderr.index("{"):]))
        if os.path.exists(ledger):
            os.unlink(ledger)
    run = place.preloaded([place.program("many")], {"GPULEAK_LEDGER": ledger,
                                                    "GPULEAK_REPORT": "none"}, **how)
    compare("without a gate", (0, "held 30000\n", ""), (run.status, run.stdout, run.stderr))
    told = place.command("report", "--format", "json", ledger)
    compare("status of report", 0, told.status)
    says_what_is_missing(json.loads(told.stdout))
    compare("check", 23, place.command("check", "--max-leaked-bytes", "1GiB", ledger).status)


def file_size_limit(place):
    """a ledger that may not grow beyond RLIMIT_FSIZE: unharmed, said, and the gate fails"""
    full(place, place.file("ledger"), {"preexec_fn": limited(512 * 1024)})


def file_size_limit_run(place):
    """run under RLIMIT_FSIZE: unharmed, said, and the gate fails, even if nothing is recorded"""
    def limited_run(size):
        run = place.command("run", "--format", "json", "--report", place.file("report.json"),
                            "--max-leaked-bytes", "1GiB", "--", place.program("many"),
                            preexec_fn=limited(size))
        compare("status and stdout", (23, "held 30000\n"), (run.status, run.stdout))
        return run

    limited_run(1536 * 1024)
    says_what_is_missing(place.json("report.json"))
    os.unlink(place.file("report.json"))
    run = limited_run(8192)
    one_line(run.stderr, "gate failed", "File too large")
    report = place.json("report.json")
    compare("report", ([], 23), (report["processes"], report["gate"]["status"]))
    one_line("\n".join(report["gate"]["reasons"]), "File too large")
    place.nothing_left()


def mounted(place, size):
    folder = place.file("small")
    os.mkdir(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % size, "gpuleak-test", folder],
                   check=True)
    return folder


def can_mount(options):
    del options
    if os.geteuid() != 0:
        return "only root may mount"
    made = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "probe",
                           "/mnt"], capture_output=True, check=False)
    return None if made.returncode == 0 else "no tmpfs can be mounted here"


def full_disk(place):
    """a file system that fills up in the middle: unharmed, said, and the gate fails"""
    folder = mounted(place, 512 * 1024)
    try:
        full(place, folder + "/ledger", {})
    finally:
        subprocess.run(["umount", folder], check=True)


def full_disk_from_the_start(place):
    """a file system with no room at all: recorded in memory, exactly, and said"""
    folder = mounted(place, 4096)
    try:
        with open(folder + "/fill", "wb") as file:
            file.write(b"x" * 4096)
        run = unharmed(place, reporting(place, GPULEAK_LEDGER=folder + "/ledger"))
        one_line(run.stderr, folder + "/ledger", "No space left on device")
        compare("numbers", MANY_NUMBERS, numbers(place.json("report.json")))
        compare("files", ["fill"], os.listdir(folder))
    finally:
        subprocess.run(["umount", folder], check=True)


def can_lock(options):
    return can_mount(options) if os.geteuid() == 0 else None


full_disk.probe = full_disk_from_the_start.probe = can_mount
read_only_folder.probe = can_lock


def report_unwritable(place):
    """a report that can't be written where it should: it goes to stderr instead, with a word"""
    path = place.file("missing/report")
    run = place.preloaded([place.program("ends")], {"GPULEAK_REPORT": path})
    compare("status and stdout", (0, "worked\n"), (run.status, run.stdout))
    one_line(run.stderr, path, "No such file or directory")
    one_line(run.stderr, "1 leak, 2.0 MiB in 3 blocks", "ends.c:%d" % line_of("ends.c", "alloc"))
    run = gate(place, "ends", "--gate", "--report", path)
    compare("run, which looks before it starts the program", (125, ""), (run.status, run.stdout))
    one_line(run.stderr, path, "No such file or directory")
    place.nothing_left()


def report_patterns(place):
    """GPULEAK_REPORT with %p, %e, %q{VAR} and %%"""
    run = place.preloaded([place.program("clean")], {
        "GPULEAK_REPORT": place.file("%e-%p-%q{JOB}-%%.txt"), "JOB": "night"})
    compare("stderr", "", run.stderr)
    text = place.read("p_clean-%d-night-%%.txt" % run.pid)
    compare("first words", "gpuleak: no leaks", text[:17])


INPUT = [
    warning("FOO", "1"), warning("FORMAT", "yaml"), warning("STACK_DEPTH", "deep"),
    warning("MAX_LEAKED_BYTES", "5parsecs"), warning("EXITCODE", "1000"),
    bad_flags, suppressions_missing, not_programs, no_such_folder, read_only_folder,
    file_size_limit, file_size_limit_run, full_disk, full_disk_from_the_start,
    report_unwritable, report_patterns,
]


# ---- what an application must not notice ----

def no_children(place):
    """an application's SIGCHLD handler and waitpid(-1) see no child of ours"""
    argv = [place.program("quiet"), "children"]
    bare = place.run(argv)
    compare("stdout without gpuleak", "SIGCHLD so far: 0\n", bare.stdout)
    for _ in range(5):
        run = place.preloaded(argv, reporting(place))
        compare("status, stdout, stderr", (bare.status, bare.stdout, ""),
                (run.status, run.stdout, run.stderr))
        report = place.json("report.json")
        check_process(Case("", "", allocated=(1, 100), peak=100, leaks=[
            Leak(ALLOC, 100, ["leak@leak", "watch_children@children", "main@main_children"])]),
            report, "quiet.c")
        place.nothing_left()


def closed_descriptors(place):
    """an application that closes all descriptors keeps its own files unharmed"""
    argv = [place.program("quiet"), "files", place.file("own")]
    for way in ({}, {"GPULEAK_LEDGER": place.file("ledger")}):
        run = place.preloaded(argv, reporting(place, **way))
        compare("status, stdout, stderr", (0, "8 files unharmed\n", ""),
                (run.status, run.stdout, run.stderr))
        report = place.json("report.json")
        check_process(Case("", "", allocated=(50001, 500100), peak=500100, leaks=[
            Leak(ALLOC, 500000, ["leak@leak", "close_all@many", "main@main_files"], blocks=50000),
            Leak(ALLOC, 100, ["leak@leak", "close_all@one", "main@main_files"])]),
            report, "quiet.c")


def unprivileged(place):
    """an application that gives up root is reported in full"""
    copied_for_nobody(place, "quiet")
    run = place.preloaded([place.program("quiet"), "unprivileged"], {"GPULEAK_FORMAT": "json"})
    compare("status and stdout", (0, ""), (run.status, run.stdout))
    if not run.stderr.startswith("{"):
        raise Failed("no report in JSON:\n" + run.stderr)
    check_process(Case("", "", allocated=(2, 110), peak=110, leaks=[
        Leak(ALLOC, 100, ["leak@leak", "main@privileged"]),
        Leak(ALLOC, 10, ["leak@leak", "main@unprivileged"])]), json.loads(run.stderr), "quiet.c")


def copied_for_nobody(place, *names):
    """Makes PLACE use copies of the programs NAMES and of gpuleak, in the folders of a build. The
    build itself may lie where nobody may not enter, in /root for example."""
    old = place.options
    os.chmod(place.path, 0o711)
    place.options = argparse.Namespace(**vars(old))
    for option, folder, paths in (
            ("programs", "programs", [place.program(name) for name in names]),
            ("preload", "interpose", [old.preload]), ("command", "tools", [old.command]),
            ("standin", "standin", [os.path.join(old.standin, "libcuda.so.1")])):
        os.makedirs(place.file(folder), mode=0o755, exist_ok=True)
        for path in paths:
            copy = shutil.copy(path, place.file(folder))
            os.chmod(copy, 0o755)
        setattr(place.options, option, copy if option in ("preload", "command") else place.file(folder))


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def can_drop(options):
    """Only root can, and nobody must be able to enter the folder of temporary files."""
    del options
    if os.geteuid() != 0:
        return "only root can give up root"
    if subprocess.run(["/bin/sh", "-c", 'cd "$0"', tempfile.gettempdir()], preexec_fn=as_nobody,
                      capture_output=True, check=False).returncode != 0:
        return "others can't enter " + tempfile.gettempdir()
    return None


unprivileged.probe = can_drop


def elsewhere(place):
    """an application that goes to another directory and clears its environment"""
    run = place.preloaded([place.program("quiet"), "elsewhere"], reporting(
        place, GPULEAK_REPORT="here.json", GPULEAK_LEDGER="kept"))
    compare("status, stdout, stderr", (0, "", ""), (run.status, run.stdout, run.stderr))
    case = Case("", "", allocated=(1, 100), peak=100,
                leaks=[Leak(ALLOC, 100, ["leak@leak", "main@elsewhere"])])
    check_process(case, place.json("here.json"), "quiet.c")
    told = place.command("report", "--format", "json", "kept")
    check_process(case, json.loads(told.stdout), "quiet.c")


def closed_streams(place):
    """an application with closed standard streams ends as it would, and is reported to a file"""
    argv = [place.program("quiet"), "closed"]
    run = place.preloaded(argv)
    compare("status, stdout, stderr", (3, "", ""), (run.status, run.stdout, run.stderr))
    run = place.preloaded(argv, reporting(place))
    compare("status, stdout, stderr", (3, "", ""), (run.status, run.stdout, run.stderr))
    check_process(Case("", "", allocated=(1, 100), peak=100, leaks=[
        Leak(ALLOC, 100, ["leak@leak", "main@closed"])]), place.json("report.json"), "quiet.c")
    run = place.command("run", "--gate", "--format", "json", "--report", place.file("run.json"),
                        "--", *argv)
    compare("run", 3, run.status)
    check_process(Case("", "", allocated=(1, 100), peak=100, leaks=[
        Leak(ALLOC, 100, ["leak@leak", "main@closed"])]), place.json("run.json"), "quiet.c")
    place.nothing_left()


def alone(place):
    """a library without its command reports by itself, says how to get more, and gates"""
    library = place.file("libgpuleak.so")
    shutil.copy(place.options.preload, library)
    for story, status, verdict in (
            ("p_ends", 9, "gpuleak: 3 blocks, 2097929 bytes never freed, 0 invalid frees"),
            ("p_clean", 0, "gpuleak: no leaks: "),
            ("p_cuda_wrong_frees", 9, "gpuleak: 1 blocks, 100000 bytes never freed, 3 invalid frees")):
        argv = [place.program(story[2:])] + (["return"] if story == "p_ends" else [])
        run = place.run(argv, {"LD_PRELOAD": library, "GPULEAK_EXITCODE": "9"})
        lines = run.stderr.split("\n")
        compare("status of " + story, status, run.status)
        compare("verdict", verdict, lines[0][:len(verdict)])
        compare("how to get more", True, "the gpuleak command could not be run" in run.stderr)
        module = f"({story}+0x"
        compare("frames of the program", status == 9,
                any(line.startswith("    #") and module in line for line in lines))
        if story == "p_cuda_wrong_frees":
            for error in ("double-free", "interior-free", "invalid-free"):
                compare(error, 1, sum(line.startswith("Error: " + error) for line in lines))
    place.nothing_left()


def no_installed_command(options):
    """The library also looks where it was configured to be installed."""
    del options
    return "a gpuleak is installed" if shutil.which("gpuleak", path="/usr/local/bin") else None


alone.probe = no_installed_command


UNSEEN = [
    alone, no_children, closed_descriptors, closed_streams, elsewhere, unprivileged,
    Case("errno and signal mask", "quiet", ("state",),
         stdout="errno kept 2002 times, mask kept\n", allocated=(1000, 100000), freed=1000,
         peak=100, errors=[Error("invalid-free", "cuMemFree_v2",
                                 ["look_at_state@foreign", "main@main_state"], 1)]),
]
