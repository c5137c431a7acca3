# SPDX-License-Identifier: MIT
"""The Python module, preloaded and not (ACTIVE=0): exact counts, places, and what it says."""

import ctypes
import io
import json
import os
import sys
import tempfile
import threading
import types
import unittest
import warnings

import gpuleak
import helper
from gpuleak import _references
from gpuleak._keepers import Kept, Progress
from gpuleak._recorded_keepers import Schedule

ACTIVE = os.environ["ACTIVE"] == "1"
KIB = 1024


@unittest.skipIf(ACTIVE, "of processes without gpuleak")
class Absent(unittest.TestCase):
    def test_answers(self):
        self.assertFalse(gpuleak.active())
        self.assertEqual(gpuleak.mark(), 0)
        block = helper.allocate(10)
        self.assertEqual(gpuleak.leaked_since(0).blocks, 0)
        self.assertEqual(gpuleak.leaks_since(0), [])
        self.assertIsNone(gpuleak.who(block))
        self.assertFalse(gpuleak.ignore(block))
        self.assertEqual((gpuleak.step("one"), gpuleak.report_now()), (0, False))
        self.assertIsNone(gpuleak.report())
        self.assertEqual((gpuleak.pool_stats(), gpuleak.pool_trim(), gpuleak.peak()), ({}, 0, 0))
        with gpuleak.ignoring():
            pass
        helper.free(block)

    def test_check(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(3):
                with gpuleak.check():
                    pass
        self.assertEqual([str(one.message) for one in seen],
                         ["gpuleak is not preloaded, nothing is checked: start the program with "
                          "`gpuleak run -- python ...`"])
        self.assertEqual(os.path.basename(seen[0].filename), "module_tests.py")
        with self.assertRaisesRegex(RuntimeError, "^gpuleak is not preloaded: start"):
            with gpuleak.check(required=True):
                pass


class Sizes(unittest.TestCase):
    def test_good(self):
        for text, size in (("0", 0), ("4096", 4096), (17, 17), ("64KiB", 64 * KIB),
                           ("1 MiB", KIB ** 2), ("24 MB", 24000000), ("24 M", 24 * KIB ** 2),
                           ("1.5kB", 1500), ("2g", 2 * KIB ** 3), ("1.5 KiB", 1536), (" 1 B ", 1)):
            self.assertEqual(gpuleak.parse_size(text), size, text)

    def test_bad(self):
        for text in ("", "-1", "1 XB", "MiB", "1..5 KiB", -1, True, None, 1.5):
            with self.assertRaisesRegex(ValueError, "^bad size .*: expected is"):
                gpuleak.parse_size(text)

    def test_words(self):
        self.assertEqual([gpuleak.format_size(size) for size in (1, 1023, 1536, 2047, 5 << 40)],
                         ["1 byte", "1,023 bytes", "1,536 bytes (1.5 KiB)",
                          "2,047 bytes (1.9 KiB)",
                          "5,497,558,138,880 bytes (5.0 TiB)"])


class Addresses(unittest.TestCase):
    def test_objects(self):
        named = types.SimpleNamespace
        for obj in (4711, ctypes.c_void_p(4711), ctypes.c_uint64(4711),
                    ctypes.cast(4711, ctypes.POINTER(ctypes.c_int)),
                    named(__cuda_array_interface__={"data": (4711, False)}),
                    named(data_ptr=lambda: 4711), named(int_ptr=4711), named(ptr=4711),
                    named(base_data=named(int_ptr=4711)), named(gpudata=4711),
                    named(unsafe_buffer_pointer=lambda: 4711)):
            self.assertEqual(gpuleak.address_of(obj), 4711)
        self.assertEqual(gpuleak.address_of(ctypes.c_void_p(None)), 0)

    def test_others(self):
        class Host:  # a tensor on the CPU has the attribute, and it raises
            @property
            def __cuda_array_interface__(self):
                raise AttributeError("not on a GPU")

            def data_ptr(self):
                return 12

        self.assertEqual(gpuleak.address_of(Host()), 12)
        for obj in ("text", None, [1]):
            with self.assertRaisesRegex(TypeError, "^%s has no device address"
                                        % type(obj).__name__):
                gpuleak.address_of(obj)


@unittest.skipUnless(ACTIVE, "of preloaded processes")
class Questions(unittest.TestCase):
    def setUp(self):
        self.kept = []
        self.addCleanup(lambda: [helper.free(address) for address in self.kept])

    def keep(self, size, how=helper.allocate):
        self.kept.append(how(size))
        return self.kept[-1]

    def test_sums(self):
        self.assertTrue(gpuleak.active())
        self.keep(100)
        mark = gpuleak.mark()
        self.keep(200)
        own = self.keep(300)
        sum_ = gpuleak.leaked_since(mark)
        self.assertEqual((sum_.blocks, sum_.bytes, sum_.live_bytes), (2, 500, 600))
        self.assertEqual(gpuleak.leaked_since(mark, kind="device").blocks, 2)
        self.assertEqual(gpuleak.leaked_since(mark, kind="pinned").blocks, 0)
        self.assertEqual(gpuleak.leaked_since(mark, thread=threading.get_native_id()).blocks, 2)
        self.assertEqual(gpuleak.leaked_since(mark, thread=1).blocks, 0)
        self.assertTrue(gpuleak.ignore(own))
        sum_ = gpuleak.leaked_since(mark)
        self.assertEqual((sum_.bytes, sum_.ignored_blocks, sum_.ignored_bytes), (200, 1, 300))
        with gpuleak.ignoring():
            self.keep(50)
        self.keep(7)
        sum_ = gpuleak.leaked_since(mark)
        self.assertEqual((sum_.bytes, sum_.ignored_bytes), (207, 350))
        leaks = gpuleak.leaks_since(mark)  # two, where the lines of this file are told
        self.assertEqual((sum(leak.bytes for leak in leaks), sum(leak.blocks for leak in leaks)),
                         (207, 2))

    def test_who(self):
        address = self.keep(1000)
        block = gpuleak.who(address + 999)
        self.assertEqual((block.address, block.bytes, block.span, block.api, block.kind,
                          block.device, block.interior, block.ignored, block.references,
                          block.thread),
                         (address, 1000, 1000, "cuMemAlloc_v2", "device", 0, True, False, 1,
                          threading.get_native_id()))
        self.assertEqual(str(block.stack.headline), helper.place("allocate"))
        self.assertEqual(block.stack.headline.function, "helper_allocate")
        self.assertIsNone(gpuleak.who(address + 1000))
        self.assertIsNone(gpuleak.who(0))
        self.assertIsNone(gpuleak.who(-1))
        self.assertIsNone(gpuleak.who(1 << 64))
        buffer = helper.Buffer(64)
        block = gpuleak.who(buffer)
        self.assertEqual((block.address, block.interior), (buffer.address, False))
        gpuleak.ignore(buffer)
        self.assertEqual(str(gpuleak.who(buffer).stack.headline), helper.place("allocate"))
        del buffer
        self.assertEqual(block.stack.frames, ())

    def test_peak(self):
        gpuleak.peak(restart=True)
        helper.free(helper.allocate(5000))
        self.assertEqual(gpuleak.peak(restart=True), 5000)
        self.assertEqual(gpuleak.peak(), 0)

    def test_report(self):
        self.keep(4321)
        text = gpuleak.report()
        self.assertIn("4,321 bytes", text)
        self.assertIn("still running", text)
        mark = gpuleak.mark()
        report = json.loads(gpuleak.report("json", "--since", str(mark)))
        self.assertEqual((report["leaks"], report["summary"]["left_out_bytes"]), ([], 4321))
        with self.assertRaisesRegex(gpuleak.ReportError, "bad value 'papyrus' of --format"):
            gpuleak.report("papyrus")


    def test_steps(self):
        number = gpuleak.step("one")
        self.keep(1000)
        self.assertEqual(gpuleak.step("two \u2713"), number + 1)
        with gpuleak.step("three") as third:
            self.assertEqual(third, number + 2)
            helper.free(self.kept.pop())
            helper.free(helper.allocate(5000))
        self.keep(300)  # in no named step
        self.assertEqual(gpuleak.step(), number + 4)
        self.assertEqual(
            [(step["name"], step["open"], step["allocated_bytes"], step["freed_bytes"],
              step["left_bytes"], step["peak_bytes"])
             for step in json.loads(gpuleak.report("json"))["steps"]],
            [("one", False, 1000, 0, 1000, 1000), ("two \u2713", False, 0, 0, 0, 1000),
             ("three", False, 5000, 6000, -1000, 5000)])

    def test_ranges(self):
        with gpuleak.range("request 17"):
            self.keep(1000)
            with self.assertRaises(KeyError), gpuleak.range("decode"):
                helper.free(helper.allocate(3000))
                raise KeyError
            self.keep(200)
        self.keep(70)
        self.assertEqual(
            {(row["name"], row["allocated_bytes"], row["freed_bytes"], row["left_bytes"])
             for row in json.loads(gpuleak.report("json"))["ranges"] if "request" in str(row["name"])},
            {("request #", 1200, 0, 1200), ("request #/decode", 3000, 3000, 0)})

    def allocated_in(self, *names):
        rows = {row["name"]: row["allocated_bytes"]
                for row in json.loads(gpuleak.report("json"))["ranges"]}
        return [rows.get(name) for name in names]

    def test_range_again(self):
        again, nameless = gpuleak.range("again"), gpuleak.range("")
        with again:
            self.keep(100)
        with again, again:
            self.keep(20)
        with nameless:
            self.keep(3)
        self.assertEqual(self.allocated_in("again", "again/again", "(no name)"), [100, 20, 3])

    def test_ranges_that_take_turns(self):
        """Each ends itself, in whatever order and thread, and one warning says that they mix."""
        def steps(name, number):
            with gpuleak.range(name):
                self.keep(number)
                yield
        gpuleak.range._is_mixed = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                turns = [steps("one", 1000), steps("two", 200)]
                for turn in turns:
                    next(turn)
                self.assertEqual(list(turns[0]), [])
                self.keep(30)  # in "two"
                self.assertEqual(list(turns[1]), [])
                self.keep(4)
        self.assertEqual([one.category for one in caught], [RuntimeWarning])
        self.assertIn("gpuleak.range('one') ended before", str(caught[0].message))
        turn = steps("elsewhere", 7)
        next(turn)
        thread = threading.Thread(target=list, args=(turn,))
        thread.start()
        thread.join()
        with gpuleak.range("after"):
            self.keep(50)
        self.assertEqual(self.allocated_in("one", "one/two", "two", "elsewhere", "after"),
                         [2000, 400, 60, 7, 50])

    def test_report_to_a_descriptor(self):
        """The report goes to the file, and no line to stderr."""
        stderr = os.dup(2)
        with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as said:
            os.dup2(said.fileno(), 2)
            try:
                result = ctypes.CDLL(None).gpuleak_report_live(file.fileno())
            finally:
                os.dup2(stderr, 2)
                os.close(stderr)
            file.seek(0)
            said.seek(0)
            self.assertEqual((result, said.read()), (0, b""))
            self.assertEqual(json.load(file)["schema"], "gpuleak-report/1")


class Keepers(unittest.TestCase):
    def test_native(self):
        """A block that no framework's object has; without gpuleak there is no block."""
        address = helper.allocate(70001)
        self.addCleanup(helper.free, address)
        found = gpuleak.keepers(address)
        self.assertEqual([(kept.leak.bytes, [keeper.blocks for keeper in kept.keepers], kept.notes)
                          for kept in found], [(70001, [1], [])] if ACTIVE else [])
        text = io.StringIO()
        gpuleak.print_keepers(address, file=text)
        self.assertEqual(text.getvalue(), "gpuleak: 70,001 bytes (68.3 KiB) in 1 block allocated at "
                         "%s, kept by:\n    1: native code, or a running loop or call: nothing in "
                         "Python refers to it\n" % helper.place("allocate") if ACTIVE else
                         "gpuleak is not preloaded: start the program with `gpuleak run -- python "
                         "...`\n")

    @staticmethod
    def live():
        """The entries of the report on live memory, largest first."""
        text = gpuleak._library.report_live()
        return json.loads(text)["leaks"] if text else []

    def test_recorded(self):
        """A text is stored with its call site; a ninth one replaces the oldest."""
        place = [helper.allocate(size) for size in (70003, 70004)]
        for address in place:
            self.addCleanup(helper.free, address)
        store, leaks = gpuleak._library.keepers, self.live()
        if not ACTIVE:
            self.assertEqual((leaks, store(1, "1 x")), ([], False))
            return
        leak = next(leak for leak in leaks if hex(place[0]) in leak["addresses"])
        site = leak["ledger_site"]
        self.assertTrue(store(site, "2 list `a`\n0 \u2713\n"))
        self.assertTrue(store(site, "1 list `b`\n" + 60 * ("1 %s\n" % ("x" * 40))))
        self.assertFalse(store(site + 1, "1 x") or store(0, "1 x") or store(2 ** 40, "1 x"))
        (leak,) = [one for one in self.live() if one["ledger_site"] == site]
        self.assertEqual(leak["keepers"][0], {"blocks": 1, "text": "list `b`"})
        self.assertEqual(len(leak["keepers"]), 1 + (2008 - 11) // 43)
        self.assertEqual(leak["keepers"][-1], {"blocks": 1, "text": "x" * 40})
        self.assertGreater(leak["keepers_seconds"], 0)

    def test_segments(self):
        """A stream is stored for memory, and not for none."""
        store = gpuleak._library.segment
        address = helper.allocate(70005)
        self.addCleanup(helper.free, address)
        self.assertEqual([store(address, 70005, 7, (1, 2)), store(address, 70005, -1, (0, 0)),
                          store(0, 70005, 7, (0, 0))], [ACTIVE, ACTIVE, False])

    def test_recorded_sites(self):
        """There is room for eight call sites: the oldest text is replaced. A site has one text."""
        if not ACTIVE:
            return
        sites = []
        for number in range(9):
            allocate = eval("lambda: helper.allocate(80000)", {"helper": helper})
            allocate = types.FunctionType(allocate.__code__.replace(co_firstlineno=number + 1),
                                          {"helper": helper})
            address = allocate()
            self.addCleanup(helper.free, address)
            sites.append(next(leak["ledger_site"] for leak in self.live()
                              if hex(address) in leak["addresses"]))
        self.assertEqual(len(set(sites)), 9)
        for number, site in enumerate(sites):
            for blocks in (77, number + 1):
                self.assertTrue(gpuleak._library.keepers(site, "%d x" % blocks))
        found = {leak["ledger_site"]: leak["keepers"][0]["blocks"] for leak in self.live()
                 if "keepers" in leak}
        self.assertEqual([found.get(site) for site in sites], [None, *range(2, 10)])

    @unittest.skipUnless(ACTIVE, "of preloaded processes")
    def test_property_of_the_program(self):
        """A class of the program may compute __cuda_array_interface__: it is not called."""
        buffer = helper.Buffer(70002)
        (kept,) = gpuleak.keepers(buffer)
        self.assertEqual([keeper.variable for keeper in kept.keepers], [None])


class Searches(unittest.TestCase):
    """When `gpuleak run --keepers` searches."""

    @staticmethod
    def searches(first, end, doublings, spent):
        """[(time of a search, number of doublings then)] from FIRST to END seconds after the start,
        and their Schedule."""
        schedule, ret, now = Schedule(0.0, first), [], first
        while now < end:
            if schedule.is_due(now, doublings(now)):
                ret.append((now, doublings(now)))
                schedule.searched(now + spent, doublings(now), spent)
                now += spent
            now += 0.1
        return ret, schedule

    def test_quiet(self):
        """Nothing grows: a search when the run is twice as long as at the last one."""
        found, schedule = self.searches(5.0, 3605.0, lambda now: 7, 0.3)
        times = [time - 5.0 for time, _ in found]
        self.assertAlmostEqual(times[0], 0.0)
        self.assertTrue(all(later > 2 * time for time, later in zip(times, times[1:])))
        self.assertEqual((len(times), round(schedule.spent, 1)), (13, 0.3))

    def test_short_loop(self):
        """A loop of a second keeps 50 tensors after an import of 8 seconds: the last search sees
        more than half of them."""
        count = lambda now: int(50 * min(1.0, max(0.0, now - 9.0)))
        found, _ = self.searches(8.0, 10.0, lambda now: max(0, count(now).bit_length() - 3), 0.3)
        self.assertGreater(count(found[-1][0]), 25)

    def test_growth_without_end(self):
        """Something doubles all the time: the searches take a twentieth of the time."""
        for spent in (0.2, 5.0):
            found, schedule = self.searches(8.0, 1008.0, lambda now: int(10 * now), spent)
            self.assertLess(schedule.spent, 0.05 * 1008 + 0.5 + spent)
            self.assertGreater(schedule.spent, 0.04 * 1008)
            self.assertEqual(len(found), round(schedule.spent / spent))

    def test_cut(self):
        """A search that was cut goes on as soon as there is time, though nothing grows."""
        schedule = Schedule(0.0, -1000.0)
        schedule.searched(2.0, 7, 0.5)
        self.assertEqual((schedule.is_due(2.1, 7), schedule.is_due(2.1, 7, True)), (False, True))
        schedule.searched(2.6, 7, 0.5, True)
        schedule.searched(2.7, 7, 0.2, True)
        self.assertEqual([schedule.is_due(now, 7, True) for now in (2.8, 13.9, 14.1)],
                         [False, False, True])

    def test_budget(self):
        """On a busy machine a search has 10 seconds for half a second of its own time; in a long run
        both are more."""
        schedule = Schedule(0.0, 1.0)
        self.assertEqual([schedule.seconds(now) for now in (1.0, 10.0, 40.0, 9999.0)],
                         [(10.0, 0.5), (10.0, 0.5), (40.0, 2.0), (200.0, 10.0)])
        clock, real = types.SimpleNamespace(wall=0.0, cpu=0.0), _references.time
        clock.monotonic, clock.thread_time = lambda: clock.wall, lambda: clock.cpu
        _references.time = clock
        try:
            budget = _references.Budget(10.0, 0.5, lambda: clock.is_ending)
            seen = []
            for clock.wall, clock.cpu, clock.is_ending in (
                    (9.9, 0.4, False), (9.9, 0.6, False), (10.1, 0.4, False), (0.1, 0.1, True)):
                seen.append(budget.is_over())
        finally:
            _references.time = real
        self.assertEqual(seen, [False, True, True, True])

    def test_progress(self):
        """The worst call site first. A search goes on at the one where the last was cut, and leaves it
        if it is cut there again."""
        def kept(is_begun, is_cut):
            ret = Kept(None, ())
            ret._is_begun, ret._is_cut = is_begun, is_cut
            return ret

        done, cut, left = (True, False), (True, True), (False, True)
        progress, order = Progress(), []
        for states in ({1: done, 2: cut, 3: left}, {1: left, 2: cut, 3: left}, {3: cut, 1: left, 2: left},
                       {1: left, 2: left, 3: done}, {1: done, 2: done, 3: done}):
            progress.add({site: kept(*state) for site, state in states.items()})
            order.append((progress.order([1, 2, 3]), progress.is_cut))
        self.assertEqual(order, [([2, 3, 1], True), ([3, 1, 2], True), ([3, 1, 2], True),
                                 ([1, 2, 3], False), ([1, 2, 3], False)])


class Stacks(unittest.TestCase):
    def test_lines(self):
        def frame(function, module="/app", role=None):
            return gpuleak.Frame(function, None, 0, module, None, role)

        stack = gpuleak.Stack([
            frame("cudaMalloc", role="runtime"), frame("torch", role="framework"),
            frame("mine"), frame("eval", role="interpreter"), frame("_PyEval", "/x/python3.12"),
            frame("main"), frame("start", "/lib/libc.so.6")])
        self.assertEqual(stack.lines(), [
            "#0 cudaMalloc /app", "#1 torch /app", "#2 mine /app",
            "#3-#4 2 frames of app, python3.12", "#5 main /app", "#6 start /lib/libc.so.6"])
        self.assertEqual(stack.lines(1), [
            "#0-#1 2 frames of app", "#2 mine /app",
            "#3-#6 4 frames of app, python3.12, libc.so.6"])
        self.assertEqual(gpuleak.Stack(stack.frames[2:4]).lines(1),
                         ["#0 mine /app", "#1-#1 1 frame of app"])
        self.assertEqual(stack.headline.function, "mine")
        self.assertEqual(gpuleak.Stack(stack.frames[3:5]).lines(),
                         ["#0 eval /app", "#1 _PyEval /x/python3.12"])
        self.assertEqual((gpuleak.Stack(()).lines(), gpuleak.Stack(()).headline), ([], None))

    def test_folded_names(self):
        """Modules, packages of Python or its files; four of them, and the framework's thread."""
        def frame(filename, module=None, thread=None):
            return gpuleak.Frame("f", filename, 1, module, role="framework", thread=thread)

        stack = gpuleak.Stack([gpuleak.Frame("mine", None, 0, "/app")] + [
            frame("/v/site-packages/torch/nn/x.py"), frame("/v/dist-packages/tool.py"),
            frame("/src/a.c", "/lib/libc10.so"), frame("/usr/lib/python3.11/queue.py"),
            frame("/v/site-packages/torch/y.py"), frame(None), frame("/x/last.py", None, "a thread")])
        self.assertEqual(stack.lines(1)[1], "#1-#7 7 frames of torch, tool.py, libc10.so, queue.py "
                         "and others, in a thread")

    def test_within(self):
        """The line of the test, whatever it calls, and nothing of who runs tests."""
        def frame(function, filename, lineno):
            return gpuleak.Frame(function, filename, lineno, language="python")

        leak = gpuleak.Leak("cuMemAlloc_v2", "device", 0, 64, 1, gpuleak.Stack([
            gpuleak.Frame("PyCFunc", None, 0, "/x/_ctypes.so"), frame("make", "/src/net.py", 31),
            frame("helper", "/src/test_net.py", 7), frame("test_it", "/src/test_net.py", 12),
            frame("pytest_pyfunc_call", "/x/pytest.py", 195)]))
        head = "64 bytes in 1 block (device memory, cuMemAlloc_v2, device 0) allocated at " \
            "make /src/net.py:31"
        self.assertEqual(leak.describe(within="/src/test_net.py"), [
            head + ", called from helper /src/test_net.py:7", "    #0 PyCFunc /x/_ctypes.so",
            "    #1 make /src/net.py:31", "    #2 helper /src/test_net.py:7",
            "    #3 test_it /src/test_net.py:12", "    #4 pytest_pyfunc_call /x/pytest.py:195"])
        self.assertEqual(leak.describe(1, within="/src/other.py"),
                         [head, "    #0-#0 1 frame of _ctypes.so", "    #1 make /src/net.py:31",
                          "    #2-#4 3 frames of test_net.py, pytest.py"])


@unittest.skipUnless(ACTIVE, "of preloaded processes")
class Check(unittest.TestCase):
    def leak(self, size, how=helper.allocate):
        address = how(size)
        self.addCleanup(helper.free, address)

    def test_clean(self):
        with gpuleak.check() as check:
            helper.free(helper.allocate(100))
        self.assertEqual((check.judgement.failed, check.judgement.blocks), (False, 0))

    def test_leak(self):
        with self.assertRaises(gpuleak.GpuLeakError) as caught:
            with gpuleak.check():
                self.leak(4096)
                self.leak(3 * KIB, helper.other)
                self.leak(3 * KIB, helper.other)
        error = caught.exception
        self.assertEqual((error.bytes, error.blocks, error.max_bytes), (10240, 3, 0))
        # Stacks differ below, where one function of this file calls twice.
        self.assertEqual({leak.place for leak in error.leaks},
                         {helper.place("allocate"), helper.place("other")})
        lines = str(error).split("\n")
        self.assertEqual(lines[0], "the checked block leaked 10,240 bytes (10.0 KiB) in 3 blocks, "
                         "allowed is 0 bytes")
        self.assertIn("  4,096 bytes (4.0 KiB) in 1 block (device memory, cuMemAlloc_v2, device 0) "
                      "allocated at " + helper.place("allocate"), lines)
        self.assertIsInstance(error, AssertionError)

    def test_limit(self):
        with gpuleak.check("4 KiB"):
            self.leak(4096)
        with self.assertRaisesRegex(gpuleak.GpuLeakError, r"allowed is 4,096 bytes \(4.0 KiB\)"):
            with gpuleak.check("4 KiB"):
                self.leak(4097)

    def test_per_location(self):
        with gpuleak.check(600, per_location=True):
            self.leak(500)
            self.leak(500, helper.other)
        with self.assertRaises(gpuleak.GpuLeakError) as caught:
            with gpuleak.check(600, per_location=True):
                self.leak(500)
                self.leak(700, helper.other)
        self.assertEqual([leak.bytes for leak in caught.exception.leaks], [700])

    def test_filter(self):
        seen = []

        def not_ours(stack):
            seen.append(stack)
            return all(frame.function != "helper_other" for frame in stack.frames)

        with gpuleak.check(filter_fn=not_ours):
            self.leak(10, helper.other)
        self.assertEqual(len(seen), 1)
        with self.assertRaisesRegex(gpuleak.GpuLeakError, "leaked 20 bytes in 1 block"):
            with gpuleak.check(filter_fn=not_ours):
                self.leak(10, helper.other)
                self.leak(20)

    def test_context_ends(self):
        for _ in range(2):  # the second check does not count what the first one found
            with self.assertRaises(gpuleak.GpuLeakError) as caught:
                with gpuleak.check():
                    helper.lose(300)
            self.assertEqual([(leak.bytes, leak.blocks, leak.place)
                              for leak in caught.exception.leaks],
                             [(300, 1, helper.place("lose"))])
            self.assertIn("allocated at %s, ended with its context at %s\n" % (
                helper.place("lose"), helper.place("end", "lose")), str(caught.exception))
        with gpuleak.check(300) as check:
            helper.lose(300)
        self.assertEqual((check.judgement.bytes, check.judgement.blocks), (300, 1))
        with gpuleak.check(current_thread_only=True):
            helper.lose(300)
        with gpuleak.check():
            with gpuleak.ignoring():
                helper.lose(300)

    def test_garbage(self):
        with gpuleak.check():
            buffer = helper.Buffer(100)
            buffer.cycle = buffer  # only the collector frees it
            del buffer

    def test_caches(self):
        kept = []
        pool = types.SimpleNamespace(free_all_blocks=lambda: [helper.free(kept.pop())
                                                              for _ in list(kept)])
        nothing = types.SimpleNamespace(free_all_blocks=lambda: None)
        sys.modules["cupy"] = types.SimpleNamespace(
            get_default_memory_pool=lambda: pool,
            get_default_pinned_memory_pool=lambda: nothing)
        self.addCleanup(sys.modules.pop, "cupy")
        with gpuleak.check():
            kept.append(helper.allocate(100))
        self.assertEqual(kept, [])
        with self.assertRaises(gpuleak.GpuLeakError):
            with gpuleak.check(caches=False):
                kept.append(helper.allocate(100))
        gpuleak.empty_caches()

    def test_threads(self):
        def in_thread():
            thread = threading.Thread(target=self.leak, args=(100,))
            thread.start()
            thread.join()

        with gpuleak.check(current_thread_only=True):
            in_thread()
        with self.assertRaises(gpuleak.GpuLeakError):
            with gpuleak.check():
                in_thread()
        with self.assertRaises(gpuleak.GpuLeakError):
            with gpuleak.check(current_thread_only=True):
                self.leak(1)

    def test_exception_goes_before(self):
        with self.assertRaises(KeyError):
            with gpuleak.check():
                self.leak(100)
                raise KeyError

    def test_decorator(self):
        @gpuleak.check(50)
        def function(size):
            self.leak(size)

        function(50)
        with self.assertRaisesRegex(gpuleak.GpuLeakError, "leaked 51 bytes"):
            function(51)
        function(50)

    def test_nested(self):
        with self.assertRaisesRegex(gpuleak.GpuLeakError, "leaked 60 bytes in 2 blocks"):
            with gpuleak.check(55):
                self.leak(30)
                with gpuleak.check(30):
                    self.leak(30)

    def test_ignored(self):
        with gpuleak.check():
            with gpuleak.ignoring():
                self.leak(100)

    def test_no_command(self):
        path = gpuleak._library.path
        self.addCleanup(setattr, gpuleak._library, "path", path)
        gpuleak._library.path = lambda name: "/nowhere" if name == "gpuleak_ledger" else \
            "/bin/false"
        with self.assertRaisesRegex(gpuleak.GpuLeakError, "(?s)^the checked block leaked 5 bytes "
                                    "in 1 block, allowed is 0 bytes\n  .*/bin/false report: exit "
                                    "status 1"):
            with gpuleak.check():
                self.leak(5)


if __name__ == "__main__":
    unittest.main()
