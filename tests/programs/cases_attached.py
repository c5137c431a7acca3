# SPDX-License-Identifier: MIT
"""Recording that begins in a running process: attached.c opens the library and attaches itself.
TEST_ROUNDS in the environment is the number of rounds beside threads."""

import fcntl
import glob
import json
import mmap
import os
import re
import shutil
import struct
import subprocess
import time

from harness import Missing, SLOWER, TIMEOUT, compare
from stories import needs, one_line

ROUTES = ("linked", "looked_up", "by_driver", "read_only")


def attached(place, *what, ledger="ledger"):
    """The words that start the program, which attaches with the library of this build."""
    return [place.program("attached"), place.options.preload, place.file(ledger), *what]


def report_of(place, ledger, *flags):
    run = place.command("report", "--format", "json", *flags, ledger)
    compare("report", (0, ""), (run.status, run.stderr))
    return json.loads(run.stdout)


@needs("attached")
def each_way(place):
    """each way to the driver is recorded from the attachment to its end, and the words are restored"""
    run = place.run(attached(place, "routes"))
    compare("routes", (0, "done\n", ""), (run.status, run.stdout, run.stderr))
    report = report_of(place, place.file("ledger"))
    lines = marked("attached.c")
    compare("leaks", {(lines[way], 2000 + i) for i, way in enumerate(ROUTES)},
            {(leak["stack"][0]["line"], leak["bytes"]) for leak in report["kept"]})
    compare("frees of blocks from before are no errors", ([], 4),
            (report["errors"], report["summary"]["allocated_blocks"]))
    compare("the process goes on", "running", report["process"]["ended"])


@needs("attached")
def limited(place):
    """attached where the kernel refuses the child that changes words: the report states what was not
    changed, or not changed back, and a gate fails for missing calls only"""
    for when, ways, note in (
            ("attach", ("linked", "read_only"), "1 parts of memory could not be read or changed by the attachment"),
            ("detach", ROUTES, "1 parts of memory could not be changed back")):
        run = place.run(attached(place, "limited", when, ledger=when))
        compare(when, (0, "done\n", ""), (run.status, run.stdout, run.stderr))
        report, lines = report_of(place, place.file(when)), marked("attached.c")
        compare("recorded", {lines[way] for way in ways},
                {kept["stack"][0]["line"] for kept in report["kept"]})
        compare("blocks", len(ways), report["summary"]["allocated_blocks"])
        compare("notes", [True], [text.startswith(note) for text in report["notes"]])
        run = place.command("check", place.file(when))
        compare("the gate names it", when == "attach",
                "was not recorded completely: " + note in run.stdout + run.stderr)


