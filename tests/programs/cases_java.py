# SPDX-License-Identifier: MIT
"""Frames of Java: read from the JVM where it may be called, and a partial stack where it may not."""

import functools
import glob
import os
import shutil
import subprocess
import tempfile

from harness import Failed, HERE, Missing, compare

SOURCE = os.path.join(HERE, "java", "Calls.java")


def line(text):
    """Returns the number of the first line of the source that has TEXT."""
    with open(SOURCE, encoding="utf-8") as file:
        return next(number for number, each in enumerate(file, 1) if text in each)


@functools.cache
def classes():
    """Returns a folder with the compiled program, which is removed at exit."""
    if not shutil.which("javac") or not shutil.which("java"):
        raise Missing("no java and javac are installed")
    folder = tempfile.TemporaryDirectory(prefix="gpuleak-java-")
    subprocess.run(["javac", "-nowarn", "-Xlint:-options", "--release", "11", "-d", folder.name, SOURCE],
                   check=True)
    return folder


def unable(options):
    """Returns why the cases cannot run, or None."""
    with open(options.preload, "rb") as file:
        library = file.read()
    return "a JVM does not run with a sanitizer" if b"__asan_init" in library or b"__tsan_init" in library \
        else None


def machines():
    """Returns the commands of all JVMs of this system."""
    found = {os.path.realpath(path): path
             for path in [shutil.which("java") or ""] + sorted(glob.glob("/usr/lib/jvm/*/bin/java"))
             if os.path.exists(path)}
    if not found:
        raise Missing("no java is installed")
    return [[real, "--enable-native-access=ALL-UNNAMED"] if "25" in real else [real] for real in found]


def report_of(place, *arguments, machine=None, flags=(), status=0, out="worked\n"):
    """Runs a mode of the program and returns the report, of the first process if there are more."""
    folder = classes().name
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        *(machine or machines()[0]), *flags, "-cp", folder, "Calls",
                        place.module("java_calls"), *arguments)
    compare("status and output of %s" % " ".join((*flags, *arguments)), (status, out),
            (run.status, run.stdout))
    return place.json("report.json")


def java_frames(leak):
    return [(frame["function"], frame["line"]) for frame in leak["stack"]
            if frame.get("language") == "java" and frame["function"].startswith("Calls.")]


def frames_of(*names):
    """Returns frames of Calls as report_of() has them: the methods NAMES, (method, text of its line)."""
    return [("Calls." + name, line(text) if text else 0) for name, text in names]


WEIGHTS = (("alloc", None), ("weights", "alloc(1000)"), ("leak", "			weights();"))
ACTIVATIONS = (("alloc", None), ("activations", "alloc(300)"), ("leak", "			activations();"))


def two_methods(place):
    """two methods that leak by one native method are two leaks, interpreted and compiled"""
    for machine in machines():
        for flag in ("-Xmixed", "-Xint", "-Xcomp"):
            report = report_of(place, "leak", machine=machine, flags=[flag])
            main = ("main", 'case "leak"')
            compare(flag, [(3, 3000, frames_of(*WEIGHTS, main)), (3, 900, frames_of(*ACTIVATIONS, main))],
                    [(leak["blocks"], leak["bytes"], java_frames(leak)) for leak in report["leaks"]])
            compare("partial", [False, False], ["partial" in leak for leak in report["leaks"]])
            compare("files", {"Calls.java"}, {frame["file"] for leak in report["leaks"]
                                              for frame in leak["stack"] if "language" in frame})
            compare("notes", [], [note for note in report["notes"] if "Java" in note])


def first_line(place):
    """the first line names the method of Java, and the native method above has no line"""
    run = place.command("run", "--", *machines()[0], "-cp", classes().name, "Calls",
                        place.module("java_calls"), "leak")
    wanted = "at Calls.weights (Calls.java:%d), called from Calls.leak" % line("alloc(1000)")
    if wanted not in run.stderr.split("\n")[0] or "#1 Calls.alloc Calls.java\n" not in run.stderr:
        raise Failed(run.stderr)


