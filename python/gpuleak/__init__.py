# SPDX-License-Identifier: MIT
"""Asks libgpuleak.so, where it is preloaded, about this process's GPU memory.

    with gpuleak.check("1 MiB"):
        step()

raises GpuLeakError with place and stack if more than that is allocated in the block and not
freed by its end. Nothing is linked or loaded: in a process that does not run under gpuleak
every function answers as if nothing had been allocated, and active() is False.
"""

import contextlib
import gc
import os
import sys
import threading
import warnings

from . import _library
from ._address import address_of
from ._keepers import (
    Keeper, Kept, keepers, print_keepers, print_keepers_at_exit, print_keepers_on)
from ._kinds import words_of
from ._report import Frame, Leak, ReportError, Stack
from ._report import command
from ._report import leak_at as _leak_at
from ._report import leaks as _leaks
from ._report import run as _run
from ._size import format_size, parse_size, plural

__all__ = [
    "active", "mark", "leaked_since", "leaks_since", "check", "peak", "who", "ignore", "ignoring",
    "step", "report", "report_now", "pool_stats", "pool_trim", "command", "empty_caches", "address_of", "parse_size",
    "keepers", "print_keepers", "print_keepers_at_exit", "print_keepers_on",
    "GpuLeakError", "GpuLeakWarning", "ReportError", "Block", "Sum", "Leak", "Stack", "Frame",
    "Kept", "Keeper",
]


def __getattr__(name):
    """Returns the version, from the file that the whole project has it from."""
    if name != "__version__":
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    with open(os.path.join(os.path.dirname(__file__), "VERSION"), encoding="ascii") as file:
        return file.read().strip()


HOW = "start the program with `gpuleak run -- python ...`"


class GpuLeakWarning(UserWarning):
    """Something could not be checked."""


class GpuLeakError(AssertionError):
    """More GPU memory was leaked than allowed. `leaks` is a list of Leak, `bytes` and `blocks`
    their sum, `max_bytes` what was allowed."""

    def __init__(self, message, leaks=(), size=0, blocks=0, max_bytes=0):
        super().__init__(message)
        self.leaks = list(leaks)
        self.bytes, self.blocks, self.max_bytes = size, blocks, max_bytes


class Sum:
    """What is live since a mark. Suballocations are what a framework allocated inside the blocks
    that it caches, for example PyTorch's tensors. They are not in `blocks`."""

    __slots__ = ("blocks", "bytes", "ignored_blocks", "ignored_bytes", "live_bytes",
                 "unrecorded_blocks", "suballocation_blocks", "suballocation_bytes",
                 "unrecorded_suballocations")

    def __init__(self, struct):
        for name in self.__slots__:
            setattr(self, name, getattr(struct, name))

    def __repr__(self):
        return "<gpuleak.Sum %s>" % ", ".join("%s=%d" % (name, getattr(self, name))
                                              for name in self.__slots__)


class Block:
    """One live block, as who() found it."""

    __slots__ = ("address", "bytes", "span", "api", "kind", "device", "context", "parent",
                 "thread", "references", "time_ns", "mark", "ignored", "interior", "_stack")

    def __init__(self, struct):
        for name in ("address", "bytes", "span", "device", "context", "parent", "thread",
                     "references", "time_ns", "mark"):
            setattr(self, name, getattr(struct, name))
        self.api, self.kind = struct.api.decode(), struct.kind.decode()
        self.ignored = bool(struct.flags & 1)
        self.interior = bool(struct.flags & 2)
        self._stack = None

    @property
    def stack(self):
        """Who allocated it: a Stack with function, file and line. The gpuleak command looks
        them up when this is first asked for; empty if none was recorded, or if the block has
        been freed meanwhile."""
        if self._stack is None:
            leak = _leak_at(self.address)
            self._stack = leak.stack if leak else Stack(())
        return self._stack

    def __repr__(self):
        return "<gpuleak.Block %s, %d bytes at 0x%x by %s>" % (words_of(self.kind), self.bytes,
                                                               self.address, self.api)


# ---- questions ----

def active():
    """Whether libgpuleak.so is in this process and answers."""
    return _library.present()


def mark():
    """A number for this moment, for leaked_since(). The order of marks and blocks is exact."""
    return _library.mark()


