# SPDX-License-Identifier: MIT
"""Runs the gpuleak command on this process's own ledger and reads its JSON report. The command
looks up symbols, not this process."""

import json
import os
import re
import shutil
import subprocess
import sys

from . import _library
from ._kinds import words_of
from ._size import format_size, plural

_NOT_ITS = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GPULEAK_REPORT", "GPULEAK_FORMAT",
            "GPULEAK_MAX_LEAKED_BYTES")
# When a thread uses cuBLAS for the first time, PyTorch allocates a workspace from its own cache.
_WORKSPACES = re.compile(r"at::cuda::.*(getNewWorkspace|CUDABlasLtWorkspace|"
                         r"setWorkspaceForHandle|getCurrentCUDABlas(Lt)?Handle)\b")
_LIST_KEYS = ("leaks", "suppressed", "cached")
FOLDED_NAMES_MAX = 4  # as in report/describe/describe_stack.c
# Libraries between the program and the driver, for a command whose JSON report has no roles.
_RUNTIME = ("libcuda.so", "libcudart", "libOpenCL", "libgpuleak", "libc.so", "libffi", "_ctypes",
            "libpython", "ld-linux")


def shown_file(path):
    """Returns "In [3]" for the file of a cell of IPython or of a notebook, else PATH."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    found = re.match("<ipython-input-([0-9]+)-", path or "")
    number = found[1] if found else \
        getattr(getattr(shell, "compile", None), "_filename_map", {}).get(path)
    return path if number is None else "In [%s]" % number


class Frame:
    """One line of a call stack."""

    __slots__ = ("function", "filename", "lineno", "module", "language", "role", "thread", "code")

    def __init__(self, function, filename, lineno, module=None, language=None, role=None,
                 thread=None, code=None):
        self.function = function or "?"
        self.filename = filename
        self.lineno = lineno or 0
        self.module = module
        self.language = language
        self.role = role
        self.code = code  # "package" for code of an installed package
        self.thread = thread  # name of the framework's thread if this frame is its function

    @classmethod
    def _of(cls, frame):
        return cls(frame.get("function"), frame.get("file"), frame.get("line"),
                   frame.get("module"), frame.get("language"), frame.get("role"),
                   frame.get("thread"), frame.get("code"))

    @property
    def is_application(self):
        """True if this is code of the application: by its role or, without one, by its module."""
        if self.role is not None:
            return self.role == "application"
        name = os.path.basename(self.module or "")
        return not name.startswith(_RUNTIME) and not name.startswith("python3")

    def is_in(self, filename):
        """Returns True if it is a line of the source file FILENAME, an absolute path or None."""
        return bool(filename and self.filename) and \
            os.path.realpath(self.filename) == os.path.realpath(filename)

    @property
    def is_told(self):
        """True if texts show it: it belongs to the application or a framework."""
        return self.role == "framework" or self.is_application

    @property
    def is_source(self):
        """True if it can name the place of a tensor: a frame of the application or in Python."""
        return self.is_application or (self.language == "python" and self.is_told)

    @property
    def owner(self):
        """What a line of folded frames calls it: its module, or for Python its package or file."""
        path = self.module or self.filename or "???"
        package = None if self.module else path.partition("-packages/")[2]
        return package.partition("/")[0] if package else os.path.basename(path)

    def __str__(self):
        place = "%s:%d" % (shown_file(self.filename), self.lineno) if self.filename else self.module or "?"
        return "%s %s" % (self.function, place)

    def __repr__(self):
        return "<gpuleak.Frame %s>" % self


class Stack:
    """A call stack: `frames`, most recent call first."""

    __slots__ = ("frames",)

    def __init__(self, frames):
        self.frames = tuple(frames)

    @property
    def headline(self):
        """The frame that names the stack: the innermost frame of the application that has a file,
        not of an installed package if there is another, else its innermost frame, else the
        innermost of all. None for an empty stack."""
        own = [frame for frame in self.frames if frame.is_application]
        told = [frame for frame in own if frame.filename]
        written = [frame for frame in told if frame.code is None]
        return (written or told or own or list(self.frames) or [None])[0]

    @property
    def thread(self):
        """The name of the framework's thread that made the call, or None. Frames of the
        application then belong to the thread that waited for it, if that thread is known."""
        return next((frame.thread for frame in self.frames if frame.thread), None)

    def caller_in(self, filename):
        """Returns the innermost frame of the source file FILENAME, or None."""
        return next((frame for frame in self.frames if frame.is_in(filename)), None)

    def lines(self, most=None, within=None, native=True):
        """Returns numbered lines: at most MOST frames of the application and of frameworks, among
        them the headline. If a frame is of the source file WITHIN, leaves out the frames outside
        of the outermost such frame. Without NATIVE leaves out native frames of frameworks. Frames
        that are left out are folded into one line, as in the text report; `frames` has all."""
        last = max((number for number, frame in enumerate(self.frames) if frame.is_in(within)),
                   default=len(self.frames))
        told = [number for number, frame in enumerate(self.frames)
                if frame.is_told and number <= last] or list(range(len(self.frames)))
        if not native:
            told = [number for number in told if self.frames[number].is_source] or told
        if most is not None and len(told) > most:
            at = told.index(self.frames.index(self.headline))
            first = 0 if at < most else at - most + 1
            told = told[first:first + most]
        spare = len(self.frames) if most is None else most - len(told)
        ret, next_ = [], 0
        for number in told + [len(self.frames)]:
            if number == next_ + 1 and spare > 0:  # a line of its own says more than a fold
                spare -= 1
                ret.append("#%d %s" % (next_, self.frames[next_]))
            elif number > next_:
                ret.append(self._fold(next_, number))
            if number < len(self.frames):
                ret.append("#%d %s" % (number, self.frames[number]))
            next_ = number + 1
        return ret

    def _fold(self, first, end):
        """Returns the line for the frames from FIRST to END."""
        frames = self.frames[first:end]
        names = list(dict.fromkeys(frame.owner for frame in frames))
        thread = next((frame.thread for frame in frames if frame.thread), None)
        return "#%d-#%d %s of %s%s%s" % (
            first, end - 1, plural(len(frames), "frame"), ", ".join(names[:FOLDED_NAMES_MAX]),
            " and others" if len(names) > FOLDED_NAMES_MAX else "",
            ", in " + thread if thread else "")

    def __repr__(self):
        return "<gpuleak.Stack %s>" % (self.headline,)


class Leak:
    """Blocks of one call, kind, device and stack. A suballocation, such as a tensor, has the name
    of its framework's cache in `cache`. If the blocks ended with their context, `ended` is the
    Stack of the call that ended it."""

    __slots__ = ("api", "kind", "device", "bytes", "blocks", "stack", "suppressed_by", "cache",
                 "ended")

    def __init__(self, api, kind, device, size, blocks, stack, suppressed_by=None, cache=None,
                 ended=None):
        self.api, self.kind, self.device = api, kind, device
        self.bytes, self.blocks, self.stack = size, blocks, stack
        self.suppressed_by, self.cache, self.ended = suppressed_by, cache, ended

    @classmethod
    def _of(cls, leak):
        inside, cache = leak["kind"] == "suballocation", leak.get("cache")
        return cls(leak["api"], leak["kind"], leak["device"],
                   leak["bytes"] - leak.get("ignored_bytes", 0) -
                   leak.get("suballocated_bytes", 0),  # entries of their own
                   leak["blocks"] - leak.get("ignored_blocks", 0),
                   Stack(Frame._of(frame) for frame in leak["stack"]),
                   leak.get("pattern") or (None if inside else cache), cache)

    @classmethod
    def _of_end(cls, end):
        ret = cls._of(end)
        ret.ended = Stack(Frame._of(frame) for frame in (end["ended"] or {}).get("stack", ()))
        return ret

    def without(self, earlier):
        """Returns a Leak with what this one has beyond EARLIER, of the same call site."""
        return Leak(self.api, self.kind, self.device, self.bytes - earlier.bytes,
                    self.blocks - earlier.blocks, self.stack, self.suppressed_by, self.cache,
                    self.ended)

    @property
    def is_suballocation(self):
        """True if it is inside a block of a framework's cache."""
        return self.kind == "suballocation"

    @property
    def is_workspace(self):
        """True if it is memory that a library allocates at its first use, from a framework's cache
        or from the driver."""
        if not self.is_suballocation:
            return (self.cache or "").endswith("workspaces")
        return any(_WORKSPACES.match(frame.function) for frame in self.stack.frames)

    @property
    def unit(self):
        """What users call one block: "block", "tensor" or "suballocation"."""
        if not self.is_suballocation:
            return "block"
        return "tensor" if (self.cache or "").startswith("PyTorch") else "suballocation"

    @property
    def what(self):
        """The kind of memory in words. "unused in the ..." for a block of a framework's cache."""
        if self.is_suballocation and self.cache:
            return self.cache
        return "unused in the " + self.cache if self.cache else words_of(self.kind)

    @property
    def at(self):
        """The place as a part of a sentence: "at ..." or "in ..."."""
        if not self.stack.thread:
            return "at " + self.place
        return ("at the backward pass of " if self._has_source else "in ") + self.place

    @property
    def _has_source(self):
        return any(frame.is_source for frame in self.stack.frames)

    @property
    def place(self):
        """"function file:line" of the headline. If a framework's thread made the call and no line
        of the application or of Python is known, the name of the thread. "?" if no stack is
        known."""
        if self.stack.thread and not self._has_source:
            return self.stack.thread
        return str(self.stack.headline) if self.stack.frames else "?"

    def place_from(self, file):
        """Returns the place, and after it the line of FILE, by its shown name, that led there."""
        at = next((frame for frame in self.stack.frames if shown_file(frame.filename) == file), None)
        return self.place if at in (None, self.stack.headline) else \
            "%s, called from %s:%d" % (self.place, file, at.lineno)

    def describe(self, frames=None, within=None):
        """Returns lines of text: size, place, and at most FRAMES frames of the stack. If the stack
        has a frame of the source file WITHIN (a path), names its line, too, and leaves out the
        frames outside of it."""
        where = "" if self.device is None or self.device < 0 else ", device %d" % self.device
        what = self.cache if self.is_suballocation and self.cache else \
            "%s, %s" % (words_of(self.kind), self.api)
        head = "%s in %s (%s%s) allocated %s" % (
            format_size(self.bytes), plural(self.blocks, self.unit), what, where, self.at)
        if self.ended is not None:
            head += ", ended with its context at %s" % (self.ended.headline or "?")
        caller = self.stack.caller_in(within)
        if caller is not None and caller is not self.stack.headline:
            head += ", called from %s" % caller
        return [head] + ["    " + line for line in
                         self.stack.lines(frames, within, not self.is_suballocation)]

    def __repr__(self):
        return "<gpuleak.Leak %d bytes in %d %ss at %s>" % (self.bytes, self.blocks, self.unit,
                                                            self.place)


