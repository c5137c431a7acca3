# SPDX-License-Identifier: MIT
"""Out of memory: the request, what became of it, and who held the memory then, to the byte."""

import json
import re
import resource
import shutil
import signal

from harness import SLOWER, Failed, a_place, but_written, compare, frame_text
from cases_held import figures
from stories import needs, no_core, reporting, reports_by_pid

MIB = 1 << 20
# 100 MiB: 40 for weights, 24 for a cache, and a request of 64 that cannot be met.
HELD = ("weights:40m", "cache:24m")
MEMORY = {"STANDIN_MEMORY": str(100 * MIB)}
PLACES = [["weights@weights", "run@run", "main"], ["cache@cache", "run@run", "main"]]


def frames(stack):
    texts = [frame_text(frame, "oom.c") for frame in stack]
    return [text.split("@")[0] if text.startswith("main@") else text for text in texts if text]


def run_words(place, *words, status=0, **env):
    """The JSON report of the program, and its output in lines."""
    run = place.preloaded([place.program("oom"), *words], reporting(place, **{**MEMORY, **env}),
                          preexec_fn=no_core)
    compare("status and stderr", (status, ""), (run.status, run.stderr))
    return place.json("report.json"), run.stdout.split("\n")[:-1]


def only_entry(report):
    compare("entries", 1, len(report["out_of_memory"]))
    return report["out_of_memory"][0]


def holders(entry):
    return [(holder["bytes"], holder["blocks"], frames(holder["stack"]))
            for holder in entry["holders"]]


def text_of(place, *words, env=None):
    run = place.command("run", "--", place.program("oom"), *words, env={**MEMORY, **(env or {})},
                        preexec_fn=no_core)
    return run.status, run.stderr.split("\n")


@needs("oom")
def tolerated(place):
    """out of memory, tolerated: request, stack and holders to the byte, and what was free"""
    report, out = run_words(place, *HELD, "want:64m")
    entry = only_entry(report)
    compare("answer", ["want 2"], out)
    compare("request", ("cuMemAlloc_v2", 64 * MIB, 0, "tolerated", False, "driver", 1),
            tuple(entry[key] for key in ("api", "requested_bytes", "device", "outcome", "injected",
                                         "refused_by", "times")))
    compare("stack", ["want@want", "run@run", "main"], frames(entry["stack"]))
    compare("holders", [(40 * MIB, 1, PLACES[0]), (24 * MIB, 1, PLACES[1])], holders(entry))
    compare("kind", {("device", "cuMemAlloc_v2", 0, None)}, {
        (holder["kind"], holder["api"], holder["device"], holder["cache"])
        for holder in entry["holders"]})
    compare("sum", 64 * MIB, entry["tracked_bytes"])
    compare("device", (36 * MIB, 100 * MIB), (entry["free_bytes"], entry["total_bytes"]))
    compare("not known", (None, None), (entry["driver_bytes"], entry["other_processes_bytes"]))
    compare("by library", [("p_oom", 64 * MIB)],
            [(each["name"], each["bytes"]) for each in entry["libraries"]])
    compare("time", True, 0 < entry["seconds"] < 60)


@needs("oom")
def one_line(place):
    """out of memory, tolerated: a report without leaks has one line, and a leak comes first"""
    words = ("weights:40m", "want:64m", "drop")
    status, lines = text_of(place, *words)
    compare("status and lines", (0, 2), (status, len(lines)))
    if not re.fullmatch(r"gpuleak: no leaks: 1 block \(40\.0 MiB\) allocated by p_oom \(pid \d+\), "
                        r"all freed; peak 40\.0 MiB, all of it by weights \(\S+/oom\.c:\d+\); "
                        r"out of memory 1 time", lines[0]):
        raise Failed(lines[0])
    _, lines = text_of(place, *words[:2])
    compare("first line", "gpuleak: 1 leak, ", lines[0][:17])
    compare("below", "Out of memory (tolerated): 64.0 MiB wanted at want (", lines[3][:52])


FIRST = (r"gpuleak: out of memory: 64\.0 MiB wanted at want \(\S+/oom\.c:\d+\); held: "
         r"40\.0 MiB weights \(\S+/oom\.c:\d+\), 24\.0 MiB cache \(\S+/oom\.c:\d+\)")


