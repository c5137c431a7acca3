#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what gpuleak.keepers() says of the programs in kept.py, line by line, by each CPython from
3.10 on that is found: /usr/bin/python3, python3.10 and so on in PATH, and those of
GPULEAK_TEST_PYTHONS. TAP. With --real, on the PyTorch and CuPy of this Python and on a GPU.

    run.py --torch FOLDER --cupy FOLDER --preload ... --command ... --standin ... [--only TEXT]
    run.py --real --preload ... --command ... [--only TEXT]"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
FRAMEWORKS = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(FRAMEWORKS))
sys.path.insert(0, FRAMEWORKS)

from kept import CASES, HEAD
from standin_torch import is_missing
from harness import SLOWER, Failed, Tap, compare

PACKAGE = '''import ctypes

class Array:
    def __init__(self, tensor, offset, address=None):
        self.tensor, self.address = tensor, (address or tensor.data_ptr()) + offset

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.address, False)}

def driver(size):
    address = ctypes.c_uint64()
    ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    return address.value
'''


def pythons():
    """{(3, 11): path}"""
    names = ["/usr/bin/python3", *filter(None, (shutil.which("python3.%d" % minor)
                                                for minor in range(10, 20)))]
    ret = {}
    for name in names + list(filter(None, os.environ.get("GPULEAK_TEST_PYTHONS", "").split(":"))):
        try:
            done = subprocess.run([name, "-c", "import sys; print(*sys.version_info[:2], "
                                   "sys.implementation.name)"], capture_output=True, text=True,
                                  timeout=60 * SLOWER, check=False)
        except OSError:
            continue
        words = done.stdout.split()
        if done.returncode == 0 and words[2] == "cpython" and (3, 10) <= (3, int(words[1])):
            ret.setdefault((3, int(words[1])), name)
    return ret


def with_places(text, program, path):
    """TEXT with file and line for each {mark}: of the line with `# @mark`, or of the first line
    that begins with "mark " for {mark=}, or of a class."""
    lines = program.split("\n")

    def place(found):
        mark = found.group(1)
        for number, line in enumerate(lines, 1):
            if re.search(r"# @%s$" % mark, line) or (mark.endswith("=") and
                                                     line.startswith(mark[:-1] + " =")) or \
                    line.startswith("class %s:" % mark):
                return "%s:%d" % (path, number)
        raise Failed("no line is marked %s" % mark)

    return re.sub(r"\{(\w+=?)\}", place, text)


def without_owners(text):
    """TEXT as before 3.11, where functions have no qualified names."""
    return re.sub(r"\b\w+\.(?=\w+\(\) \()", "", text)


def check(options, place, version, python, program, expected):
    path = os.path.join(place, "train.py")
    packages = os.path.join(place, "site-packages")
    os.mkdir(packages)
    with open(os.path.join(packages, "site_package.py"), "w", encoding="utf-8") as file:
        file.write(PACKAGE)
    program = HEAD + program
    program = re.sub(r'"train.py:(\{\w+\})"', lambda found: '"train.py:%s"' % with_places(
        found.group(1), program, path).rpartition(":")[2], program)
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    # A fork of a process with threads warns.
    ran = subprocess.run([python, "-W", "ignore::DeprecationWarning", path],
                         env=environment(options, packages), check=False, capture_output=True,
                         text=True, timeout=120 * SLOWER)
    if ran.returncode:
        raise Failed("status %d\n%s%s" % (ran.returncode, ran.stdout, ran.stderr))
    output = ran.stdout + ran.stderr
    if options.real:  # the example is the tensor with the lowest address, and PyTorch decides which one
        output = output.replace('["exp_avg_sq"]', '["exp_avg"]')
    wanted = with_places(expected, program, path)
    if version < (3, 11):
        output, wanted = without_owners(output), without_owners(wanted)
    compare("output", wanted.split("\n"), output.split("\n"))


def environment(options, packages):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "STANDIN_", "PYTHON"))}
    env.update(
        LD_PRELOAD=options.preload, GPULEAK_REPORT="none", PYTHONDONTWRITEBYTECODE="1",
        PATH=os.path.dirname(options.command) + ":" + os.environ.get("PATH", "/usr/bin:/bin"),
        PYTHONPATH=":".join((os.path.join(ROOT, "python"), packages)))
    if options.real:
        return env
    env.update(STANDIN_TORCH=options.torch, STANDIN_CUPY=options.cupy,
               LD_LIBRARY_PATH=options.standin)
    env["PYTHONPATH"] = ":".join((env["PYTHONPATH"], *(
        os.path.join(FRAMEWORKS, name, "site-packages") for name in ("torch", "cupy"))))
    return env


def run(options, version, python, program, expected):
    with tempfile.TemporaryDirectory() as place:
        check(options, os.path.realpath(place), version, python, program, expected)


def check_page(options, name, flags):
    """docs/guides/kept-tensors.md has what the script NAME of docs/examples prints with two lines
    more"""
    with open(os.path.join(ROOT, "docs", "guides", "kept-tensors.md"), encoding="utf-8") as file:
        page = file.read()
    with open(os.path.join(ROOT, "docs", "examples", name), encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"^import (torch|cupy)$", r"import gpuleak\nimport \1", text, flags=re.M)
    text = re.sub(r"^    print\(.*$", "    gpuleak.print_keepers()", text, flags=re.M)
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(os.path.realpath(place), name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        env = environment(options, place)
        del env["LD_PRELOAD"]
        ran = subprocess.run([options.command, "run", "--report", "none", *flags, "--",
                              "/usr/bin/python3", path], env=env, check=False,
                             capture_output=True, text=True, timeout=120 * SLOWER)
    lines = ran.stderr.replace(os.path.dirname(path), "/src/gpuleak/docs/examples").split("\n")
    if ran.returncode or len(lines) < 2 or "\n".join(["```text"] + lines[:2] + ["```"]) not in page:
        raise Failed("status %d\n%s" % (ran.returncode, ran.stderr))


PAGES = [("kept_torch.py", ()), ("kept_cupy.py", ("--bypass-pools",))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("torch", "cupy", "preload", "command", "standin", "only"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    if not options.real and is_missing(options.torch):
        return 0
    for name in ("torch", "cupy", "preload", "command", "standin"):
        setattr(options, name, os.path.realpath(getattr(options, name)))
    tap = Tap()
    found = {sys.version_info[:2]: sys.executable} if options.real else pythons()
    for version, python in sorted(found.items()):
        for name, program, expected in CASES:
            if options.real and "torch._C._" in program: # functions of the stand-in
                continue
            if options.real: # the stand-in has no class Parameter
                expected = expected.replace("<Tensor>", "<Parameter>")
            name = "Python %d.%d: %s" % (*version, name)
            if options.only in name:
                tap.step(name, run, options, version, python, program, expected)
    for name, flags in () if options.real else PAGES:
        if options.only in name:
            tap.step("the page has what %s prints" % name, check_page, options, name, flags)
    if not tap.count and os.environ.get("GPULEAK_MUST_RUN"):
        tap.line("interpreters", "no CPython from 3.10 on was found")
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
