# SPDX-License-Identifier: MIT
"""The pytest plugin, in pytest runs of its own: what passes, what fails and in which words."""

import os
import re
import sys

import pytest

import helper

PLUGIN = ("-p", "gpuleak.pytest_plugin", "-p", "no:cacheprovider")
LEAK = """
    import helper, pytest

    @pytest.mark.limit_gpu_leaks("1 KiB")
    def test_leaks():
        helper.allocate(2048)

    @pytest.mark.limit_gpu_leaks("1 KiB")
    def test_leaks_less():
        helper.allocate(1024)

    def test_without_marker():
        helper.allocate(4096)
"""


@pytest.fixture
def preloaded(pytester, monkeypatch):
    """Runs pytest under gpuleak."""
    def run(*words):
        monkeypatch.setenv("LD_PRELOAD", os.environ["LIBRARY"])
        monkeypatch.setenv("GPULEAK_REPORT", "none")
        return pytester.runpytest_subprocess(*PLUGIN, *words)
    return run


def outcomes(result, **wanted):
    assert result.parseoutcomes() == wanted or \
        {key: value for key, value in result.parseoutcomes().items()
         if key not in ("warnings", "warning")} == wanted, result.stdout.str()


def test_leak(pytester, preloaded):
    """The failure names the test, what it leaked, and where."""
    pytester.makepyfile(test_it=LEAK)
    result = preloaded()
    outcomes(result, failed=1, passed=2)
    result.stdout.fnmatch_lines([
        "*_ test_leaks _*",
        "test_it.py::test_leaks leaked 2,048 bytes (2.0 KiB) in 1 block, allowed is 1,024 bytes "
        "(1.0 KiB)",
        "  2,048 bytes (2.0 KiB) in 1 block (device memory, cuMemAlloc_v2, device 0) allocated at "
        + helper.place("allocate") + "*",
        "      #0 " + helper.place("allocate"),
        "gpuleak: 2 tests checked for GPU memory",
        "FAILED test_it.py::test_leaks*",
    ])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert result.ret == 1


def test_context_ends(pytester, preloaded):
    """The marker counts what ended with its context inside of the test."""
    pytester.makepyfile("""
        import helper, pytest

        @pytest.mark.limit_gpu_leaks
        def test_loses():
            helper.lose(2048)

        @pytest.mark.limit_gpu_leaks
        def test_after():
            helper.free(helper.allocate(100))
    """)
    result = preloaded()
    outcomes(result, failed=1, passed=1)
    result.stdout.fnmatch_lines([
        "test_context_ends.py::test_loses leaked 2,048 bytes (2.0 KiB) in 1 block, allowed is 0 "
        "bytes",
        "*allocated at " + helper.place("lose") + ", ended with its context at "
        + helper.place("end", "lose") + "*",
    ])


def test_two_places(pytester, preloaded):
    """Each leaking line, largest first."""
    pytester.makepyfile("""
        import helper, pytest

        @pytest.mark.limit_gpu_leaks()
        def test_it():
            for _ in range(3):
                helper.allocate(100)
            helper.other(5000)
    """)
    result = preloaded()
    outcomes(result, failed=1)
    result.stdout.fnmatch_lines([
        "* leaked 5,300 bytes (5.1 KiB) in 4 blocks, allowed is 0 bytes",
        "  5,000 bytes * in 1 block * allocated at " + helper.place("other") + "*",
        "  300 bytes in 3 blocks * allocated at " + helper.place("allocate") + "*",
    ])


def test_line_of_the_test(pytester, preloaded):
    """The test's own line is named, and the stack ends there."""
    pytester.makepyfile(test_it="""
        import helper, json, gpuleak, pytest

        def make():
            return helper.allocate(10)

        @pytest.mark.limit_gpu_leaks(0)
        def test_it():
            make()

        def test_python_is_told():
            if '"language": "python"' not in gpuleak.report("json"):
                pytest.skip("no Python frames in this ledger")
    """)
    result = preloaded()
    if result.parseoutcomes().get("skipped"):
        pytest.skip("gpuleak reads no Python frames here")
    path = pytester.path / "test_it.py"
    result.stdout.fnmatch_lines([
        "  10 bytes in 1 block * allocated at %s, called from make %s:4"
        % (helper.place("allocate"), path),
        "      #* make %s:4" % path,
        "      #* test_it %s:8" % path,
        "      #*-#* * frames of *pytest*",
        "gpuleak: 1 test checked for GPU memory",
    ], consecutive=False)
    result.stdout.no_fnmatch_line("*pytest_pyfunc_call*")