def marked(name):
    """The lines of the program NAME that have a marker, by marker."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return {line.split("@")[1].split()[0]: number for number, line in enumerate(file, 1)
                if "/* @" in line}


@needs("attached")
def modules(place):
    """attached: a large library that is bound lazily, its words and table, and one that is opened later"""
    paths = [os.path.join(place.options.programs, "attached_module_%s.so" % which) for which in "ab"]
    if shutil.which("readelf"):
        slots = place.run(["readelf", "-rdW", paths[0]]).stdout
        for wanted in (r"_JUMP_SLO\w* .* cuMemAlloc_v2\b", r"_GLOB_DAT .* cuMemAllocManaged\b"):
            compare(wanted, True, bool(re.search(wanted, slots)))
        compare("slots", True, slots.count("JUMP_SLO") > 2000)
        compare("bound lazily", False, "BIND_NOW" in slots)
    run = place.run(attached(place, "modules", *paths), {"LD_BIND_NOW": None})
    compare("modules", (0, "done\n", ""), (run.status, run.stdout, run.stderr))
    report, lines = report_of(place, place.file("ledger")), marked("attached_module.c")
    compare("kept", {(lines[way], bytes_ + i) for bytes_ in (2000, 3000)
                     for i, way in enumerate(("call", "address", "word", "table"))},
            {(kept["stack"][0]["line"], kept["bytes"]) for kept in report["kept"]})
    compare("allocated and freed", (9, 1), (report["summary"]["allocated_blocks"],
                                            report["summary"]["freed_blocks"]))


def beside_threads(compiler, *flags):
    """The story of a program that the compiler makes with FLAGS; without a compiler, of p_attached."""
    name = " ".join([os.path.basename(compiler), *flags]) if compiler else "this build"

    @needs("attached")
    def story(place):
        rounds = os.environ.get("TEST_ROUNDS", "10" if compiler else "100")
        program = compiled(place, compiler, *flags) if compiler else place.program("attached")
        process = place.start([program, place.options.preload, place.file("ledger-%p"), "rounds",
                               rounds], {"ASAN_OPTIONS": "detect_leaks=0"})
        out, said = process.communicate(timeout=TIMEOUT + int(rounds) * SLOWER)
        compare("rounds", (0, "done %s rounds, forked, opened, captured and unmapped\n" % rounds, ""),
                (process.returncode, out.decode(),
                 re.sub(r"^\d+ pairs, .*\n", "", said.decode())))
        print("# " + said.decode().strip())
        ledgers = [name for name in os.listdir(place.file("")) if name.startswith("ledger-")]
        compare("ledgers, and none of a forked child", int(rounds), len(ledgers))
        for ledger in ledgers[:3]:
            report = report_of(place, place.file(ledger))
            compare("no errors", [], report["errors"])
            compare("at least the four of the thread that attached", True,
                    report["summary"]["allocated_blocks"] >= 4)
    story.__doc__ = "attached and detached beside threads that allocate, launch, capture, fork and open " \
        "libraries: as bare (%s)" % name
    return story


def compiled(place, compiler, *flags):
    if not shutil.which(compiler):
        raise Missing("no " + compiler)
    run = place.run([compiler, *flags, "-g", os.path.join(os.path.dirname(__file__), "attached.c"),
                     "-o", place.file("program"), "-Wl,--no-as-needed", "-pthread", "-ldl",
                     os.path.join(place.options.standin, "libcuda.so.1")])
    if run.status:
        raise Missing("%s cannot make it: %s" % (compiler, run.stderr.strip().split("\n")[-1]))
    return place.file("program")


@needs("attached")
def many_names(place):
    """attached where 1,005 ledgers have the first names: the next name is taken"""
    for number in range(1005):
        open(place.file("ledger.%d" % number if number else "ledger"), "w").close()
    run = place.run(attached(place, "routes"))
    compare("routes", (0, "done\n"), (run.status, run.stdout))
    compare("blocks", 4, report_of(place, place.file("ledger.1005"))["summary"]["allocated_blocks"])


@needs("attached")
def recorded_already(place):
    """a process under a preload that records refuses an attachment"""
    run = place.run(attached(place, "routes"), {"LD_PRELOAD": place.options.preload})
    compare("a process that is recorded already refuses", 1, run.status)
    compare("its line", "failed: attach", one_line(run.stderr, "failed: "))


@needs("attached")
def ends_attached(place):
    """a process that ends while it is attached: its ledger has the end, the status and what was left"""
    for how, ended, status in (("return", "exit", 0), ("_exit", "_exit", 3)):
        run = place.run(attached(place, "ends", how, ledger=how))
        compare(how, (status, "", ""), (run.status, run.stdout, run.stderr))
        process = report_of(place, place.file(how))
        compare("the end of " + how, (ended, status, 3),
                (process["process"]["ended"], process["process"]["status"],
                 process["summary"]["kept_blocks"]))


class Page:
    """The page of a process that was started with GPULEAK_RECORD=off, see ledger/attach.h."""

    def __init__(self, place, pid):
        self.path = one(glob.glob(os.path.join(place.runtime, "**/gpuleak.%d.*.attach" % pid),
                                  recursive=True))
        with open(self.path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        compare("magic", b"gpuleakB", self.bytes[:8])
        self.number = 0

    def request(self, settings):
        self.number += 1
        self.bytes[32:32 + len(settings) + 1] = settings.encode() + b"\0"
        self.bytes[24:28] = struct.pack("I", self.number)

    def answer(self):
        until = time.monotonic() + TIMEOUT
        while struct.unpack("I", self.bytes[28:32])[0] != self.number:
            compare("an answer in time", True, time.monotonic() < until)
            time.sleep(0.01)
        return struct.unpack("i", self.bytes[12:16])[0]


def one(found):
    compare("one page", 1, len(found))
    return found[0]


def one_thread_again(pid):
    """Waits until gpuleak's thread has ended."""
    until = time.monotonic() + TIMEOUT
    while len(os.listdir("/proc/%d/task" % pid)) > 1:
        compare("the end in time", True, time.monotonic() < until)
        time.sleep(0.05)


