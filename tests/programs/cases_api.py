# SPDX-License-Identifier: MIT
"""What gpuleak.h promises of marks and blocks. The exact counts stand here; who allocates what
is in api.c and cl_api.c."""

import json
import os
import signal

from harness import compare

PROGRAM = "api"


def story(place, name, report="none", program=PROGRAM, **env):
    """stdout in lines of the story NAME, which must end with 0 and say nothing on stderr."""
    run = place.preloaded([place.program(program), name], {"GPULEAK_REPORT": report, **env})
    compare("status, stderr", (0, ""), (run.status, run.stderr))
    return run.stdout.split("\n")[:-1]


def absent(place):
    """api: nothing is there without gpuleak, everything with it"""
    run = place.run([place.program(PROGRAM), "absent"])
    compare("without gpuleak", (0, "linked 0, looked up 0\n"), (run.status, run.stdout))
    compare("with it", ["linked 1, looked up 9"], story(place, "absent"))
    place.nothing_left()


def marks(place):
    """api: what is live since a mark, of a kind, of a thread"""
    compare("sums", [
        "no call: 0 blocks 0 bytes, ignored 0 0, live 0",
        "in order: 1",
        "before all: 3 blocks 5296 bytes, ignored 0 0, live 5296",
        "first: 2 blocks 4296 bytes, ignored 0 0, live 5296",
        "second: 1 blocks 4096 bytes, ignored 0 0, live 5296",
        "device: 1 blocks 200 bytes, ignored 0 0, live 5296",
        "pinned: 1 blocks 4096 bytes, ignored 0 0, live 5296",
        "other kind: 0 blocks 0 bytes, ignored 0 0, live 5296",
        "this thread: 2 blocks 4296 bytes, ignored 0 0, live 5296",
        "other thread: 0 blocks 0 bytes, ignored 0 0, live 5296",
        "freed: 1 blocks 4096 bytes, ignored 0 0, live 5096",
        "older freed: 1 blocks 4096 bytes, ignored 0 0, live 4096",
        "all freed: 0 blocks 0 bytes, ignored 0 0, live 0",
        "ever: 0 blocks 0 bytes, ignored 0 0, live 0",
        "now: 0 blocks 0 bytes, ignored 0 0, live 0",
    ], story(place, "marks"))


def race(place):
    """api: a thread's own blocks are exact while eight allocate and another sets marks"""
    compare("wrong sums", ["wrong 0"], story(place, "race"))


def ages(place):
    """api: what is newer than a mark is exact while all that is older is freed"""
    compare("wrong sums", ["wrong 0"], story(place, "ages"))


def pooled(place):
    """api: marks and races with the pool"""
    for mode in ("strict", "fast"):
        for name in ("race", "ages"):
            compare("%s, %s" % (mode, name), ["wrong 0"],
                    story(place, name, GPULEAK_POOL=mode))


def who(place):
    """api: whose address: linear memory and inside it, pinned, registered, arrays, virtual memory"""
    compare("blocks", [
        "nothing yet: No such file or directory",
        "begin: cuMemAlloc_v2 device 4194304 of 4194304 at +0 device 0 flags 0",
        "inside: cuMemAlloc_v2 device 4194304 of 4194304 at +12345 device 0 flags 2",
        "last: cuMemAlloc_v2 device 4194304 of 4194304 at +4194303 device 0 flags 2",
        "small: cuMemAlloc_v2 device 100 of 100 at +99 device 0 flags 2",
        "behind: No such file or directory",
        "pinned: cuMemHostAlloc pinned 4096 of 4096 at +1 device 0 flags 2",
        "registered: cuMemHostRegister_v2 registered 8192 of 8192 at +8000 device 0 flags 2",
        "array: cuArrayCreate_v2 array 16384 of 16384 at +0 device 0 flags 0",
        "handle: cuMemCreate vmm-handle 2097152 of 2097152 at +0 device 0 flags 0",
        "reserved: cuMemAddressReserve vmm-reservation 0 of 4194304 at +5 device -1 flags 2",
        "mapped: cuMemMap vmm-mapping 0 of 2097152 at +5 device 0 flags 2",
        "reserved behind: cuMemAddressReserve vmm-reservation 0 of 4194304 at +2097152 device -1 "
        "flags 2",
        "freed: No such file or directory",
        "null: No such file or directory",
    ], story(place, "who"))


def stack(place):
    """api: return addresses of a block go through the program's own code"""
    compare("stack", ["ours 1, since the earlier mark 1, since the later 0, dated 1",
                      "no room: 1 1"], story(place, "stack"))