def is_final(place, words, status):
    got, lines = text_of(place, *words)
    compare("status", status, got)
    if not re.fullmatch(FIRST, lines[0]):
        raise Failed("first line:\n" + lines[0])
    compare("second line", "gpuleak: also: 2 leaks (64.0 MiB in 2 blocks)", lines[1])
    section = lines[4:lines.index("  The driver reported 36.0 MiB of 100.0 MiB as free after the refusal")]
    compare("request", "Out of memory (final): 67,108,864 bytes (64.0 MiB) wanted by "
            "cuMemAlloc_v2 on device 0 after ", section[0][:93])
    compare("stack", ["    #0 want ", "    #1 run ", "    #2 main "],
            [re.match(r"    #\d \w+ ", line)[0] for line in section[1:4]])
    compare("table", ["  Held at that moment: 67,108,864 bytes (64.0 MiB)",
                      "      40.0 MiB  in 1 block (device memory, cuMemAlloc_v2), at weights (",
                      "      24.0 MiB  in 1 block (device memory, cuMemAlloc_v2), at cache (",
                      "  By library: 64.0 MiB p_oom"],
            [re.sub(r"(at \w+ \().*", r"\1", line) for line in section[4:]])


@needs("oom")
def final(place):
    """out of memory, final: the first line of the report, after any bad end"""
    is_final(place, (*HELD, "want:64m", "exit:3"), 3)
    is_final(place, (*HELD, "want:64m", "leave:1"), 1)
    is_final(place, (*HELD, "want:64m", "abort"), 128 + signal.SIGABRT)


@needs("oom")
def outcomes(place):
    """out of memory: recovered only by the same thread with as much; else the end decides"""
    def outcome(*words, status=0):
        report, _ = run_words(place, *HELD, *words, status=status)
        return [entry["outcome"] for entry in report["out_of_memory"]]

    compare("freed and asked again", ["recovered"], outcome("want:56m", "drop", "want:56m"))
    compare("got more", ["recovered"], outcome("want:56m", "drop", "drop", "want:80m"))
    compare("also if it ends badly", ["recovered"],
            outcome("want:56m", "drop", "want:56m", "exit:1", status=1))
    compare("got less", ["tolerated"], outcome("want:56m", "want:32m"))
    compare("got less, by another call", ["tolerated"], outcome("want:56m", "async:30m"))
    compare("as much, by another call", ["recovered"], outcome("want:56m", "drop", "async:58m"))
    compare("another thread got as much", ["tolerated"], outcome("want:56m", "drop", "beside:56m"))
    compare("host memory is no device memory", ["tolerated"], outcome("want:56m", "pinned:64m"))
    compare("each for itself", ["recovered", "final"],
            outcome("want:56m", "drop", "want:56m", "want:90m", "exit:1", status=1))


@needs("oom")
def injected(place):
    """out of memory by GPULEAK_LIMIT and GPULEAK_FAIL_AT: recorded as such"""
    report, _ = run_words(place, *HELD, "want:30m", GPULEAK_LIMIT="80MiB")
    entry = only_entry(report)
    compare("limit", (True, "GPULEAK_LIMIT", 80 * MIB, 30 * MIB, 64 * MIB), tuple(
        entry[key] for key in ("injected", "refused_by", "limit_bytes", "requested_bytes",
                               "tracked_bytes")))
    report, _ = run_words(place, *HELD, "want:30m", GPULEAK_FAIL_AT="3")
    entry = only_entry(report)
    compare("failure", (True, "GPULEAK_FAIL_AT", 30 * MIB), tuple(
        entry[key] for key in ("injected", "refused_by", "requested_bytes")))
    _, lines = text_of(place, *HELD, "want:30m", "exit:1", env={"GPULEAK_LIMIT": "80MiB"})
    compare("line", True, ", refused by GPULEAK_LIMIT (80.0 MiB); held: 40.0 MiB" in lines[0])


