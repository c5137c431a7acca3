# SPDX-License-Identifier: MIT
"""The pool as its users meet it: reports, `gpuleak top`, gpuleak.h, the signal. What it does to
memory is tested elsewhere."""

import os
import re
import shutil
import signal
import sys
import time

from cases_top import Holder, once, words
from harness import HERE, compare

PROGRAM = "pool_api"


def story(place, name, status=0, program=PROGRAM, **env):
    """stdout in lines, and what stderr says besides reports."""
    run = place.run([place.program(program), name], {
        "LD_PRELOAD": place.options.preload, "GPULEAK_REPORT": "none", **env})
    compare("status", status, run.status)
    return run.stdout.split("\n")[:-1], run.stderr


def absent(place):
    """pool: gpuleak.h in a program that is not preloaded, and in one that is"""
    run = place.run([place.program(PROGRAM), "absent"])
    compare("without gpuleak", (0, "0 0\n"), (run.status, run.stdout))
    compare("with it", ["1 1"], story(place, "absent")[0])
    place.nothing_left()


def no_pool(place):
    """pool: gpuleak.h where no pool is on"""
    wanted = ["before: No data available", "freed: No data available", "trimmed 0 errno kept",
              "trimmed: No data available", "again 0", "reused: No data available"]
    compare("off", (wanted, ""), story(place, "give-back"))
    compare("off", (wanted, ""), story(place, "give-back", GPULEAK_POOL="off"))


def limit_alone(place):
    """pool: gpuleak.h where only a limit is on"""
    none = "mode 0 off 0 used 0 cached 0 pending 0 reserved 0 hits 0 native 0 errno 0"
    compare("limit", ["before: No data available", "freed: " + none, "trimmed 0 errno kept",
                      "trimmed: " + none, "again 0", "reused: " + none],
            story(place, "give-back", GPULEAK_LIMIT="1GiB")[0])


def wrong(place):
    """pool: gpuleak_pool_stats with a size that was not set, NULL, and a larger struct"""
    compare("answers", ["short: -1 Invalid argument", "NULL: -1 Invalid argument",
                        "unset: -1 Invalid argument", "larger: 0 Success", "known 1 later 0"],
            story(place, "wrong", GPULEAK_POOL="strict")[0])


def signal_taken(place):
    """pool: GPULEAK_POOL_SIGNAL leaves a signal to an application that handles it"""
    out, err = story(place, "handled", GPULEAK_POOL="fast", GPULEAK_POOL_SIGNAL="10")
    compare("stdout", ["caught 10"], out)
    compare("stderr", "gpuleak: GPULEAK_POOL_SIGNAL: signal 10 is not caught, because the "
            "application handles or ignores it: the pool returns no memory at this signal; USR2 is free\n", err)
    for before, free in (([], "USR2"), ([12], "RTMIN+0"), ([12, 34, 35], "RTMIN+2")):
        for number in before:  # ignored from the start, and in the program
            signal.signal(number, signal.SIG_IGN)
        try:
            _, err = story(place, "handled", GPULEAK_POOL="fast", GPULEAK_POOL_SIGNAL="SIGUSR1")
        finally:
            for number in before:
                signal.signal(number, signal.SIG_DFL)
        compare("free", True, err.endswith("; %s is free\n" % free))
    out, err = story(place, "handled-later", GPULEAK_POOL="fast", GPULEAK_POOL_SIGNAL="usr1")
    compare("installed later", (["ours 1 restarts 1", "caught 10"], ""), (out, err))