def leaked_since(since=0, *, kind=None, thread=0):
    """The Sum of what was allocated since the mark SINCE (0: ever) and is live: of one KIND
    ("device", "pinned" ...), of what one THREAD allocated (threading.get_native_id())."""
    return Sum(_library.leaked_since(since, kind, thread))


def leaks_since(since=0, *, thread=0):
    """The same as a list of Leak with stacks, largest first, without what suppressions match and
    what a framework's cache is known to hold unused. Tensors inside such a cache are in the list,
    without the workspaces that libraries allocate at their first use. Runs the gpuleak
    command."""
    return _leaks(since, thread) if active() else []


def peak(restart=False):
    """The most bytes that were live at one moment since the last peak(restart=True)."""
    return _library.peak(restart)


def who(obj):
    """The Block that OBJ is in: a number (address or handle), or an array, tensor, buffer of a
    framework (see address_of). None if no live block is there."""
    struct = _library.who(address_of(obj))
    return Block(struct) if struct else None


def ignore(obj):
    """OBJ's block is meant to live to the end: no leak, here and in every report. Whether there
    is such a block."""
    return _library.ignore(address_of(obj))


@contextlib.contextmanager
def ignoring():
    """Blocks that this thread allocates inside are no leaks."""
    _library.ignore_begin()
    try:
        yield
    finally:
        _library.ignore_end()


class Step(int):
    """The number of a step. `with` ends the open step of the process."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _library.step(None)


def step(name=None):
    """Marks a step (an epoch, a request), for the report on growth. With a name it also begins a
    step of that name, which ends at the next call, in any thread; with `with` at the end of the
    block. The report has what the steps of each name allocated, freed and left, and their peak.
    Returns the number of the step, from 1; 0 without gpuleak, or before the first GPU call: a
    named step then begins with that call."""
    return Step(_library.step(name))


def report_now():
    """Has the library write its report where GPULEAK_REPORT says, and waits for it. Whether it
    did."""
    return _library.report_now()


def report(format="text", *flags):
    """The report on this process so far as a text, in one of gpuleak's formats; FLAGS are those of
    `gpuleak report`. None without gpuleak, or before the first GPU call."""
    return _run("--format", format, *flags) if active() else None


def pool_stats():
    """Figures of gpuleak's pool by name, see gpuleak.h; {} where no pool and no limit is on."""
    return _library.pool_stats()


def pool_trim():
    """Gives back what gpuleak's pool keeps; how many bytes that was."""
    return _library.pool_trim()


# ---- check ----

def _torch_caches():
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _cupy_caches():
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


def empty_caches():
    """Has PyTorch and CuPy give back what their caches hold unused, if they are imported. One that
    fails is passed over with a warning. (PyOpenCL's memory pools can't be found from outside:
    call their free_held().)"""
    for empty in (_torch_caches, _cupy_caches):
        try:
            empty()
        except Exception as error:  # a framework's trouble is not the caller's
            warnings.warn("gpuleak: %s: %s" % (empty.__name__[1:], error), GpuLeakWarning,
                          stacklevel=2)


def _left(since, thread, caches):
    """The Sum of what is live, when all that could still be freed is."""
    sum_ = leaked_since(since, thread=thread)
    if sum_.blocks or sum_.suballocation_blocks:
        gc.collect()
        sum_ = leaked_since(since, thread=thread)
    if sum_.blocks and caches:
        empty_caches()
        sum_ = leaked_since(since, thread=thread)
    return sum_


class Judgement:
    """What judge() found. `leaks` beyond the limit; `failed`; `bytes` and `blocks` of the leaks
    that count."""

    def __init__(self, max_bytes, leaks=(), size=0, blocks=0, failed=False, trouble=None):
        self.max_bytes, self.leaks, self.failed = max_bytes, list(leaks), failed
        self.bytes, self.blocks, self.trouble = size, blocks, trouble

    def describe(self, who_leaked, frames=None, within=None):
        """The failure as text: first line the sum, then each leak, see Leak.describe()."""
        tensors = bool(self.leaks) and all(leak.is_suballocation for leak in self.leaks)
        lines = ["%s leaked %s in %s, allowed is %s" % (
            who_leaked, format_size(self.bytes),
            plural(self.blocks, self.leaks[0].unit if tensors else "block"),
            format_size(self.max_bytes))]
        for leak in self.leaks:
            lines += ["  " + line for line in leak.describe(frames, within)]
        if self.trouble:
            lines.append("  (%s)" % self.trouble)
        return "\n".join(lines)


