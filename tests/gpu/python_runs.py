#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs what python.sh asks for with the interpreter that runs this: every framework that can be
imported, each with its cache on and off; holds the reports against what must be, prints their
first lines and what an allocation costs. What differs is a line that begins with WRONG.

    python_runs.py RESULTS BUILD WORK [framework ...]
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "frameworks"))

import run as frameworks  # pylint: disable=wrong-import-position
from run import harness, own_frames, with_lines  # pylint: disable=wrong-import-position

RESULTS, BUILD, WORK = sys.argv[1:4]
WANTED = sys.argv[4:] or ["pycuda", "pyopencl", "cupy", "torch", "jax"]
PAIRS = os.environ.get("PAIRS", "2000")
MIB = 1 << 20
failures = []


class Options:
    preload = os.path.realpath(os.path.join(BUILD, "interpose", "libgpuleak.so"))
    command = os.path.realpath(os.path.join(BUILD, "tools", "gpuleak"))
    standin = os.path.join(WORK, "driver")
    programs = None


class Place(harness.Place):
    """The real environment: frameworks may lie in the user's own directory."""

    def environment(self, more):
        ret = {name: value for name, value in os.environ.items()
               if not name.startswith("GPULEAK_") and name != "LD_PRELOAD"}
        ret.update({"XDG_RUNTIME_DIR": self.runtime, "POCL_CACHE_DIR": self.file("pocl"),
                    "PYTHONDONTWRITEBYTECODE": "1"}, **more)
        return {name: value for name, value in ret.items() if value is not None}