@needs("oom")
def repeated(place):
    """out of memory in a loop: one request is one entry, and the loop stays fast"""
    report, _ = run_words(place, *HELD, "again:20000:%d" % (64 * MIB))
    entry = only_entry(report)
    compare("times", 20000, entry["times"])
    compare("holders", 2, len(entry["holders"]))


@needs("oom")
def many_requests(place):
    """out of memory by thousands of requests: the first and the last four, and their number"""
    first = 64 * MIB
    report, _ = run_words(place, *HELD, "growing:5000:%d" % first)
    compare("count", 5000, report["out_of_memory_count"])
    compare("bytes", [first + at for at in (0, 1, 2, 3, 4996, 4997, 4998, 4999)],
            [entry["requested_bytes"] for entry in report["out_of_memory"]])


@needs("oom")
def kinds(place):
    """out of memory: holders are of the kind of memory that ran out, and count once"""
    report, _ = run_words(place, "pinned:7m", "map:10m", *HELD, "want:64m")
    compare("device", [(40 * MIB, PLACES[0]), (24 * MIB, PLACES[1]),
                       (10 * MIB, ["map_physical@map", "run@run", "main"])],
            [(size, stack) for size, _, stack in holders(only_entry(report))])
    report, out = run_words(place, "pinned:7m", *HELD, "pinned:9m",
                            STANDIN_FAIL="cuMemHostAlloc:2=2")
    entry = only_entry(report)
    compare("answers", ["pinned 0", "pinned 2"], out)
    compare("host", (9 * MIB, [(7 * MIB, 1, ["want_pinned@pinned", "run@run", "main"])], None),
            (entry["requested_bytes"], holders(entry), entry["free_bytes"]))
    report, _ = run_words(place, *HELD, "physical:64m")
    compare("physical", ("cuMemCreate", 64 * MIB, 0, 64 * MIB), tuple(only_entry(report)[
        key] for key in ("api", "requested_bytes", "device", "tracked_bytes")))
    report, _ = run_words(place, *HELD, "async:64m")
    compare("stream-ordered", ("cuMemAllocAsync", 64 * MIB), tuple(only_entry(report)[
        key] for key in ("api", "requested_bytes")))


@needs("oom")
def devices(place):
    """out of memory on a second device: it has its own holders, and host memory belongs to none"""
    two = {"STANDIN_DEVICES": "2"}
    report, _ = run_words(place, *HELD, "device:1", "weights:10m", "want:91m", **two)
    entry = only_entry(report)
    compare("entry", (1, 90 * MIB, [(10 * MIB, 1, PLACES[0])]),
            (entry["device"], entry["free_bytes"], holders(entry)))
    report, _ = run_words(place, "pinned:7m", "device:1", "pinned:9m",
                          STANDIN_FAIL="cuMemHostAlloc:2=2", **two)
    compare("host", 7 * MIB, only_entry(report)["tracked_bytes"])


@needs("oom")
def captured(place):
    """out of memory during a capture: nothing is asked of the driver, and so nothing is known"""
    report, _ = run_words(place, *HELD, "capture", "want:64m", STANDIN_FAIL="cuMemAlloc_v2:3=2")
    entry = only_entry(report)
    compare("free", (None, None), (entry["free_bytes"], entry["total_bytes"]))
    compare("holders", 2, len(entry["holders"]))


@needs("oom")
def no_figures(place):
    """out of memory: a driver that does not report what is free, and an option that is no kind"""
    report, _ = run_words(place, *HELD, "want:64m", STANDIN_FAIL="cuMemGetInfo_v2:1+=999")
    compare("free", None, only_entry(report)["free_bytes"])


@needs("oom")
def pooled(place):
    """out of memory with the pool on: the same request, the same holders"""
    for pool in ("strict", "fast"):
        report, _ = run_words(place, *HELD, "want:64m", GPULEAK_POOL=pool)
        entry = only_entry(report)
        compare("request with " + pool, (64 * MIB, "tolerated", 64 * MIB), tuple(
            entry[key] for key in ("requested_bytes", "outcome", "tracked_bytes")))
        report, _ = run_words(place, "weights:60m", "drop", "want:80m", GPULEAK_POOL=pool)
        compare("relieved with " + pool, [], report["out_of_memory"])


