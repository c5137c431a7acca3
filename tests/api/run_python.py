#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests of the Python module, or of the pytest plugin, by each Python from 3.9 on that is
found: this one, python3.9 and so on in PATH, and those of GPULEAK_TEST_PYTHONS (paths, by colons).
Speaks TAP. A Python that lacks what a group needs (pytest, pyopencl) is skipped; if all lack it,
that is a failure with GPULEAK_MUST_RUN."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.realpath(__file__))
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "frameworks"))

from standin_torch import is_missing  # noqa: E402
from harness import SLOWER, Tap  # noqa: E402

TIMEOUT = 500 * SLOWER


def answer(python, code):
    try:
        done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, timeout=60 * SLOWER, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def find_pythons():
    """{"3.11": path}; of several of one version the one that has pytest."""
    names = [sys.executable, "/usr/bin/python3"]
    names += [shutil.which("python3.%d" % minor) for minor in range(9, 20)]
    names += os.environ.get("GPULEAK_TEST_PYTHONS", "").split(":")
    ret = {}
    for name in filter(None, names):
        version = answer(name, "import sys; print('%d.%d' % sys.version_info[:2] * "
                         "(sys.version_info >= (3, 9) and sys.implementation.name == 'cpython'))")
        if version and (version not in ret or not has_pytest(ret[version])):
            ret[version] = name
    return ret


def has_pytest(python):
    return answer(python, "import pytest, pluggy; print('yes')") == "yes"


def environment(options, home, **more):
    runtime = os.path.join(home, "runtime")
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    return {
        "PATH": os.path.dirname(options.command) + ":" + os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": home, "TMPDIR": home, "XDG_RUNTIME_DIR": runtime, "LC_ALL": "C.UTF-8",
        "LD_LIBRARY_PATH": options.standin, "HELPER_LIBRARY": options.helper,
        "PYTHONPATH": PACKAGE + ":" + HERE, "PYTHONDONTWRITEBYTECODE": "1",
        "POCL_CACHE_DIR": os.path.join(home, "pocl"), **more,
    }


def run(tap, name, argv, env, home):
    done = subprocess.run(argv, env=env, cwd=home, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT,
                          check=False)
    tap.line(name, None if done.returncode == 0 else
             "exit status %d\n%s" % (done.returncode, done.stdout.decode(errors="replace")))


def test_module(tap, options, home, version, python, what="module"):
    script = [python, os.path.join(HERE, what + "_tests.py")]
    run(tap, "%s: Python %s, preloaded" % (what, version), script,
        environment(options, home, ACTIVE="1", LD_PRELOAD=options.preload, GPULEAK_REPORT="none"),
        home)
    run(tap, "%s: Python %s, without gpuleak" % (what, version), script,
        environment(options, home, ACTIVE="0"), home)
    return 1


def test_notebook(tap, options, home, version, python):
    if answer(python, "import IPython; print('yes')") != "yes":
        tap.line("notebook: Python %s" % version, skip="no IPython")
        return 0
    return test_module(tap, options, home, version, python, "notebook")


def test_pytest(tap, options, home, version, python):
    name = "pytest: Python %s" % version
    if not has_pytest(python):
        tap.line(name, skip="no pytest")
        return 0
    run(tap, name, [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytester",
                    "--rootdir", home, os.path.join(HERE, "plugin_tests.py")],
        environment(options, home, LIBRARY=options.preload), home)
    return 1


def test_torch(tap, options, home, version, python):
    """The tests of the module and the plugin with tensors, on the stand-ins for PyTorch."""
    name = "torch: Python %s" % version
    if not has_pytest(python) or version == "3.9":  # the stand-in needs 3.10
        tap.line(name, skip="no pytest, or older than 3.10")
        return 0
    packages = os.path.join(os.path.dirname(HERE), "frameworks", "torch")
    env = environment(options, home, LIBRARY=options.preload, STANDIN_TORCH=options.torch)
    env["PYTHONPATH"] += ":" + os.path.join(packages, "site-packages")
    run(tap, name, [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytester",
                    "--rootdir", home, os.path.join(packages, "plugin_tests.py")], env, home)
    return 1


def test_opencl(tap, options, home, version, python):
    name = "opencl: Python %s" % version
    if answer(python, "import pyopencl; print(len(pyopencl.get_platforms()) and 'yes')") != "yes":
        tap.line(name, skip="no pyopencl, or no platform")
        return 0
    run(tap, name, [python, os.path.join(HERE, "opencl_tests.py")],
        environment(options, home, LD_PRELOAD=options.preload, GPULEAK_REPORT="none"), home)
    return 1


GROUPS = {  # what it tests by, and what one Python must have
    "module": (test_module, "nothing"), "pytest": (test_pytest, "python3-pytest"),
    "opencl": (test_opencl, "python3-pyopencl"), "notebook": (test_notebook, "python3-ipython"), "torch": (test_torch, "python3-pytest"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", choices=sorted(GROUPS))
    for name in ("preload", "command", "standin"):
        parser.add_argument("--" + name, required=True)
    for name in ("helper", "torch"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    if options.group == "torch" and is_missing(options.torch):
        return 0
    for name in ("preload", "command", "standin", "helper", "torch"):
        setattr(options, name, os.path.realpath(getattr(options, name)))
    tap, ran = Tap(), 0
    for version, python in sorted(find_pythons().items(), key=lambda pair: int(pair[0][2:])):
        home = tempfile.mkdtemp(prefix="gpuleak-api-")
        try:
            ran += GROUPS[options.group][0](tap, options, home, version, python)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    if not ran and os.environ.get("GPULEAK_MUST_RUN"):
        tap.line("one Python can", "none can: install " + GROUPS[options.group][1])
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


sys.exit(main())