def say(text=""):
    print(text, flush=True)
    with open(os.path.join(RESULTS, "python.txt"), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def wrong(text):
    failures.append(text)
    say("WRONG: " + text)


# ---- PyCUDA and PyOpenCL: the cases of tests/frameworks ----

def exact_cases(framework):
    for case in frameworks.CASES[framework]:
        place = Place(Options)
        try:
            frameworks.check_case(case, sys.executable, place)
            say("%s: exactly as it must be" % case.name)
        except harness.Failed as failure:
            wrong("%s: %s" % (case.name, failure))
        except Exception as error:  # pylint: disable=broad-except
            wrong("%s: %s: %s" % (case.name, type(error).__name__, error))
        for name in ("report.txt", "report.json"):
            if os.path.exists(place.file(name)):
                text = place.read(name)
                with open(os.path.join(RESULTS, case.name.replace(" ", "-") + "." + name), "w",
                          encoding="utf-8") as file:
                    file.write(text)
                if name == "report.txt":
                    say("    " + text.split("\n", maxsplit=1)[0])
        place.close()


# ---- CuPy, PyTorch, JAX: ten blocks of 4 MiB that are kept ----

class Way:
    def __init__(self, name, env, args=(), cache=None, flags=()):
        self.name, self.env, self.args, self.cache, self.flags = name, env, args, cache, flags


BYPASS = ("--bypass-pools",)
KEPT = {
    "cupy": ("frames_cupy.py", [
        Way("CuPy, its pool", {}, cache="CuPy memory pool"),
        Way("CuPy, no pool", {}, ("none",)),
        Way("CuPy, bypass", {}, flags=BYPASS)]),
    "torch": ("frames_torch.py", [
        Way("PyTorch, its cache", {}, cache="PyTorch caching allocator"),
        Way("PyTorch, no cache", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
        Way("PyTorch, bypass", {}, flags=BYPASS)]),
    "jax": ("frames_jax.py", [
        Way("JAX, its pool", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, cache="XLA BFC allocator"),
        Way("JAX, no pool", {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
        Way("JAX, bypass", {}, flags=BYPASS)]),
}
STACK = ("on_device@made", "remember@sent", "<module>@run")


def tell(leak, script):
    return "%s %s %d blocks %d bytes%s at %s" % (
        leak["api"], leak["kind"], leak["blocks"], leak["bytes"],
        " (%s)" % leak["cache"] if leak.get("cache") else "", " < ".join(
            own_frames(leak["stack"], script)) or "no line of the script")


def kept_report(way, script):
    """(what the framework says it holds, JSON report, text report), or None."""
    place = Place(Options)
    command = [sys.executable, script] + list(way.args)
    try:
        bare = place.run(command, way.env)
        told = place.command("run", *way.flags, "--format", "json", "--report", place.file("report.json"),
                             "--", *command, env=way.env)
        text = place.command("run", *way.flags, "--report", place.file("report.txt"), "--", *command,
                             env=way.env)
        # With a flag gpuleak changes what the framework's own cache holds, which the script prints.
        if (bare.status, told.status, text.status) != (0, 0, 0) or \
                (bare.stdout != told.stdout and not way.flags):
            wrong("%s: exits %s, output bare %r, with gpuleak %r\n%s" % (
                way.name, (bare.status, told.status, text.status), bare.stdout, told.stdout,
                told.stderr[-2000:]))
            return None
        for name in ("report.txt", "report.json"):
            target = os.path.join(RESULTS, way.name.replace(", ", "-").replace(" ", "-") + "." + name)
            with open(target, "w", encoding="utf-8") as file:
                file.write(place.read(name))
        return int(told.stdout.split()[-1]), place.json("report.json"), place.read("report.txt")
    except (harness.Failed, OSError, ValueError, IndexError) as error:
        wrong("%s: %s" % (way.name, error))
        return None
    finally:
        place.close()


def without_cache(way, script, report, text):
    """Each picture is a block of its own, at its line."""
    for note in report["notes"] if way.flags else ():
        say("    note: " + note)
        if "could not be switched off" in note:
            wrong("%s: %s" % (way.name, note))
    here = [leak for leak in report["leaks"]
            if own_frames(leak["stack"], script) == with_lines(STACK, script)]
    # XLA maps memory itself: addresses and mappings have no bytes, and as many are left.
    memory = [leak for leak in here if leak["bytes"]]
    blocks, size = (sum(leak[key] for leak in memory) for key in ("blocks", "bytes"))
    if (blocks, size, len(memory)) != (10, 40 * MIB, 1) or any(leak["blocks"] != 10 for leak in here):
        wrong("%s: at the line that makes them are %d blocks, %d bytes, in %d leaks; not 10, %d, in 1"
              % (way.name, blocks, size, len(memory), 40 * MIB))
    for leak in report["leaks"]:
        if leak not in here:
            say("    beside it: " + tell(leak, script))
    place = "on_device (%s:%s)" % (script, with_lines(STACK, script)[0].partition("@")[2])
    if place not in text.split("\n", maxsplit=1)[0]:
        wrong("%s: the first line does not say %s" % (way.name, place))


def with_cache(way, script, held, report):
    """What the cache holds is the framework's own figure, a class of its own, and no leak."""
    cached = report.get("cached", [])
    # It speaks of the device; what it pins of the host is in the same class.
    size = sum(leak["bytes"] for leak in cached
               if leak.get("cache") == way.cache and leak["kind"] != "pinned")
    if size != held:
        wrong("%s: %s holds %d bytes as gpuleak says, %d as it says itself" % (
            way.name, way.cache, size, held))
    for leak in report["leaks"] + [leak for leak in cached if leak.get("cache") != way.cache]:
        say("    beside it: " + tell(leak, script))
    if not any(own_frames(leak["stack"], script) for leak in cached):
        wrong("%s: no line of the script where the cache grew" % way.name)


def kept(framework):
    name, ways = KEPT[framework]
    script = os.path.join(ROOT, "docs", "examples", name)
    for way in ways:
        before, got = len(failures), kept_report(way, script)
        if not got:
            continue
        held, report, text = got
        if way.cache:
            with_cache(way, script, held, report)
        else:
            without_cache(way, script, report, text)
        summary = report["summary"]
        say("%s: %s; %d blocks allocated, leaked %d (%d bytes), cached %d (%d bytes); it says %d" % (
            way.name, "exactly as it must be" if len(failures) == before else "DIFFERENT",
            summary["allocated_blocks"], summary["leaked_blocks"], summary["leaked_bytes"],
            summary.get("cached_blocks", 0), summary.get("cached_bytes", 0), held))
        say("    " + text.split("\n", maxsplit=1)[0])


# ---- what it costs ----

def costs(framework):
    env = dict(os.environ, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    for frames in ("1", "20"):
        told = []
        for preload in ({}, {"LD_PRELOAD": Options.preload, "GPULEAK_REPORT": "none"},
                        {"LD_PRELOAD": Options.preload, "GPULEAK_REPORT": "none",
                         "GPULEAK_STACK_DEPTH": "0"}):
            done = subprocess.run([sys.executable, os.path.join(HERE, "programs", "python_pairs.py"),
                                   framework, PAIRS, frames], env={**env, **preload},
                                  capture_output=True, text=True, timeout=120, check=False)
            told.append(done.stdout.strip() or "-")
            if done.returncode:
                wrong("%s: pairs: exit %d\n%s" % (framework, done.returncode, done.stderr[-1000:]))
        say("%s: a pair below %s Python functions, ns: bare %s, gpuleak %s, without stacks %s" % (
            (framework, frames) + tuple(told)))


def version_of(framework):
    """Its version, or why it can't be used."""
    probe = {"pycuda": "import pycuda.autoinit; print(pycuda.VERSION_TEXT)",
             "pyopencl": "import pyopencl; pyopencl.create_some_context(False); print(pyopencl.VERSION_TEXT)",
             "torch": "import torch; torch.empty(1, device='cuda'); print(torch.__version__)",
             "cupy": "import cupy; cupy.empty(1); print(cupy.__version__)",
             "jax": "import jax; assert jax.devices()[0].platform == 'gpu'; print(jax.__version__)"}
    done = subprocess.run([sys.executable, "-c", probe[framework]], capture_output=True, text=True,
                          timeout=300, check=False)
    if done.returncode == 0:
        return done.stdout.split()[-1], None
    return None, (done.stderr.strip().split("\n") or ["no reason"])[-1]


def main():
    ran = 0
    for framework in WANTED:
        version, reason = version_of(framework)
        if reason:
            say("SKIPPED: %s: %s" % (framework, reason))
            continue
        ran += 1
        say("== %s %s, Python %s" % (framework, version, sys.version.split()[0]))
        if framework in KEPT:
            kept(framework)
        else:
            exact_cases(framework)
        if framework in ("pycuda", "cupy", "torch"):
            costs(framework)
    say("python: %d of %d frameworks ran, %s" % (
        ran, len(WANTED), "%d WRONG" % len(failures) if failures else "all good"))
    with open(os.path.join(RESULTS, "python.json"), "w", encoding="utf-8") as file:
        json.dump({"failures": failures, "ran": ran}, file)
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
