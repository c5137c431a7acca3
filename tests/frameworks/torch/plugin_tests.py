# SPDX-License-Identifier: MIT
"""The pytest plugin and gpuleak.check() with tensors, on the stand-ins for PyTorch's libraries: a
test that keeps a tensor fails, and the failure names the test and the line."""

import os
import re

import pytest

PLUGIN = ("-p", "gpuleak.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def preloaded(pytester, monkeypatch):
    """Runs pytest under gpuleak on FILE."""
    def run(text, *words):
        pytester.makepyfile(test_it="import gc, sys, pytest, torch, gpuleak\n"
                            "only = pytest.mark.limit_gpu_leaks\n" + text)
        monkeypatch.setenv("LD_PRELOAD", os.environ["LIBRARY"])
        monkeypatch.setenv("GPULEAK_REPORT", "none")
        return pytester.runpytest_subprocess(*PLUGIN, *words)
    return run


def failures(result):
    """The messages of the plugin, by test."""
    return dict(re.findall(r"^test_it\.py::(\S+) (leaked .*)$", result.stdout.str(), re.M))


def outcomes(result, **wanted):
    assert result.parseoutcomes() == wanted, result.stdout.str()


def test_kept(pytester, preloaded):
    """A tensor in a list of the module fails the test, by name and line."""
    result = preloaded("""
kept = []

def make(count):
    return torch.empty(count, device="cuda")

@only(0)
def test_keeps():
    kept.append(make(1000))

@only(0)
def test_keeps_nothing():
    make(1000)
""")
    outcomes(result, failed=1, passed=1)
    path = pytester.path / "test_it.py"
    result.stdout.fnmatch_lines([
        "*_ test_keeps _*",
        "test_it.py::test_keeps leaked 4,096 bytes (4.0 KiB) in 1 tensor, allowed is 0 bytes",
        "  4,096 bytes (4.0 KiB) in 1 tensor (PyTorch caching allocator, device 0) allocated at "
        "make %s:7" % path,
        "      #0-#* * frames of *",
        "      #* make %s:7" % path,
        "      #* test_keeps %s:11" % path,
        "      #*-#* * frames of *_pytest*",
        "  4,096 bytes (4.0 KiB) in 1 tensor allocated at make %s:7, kept by:" % path,
        "      1: item `kept[[]0]` in test_it (%s:4)" % path,
        "gpuleak: 2 tests checked for GPU memory",
    ])
    result.stdout.no_fnmatch_line("*CachingAllocator::*")


def test_keepers(pytester, preloaded):
    """The failure names the variables that keep what leaked, but nothing older and no test's own."""
    text = """
kept, older = {}, []

def make():
    return torch.empty(1000, device="cuda")

older.append(make())

class Model:
    def remember(self):
        self.last = make()

@only(0)
def test_first():
    model, mine = Model(), make()
    model.remember()
    kept["model"] = model

@only(0)
def test_second():
    kept["more"] = [make() for _ in range(3)]
"""
    result = preloaded(text)
    outcomes(result, failed=2)
    place = str(pytester.path / "test_it.py")
    assert re.findall("^ +[0-9]: .*$", result.stdout.str(), re.M) == [
        "      1: attribute `kept[\"model\"].last` in test_it (%s:4)" % place,
        "      3: list `kept[\"more\"]` in test_it (%s:4), `kept[\"more\"][0]` to "
        "`kept[\"more\"][2]`" % place]
    pytester.makeini("[pytest]\ngpuleak_keepers = false\n")
    result = preloaded(text)
    outcomes(result, failed=2)
    result.stdout.no_fnmatch_line("*kept by:*")


def test_cache_grows(pytester, preloaded):
    """A test whose tensors are freed passes, though the cache grew and is not emptied."""
    pytester.makeini("[pytest]\ngpuleak_caches = false\n")
    result = preloaded("""
@only(0)
def test_frees():
    tensors = [torch.empty(3 << 20, device="cuda") for _ in range(9)]
    assert torch.cuda.memory_reserved() > 100 << 20

def test_cache_has_it():
    assert torch.cuda.memory_reserved() > 100 << 20
    assert gpuleak.leaked_since(0).blocks > 0
""")
    outcomes(result, passed=2)


def test_garbage(preloaded):
    """What only the garbage collector frees is no leak."""
    result = preloaded("""
fills_the_cache = torch.empty(1000, device="cuda")

class Node:
    def __init__(self):
        self.tensor, self.self = torch.empty(1000, device="cuda"), self

    def __del__(self):
        pass

@only(0)
def test_cycle():
    gc.disable()
    Node()
""")
    outcomes(result, passed=1)


def test_parameters(preloaded):
    """Each run of a parametrized test is judged alone."""
    result = preloaded("""
kept = []

@only(0)
@pytest.mark.parametrize("keep", [True, False, True, False])
def test_it(keep):
    tensor = torch.empty(1000, device="cuda")
    if keep:
        kept.append(tensor)
""", "-rA")
    outcomes(result, failed=2, passed=2)
    assert failures(result) == dict.fromkeys(
        ("test_it[True0]", "test_it[True1]"),
        "leaked 4,096 bytes (4.0 KiB) in 1 tensor, allowed is 0 bytes")


def test_fixtures(preloaded):
    """What fixtures of any scope allocate and free is not the test's."""
    result = preloaded("""
@pytest.fixture(scope="session")
def of_session():
    return [torch.empty(1000, device="cuda")]

@pytest.fixture(scope="module")
def of_module():
    yield [torch.empty(1000, device="cuda")]

@pytest.fixture
def own(of_module):
    of_module.append(torch.empty(1000, device="cuda"))
    yield
    of_module.append(torch.empty(1000, device="cuda"))

@only(0)
def test_first(of_session, own):
    of_session[0] + 1

@only(0)
def test_second(of_module, own):
    of_module[0] + 1

@only(0)
def test_grows_it(of_module):
    of_module.append(torch.empty(1000, device="cuda"))

@only(0)
def test_replaces_it(of_module):
    of_module[0] = None
""")
    outcomes(result, failed=1, passed=3)
    assert list(failures(result)) == ["test_grows_it"]


def test_failed_before(preloaded):
    """A failed test, whose traceback keeps its tensors, is not blamed on the next one."""
    result = preloaded("""
def work(tensor):
    raise ValueError("of its own")

@only(0)
def test_fails():
    work(torch.empty(1000, device="cuda"))

@only(0)
def test_next():
    torch.empty(1000, device="cuda")

@only(0)
def test_keeps_the_traceback():
    try:
        work(torch.empty(1000, device="cuda"))
    except ValueError as error:
        sys.last_value = error

@only(0)
def test_after_that():
    torch.empty(1000, device="cuda")
""")
    outcomes(result, failed=2, passed=2)
    assert list(failures(result)) == ["test_keeps_the_traceback"]


def test_workspace(preloaded):
    """A workspace that a library takes at its first use does not count; a tensor beside it does."""
    result = preloaded("""
kept = []

@only(0)
def test_first_use():
    torch._C._blas_handle()

def test_it_is_there():
    assert torch.cuda.memory_allocated() == 8 << 20

@only(0)
def test_keeps():
    torch._C._blas_handle()
    kept.append(torch.empty(1000, device="cuda"))
""")
    outcomes(result, failed=1, passed=2)
    assert list(failures(result)) == ["test_keeps"]


def test_graph(preloaded):
    """Each line of an autograd graph that the test keeps; a view counts with all of its memory."""
    result = preloaded("""
model = torch.nn.Linear(256, 256).cuda()
kept = []

def loss_of(batch):
    hidden = model(batch)
    return (hidden * hidden).sum()

@only(0)
def test_graph():
    kept.append(loss_of(torch.randn(64, 256, device="cuda")))

@only(0)
def test_number():
    kept.append(loss_of(torch.randn(64, 256, device="cuda")).item())

@only(0)
def test_view():
    kept.append(torch.randn(64, 256, device="cuda")[0])
""")
    outcomes(result, failed=2, passed=1)
    # The batch, the sum of the linear layer, and the loss. Products are freed.
    assert failures(result) == {
        "test_graph": "leaked 131,584 bytes (128.5 KiB) in 3 tensors, allowed is 0 bytes",
        "test_view": "leaked 65,536 bytes (64.0 KiB) in 1 tensor, allowed is 0 bytes"}
    for line in ("test_graph *test_it.py:13", "loss_of *test_it.py:9"):
        result.stdout.fnmatch_lines(["*allocated at %s*" % line])


def test_limits(preloaded):
    """The marker's arguments hold for tensors."""
    result = preloaded("""
import contextlib, threading

kept = []

def keep(count):
    kept.append(torch.empty(count, device="cuda"))

@only("8 KiB")
def test_as_much():
    keep(1000), keep(1000)

@only("8 KiB")
def test_more():
    keep(1000), keep(1000), keep(1)

@only("8 KiB", per_location=True)
def test_each_line():
    keep(1000)
    keep(1000)
    keep(1000)

@only(0, filter_fn=lambda stack: all(frame.function != "keep" for frame in stack.frames))
def test_filtered():
    keep(1000)

@only(0, warmups=1)
def test_first_run_only():
    if not hasattr(test_first_run_only, "tensor"):
        test_first_run_only.tensor = torch.empty(1000, device="cuda")

@only(0, current_thread_only=True)
def test_other_thread():
    thread = threading.Thread(target=keep, args=(1000,))
    thread.start()
    thread.join()

@only(0)
def test_ignored():
    with gpuleak.ignoring():
        keep(1000)

@only(0)
def test_one_ignored():
    for number in range(3):
        with gpuleak.ignoring() if number else contextlib.nullcontext():
            keep(1000)
""")
    outcomes(result, failed=2, passed=6)
    assert failures(result) == {
        "test_more": "leaked 8,704 bytes (8.5 KiB) in 3 tensors, allowed is 8,192 bytes (8.0 KiB)",
        "test_one_ignored": "leaked 4,096 bytes (4.0 KiB) in 1 tensor, allowed is 0 bytes"}


def test_mixed(preloaded):
    """A block of the driver and a tensor in one test: both are named, neither twice."""
    result = preloaded("""
import ctypes

kept = []

@only(0)
def test_both():
    kept.append(torch.empty(1000, device="cuda"))
    assert ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()),
                                                     ctypes.c_size_t(100000)) == 0
""")
    outcomes(result, failed=1)
    assert failures(result) == {"test_both": "leaked 104,096 bytes (101.6 KiB) in 2 blocks, "
                                "allowed is 0 bytes"}


def test_check(preloaded):
    """gpuleak.check() counts tensors, and so does leaked_since()."""
    result = preloaded("""
def test_it():
    kept = []
    with gpuleak.check():
        torch.empty(1000, device="cuda")
    with pytest.raises(gpuleak.GpuLeakError) as caught:
        with gpuleak.check():
            kept += [torch.empty(1000, device="cuda") for _ in range(3)]
    (leak,) = caught.value.leaks
    assert (leak.bytes, leak.blocks, leak.is_suballocation) == (12288, 3, True)
    assert leak.cache == "PyTorch caching allocator"
    mark = gpuleak.mark()
    kept.append(torch.empty(1000, device="cuda"))
    sum_ = gpuleak.leaked_since(mark)
    assert (sum_.suballocation_blocks, sum_.suballocation_bytes) == (1, 4096)
    assert [leak.bytes for leak in gpuleak.leaks_since(mark)] == [4096]
""")
    outcomes(result, passed=1)


def test_workers(pytester, preloaded):
    """The workers of pytest-xdist judge their own tests."""
    if not os.environ.get("GPULEAK_MUST_RUN"):
        pytest.importorskip("xdist")
    result = preloaded("""
kept = []

@only(0)
@pytest.mark.parametrize("number", range(8))
def test_it(number):
    tensor = torch.empty(1000, device="cuda")
    if number == 3:
        kept.append(tensor)
""", "-p", "xdist", "-n", "2")
    outcomes(result, failed=1, passed=7)
    result.stdout.fnmatch_lines([
        "test_it.py::test_it[[]3] leaked 4,096 bytes (4.0 KiB) in 1 tensor, allowed is 0 bytes",
        "gpuleak: 8 tests checked for GPU memory"])
