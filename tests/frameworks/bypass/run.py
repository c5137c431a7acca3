#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `gpuleak run --bypass-pools` on the stand-ins for CuPy, PyTorch and JAX. TAP.

    run.py --cupy FOLDER --torch FOLDER --preload ... --command ... --standin ... --programs FOLDER
           [--only TEXT]"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
FRAMEWORKS = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(FRAMEWORKS))
GUIDE = os.path.join(ROOT, "docs", "guides", "kept-tensors.md")
EXAMPLES = os.path.join(ROOT, "docs", "examples")
VIEW_KEPT = os.path.join(FRAMEWORKS, "cupy", "view_kept.py")
sys.path.insert(0, os.path.join(ROOT, "tests", "programs"))

from harness import SLOWER, Failed, Tap, compare

PYTHON = "/usr/bin/python3"
PACKAGES = [os.path.join(FRAMEWORKS, name, "site-packages") for name in ("cupy", "torch")]
JAX, NUMBA, TINYGRAD = (os.path.join(FRAMEWORKS, name, "site-packages")
                        for name in ("jax", "numba", "tinygrad"))
VARIABLES = {
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_GPU_ALLOCATOR": "cuda_malloc_async",
    "CUDF_PANDAS_RMM_MODE": "cuda", "NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT": "0", "LRU": "0"}
CACHES = "PyTorch, CuPy, JAX, TensorFlow, cudf.pandas, Numba and tinygrad"
ALL_OFF = ("--bypass-pools switched off the caches of " + CACHES +
           ": times, addresses and peaks differ from a run without it")
CUPY_OFF = ["CuPy (cupy.cuda.set_allocator(None)): 8 % more time was measured; "
            "CUPY_GPU_MEMORY_LIMIT has no effect",
            "CuPy (cupy.cuda.set_pinned_memory_allocator(None)): each transfer through pinned "
            "memory allocates it anew"]
TORCH_OFF = ("PyTorch (PYTORCH_NO_CUDA_MEMORY_CACHING=1): CUDA graphs cannot be captured; "
             "torch.cuda.memory_allocated() counts nothing")
NOT_LOADED = ("Python did not load gpuleak's sitecustomize.py (PYTHONPATH was changed, or the program "
              "contains a Python that ignores it)")
# Keeps ten arrays and ends at once.
KEEP = "import cupy, os\nkept = [cupy.zeros(1000) for _ in range(10)]\nos._exit(0)\n"
# A CuPy that only records its allocators, for every Python.
RECORDING = {
    "cupy/__init__.py": "from cupy import cuda\ncuda.set_allocator('pool')\n"
                        "cuda.set_pinned_memory_allocator('pinned pool')\n",
    "cupy/cuda/__init__.py": "current = {}\n"
                             "def set_allocator(allocator): current['device'] = allocator\n"
                             "def set_pinned_memory_allocator(allocator):\n"
                             "    current['pinned'] = allocator\n"}


class Place:
    """A folder of its own, and the ways to run a program in it."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        os.mkdir(self.file("runtime"), 0o700)

    def file(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.file(name)), exist_ok=True)
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.file(name)

    def environment(self, path=(), **extra):
        env = {name: value for name, value in os.environ.items() if not name.startswith(
            ("GPULEAK_", "STANDIN_", "PYTHON", "PYTORCH_", "XLA_", "TF_", "CUDF_", "LD_", "NUMBA_", "LRU"))}
        env.update(STANDIN_CUPY=self.options.cupy, STANDIN_TORCH=self.options.torch,
                   LD_LIBRARY_PATH=self.options.standin, PYTHONDONTWRITEBYTECODE="1",
                   XDG_RUNTIME_DIR=self.file("runtime"),
                   PYTHONPATH=os.pathsep.join([*path, *PACKAGES]))
        env.update(extra)
        return {name: value for name, value in env.items() if value is not None}

    def start(self, words, status=0, orphans=False, **more):
        ran = subprocess.run(words, check=False, timeout=120 * SLOWER, env=self.environment(**more),
                             cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                             text=True)
        if ran.returncode != status:
            raise Failed("status %d of %s\n%s%s" % (ran.returncode, words, ran.stdout, ran.stderr))
        if not orphans:  # for them the run keeps its folder
            compare("what is left of the run", [], glob.glob(self.file("runtime", "gpuleak", "*")))
        return ran

    def run(self, *words, flags=("--bypass-pools",), **more):
        return self.start([self.options.command, "run", *flags, "--", *words], **more)

    def report(self, *words, flags=("--bypass-pools",), **more):
        """The JSON report and what was printed."""
        path = self.file("report.json")
        ran = self.run(*words, flags=(*flags, "--format", "json", "--report", path), **more)
        with open(path, encoding="utf-8") as file:
            return json.load(file), ran

    def script(self, text):
        return self.write("script.py", text)


def line_with(path, text):
    with open(path, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def compare_first_line(path, mark, wanted, stderr):
    """WANTED has LINE for the line with the mark. The first line may lack folders of paths."""
    wanted = wanted.replace("LINE", "%s:%d" % (os.path.basename(path), line_with(path, mark)))
    if not any(wanted in re.sub(r"\([^() ]*/", "(", line) for line in stderr.splitlines()[:1]):
        raise Failed("%s\nis not in the first line of\n%s" % (wanted, stderr))


def notes(place, *words, **more):
    return place.report(*words, **more)[0]["notes"]


# ---- CuPy ----

def view_kept(place):
    """a view that is kept: the first line names the line that allocated its array"""
    ran = place.run(PYTHON, VIEW_KEPT)
    compare_first_line(VIEW_KEPT, "# @kept", "most (38.1 MiB) never freed, allocated at first_row (LINE)", ran.stderr)
    compare("notes", [ALL_OFF, *CUPY_OFF], re.findall("^note: (.*)", ran.stderr, re.M))
    found, _ = place.report(PYTHON, VIEW_KEPT)
    compare("cached", [], found["cached"])
    compare("leaks", [("device", 10, 40000000), ("pinned", 3, 15000)],
            [(leak["kind"], leak["blocks"], leak["bytes"]) for leak in found["leaks"]])
    found, _ = place.report(PYTHON, VIEW_KEPT, flags=())
    compare("without the option: leaks, caches, notes, key", ([], 3, [], False),
            (found["leaks"], len(found["cached"]), found["notes"], "bypassed_caches" in found))


def in_json(place):
    """JSON lists every row, the user's own values, and who used a cache all the same"""
    found, _ = place.report(PYTHON, "-I", "-c", "import sys; sys.path[:0] = %r\n%s" % (PACKAGES, KEEP),
                            TF_GPU_ALLOCATOR="cuda_malloc")
    rows = found["bypassed_caches"]
    compare("settings", sorted([*map("=".join, VARIABLES.items()), "cupy.cuda.set_allocator(None)",
                                "cupy.cuda.set_pinned_memory_allocator(None)"]),
            sorted(row["setting"] for row in rows))
    compare("found", {"TensorFlow": "cuda_malloc"},
            {row["framework"]: row["found"] for row in rows if row["found"] is not None})
    compare("not switched off", ["TensorFlow"],
            [row["framework"] for row in rows if not row["switched_off"]])
    compare("used by", {"cupy.cuda.set_allocator(None)": [found["process"]["pid"]]},
            {row["setting"]: row["used_by"] for row in rows if row["used_by"]})
    compare("changes", [], [row for row in rows if not row["changes"]])