class ReportError(RuntimeError):
    """The gpuleak command could not be run or could not read the ledger."""


def _command_beside():
    """Returns the command in the prefix or virtual environment of this package, or None."""
    place = os.path.dirname(os.path.realpath(__file__))
    for _ in range(4):  # lib/python3.12/site-packages/gpuleak
        place = os.path.dirname(place)
    path = os.path.join(place, "bin", "gpuleak")
    return path if os.access(path, os.X_OK) and os.path.isfile(path) else None


def command():
    """Returns the path of the gpuleak command: that of the preloaded library, else the one in
    PATH, else the one that was installed with this package. Returns None if there is none."""
    return _library.path("gpuleak_command") or shutil.which("gpuleak") or _command_beside()


def run(*flags):
    """Returns the standard output of `gpuleak report FLAGS` on this process's ledger. Returns None
    if the process has no ledger, because it made no GPU call."""
    ledger, program = _library.path("gpuleak_ledger"), command()
    if not ledger:
        return None
    if not program:
        raise ReportError("the gpuleak command is neither beside the preloaded library nor in "
                          "PATH: install it")
    # Without this process's preloads and library paths, but with its suppressions, as for the
    # report at the end of the process.
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_ITS}
    environment["GPULEAK_FOLLOW"] = "off"  # or the library puts them back under `gpuleak run`
    done = subprocess.run([program, "report"] + list(flags) + ["--", ledger],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment, check=False)
    if done.returncode:
        raise ReportError("%s report: %s" % (program, done.stderr.decode(errors="replace").strip()
                                             or "exit status %d" % done.returncode))
    return done.stdout.decode(errors="replace")


