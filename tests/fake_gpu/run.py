#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `gpuleak run --fake-gpu`: the stand-in runtime, what a report says of it, and which
programs are refused. Prints TAP. The programs are compiled here.

    run.py --preload ... --command ... --driver FOLDER --runtime FOLDER --cc COMPILER [--only TEXT]
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "programs"))

from harness import SLOWER, Failed, Tap, compare

NO_GPU = "no GPU was used: a stand-in driver answered (--fake-gpu)"
REFUSED = "kernel launches failed with cudaErrorNotSupported"
INVALID = "gpuleak: results are invalid (--fake-kernels); "
options = folder = None


# ---- building and running ----

def build(name, source, *arguments, runtime="13"):
    """Compiles SOURCE to NAME, linked with the stand-in runtime as nvcc -cudart shared does."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        if runtime:
            arguments += (os.path.join(options.runtime, "libcudart.so." + runtime),)
        subprocess.run([*shlex.split(options.cc), "-g", "-o", path, os.path.join(HERE, source),
                        *arguments], check=True)
    return path


def line_of(source, text):
    with open(os.path.join(HERE, source), encoding="utf-8") as lines:
        return next(n for n, line in enumerate(lines, 1) if text in line)


class Ran:
    def __init__(self, words, env):
        everything = {"PATH": os.environ["PATH"], "HOME": folder, "XDG_RUNTIME_DIR": folder,
                      "TMPDIR": folder, **env}
        done = subprocess.run(words, env=everything, stdin=subprocess.DEVNULL, timeout=60 * SLOWER,
                              capture_output=True, text=True, check=False,
                              errors="replace")
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    def says(self, *texts):
        for text in texts:
            if text not in self.err:
                raise Failed(f"stderr lacks {text!r}:\n{self.err}")
        return self

    def lacks(self, *texts):
        for text in texts:
            if text in self.err:
                raise Failed(f"stderr has {text!r}:\n{self.err}")
        return self

    def ended(self, status, out=None):
        compare("status", status, self.status)
        if out is not None:
            compare("output", out, self.out)
        return self


def run(*words, env=()):
    return Ran([options.command, "run", *words], dict(env))


def report(*words, env=()):
    """Runs gpuleak and returns the JSON report."""
    ran = run("--format", "json", *words, env=env)
    try:
        return json.loads(ran.err[ran.err.index("{"):ran.err.rindex("}") + 1])
    except ValueError:
        raise Failed(f"no report:\n{ran.err}") from None


# ---- the runtime ----

def calls(major, devices=1):
    program = build("calls-" + major, "calls.c", runtime=major)
    ran = run("--fake-gpu", "--", program, str(devices), env={"STANDIN_DEVICES": str(devices)})
    ran.ended(0, "0 wrong\n").says("gpuleak: also: 1 block (1000 bytes) ended with its context\n")


def test_calls_13():
    """each call does what its documentation says: libcudart.so.13"""
    calls("13")


def test_calls_12():
    """the same: libcudart.so.12"""
    calls("12")


def test_devices():
    """the same with two devices"""
    calls("13", 2)


def test_exports():
    """the libraries export NVIDIA's names, each with the library's name as its version"""
    for major in ("12", "13"):
        soname = "libcudart.so." + major
        made = subprocess.run(["nm", "-D", "--defined-only",
                               os.path.join(options.runtime, soname)], stdout=subprocess.PIPE,
                              text=True, check=True)
        got = {line.split()[-1] for line in made.stdout.splitlines()}
        names = os.path.join(HERE, "../../standin/runtime", f"cudart{major}.names")
        with open(names, encoding="ascii") as lines:
            wanted = {f"{name}@@{soname}" for name in lines.read().split()}
        compare("exports", sorted(wanted), sorted(got - {soname}))
        if len(wanted) < 400:
            raise Failed(f"only {len(wanted)} names in {names}")


def test_out_of_memory():
    """a device that is too small is an error that the program sees, and the report, too"""
    program = build("leak", "leak.c")
    got = report("--fake-gpu", "--", program, env={"STANDIN_MEMORY": "4096"})
    compare("requests that were refused", [5000],
            [entry["requested_bytes"] for entry in got["out_of_memory"]])
    compare("status", 3, got["process"]["status"])


def test_late():
    """after main the runtime answers 4 and does not call the driver; before its end it works"""
    for major in ("12", "13"):
        program = build("late-" + major, "late.c", runtime=major)
        late = "free: 4, host: 4, malloc: 4, set: 4, count: 0, last: 4\n"
        # The two allocations ask for the context. A third call that does so would get 700.
        Ran([program], {"LD_LIBRARY_PATH": options.driver + ":" + options.runtime,
                        "STANDIN_FAKE_GPU": "refuse",
                        "STANDIN_FAIL": "cuCtxGetCurrent:3+=700"}).ended(0, late)
        run("--fake-gpu", "--gate", "--", program).ended(0, late).lacks("never freed").says(
            "gpuleak: no memory leaked; 2 frees came too late, when the driver had shut down "
            "(cudaErrorCudartUnloading), the first at late (", "\ngpuleak: 2 blocks (")
        got = report("--fake-gpu", "--", program)
        compare("late frees", [(api, "cudaErrorCudartUnloading", bytes, True, "late")
                               for api, bytes in (("cudaFree", 5000), ("cudaFreeHost", 100))],
                sorted((entry["api"], entry["result"], entry["allocated"]["bytes"],
                        entry["after_shutdown"], entry["stack"][0]["function"])
                       for entry in got["refused_frees"]))
        ran = run("--fake-gpu", "--", program, "early")
        ran.ended(0, "free: 0, host: 0, malloc: 0, set: 0, count: 0, last: 0\n")
        ran.says("1 leak, 10 bytes in 1 block")


def test_callback():
    """frees in a function that the driver calls are refused by the runtime, and recorded"""
    program = build("callback", "callback.c")
    printed = "callback: 0, 800\nhost function: 800, 800, 800\nmain: 0\n"
    run("--fake-gpu", "--gate", "--", program).ended(23, printed).says(
        "gpuleak: 1 leak, 4.0 KiB in 1 block never freed, allocated at main (",
        "a refused free at callback (", "): cudaErrorNotPermitted")
    got = report("--fake-gpu", "--", program)
    compare("refused frees", [("callback", 4096, 1, False), ("host_function", 100, 1, True),
                              ("host_function", 4096, 1, False)],
            sorted((entry["stack"][0]["function"], entry["allocated"]["bytes"], entry["count"],
                    entry["freed_later"]) for entry in got["refused_frees"]))
    compare("results", [("cudaFreeHost", "cudaErrorNotPermitted")] * 3,
            [(entry["api"], entry["result"]) for entry in got["refused_frees"]])
    compare("stacks", [], [frame["module"] for entry in got["leaks"] + got["refused_frees"]
                           for frame in entry["stack"] if "libgpuleak" in (frame["module"] or "")])


def test_runtimes():
    """each caller reaches its own version of the runtime's cudaFree; without a runtime none is found"""
    for version in "1", "2":
        for name, text in (("runtime", "int cudaFree(void *p) { return %s + !p; }" % version),
                           ("map", "libcudart.so.9%s { global: cudaFree; };" % version),
                           ("caller", "int cudaFree(void *); int call%s(void *p)"
                                      "{ return cudaFree(p); }" % version)):
            with open(os.path.join(folder, "%s%s.c" % (name, version)), "w") as file:
                file.write(text)
        library = os.path.join(folder, "libcudart.so.9" + version)
        for words in (["-Wl,--version-script," + os.path.join(folder, "map%s.c" % version),
                       "-Wl,-soname," + os.path.basename(library), "-o", library,
                       os.path.join(folder, "runtime%s.c" % version)],
                      ["-o", os.path.join(folder, "libcaller%s.so" % version),
                       os.path.join(folder, "caller%s.c" % version), library]):
            subprocess.run([*shlex.split(options.cc), "-shared", "-fPIC", *words], check=True)
    with open(os.path.join(folder, "two.c"), "w") as file:
        file.write("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\nint call1(void *p);\n"
                   "int main(int n, char **names) { void *two = dlopen(names[1], RTLD_NOW);"
                   "int (*call2)(void *) = (int (*)(void *))dlsym(two, \"call2\");"
                   "printf(\"%d\", CALL1);"
                   "printf(\" %d %d\\n\", two ? call2(names) : 0, !dlsym(RTLD_DEFAULT, \"cudaFree\"));"
                   "return 0; }\n")
    for name, one, two, wanted in (("both", True, "libcaller2.so", "10 2 0\n"),
                                   ("second", False, "libcaller2.so", "0 2 1\n"),
                                   ("neither", False, "none", "0 0 1\n")):
        program = os.path.join(folder, "two-" + name)
        subprocess.run([*shlex.split(options.cc), "-o", program, os.path.join(folder, "two.c"),
                        "-DCALL1=" + ("call1(names) * 10" if one else "0"), "-ldl",
                        "-Wl,--allow-shlib-undefined",
                        *([os.path.join(folder, "libcaller1.so")] if one else [])], check=True)
        for preload in ({}, {"LD_PRELOAD": options.preload}):
            ran = Ran([program, os.path.join(folder, two)],
                      {"LD_LIBRARY_PATH": folder, **preload})
            compare(name + " " + str(preload), wanted, ran.out)