def signal_unusable(place):
    """pool: GPULEAK_POOL_SIGNAL with signals that can't be used, and without a pool"""
    for number, pool, why in ((9, "fast", "cannot be caught"), (11, "strict", "cannot be caught"),
                              (32, "fast", "cannot be caught"),
                              (10, "off", "is not caught, because GPULEAK_POOL is off")):
        out, err = story(place, "absent", GPULEAK_POOL=pool, GPULEAK_POOL_SIGNAL=str(number))
        compare("no GPU call", (["1 1"], ""), (out, err))
        _, err = story(place, "wrong", GPULEAK_POOL=pool, GPULEAK_POOL_SIGNAL=str(number))
        compare("signal %d" % number, "gpuleak: GPULEAK_POOL_SIGNAL: signal %d %s: the pool returns "
                "no memory at this signal\n" % (number, why), err)
    compare("bad value", True, "bad value '65' of GPULEAK_POOL_SIGNAL" in story(
        place, "wrong", GPULEAK_POOL="fast", GPULEAK_POOL_SIGNAL="65")[1])


def numbers(line):
    """"freed: used 2 cached 4" as a dict, without its first word."""
    return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", line.split(": ", 1)[1])}


def has(line, **wanted):
    got = numbers(line)
    compare(line, wanted, {name: got[name] for name in wanted})


def give_back(place):
    """pool: gpuleak_pool_trim gives back what is kept, and gpuleak_pool_stats tells of it"""
    for mode, number in (("strict", 1), ("fast", 2)):
        lines, err = story(place, "give-back", GPULEAK_POOL=mode)
        compare("stderr", "", err)
        compare("before", "before: No data available", lines[0])
        kept = numbers(lines[1])
        compare("kept", 4, kept["cached"] + kept["pending"])
        has(lines[1], mode=number, off=0, used=2, reserved=6, hits=0, native=2, errno=0)
        compare("trimmed", "trimmed 4 errno kept", lines[2])
        has(lines[3], used=2, cached=0, pending=0, reserved=2, hits=0, native=2)
        compare("again", "again 0", lines[4])
        has(lines[5], used=2, reserved=6, hits=1, native=3)


def several_contexts(place):
    """pool: figures are sums over contexts and over sorts of pinned memory"""
    lines, _ = story(place, "contexts", GPULEAK_POOL="strict")
    has(lines[0], used=14, cached=10, reserved=24, native=5)
    has(lines[1], used=8, cached=0, reserved=8, native=5)
    run = place.command("run", "--pool", "strict", "--format", "json", "--report",
                        place.file("report.json"), "--", place.program(PROGRAM), "contexts")
    compare("status", 0, run.status)
    compare("pools", [("device", 0, 18 << 20, 18 << 20, 0), ("pinned", -1, 6 << 20, 6 << 20, 0)],
            [tuple(pool[key] for key in ("kind", "device", "peak_used_bytes",
                                         "peak_reserved_bytes", "used_bytes"))
             for pool in place.json("report.json")["pool"]["pools"]])


def by_signal(place):
    """pool: GPULEAK_POOL_SIGNAL gives back with the next call, not before"""
    for mode in ("strict", "fast"):
        lines, err = story(place, "signal", GPULEAK_POOL=mode, GPULEAK_POOL_SIGNAL="10")
        compare("stderr", "", err)
        has(lines[0], reserved=4, native=1)
        has(lines[1], used=0, reserved=2, hits=0, native=2)
    run = place.preloaded([place.program(PROGRAM), "signal"], {"GPULEAK_POOL": "fast"})
    compare("without the option", -10, run.status)


def in_python(place):
    """pool: the functions of gpuleak.h, called from Python without the package"""
    argv = [sys.executable, os.path.join(HERE, "pool_api.py")]
    run = place.run(argv)
    compare("without gpuleak", (0, "trim: 0\nstats: {}\n", ""),
            (run.status, run.stdout, run.stderr))
    run = place.preloaded(argv, {"GPULEAK_POOL": "strict", "GPULEAK_REPORT": "none"})
    compare("with it", (0, "trim: 4\nstats: {'used_bytes': 2, 'cached_bytes': 0, 'hits': 0, "
                        "'native_allocations': 2}\n", ""), (run.status, run.stdout, run.stderr))


