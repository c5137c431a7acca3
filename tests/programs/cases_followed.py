# SPDX-License-Identifier: MIT
"""Programs that a program of `gpuleak run` starts, whatever environment they get: followed.c. And
which files of a directory are ledgers."""

import json
import os
import shutil
import signal
import sys

from harness import compare
from stories import can_mount, lines_of_ours, needs, one_line

BY_EXEC = ("execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat")
BY_SPAWN = ("posix_spawn", "posix_spawnp", "vfork")
OTHER = "libm.so.6"  # a preload as a wrapper would set it


def followed(place, how, variables, *argv):
    """The words that start ARGV with VARIABLES only."""
    return [place.program("followed"), how, variables, *argv]


def is_recorded(place, what, argv, *flags, status=23):
    """ARGV under run, which starts p_lost: its leak is in the report, once."""
    bare = place.run(argv)
    compare("%s: bare" % what, 0, bare.status)
    run = place.command("run", "--gate", "--format", "json", "--report", place.file("report.json"),
                        *flags, "--", *argv)
    compare(what, (status, bare.stdout), (run.status, run.stdout))
    compare("%s: leaks" % what, [("p_lost", 1, 100)], [
        (os.path.basename(each["process"]["command"][0]), each["summary"]["leaked_blocks"],
         each["summary"]["leaked_bytes"]) for each in processes(place.json("report.json"))])


def processes(report):
    return report.get("processes") or [report]


@needs("followed")
def each_call(place):
    """an environment without LD_PRELOAD, by each call that starts a program: recorded"""
    for how in BY_EXEC + BY_SPAWN:
        is_recorded(place, how, followed(place, how, "A=1", place.program("lost")))
        is_recorded(place, how + ", empty", followed(place, how, "", place.program("lost")))
        is_recorded(place, how + ", with a preload", followed(
            place, how, "LD_PRELOAD=" + OTHER, place.program("lost")))
    place.nothing_left()


@needs("followed")
def shells(place):
    """env -i, unset LD_PRELOAD and a preload of a wrapper's own, in shells: recorded"""
    lost = place.program("lost")
    for script in ("env -i %s", "unset LD_PRELOAD; %s", "unset LD_PRELOAD; env -i %s",
                   "env -i sh -c 'env -u LD_PRELOAD %s'", "LD_PRELOAD=" + OTHER + " %s",
                   "exec env -i %s", "export LD_PRELOAD=" + OTHER + "; (%s)"):
        is_recorded(place, script, ["sh", "-c", script % lost])