def test_clean(pytester, preloaded):
    """What is freed, by the test, its garbage or its locals, is no leak; nor are fixtures'."""
    pytester.makepyfile("""
        import helper, pytest

        @pytest.fixture(scope="module")
        def of_module():
            yield helper.Buffer(1 << 20)

        @pytest.fixture
        def own():
            address = helper.allocate(1 << 16)
            yield address
            helper.free(address)
            helper.allocate(77)  # of a fixture's end: not the test's

        @pytest.mark.limit_gpu_leaks(0)
        def test_fixtures(of_module, own):
            helper.free(helper.allocate(10))

        @pytest.mark.limit_gpu_leaks(0)
        def test_garbage():
            buffer = helper.Buffer(10)
            buffer.cycle = buffer

        @pytest.mark.limit_gpu_leaks(0)
        def test_no_call():
            pass
    """)
    outcomes(preloaded(), passed=3)


def test_memory(pytester, preloaded):
    """The peak is the test's own, above what was live before."""
    pytester.makepyfile("""
        import helper, pytest

        kept = helper.allocate(1 << 20)

        @pytest.mark.limit_gpu_memory("4 KiB")
        def test_as_much():
            helper.free(helper.allocate(4096))
            helper.free(helper.allocate(4096))

        @pytest.mark.limit_gpu_memory("4 KiB")
        def test_more():
            a, b = helper.allocate(4096), helper.allocate(1)
            helper.free(a)
            helper.free(b)

        @pytest.mark.limit_gpu_memory("4 KiB")
        @pytest.mark.limit_gpu_leaks(0)
        def test_both():
            helper.allocate(5000)

        @pytest.mark.limit_gpu_memory("4 KiB")
        def test_after():
            pass
    """)
    result = preloaded()
    outcomes(result, failed=2, passed=2)
    result.stdout.fnmatch_lines([
        "*::test_more had 4,097 bytes (4.0 KiB) of GPU memory at one moment, allowed is 4,096 "
        "bytes (4.0 KiB)",
        "*::test_both had 5,000 bytes *",
        "*::test_both leaked 5,000 bytes *",
    ])


def test_options_of_marker(pytester, preloaded):
    """filter_fn, warmups, current_thread_only, per_location"""
    pytester.makepyfile("""
        import threading
        import helper, pytest

        def only_other(stack):
            assert stack.frames and stack.frames[0].lineno >= 0
            return any(frame.function == "helper_other" for frame in stack.frames)

        @pytest.mark.limit_gpu_leaks(0, filter_fn=only_other)
        def test_filtered():
            helper.allocate(10)

        @pytest.mark.limit_gpu_leaks(0, filter_fn=only_other)
        def test_not_filtered():
            helper.allocate(10)
            helper.other(11)

        cache = []

        @pytest.mark.limit_gpu_leaks(0, warmups=1)
        def test_cache():
            if not cache:
                cache.append(helper.allocate(10))

        @pytest.mark.limit_gpu_leaks(0, warmups=2)
        def test_no_cache():
            cache.append(helper.allocate(len(cache)))

        def in_thread():
            thread = threading.Thread(target=helper.allocate, args=(10,))
            thread.start()
            thread.join()

        @pytest.mark.limit_gpu_leaks(0, current_thread_only=True)
        def test_other_thread():
            in_thread()

        @pytest.mark.limit_gpu_leaks(0)
        def test_any_thread():
            in_thread()

        @pytest.mark.limit_gpu_leaks(15, per_location=True)
        def test_each_place():
            helper.allocate(10)
            helper.other(10)

        @pytest.mark.limit_gpu_leaks(15)
        def test_all_places():
            helper.allocate(10)
            helper.other(10)
    """)
    result = preloaded("-rA")
    for name in ("filtered", "cache", "other_thread", "each_place"):
        result.stdout.re_match_lines([r"PASSED .*::test_%s$" % name], consecutive=False)
    assert sorted(re.findall(r"^FAILED \S*::test_(\w+)", result.stdout.str(), re.M)) == \
        ["all_places", "any_thread", "no_cache", "not_filtered"]
    assert "test_not_filtered leaked 11 bytes in 1 block" in result.stdout.str()
    assert "test_no_cache leaked 3 bytes in 1 block" in result.stdout.str()