def only_pool(report):
    compare("pools", 1, len(report["pool"]["pools"]))
    return report["pool"]["pools"][0]


def reported(place):
    """pool: `gpuleak run --pool`: the report is the same, and tells of the pool"""
    for mode in ("strict", "fast"):
        run = place.command("run", "--pool", mode, "--gate", "--format", "json", "--report",
                            place.file("report.json"), "--", place.program(PROGRAM), "give-back")
        compare("status", 0, run.status)
        report = place.json("report.json")
        compare("leaks, errors", ([], []), (report["leaks"], report["errors"]))
        compare("blocks", (4, 4), (report["summary"]["allocated_blocks"],
                                   report["summary"]["freed_blocks"]))
        compare("modes", (mode, "device"), (report["pool"]["mode"], report["pool"]["backend"]))
        pool = only_pool(report)
        compare("what it is", ("CUDA", "device", 0, mode, None),
                tuple(pool[key] for key in ("api", "kind", "device", "mode", "turned_off")))
        compare("counts", (1, 3, 4, 1, 1, 4 << 20),
                tuple(pool[key] for key in ("hits", "native_allocations", "frees", "trims",
                                            "trimmed_blocks", "trimmed_bytes")))
        compare("peaks", (6 << 20, 6 << 20), (pool["peak_used_bytes"],
                                              pool["peak_reserved_bytes"]))
        compare("kept", 6 << 20, pool["cached_bytes"] + pool["pending_bytes"])
        compare("used", 0, pool["used_bytes"])
    run = place.command("run", "--pool", "fast", "--", place.program(PROGRAM), "give-back")
    lines = run.stderr.split("\n")
    compare("lines", 3, len(lines))
    compare("pool's line", True, lines[1].startswith(
        "gpuleak: pool (fast): 1 of 4 allocations (25.0%) served without the driver, 4 native "
        "calls saved; peak 6.0 MiB in use, 6.0 MiB reserved (1.00 times); at the end: "))


def contexts_end(place):
    """pool: what is in a context ends with it, whatever the pool's memory is made of"""
    program = place.program("context_pool")
    for story in ("destroyed", "released", "reset"):
        for backend in ("device", "stream-ordered", "managed"):
            for mode in ("strict", "fast"):
                run = place.command("run", "--pool", mode, "--pool-backend", backend, "--format",
                                    "json", "--report", place.file("report.json"), "--", program,
                                    story, env={"STANDIN_MEMORY": str(16 << 30)})
                compare("%s, %s, %s" % (story, backend, mode), (0, "late: 1\n"),
                        (run.status, run.stdout))
                report = place.json("report.json")
                compare("errors", ["free-after-context"],
                        [error["type"] for error in report["errors"]])
                compare("leaks", [], report["leaks"])


def watched(place):
    """pool: `gpuleak top` shows it"""
    with Holder(place, GPULEAK_POOL="strict") as holder:
        lines = words(once(place, holder.pid))
        at = lines.index("pool (strict) used cached pending reserved hits calls saved waits")
        compare("device memory", "0 device memory 12.0 MiB 0 bytes 0 bytes 12.0 MiB 0.0% 0 0",
                lines[at + 1])
        holder.end()


def short_form(place):
    """pool: a library without its command tells of the pool, too"""
    alone = shutil.copy(place.options.preload, place.file("libgpuleak.so"))
    run = place.run([place.program(PROGRAM), "give-back"],
                    {"LD_PRELOAD": alone, "GPULEAK_POOL": "strict"})
    compare("line", "gpuleak: pool (strict): 1 of 4 allocations served without the driver, "
            "6291456 bytes kept by the pool, no leak", run.stderr.split("\n")[1])