@needs("lost")
def python(place):
    """Python's subprocess with an environment of its own: recorded"""
    for env in ("{}", "{'A': '1'}", "{'LD_PRELOAD': '%s'}" % OTHER):
        is_recorded(place, env, [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.run("
                                 "[sys.argv[1]], env=%s).returncode)" % env, place.program("lost")])


@needs("followed")
def environment(place):
    """what is put back: what run has set and the program lacks; the program's own values stay"""
    def of(variables, *flags, how="execve", env=None):
        run = place.command("run", *flags, "--", *followed(place, how, variables, shutil.which("env")),
                            env=env)
        compare("status", 0, run.status)
        lines = run.stdout.splitlines()
        compare("first line", "starting", lines[0])
        return [line for line in lines[1:] if not line.startswith("GPULEAK_RUN=")]

    for how in BY_EXEC[:1] + BY_SPAWN:
        got = of("A=1", how=how)
        compare("first", "A=1", got[0])
        compare("names", ["A", "ASAN_OPTIONS", "GPULEAK_EXITCODE", "GPULEAK_LEDGER", "GPULEAK_REPORT",
                          "GPULEAK_REPORT_NOW", "GPULEAK_ROSTER", "LD_PRELOAD",
                          "NVTX_INJECTION64_PATH"],
                sorted(line.partition("=")[0] for line in got))
    preload = one_line("\n".join(got), "LD_PRELOAD=").partition("=")[2]
    for variables, wanted in (("LD_PRELOAD=" + OTHER, OTHER + ":" + preload),
                              ("LD_PRELOAD=a b:c", "a b:c:" + preload), ("LD_PRELOAD=", preload),
                              ("LD_PRELOAD=a " + preload, "a " + preload)):
        compare(variables, True, "LD_PRELOAD=" + wanted in of(variables))
    got = of("GPULEAK_REPORT=mine,ASAN_OPTIONS=color=never")
    compare("own values", True, "GPULEAK_REPORT=mine" in got)
    compare("ASan's", True, "ASAN_OPTIONS=verify_asan_link_order=0:color=never" in got)
    compare("a flag", True, "GPULEAK_STACK_DEPTH=3" in of("", "--stack-depth", "3"))
    compare("a variable", True, "GPULEAK_STACK_DEPTH=4" in of("", env={"GPULEAK_STACK_DEPTH": "4"}))
    got = of("PYTHONPATH=mine,LD_LIBRARY_PATH=own", "--fake-gpu", "1", "--bypass-pools", "1")
    compare("behind gpuleak's module", True, one_line("\n".join(got), "PYTHONPATH=").endswith("/bypass:mine"))
    compare("behind the stand-ins", True, one_line("\n".join(got), "LD_LIBRARY_PATH=").endswith("runtime:own"))
    compare("a framework's", True, "PYTORCH_NO_CUDA_MEMORY_CACHING=1" in got)
    compare("the directory of notes", 1, len([line for line in got if line.startswith("GPULEAK_BYPASS=")]))


@needs("followed")
def as_it_is(place):
    """plain preload, and GPULEAK_FOLLOW=off: each environment is handed on as it is"""
    off = {"GPULEAK_FOLLOW": "off"}
    for how in BY_EXEC + BY_SPAWN:
        argv = followed(place, how, "A=1,LD_PRELOAD=" + OTHER, shutil.which("env"))
        wanted = (0, "starting\nA=1\nLD_PRELOAD=%s\n" % OTHER)
        for env in ({}, {"GPULEAK_FOLLOW": "on"}):
            run = place.preloaded(argv, env)
            compare("%s, plain" % how, wanted + ("",), (run.status, run.stdout, run.stderr))
        run = place.command("run", "--follow", "off", "--", *argv)
        compare("%s, --follow off" % how, wanted, (run.status, run.stdout))
        run = place.command("run", "--", *argv, env=off)
        compare("%s, GPULEAK_FOLLOW=off" % how, wanted, (run.status, run.stdout))
        argv[2] += ",GPULEAK_FOLLOW=off"
        run = place.command("run", "--", *argv)
        compare("%s, by the program" % how, (0, wanted[1] + "GPULEAK_FOLLOW=off\n"),
                (run.status, run.stdout))


@needs("followed")
def large(place):
    """an environment that the kernel just allows, or of 30,000 variables: started as without gpuleak"""
    argv = followed(place, "limit", "", "/bin/true")
    bare = place.run(argv)
    run = place.command("run", "--", *argv)
    compare("largest environment", (0, bare.stdout), (run.status, run.stdout))
    for how in ("execve",) + BY_SPAWN:
        run = place.command("run", "--", *followed(place, how, "many", "/bin/true"))
        compare("many variables, " + how, (0, "starting\n"), (run.status, run.stdout))


@needs("musl")
def other_libc(place):
    """a program of another C library that gets no preload starts as without gpuleak"""
    script = place.write("script", "#!%s\n" % place.program("musl"))
    os.chmod(script, 0o755)
    for how in BY_EXEC[:3] + BY_SPAWN:
        for program in (place.program("musl"), script):
            argv = followed(place, how, "A=1", program)
            bare = place.run(argv)
            run = place.command("run", "--report", "none", "--", *argv)
            compare("%s %s" % (how, program), (0, bare.stdout, ""), (run.status, run.stdout, run.stderr))


# Starts ARGV[2:] with the environment ARGV[1] and lets it run until `gpuleak run` has looked at it: that
# happens after an orphan ends, before it is reaped. The second one is for a look that had begun before.
STARTER = """
import ast, os, subprocess, sys, time
child = subprocess.Popen(sys.argv[2:], env=ast.literal_eval(sys.argv[1]), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
if sys.argv[2].endswith("p_top"):
    child.stdout.readline()
for _ in range(2):
    reader, writer = os.pipe()
    middle = os.fork()
    if not middle:
        parent, pid = os.getpid(), os.fork()
        while not pid and os.getppid() == parent:
            time.sleep(0.01)
        if pid:
            os.write(writer, b"%d" % pid)
        os._exit(0)
    os.waitpid(middle, 0)
    orphan = int(os.read(reader, 20))
    while os.path.exists("/proc/%d" % orphan):
        time.sleep(0.01)
print(child.pid)
if sys.argv[2].endswith("p_top"):
    child.communicate(b"end\\n")
else:
    child.kill()
    child.wait()
"""


def looked_at(place, *argv, flags=("--follow", "off")):
    """ARGV under run, without the library. Returns the run and the pid of ARGV."""
    env = {"LD_LIBRARY_PATH": place.options.standin}
    run = place.command("run", "--gate", *flags, "--", "sh", "-c", place.program("clean") +
                        ' >/dev/null && exec "$@"', "sh", sys.executable, "-c", STARTER, repr(env), *argv)
    return run, int(run.stdout)


@needs("top")
def driver_without_gpuleak(place):
    """a process that loads a driver without gpuleak is named, and the gate fails"""
    run, pid = looked_at(place, place.program("top"))
    compare("status", 23, run.status)
    one_line(run.stderr, "gpuleak: gate failed: not recorded completely: p_top (pid %d): it has loaded "
             "libcuda.so.1 without gpuleak; use --follow on, or let it inherit LD_PRELOAD" % pid)
    compare("lines of ours", 2, len(lines_of_ours(run.stderr)))
    run, _ = looked_at(place, place.program("top"), flags=())
    compare("followed", 0, run.status)
    compare("followed: complaints", False, "not recorded" in run.stderr or "not looked at" in run.stderr)
    one_line(run.stderr, "allocated by 2 processes, all freed")
    run, _ = looked_at(place, "sleep", "1000")
    compare("without a driver", 0, run.status)
    compare("without a driver: lines of ours", 2, len(lines_of_ours(run.stderr)))
    place.nothing_left()


@needs("clean")
def not_looked_at(place):
    """programs without gpuleak that end before they are looked at are counted in one line"""
    script = "%s; kill -STOP $PPID; env -i true; env -i true; kill -CONT $PPID" % place.program("clean")
    for flags, line in ((("--follow", "off"), 1), ((), 0)):
        run = place.command("run", "--gate", *flags, "--", "sh", "-c", script)
        compare("status and stdout", (0, "clean\n"), (run.status, run.stdout))
        compare("lines", line, len([each for each in lines_of_ours(run.stderr) if each.startswith(
            "gpuleak: not looked at: 2 programs that ran without gpuleak (")]))
        compare("lines of ours", 2 + line, len(lines_of_ours(run.stderr)))


def with_orphan(place, words, mapped, *flags):
    """A clean program and an orphan that runs WORDS and has the file MAPPED. Returns the run and the
    orphan's pid."""
    run = place.command("run", "--gate", *flags, "--", "sh", "-c", place.program("clean") +
                        " >/dev/null; %s >/dev/null 2>&1 & until grep -q %s /proc/$!/maps; do "
                        "sleep 0.01; done; echo $!" % (words, mapped))
    pid = int(run.stdout)
    os.kill(pid, signal.SIGKILL)
    return run, pid


@needs("clean")
def orphans(place):
    """an orphan that has loaded a driver fails the gate; another one does not, and one line says so"""
    driver = os.path.join(place.options.standin, "libcuda.so.1")
    for flags in ((), ("--max-growth", "1MiB")):
        run, pid = with_orphan(place, "LD_PRELOAD=%s exec sleep 1000" % driver, "libcuda", *flags)
        compare("with a driver", 23, run.status)
        one_line(run.stderr, "gate failed: not recorded completely: sleep (pid %d): it still runs and has "
                 "loaded libcuda.so.1; let the program wait for it" % pid)
    run, pid = with_orphan(place, "exec env -i sleep 1000", "sleep")
    compare("another", 0, run.status)
    compare("another: lines", 1, len([line for line in lines_of_ours(run.stderr) if "sh left behind" in line]))
    compare("another: lines of ours", 3, len(lines_of_ours(run.stderr)))


@needs("lost")
def nested(place):
    """a run in a run: both report on its processes, once, and its status is the program's own"""
    inner = [place.options.command, "run", "--format", "json", "--report", place.file("inner.json"), "--"]
    outer = ["run", "--gate", "--format", "json", "--report", place.file("outer.json"), "--"]
    both = place.program("clean") + ">/dev/null && " + place.program("lost")
    run = place.command(*outer, "sh", "-c", '"$@"; echo $?; ' + place.program("clean"), "sh", *inner,
                        "sh", "-c", both)
    compare("status and stdout", (23, "lost\n0\nclean\n"), (run.status, run.stdout))
    for name, wanted in (("inner", ["p_clean", "p_lost"]), ("outer", ["p_clean", "p_clean", "p_lost"])):
        compare(name, wanted, sorted(os.path.basename(each["process"]["command"][0])
                                     for each in processes(place.json(name + ".json"))))
    run = place.command("run", "--", place.options.command, "run", "--gate", "--", place.program("lost"))
    compare("the inner gate", (23, "lost\n"), (run.status, run.stdout))
    compare("both reports", 2, run.stderr.count("gpuleak: 1 leak, 100 bytes in 1 block never freed"))
    place.nothing_left()


@needs("lost")
def nested_lost(place):
    """a run in a run that cannot record a process, or is killed: the outer gate fails"""
    inner = [place.options.command, "run", "--report", "none", "--"]
    run = place.command("run", "--gate", "--report", "none", "--", *inner, place.program("lost"), "open",
                        "3")
    compare("status and stdout", (23, "lost\n"), (run.status, run.stdout))
    one_line(run.stderr, "gate failed: not recorded completely: p_lost (pid ", "Too many open files")
    script = place.program("clean") + '; "$@"'
    run = place.command("run", "--gate", "--report", "none", "--", "sh", "-c", script + "; exit 0", "sh",
                        *inner, "sh", "-c", place.program("lost") + "; kill -KILL $PPID")
    compare("killed", (23, "clean\nlost\n"), (run.status, run.stdout))
    one_line(run.stderr, "gate failed: not recorded completely: gpuleak run (pid ")
    run = place.command("run", "--gate", "--", "sh", "-c", script + '; [ $? = 127 ]', "sh", *inner,
                        "/nowhere")
    compare("a program that does not exist", (0, "clean\n"), (run.status, run.stdout))


@needs("lost")
def unseen(place):
    """a process with other namespaces, which the gate cannot see: a line on stderr says so"""
    run = place.command("run", "--gate", "--", "sh", "-c", place.program("clean") +
                        "; exec unshare --ipc --mount sh -c 'mount -t tmpfs none \"$0\" && exec \"$@\"' "
                        '"$0" "$@"', place.runtime, place.program("lost"))
    compare("status and stdout", (0, "clean\nlost\n"), (run.status, run.stdout))
    one_line(run.stderr, "gpuleak: not recorded completely: p_lost (pid ", "/runtime/gpuleak/run-",
             "No such file or directory; `gpuleak run` cannot see this process, and its gate does not count it")


unseen.probe = can_mount


@needs("clean")
def directory(place):
    """a directory: each ledger by its contents, the other files counted in one line"""
    for program in ("clean", "lost"):
        place.preloaded([place.program(program)], {"GPULEAK_REPORT": "none",
                                                   "GPULEAK_LEDGER": place.file("of-" + program)})
    results = place.file("results")
    os.mkdir(results)
    shutil.move(place.file("of-clean"), results)
    for command, status in (("report", 0), ("check", 0)):
        run = place.command(command, results)
        compare("%s: a clean ledger without a suffix" % command, status, run.status)
        compare("%s: stderr" % command, "", run.stderr)
    shutil.move(place.file("of-lost"), os.path.join(results, "of-lost.bak"))
    os.mkdir(os.path.join(results, "folder"))
    os.mkfifo(os.path.join(results, "fifo"))
    for name, text in (("report.json", "{}"), ("empty", ""), ("short", "GPULE")):
        place.write("results/" + name, text)
    ignored = "gpuleak: %s: ignored 3 files that are no ledgers\n" % results
    run = place.command("report", "--format", "json", results)
    compare("report", (0, ignored), (run.status, run.stderr))
    compare("programs", ["p_clean", "p_lost"], sorted(
        os.path.basename(each["process"]["command"][0])
        for each in json.loads(run.stdout)["processes"]))
    run = place.command("check", results)
    compare("check", (23, ignored), (run.status, run.stderr))
    for name in ("of-clean", "of-lost.bak", "empty", "short"):
        os.unlink(os.path.join(results, name))
    run = place.command("check", results)
    compare("no ledger", (24, "gpuleak: %s: no ledgers in this directory\n"
                          "gpuleak: %s: ignored 1 file that is no ledger\n" % (results, results)),
            (run.status, run.stderr))
    place.write("results/damaged.gpuleak", "no ledger")
    run = place.command("check", results)
    compare("a ledger's name and no ledger", 23, run.status)
    one_line(run.stdout + run.stderr, "gate failed: ", "damaged.gpuleak: is not a gpuleak ledger")


FOLLOWED = [each_call, shells, python, environment, as_it_is, large, other_libc, driver_without_gpuleak,
            not_looked_at, orphans, nested, nested_lost, unseen, directory]
