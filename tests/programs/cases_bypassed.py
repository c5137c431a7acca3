# SPDX-License-Identifier: MIT
"""Programs whose GPU calls never reach gpuleak: the reason is named, and no gate passes."""

import json
import re

from harness import Case, Leak, check_process, compare, no_call_seen
from cases_doctor import expect, findings

COVER = {"GPULEAK_DEEPBIND": "cover"}
DEEPBIND = ("it was opened with RTLD_DEEPBIND and calls the driver directly; GPULEAK_DEEPBIND=cover "
            "opens it without that flag")
IN_FRONT = ("it is loaded before libgpuleak.so and has the driver's functions; put libgpuleak.so first "
            "into LD_PRELOAD")


def sentence(program, module, reason):
    return ("not recorded completely: p_%s (pid N): its GPU calls were not seen because of %s: %s"
            % (program, module, reason))


def without_pid(text):
    return re.sub(r"\(pid \d+\)", "(pid N)", text)


def run_and_gate(place, argv, told, stdout, env=None):
    """TOLD: the sentence on ARGV's process, by run, and as the reason of the gate."""
    run = place.command("run", "--", *argv, env=env)
    compare("run", (0, stdout, "gpuleak: %s\n" % told),
            (run.status, run.stdout, without_pid(run.stderr)))
    run = place.command("run", "--gate", "--report", place.file("text"), "--", *argv, env=env)
    lines = place.read("text").splitlines()
    compare("first lines", told.replace("not recorded completely:", "NOT recorded:"), without_pid(
        " ".join(line[len("gpuleak: "):] for line in lines if line.startswith("gpuleak: "))))
    compare("notes", [], [line for line in lines if "not recorded" in line])
    run = place.command("run", "--gate", "--", *argv, env=env)
    compare("run --gate", (23, stdout, "gpuleak: gate failed: %s\n" % told),
            (run.status, run.stdout, without_pid(run.stderr)))
    place.nothing_left()


def deepbind(place):
    """RTLD_DEEPBIND: if the only GPU user is such a plugin, closed or not, run, the gate and doctor name it"""
    plugin = place.module("bypassed_plugin")
    told = sentence("bypassed", plugin, DEEPBIND)
    for end in ([], ["_exit"], ["close"]):
        run_and_gate(place, [place.program("bypassed"), plugin, "deepbind", *end], told, "worked\n")
    status, rows = findings(place, "--start", "--", place.program("bypassed"), plugin, "deepbind")
    compare("doctor", 1, status)
    what, _, advice = told.partition("; ")
    expect([(level, area, without_pid(text), told_advice) for level, area, text, told_advice in rows],
           "problem", "start", what, advice)


def covered(place):
    """RTLD_DEEPBIND: GPULEAK_DEEPBIND=cover, or no such flag: the plugin is recorded"""
    for how, env in (("deepbind", COVER), ("plain", {})):
        place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                      place.program("bypassed"), place.module("bypassed_plugin"), how, env=env)
        check_process(Case("", "bypassed", allocated=(1, 5000), peak=5000, leaks=[
            Leak("cuMemAlloc_v2", 5000, ["work@bypassed_plugin.c:leak", "main@work"])]),
            place.json("report.json"), "bypassed.c")


def no_gpu_plugin(place):
    """RTLD_DEEPBIND: a plugin without GPU calls is no reason"""
    argv = [place.program("bypassed"), place.module("fail_malloc"), "deepbind"]
    run = place.command("run", "--", *argv)
    compare("status", 1, run.status)
    compare("stderr", no_call_seen(argv[0]), run.stderr)


def in_front(place):
    """a preload before gpuleak that has the driver's functions: run and the gate name it"""
    front, ours = place.module("driver_in_front"), place.options.preload
    argv = ["env", "LD_PRELOAD=%s:%s" % (front, ours), place.program("clean")]
    run_and_gate(place, argv, sentence("clean", front, IN_FRONT), "clean\n")
    argv[1] = "LD_PRELOAD=%s:%s" % (ours, front)
    run = place.command("run", "--gate", "--format", "json", "--report", place.file("report.json"),
                        "--", *argv)
    compare("gpuleak first: status", 0, run.status)
    check_process(Case("", "clean", allocated=(3, 7096), freed=3, peak=5096),
                  json.loads(place.read("report.json")), "clean.c")


def in_front_of_no_gpu(place):
    """such a preload in a program that makes no GPU call is no reason"""
    argv = ["env", "LD_PRELOAD=%s:%s" % (place.module("driver_in_front"), place.options.preload),
            place.program("no_gpu")]
    run = place.command("run", "--gate", "--", *argv)
    compare("status", 24, run.status)


def exec_interceptor(place):
    """a preload that replaces execve(): the report at exit is made nevertheless"""
    for preload in (place.module("exec_interceptor") + ":" + place.options.preload,
                    place.options.preload + ":" + place.module("exec_interceptor")):
        run = place.run([place.program("clean")], {"LD_PRELOAD": preload})
        usual = place.preloaded([place.program("clean")])
        compare("status, stderr", (0, without_pid(usual.stderr)), (run.status, without_pid(run.stderr)))
    place.nothing_left()


def profiled(place):
    """a profiler that takes the driver's place behind gpuleak: the program works, both see each call"""
    for front in ([], [place.module("profiler")]):
        run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--", "env",
                            "LD_PRELOAD=%s" % ":".join([place.options.preload, *front]),
                            place.program("profiled"))
        compare("status, stdout", (0, "1 devices\n" + "profiler: 3 allocations\n" * len(front)),
                (run.status, run.stdout))
        report = place.json("report.json")
        check_process(Case("", "profiled", allocated=(3, 6000), freed=1, peak=6000, leaks=[
            Leak("cuMemAlloc_v2", 2000, ["main@asked"]), Leak("cuMemAlloc_v2", 3000, ["main@looked"])]),
            report, "profiled.c")
        compare("notes", [], report["notes"])


BYPASSED = [deepbind, covered, no_gpu_plugin, in_front, in_front_of_no_gpu, exec_interceptor, profiled]