def by_signal_when_idle(place):
    """pool: GPULEAK_POOL_SIGNAL gives back by itself where no call comes"""
    lines, err = story(place, "signal-idle", GPULEAK_POOL="fast", GPULEAK_POOL_SIGNAL="10")
    compare("stderr", "", err)
    compare("given back", True, " cached 0 pending 0 reserved 0 " in lines[0])


def shared_tickets(place):
    """pool: frees of a long loop share tickets in fast, and what is owed ends with a wait"""
    soon, later, end = (numbers(line) for line in story(place, "loop", GPULEAK_POOL="fast")[0])
    compare("all served", (20000, 20000), (later["hits"] + later["native"], later["frees"]))
    compare("of few blocks", True, later["native"] <= 18 and later["reserved"] == later["native"])
    compare("fewer tickets than frees soon", True, soon["tickets"] < soon["frees"] == 1000)
    compare("one for four frees later", True, 0 < later["tickets"] * 4 < 20000)
    compare("something is owed", True, later["pending"] > 0)
    compare("synchronized", (0, later["tickets"]), (end["pending"], end["tickets"]))
    for line, frees in zip(story(place, "loop", GPULEAK_POOL="strict")[0], (1000, 20000, 20001)):
        has(line, pending=0, native=1, hits=frees - 1, frees=frees, tickets=frees)


def first_frees(place):
    """pool: frees behind work record nothing before somebody wants memory, and all is used again"""
    for name, tickets, pending in (("rounds", range(0, 100), 20),
                                   ("rounds-unseen", range(200, 800), 8)):
        lines = [numbers(line) for line in story(place, name, GPULEAK_POOL="fast")[0]]
        compare("the first rounds", [0, 0, 1], [line["tickets"] for line in lines[:3]])
        compare("all served", (800, 800), (lines[-1]["hits"] + lines[-2]["native"] - 1,
                                           lines[-1]["frees"]))
        compare("of few blocks", True, lines[-1]["reserved"] == lines[-1]["native"] <= 16)
        compare("tickets of 200 rounds", True, lines[-1]["tickets"] in tickets)
        compare("few wait at once", True, max(line["pending"] for line in lines) <= pending)


def first_event_fails(place):
    """pool: an event that fails ends the pool also where an allocation recorded it, and is reported"""
    run = place.command("run", "--pool", "fast", "--format", "json", "--report",
                        place.file("report.json"), "--", place.program(PROGRAM), "rounds",
                        env={"STANDIN_FAIL": "cuCtxRecordEvent:1=2"})
    compare("status", 0, run.status)
    report = place.json("report.json")
    pool = report["pool"]["pools"][0]
    compare("turned off", "the driver returned an error for an event", pool["turned_off"])
    compare("no more of it", (0, True), (pool["tickets"], pool["hits"] < 20))
    compare("leaks", [1], [leak["blocks"] for leak in report["leaks"]])


def raced(place):
    """pool: of two threads that free a block at one moment one does, and the other is reported"""
    for mode in ("off", "strict", "fast"):
        run = place.command("run", "--pool", mode, "--format", "json", "--report",
                            place.file("report.json"), "--", place.program(PROGRAM), "raced")
        compare("freed", (0, "freed 4000 of 4000, then two blocks\n"), (run.status, run.stdout))
        report = place.json("report.json")
        compare("leaks", [], report["leaks"])
        compare("freed", (4002, 4002), (report["summary"]["allocated_blocks"],
                                        report["summary"]["freed_blocks"]))
        compare("errors", {"double-free"}, {error["type"] for error in report["errors"]})
        compare("how many", 4000, report["summary"]["errors"])


