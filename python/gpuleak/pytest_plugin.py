# SPDX-License-Identifier: MIT
"""Makes tests fail that leak GPU memory, with markers like those of pytest-memray:

    @pytest.mark.limit_gpu_leaks("1 MiB")
    @pytest.mark.limit_gpu_memory("24 MiB")

Has the markers, the options and the texts of failures. gpuleak.judge() finds what leaked."""

import difflib
import inspect
import os
import sys
import threading

import pytest

import gpuleak

LEAKS, MEMORY = "limit_gpu_leaks", "limit_gpu_memory"
STARTED = "PYTEST_GPULEAK_STARTED"  # set when this plugin has started pytest again under gpuleak
HOW = "run `gpuleak run -- python -m pytest`, or pytest --gpuleak"
RUNS_MAX = 1000
KEEPERS_SECONDS = 5


# ---- options ----

def pytest_addoption(parser):
    group = parser.getgroup("gpuleak")
    group.addoption("--gpuleak", action="store_true", default=False,
                    help="Run under gpuleak: start pytest anew by `gpuleak run` if it is not "
                    "preloaded")
    group.addoption("--gpuleak-limit", metavar="SIZE", default=None,
                    help="GPU memory that any test may leak: 0, '64 KiB'; the marker "
                    "limit_gpu_leaks goes before it")
    group.addoption("--gpuleak-frames", metavar="N", type=int, default=None,
                    help="Lines of a stack that a failure shows (default: 10)")
    parser.addini("gpuleak", "The same as --gpuleak", type="bool", default=False)
    parser.addini("gpuleak_limit", "The same as --gpuleak-limit", default="")
    parser.addini("gpuleak_frames", "The same as --gpuleak-frames", default="10")
    parser.addini("gpuleak_required", "Without gpuleak, tests with a limit are errors; by default "
                  "they run unchecked", type="bool", default=False)
    parser.addini("gpuleak_keepers", "Name the variables that keep what a test leaked", type="bool",
                  default=True)
    parser.addini("gpuleak_caches", "Empty the frameworks' caches before a test is judged",
                  type="bool", default=True)


def _words_of_this_run():
    """The command line that started this interpreter."""
    if getattr(sys, "orig_argv", None):
        return [sys.executable] + sys.orig_argv[1:]
    if os.path.basename(sys.argv[0]) == "__main__.py":  # 3.9
        return [sys.executable, "-m", "pytest"] + sys.argv[1:]
    return [sys.executable] + sys.argv


def _start_anew():
    """Replaces this process by pytest under gpuleak. Raises UsageError if that is not possible."""
    program = gpuleak.command()
    if not program:
        raise pytest.UsageError("--gpuleak: the command gpuleak is not in PATH: install it, or "
                                "run `PREFIX/bin/gpuleak run -- python -m pytest` yourself")
    if os.environ.get(STARTED):
        raise pytest.UsageError("--gpuleak: gpuleak is not in this process though `%s run` "
                                "started it: is LD_PRELOAD changed on the way?" % program)
    os.environ[STARTED] = "1"
    quiet = [] if os.environ.get("GPULEAK_REPORT") else ["--report", "none"]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, "run"] + quiet + ["--"] + _words_of_this_run())


# Runs before pytest captures output, because the new pytest must have the real descriptors.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    wanted = early_config.known_args_namespace
    if (getattr(wanted, "gpuleak", False) or early_config.getini("gpuleak")) and \
            not getattr(wanted, "help", False) and not gpuleak.active():
        _start_anew()
    yield


def _size(text, what):
    try:
        return gpuleak.parse_size(text)
    except ValueError as error:
        raise pytest.UsageError("%s: %s" % (what, error)) from None


def pytest_configure(config):
    config.addinivalue_line("markers", LEAKS + "(limit=0, *, filter_fn=None, warmups=0, "
                            "current_thread_only=False, per_location=False): fail the test if it "
                            "leaves more GPU memory allocated than the limit")
    config.addinivalue_line("markers", MEMORY + "(limit): fail the test if it has more GPU memory "
                            "at one moment than the limit, beyond what was there before")
    if config.getoption("gpuleak") and not gpuleak.active():
        raise pytest.UsageError("--gpuleak: the plugin was loaded too late to start pytest anew "
                                "(by a conftest.py?): " + HOW)
    config.pluginmanager.register(_Plugin(config), "gpuleak-tests")


# ---- markers ----

class _Limits:
    """The limits of one test, in bytes. None: no limit."""

    def __init__(self, leaks=None, memory=None, filter_fn=None, warmups=0,
                 current_thread_only=False, per_location=False):
        self.leaks, self.memory, self.warmups = leaks, memory, warmups
        self.thread_only = current_thread_only
        self.how = {"filter_fn": filter_fn, "per_location": per_location}

    def __bool__(self):
        return self.leaks is not None or self.memory is not None


def _leaks_of(limit=0, *, filter_fn=None, warmups=0, current_thread_only=False,
              per_location=False):
    if not isinstance(warmups, int) or not 0 <= warmups <= RUNS_MAX:
        raise ValueError("warmups=%r: expected is a number from 0 to %d" % (warmups, RUNS_MAX))
    if filter_fn is not None and not callable(filter_fn):
        raise ValueError("filter_fn=%r can't be called" % (filter_fn,))
    return {"leaks": gpuleak.parse_size(limit), "filter_fn": filter_fn, "warmups": warmups,
            "current_thread_only": current_thread_only, "per_location": per_location}


