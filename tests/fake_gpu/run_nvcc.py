#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `gpuleak run --fake-gpu` with nvcc's programs, and the stand-in runtime with NVIDIA's
headers. nvcc and the headers come from PyPI (nvcc.sh); without them all is skipped, unless
GPULEAK_MUST_RUN is set: then it fails. Prints TAP.

    run_nvcc.py --command ... --driver FOLDER --runtime FOLDER --cc COMPILER [--only TEXT]
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
GPU = os.path.join(os.path.dirname(HERE), "gpu")
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "programs"))

from harness import SLOWER, Failed, Skipped, Tap, compare

NO_GPU = "no GPU was used: a stand-in driver answered (--fake-gpu)"
INVALID = "gpuleak: results are invalid (--fake-kernels); "
options = folder = nvidia = None


def call(*words, env=(), cwd=None):
    everything = {"PATH": "/usr/bin:/bin", "HOME": folder, "XDG_RUNTIME_DIR": folder,
                  "TMPDIR": folder, **dict(env)}
    return subprocess.run(words, env=everything, stdin=subprocess.DEVNULL, timeout=120 * SLOWER,
                          cwd=cwd,
                          capture_output=True, text=True, errors="replace", check=False)


def built(done):
    if done.returncode:
        raise Failed("not built:\n" + done.stdout + done.stderr)


def call_nvcc(*arguments):
    toolkit = os.path.join(nvidia, "cu13")
    return call(os.path.join(toolkit, "bin", "nvcc"), "-O0", "-g", "-arch=sm_90",
                "-L" + os.path.join(toolkit, "lib"), *arguments)


def nvcc(name, source, *arguments):
    """Compiles SOURCE with nvcc, in an environment that has no other CUDA."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        # A current system has a newer gcc than this nvcc accepts without the option.
        done = call_nvcc("-allow-unsupported-compiler", "-o", path, source, *arguments)
        if done.returncode and "unsupported GNU version" in call_nvcc(
                "-o", path, source, *arguments).stderr:
            raise Skipped("this nvcc does not support the system's gcc, and cannot compile with "
                          "its headers or those of libc")
        built(done)
    return path


def run(*words):
    return call(options.command, "run", *words)


# ---- programs ----

def test_leak():
    """nvcc -cudart shared: a leak is reported with file and line, status 23"""
    source = os.path.join(HERE, "kernels.cu")
    program = nvcc("kernels", source, "-cudart", "shared")
    with open(source, encoding="utf-8") as lines:
        line = next(n for n, text in enumerate(lines, 1) if "leaked here" in text)
    ran = run("--fake-gpu", "--gate", "--", program)
    compare("status, output", (23, "variables: 8 2 2 3 7\n"), (ran.returncode, ran.stdout))
    for text in ("1 leak, 1.0 KiB in 1 block", f"kernels.cu:{line})", NO_GPU, "gate failed"):
        compare(text, True, text in ran.stderr)
    names = re.findall(r"^ +#\d+ (\S+)", ran.stderr, re.M)
    compare("innermost frame", "cudaMalloc", names[0])


def test_launch():
    """<<<>>> is an error; with --fake-kernels it is not, and results are invalid"""
    program = nvcc("kernels", os.path.join(HERE, "kernels.cu"), "-cudart", "shared")
    for option, word in (("--fake-gpu", "cudaErrorNotSupported"), ("--fake-kernels", "cudaSuccess")):
        ran = run(option, "--", program, "launch")
        compare("output", f"variables: 8 2 2 3 7\nlaunch: {word}\n"
                          "too many threads: cudaErrorInvalidConfiguration\n"
                          f"attributes: {word}\nattribute: {word}\noccupancy: {word}\n", ran.stdout)
        compare("first line", option == "--fake-kernels", ran.stderr.startswith(INVALID))


def test_static():
    """nvcc's default, the static runtime: not started; stripped, too"""
    program = nvcc("static", os.path.join(HERE, "kernels.cu"), "-cudart", "static")
    for _ in range(2):
        ran = run("--fake-gpu", "--gate", "--", program)
        compare("status, output, lines", (125, "", 1),
                (ran.returncode, ran.stdout, ran.stderr.count("\n")))
        compare("advice", True, "nvcc -cudart shared" in ran.stderr)
        built(call("strip", program))