def forgotten(place):
    """pool: a block is told from others at its address after the table has forgotten them"""
    for mode in ("strict", "fast"):
        run = place.command("run", "--pool", mode, "--format", "json", "--report",
                            place.file("report.json"), "--", place.program(PROGRAM), "forgotten")
        some, every, again = run.stdout.split("\n")[:-1]
        compare("some", (120000, 100000), tuple(numbers(some)[of] for of in ("native", "hits")))
        compare("all", (140000, 200000), tuple(numbers(every)[of] for of in ("native", "hits")))
        compare("a wrong free", "again: 1", again)
        report = place.json("report.json")
        compare("blocks", (340000, 339998, 2, 512 + 2048),
                tuple(report["summary"][of] for of in (
                    "allocated_blocks", "freed_blocks", "leaked_blocks", "leaked_bytes")))
        compare("errors", [("double-free", 2048)],
                [(error["type"], error["allocated"]["bytes"]) for error in report["errors"]])


def parts(place, name, **env):
    return story(place, name, program="pool_parts", GPULEAK_POOL="fast", **env)


def parts_gathered(place):
    """pool: parts that were freed side by side serve a request that is larger than each"""
    compare("by one thread", (["many: native 1 reserved 64 used 54 waste 0",
                               "large: native 1 reserved 64 used 62 waste 0",
                               "between: native 1 reserved 64 used 54 waste 0"], ""),
            parts(place, "gather", GPULEAK_POOL_PREALLOC="64MiB"))
    compare("by another thread", (["large: native 1 reserved 64 used 62 waste 0"], ""),
            parts(place, "others", GPULEAK_POOL_PREALLOC="64MiB"))


def parts_sized(place):
    """pool: GPULEAK_POOL_SLAB=64MiB serves requests up to that, and no larger ones, as parts"""
    compare("sizes", (["3 MiB: native 4 reserved 64 used 60 waste 0",
                       "40 MiB: native 5 reserved 106 used 100 waste 0",
                       "its parts: native 5 reserved 106 used 100 waste 0",
                       "65 MiB: native 6 reserved 172 used 165 waste 1"], ""),
            parts(place, "sizes", GPULEAK_POOL_SLAB="64MiB"))
    compare("of 1", ("3 MiB: native 20 reserved 80 used 60 waste 20"),
            parts(place, "sizes", GPULEAK_POOL_SLAB="1")[0][0])


def parts_again(place):
    """pool: slabs that are empty stay for what comes next, and go back when asked for"""
    compare("again", (["rounds: native 10 reserved 160 used 0 waste 0", "trimmed 160",
                       "trimmed: native 10 reserved 0 used 0 waste 0"], ""),
            parts(place, "again", GPULEAK_POOL_SLAB="64MiB"))


def parts_decay(place):
    """pool: slabs of which nothing was used for GPULEAK_POOL_DECAY seconds go back"""
    compare("with decay", (["freed: native 4 reserved 64 used 0 waste 0",
                            "later: native 4 reserved 16 used 0 waste 0"], ""),
            parts(place, "decay", GPULEAK_POOL_SLAB="64MiB", GPULEAK_POOL_DECAY="1"))
    compare("without", "later: native 4 reserved 64 used 0 waste 0",
            parts(place, "decay", GPULEAK_POOL_SLAB="64MiB", GPULEAK_POOL_DECAY="0")[0][1])


def parts_whole(place):
    """pool: a part is cut for a smaller request, but while there is plenty of what was taken beforehand"""
    compare("plenty", (["filled: native 1 reserved 64 used 55 waste 0", "the same 1 1, waste 108 12 KiB"], ""),
            parts(place, "plenty", GPULEAK_POOL_PREALLOC="64MiB", GPULEAK_POOL_SLAB="1"))


def parts_packed(place):
    """pool: blocks of changing sizes that come and go take little more of the device than they are"""
    for slab in ("1", "16MiB"):
        (line,), said = parts(place, "mixed", GPULEAK_POOL_SLAB=slab)
        compare(slab, (True, ""), (100 <= int(line.split()[1]) <= 113, said))


