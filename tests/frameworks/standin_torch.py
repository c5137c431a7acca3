# SPDX-License-Identifier: MIT
"""What the tests on the stand-ins for PyTorch's libraries share (tests/frameworks/torch)."""

import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "programs"))

from harness import Tap

PYTHON = "/usr/bin/python3"
SITE_PACKAGES = os.path.join(HERE, "torch", "site-packages")


def is_missing(folder):
    """Returns true if FOLDER lacks the stand-ins, and skips the test. If nothing may be skipped,
    fails it."""
    if os.path.exists(os.path.join(folder, "libtorch_python.so")):
        return False
    if os.environ.get("GPULEAK_MUST_RUN"):
        sys.exit("Bail out! no C++ compiler or no python3-dev")
    print("1..0 # SKIP no C++ compiler or no python3-dev")
    return True


def arguments(description, *folders):
    """Returns the arguments of a test: --script names a program of it, --only a part of a step's
    name, the others a file or folder each. Ends the process if the stand-ins are missing."""
    names = ("torch", "preload", "command", "standin", *folders)
    parser = argparse.ArgumentParser(description=description)
    for name in ("script", "only", *names):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    if options.script:
        return options
    if is_missing(options.torch):
        sys.exit(0)
    for name in names:
        setattr(options, name, os.path.realpath(getattr(options, name)))
    return options


def run_steps(options, steps):
    """Runs STEPS: a name, a function, and what it gets after the options and an empty folder.
    Prints TAP and returns the status of the test."""
    tap = Tap()
    for name, function, *more in steps:
        if options.only in name:
            with tempfile.TemporaryDirectory(prefix="gpuleak-test-") as place:
                tap.step(name, function, options, place, *more)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0