PYTHON_FLAGS = [(["-I"], "python -I"), (["-S"], "python -S"), (["-E"], "python -E"),
                (["-W", "ignore", "-Bs", "-bS"], "python -S"), (["-Wignore", "-X", "dev", "-I"],
                                                                "python -I")]
IGNORED = " does not load gpuleak's sitecustomize.py"


def refused_by_flag(place):
    """python -I, -S and -E do not load the module: the report says so, and the gate fails"""
    script = place.script("import sys; sys.path[:0] = %r\n%s" % (PACKAGES, KEEP))
    for flags, reason in PYTHON_FLAGS:
        found, _ = place.report(PYTHON, *flags, script)
        compare(str(flags), "CuPy's cache could not be switched off in pid %d: %s" % (
            found["process"]["pid"], reason + IGNORED), found["notes"][0])
    ran = place.run(PYTHON, "-I", script, flags=("--bypass-pools", "--gate"), status=23)
    if not re.search("^gpuleak: gate failed: CuPy's cache could not be switched off in pid [0-9]+: "
                     "python -I%s$" % re.escape(IGNORED), ran.stderr, re.M):
        raise Failed("the gate has another reason\n" + ran.stderr)
    place.run(PYTHON, "-I", script, flags=("--gate",))
    ran = place.run(PYTHON, "-I", script, flags=("--bypass-pools", "--format", "github"))
    compare("errors in CI", 1, len(re.findall("^::error.*switched off", ran.stderr, re.M)))
    for flags in (["-B"], ["-s"], ["-c", "exec(open(%r).read())" % script, "-I"],
                  ["-m", "script", "-S"]):
        compare("%s: notes" % flags, [ALL_OFF, *CUPY_OFF], notes(place, PYTHON, *flags, *(
            [] if len(flags) > 1 else [script])))


def refused_by_path(place):
    """a child with a PYTHONPATH of its own: the module is put in front; with GPULEAK_FOLLOW=off the
    report says that it is not there, once for several processes"""
    script = place.script(KEEP)
    path = "PYTHONPATH=" + os.pathsep.join(PACKAGES)
    found, _ = place.report("/usr/bin/env", path, PYTHON, script)
    compare("note, followed", True, found["notes"][0].startswith("--bypass-pools switched off the caches"))
    for words in (["-c", KEEP, "-I"], ["-cS = 'I'\n" + KEEP], [script, "-E"]):  # no flags of Python
        found, _ = place.report("/usr/bin/env", "GPULEAK_FOLLOW=off", path, PYTHON, *words)
        compare("note", "CuPy's cache could not be switched off in pid %d: %s" % (
            found["process"]["pid"], NOT_LOADED), found["notes"][0])
    parent = place.write("parent.py", "import os, subprocess, sys\n"
                         "for _ in range(3):\n"
                         "    subprocess.check_call([sys.executable, %r], env=dict(os.environ, "
                         "GPULEAK_FOLLOW='off', PYTHONPATH=%r))\n" % (script, os.pathsep.join(PACKAGES)))
    found, _ = place.report(PYTHON, parent)
    pids = [one["process"]["pid"] for one in found["processes"]]
    compare("processes", 3, len(pids))
    compare("note", "CuPy's cache could not be switched off in pid %d and 2 more processes: %s" % (
        pids[0], NOT_LOADED), found["notes"][0])


