# SPDX-License-Identifier: MIT
"""Searches for what keeps device memory while the program runs and at its end, for `gpuleak run
--keepers`. Stores the results in the ledger, so the report has them even if the program is killed.
The program must not notice the search: so it uses no thread of `threading`, no signal, and no
child process."""

import _thread
import atexit
import os
import sys
import time

from . import _heap, _library
from ._keepers import Progress, keepers_by_site
from ._references import Budget, _own_globals
from ._report import ReportError

POLL_SECONDS = 0.1
FIRST_SECONDS = 0.3   # after the first GPU call
SHARE = 0.05          # of the time of the run that searches may take,
SPARE_SECONDS = 0.5   # beside this time
CPU_SECONDS = (0.5, 10.0)  # limits of one search, of its thread's time,
WALL_SECONDS = 10.0  # and of all time. On a busy machine a thread gets a small part of that.
EXIT_SECONDS = 10.0  # so long may the end of the program be delayed
PLACES = 8            # so many call sites can have a result in the ledger: LEDGER_KEEPERS_MAX
FEW = 8               # a call site with fewer live blocks may be minor, see _is_minor()

_state = None
_stored = {}  # call sites for which this process stored a result: the blocks with a keeper
_progress = Progress()
_started = time.monotonic()


def _text_of(kept):
    """Returns KEPT in the form that gpuleak_keepers() requires."""
    lines = [(keeper.blocks, keeper.text) for keeper in kept.keepers] + \
        [(0, note) for note in kept.notes]
    return "".join("%d %s\n" % (blocks, " ".join(text.split())) for blocks, text in lines)


def _is_minor(kept):
    """Returns True if KEPT has few blocks, and Python refers to none of them, as with a library's; or
    no keeper."""
    return (kept.leak.blocks < FEW or not kept.keepers) and all(
        keeper._is_native for keeper in kept.keepers)


def _store(site, kept):
    """Stores KEPT for the call site SITE in the ledger. The result of a search that was cut replaces
    another one only if it names the keepers of more blocks. A full ledger replaces its oldest result.
    So a minor result is stored only if the ledger has not replaced one yet."""
    text, named = _text_of(kept), sum(keeper.blocks for keeper in kept.keepers)
    if kept._is_cut and named <= _stored.get(site, -1):
        return
    if text and not (_is_minor(kept) and len(_stored.keys() | {site}) > PLACES):
        _stored[site] = named
        _library.keepers(site, text)


def _search(start, with_graphs):
    """Searches once, with the Budget that START returns. Returns the exception that ended the search, None if there was none."""
    try:
        found = keepers_by_site(PLACES, start, with_graphs, _progress)
        for site, kept in sorted(found.items(), key=lambda one: _is_minor(one[1])):
            _store(site, kept)
    except Exception as error:  # pylint: disable=broad-except
        return error  # The program changed objects, or the command failed.
    return None


def _print_error(text):
    try:
        sys.stderr.write("gpuleak: --keepers: %s\n" % text)
    except (AttributeError, OSError, ValueError):
        pass  # The program has no stderr any more.


class Schedule:
    """When to search. Times are seconds; START is that of the program, FIRST that of its first GPU
    call. `spent` is the time of Python's lock that searches took."""

    def __init__(self, start, first):
        self.start, self.first = start, first
        self.spent, self._due, self._doublings = 0.0, first + FIRST_SECONDS, 0

    def seconds(self, now):
        """How long a search may take: of all time, and of its thread's. Both are more in a long run."""
        lowest, highest = CPU_SECONDS
        cpu = min(highest, max(lowest, SHARE * (now - self.start)))
        return WALL_SECONDS * cpu / lowest, cpu

    def is_due(self, now, doublings, is_cut=False):
        """Whether the run is twice as long as at the last search, or a call site has twice as many
        blocks as ever or the last search was cut (IS_CUT), and the time for such searches is not
        spent."""
        has_time = self.spent <= SPARE_SECONDS + SHARE * (now - self.start)
        return now >= self._due or (has_time and (is_cut or doublings > self._doublings))

    def searched(self, now, doublings, spent, was_cut=False):
        """After a search that began with this number of DOUBLINGS. If nothing grew, and the search
        before it was not cut (WAS_CUT), it is not counted: these searches are few, and must not use up
        the time for those that follow growth."""
        if was_cut or doublings > self._doublings:
            self.spent += spent
        self._due = now + (now - self.first)
        self._doublings = max(self._doublings, doublings)


class _State:
    """The thread that searches in this process."""

    def __init__(self):
        self.stop, self.done = _thread.allocate_lock(), _thread.allocate_lock()
        self.is_ending = False
        self.stop.acquire()
        self.done.acquire()
        _thread.start_new_thread(self._run, ())

    def _run(self):
        try:
            while _library.path("gpuleak_ledger") is None:
                if self.stop.acquire(timeout=POLL_SECONDS):
                    return
            schedule = Schedule(_started, time.monotonic())
            while not self.stop.acquire(timeout=POLL_SECONDS):
                doublings, now = _library.doublings(), time.monotonic()
                was_cut = _progress.is_cut
                if schedule.is_due(now, doublings, was_cut):
                    began = time.thread_time()
                    limits = schedule.seconds(now)
                    # If the search fails, the next one may succeed.
                    _search(lambda: Budget(*limits, lambda: self.is_ending), False)
                    schedule.searched(time.monotonic(), doublings, time.thread_time() - began,
                                      was_cut)
        finally:
            self.done.release()

    def end(self):
        """Ends the thread, and waits for it, so that it does not run while Python finalizes. Returns
        False if it still runs."""
        self.is_ending = True
        self.stop.release()
        return self.done.acquire(timeout=EXIT_SECONDS)


def _at_exit():
    global _state
    state, _state = _state, None
    budget = Budget(EXIT_SECONDS)
    if state is not None:
        if state.end() and _library.path("gpuleak_ledger") is not None:
            _library.store_segments(_print_error)
            error = _search(lambda: budget, True)
            if error:
                _print_error("the search at exit failed, so the report may lack variables: %s: %s"
                             % (type(error).__name__, error))


def _in_child():
    """Starts a new thread in a forked child, which has no copy of the thread."""
    global _progress, _state, _started
    if _state is not None:
        _stored.clear()  # the child has a ledger of its own
        _progress = Progress()
        _state, _started = None, time.monotonic()
        start()


def start():
    """Starts the thread that searches, once in a process."""
    global _state
    if _state is None and _library.active():
        _state = _State()


def prepare(started):
    """Starts the search, and registers what ends it: the exit of Python, and a fork in the child.
    Python began at the time STARTED."""
    global _started
    _started = started
    try:
        _heap.check_lock()
    except ReportError as error:
        _print_error(error)
        return
    start()
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_in_child)


_own_globals.add(id(globals()))
