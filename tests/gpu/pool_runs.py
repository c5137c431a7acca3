#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs what pool.sh asks for, every program in turn by every way (bare, with the pool off, strict,
fast), and judges: results, reports, figures. Tables go to RESULTS/pool.txt, each run to
RESULTS/pool.jsonl, what went wrong with its output to RESULTS/pool.log. Status 1 if anything did.

    pool_runs.py RESULTS BUILD WORK PART
"""
import collections
import json
import os
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS, BUILD, WORK, PART = sys.argv[1:5]
LIBRARY = os.path.join(BUILD, "interpose", "libgpuleak.so")
COMMAND = os.path.join(BUILD, "tools", "gpuleak")
BENCH = os.path.join(BUILD, "tests", "bench")
PROGRAMS = os.path.join(HERE, "programs")
sys.path.insert(0, PROGRAMS)
sys.dont_write_bytecode = True
ROUNDS = int(os.environ.get("ROUNDS", "3"))
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

import timed # of PROGRAMS

Way = collections.namedtuple("Way", "name pool env")
BARE = Way("bare", None, {})
OFF, STRICT, FAST = (Way(mode, mode, {}) for mode in ("off", "strict", "fast"))
PLAIN = [Way(mode + ", no stacks", mode, {"GPULEAK_STACK_DEPTH": "0"}) for mode in ("strict", "fast")]
FRAMES = [Way(mode + ", 20 frames", mode, {"GPULEAK_STACK_DEPTH": "20"}) for mode in ("strict", "fast")]

DEVICE, BUFFER = ("CUDA", "device"), ("OpenCL", "cl-buffer") # pools

failures = []


def write(name, text):
    with open(os.path.join(RESULTS, name), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def say(text=""):
    print(text, flush=True)
    write("pool.txt", text)


def wrong(text, output=""):
    if text not in failures:
        say("WRONG: " + text)
    failures.append(text)
    if output:
        write("pool.log", "== %s: %s\n%s" % (PART, text, output))


def chosen(variable, name):
    """Whether VARIABLE, "one; other; ...", names it, or nothing."""
    only = [one.strip() for one in os.environ.get(variable, "").split(";") if one.strip()]
    return not only or name in only


def judge(text, good):
    say("%s: %s" % ("MET" if good else "NOT MET", text))
    if not good:
        failures.append(text)


class Run:
    """One run of a program: what it printed, what the report on it says."""

    def __init__(self, title, way, command, env=None, timeout=300):
        self.title, self.way = "%s, %s" % (title, way.name), way
        report = os.path.join(WORK, "report.json")
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GPULEAK_")}
        environ.update(env or {})
        if way.pool:
            environ.update(LD_PRELOAD=LIBRARY, GPULEAK_POOL=way.pool, GPULEAK_FORMAT="json", GPULEAK_REPORT=report)
            environ.update(way.env)
        if os.path.exists(report):
            os.unlink(report)
        try:
            done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=timeout,
                                  errors="replace", check=False)
            self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            self.status, self.out = "no end in %d s" % timeout, str(error.stdout or "")
            self.err = str(error.stderr or "")
        self.report = self.read(report)
        self.results = [json.loads(line) for line in self.out.splitlines() if line.startswith('{"what"')]
        self.result = self.results[-1] if self.results else {}
        self.pool = self.pool_of(*DEVICE)
        write("pool.jsonl", json.dumps({
            "part": PART, "title": title, "way": way.name, "status": self.status, "results": self.results,
            "pool": (self.report or {}).get("pool")}))

    @staticmethod
    def read(path):
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return None

    def pool_of(self, api, kind):
        pools = ((self.report or {}).get("pool") or {}).get("pools") or []
        return next((pool for pool in pools if pool["api"] == api and pool["kind"] == kind), {})

    def good(self, pooled=DEVICE):
        """It ended well, and the pool that was asked for was really there."""
        output = self.out[-4000:] + "\n" + self.err[-4000:]
        if self.status != 0:
            wrong("%s: exit %s" % (self.title, self.status), output)
            return False
        if self.way.pool and not self.report:
            wrong("%s: no report" % self.title, output)
            return False
        if self.way.pool in ("strict", "fast") and pooled:
            pool = self.pool_of(*pooled)
            if pool.get("mode") != self.way.pool or pool.get("turned_off") or not pool.get("hits"):
                wrong("%s: the pool was not in force: %s" % (self.title, json.dumps((self.report or {}).get("pool"))))
                return False
        return True


def table(head, rows):
    rows = [[str(cell) for cell in row] for row in [head] + rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        say("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
    say()


class Key:
    """Cells hold dicts, which no dict can have as keys."""

    def __init__(self, cell):
        self.cell = cell


def keys_of(cells):
    return [Key(cell) for cell in cells]


def in_turn(cells, rounds, run):
    """Every cell once a round, each second round backwards: {cell: [Run]}."""
    ret = {cell: [] for cell in cells}
    for number in range(rounds):
        for cell in cells if number % 2 == 0 else cells[::-1]:
            done = run(cell)
            if done:
                ret[cell].append(done)
    return ret


def median(runs, key):
    values = [run.result[key] for run in runs if key in run.result]
    return statistics.median(values) if values else None


def us(ns):
    return "-" if ns is None else "%.3f" % (ns / 1e3)


def size(count):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return "%g %s" % (count / unit, name)
    return "%d B" % count


# -- pairs ------------------------------------------------------------------------------------

PAIR_COLUMNS = [("bare", BARE, []), ("async", BARE, ["--async", "1"])]
PAIR_COLUMNS += [(way.name, way, []) for way in PLAIN]
PAIR_COLUMNS += [(way.name, way, ["--frames", "20"]) for way in FRAMES]


def pair_cells(rows, options):
    def run(cell):
        row, column = cell
        _, way, more = PAIR_COLUMNS[column]
        command = [os.path.join(BENCH, "pool-pair"), "pair", "--ms", "20"] + options(row) + more
        done = Run("pair %s" % (row,), way, command)
        return done if done.good() else None
    return in_turn([(row, column) for row in rows for column in range(len(PAIR_COLUMNS))], ROUNDS, run)


def pair_table(first, rows, runs, show, figure=lambda done: median(done, "ns")):
    values = {cell: figure(done) for cell, done in runs.items()}
    table([first] + [column[0] for column in PAIR_COLUMNS],
          [[show(row)] + [us(values[row, column]) for column in range(len(PAIR_COLUMNS))] for row in rows])
    return {(row, PAIR_COLUMNS[column][0]): value for (row, column), value in values.items()}


# Where others use the second half of a core, all ways take nearly twice as long for seconds.
def undisturbed(done):
    return min((run.result["ns_lowest"] for run in done), default=None)


def at_most(values, limit):
    values = list(values)
    return bool(values) and all(value is not None and value <= limit for value in values)


def pair():
    sizes = [512, 4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 256 * MIB, GIB]
    say("A pair of cuMemAlloc and cuMemFree, one thread, nothing else live, us (median of %d runs)" % ROUNDS)
    runs = pair_cells(sizes, lambda row: ["--bytes", str(row)])
    values = pair_table("bytes", sizes, runs, size)
    say("The shortest 20 ms of all runs, us")
    calm = pair_table("bytes", sizes, runs, size, undisturbed)
    judge("no stacks, fast: at most 0.10 us at any size, undisturbed", at_most((calm[s, "fast, no stacks"] for s in sizes), 100))
    judge("no stacks, fast: at most 0.10 us at any size, the median", at_most((values[s, "fast, no stacks"] for s in sizes), 100))
    judge("20 frames, fast: at most 0.40 us at any size", at_most((values[s, "fast, 20 frames"] for s in sizes), 400))
    try:
        found = subprocess.run([sys.executable, os.path.join(PROGRAMS, "cupy_pair.py")] + [str(s) for s in sizes],
                               capture_output=True, text=True, timeout=120, check=True).stdout
        say("CuPy's pool through Python, us: " + ", ".join("%s %s" % (size(one["bytes"]), us(one["ns"]))
                                                           for one in map(json.loads, found.splitlines())))
    except (OSError, subprocess.SubprocessError) as error:
        say("CuPy's pool: not measured (%s)" % type(error).__name__)
    say()
    threads = [1, 2, 4, 8, 16]
    say("The same of 64 KiB in several threads, one small block live, us per pair and thread")
    runs = pair_cells(threads, lambda row: ["--threads", str(row), "--kept", "1"])
    values = pair_table("threads", threads, runs, str)
    judge("16 threads, fast, no stacks: at most 0.5 us", at_most([values[16, "fast, no stacks"]], 500))
    judge("16 threads, fast, 20 frames: at most 0.5 us", at_most([values[16, "fast, 20 frames"]], 500))


# -- from one thread to another ----------------------------------------------------------------

def handed():
    rows = [(threads, kernel) for kernel in (0, 1) for threads in (1, 4)]
    columns = [("bare", BARE, []), ("async", BARE, ["--async", "1"])] + [(way.name, way, []) for way in PLAIN + FRAMES]
    say("64 KiB allocated by one thread and freed by another, up to 16 on their way, us per block (median of %d runs)" % ROUNDS)

    def run(cell):
        (threads, kernel), column = cell
        name, way, more = columns[column]
        done = Run("handed %d %d, %s" % (threads, kernel, name), way, [os.path.join(BENCH, "pool-pair"), "handed", "--threads",
                   str(threads), "--kernel", str(kernel)] + more)
        return done if done.good() else None

    runs = in_turn([(row, column) for row in rows for column in range(len(columns))], ROUNDS, run)
    values = {(row, columns[column][0]): median(done, "ns") for (row, column), done in runs.items()}
    table([""] + [name for name, _, _ in columns],
          [["%d times two threads%s" % (row[0], ", a kernel in each" if row[1] else "")] +
           [us(values[row, name]) for name, _, _ in columns] for row in rows])
    for row in rows:
        native, fast = values[row, "async"], values[row, "fast, no stacks"]
        judge("handed over, %d times two threads%s: fast no slower than cuMemAllocAsync" % (row[0], ", a kernel in each" if row[1] else ""),
              native is not None and fast is not None and fast <= native)


# -- behind a kernel --------------------------------------------------------------------------

def behind():
    say("Frees, and then allocations, while a 100 ms kernel runs on another stream, us (median of %d runs)" % ROUNDS)
    rows = [(one, 16, pause) for one in (64 * KIB, 4 * MIB, 256 * MIB) for pause in (0, 5)]
    columns = [("bare", BARE, []), ("async", BARE, ["--async", "1"]), ("off", OFF, []), ("strict", STRICT, []),
               ("fast", FAST, [])]

    def run(cell):
        (count_bytes, count, pause), column = cell
        _, way, more = columns[column]
        done = Run("behind %s" % size(count_bytes), way, [os.path.join(BENCH, "pool-pair"), "behind", "--bytes",
                   str(count_bytes), "--count", str(count), "--pause-ms", str(pause)] + more)
        if not done.good():
            return None
        if done.result["kernel_ran"] != done.result["rounds"]:
            wrong("%s: the kernel did not run when the frees began" % done.title)
        return done

    runs = in_turn([(row, column) for row in rows for column in range(len(columns))], ROUNDS, run)
    keys = ["first_free_us", "free_us", "free_us_most", "alloc_us", "alloc_us_most"]
    lines, at_once, slept, waited = [], [], [], 0
    for row in rows:
        for column, (name, _, _) in enumerate(columns):
            values = [median(runs[row, column], key) for key in keys]
            lines.append(["%s, %s%s" % (size(row[0]), name, ", after 5 ms of sleep" if row[2] else "")] +
                         ["-" if value is None else "%.2f" % value for value in values] +
                         [median(runs[row, column], "ran_after_frees")])
            if name in ("async", "fast") and row[2]:
                slept.append(values[0])
            if name == "fast":
                at_once += [values[1]] if row[2] else values[:2]
                waited += sum(run.result["rounds"] - run.result["ran_after_frees"] for run in runs[row, column])
    table(["", "first free", "frees", "longest", "allocations", "longest", "kernel still ran"], lines)
    judge("fast: a free behind a 100 ms kernel takes at most 2 us, the first after its launch, too", at_most(at_once, 2))
    judge("fast: the first of a thread that slept 5 ms takes at most 2 us", at_most(slept[1::2], 2))
    judge("fast: the first of a thread that slept 5 ms takes no longer than cuMemFreeAsync",
          None not in slept and all(fast <= native for native, fast in zip(slept[::2], slept[1::2])))
    judge("fast: no free waited for the kernel (%d of the rounds did)" % waited, not waited)


def churn():
    say("2,000 x (allocate 4 MiB, kernel, free), ms (median of %d runs)" % (3 * ROUNDS))
    programs = {"driver API": [os.path.join(BENCH, "pool-pair"), "churn"]}
    if os.path.exists(os.path.join(WORK, "churn")):
        programs["cudart"] = [os.path.join(WORK, "churn")]
    cells = [(program, way, ()) for program in programs for way in (BARE, OFF, STRICT, FAST)]
    cells.append(("driver API", Way("async", None, {}), ("--async", "1")))

    def run(cell):
        program, way, more = cell
        done = Run("churn, " + program, way, programs[program] + list(more))
        if not done.good():
            return None
        if not done.result:
            done.result = {"ms": float(done.out.split()[-1])}
        return done

    runs = in_turn(keys_of(cells), 3 * ROUNDS, lambda key: run(key.cell))
    values = {(key.cell[0], key.cell[1].name): median(done, "ms") for key, done in runs.items()}
    names = ["bare", "async", "off", "strict", "fast"]
    table([""] + names, [[program] + ["-" if values.get((program, name)) is None else "%.2f" % values[program, name]
                                      for name in names] for program in programs])
    for program in programs:
        bare, fast = values[program, "bare"], values[program, "fast"]
        judge("churn, %s: fast at least 5 times faster than bare (%s times)" % (
            program, "%.1f" % (bare / fast) if bare and fast else "?"), bool(bare and fast) and bare >= 5 * fast)


# -- RMM's patterns ---------------------------------------------------------------------------

PATTERN_SECONDS = {"bare": 4, "async": 4, None: 10} # the driver takes minutes for 100,000 blocks, and looks no better then

def pattern_columns():
    native = os.path.join(BENCH, "pool-patterns")
    ret = [("bare", BARE, [native, "native"]), ("async", BARE, [native, "async"])]
    ret += [(way.name, way, [native, "native"]) for way in PLAIN]
    ret += [("fast", FAST, [native, "native"])]
    ret += [("fast, slab", Way("fast, slab", "fast", {"GPULEAK_STACK_DEPTH": "0", "GPULEAK_POOL_SLAB": "16MiB"}), [native, "native"])]
    # What RMM's pools do as well: half of the device is taken beforehand, and requests are parts of it.
    ret += [("fast, prealloc", Way("fast, prealloc", "fast", {
        "GPULEAK_STACK_DEPTH": "0", "GPULEAK_POOL_PREALLOC": "50%", "GPULEAK_POOL_SLAB": "1"}), [native, "native"])]
    rmm = os.path.join(os.environ.get("RMM", ""), "pool_patterns_rmm")
    if os.access(rmm, os.X_OK):
        ret += [(name, BARE, [rmm, name]) for name in ("rmm-pool", "rmm-growing", "rmm-arena", "rmm-binning")]
    else:
        say("RMM is not here: set RMM to the folder of pool_patterns_rmm and its libraries")
    return [column for column in ret if chosen("PATTERN_COLUMNS", column[0])]


def device_bytes():
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                               capture_output=True, text=True, check=True).stdout
        return int(found.split()[0]) * MIB
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return 16 * GIB


def ratio(a, b):
    return "-" if not a or not b else "%.3f" % (a / b)


def pattern_runs(rows, columns):
    """ROWS: (name, [arguments]); each program once by each column, PATTERN_ROUNDS times."""
    keys = keys_of([(row, column) for row in rows for column in columns])

    def run(key):
        (name, arguments), (column, way, (program, allocator)) = key.cell
        done = Run("%s %s" % (name, allocator), way, [program] + arguments + [
            "--allocator", allocator, "--seconds", str(PATTERN_SECONDS.get(column, PATTERN_SECONDS[None]))])
        if not done.good():
            return None
        if done.result.get("left") and not done.result["stopped"] and not done.result["failed"]:
            wrong("%s: %d blocks were left by passes" % (done.title, done.result["left"]))
        return done

    done = in_turn(keys, int(os.environ.get("PATTERN_ROUNDS", "1")), run)
    return {(cell.cell[0][0], cell.cell[1][0]): runs for cell, runs in done.items()}


def pattern_table(title, rows, columns, runs, figure):
    say(title)
    lines = []
    for name, _ in rows:
        values = {column[0]: median(runs[name, column[0]], figure) for column in columns}
        late = {column[0]: any(run.result.get("stopped") for run in runs[name, column[0]]) for column in columns}
        lines.append([name] + ["-" if values[column[0]] is None else
                               "%.1f%s" % (values[column[0]], "*" if late[column[0]] else "") for column in columns])
    table([""] + [column[0] for column in columns], lines)


def ahead(rows, columns, runs, figure):
    """Of the driver, of its stream-ordered pool, and of RMM's pool, which has as much beforehand."""
    rivals = [column[0] for column in columns if column[0] in ("bare", "async", "rmm-pool")]
    behind_in = []
    for name, _ in rows:
        mine = median(runs.get((name, "fast, prealloc"), []), figure)
        values = {column: median(runs[name, column], figure) for column in rivals}
        others = [column for column, value in values.items() if value is None or mine is None or value < mine]
        behind_in += ["%s: %s" % (name, " ".join(others))] if others else []
    judge("fast, prealloc is ahead of %s in each%s" % (
        ", ".join(rivals), "".join("; not of " + one for one in behind_in)), rivals and not behind_in)