def ignored(place):
    """api: ignored blocks are suppressed in the report, and in no sum of leaks"""
    compare("told", [
        "scopes: 4 blocks 4208 bytes, ignored 2 768, live 4976",
        "ignored: 0 0 -1 No such file or directory",
        "blocks: 2 blocks 4160 bytes, ignored 4 816, live 4976",
        "told: cuMemAlloc_v2 device 16 of 16 at +0 device 0 flags 1",
        "again: 3 blocks 4192 bytes, ignored 3 784, live 4976",
    ], story(place, "ignore", report=place.file("report"), GPULEAK_FORMAT="json"))
    report = json.loads(place.read("report"))
    summary = report["summary"]
    compare("summary", (7, 1, 3, 4192, 3, 784),
            tuple(summary[key] for key in ("allocated_blocks", "freed_blocks", "leaked_blocks",
                                           "leaked_bytes", "suppressed_blocks",
                                           "suppressed_bytes")))
    compare("ignored", [(512, 1), (256, 1), (16, 1)],
            [(leak["bytes"], leak["blocks"]) for leak in report["suppressed"]])
    compare("why", {("gpuleak_ignore()", True)},
            {(leak["pattern"], leak.get("ignored")) for leak in report["suppressed"]})
    # One line of the program, one block of which is ignored: 16 of it above, 64 here.
    compare("leaks", [4096, 64, 32], [leak["bytes"] for leak in report["leaks"]])
    compare("not ignored", {None}, {leak.get("ignored") for leak in report["leaks"]})


def ignored_text(place):
    """api: the text report names what the program ignores; the gate passes over it"""
    story(place, "ignore", report=place.file("report"))
    compare("table", ["Suppressions used:", "    blocks                bytes  pattern",
                      "         3                  784  gpuleak_ignore()"],
            place.read("report").split("\n")[-4:-1])
    rules = place.write("rules", "leak:allocate\n")
    run = place.command("run", "--gate", "--suppressions", rules, "--",
                        place.program(PROGRAM), "ignore")
    compare("gate", 0, run.status)
    compare("both in the table", ["         3                  784  gpuleak_ignore()",
                                  "         3                4,192  allocate"],
            run.stderr.split("\n")[-3:-1])
    compare("the verdict is first", "gpuleak: gate passed: ", run.stderr[:22])


def peak(place):
    """api: the peak since it was last asked for"""
    compare("peaks", ["no call: 0 0", "all: 0 6000", "all again: 0 6000", "restarted: 0 1000",
                      "small: 0 1300", "smaller: 0 1300", "freed: 0 1000", "nothing: 0 0"],
            story(place, "peak", report=place.file("report"), GPULEAK_FORMAT="json"))
    compare("the report's own", 6000, json.loads(place.read("report"))["summary"]["peak_bytes"])


def signals(place):
    """api: a signal handler may set marks and ask"""
    compare("storm", ["handled 1, all answered 1, wrong 0, left 0"],
            story(place, "signals", report=place.file("report"), GPULEAK_FORMAT="json"))
    compare("nothing went unrecorded", [], json.loads(place.read("report"))["notes"])


def forked(place):
    """api: a mark of before a fork"""
    compare("both", ["child: 1 blocks 77 bytes, ignored 0 0, live 77",
                     "parent: 0 blocks 0 bytes, ignored 0 0, live 0"], story(place, "fork"))


def sizes(place):
    """api: structs of other versions, and none"""
    compare("answers", ["no struct: Invalid argument", "first struct: ok",
                        "older struct: Invalid argument",
                        "size not set: Invalid argument", "nowhere: Invalid argument",
                        "later struct: ok", "1 1"], story(place, "sizes"))


def paths(place):
    """api: where the ledger is, and the command that reads it"""
    compare("paths", ["no call: No data available", "no room: Numerical result out of range",
                      "0 0"], story(place, "paths"))