def test_marker_of_class_and_default(pytester, preloaded):
    """The nearest marker counts; --gpuleak-limit is for those without."""
    pytester.makepyfile("""
        import helper, pytest

        @pytest.mark.limit_gpu_leaks(100)
        class TestIt:
            def test_of_class(self):
                helper.allocate(100)

            @pytest.mark.limit_gpu_leaks(200)
            def test_own(self):
                helper.allocate(200)

            def test_too_much(self):
                helper.allocate(101)

        def test_plain():
            helper.allocate(50)

        def test_plain_too_much():
            helper.allocate(51)
    """)
    outcomes(preloaded(), failed=1, passed=4)
    result = preloaded("--gpuleak-limit", "50")
    outcomes(result, failed=2, passed=3)
    assert "test_plain_too_much leaked 51 bytes" in result.stdout.str()
    pytester.makeini("[pytest]\ngpuleak_limit = 50 B\n")
    outcomes(preloaded(), failed=2, passed=3)
    outcomes(preloaded("--gpuleak-limit=1KiB"), failed=1, passed=4)


def test_other_outcomes(pytester, preloaded):
    """A test that fails or skips is not judged; xfail expects a leak like any failure."""
    pytester.makepyfile("""
        import unittest
        import helper, pytest

        pytestmark = pytest.mark.limit_gpu_leaks(0)

        def test_fails():
            helper.allocate(10)
            assert False, "of its own"

        def test_skips():
            helper.allocate(10)
            pytest.skip("of its own")

        @pytest.mark.xfail(strict=True)
        def test_expected():
            helper.allocate(10)

        @pytest.mark.xfail
        def test_unexpected():
            pass

        class TestOld(unittest.TestCase):
            def test_leaks(self):
                helper.allocate(10)

            def test_clean(self):
                helper.free(helper.allocate(10))

            def test_fails(self):
                helper.allocate(10)
                self.fail("of its own")
    """)
    result = preloaded()
    outcomes(result, failed=3, skipped=1, xfailed=1, xpassed=1, passed=1)
    assert result.stdout.str().count(" leaked 10 bytes ") >= 1
    for name in ("test_fails", "test_skips", "test_clean"):
        result.stdout.no_fnmatch_line("*::%s leaked *" % name)
    result.stdout.fnmatch_lines(["*TestOld::test_leaks leaked 10 bytes in 1 block*"])


def test_frames(pytester, preloaded):
    """No more frames than asked for, the headline among them, and no interpreter's."""
    pytester.makepyfile(test_it=LEAK)
    for number in (1, 2):
        result = preloaded("--gpuleak-frames", str(number), "-k", "test_leaks and not less")
        assert 1 <= len(re.findall(r"^ +#\d+ ", result.stdout.str(), re.M)) <= number
        result.stdout.fnmatch_lines(["      #0 " + helper.place("allocate"),
                                     "      #*-#* * frames of *"])
    result.stdout.no_fnmatch_line("*_PyEval*")
    assert preloaded("--gpuleak-frames", "0").ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("marker, said", [
    ("limit_gpu_leaks('1 parsec')", "marker limit_gpu_leaks: bad size '1 parsec': expected is*"),
    ("limit_gpu_leaks(0, warmups=-1)", "marker limit_gpu_leaks: warmups=-1: expected is*"),
    ("limit_gpu_leaks(0, filter_fn=3)", "marker limit_gpu_leaks: filter_fn=3 can't be called"),
    ("limit_gpu_leaks(0, warm=1)",
     "marker limit_gpu_leaks: no argument 'warm'; did you mean 'warmups'?"),
    ("limit_gpu_leaks(0, thread_only=1)",
     "marker limit_gpu_leaks: no argument 'thread_only'; did you mean 'current_thread_only'?"),
    ("limit_gpu_memory(0, xyz=1)", "marker limit_gpu_memory: no argument 'xyz': it has limit"),
    ("limit_gpu_leaks(0, 1)", "marker limit_gpu_leaks: too many positional arguments"),
    ("limit_gpu_memory()", "marker limit_gpu_memory: *missing*limit*"),
])
def test_bad_markers(pytester, preloaded, marker, said):
    """One line that names test and marker, as an error of the test."""
    pytester.makepyfile(test_it="""
        import pytest

        @pytest.mark.%s
        def test_it():
            pass
    """ % marker)
    result = preloaded()
    outcomes(result, errors=1)
    result.stdout.fnmatch_lines(["test_it.py::test_it: " + said])