def own_allocator(place):
    """a program that chooses an allocator itself keeps it: the report says so"""
    script = place.script("import cupy\npool = cupy.cuda.MemoryPool()\n"
                          "cupy.cuda.set_allocator(pool.malloc)\n" + KEEP)
    found, _ = place.report(PYTHON, script)
    compare("cached", [("CuPy memory pool", 10)],
            [(one["cache"], one["blocks"]) for one in found["cached"]])
    compare("note", "CuPy's cache could not be switched off in pid %d: the program chose an "
            "allocator of its own" % found["process"]["pid"], found["notes"][-1])
    place.run(PYTHON, script, flags=("--bypass-pools", "--gate"))


def failing_switch(place):
    """a CuPy whose function fails: the report has the exception, and the program runs"""
    package = place.write("refusing/cupy/__init__.py", "class cuda:\n    @staticmethod\n"
                          "    def set_allocator(allocator):\n        raise ValueError('not now')\n")
    torch = "import cupy, torch, os\nkept = torch.empty(1000, device='cuda')\nos._exit(0)"
    found, _ = place.report(PYTHON, "-c", torch,
                            path=[os.path.dirname(os.path.dirname(package))])
    compare("note", "CuPy's cache could not be switched off in pid %d: ValueError: not now" %
            found["process"]["pid"], found["notes"][0])


def not_cupy(place):
    """another module named cupy, an empty folder of that name, and no CuPy at all"""
    place.write("other/cupy.py", "answer = 42\n")
    os.makedirs(place.file("empty", "cupy"))
    torch = "import torch, os\nkept = torch.empty(1000, device='cuda')\nos._exit(0)"
    for name in ("other", "empty"):
        compare(name, [ALL_OFF, TORCH_OFF], notes(
            place, PYTHON, "-c", "import cupy\n" + torch, PYTHONPATH=os.pathsep.join(
                [place.file(name), PACKAGES[1]])))
    for flags in ((), ("--bypass-pools",)):
        ran = place.run(PYTHON, "-c", "import importlib.util\nprint(importlib.util.find_spec('cupy'))\n"
                        "try:\n    import cupy\nexcept ImportError as error:\n"
                        "    print(type(error).__name__, error)", flags=flags, PYTHONPATH=None)
        compare("output %s" % (flags,), "None\nModuleNotFoundError No module named 'cupy'\n",
                ran.stdout)


def imports(place):
    """CuPy imported in threads, reloaded, looked up without an import: no array is in a pool"""
    for text in ("import threading\ndone = []\ndef work():\n    import cupy\n"
                 "    done.append(cupy.zeros(1000))\n"
                 "threads = [threading.Thread(target=work) for _ in range(10)]\n"
                 "[one.start() for one in threads]\n[one.join() for one in threads]\n"
                 "import os\nos._exit(len(done) - 10)\n",
                 "import importlib, cupy\nimportlib.reload(cupy)\n" + KEEP,
                 "import importlib.util\nassert importlib.util.find_spec('cupy').loader\n" + KEEP,
                 "from cupy.cuda import memory\n" + KEEP):
        found, _ = place.report(PYTHON, "-c", text)
        compare("cached", [], found["cached"])
        compare("blocks that leaked", 10, found["summary"]["leaked_blocks"])
        compare("notes", [ALL_OFF, *CUPY_OFF], found["notes"])


def children(place):
    """children of children, by exec, fork and spawn"""
    script = place.script(KEEP)
    child = "import subprocess, sys; subprocess.check_call([sys.executable, %r])" % script
    programs = {
        "grandchild": "import subprocess, sys\nsubprocess.check_call([sys.executable, '-c', %r])"
                      % child,
        "shell": "import os\nos.system('exec env %s %s')" % (PYTHON, script),
        "exec": "import os, sys\nos.execv(sys.executable, [sys.executable, %r])" % script,
        "fork": "import os\nif not os.fork():\n    exec(open(%r).read())\nos.wait()" % script,
        "spawn": "import multiprocessing, runpy\nif __name__ == '__main__':\n"
                 "    one = multiprocessing.get_context('spawn').Process("
                 "target=runpy.run_path, args=(%r,))\n    one.start()\n    one.join()" % script}
    for name, text in programs.items():
        # Python's own helper of a spawned process may outlive the program.
        found, _ = place.report(PYTHON, place.write("parent.py", text), orphans=name == "spawn")
        compare("%s: leaks, cached" % name, (10, []),
                (found["summary"]["leaked_blocks"], found["cached"]))
        compare("%s: notes" % name, [ALL_OFF, *CUPY_OFF], found["notes"])


def in_venv(place):
    """a virtual environment has the module, too"""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", place.file("venv")], check=True)
    found, _ = place.report(place.file("venv", "bin", "python"), VIEW_KEPT)
    compare("leaks and cached", (13, []), (found["summary"]["leaked_blocks"], found["cached"]))


# ---- what the program finds ----