def _json(*flags):
    text = run("--format", "json", *flags)
    return json.loads(text) if text else {}


def _merged(found):
    """Merges leaks whose stacks have the same text: an interpreter reaches a line by several
    paths."""
    ret = {}
    for leak in found:
        first = ret.setdefault((leak.api, leak.kind, leak.device, tuple(
            str(frame) for frame in leak.stack.frames
            if (frame.is_source if leak.is_suballocation else frame.is_told)) or leak.stack), leak)
        if first is not leak:
            first.bytes += leak.bytes
            first.blocks += leak.blocks
    return sorted(ret.values(), key=lambda leak: -leak.bytes)


def _flags(since, thread):
    return (["--since", str(since)] if since else []) + \
        (["--thread", str(thread)] if thread else [])


def leaks(since=0, thread=0):
    """Returns what was allocated since the mark SINCE and is live, largest first: blocks that are
    not suppressed, ignored or in a framework's cache, and suballocations inside such a cache,
    except workspaces."""
    return _merged([leak for _, leak in counted(_json(*_flags(since, thread)))])


def counted(report):
    """Returns the entries of REPORT that count as left, each with its Leak."""
    leaks_, inside = ([(one, Leak._of(one)) for one in report.get(key) or ()]
                      for key in ("leaks", "suballocations"))
    return leaks_ + [(one, leak) for one, leak in inside
                     if leak.blocks and not leak.suppressed_by and not leak.is_workspace]


def live(since=0, thread=0):
    """Returns all that was allocated since the mark SINCE and is live, also what is suppressed or
    cached. Of a cache's block only the unused part counts, beside the suballocations in it."""
    report = _json(*_flags(since, thread))
    return [leak for leak in (Leak._of({**one, "ignored_bytes": 0, "ignored_blocks": 0})
                              for key in _LIST_KEYS + ("suballocations",)
                              for one in report.get(key) or ()) if leak.bytes]


def context_ends():
    """Returns what ended with its context and is neither suppressed nor a cache's: a Leak for each
    call site and call that ended a context. The keys are equal in all reports on the process."""
    return {json.dumps([end["api"], end["kind"], end["device"], end["stack"], end["ended"]]):
            Leak._of_end(end) for end in _json().get("ended_with_context", ())
            if not end.get("pattern") and not end["cache"]}


def leak_at(address):
    """Returns a Leak with the stack of the live block at ADDRESS, or None."""
    report = _json("--address", "0x%x" % address)
    for key in _LIST_KEYS + ("objects",):
        for leak in report.get(key, ()):
            if isinstance(leak, dict) and "stack" in leak:
                return Leak._of({"bytes": 0, "device": -1, "blocks": 1, **leak})
    return None
