# SPDX-License-Identifier: MIT
"""Keeps the ledgers of every test that runs with this folder in PYTHONPATH and with
GPULEAK_TEST_KEEP=DIRECTORY. Each command that a test starts gets GPULEAK_LEDGER, unless the test
sets it. Before the test removes a folder, its ledgers are copied. Some tests fail then, because
they require that no ledger stays."""

import itertools
import os
import shutil
import subprocess
import sys

MAGIC = b"GPULEAK"
TOP = os.environ.get("GPULEAK_TEST_KEEP")
NUMBERS = itertools.count(1)
POPEN = subprocess.Popen.__init__
RMTREE = shutil.rmtree


def folder():
    """Returns a new folder, named by the test that runs."""
    script = os.path.realpath(sys.argv[0])
    words = [os.path.basename(os.path.dirname(script)), os.path.basename(script)[:-3]] + \
        [word for word in sys.argv[1:2] if word.replace("-", "").isidentifier() and word[0] != "-"]
    ret = os.path.join(TOP, "%s-%d-%04d" % ("-".join(words), os.getpid(), next(NUMBERS)))
    os.makedirs(ret)
    return ret


def popen(self, args, *more, **how):
    env = dict(os.environ if how.get("env") is None else how["env"])
    words = [args] if isinstance(args, (str, bytes)) else [str(arg) for arg in args]
    recorded = "libgpuleak" in env.get("LD_PRELOAD", "") or \
        (os.path.basename(str(words[0])) == "gpuleak" and "run" in words[1:2])
    if recorded and "GPULEAK_LEDGER" not in env:
        how["env"] = dict(env, GPULEAK_LEDGER=os.path.join(folder(), "%e-%p"))
    POPEN(self, args, *more, **how)


def is_ledger(path):
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def rmtree(path, *more, **how):
    kept = None
    for where, _, names in os.walk(path):
        for name in names:
            if os.path.isfile(os.path.join(where, name)) and is_ledger(os.path.join(where, name)):
                kept = kept or folder()
                shutil.copyfile(os.path.join(where, name), os.path.join(kept, name))
    RMTREE(path, *more, **how)


if TOP:
    # not for the programs that a test starts: gpuleak warns of names that it does not know
    del os.environ["GPULEAK_TEST_KEEP"]
    os.environ.pop("PYTHONPATH", None)
    subprocess.Popen.__init__ = popen
    shutil.rmtree = rmtree