@needs("oom")
def divided_by_nvml(place):
    """out of memory under `gpuleak run`: NVML tells the driver's part from other processes'"""
    place.write("nvml", "")
    words = ("nvml:%d:%d" % (70 * MIB, 90 * MIB), *HELD, "sampled", "want:64m", "sampled")
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), "--",
                        place.program("oom"), *words, env=figures(place, **MEMORY))
    compare("status and stderr", (0, ""), (run.status, but_written(run.stderr)))
    entry = only_entry(place.json("report.json"))
    compare("driver's and others'", (6 * MIB, 20 * MIB),
            (entry["driver_bytes"], entry["other_processes_bytes"]))
    run = place.command("run", "--verbose", "1", "--", place.program("oom"), *words, "exit:1",
                        env=figures(place, **MEMORY))
    compare("line", True, run.stderr.split("\n")[0].endswith(
        "), 6.0 MiB driver, 20.0 MiB other processes"))
    nobodys = ("nvml:%d:%d" % (70 * MIB, 79 * MIB), *words[1:])
    run = place.command("run", "--verbose", "1", "--", place.program("oom"), *nobodys, "exit:1",
                        env=figures(place, **MEMORY))
    compare("line", True, run.stderr.split("\n")[0].endswith("), 6.0 MiB driver"))


@needs("oom")
def nvml_without_device(place):
    """out of memory where NVML has no figure of the device: what it lacks is unknown, not 0"""
    for own, driver, line in ((70 * MIB, 6 * MIB, "), 6.0 MiB driver"), (0, None, ")")):
        with a_place(place.options) as inner:
            inner.write("nvml", "answer nvmlDeviceGetMemoryInfo 3\n")
            words = ("nvml:%d:0" % own, *HELD, "sampled", "want:64m", "sampled", "exit:1")
            run = inner.command("run", "--report", inner.file("report.json"), "--format", "json",
                                "--", inner.program("oom"), *words, env=figures(inner, **MEMORY))
            compare("status and stderr", (1, ""), (run.status, but_written(run.stderr)))
            report = inner.json("report.json")
            entry = only_entry(report)
            compare("driver's and others'", (driver, None),
                    (entry["driver_bytes"], entry["other_processes_bytes"]))
            compare("devices with figures", 1 if own else 0, len(report.get("devices", [])))
            run = inner.command("run", "--verbose", "1", "--", inner.program("oom"), *words,
                                env=figures(inner, **MEMORY))
            first = run.stderr.split("\n")[0]
            compare("end of %s" % first, True, first.endswith(line))
            compare("others' in text", "other processes" in run.stderr, not own)


@needs("oom")
def shared_memory(place):
    """out of memory on a GPU that shares its memory: what the CPU uses is part of the rest"""
    for more, words in (({}, "Driver itself and other processes: 0 bytes"),
                        ({"STANDIN_INTEGRATED": "1"},
                         "Driver itself, other processes, and the CPU, which shares this memory: 0")):
        text = place.preloaded([place.program("oom"), *HELD, "want:64m", "exit:1"],
                               {**MEMORY, **more}).stderr
        compare("lines with " + words, 1, text.count("  " + words))
        compare("lines of the rest", 1, text.count("  Driver itself"))


@needs("oom")
def full_ledger(place):
    """out of memory where the ledger cannot grow: counted, and said in one line"""
    report, _ = run_words(place, "files:1", "small:20000:512", "want:200m", "files:0")
    compare("entries and count", ([], 1),
            (report["out_of_memory"], report["out_of_memory_count"]))
    compare("note", 1, len([note for note in report["notes"] if note == "1 allocations that ran out "
                            "of memory were counted but not recorded: the ledger could not grow"]))


def little_space():
    resource.setrlimit(resource.RLIMIT_AS, (300 * MIB, 300 * MIB))


