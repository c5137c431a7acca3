# SPDX-License-Identifier: MIT
"""Runs the gpuleak command of this wheel. A module of its own, so that the package's modules are
not imported for it. The command replaces this process, so nothing stays between it and its caller."""

import os
import signal
import sys

COMMAND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpuleak", "_native", "bin",
                       "gpuleak")


def _environment():
    """Returns the environment that this process was started with. Python itself adds LC_CTYPE in
    the C locale, and the traced program must not inherit that."""
    try:
        with open("/proc/self/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return dict(variable.split(b"=", 1) for variable in variables if b"=" in variable)


def main():
    # Python ignores these signals, and the traced program would inherit that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(COMMAND, ["gpuleak"] + sys.argv[1:], _environment())
    except OSError as error:
        sys.stderr.write("gpuleak: %s: %s; install the wheel again\n" % (COMMAND, error.strerror))
        return 125