LOOK = ("import json, os, sys\nsite = sys.modules.get('sitecustomize')\n"
        "print(json.dumps({'site': getattr(site, '__file__', None), 'path': sys.path[1:],\n"
        "    'own': getattr(sys, 'from_sitecustomize', None), 'finders': len(sys.meta_path),\n"
        "    'env': dict(os.environ)}))\n")
OURS = ("LD_PRELOAD", "GPULEAK_", "NVTX_INJECTION64_PATH", "ASAN_OPTIONS")


def look(place, flags, **more):
    ran = place.run(PYTHON, place.script(LOOK), flags=flags, **more)
    found = json.loads(ran.stdout)
    return found, ran.stderr


def nothing_else(place):
    """without the option nothing is put anywhere; with it only the variables and PYTHONPATH"""
    for extra in ({}, {"PYTHONPATH": None}):
        bare = json.loads(place.start([PYTHON, place.script(LOOK)], **extra).stdout)
        bare["env"].pop("ASAN_OPTIONS", None)  # newer releases of Meson set it
        without, _ = look(place, (), **extra)
        env = {name: value for name, value in without["env"].items() if not name.startswith(OURS)}
        compare("without: environment", bare["env"], env)
        compare("without: no variable of the option", None, without["env"].get("GPULEAK_BYPASS"))
        compare("without: all else", {**bare, "env": 0}, {**without, "env": 0})
        found, _ = look(place, ("--bypass-pools",), **extra)
        env = {name: value for name, value in found["env"].items() if not name.startswith(OURS)}
        folder, _, rest = env.pop("PYTHONPATH").partition(":")
        compare("with: the user's PYTHONPATH", bare["env"].pop("PYTHONPATH", ""), rest)
        compare("the folder has one file", ["sitecustomize.py"],
                [name for name in os.listdir(folder) if name != "__pycache__"])
        compare("with: environment", {**bare["env"], **VARIABLES}, env)
        compare("with: all else", {**bare, "env": 0, "finders": bare["finders"] + 1},
                {**found, "env": 0})


KEPT = " did not change "


def variables(place):
    """a variable that the user set is kept, and named in one line; an empty one counts as unset"""
    for name, value in VARIABLES.items():
        found, said = look(place, ("--bypass-pools",), **{name: "7"})
        compare(name, "7", found["env"][name])
        compare("the others of " + name, {**VARIABLES, name: "7"},
                {other: found["env"][other] for other in VARIABLES})
        line = "gpuleak: --bypass-pools%s%s, which is 7 in the environment" % (KEPT, name)
        compare("lines about " + name, [line],
                [one for one in said.splitlines() if KEPT in one])
        for same in ("", value):
            found, said = look(place, ("--bypass-pools",), **{name: same})
            compare("%s=%s" % (name, same), (value, False), (found["env"][name], KEPT in said))
    text = notes(place, PYTHON, "-c", "import torch\n" + KEEP, **{name: "x" for name in VARIABLES})
    compare("all kept", [ALL_OFF.replace(CACHES, "CuPy"), *CUPY_OFF], text)


def pools(place):
    """gpuleak's pool is fast, unless the user names one"""
    for flags, extra, wanted in (
            (["--bypass-pools"], {}, "fast"),
            (["--bypass-pools=1", "--pool", "strict"], {}, "strict"),
            (["--bypass-pools", "--pool=off"], {}, "off"),
            (["--bypass-pools"], {"GPULEAK_POOL": "strict"}, "strict"),
            (["--bypass-pools"], {"GPULEAK_POOL": "fats"}, "fast"),
            ([], {"GPULEAK_BYPASS_POOLS": "1"}, "fast"),
            (["--bypass-pools=0"], {"GPULEAK_BYPASS_POOLS": "1"}, None)):
        found, _ = look(place, flags, **extra)
        compare("%s %s" % (flags, extra), wanted, found["env"].get("GPULEAK_POOL"))
    found, _ = place.report(PYTHON, VIEW_KEPT)
    compare("in the report", "fast", found["pool"]["mode"])
    for flags, wanted in (((), None), (("--bypass-pools",), "on"),
                          (("--bypass-pools", "--accumulation", "off"), "off")):
        found, _ = look(place, flags)
        compare("accumulation %s" % (flags,), wanted, found["env"].get("GPULEAK_ACCUMULATION"))


def sitecustomize(place):
    """the user's sitecustomize runs, is the one that programs see, and may fail, as without"""
    for text in ("import sys\nsys.from_sitecustomize = __file__\n", "import no_such_module\n",
                 "raise RuntimeError('in the sitecustomize')\n", "import os\nos.chdir('/')\n"):
        folder = os.path.dirname(place.write("own/sitecustomize.py", text))
        bare = place.start([PYTHON, place.script(LOOK)], path=[folder])
        ran = place.run(PYTHON, place.script(LOOK), path=[folder])
        wanted, found = json.loads(bare.stdout), json.loads(ran.stdout)
        compare("module and what it did", (wanted["site"], wanted["own"]),
                (found["site"], found["own"]))
        compare("sys.path", wanted["path"], found["path"])
        compare("stderr", bare.stderr, re.sub(
            "gpuleak: no GPU call was seen in .*\n", "", ran.stderr))
        found, _ = place.report(PYTHON, VIEW_KEPT, path=[folder])
        compare("with CuPy: cached", [], found["cached"])