@needs("oom")
def address_space(place):
    """out of memory under a limit on address space: the holders are counted as always"""
    ledger = place.file("ledger")
    run = place.preloaded([place.program("oom"), *HELD, "want:64m"], preexec_fn=little_space, env={
        "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": ledger, **MEMORY})
    compare("run", (0, "want 2\n", ""), (run.status, run.stdout, run.stderr))
    told = place.command("report", "--format", "json", ledger)
    entry = only_entry(json.loads(told.stdout))
    compare("entry", (64 * MIB, "tolerated", 64 * MIB, 36 * MIB), tuple(
        entry[key] for key in ("requested_bytes", "outcome", "tracked_bytes", "free_bytes")))
    compare("holders", [40 * MIB, 24 * MIB], [holder["bytes"] for holder in entry["holders"]])


@needs("oom")
def threads(place):
    """out of memory in 16 threads at once: each request is counted, and no record is a mixture"""
    report, _ = run_words(place, *HELD, "threads:16:%d" % (64 * MIB))
    compare("count", 16000, report["out_of_memory_count"])
    for entry in report["out_of_memory"]:
        compare("entry", (1, "tolerated", True), (
            entry["times"], entry["outcome"],
            64 * MIB <= entry["requested_bytes"] < 64 * MIB + 1000))
        compare("holders", (64 * MIB, 2), (entry["tracked_bytes"], len(entry["holders"])))


@needs("oom")
def child(place):
    """out of memory before and after a fork: each process has its own entry"""
    run = place.preloaded([place.program("oom"), *HELD, "want:90m", "child", *["want:90m"] * 3],
                          reporting(place, GPULEAK_REPORT=place.file("%p.json"),
                                    GPULEAK_FAIL_AT="3+", **MEMORY))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    reports = reports_by_pid(place)
    compare("processes", 2, len(reports))
    parent = only_entry(reports.pop(run.pid))
    (report,) = reports.values()
    compare("parent", (1, 90 * MIB, 64 * MIB),
            (parent["times"], parent["requested_bytes"], parent["tracked_bytes"]))
    entry = only_entry(report)
    compare("child", (1, 90 * MIB, 0, []), (
        entry["times"], entry["requested_bytes"], entry["tracked_bytes"], entry["holders"]))


@needs("oom")
def handler(place):
    """out of memory in a signal handler: recorded as anywhere else"""
    report, _ = run_words(place, *HELD, "signal:%d" % (64 * MIB))
    entry = only_entry(report)
    compare("entry", (64 * MIB, 2), (entry["requested_bytes"], len(entry["holders"])))


@needs("oom")
def quick(place):
    """out of memory with 100,000 live blocks at 64 places: counted in less than 20 ms of CPU time"""
    report, out = run_words(place, "small:100000:512", *["time:900m"] * 5,
                            STANDIN_MEMORY=str(600 * MIB))
    entry = only_entry(report)
    compare("holders", (1, 100032, 100032 * 512), (  # 64 call sites in one line are one holder
        len(entry["holders"]), sum(holder["blocks"] for holder in entry["holders"]),
        entry["tracked_bytes"]))
    best = min(int(line.split()[2]) for line in out if line.startswith("time 2 "))
    if best > 20000 * SLOWER:
        raise Failed("%d microseconds" % best)


@needs("oom")
def short_form(place):
    """out of memory in the report without the command: requests that did not recover, and holders"""
    library = place.file("libgpuleak.so")
    shutil.copy(place.options.preload, library)  # no command beside it
    run = place.run([place.program("oom"), *HELD, "want:56m", "drop", "want:56m", "want:64m", "exit:1"],
                    {"LD_PRELOAD": library, **MEMORY})
    lines = run.stderr.split("\n")
    compare("requests", ["Out of memory: 67108864 bytes wanted by cuMemAlloc_v2 at:"],
            [line for line in lines if line.startswith("Out of memory")])
    first = lines.index("Out of memory: 67108864 bytes wanted by cuMemAlloc_v2 at:")
    compare("holders", [
        "  held by 1 blocks: 58720256 bytes (cuMemAlloc_v2), allocated at:",
        "  held by 1 blocks: 41943040 bytes (cuMemAlloc_v2), allocated at:"],
            [line for line in lines[first:] if line.startswith("  held by")])


OOM = [short_form, tolerated, one_line, final, outcomes, injected, repeated, many_requests, kinds, devices, captured,
       no_figures, pooled, divided_by_nvml, nvml_without_device, shared_memory, full_ledger, address_space, threads,
       child, handler, quick]