@needs("attached")
def prepared(place):
    """GPULEAK_RECORD=off records nothing; a request in its page begins recording, twice, and it ends
    with the lock of the command"""
    process = place.start(attached(place, "prepared"), {
        "LD_PRELOAD": place.options.preload, "GPULEAK_RECORD": "off"}, stdin=subprocess.PIPE)

    def allocates(expected):
        compare("allocated", expected, int(process.stdout.readline()))

    def ask(expected):
        process.stdin.write(b"a")
        process.stdin.flush()
        allocates(expected)

    allocates(1000)
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
        compare("no child", "", file.read())
    compare("one thread", 1, len(os.listdir("/proc/%d/task" % process.pid)))
    page, bytes_ = Page(place, process.pid), 2000
    for ledger in ("one", "two"):
        folder = os.open(place.file(""), os.O_RDONLY | os.O_DIRECTORY)
        fcntl.fcntl(folder, fcntl.F_OFD_SETLK, struct.pack("hhqqixxxx", fcntl.F_RDLCK, 0, 0, 0, 0))
        page.request("GPULEAK_LEDGER=%s\nGPULEAK_REPORT=none\nGPULEAK_FOLDER=%s\n" % (
            place.file(ledger), place.file("")))
        ask(bytes_)
        compare("attach", 0, page.answer())
        time.sleep(1)  # the lock is looked at four times a second
        ask(bytes_ + 1000)
        os.close(folder)
        one_thread_again(process.pid)
        ask(bytes_ + 2000)
        # The first call of the first line executes the request, and is not recorded itself.
        compare(ledger, {bytes_ + 1000} | {2 * (bytes_ + i) + 1000 for i in (1, 2, 3)},
                {leak["bytes"] for leak in report_of(place, place.file(ledger))["kept"]})
        bytes_ += 3000
    process.stdin.close()
    compare("ends as bare", (0, b""), (process.wait(20), process.stderr.read()))
    compare("the page is removed", False, os.path.exists(page.path))


@needs("attached")
def stale_page(place):
    """GPULEAK_RECORD=off: the page of a killed process is removed by the next command, no other page"""
    pages = []
    for _ in range(2):
        process = place.start(attached(place, "prepared"), {
            "LD_PRELOAD": place.options.preload, "GPULEAK_RECORD": "off"}, stdin=subprocess.PIPE)
        process.stdout.readline()
        pages.append((process, Page(place, process.pid).path))
    pages[0][0].kill()
    pages[0][0].communicate()
    place.command("run", "--", "true")
    compare("pages", [False, True], [os.path.exists(path) for _, path in pages])
    pages[1][0].communicate()


@needs("attached")
def same_instructions(place):
    """a pair after the detachment executes as many instructions as before the attachment"""
    run = place.run(attached(place, "count"))
    compare("status", (0, ""), (run.status, run.stderr))
    before, during, after = map(int, run.stdout.split())
    compare("instructions after it", before, after)
    compare("more while it lasts", True, during > before > 100)


@needs("cl_pair")
def prepared_opencl(place):
    """GPULEAK_RECORD=off costs a pair of OpenCL the instructions of one stub more"""
    stub = 4 if os.uname().machine == "x86_64" else 9
    argv = [place.program("cl_pair")]
    bare, off = place.run(argv), place.preloaded(argv, {"GPULEAK_RECORD": "off"})
    compare("status", (0, 0, ""), (bare.status, off.status, off.stderr))
    compare("no more than %d more" % stub, True, 100 < int(bare.stdout) <= int(off.stdout)
            <= int(bare.stdout) + stub)


ATTACHED = [each_way, modules, beside_threads(None), beside_threads("clang"),
            beside_threads("gcc", "-fsanitize=address"),
            beside_threads("clang", "-fsanitize=address"), many_names, recorded_already, ends_attached,
            limited, prepared, stale_page,
            same_instructions, prepared_opencl]