def nested(place):
    """gpuleak run in gpuleak run: the module is on the path once"""
    ran = place.run(place.options.command, "run", "--bypass-pools", "--", PYTHON,
                    place.script(LOOK))
    path = json.loads(ran.stdout)["env"]["PYTHONPATH"].split(":")
    compare("entries", len(set(path)), len(path))


# ---- where the module lies ----

def installed(place, prefix):
    """Copies the command and the module as `meson install` does."""
    for name in ("bin", "share/gpuleak/bypass"):
        os.makedirs(place.file(prefix, name))
    shutil.copy(place.options.command, place.file(prefix, "bin"))
    shutil.copy(os.path.join(ROOT, "python", "bypass", "sitecustomize.py"),
                place.file(prefix, "share/gpuleak/bypass"))
    return place.file(prefix, "bin", "gpuleak")


def path_with_spaces(place):
    """an installation below a path with spaces"""
    command = installed(place, "a b/c d")
    extra = {"GPULEAK_LIBRARY": place.options.preload}
    ran = place.start([command, "run", "--bypass-pools", "--", PYTHON, VIEW_KEPT], **extra)
    compare_first_line(VIEW_KEPT, "# @kept", "most (38.1 MiB) never freed, allocated at first_row (LINE)", ran.stderr)
    ran = place.start([command, "run", "--bypass-pools", "--", PYTHON, place.script(LOOK)], **extra)
    compare("folder", place.file("a b/c d/share/gpuleak/bypass"),
            json.loads(ran.stdout)["env"]["PYTHONPATH"].split(":")[0])


def module_missing(place):
    """without the module, or with a colon in its path: one line, and the rest is switched off"""
    extra = {"GPULEAK_LIBRARY": place.options.preload}
    missing = installed(place, "missing")
    os.remove(place.file("missing/share/gpuleak/bypass/sitecustomize.py"))
    for command, wanted in ((missing, "bypass/sitecustomize.py is neither beside this command nor"),
                            (installed(place, "a:b"), "PYTHONPATH cannot contain")):
        ran = place.start([command, "run", "--bypass-pools", "--", PYTHON, VIEW_KEPT], **extra)
        said = [line for line in ran.stderr.splitlines() if "switched off" in line]
        if not said[0].startswith("gpuleak: CuPy's cache cannot be switched off: ") or \
                wanted not in said[0]:
            raise Failed("%s\nis not in\n%s" % (wanted, ran.stderr))
        compare("note", "note: " + ALL_OFF.replace("CuPy, ", ""), said[-1])


# ---- other frameworks ----

def torch_kept(place):
    """PyTorch: each tensor is a block of its own"""
    script = place.script("import os, torch\ndef keep():\n    return torch.empty(1000, device='cuda')  "
                          "# @kept\nkept = [keep() for _ in range(7)]\nos._exit(0)\n")
    ran = place.run(PYTHON, script)
    compare_first_line(script, "# @kept", "27.3 KiB in 7 blocks never freed", ran.stderr)
    compare_first_line(script, "# @kept", "at keep (LINE)", ran.stderr)
    found, _ = place.report(PYTHON, script)
    compare("cached, suballocations, notes", ([], [], [ALL_OFF, TORCH_OFF]),
            (found["cached"], found.get("suballocations", []), found["notes"]))
    found, _ = place.report(PYTHON, script, flags=())
    compare("without: leaks, caches", ([], ["PyTorch caching allocator"]),
            (found["leaks"], [one["cache"] for one in found["cached"]]))


def cache_on(place):
    """PyTorch's cache stays on: its tensors accumulate, its own blocks do not"""
    script = place.script("import os\ndel os.environ['PYTORCH_NO_CUDA_MEMORY_CACHING']\n"
                          "import torch\ndef main():\n    kept = []\n    for _ in range(200):\n"
                          "        torch.empty(3 << 20, device='cuda')\n"
                          "        kept.append(torch.empty(3 << 20, device='cuda'))\nmain()\n"
                          "torch.cuda.empty_cache()\n")
    found, _ = place.report(PYTHON, script)
    compare("what accumulates", [("suballocation", 200)], [
        (one["kind"], one["kept_blocks"]) for one in found["suballocations"]])
    compare("blocks of the cache", True, found["summary"]["allocated_blocks"] >= 100)


def no_effect(place):
    """a cache that is used although its variable was set is named, also in a native program"""
    found, _ = place.report(os.path.join(place.options.programs, "p_rules"), "cached", "own")
    compare("first note", "PyTorch's cache could not be switched off in pid %d: "
            "PYTORCH_NO_CUDA_MEMORY_CACHING=1 had no effect: the program changed the variable, or this "
            "version of the framework does not know it" % found["process"]["pid"], found["notes"][0])
    compare("rows of native programs", [ALL_OFF, *VARIABLES], [
        found["notes"][1], *(re.search(r"\((\w+)=", note)[1] for note in found["notes"][2:])])
    found, _ = place.report(os.path.join(place.options.programs, "p_rules"), "cached",
                            PYTORCH_NO_CUDA_MEMORY_CACHING="0")
    place.run(os.path.join(place.options.programs, "p_rules"), "cached", status=0, flags=(
        "--bypass-pools", "--gate"), PYTORCH_NO_CUDA_MEMORY_CACHING="0")
    compare("the user's own value: no such note", [], [
        note for note in found["notes"] if "could not" in note])