def test_real_driver():
    """the runtime does not call a driver that is not the stand-in"""
    other = os.path.join(folder, "driver")
    os.makedirs(other, exist_ok=True)
    build("driver/libcuda.so.1", "other_driver.c", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
          runtime=None)
    program = build("leak", "leak.c")
    paths = other + ":" + options.runtime
    compare("output", "launch: cudaErrorInsufficientDriver, "
                      "last: cudaErrorInsufficientDriver\n",
            Ran([program, "launch"], {"LD_LIBRARY_PATH": paths}).out)


# ---- reports ----

def test_leak():
    """a leak is reported with file and line, and the report says that there was no GPU"""
    program, line = build("leak", "leak.c"), line_of("leak.c", "leaked here")
    ran = run("--fake-gpu", "--", program).ended(0, "")
    ran.says("1 leak, 4.8 KiB in 1 block", f"leak.c:{line})", "note: " + NO_GPU)
    ran.lacks("invalid", "launch")


def test_leak_12():
    """the same with libcudart.so.12"""
    program, line = build("leak-12", "leak.c", runtime="12"), line_of("leak.c", "leaked here")
    run("--fake-gpu", "--", program).ended(0, "").says(f"leak.c:{line})", NO_GPU)


def test_gate():
    """the gate fails for a leak, and passes without one"""
    program = build("leak", "leak.c")
    run("--fake-gpu", "--gate", "--", program).ended(23).says("gate failed")
    run("--fake-gpu", "--gate", "--", program, "clean").ended(0).says("no leaks", NO_GPU)
    run("--fake-gpu", "--gate", "--", "true").ended(24)