def test_static_library():
    """a library with the static runtime: the gate fails, and a note says why"""
    inside, outside = (os.path.join(folder, name) for name in ("inside.cu", "outside.cpp"))
    with open(inside, "w", encoding="ascii") as out:
        out.write("int inside(void) { void *p; return cudaMalloc(&p, 10); }\n")
    with open(outside, "w", encoding="ascii") as out:
        out.write("int inside(void);\nint main(void) { inside(); return 0; }\n")
    made = nvcc("libinside.so", inside, "-cudart", "static", "-shared", "-Xcompiler", "-fPIC")
    program = os.path.join(folder, "outside")
    built(call("g++", "-o", program, outside, made, "-Wl,-rpath," + folder))
    ran = run("--fake-gpu", "--gate", "--", program)
    compare("status", 23, ran.returncode)
    compare("reason", True, "NVIDIA's CUDA runtime was used" in ran.stderr)


def same_as_on_a_gpu(fate):
    program = nvcc("families", os.path.join(GPU, "programs", "runtime_families.cu"),
                   "-cudart", "shared")
    report, output = (os.path.join(folder, f"{fate}.{end}") for end in ("json", "out"))
    ran = run("--fake-gpu", "--format", "json", "--report", report, "--", program, fate)
    with open(output, "w", encoding="utf-8") as out:
        out.write(ran.stdout)
    with open(report, encoding="utf-8") as file:
        got = json.load(file)
    compare("notes", [NO_GPU], got["notes"])
    got["notes"] = []
    with open(report, "w", encoding="utf-8") as out:
        json.dump(got, out)
    done = call(sys.executable, os.path.join(GPU, "expect.py"), report, output)
    if done.returncode or "DIFFERENT" in done.stdout:
        raise Failed(done.stdout + done.stderr)


def test_families():
    """each kind of memory, leaked, freed, freed twice, in graphs, at a reset: as on an H200"""
    for fate in ("leaked", "freed", "twice", "array-twice", "graphs", "reset"):
        same_as_on_a_gpu(fate)


# ---- headers ----

def check_abi(major, home):
    """The runtime's headers of 12.9 include crt/host_defines.h, which PyPI has only in the package of
    12.9's nvcc. It defines only macros, and the one of 13.0 is good enough."""
    program = os.path.join(folder, "abi" + major)
    built(call(*shlex.split(options.cc), "-g", "-o", program, os.path.join(HERE, "abi.c"),
               "-I" + os.path.join(home, "include"),
               "-idirafter", os.path.join(nvidia, "cu13", "include"),
               os.path.join(home, "lib", "libcudart.so." + major)))
    ran = run("--fake-gpu", "--gate", "--", program)
    compare("output", "0 wrong\n", ran.stdout)
    compare("status", 0, ran.returncode)


def test_abi_13():
    """structures of the headers of CUDA 13.0; linked with NVIDIA's libcudart.so.13"""
    check_abi("13", os.path.join(nvidia, "cu13"))


def test_abi_12():
    """structures of the headers of CUDA 12.9; linked with NVIDIA's libcudart.so.12"""
    check_abi("12", os.path.join(nvidia, "cuda_runtime"))


def test_names():
    """names of exports and of errors are those of NVIDIA's libraries and headers"""
    for major, home in (("13", "cu13"), ("12", "cuda_runtime")):
        library = os.path.join(nvidia, home, "lib", "libcudart.so." + major)
        ours = os.path.join(options.runtime, "libcudart.so." + major)
        compare("exports", exports(library), exports(ours))
        with open(os.path.join(nvidia, home, "include/driver_types.h"), encoding="utf-8") as file:
            text = file.read()
        body = re.search(r"enum __device_builtin__ cudaError\n\{(.*?)\n\};", text, re.S)[1]
        wanted = re.findall(r"^[ ,]*(cuda\w+)\s*=\s*(\d+)", body, re.M)
        with open(os.path.join(HERE, "../../standin/runtime/errors.def"), encoding="utf-8") as file:
            got = re.findall(r"^ERROR\( (\d+), (\w+),", file.read(), re.M)
        compare("errors", wanted, [(name, number) for number, name in got])
        if len(wanted) < 100:
            raise Failed("too few errors")


def exports(library):
    done = call("nm", "-D", "--defined-only", library)
    return sorted(line.split()[-1] for line in done.stdout.splitlines())


def main():
    global options, folder, nvidia
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("command", "driver", "runtime", "cc", "only"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    for name in ("command", "driver", "runtime"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    found = subprocess.run([os.path.join(HERE, "nvcc.sh")], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False)
    if found.returncode and not os.environ.get("GPULEAK_MUST_RUN"):
        print("1..0 # SKIP no nvcc: " + found.stderr.strip().split("\n")[-1])
        return 0
    nvidia, tap = found.stdout.strip(), Tap()
    with tempfile.TemporaryDirectory() as folder:
        for name, function in list(globals().items()):
            if name.startswith("test_") and options.only in function.__doc__:
                tap.step(function.__doc__, function)
    print(f"1..{tap.count}")
    return tap.failed != 0


if __name__ == "__main__":
    sys.exit(main())