def test_bad_options(pytester, preloaded):
    """Usage errors in one line."""
    pytester.makepyfile("def test_it(): pass")
    result = preloaded("--gpuleak-limit", "much")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --gpuleak-limit: bad size 'much': expected is*"])


def test_strict_markers(pytester, preloaded):
    """The markers are registered, and documented by pytest --markers."""
    pytester.makepyfile(test_it=LEAK)
    outcomes(preloaded("--strict-markers"), failed=1, passed=2)
    result = pytester.runpytest_subprocess(*PLUGIN, "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.limit_gpu_leaks(*", "@pytest.mark.limit_gpu_memory(*"])


# ---- without gpuleak ----

def test_absent(pytester):
    """Tests run unchecked, and one line says so."""
    pytester.makepyfile(test_it=LEAK)
    result = pytester.runpytest_subprocess(*PLUGIN)
    outcomes(result, passed=3)
    result.stdout.fnmatch_lines(["gpuleak: 2 tests with limits of GPU memory ran unchecked, not "
                                 "preloaded: run `gpuleak run -- python -m pytest`, or pytest "
                                 "--gpuleak"])


def test_required(pytester):
    """With gpuleak_required they are errors, and those without limits pass."""
    pytester.makepyfile(test_it=LEAK)
    pytester.makeini("[pytest]\ngpuleak_required = true\n")
    result = pytester.runpytest_subprocess(*PLUGIN)
    outcomes(result, errors=2, passed=1)
    result.stdout.fnmatch_lines(["test_it.py::test_leaks has a limit of GPU memory, and gpuleak is "
                                 "not preloaded: run*"])


@pytest.mark.parametrize("how", ["flag", "ini"])
def test_started_anew(pytester, monkeypatch, how):
    """--gpuleak starts pytest under gpuleak, with the same words, descriptors and exit status."""
    pytester.makepyfile(test_it=LEAK)
    if how == "ini":
        pytester.makeini("[pytest]\ngpuleak = true\n")
    flags = ["--gpuleak"] if how == "flag" else []
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    result = pytester.run(sys.executable, "-m", "pytest", *PLUGIN, *flags, "-k", "leaks")
    assert result.ret == 1
    outcomes(result, failed=1, passed=1, deselected=1)
    assert result.stdout.str().count("test session starts") == 1
    assert result.stderr.str() == ""
    report = pytester.path / "report"
    monkeypatch.setenv("GPULEAK_REPORT", str(report))
    pytester.run(sys.executable, "-m", "pytest", *PLUGIN, *flags)
    assert ", 7.0 KiB in 3 blocks " in report.read_text().split("\n")[0]


def test_no_command(pytester, monkeypatch):
    """--gpuleak without the command says how, in one line."""
    pytester.makepyfile("def test_it(): pass")
    monkeypatch.setenv("PATH", "/nowhere")
    result = pytester.runpytest_subprocess(*PLUGIN, "--gpuleak")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --gpuleak: the command gpuleak is not in PATH: *"])


def test_xdist(pytester, preloaded):
    """With workers: the same failures, and one sum."""
    pytest.importorskip("xdist")
    pytester.makepyfile(test_it=LEAK)
    result = preloaded("-n", "2")
    outcomes(result, failed=1, passed=2)
    result.stdout.fnmatch_lines(["*leaked 2,048 bytes*", "gpuleak: 2 tests checked for GPU memory"])