def reserved(run):
    """What the allocator had of the driver at the most; one without a pool: its blocks' own footprints."""
    return run.pool.get("peak_reserved_bytes") or run.result["peak_reserved"] or run.result["peak_footprint"]


def peaks(rows, columns, runs):
    say("Peak reserved over peak requested (bare: what the blocks themselves take)")
    lines, highest, beyond = [], 0, 0
    for name, _ in rows:
        done = [runs[name, column[0]][-1:] for column in columns]
        lines.append([name] + [ratio(reserved(one[0]), one[0].result["peak_requested"]) if one else "-" for one in done] +
                     [done[0][0].result["peak_live"] if done[0] else "-"])
        for run in runs.get((name, "fast, slab"), []):
            highest = max(highest, reserved(run) / run.result["peak_requested"])
            beyond = max(beyond, reserved(run) / run.result["peak_footprint"])
    table([""] + [column[0] for column in columns] + ["most live blocks"], lines)
    if "fast, slab" not in [column[0] for column in columns]:
        return
    judge("fast, slab: peak reserved over peak requested at most 1.13 (highest %.3f)" % highest, 0 < highest <= 1.13)
    judge("fast, slab: peak reserved over what the blocks take natively at most 1.13 (highest %.3f)" % beyond, 0 < beyond <= 1.13)