def parts_wrong(place):
    """pool: GPULEAK_POOL_SLAB with a size that is none"""
    for value in ("2", "511", "-1", "10%", "many"):
        compare(value, "gpuleak: bad value '%s' of GPULEAK_POOL_SLAB: expected is 0, 1 or a size "
                "from 512 on such as 64KiB or 1GiB; the default is used: 0\n" % value,
                parts(place, "again", GPULEAK_POOL_SLAB=value)[1])


def handed(place, name, *lines):
    """NAME's LINES of native, hits, frees, reserved MiB, and barriers where the kernel has them."""
    for mode in ("strict", "fast"):
        (possible, *said), err = story(place, name, program="pool_handed", GPULEAK_POOL=mode)
        compare("stderr", "", err)
        barriers = numbers("membarrier: " + possible)["possible"]
        compare(mode, [line if isinstance(line, str) else
                       "%s: native %d hits %d frees %d reserved %d barriers %d" % (
                           *line[:-1], line[-1] * barriers) for line in lines], said)


def handed_on(place):
    """pool: what one thread allocates and another frees goes round without holding up either"""
    handed(place, "on", ("rounds", 40, 1960, 2000, 80, 0), ("a third", 40, 2000, 2000, 80, 0),
           "trimmed 80", ("trimmed", 40, 2000, 2040, 0, 2))


def handed_to_who_lacks(place):
    """pool: a thread keeps others' blocks as far as it lacked them, and is visited once for these"""
    handed(place, "lack", ("lacked", 8, 7, 7, 16, 0), ("visited", 8, 14, 15, 16, 1))


def handed_in_training(place):
    """pool: two threads that need what the other frees rarely visit each other"""
    line = numbers(story(place, "train", program="pool_handed", GPULEAK_POOL="fast")[0][1])
    compare("all served", (40000, 40000), (line["native"] + line["hits"], line["frees"]))
    compare("of few blocks", True, 41 <= line["native"] <= 80)
    compare("visits in 500 steps", True, line["barriers"] <= 100)


def runs_ahead(place):
    """pool: a program that runs ahead of the device keeps the blocks that it needs for that"""
    started = time.monotonic()
    line = numbers(story(place, "train", program="pool_handed", GPULEAK_POOL="fast",
                         STANDIN_ASYNC="1")[0][1])
    # The lag is at most a twentieth of 16 GiB, 819 blocks. It decays by an eighth each second, and
    # the driver then serves as many blocks again, and an eighth of these. So a slow machine needs
    # the driver more often. Without the lag the driver serves 31,000 blocks, however long it takes.
    decayed = 120 * (time.monotonic() - started)
    compare("all served", (40000, 40000), (line["native"] + line["hits"], line["frees"]))
    compare("one in ten by the driver, at most, and what decayed", [],
            [line] * (line["native"] > min(4000 + decayed, 20000)))
    compare("a twentieth of 16 GiB behind, and some more", True, line["reserved"] <= 1536)


def handed_back_ends(place):
    """pool: what was handed back to a thread ends with its context"""
    handed(place, "ends", ("ended", 10, 0, 10, 0, 2), ("the next", 20, 0, 10, 20, 0),
           ("again", 20, 10, 20, 20, 0))


def beside_a_trim(place):
    """pool: pinned memory does not wait for device memory that another thread gives back"""
    compare("waits", "waits for what was under way before: 0",
            story(place, "trim", program="pool_handed", GPULEAK_POOL="fast",
                  GPULEAK_POOL_CACHE="512KiB", STANDIN_ASYNC="1")[0][1])


POOL = [absent, no_pool, limit_alone, wrong, signal_taken, signal_unusable, give_back,
        several_contexts, by_signal, by_signal_when_idle,
        in_python, reported, contexts_end, watched, short_form, shared_tickets, first_frees,
        first_event_fails, raced, forgotten, handed_on, handed_to_who_lacks,
        handed_in_training, runs_ahead, handed_back_ends,
        beside_a_trim,
        parts_gathered, parts_sized, parts_again, parts_decay, parts_whole, parts_packed, parts_wrong]