def numba_pending(place):
    """Numba: what is in its list at a normal end is a cache; what was kept at another end leaks"""
    start = "import os\nfrom numba import cuda\n"
    dropped = "cuda.device_array(1000); cuda.pinned_array(500)\n"
    keep = "kept = [cuda.device_array(1000) for _ in range(%d)]\n"
    for name, text, options, leaks, cached in (
            ("dropped", dropped, (), 0, 2),
            ("kept to the end", keep % 5, (), 0, 5),  # weakref.finalize puts them into the list
            ("many kept to the end", keep % 30, (), 0, 8),
            ("dropped, _exit", dropped + "os._exit(0)\n", (), 2, 0),
            ("kept, _exit", keep % 5 + "os._exit(0)\n", (), 5, 0),
            ("another limit", "for _ in range(20):\n    cuda.device_array(1000)\n",
             ("NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT=50",), 20, 0)):
        env = dict(pair.split("=") for pair in options)
        script = place.script(start + text)
        found, _ = place.report(PYTHON, script, flags=(), path=[NUMBA], **env)
        compare(name, (leaks, cached), (found["summary"]["leaked_blocks"],
                                        found["summary"]["cached_blocks"]))
        compare(name + ": cache", {"Numba pending frees"} if cached else set(),
                {one["cache"] for one in found["cached"]})
        ran = place.run(PYTHON, script, flags=("--gate",), status=23 if leaks else 0, path=[NUMBA],
                        **env)
        compare(name + ": advice", bool(leaks), "Perhaps held by the Numba pending frees: gpuleak run "
                "--bypass-pools lets nothing pend" in ran.stderr)


def numba_bypassed(place):
    """Numba with --bypass-pools: all is freed at once, so what is left was kept"""
    for text, leaks in (("cuda.device_array(1000)\nos._exit(0)\n", 0),
                        ("kept = [cuda.device_array(1000) for _ in range(5)]\nos._exit(0)\n", 5),
                        ("lost = [cuda.device_array(1000) for _ in range(5)]\n", 0)):
        found, _ = place.report(PYTHON, place.script("import os\nfrom numba import cuda\n" + text),
                                path=[NUMBA])
        compare(text, (leaks, []), (found["summary"]["leaked_blocks"], found["cached"]))
        compare("notes", [ALL_OFF, "Numba (NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT=0): each free is made "
                          "at once, and waits for the device"], found["notes"])
    script = place.script("from numba import cuda\ndef step():\n    return cuda.device_array(1 << 20)  "
                          "# @kept\nkept = []\nfor _ in range(300):\n    step()\n    kept.append(step())\n")
    compare_first_line(script, "# @kept", "300.0 MiB in 300 blocks accumulate at step (LINE)",
                       place.run(PYTHON, script, path=[NUMBA]).stderr)


def tinygrad(place):
    """tinygrad: its cache, and without it what was kept"""
    text = "import os\nfrom tinygrad import Buffer\nfor _ in range(9):\n    Buffer(1000)\n%sos._exit(0)\n"
    keep = "kept = [Buffer(2000) for _ in range(3)]\n"
    for flags, more, leaks, cached in (((), "", 0, 1), ((), keep, 0, 4),
                                       (("--bypass-pools",), "", 0, 0),
                                       (("--bypass-pools",), keep, 3, 0)):
        found, _ = place.report(PYTHON, place.script(text % more), flags=flags, path=[TINYGRAD])
        compare("%s %s" % (flags, more), (leaks, cached), (
            found["summary"]["leaked_blocks"], found["summary"]["cached_blocks"]))
        compare("cache", {"tinygrad cache"} if cached else set(),
                {one["cache"] for one in found["cached"]})
    found, ran = place.report(PYTHON, place.script(text % keep), path=[TINYGRAD], LRU="1")
    compare("the user's own value", (0, 4), (found["summary"]["leaked_blocks"],
                                             found["summary"]["cached_blocks"]))
    if "--bypass-pools did not change LRU, which is 1 in the environment" not in ran.stderr:
        raise Failed(ran.stderr)


# ---- every Python ----