def test_launch():
    """a kernel launch is an error that the program sees, and the report says why"""
    ran = run("--fake-gpu", "--", build("leak", "leak.c"), "launch")
    ran.ended(0, "launch: cudaErrorNotSupported, last: cudaErrorNotSupported\n")
    ran.says(NO_GPU, REFUSED).lacks("invalid")


def test_fake_kernels():
    """with --fake-kernels a launch succeeds, and the first line says that results are invalid"""
    program = build("leak", "leak.c")
    for option in (["--fake-kernels"], ["--fake-gpu", "--fake-kernels"]):
        ran = run(*option, "--", program, "launch")
        ran.ended(0, "launch: cudaSuccess, last: cudaSuccess\n")
        compare("first line", True, ran.err.startswith(INVALID + "1 leak"))
        ran.says(NO_GPU).lacks(REFUSED)
    ran = run("--fake-kernels", "--gate", "--", program, "clean")
    compare("first line", True, ran.err.startswith(INVALID + "no leaks"))


def test_json():
    """JSON has the same, also from a ledger that was kept"""
    program, kept = build("leak", "leak.c"), os.path.join(folder, "kept.gpuleak")
    wanted = {"launches": "none", "results_invalid": False, "real_runtime": False}
    compare("no_gpu", wanted, report("--fake-gpu", "--", program)["no_gpu"])
    compare("no_gpu", {**wanted, "launches": "refused"},
            report("--fake-gpu", "--", program, "launch")["no_gpu"])
    got = report("--fake-kernels", "--ledger", kept, "--", program, "launch")
    compare("no_gpu", {**wanted, "launches": "skipped", "results_invalid": True}, got["no_gpu"])
    compare("notes", [NO_GPU], [note for note in got["notes"] if "GPU" in note])
    read = Ran([options.command, "report", kept], {})
    compare("first line", True, read.out.startswith(INVALID))


def test_real_gpu():
    """without the option nothing of this is in a report, whatever driver there is"""
    got = report("--", build("leak", "leak.c"),
                 env={"LD_LIBRARY_PATH": options.driver + ":" + options.runtime})
    compare("no_gpu", None, got.get("no_gpu"))
    compare("notes", [], [note for note in got["notes"] if "GPU" in note])


