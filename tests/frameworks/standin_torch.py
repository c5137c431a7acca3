# SPDX-License-Identifier: MIT
"""What the tests on the stand-ins for PyTorch's libraries share (tests/frameworks/torch)."""

import os
import sys

PYTHON = "/usr/bin/python3"
SITE_PACKAGES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "torch", "site-packages")


def is_missing(folder):
    """Returns true if FOLDER lacks the stand-ins, and skips the test. If nothing may be skipped,
    fails it."""
    if os.path.exists(os.path.join(folder, "libtorch_python.so")):
        return False
    if os.environ.get("GPULEAK_MUST_RUN"):
        sys.exit("Bail out! no C++ compiler or no python3-dev")
    print("1..0 # SKIP no C++ compiler or no python3-dev")
    return True
