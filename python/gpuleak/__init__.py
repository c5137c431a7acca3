# SPDX-License-Identifier: MIT
"""Queries libgpuleak.so, if it is preloaded, about this process's GPU memory.

    with gpuleak.check("1 MiB"):
        step()

raises GpuLeakError with call site and stack if more than 1 MiB is allocated inside the `with`
block and not freed at its end. The package links and loads nothing. In a process that does not run
under gpuleak every function returns what it would return if nothing had been allocated, and
active() returns False."""

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
from ._library import active, mark, peak, pool_stats, pool_trim, report_now
from ._report import Frame, Leak, ReportError, Stack
from ._report import command
from ._report import context_ends as _context_ends
from ._report import leak_at as _leak_at
from ._report import leaks as _leaks
from ._report import live as _live
from ._report import run as _run
from ._size import format_size, parse_size, plural
from ._table import Table

__all__ = [
    "active", "mark", "leaked_since", "leaks_since", "check", "peak", "who", "ignore", "ignoring",
    "step", "report", "report_now", "pool_stats", "pool_trim", "command", "empty_caches", "address_of", "parse_size",
    "memory", "keepers", "print_keepers", "print_keepers_at_exit", "print_keepers_on",
    "GpuLeakError", "GpuLeakWarning", "ReportError", "Block", "Sum", "Leak", "Stack", "Frame",
    "Kept", "Keeper", "Table", "range",
]


def __getattr__(name):
    """Returns the version of the project, from the file VERSION."""
    if name != "__version__":
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    with open(os.path.join(os.path.dirname(__file__), "VERSION"), encoding="ascii") as file:
        return file.read().strip()


HOW = "start the program with `gpuleak run -- python ...`"


class GpuLeakWarning(UserWarning):
    """Something could not be checked."""


class GpuLeakError(AssertionError):
    """More GPU memory was leaked than allowed. `leaks` is a list of Leak, `bytes` and `blocks` are
    their sums, and `max_bytes` is what was allowed."""

    def __init__(self, message, leaks=(), size=0, blocks=0, max_bytes=0):
        super().__init__(message)
        self.leaks = list(leaks)
        self.bytes, self.blocks, self.max_bytes = size, blocks, max_bytes


class Sum:
    """What was allocated since a mark and is live. Suballocations are what a framework allocated
    inside the blocks that it caches, for example PyTorch's tensors. They are not in `blocks`.
    `ended_blocks` are those of the whole process that were live when their context was destroyed
    or reset."""

    __slots__ = ("blocks", "bytes", "ignored_blocks", "ignored_bytes", "live_bytes",
                 "unrecorded_blocks", "suballocation_blocks", "suballocation_bytes",
                 "unrecorded_suballocations", "ended_blocks", "ended_bytes")

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
        """The Stack of the allocation, with functions, files and lines. The gpuleak command looks
        them up when a program first reads this property. The Stack is empty if none was recorded,
        or if the block was freed since who() found it."""
        if self._stack is None:
            leak = _leak_at(self.address)
            self._stack = leak.stack if leak else Stack(())
        return self._stack

    def __repr__(self):
        return "<gpuleak.Block %s, %d bytes at 0x%x by %s>" % (words_of(self.kind), self.bytes,
                                                               self.address, self.api)


# ---- queries ----

def leaked_since(since=0, *, kind=None, thread=0):
    """Returns the Sum of what was allocated since the mark SINCE (0: since the start) and is live.
    KIND ("device", "pinned" ...) and THREAD (threading.get_native_id()) restrict it to one kind
    and to the allocations of one thread."""
    return Sum(_library.leaked_since(since, kind, thread))


def leaks_since(since=0, *, thread=0):
    """Returns the same as leaked_since(), but as a list of Leak with stacks, largest first. Leaves
    out what suppressions match, the unused memory of frameworks' caches, and the workspaces that
    libraries allocate at their first use. Tensors inside such caches are in the list. Runs the
    gpuleak command."""
    return _leaks(since, thread) if active() else []