def _unrecorded(sum_):
    return sum_.unrecorded_blocks + sum_.unrecorded_suballocations


class Start:
    """A mark, and what is needed besides to judge() what came after it."""

    __slots__ = ("mark", "unrecorded")

    def __init__(self):
        self.unrecorded = _unrecorded(leaked_since(mark()))
        self.mark = mark()


def judge(start, max_bytes=0, *, filter_fn=None, thread=0, per_location=False, caches=True):
    """What is behind check() and the pytest plugin: a Judgement of what is live since the Start.
    More than MAX_BYTES fails; of 0 bytes, one block does."""
    sum_, since = _left(start.mark, thread, caches), start.mark
    # A cache's block and the tensors in it are the same memory.
    size, blocks = max(sum_.bytes, sum_.suballocation_bytes), \
        max(sum_.blocks, sum_.suballocation_blocks)
    if _unrecorded(sum_) > start.unrecorded:
        return Judgement(max_bytes, (), size, blocks, True,
                         "more were not recorded: the ledger could not grow")
    if not blocks or (max_bytes and sum_.bytes + sum_.suballocation_bytes <= max_bytes):
        return Judgement(max_bytes, size=size, blocks=blocks)
    try:
        leaks = _leaks(since, thread)
    except ReportError as error:  # without names it is a leak all the same
        return Judgement(max_bytes, (), size, blocks, True, str(error))
    if not leaks and _library.path("gpuleak_ledger") is None:
        return Judgement(max_bytes, (), size, blocks, True,
                         "the ledger is in memory only: no stacks")
    if per_location:
        leaks = [leak for leak in leaks if not max_bytes or leak.bytes > max_bytes]
    if filter_fn is not None:
        leaks = [leak for leak in leaks if filter_fn(leak.stack)]
    size, blocks = sum(leak.bytes for leak in leaks), sum(leak.blocks for leak in leaks)
    failed = bool(leaks) and (per_location or not max_bytes or size > max_bytes)
    return Judgement(max_bytes, leaks, size, blocks, failed)


_warned = False


def _inactive(required):
    global _warned
    if required:
        raise RuntimeError("gpuleak is not preloaded: %s" % HOW)
    if not _warned:
        _warned = True
        warnings.warn("gpuleak is not preloaded, nothing is checked: %s" % HOW, GpuLeakWarning,
                      stacklevel=3)


class check(contextlib.ContextDecorator):
    """Raises GpuLeakError at the end of a `with` block, or of a function that it decorates, if
    more than MAX_BYTES ("1 MiB", or a number) were allocated inside and not freed. With 0, one
    block is enough.

    filter_fn(stack) returns False for a Stack whose leaks don't count. current_thread_only
    looks at nothing that other threads allocate. per_location judges each stack alone, as
    pytest-memray does, instead of their sum. caches=False leaves the frameworks' caches as they
    are. Without gpuleak it warns once; with required=True it raises RuntimeError.

    Before it judges, garbage is collected and caches are emptied, if there is anything to judge.
    A block that ends with an exception is not judged."""

    def __init__(self, max_bytes=0, *, filter_fn=None, current_thread_only=False,
                 per_location=False, caches=True, required=False):
        self.max_bytes = parse_size(max_bytes)
        self.required = required
        self._thread_only = current_thread_only
        self._how = {"filter_fn": filter_fn, "per_location": per_location, "caches": caches}
        self._start = None
        self.judgement = None

    def _recreate_cm(self):
        return type(self)(self.max_bytes, current_thread_only=self._thread_only,
                          required=self.required, **self._how)

    def __enter__(self):
        if not active():
            _inactive(self.required)
            self._start = None
        else:
            self._start = Start()
        return self

    def __exit__(self, kind, value, traceback):
        start, self._start = self._start, None
        if kind is not None or start is None:
            return
        self.judgement = judge(start, self.max_bytes,
                               thread=threading.get_native_id() if self._thread_only else 0,
                               **self._how)
        if self.judgement.failed:
            raise GpuLeakError(self.judgement.describe("the checked block"),
                               self.judgement.leaks, self.judgement.bytes,
                               self.judgement.blocks, self.max_bytes)