def pythons():
    return [PYTHON, *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")))]


def every_python(place):
    """the module works in each Python that is there, 2.7 too"""
    for name, text in RECORDING.items():
        place.write("recording/" + name, text)
    place.write("own/sitecustomize.py", "import sys\nsys.chained = True\n")
    text = ("import sys, threading, cupy\nfrom cupy import cuda\n"
            "print((cuda.current['device'], cuda.current['pinned'], sys.chained,\n"
            "       [path for path in sys.path if 'bypass' in path]))")
    for python in pythons():
        path = [place.file("recording"), place.file("own")]
        ran = place.run(python, "-c", text, PYTHONPATH=os.pathsep.join(path))
        compare(python, "(None, None, True, [])\n", ran.stdout)
        ran = place.run(python, "-c", text.replace("sys.chained", "True"), PYTHONPATH=path[0])
        compare(python + " without a sitecustomize", ("(None, None, True, [])\n", 1),
                (ran.stdout, len(ran.stderr.splitlines())))
    if len(pythons()) == 1:
        return "only %s is there" % PYTHON
    return None


# ---- the guide ----

# Runs a script whose sleeps take longer. On a slow machine --every may print few lines, and its
# script sleeps for a second only: a suspect needs several lines during the growth.
SLOWLY = """import runpy, sys, time
def sleep(seconds, sleep=time.sleep):
    sleep(seconds * %d)
time.sleep = sleep
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name='__main__')
""" % min(SLOWER, 10)


def example(place, name, *args):
    path = os.path.join(EXAMPLES, name)
    slowly = ["-c", SLOWLY] if SLOWER > 1 else []
    return path, place.run(PYTHON, *slowly, path, *args,
                           flags=("--bypass-pools", "--every", "100ms"))


def places(text):
    """[function, script:line] of the first suspect in TEXT, and of its caller."""
    line = next((line for line in text.splitlines() if "; suspect in pid " in line), "")
    return re.findall(r"(\w+) \(\S*?(kept_\w+\.py:\d+)\)", line)


def grows_as_in_guide(script, path, printed):
    """The suspect is the marked line, and the one in the transcript of the guide."""
    with open(GUIDE, encoding="utf-8") as file:
        block = next(block for block in file.read().split("```") if script in block
                     and "suspect" in block and block.startswith("console"))
    found = places(printed)
    if not found:
        raise Failed("no suspect in\n" + printed)
    compare("line that allocates", "%s:%d" % (script, line_with(path, "# @allocated")), found[0][1])
    compare("suspect in the guide", found, places(block))


def has_numpy():
    found = subprocess.run([PYTHON, "-c", "import numpy"], check=False, stderr=subprocess.DEVNULL)
    if found.returncode != 0 and os.environ.get("GPULEAK_MUST_RUN"):
        raise Failed("no numpy for " + PYTHON)
    return found.returncode == 0


def example_cupy(place):
    """docs/examples/kept_cupy.py: the growth is that of the line which allocates"""
    path, ran = example(place, "kept_cupy.py")
    grows_as_in_guide("kept_cupy.py", path, ran.stderr)
    _, ran = example(place, "kept_cupy.py", "copy")
    if " at read " in ran.stderr:
        raise Failed("an array that is freed is a suspect:\n" + ran.stderr)


def first_line(stderr):
    """The first line, without the number of the process."""
    return re.sub(r"\(pid [0-9]+\)", "(pid N)", stderr.splitlines()[0])


def at_read(path):
    return "%s:%d" % (path, line_with(path, "# @allocated"))


def accumulates(place):
    """kept_cupy.py: the first line names the line, although the interpreter frees all of it"""
    path = os.path.join(EXAMPLES, "kept_cupy.py")
    name = os.path.basename(os.path.realpath(PYTHON))
    ran = place.run(PYTHON, path)
    compare("first line", "gpuleak: 190.7 MiB in 50 blocks accumulate at read (%s)" % at_read(path),
            first_line(ran.stderr))
    if ") allocated by %s (pid " % name not in ran.stderr.split("\n")[1]:
        raise Failed("no totals in the second line of\n" + ran.stderr)
    with open(GUIDE, encoding="utf-8") as file:
        compare("line in the guide", ["kept_cupy.py:%d" % line_with(path, "# @allocated")], re.findall(
            r"blocks accumulate at read \(\S*?(kept_cupy.py:\d+)\)", file.read()))
    if "\nAccumulating: 200,012,800 bytes (190.7 MiB) in 50 blocks (device memory, cuMemAlloc_v2, " \
            "device 0), 50 of 50 kept" not in ran.stderr:
        raise Failed("no such paragraph in\n" + ran.stderr)
    ran = place.run(PYTHON, path, "host")
    compare("clean", "gpuleak: no leaks: 100 blocks (381.4 MiB) allocated by %s (pid N), all freed; "
            "peak 7.6 MiB, all of it by read (%s)" % (name, os.path.basename(at_read(path))),
            re.sub(r"\(\S*/", "(", first_line(ran.stderr)))
    ran = place.run(PYTHON, path, "copy")
    if not first_line(ran.stderr).startswith(
            "gpuleak: 200.0 KiB in 50 blocks accumulate at first_row (" + path):
        raise Failed("the copies are not named in\n" + ran.stderr)
    ran = place.run(PYTHON, path, flags=("--bypass-pools", "--accumulation", "off"))
    compare("switched off", True, "no leaks: " in first_line(ran.stderr))
    for status, args, flags in ((0, (), ()), (23, (), ("--gate-accumulation", "1")),
                                (0, ("host",), ("--gate-accumulation", "1"))):
        place.run(PYTHON, path, *args, flags=("--bypass-pools", "--gate", *flags), status=status)


def at_module_level(place):
    """kept_cupy.py without main(): a leak, and not an accumulation as well"""
    with open(os.path.join(EXAMPLES, "kept_cupy.py"), encoding="utf-8") as file:
        text = file.read().replace("def main():", "if True:").replace("\nmain()\n", "")
    path = place.write("module/kept_cupy.py", text)
    ran = place.run(PYTHON, path)
    compare_first_line(path, "# @allocated", "1 leak, 190.7 MiB in 50 blocks never "
                       "freed", ran.stderr)
    compare_first_line(path, "# @allocated", "at read (LINE)", ran.stderr)
    compare("accumulating", None, re.search("accumulat", ran.stderr, re.I))
    found, _ = place.report(PYTHON, path)
    compare("suballocations", [], found["suballocations"])


def example_torch(place):
    """docs/examples/kept_torch.py: the losses accumulate, also without PyTorch's cache"""
    path, ran = example(place, "kept_torch.py")
    compare("without the cache", "kept_torch.py:%d" % line_with(path, "# @allocated"),
            (places(ran.stderr) or [("", "no suspect")])[0][1])
    _, ran = example(place, "kept_torch.py", "item")
    if "suspect" in ran.stderr:
        raise Failed("Python's numbers grow:\n" + ran.stderr)
    ran = place.run(PYTHON, path)
    compare_first_line(path, "# @allocated", " in 50 blocks accumulate at train_step (LINE)",
                       ran.stderr)
    ran = place.run(PYTHON, path, "item")
    compare("item", True, ran.stderr.startswith("gpuleak: no leaks: "))
    for args, wanted in (((), {line_with(path, "# @allocated")}), (("item",), set())):
        found, _ = place.report(PYTHON, path, *args, flags=())
        accumulate = [one["stack"] for one in found["suballocations"]
                      if one["trend"] == "accumulating"]
        compare("with the cache", wanted, {
            next(frame["line"] for frame in stack if frame["file"] == path) for stack in accumulate})


def example_jax(place):
    """docs/examples/kept_jax.py on the stand-in for JAX: the arrays accumulate, and who keeps them"""
    if not has_numpy():
        return "no numpy for %s" % PYTHON
    path = os.path.join(EXAMPLES, "kept_jax.py")
    gate = ("--bypass-pools", "--keepers", "--gate", "--gate-accumulation", "1")
    found, ran = place.report(PYTHON, path, flags=gate, path=(JAX,), status=23)
    compare_first_line(path, "# @allocated", "gpuleak: 200.0 MiB in 50 blocks accumulate at "
                       "train_step (LINE), kept by list `history` in main() (", ran.stderr)
    (site,) = found["suballocations"]
    compare("call site", ("accumulating", "vmm-handle", "cuMemCreate", 0, 50, 50, 50, 200 << 20), tuple(
        site[name] for name in ("trend", "kind", "api", "blocks", "allocated_blocks", "freed_blocks",
                                "kept_blocks", "kept_bytes")))
    compare("kept by", [("list `history` in main()", str(line_with(path, "history = []")))], [
        re.match(r"(.*) \(.*kept_jax.py:([0-9]+)\), `", one["text"]).groups()
        for one in site["keepers"]])
    ran = place.run(PYTHON, path, "numbers", flags=gate, path=(JAX,))
    compare("numbers", True, first_line(ran.stderr).startswith("gpuleak: no leaks: "))
    return None


def real_jax(place):
    """docs/examples/kept_jax.py on JAX, where it has a GPU"""
    ran = subprocess.run([PYTHON, "-c", "import jax; print(jax.default_backend())"], check=False,
                         capture_output=True, text=True)
    if ran.stdout.strip() != "gpu":
        return "no JAX with a GPU: it makes no CUDA calls on the CPU"
    path, ran = example(place, "kept_jax.py")
    if ("train_step", "kept_jax.py:%d" % line_with(path, "# @allocated")) not in places(ran.stderr):
        raise Failed("train_step does not grow:\n" + ran.stderr)
    compare_first_line(path, "# @allocated", " accumulate at train_step (LINE)",
                       place.run(PYTHON, path).stderr)
    return None


CASES = [view_kept, in_json, refused_by_flag, refused_by_path, own_allocator, failing_switch,
         not_cupy, imports, children, in_venv, nothing_else, variables, pools, sitecustomize, nested,
         path_with_spaces, module_missing, every_python, example_cupy, example_jax, real_jax,
         accumulates, at_module_level, numba_pending, numba_bypassed, tinygrad]
TORCH_CASES = [torch_kept, cache_on, no_effect, example_torch]


def run_case(tap, options, case, name):
    """A case returns why it was skipped, or None."""
    with tempfile.TemporaryDirectory(prefix="gpuleak-run-") as folder:
        try:
            skipped = case(Place(options, folder))
        except Failed as failure:
            tap.line(name, str(failure))
        except Exception:  # a report of another shape than expected must not end the run
            tap.line(name, traceback.format_exc())
        else:
            tap.line(name, skip=skipped)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("cupy", "torch", "preload", "command", "standin", "programs")
    for name in (*names, "only"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    for name in names:
        setattr(options, name, os.path.realpath(getattr(options, name)))
    has_torch = os.path.exists(os.path.join(options.torch, "libtorch_python.so"))
    if not has_torch and os.environ.get("GPULEAK_MUST_RUN"):
        sys.exit("Bail out! no C++ compiler or no python3-dev")
    tap = Tap()
    for case in CASES + (TORCH_CASES if has_torch else []):
        name = " ".join(case.__doc__.split())
        if options.only in name:
            run_case(tap, options, case, name)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