def test_variable():
    """GPULEAK_FAKE_GPU=1 does the same as the option, GPULEAK_FAKE_GPU=0 nothing"""
    program = build("leak", "leak.c")
    run("--", program, env={"GPULEAK_FAKE_GPU": "1"}).ended(0).says(NO_GPU)
    run("--", program, env={"GPULEAK_FAKE_GPU": "0"}).lacks(NO_GPU)


def test_children():
    """a process that the program starts has no GPU either"""
    got = report("--fake-gpu", "--", "sh", "-c", build("leak", "leak.c") + "; true")
    compare("no_gpu", "none", got["no_gpu"]["launches"])
    compare("leaked", 5000, got["summary"]["leaked_bytes"])


# ---- programs that need something else ----

def test_static():
    """a program that contains NVIDIA's runtime is not started; one line says what to do"""
    ran = run("--fake-gpu", "--gate", "--", build("static", "real.c", "-DMAIN", "-DTEXT", "-ldl",
                                                  runtime=None))
    ran.ended(125, "").says("nvcc -cudart shared", "it was not started")
    compare("lines", 1, ran.err.count("\n"))


def test_real_runtime():
    """NVIDIA's runtime in a library fails the gate, because nothing can be said of its memory"""
    program = build("real", "real.c", "-DMAIN", "-ldl", runtime=None)
    ran = run("--fake-gpu", "--gate", "--", program)
    ran.ended(23, "cuInit: 0\ncuGetExportTable: 801\n").says("nvcc -cudart shared", "gate failed")
    compare("real_runtime", True, report("--fake-gpu", "--", program)["no_gpu"]["real_runtime"])


def test_rpath():
    """a DT_RPATH or DT_RUNPATH to another runtime does not lead there"""
    other = os.path.join(folder, "other")
    os.makedirs(other, exist_ok=True)
    build("other/libcudart.so.13", "real.c", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13",
          "-Wl,--version-script=" + os.path.join(HERE, "real.map"), runtime=None)
    for kind, tags in (("DT_RPATH", "--disable-new-dtags"), ("DT_RUNPATH", "--enable-new-dtags")):
        program = build(kind, "leak.c", f"-Wl,{tags},-rpath,{other}", "-Wl,-z,lazy")
        bare = Ran([program], {"LD_LIBRARY_PATH": options.driver + ":" + options.runtime})
        if kind == "DT_RPATH": # the test is worth something
            compare("without gpuleak", True, "undefined symbol: __cuda" in bare.err)
        run("--fake-gpu", "--", program).ended(0, "").says("1 leak, 4.8 KiB in 1 block", NO_GPU)


def test_other_version():
    """a program that needs a runtime of another version is not started"""
    old = build("libcudart.so.11.0", "real.c", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.11.0",
                runtime=None)
    program = build("old", "real.c", "-DMAIN", "-ldl", "-Wl,--no-as-needed", old, runtime=None)
    ran = run("--fake-gpu", "--", program).ended(125, "")
    ran.says("needs libcudart.so.11.0", "libcudart.so.13")


def test_search_path():
    """the user's LD_LIBRARY_PATH follows the stand-ins"""
    ran = run("--fake-gpu", "--", "sh", "-c", 'echo "$LD_LIBRARY_PATH"',
              env={"LD_LIBRARY_PATH": "/own/path"})
    paths = ran.out.strip().split(":")
    compare("search path", [os.path.realpath(options.driver), os.path.realpath(options.runtime),
                            "/own/path"], paths)


# ---- gpuleak doctor ----

def doctor(*words, env=()):
    """Returns the status of doctor, and its findings as (level, area, text)."""
    ran = Ran([options.command, "doctor", "--format", "json", *words], dict(env))
    compare("stderr", "", ran.err)
    told = json.loads(ran.out[ran.out.index('{\n "schema"'):])
    return ran.status, [(row["level"], row["area"], f"{row['what']}; {row['advice']}")
                        for row in told["findings"]]


def expect(rows, level, area, *parts):
    fitting = [row for row in rows if row[:2] == (level, area) and all(part in row[2] for part in parts)]
    if len(fitting) != 1:
        raise Failed(f"{len(fitting)} findings are {level}, {area}, {parts} in:\n"
                     + "\n".join(map(str, rows)))