def watched(columns, maxima):
    say("What the device itself says was in use at the most (NVML), MiB, 10,000 allocations")
    lines = []
    for most in maxima:
        line = [size(most)]
        for column, way, (program, allocator) in columns:
            done = Run("watched " + size(most), way, [
                program, "random", "--n", "10000", "--max", str(most), "--watch", "1", "--allocator", allocator,
                "--seconds", str(PATTERN_SECONDS.get(column, PATTERN_SECONDS[None]))])
            good = done.good() and done.result.get("peak_device") is not None
            line.append("%d" % (done.result["peak_device"] // MIB) if good else "-")
        lines.append(line)
    table(["largest"] + [column[0] for column in columns], lines)


def pattern_tables(title, rows, columns):
    """As many passes as fit into RMM's own half a second, and what the first of them took."""
    rows = [(name, arguments + ["--pass-seconds", "0.5"]) for name, arguments in rows]
    runs = pattern_runs(rows, columns)
    pattern_table(title, rows, columns, runs, "ns")
    ahead(rows, columns, runs, "ns")
    pattern_table("The first pass alone: from nothing", rows, columns, runs, "first_ns")
    peaks(rows, columns, runs)


def patterns():
    os.environ.pop("STANDIN_ASYNC", None) # of the stand-in: its stream-ordered memory is scarce with it
    columns = pattern_columns()
    counts = [int(n) for n in os.environ.get("PATTERN_N", "1000 10000 100000").split()]
    maxima = [int(most) * MIB for most in os.environ.get("PATTERN_MAX", "1 4 64 256 1024 4096").split()]
    live = min(16000 * MIB, device_bytes() // 2)
    stopped = "(*: stopped after %d s, bare and async after %d s)" % (PATTERN_SECONDS[None], PATTERN_SECONDS["bare"])
    pattern_tables("Random allocations, ns per step, mean of all passes in half a second " + stopped, [
        ("random %d, to %s" % (n, size(most)), ["random", "--n", str(n), "--max", str(most), "--live", str(live)])
        for n in counts for most in maxima], columns)
    pattern_tables("Free one of N live blocks at random, allocate one, ns per step (a pair is two), mean of all passes", [
        ("%d live blocks" % n, ["steady", "--n", str(n), "--max", str(MIB), "--live", str(device_bytes() // 10 * 6)])
        for n in counts], columns)
    rows = [("%d streams%s" % (n, ", prewarmed" if warm else ""),
             ["streams", "--streams", str(n), "--prewarm", str(warm)]) for n in (1, 2, 4) for warm in (0, 1)]
    runs = pattern_runs(rows, columns)
    pattern_table("Four kernels of a million clocks with 8 bytes each, us", rows, columns, runs, "us")
    ahead(rows, columns, runs, "us")
    if os.environ.get("PATTERN_WATCH", "1") != "0":
        watched(columns, maxima)


# -- frameworks -------------------------------------------------------------------------------

def frames_of(stack):
    return tuple((frame["function"], os.path.basename(frame["file"] or frame["module"] or "?"), frame["line"])
                 for frame in stack)


def facts(report):
    """What must be the same with the pool on: each as something that can be compared."""
    processes = report.get("processes", [report])
    leaks, errors = collections.Counter(), collections.Counter()
    places, sums = collections.Counter(), collections.Counter()
    for process in processes:
        for leak in process["leaks"]:
            what = (leak["api"], leak["kind"], leak["device"])
            leaks[what] += leak["bytes"]
            leaks[what + ("blocks",)] += leak["blocks"]
            places[what + (leak["bytes"], leak["blocks"], frames_of(leak["stack"]))] += 1
        for error in process["errors"]:
            allocated = error["allocated"] or {"bytes": None, "stack": []}
            errors[error["type"], error["api"], error.get("result"), allocated["bytes"], frames_of(error["stack"]),
                   frames_of(allocated["stack"])] += 1
        for key in ("leaked_bytes", "leaked_blocks", "allocated_bytes", "allocated_blocks", "freed_blocks", "peak_bytes",
                    "with_context_blocks", "with_context_bytes", "errors"):
            sums[key] += process["summary"].get(key, 0)
    ret = {"leaks": leaks, "leaks with their stacks": places, "errors": errors}
    ret.update(sums)
    return ret


def same_reports(title, off, runs):
    """RUNS against those with the pool OFF; what varies among these too says nothing."""
    off = [facts(run.report) for run in off if run.report]
    if not off:
        return "no report with the pool off"
    varies = [key for key in off[0] if any(one[key] != off[0][key] for one in off[1:])]
    differ = set()
    for run in runs:
        mine = facts(run.report) if run.report else {}
        for key in off[0]:
            if key not in varies and mine.get(key) != off[0][key]:
                differ.add(key)
                write("pool.log", "== %s: %s\n%s\n-- pool off\n%s" % (run.title, key, mine.get(key), off[0][key]))
    if differ:
        wrong("%s: the report differs in %s" % (title, ", ".join(sorted(differ))))
    return ("DIFFERENT" if differ else "the same") + (" (varies anyway: %s)" % ", ".join(varies) if varies else "")


# one_thread: it allocates in one thread, for one stream
Framework = collections.namedtuple("Framework", "name command timed one_thread own none allocators")


def all_frameworks():
    python = sys.executable
    loops = os.environ.get("LOOPS", "9")
    all_of = [
        Framework("CuPy, 1,000 x (b = a*2; c = b+a)", [python, os.path.join(PROGRAMS, "cupy_loop.py")], True, True, "own pool", "none",
                  {"own pool": (["pool", loops], {}), "none": (["none", loops], {}), "stream-ordered": (["async", loops], {})}),
        Framework("PyTorch, 100 training steps", [python, os.path.join(PROGRAMS, "torch_steps.py")], True, False, "caching", "none",
                  {"caching": ([loops], {}), "none": ([loops], {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
                   "cudaMallocAsync": ([loops], {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})}),
        Framework("JAX", [python, os.path.join(PROGRAMS, "jax_run.py")], False, False, "preallocation", "none",
                  {"preallocation": ([], {"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": ".10"}),
                   "none": ([], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
                   "platform": ([], {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"})}),
    ]
    only = os.environ.get("FRAMEWORKS", "")
    return [framework for framework in all_of
            if not only or framework.name.split()[0].strip(",").lower() in only.lower()]


def frameworks():
    for framework in all_frameworks():
        one_framework(framework._replace(allocators={name: how for name, how in framework.allocators.items()
                                                     if chosen("ALLOCATORS", name)}))


def turns():
    for framework in all_frameworks():
        if framework.timed:
            own_against_none(framework, int(os.environ.get("TURNS", "10")))


def judge_none(framework, own, none):
    judge("%s: without its pool, with fast (%s ms), at least as fast as with its own (%s ms)" % (
        framework.name, none, own), own is not None and none is not None and none <= own)


Side = collections.namedtuple("Side", "title way allocator env")


def sides_of(framework):
    ret = [Side("%s, bare" % framework.own, BARE, framework.own, {}),
           Side("%s, fast" % framework.none, FAST, framework.none, {})]
    floor = os.path.join(WORK, "floor.so")
    if framework.one_thread and os.path.exists(floor):
        ret.append(Side("%s, floor" % framework.none, BARE, framework.none, {"LD_PRELOAD": floor}))
    return ret


def against(side, mine, spun, other, theirs, their_spun):
    """By turns; all of them, and those in which nothing else slowed the core down."""
    calm = 1.15 * min(spun + their_spun)
    ratios = sorted(one / another for one, another in zip(mine, theirs))
    undisturbed = [one / another for one, another, spin, their in zip(mine, theirs, spun, their_spun)
                   if max(spin, their) <= calm]
    say("%s / %s, by turns: median %.3f, %.3f to %.3f, at most 1 in %d of %d; undisturbed: %s" % (
        side.title, other.title, statistics.median(ratios), ratios[0], ratios[-1],
        sum(ratio <= 1 for ratio in ratios), len(ratios),
        "median %.3f of %d" % (statistics.median(undisturbed), len(undisturbed)) if undisturbed else "none"))


def own_against_none(framework, count):
    """What is the faster changes with the host from second to second: many short turns, one right
    after the other, and what the core did meanwhile beside each. floor: see programs/floor.c."""
    sides = sides_of(framework)
    ms, spins = [[] for _ in sides], [[] for _ in sides]
    for turn in range(count):
        for number in range(len(sides)):
            number = (number + turn) % len(sides)
            side = sides[number]
            more, env = framework.allocators[side.allocator]
            done = Run("%s, turn %d" % (framework.name, turn + 1), side.way, framework.command + more, {**env, **side.env})
            if not done.good(pooled=DEVICE if side.way is FAST else None):
                return
            ms[number].append(float(done.out.split()[-1]))
            spins[number].append(timed.spin_said(done.err))
    say("%s, ms (each the median of %s loops), and of a loop of Python between them" % (
        framework.name, os.environ.get("LOOPS", "9")))
    columns = [column for pair in zip(ms, spins) for column in pair]
    lines = [[turn + 1] + ["%.2f" % column[turn] for column in columns] for turn in range(count)]
    lines += [[what] + ["%.2f" % of(column) for column in columns]
              for what, of in (("median", statistics.median), ("least", min))]
    table(["turn"] + [title for side in sides for title in (side.title, "Python")], lines)
    for side, mine, spun in list(zip(sides, ms, spins))[1:]:
        against(side, mine, spun, sides[0], ms[0], spins[0])
    judge_none(framework, *(round(statistics.median(side), 3) for side in ms[:2]))


def one_framework(framework):
    cells = keys_of([(allocator, way) for allocator in framework.allocators for way in (BARE, OFF, STRICT, FAST)])

    def run(key):
        allocator, way = key.cell
        more, env = framework.allocators[allocator]
        done = Run("%s, %s" % (framework.name, allocator), way, framework.command + more, env)
        # Nothing need pass through a pool of the driver's memory where the framework has its own.
        if not done.good(pooled=DEVICE if allocator == framework.none and framework.timed else None):
            return None
        lines = done.out.split("\n")
        done.answer = [line for line in lines[:-2] if line] if framework.timed else done.out.split()
        if framework.timed:
            done.result = {"ms": float(done.out.split()[-1])}
        return done

    rounds = max(2, ROUNDS) # the reports of two runs with the pool off tell what varies anyway
    runs = {(key.cell[0], key.cell[1].name): done for key, done in in_turn(cells, rounds, run).items()}
    say(framework.name + (", ms (median of %d runs)" % rounds if framework.timed else ""))
    lines = []
    for allocator in framework.allocators:
        mine = [runs[allocator, way.name] for way in (BARE, OFF, STRICT, FAST)]
        bare = {tuple(run.answer) for run in mine[0]}
        answers = {tuple(run.answer) for done in mine for run in done}
        if not bare or answers - bare:
            wrong("%s, %s: other results: bare %s, with gpuleak %s" % (
                framework.name, allocator, sorted(bare), sorted(answers - bare)))
        same = same_reports("%s, %s" % (framework.name, allocator), mine[1], mine[2] + mine[3])
        hits = ", ".join(str(run.pool.get("hits", "-")) for run in mine[3][-1:])
        times = ["-" if median(done, "ms") is None else "%.2f" % median(done, "ms") for done in mine]
        lines.append([allocator] + times + ["the same" if bare and not answers - bare else "DIFFERENT", same, hits or "-"])
    table(["allocator", "bare", "off", "strict", "fast", "results", "reports", "hits of fast"], lines)
    if framework.timed and {framework.own, framework.none} <= set(framework.allocators):
        own, none = median(runs[framework.own, "bare"], "ms"), median(runs[framework.none, "fast"], "ms")
        judge_none(framework, own, none)


# -- two processes, two GPUs, OpenCL, torture -------------------------------------------------

def ipc():
    say("Two processes, one exporting blocks that a pool may have used before")
    lines = []
    for way in (BARE, OFF, STRICT, FAST):
        done = Run("pool_ipc", way, [os.path.join(WORK, "pool_ipc"), "40"], timeout=120)
        done.good(pooled=None) # two processes, one report's name
        lines.append([way.name, done.status, done.out.strip() or done.err.strip()[-200:]])
    table(["", "exit", "it says"], lines)
    if not os.path.exists(os.path.join(WORK, "ipc")):
        say("ipc.cu: not built here")
        return
    for way in (OFF, STRICT, FAST):
        names = [os.path.join(WORK, "ipc-%s-%s" % (way.name, role)) for role in ("importer", "exporter")]
        env = dict(os.environ, IPC_ROLE="importer", LD_PRELOAD=LIBRARY, GPULEAK_POOL=way.pool, GPULEAK_FORMAT="json",
                   GPULEAK_REPORT=os.path.join(WORK, "ipc-%s-%%q{IPC_ROLE}.json" % way.name))
        with open(names[0] + ".out", "w", encoding="utf-8") as out, open(names[1] + ".out", "w", encoding="utf-8") as err:
            status = subprocess.run([os.path.join(WORK, "ipc")], env=env, stdout=out, stderr=err, timeout=120,
                                    check=False).returncode
        files = [name + end for name in names for end in (".json", ".out")]
        told = subprocess.run([os.path.join(HERE, "expect.py")] + files, capture_output=True, text=True, check=False)
        say("ipc.cu, %s: exit %d; %s" % (way.name, status, "; ".join(told.stdout.split("\n"))))
        if status or told.returncode:
            wrong("ipc.cu, %s" % way.name, told.stdout + told.stderr)


def hits_of(report):
    """Over all processes of a report."""
    pools = [pool for process in (report or {}).get("processes", [report or {}])
             for pool in (process.get("pool") or {}).get("pools") or []]
    return sum(pool["hits"] for pool in pools)


def run_two(name, way, command, env):
    """By the command, which reports over all processes together: (status, output, report's path)."""
    report = os.path.join(WORK, "two.json")
    if os.path.exists(report):
        os.unlink(report)
    under = [COMMAND, "run", "--pool", way.pool, "--format", "json", "--report", report, "--"]
    try:
        done = subprocess.run(under + command, env=dict(os.environ, NCCL_NVLS_ENABLE="0", **env), capture_output=True,
                              text=True, timeout=150, check=False)
        status, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        status, out, err = "no end in 150 s", str(error.stdout), str(error.stderr)
    if status != 0:
        wrong("%s, %s: exit %s" % (name, way.name, status), out + err)
    return status, out, report


def nccl():
    say("All-reduce over two GPUs through PyTorch and NCCL; two devices with peer access")
    script = [sys.executable, os.path.join(PROGRAMS, "nccl.py")]
    programs = {"nccl, caching": (script, {}, True),
                "nccl, no caching": (script, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, False)}
    if os.path.exists(os.path.join(WORK, "peer")):
        programs["peer"] = ([os.path.join(WORK, "peer")], {}, True)
    lines = []
    for name, (command, env, compared) in programs.items():
        for way in (OFF, STRICT, FAST):
            status, out, report = run_two(name, way, command, env)
            told, hits = "", hits_of(Run.read(report))
            if compared and status == 0:
                with open(os.path.join(WORK, "two.out"), "w", encoding="utf-8") as file:
                    file.write(out)
                judged = subprocess.run([os.path.join(HERE, "figures.py"), report, os.path.join(WORK, "two.out")],
                                        capture_output=True, text=True, check=False)
                told = "; ".join(judged.stdout.strip().split("\n"))
                if judged.returncode:
                    wrong("%s, %s: %s" % (name, way.name, told), judged.stderr)
            if not compared and way.pool != "off" and not hits:
                wrong("%s, %s: the pool served nothing" % (name, way.name))
            lines.append(["%s, %s" % (name, way.name), status, hits, told])
    table(["", "exit", "hits", "figures"], lines)


def opencl():
    stories = {"p_cl_leak five": ["tests/programs/p_cl_leak", "five"], "p_cl_leak clean": ["tests/programs/p_cl_leak", "clean"],
               "p_cl_leak svm": ["tests/programs/p_cl_leak", "svm"], "cl-memory": ["tests/opencl/cl-memory", "work"]}
    for platform in [one for one in os.environ.get("PLATFORMS", "").split() if one]:
        env = {"OCL_ICD_VENDORS": os.path.join(WORK, "icd-" + platform)}
        say("OpenCL of %s" % platform)
        lines = []
        for name, (program, story) in stories.items():
            if not os.path.exists(os.path.join(BUILD, program)):
                continue
            runs = [Run("%s, %s" % (platform, name), way, [os.path.join(BUILD, program), story], env, 120)
                    for way in (BARE, OFF, OFF, STRICT, FAST)]
            if any(run.status != runs[0].status or run.out != runs[0].out for run in runs):
                wrong("%s, %s: other results: exits %s" % (platform, name, [run.status for run in runs]),
                      "\n".join(run.title + "\n" + run.out + run.err[-1000:] for run in runs))
            same = same_reports("%s, %s" % (platform, name), runs[1:3], runs[3:])
            lines.append([name] + [run.status for run in runs] + [same])
        table(["exit", "bare", "off", "off", "strict", "fast", "reports"], lines)
        say("ns (median of %d runs)" % ROUNDS)
        lines = []
        for what in ("pair", "handed", "shared", "argument", "enqueue", "event"):
            line, pooled = [what], BUFFER if what in ("pair", "handed", "shared") else None
            for way in (BARE, OFF, STRICT, FAST):
                runs = [Run("%s, bench-cl-pair %s" % (platform, what), way, [os.path.join(BENCH, "bench-cl-pair"), what, "20000"],
                            env, 120) for _ in range(ROUNDS)]
                values = [float(run.out.split()[-1]) for run in runs if run.good(pooled) and run.out.split()]
                line.append("%.0f" % statistics.median(values) if values else "-")
            lines.append(line)
        table(["", "bare", "off", "strict", "fast"], lines)


def torture():
    seconds = os.environ.get("SECONDS_EACH", "40")
    program = os.path.join(BUILD, "tests", "torture", "torture")
    devices = len([one for one in os.environ.get("DEVICES", "1").split()])
    ways = [(BARE, []), (OFF, []), (STRICT, []), (FAST, []),
            (Way("strict, slabs", "strict", {"GPULEAK_POOL_SLAB": "1"}), []),
            (Way("fast, slabs", "fast", {"GPULEAK_POOL_SLAB": "1"}), []),
            (Way("fast, limit", "fast", {"GPULEAK_LIMIT": "192MiB"}), ["--may-fail"]),
            (Way("strict, failures", "strict", {"GPULEAK_FAIL_AT": "300+"}), ["--may-fail"]),
            (Way("fast, small cache", "fast", {"GPULEAK_POOL_CACHE": "8MiB", "GPULEAK_POOL_DECAY": "1"}), []),
            (Way("fast, prealloc", "fast", {"GPULEAK_POOL_PREALLOC": "1GiB"}), [])]
    say("Torture, %s s each" % seconds)
    lines = []
    for number, (way, more) in enumerate(ways):
        done = Run("torture", way, [program, "--seconds", seconds, "--seed", str(1000 + number), "--devices",
                                    str(max(1, devices))] + more, timeout=int(seconds) + 120)
        done.good()
        last = done.out.strip().split("\n")[-1]
        lines.append([way.name, done.status, done.pool.get("hits", "-"), done.pool.get("tickets", "-"),
                      done.pool.get("waits", "-"), last[:150]])
    table(["", "exit", "hits", "tickets", "waits", "it says"], lines)


PARTS = {"pair": pair, "handed": handed, "behind": behind, "churn": churn, "patterns": patterns, "frameworks": frameworks, "turns": turns, "ipc": ipc,
         "nccl": nccl, "opencl": opencl, "torture": torture}


def main():
    if PART not in PARTS:
        print("parts: " + " ".join(PARTS), file=sys.stderr)
        return 2
    os.environ.pop("LD_PRELOAD", None)
    say("== " + PART)
    PARTS[PART]()
    say("%s: %s" % (PART, "%d wrong or not met" % len(failures) if failures else "all good"))
    say()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