def memory(since=0, *, thread=0):
    """Returns a Table of what was allocated since the mark SINCE and is live, by line, kind of
    memory and device. It has all memory, also what suppressions match and what frameworks cache:
    the tensors in a cache, and its unused part. Runs the gpuleak command."""
    return Table(_live(since, thread) if active() else [], "{} in {} of GPU memory"
                 if active() else "gpuleak is not preloaded: " + HOW)


def load_ipython_extension(shell):
    """Adds the magic %%gpuleak: `%load_ext gpuleak` calls this."""
    from . import _notebook
    _notebook.load(shell)


def who(obj):
    """Returns the Block that contains OBJ, or None if no live block does. OBJ is an address or
    handle as a number, or an array, tensor or buffer of a framework (see address_of())."""
    struct = _library.who(address_of(obj))
    return Block(struct) if struct else None


def ignore(obj):
    """Declares that OBJ's block may live until the end: it is not a leak, neither here nor in any
    report. Returns True if there is such a block."""
    return _library.ignore(address_of(obj))


@contextlib.contextmanager
def ignoring():
    """Blocks that this thread allocates inside the `with` block are not leaks."""
    _library.ignore_begin()
    try:
        yield
    finally:
        _library.ignore_end()


class Step(int):
    """The number of a step. Used with `with`, it ends the step that is open in the process."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _library.step(None)


def step(name=None):
    """Marks a step (an epoch, a request), for the report on growth. With a name it also begins a
    step of that name. A named step ends at the next call of step() in any thread or, with `with`,
    at the end of the block. The report has what the steps of each name allocated, freed and left,
    and their peak. Returns the number of the step, from 1. Returns 0 without gpuleak, or before
    the first GPU call: a named step then begins with that call."""
    return Step(_library.step(name))


class _range(contextlib.ContextDecorator):
    """What this thread allocates inside the `with` block belongs to the range NAME, as with
    torch.cuda.nvtx.range(). Reports have what each range allocated, freed and left. Also a
    decorator. Ranges belong to the thread, so those of coroutines and generators that take turns
    on it lie inside one another: one warning says so."""

    _of_thread = threading.local()
    _is_mixed = False

    def __init__(self, name):
        self.name = str(name)
        self._entered = []  # a range may be entered again inside itself

    def __enter__(self):
        opened = self._settled()
        opened.append([self.name, False])
        self._entered.append((opened, opened[-1]))
        _library.range_begin(self.name)

    def __exit__(self, *_):
        opened, entry = self._entered.pop()
        is_mixed = entry is not opened[-1]
        entry[1] = True
        self._settled()
        if is_mixed and not _range._is_mixed:
            _range._is_mixed = True
            warnings.warn("gpuleak.range(%r) ended before a range that began inside it: coroutines "
                          "or generators take turns, and share the ranges of their thread. Use "
                          "ranges around code without await and yield" % self.name,
                          RuntimeWarning, stacklevel=2)

    @classmethod
    def _settled(cls):
        """Returns the open ranges of this thread, innermost last, as [name, has ended], after those
        that have ended, perhaps in another thread, were taken out of them."""
        opened = cls._of_thread.__dict__.setdefault("opened", [])
        first = next((at for at, entry in enumerate(opened) if entry[1]), len(opened))
        stay = [entry for entry in opened[first:] if not entry[1]]
        for _ in opened[first:]:
            _library.range_end()
        for name, _ in stay:
            _library.range_begin(name)
        opened[first:] = stay
        return opened


def report(format="text", *flags):
    """Returns the report on this process so far as a text, in one of gpuleak's formats. FLAGS are
    those of `gpuleak report`. Returns None without gpuleak, or before the first GPU call."""
    if not active():
        return None
    _library.store_segments(lambda text: warnings.warn("gpuleak: " + text, GpuLeakWarning))
    return _run("--format", format, *flags)


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
    """Makes PyTorch and CuPy return the unused memory of their caches to the driver, if they are
    imported. If one of them fails, there is a warning. (gpuleak cannot find PyOpenCL's memory
    pools: call their free_held().)"""
    for empty in (_torch_caches, _cupy_caches):
        try:
            empty()
        except Exception as error:  # must not fail in the caller
            warnings.warn("gpuleak: %s: %s" % (empty.__name__[1:], error), GpuLeakWarning,
                          stacklevel=2)


def _left(since, thread, caches):
    """Returns the Sum of what is live after garbage collection and, with CACHES, after caches were
    emptied."""
    sum_ = leaked_since(since, thread=thread)
    if sum_.blocks or sum_.suballocation_blocks:
        gc.collect()
        sum_ = leaked_since(since, thread=thread)
    if sum_.blocks and caches:
        empty_caches()
        sum_ = leaked_since(since, thread=thread)
    return sum_


class Judgement:
    """The result of judge(). `failed`: more leaked than allowed. `leaks` are the leaks that count,
    `bytes` and `blocks` are their sums. `trouble`: why these may be incomplete, or None."""

    def __init__(self, max_bytes, leaks=(), size=0, blocks=0, failed=False, trouble=None):
        self.max_bytes, self.leaks, self.failed = max_bytes, list(leaks), failed
        self.bytes, self.blocks, self.trouble = size, blocks, trouble

    def describe(self, who_leaked, frames=None, within=None):
        """Returns the failure as text: a line with the sum, then each leak, see Leak.describe()."""
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
    """The start of a check: a mark, the number of blocks that were not recorded before it, and
    what had ended with its context before it: the sums, and the entries of the report."""

    __slots__ = ("mark", "unrecorded", "ended_blocks", "ended_bytes", "ends")

    def __init__(self):
        sum_ = leaked_since(mark())
        self.unrecorded = _unrecorded(sum_)
        self.ended_blocks, self.ended_bytes = sum_.ended_blocks, sum_.ended_bytes
        self.ends = {}
        if self.ended_blocks:
            with contextlib.suppress(ReportError):  # then judge() gets the same error
                self.ends = _context_ends()
        self.mark = mark()

    def ended(self, sum_, thread):
        """Returns bytes and blocks of what ended with its context since then. No thread counts
        them, because any thread may end a context."""
        if thread or sum_.ended_blocks <= self.ended_blocks:
            return 0, 0
        return sum_.ended_bytes - self.ended_bytes, sum_.ended_blocks - self.ended_blocks

    def new_ends(self):
        """Returns the same as a list of Leak."""
        return [leak.without(self.ends[key]) if key in self.ends else leak
                for key, leak in _context_ends().items()
                if key not in self.ends or leak.blocks > self.ends[key].blocks]


def judge(start, max_bytes=0, *, filter_fn=None, thread=0, per_location=False, caches=True):
    """Implements check() and the pytest plugin. Returns a Judgement of what was allocated since
    START and is live, and of what ended with its context since START. It fails if that is more than MAX_BYTES. If MAX_BYTES is 0, one block is
    enough."""
    sum_, since = _left(start.mark, thread, caches), start.mark
    # A cache's block and the tensors in it are the same memory.
    size, blocks = max(sum_.bytes, sum_.suballocation_bytes), \
        max(sum_.blocks, sum_.suballocation_blocks)
    ended_size, ended_blocks = start.ended(sum_, thread)
    size, blocks = size + ended_size, blocks + ended_blocks
    if _unrecorded(sum_) > start.unrecorded:
        return Judgement(max_bytes, (), size, blocks, True,
                         "more blocks were not recorded: the ledger could not grow")
    if not blocks or (max_bytes and
                      sum_.bytes + sum_.suballocation_bytes + ended_size <= max_bytes):
        return Judgement(max_bytes, size=size, blocks=blocks)
    try:
        leaks = _leaks(since, thread) + (start.new_ends() if ended_blocks else [])
    except ReportError as error:  # it is a leak even if no stack is known
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
    more than MAX_BYTES ("1 MiB", or a number) were allocated inside and not freed, or were live
    when their context was destroyed or reset inside. With 0, one block is enough.

    filter_fn(stack) returns False for a Stack whose leaks don't count. current_thread_only: counts
    only what this thread allocates. per_location: compares each stack with MAX_BYTES, as
    pytest-memray does, instead of their sum. caches=False: does not empty the frameworks' caches.
    Without gpuleak there is one warning; with required=True there is a RuntimeError.

    If something is live at the end, garbage is collected and caches are emptied before the
    comparison. If the `with` block ends with an exception, nothing is checked."""

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


range = _range  # last, so that this file has the builtin range()