def load(place):
    """many threads that allocate, attach and detach while garbage is collected: no frame is lost"""
    for machine in machines():
        for flags in (["-XX:+UseSerialGC"], ["-XX:+UseG1GC", "-Xint"], ["-XX:+UseParallelGC", "-Xcomp"]):
            report = report_of(place, "load", "400", machine=machine, flags=["-Xmx32m", *flags])
            names = {frame["function"] for leak in report["leaks"] for frame in leak["stack"]}
            compare("names of hidden classes", True, "Calls$$Lambda.run" in names)
            compare("%s %s" % (machine[0], flags), [(100, "Calls.weights"), (100, "Calls.activations")],
                    [(leak["blocks"], java_frames(leak)[1][0]) for leak in report["leaks"]])


def storm(place):
    """threads that attach themselves while the first call asks for the frames: HotSpot may crash then"""
    for machine in machines():
        for _ in range(4):
            report = report_of(place, "storm", machine=machine)
            compare(machine[0], [(20, "Calls.weights"), (20, "Calls.activations")],
                    [(leak["blocks"], java_frames(leak)[1][0]) for leak in report["leaks"]])


def ends(place):
    """System.exit() and Runtime.halt() while eight threads allocate"""
    for machine in machines():
        for mode, status in (("exit", 3), ("halt", 4)) * 3:
            report = report_of(place, mode, machine=machine, status=status, out="")
            stacks = [java_frames(leak)[:3] for leak in report["leaks"]]
            for wanted in (WEIGHTS, ACTIVATIONS):
                if frames_of(*wanted) not in stacks:
                    raise Failed("%s %s: no %s in %s" % (machine[0], mode, wanted, stacks))


def exception(place):
    """an exception that is pending stays pending"""
    report_of(place, "exception", flags=["-Xcheck:jni"], out="thrown before\nworked\n")


def callback(place):
    """Java that native code of Java called"""
    report = report_of(place, "callback")
    compare("frames", [frames_of(("alloc", None), ("calledBack", "alloc(700)"), ("callBack", None),
                                 ("main", 'case "callback"'))],
            [java_frames(leak) for leak in report["leaks"]])


def critical(place):
    """in a critical region the JVM is not called: the stack is partial"""
    for machine in machines():
        report = report_of(place, "critical", machine=machine, flags=["-Xint"])
        compare("leaks", [(1000, 3, False, False), (600, 0, True, True)], [
            (leak["bytes"], len(java_frames(leak)), "partial" in leak,
             leak["fingerprint"].endswith("-partial") and leak["fingerprint2"].endswith("-partial"))
            for leak in report["leaks"]])
        compare("notes", ["no Java lines, or not in all stacks: Java virtual machine: a thread was in a "
                          "critical region of JNI, where it must not be called"],
                [note for note in report["notes"] if "Java" in note])


def baseline(place):
    """a baseline accepts a partial stack only up to its number of blocks"""
    known = place.file("known")
    argv = [*machines()[0], "-Xint", "-cp", classes().name, "Calls", place.module("java_calls")]
    run = place.command("run", "--update-baseline", "--baseline", known, "--", *argv, "critical")
    compare("status", 0, run.status)
    lines = [text.split(" # ")[0] for text in place.read("known").split("\n")]
    compare("lines", ["-partial 600 1"], [text[16:] for text in lines if "-partial" in text])
    run = place.command("run", "--gate", "--baseline", known, "--", *argv, "critical")
    compare("the same", 0, run.status)
    run = place.command("run", "--gate", "--baseline", known, "--", *argv, "criticals")
    if run.status != 23 or "known leak grew by 600 bytes and 1 block" not in run.stderr or \
            "-partial" not in run.stderr or "stack ends in the interpreter" not in run.stderr:
        raise Failed("another function of an equal stack: %d\n%s" % (run.status, run.stderr))
    broken = place.write("broken", place.read("known").replace("-partial", "-part"))
    run = place.command("check", "--baseline", broken, place.path)
    compare("an entry with another ending", 2, run.status)


JAVA = [two_methods, first_line, load, storm, ends, exception, callback, critical, baseline]
for case in JAVA:
    case.probe = unable