def from_outside(place):
    """api: gpuleak report --since, --thread, --address of a living process"""
    process = place.start([place.program(PROGRAM), "wait"],
                          {"LD_PRELOAD": place.options.preload, "GPULEAK_REPORT": "none"},
                          stdin=-1)
    try:
        mark, older, inside, thread = process.stdout.readline().decode().split()

        def told(*flags):
            run = place.command("report", str(process.pid), "--format", "json", *flags)
            compare("status", 0, run.status)
            report = json.loads(run.stdout)
            summary = report["summary"]
            return ([leak["bytes"] for leak in report["leaks"]], summary["leaked_bytes"],
                    summary.get("left_out_blocks", 0), summary["freed_blocks"])

        compare("all", ([3000, 500], 3500, 0, 0), told())
        compare("since", ([500], 500, 1, 0), told("--since", mark))
        compare("since later", ([], 0, 2, 0), told("--since=99"))
        compare("thread", ([3000, 500], 3500, 0, 0), told("--thread", thread))
        compare("no thread", ([], 0, 2, 0), told("--thread", "1"))
        compare("address", ([3000], 3000, 1, 0), told("--address", older))
        compare("inside", ([500], 500, 1, 0), told("--address", inside))
        compare("all three", ([], 0, 2, 0),
                told("--address", older, "--since", mark, "--thread", thread))
        report = json.loads(place.command("report", str(process.pid), "--format", "json",
                                          "--addresses").stdout)
        (first,), (second,) = (leak["addresses"] for leak in report["leaks"])
        compare("addresses", (int(older, 0), True),
                (int(first, 16), 0 <= int(inside, 0) - int(second, 16) < 500))
        text = place.command("report", str(process.pid), "--since", mark).stdout
        compare("in words", True, ", 0 freed, 1 not selected, 1 not freed so far" in text)
    finally:
        process.communicate(b"\n", timeout=180)
    compare("status", 0, process.returncode)


def bad_flags(place):
    """api: gpuleak report with a mark, a thread, an address that are none"""
    for flag, value, expected in (
            ("--since", "-1", "a number that gpuleak_mark() returned"),
            ("--since", "0", "a number that gpuleak_mark() returned"),
            ("--since", "18446744073709551616", "a number that gpuleak_mark() returned"),
            ("--thread", "main", "the number of a thread, as gettid() says"),
            ("--thread", "4294967296", "the number of a thread, as gettid() says"),
            ("--address", "0x", "an address or a handle: 0x7f1200000000"),
            ("--address", "12q", "an address or a handle: 0x7f1200000000")):
        run = place.command("report", "%s=%s" % (flag, value), "x")
        compare("%s %s" % (flag, value), (2, "gpuleak: report: bad value '%s' of %s: expected is "
                                          "%s\n" % (value, flag, expected)),
                (run.status, run.stderr))
    run = place.command("report", "x", "--since")
    compare("none", (2, "gpuleak: report: --since needs a value: a number that gpuleak_mark() "
                     "returned\n"), (run.status, run.stderr))


def killed(place):
    """api: what is ignored stays so in the ledger of a killed process, and in the short report"""
    ledger = place.file("ledger")
    process = place.start([place.program(PROGRAM), "wait"],
                          {"LD_PRELOAD": place.options.preload, "GPULEAK_LEDGER": ledger},
                          stdin=-1)
    mark = process.stdout.readline().decode().split()[0]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    report = json.loads(place.command("report", ledger, "--format", "json", "--since",
                                      mark).stdout)
    compare("since", [500], [leak["bytes"] for leak in report["leaks"]])
    # No command beside the library: the library itself tells, and leaves out what is ignored.
    os.mkdir(place.file("alone"))
    library = os.path.join(place.file("alone"), "libgpuleak.so")
    with open(place.options.preload, "rb") as source, open(library, "wb") as copy:
        copy.write(source.read())
    run = place.run([place.program(PROGRAM), "ignore"], {"LD_PRELOAD": library})
    compare("short form", "gpuleak: 3 blocks, 4192 bytes never freed, 0 invalid frees",
            run.stderr.split("\n")[0])


def opencl(place):
    """api: OpenCL handles, shared memory, a queue"""
    run = place.preloaded([place.program("cl_api")],
                          {"GPULEAK_REPORT": place.file("report"), "GPULEAK_FORMAT": "json"})
    compare("status", 0, run.status)
    compare("told", [
        "older: clCreateBuffer cl-buffer 65536 references 1 flags 0",
        "newer: clCreateBuffer cl-buffer 4096 references 2 flags 0",
        "part: clCreateSubBuffer cl-sub-buffer 1024 references 1 flags 0",
        "svm: clSVMAlloc cl-svm 16384 references 1 flags 2",
        "queue: clCreateCommandQueue object/cl-queue 0 references 1 flags 4",
        "since: 3 blocks 21504 bytes, ignored 0",
        "ignored 0",
        "then: 2 blocks 17408 bytes, ignored 1",
        "released: 0 blocks 0 bytes, ignored 1",
        "gone: No such file or directory",
    ], run.stdout.split("\n")[:-1])
    report = json.loads(place.read("report"))
    compare("report", (0, 1, 4096), (report["summary"]["leaked_blocks"],
                                     report["summary"]["suppressed_blocks"],
                                     report["summary"]["suppressed_bytes"]))


CASES = [absent, marks, race, ages, pooled, who, stack, ignored, ignored_text, peak, signals,
         forked, sizes, paths, from_outside, bad_flags, killed]
for function in CASES:
    function.needs = PROGRAM
opencl.needs = "cl_api"
CASES.append(opencl)