def _memory_of(limit):
    return {"memory": gpuleak.parse_size(limit)}


def _check_names(read, given):
    """Raises TypeError for the first name in GIVEN that READ does not have as an argument."""
    known = list(inspect.signature(read).parameters)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            raise TypeError("no argument %r%s" % (name, "; did you mean %r?" % close[0] if close else
                                                  ": it has " + ", ".join(known)))


def _limits(item, default):
    """Returns the _Limits of ITEM. Fails the test if a marker is invalid, and names the marker."""
    values = {} if default is None else {"leaks": default}
    for name, read in ((LEAKS, _leaks_of), (MEMORY, _memory_of)):
        marker = item.get_closest_marker(name)
        if marker is None:
            continue
        try:
            _check_names(read, marker.kwargs)
            bound = inspect.signature(read).bind(*marker.args, **marker.kwargs)
            values.update(read(*bound.args, **bound.kwargs))
        except (TypeError, ValueError) as error:
            pytest.fail("%s: marker %s: %s" % (item.nodeid, name, error), pytrace=False)
    return _Limits(**values)


# ---- tests ----

class _Plugin:
    def __init__(self, config):
        self._config = config
        limit = config.getoption("gpuleak_limit")
        limit = config.getini("gpuleak_limit") if limit is None else limit
        self._default = _size(limit, "--gpuleak-limit") if str(limit).strip() else None
        frames = config.getoption("gpuleak_frames")
        self._frames = self._number(config.getini("gpuleak_frames") if frames is None else frames)
        self._checked = self._unchecked = 0

    @staticmethod
    def _number(text):
        if not str(text).isdecimal() or int(text) < 1:
            raise pytest.UsageError("--gpuleak-frames: bad value %r: expected is a number from 1"
                                    % (text,))
        return int(text)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        """Fails in the setup, which is an error and not a failure, if a test cannot be checked."""
        if _limits(item, self._default) and not gpuleak.active() and \
                self._config.getini("gpuleak_required"):
            pytest.fail("%s has a limit of GPU memory, and gpuleak is not preloaded: %s"
                        % (item.nodeid, HOW), pytrace=False)

    # Checks the test function alone: fixtures are set up before it and end after it. The failure
    # is raised inside of the test, so that xfail, --pdb and plugins that run tests again see it.
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        limits = _limits(item, self._default)
        told = ("gpuleak", "checked" if gpuleak.active() else "unchecked")
        if limits and told not in item.user_properties:
            item.user_properties.append(told)
        if not limits or not gpuleak.active():
            yield
            return
        own = item.runtest

        def runtest():
            self._run(item, own, limits)

        item.runtest = runtest
        try:
            yield
        finally:
            del item.runtest

    @staticmethod
    def _has_failed(item):
        return bool(getattr(item, "_excinfo", None))  # unittest stores it here

    def _run(self, item, runtest, limits):
        for _ in range(limits.warmups):
            runtest()
            if self._has_failed(item):
                return
        start, live = gpuleak.Start(), 0
        if limits.memory is not None:
            gpuleak.peak(restart=True)
            live = gpuleak.leaked_since(start.mark).live_bytes
        runtest()
        if self._has_failed(item):
            return
        problems = [self._look_at_peak(item, limits, live), self._look_at_leaks(item, limits, start)]
        if any(problems):
            pytest.fail("\n".join(filter(None, problems)), pytrace=False)

    @staticmethod
    def _look_at_peak(item, limits, live):
        if limits.memory is None:
            return None
        used = max(gpuleak.peak() - live, 0)
        if used <= limits.memory:
            return None
        return "%s had %s of GPU memory at one moment, allowed is %s" % (
            item.nodeid, gpuleak.format_size(used), gpuleak.format_size(limits.memory))

    def _look_at_leaks(self, item, limits, start):
        if limits.leaks is None:
            return None
        thread = threading.get_native_id() if limits.thread_only else 0
        judgement = gpuleak.judge(start, limits.leaks, thread=thread,
                                  caches=self._config.getini("gpuleak_caches"), **limits.how)
        if not judgement.failed:
            return None
        return "\n".join([judgement.describe(item.nodeid, self._frames, str(item.fspath))] +
                         self._keepers(judgement, start))

    def _keepers(self, judgement, start):
        """Returns lines about the variables that keep what leaked. The test's own variables no
        longer exist."""
        if not self._config.getini("gpuleak_keepers") or not judgement.leaks:
            return []
        places = {leak.place for leak in judgement.leaks}
        try:
            found = gpuleak.keepers(since=start.mark, limit=len(places), seconds=KEEPERS_SECONDS)
        except gpuleak.ReportError:  # describe() prints the reason
            return []
        return ["  " + line for kept in found if kept.leak.place in places and
                any(keeper.variable for keeper in kept.keepers) for line in kept.lines()]

    # ---- the end; with xdist this runs in the process that runs no tests ----

    def pytest_runtest_logreport(self, report):
        for name, value in report.user_properties if report.when == "call" else ():
            self._checked += (name, value) == ("gpuleak", "checked")
            self._unchecked += (name, value) == ("gpuleak", "unchecked")

    def pytest_terminal_summary(self, terminalreporter):
        if self._checked:
            terminalreporter.write_line("gpuleak: %s checked for GPU memory"
                                        % gpuleak.plural(self._checked, "test"))
        if self._unchecked:
            terminalreporter.write_line("gpuleak: %s with limits of GPU memory ran unchecked, not "
                                        "preloaded: %s"
                                        % (gpuleak.plural(self._unchecked, "test"), HOW))
