# SPDX-License-Identifier: MIT
"""Runs programs, the command and the tools that read reports; compares."""

import os
import shutil
import subprocess

import fetch

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
TIMEOUT = 120


class Missing(Exception):
    """What the check needs is not on this machine."""


class NotFetched(Missing):
    """It is not on this machine, and tools/setup.sh does not fetch it, or can do without it."""


def same(got, wanted, what="value"):
    if got != wanted:
        raise AssertionError("%s: got %r, wanted %r" % (what, got, wanted))


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def tool(name, *others):
    """The path of a program that may not be there."""
    for candidate in (name,) + others:
        path = shutil.which(candidate)
        if path:
            return path
    raise Missing("%s was not found" % name)


def module(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError:
        raise Missing("Python has no module %s" % name) from None


def viewers():
    """The folder of what fetch.py fetches."""
    folder = fetch.folder()
    if not folder.exists():
        raise NotFetched("tests/formats/fetch.py has not fetched the viewers")
    return str(folder)


class Place:
    """One check's directory, and what it runs there."""

    def __init__(self, given, home):
        self.given, self.home = given, home

    def path(self, name):
        return os.path.join(self.home, name)

    def environment(self, **more):
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": self.home,
               "XDG_RUNTIME_DIR": self.home, "LD_LIBRARY_PATH": self.given.standin,
               "OCL_ICD_VENDORS": "/etc/OpenCL/vendors"}
        env.update(more)
        return env

    def run(self, *words, status=0, env=None, stdin=None, timeout=TIMEOUT, **options):
        done = subprocess.run([str(w) if not isinstance(w, bytes) else w for w in words],
                              cwd=options.pop("cwd", self.home),
                              env=self.environment(**(env or {})), input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                              check=False)
        if done.returncode != status:
            raise AssertionError("%s: status %s, wanted %s\n%s\n%s" % (
                words, done.returncode, status, done.stdout.decode(errors="replace")[-2000:],
                done.stderr.decode(errors="replace")[-2000:]))
        return done

    def command(self, *words, **options):
        return self.run(self.given.command, *words, **options)

    def program(self, name):
        for directory in (self.given.programs, self.given.others):
            path = os.path.join(directory, name)
            if os.path.exists(path):
                return path
        raise Missing("%s was not built" % name)

    def ledger(self, name, *words, program=None, **options):
        """The ledger of a run of a program."""
        at = self.path(name + ".gpuleak")
        self.command("run", "--report", "none", "--ledger", at, "--",
                     program or self.program(words[0]), *words[1:], **options)
        return at

    def out_of_memory(self, *words, status):
        """The ledger of a program that wants 64 MiB of 100 MiB, of which it has 40."""
        return self.ledger("oom", "p_oom", "weights:40m", "want:64m", *words, status=status,
                           env={"STANDIN_MEMORY": str(100 << 20)})

    def report(self, form, *words, **options):
        """The bytes of a report on ledgers."""
        return self.command("report", "--format", form, *words, **options).stdout

    def nothing(self, form):
        """The bytes of the report with status 24, which is the same in every way to make it."""
        empty, old = self.path("empty"), self.write("old", b"a report of an earlier run\n")
        os.makedirs(empty, exist_ok=True)
        gate = ("--format", form, "--report", old)
        self.command("run", "--gate", *gate, "--", "/bin/true", status=24)
        with open(old, "rb") as file:
            content = file.read()
        self.write("old", b"a report of an earlier run\n")
        self.command("check", *gate, empty, status=24)
        with open(old, "rb") as file:
            same(file.read(), content, "the report of check")
        if form != "text": # without --report, check prints its verdict instead
            same(self.command("check", "--format", form, empty, status=24).stdout, content,
                 "what check prints")
        return content

    def made(self, form, case, verdict="none", **options):
        """The bytes of a report made by hand."""
        return self.run(os.path.join(self.given.programs, "made"), form, case, verdict,
                        **options).stdout

    def write(self, name, content):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(content)
        return path


# What ../formats/leaks.c leaks: bytes of the site of that number.
def leaked(count):
    return {"leak_%d" % n: n * 1000 for n in range(1, count + 1)}