def test_doctor():
    """gpuleak doctor --fake-gpu: the stand-ins answer, and the program can use them"""
    program = build("leak", "leak.c")
    driver = os.path.realpath(options.driver) + "/libcuda.so.1"
    status, rows = doctor("--fake-gpu", program)
    compare("status", 0, status)
    expect(rows, "ok", "driver", f"--fake-gpu: {driver} answers in place of a driver, for CUDA 1")
    expect(rows, "note", "driver", "a kernel launch fails with cudaErrorNotSupported", "--fake-kernels")
    expect(rows, "ok", "program", "uses the CUDA runtime as a library")
    compare("other findings about a driver", 2, sum(row[1] == "driver" for row in rows))
    _, rows = doctor(program, env={"GPULEAK_FAKE_GPU": "1"})
    expect(rows, "ok", "driver", "answers in place of a driver")
    _, rows = doctor("--fake-kernels", program)
    expect(rows, "warning", "driver", "the program's results are invalid")
    _, rows = doctor("--fake-gpu", sys.executable, "-c", "0")
    expect(rows, "note", "driver", "those of PyTorch")
    status, rows = doctor("--fake-gpu", "--start", program)
    compare("status with --start", 0, status)
    expect(rows, "ok", "start", "1 process made GPU calls, and was recorded")


def test_doctor_refuses():
    """gpuleak doctor --fake-gpu names what run --fake-gpu refuses, and what fails without a GPU"""
    status, rows = doctor("--fake-gpu", build("static", "real.c", "-DMAIN", "-DTEXT", "-ldl", runtime=None))
    compare("status", 1, status)
    expect(rows, "problem", "program", "static contains the CUDA runtime", "nvcc -cudart shared")
    old = build("libcudart.so.11.0", "real.c", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.11.0",
                runtime=None)
    _, rows = doctor("--fake-gpu", build("old", "real.c", "-DMAIN", "-ldl", "-Wl,--no-as-needed", old,
                                         runtime=None))
    expect(rows, "problem", "program", "--fake-gpu: ", "needs libcudart.so.11.0", "libcudart.so.13")
    math = build("libmath.so", "real.c", "-shared", "-fPIC", "-DTEXT", "-Wl,-soname,libmath.so",
                 runtime=None)
    user = build("user", "leak.c", "-Wl,--no-as-needed", math, "-Wl,-rpath," + folder)
    status, rows = doctor("--fake-gpu", user)
    compare("status", 0, status)
    expect(rows, "warning", "program", math + " contains NVIDIA's runtime: its calls fail without a GPU")
    _, rows = doctor(user)
    compare("with a GPU", 0, sum("NVIDIA's runtime" in row[2] for row in rows))


def test_doctor_rpath():
    """gpuleak doctor --fake-gpu lists the stand-ins for a program with a DT_RPATH to another runtime"""
    other = os.path.join(folder, "other-text")
    os.makedirs(other, exist_ok=True)
    build("other-text/libcudart.so.13", "real.c", "-shared", "-fPIC", "-DTEXT",
          "-Wl,-soname,libcudart.so.13", "-Wl,--version-script=" + os.path.join(HERE, "real.map"),
          runtime=None)
    for tags in ("--disable-new-dtags", "--enable-new-dtags"):
        program = build("doctor" + tags, "leak.c", f"-Wl,{tags},-rpath,{other}", "-Wl,-z,lazy")
        status, rows = doctor("--fake-gpu", program)
        compare("status", 0, status)
        compare("the other runtime", 0, sum("NVIDIA's runtime" in row[2] for row in rows))


def test_doctor_without_stand_ins():
    """gpuleak doctor --fake-gpu without the stand-ins"""
    command = os.path.join(folder, "alone")
    shutil.copy(options.command, command)
    done = subprocess.run([command, "doctor", "--fake-gpu"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False,
                          env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": folder,
                               "GPULEAK_LIBRARY": options.preload})
    if "answers in place of" not in done.stdout: # else gpuleak is installed here
        compare("status", 1, done.returncode)
        compare("reason", True, "problem  library  --fake-gpu: " in done.stdout)


def main():
    global options, folder
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("preload", "command", "driver", "runtime", "cc", "only"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    for name in ("command", "driver", "runtime"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for name, function in list(globals().items()):
            if name.startswith("test_") and options.only in function.__doc__:
                tap.step(function.__doc__, function)
    print(f"1..{tap.count}")
    return tap.failed != 0


if __name__ == "__main__":
    sys.exit(main())
