# SPDX-License-Identifier: MIT
"""The formats of the trace: memory-viz, read by pickle and by PyTorch's own script; perfetto, read
by a decoder of protocol buffers and by trace_processor."""

import collections
import contextlib
import csv
import importlib.util
import io
import itertools
import json
import os
import pickle
import pickletools
import re
import sys

import viewer
from tools import HERE, Missing, NotFetched, module, same, tool, true, viewers

MIB = 1 << 20
FREED = "free_completed"
# What PyTorch's MemoryViz.js reads.
OPCODES = {"PROTO", "EMPTY_DICT", "MARK", "BINUNICODE", "LONG_BINPUT", "LONG_BINGET", "EMPTY_LIST",
           "BININT", "LONG1", "NEWTRUE", "NEWFALSE", "APPENDS", "SETITEMS", "STOP"}


def traced(place, *words, size="4MiB", status=0):
    """The ledger of a run of p_traced, and the moments that it printed."""
    at = place.path("traced.gpuleak")
    done = place.command("run", "--report", "none", "--trace", size, "--ledger", at, "--",
                         place.program("p_traced"), *words, status=status)
    return at, [line.split() for line in done.stdout.decode().splitlines()]


def out_of_memory(place):
    """The ledger of a program that wants 64 MiB of 100 MiB, of which it has 40."""
    at = place.path("oom.gpuleak")
    place.command("run", "--report", "none", "--trace", "1MiB", "--ledger", at, "--",
                  place.program("p_oom"), "weights:40m", "want:64m",
                  env={"STANDIN_MEMORY": str(100 << 20)})
    return at


def live_at(place, ledger, moment):
    """The time of a moment as --at reads it, and what was allocated then."""
    start = json.loads(place.report("json", ledger))["timeline"]["start_real_ns"]
    return "%.3fs" % ((int(moment[1]) - start) / 1e9), sum(map(int, moment[2::2]))


def ranged(place, story, size="4MiB"):
    """The ledger of a story of p_ranges."""
    at = place.path("%s-%s.gpuleak" % (story, size))
    place.command("run", "--report", "none", "--trace", size, "--ledger", at, "--",
                  place.program("p_ranges"), story)
    return at


def snapshot(place, *words):
    content = place.report("memory-viz", *words)
    same({opcode.name for opcode, _, _ in pickletools.genops(content)} - OPCODES, set(), "opcodes")
    found = pickle.loads(content)
    same(set(found), {"segments", "device_traces", "external_annotations"}, "keys")
    for segment in found["segments"]:
        same(sum(block["size"] for block in segment["blocks"]), segment["total_size"], "blocks")
        at = segment["address"]
        for block in segment["blocks"]:
            same(block["address"], at, "address")
            at += block["size"]
    return found


def replay(entries):
    """What is allocated after the entries: {address: bytes} of blocks and of segments."""
    blocks, segments = {}, {}
    for entry in entries:
        of = segments if entry["action"].startswith("segment") else blocks
        if entry["action"] in ("alloc", "segment_alloc"):
            true(entry["addr"] not in of, "%s is allocated twice" % entry)
            of[entry["addr"]] = entry["size"]
        elif entry["action"] in (FREED, "segment_free"):
            same(of.pop(entry["addr"]), entry["size"], "bytes of a free")
    return blocks, segments


def whole_history(place):
    """A trace with everything: its events, replayed, are the segments of the snapshot."""
    ledger, moments = traced(place, "1", "300", "3")
    found = snapshot(place, ledger)
    (entries,) = found["device_traces"]
    blocks, segments = replay(entries)
    same(blocks, segments, "each block is a segment")
    same(segments, {segment["address"]: segment["total_size"] for segment in found["segments"]})
    same(sum(segments.values()), live_at(place, ledger, moments[-1])[1], "live bytes")
    same(sum(entry["action"] == "alloc" for entry in entries) +
         sum(entry["action"] == FREED for entry in entries), 900, "calls")
    same([entry["time_us"] for entry in entries], sorted(entry["time_us"] for entry in entries))
    names = collections.Counter(entry["frames"][0]["name"] for entry in entries)
    same(set(names), {"small", "large"}, "innermost functions")
    true(found["segments"][0]["blocks"][0]["frames"][0]["filename"].endswith("traced.c"), "file")


def at_moments(place):
    """The snapshot at each moment is what the program counted then."""
    ledger, moments = traced(place, "2", "300", "3")
    for moment in moments:
        when, wanted = live_at(place, ledger, moment)
        found = snapshot(place, "--at", when, ledger)
        same(sum(segment["allocated_size"] for segment in found["segments"]), wanted, when)
        same(sum(replay(found["device_traces"][0])[0].values()), wanted, "events until " + when)


def torn_history(place):
    """A trace that lost its beginning: frees of older blocks, and the segments are whole."""
    ledger, moments = traced(place, "3", "1000", "2", size="16KiB")
    found = snapshot(place, ledger)
    same(sum(segment["total_size"] for segment in found["segments"]),
         live_at(place, ledger, moments[-1])[1], "live bytes")
    (entries,) = found["device_traces"]
    same(sum(entry["action"] in ("alloc", FREED) for entry in entries), 408, "events")


def tensors(place):
    """Without a trace: segments of a framework with their tensors, and no events."""
    fixture = os.path.join(os.path.dirname(HERE), "golden", "fixtures", "tensors")
    writer = os.path.join(os.path.dirname(place.given.programs), "golden", "ledger_from_text")
    ledger = place.path("tensors.gpuleak")
    if not os.path.exists(writer):
        raise Missing("tests/golden/ledger_from_text was not built")
    place.run(writer, fixture, ledger)
    found = snapshot(place, ledger)
    same(found["device_traces"], [[]], "events")
    (segment,) = found["segments"]
    same((segment["total_size"], segment["allocated_size"]), (2 * MIB, 1024), "sizes")
    same([(block["size"], block["state"]) for block in segment["blocks"]],
         [(512, "active_allocated"), (512, "active_allocated"), (2 * MIB - 1024, "inactive")])
    same([frame["name"] for frame in segment["blocks"][0]["frames"]], ["append", "train_step"])


def refused(place):
    """A request that ran out of memory is an event with the bytes that were free."""
    at = out_of_memory(place)
    entries = [entry for entry in snapshot(place, at)["device_traces"][0]
               if entry["action"] == "oom"]
    same([(entry["size"], entry["device_free"]) for entry in entries], [(64 * MIB, 60 * MIB)])


def by_pytorch(place):
    """PyTorch's _memory_viz.py makes its tables and pages of the snapshot."""
    spec = importlib.util.spec_from_file_location(
        "memory_viz", os.path.join(viewers(), "_memory_viz.py"))
    viz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(viz)
    ledger, moments = traced(place, "4", "100", "2")
    when, _ = live_at(place, ledger, moments[0])
    before, after = snapshot(place, "--at", when, ledger), snapshot(place, ledger)
    true("segments: %d\n" % len(after["segments"]) in viz.segsum(after), "segsum")
    true("200 entries" not in viz.trace(after) and "cudaMalloc(" in viz.trace(after), "trace")
    with contextlib.redirect_stdout(io.StringIO()):
        compared = viz.compare(before["segments"], after["segments"], lambda text: text)
    true("only_before;" in compared, "compare")
    true("small" in viz.memory(after, lambda text: text), "memory")
    true("snapshot.pickle" in viz.trace_plot(after), "trace_plot")
    true("snapshot.pickle" in viz.segment_plot(after), "segment_plot")


def annotations(place):
    """Ranges are annotations, and what was allocated in one is not earlier than its start."""
    ledger = ranged(place, "nested")
    found = snapshot(place, ledger)
    marks = found["external_annotations"]
    same([(mark["name"], mark["stage"], mark["device"]) for mark in marks],
         [(name, stage, 0) for name, stage in (
             ("serve", "START"), ("decode", "START"), ("inner\\x1B[#m\\x0A", "START"),
             ("inner\\x1B[#m\\x0A", "END"), ("decode", "END"), ("serve", "END"))], "annotations")
    times = {(mark["name"], mark["stage"]): mark["time_us"] for mark in marks}
    for entry in found["device_traces"][0]:
        if entry["size"] == 2048:
            true(times["decode", "START"] <= entry["time_us"], "time of %s" % entry)
    same(snapshot(place, "--at", "0s", ledger)["external_annotations"], [], "at the start")


def drawn_by_pytorch(place):
    """PyTorch's viewer draws each block, and counts the bytes of the last moment."""
    found = viewer.drawn(place, viewers(), place.report("memory-viz", ranged(place, "nested")))
    timeline, history, segments, settings = (found[name] for name in (
        "Active Memory Timeline", "Allocator State History", "Active Cached Segment Timeline",
        "Allocator Settings"))
    # six blocks, the sum of those without details, and the small picture of all
    same((timeline["polygons"], segments["polygons"]), (8, 8), "polygons")
    true("14.0k\n" in timeline["text"] and "16.0k" not in timeline["text"], timeline)
    true("(15.0KiB (15360 bytes) allocated / 15.0KiB (15360 bytes) reserved)" in history["text"] and
         "ranges.c:" in history["text"] and history["rects"] > 3, history)
    true("No allocator settings" in settings["text"], settings)
    ledger, moments = traced(place, "4", "200", "1")
    found = viewer.drawn(place, viewers(), place.report("memory-viz", ledger))
    true("(%d bytes) allocated" % live_at(place, ledger, moments[-1])[1] in
         found["Allocator State History"]["text"], found["Allocator State History"])


def nothing_viz(place):
    """Status 24: no segment and no device."""
    same(pickle.loads(place.nothing("memory-viz")),
         {"segments": [], "device_traces": [], "external_annotations": []})


MEMORY_VIZ = [whole_history, at_moments, torn_history, tensors, refused, annotations, by_pytorch,
              drawn_by_pytorch, nothing_viz]


# ---- perfetto ----

def varint(content, at):
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(content):
    """{number: [values]} of a message."""
    found, at = collections.defaultdict(list), 0
    while at < len(content):
        tag, at = varint(content, at)
        value, at = varint(content, at)
        true(tag & 7 in (0, 2), "wire type")
        if tag & 7 == 2:
            true(at + value <= len(content), "a message ends")
            value, at = content[at:at + value], at + value
        found[tag >> 3].append(value)
    return found


def read_perfetto(content):
    """{uuid: (name, parent)} of tracks, and the events [(ns, type, uuid, value or name)]."""
    tracks, events = {}, []
    for packet in map(fields, fields(content)[1]):
        for track in map(fields, packet[60]):
            true(track[1][0] not in tracks, "a track is new")
            tracks[track[1][0]] = (track[2][0].decode() if track[2] else None,
                                   track[5][0] if track[5] else None)
        for event in map(fields, packet[11]):
            kind = event[9][0]
            value = event[30][0] if kind == 4 else None if kind == 2 else event[23][0].decode()
            events.append((packet[8][0], kind, event[11][0], value))
    for uuid in tracks:
        times = [event[0] for event in events if event[2] == uuid]
        same(times, sorted(set(times)), "times of a track")
    true({event[2] for event in events} <= set(tracks), "tracks of events")
    return tracks, events


def counters(place):
    """The counter of device memory at each moment is what the program counted."""
    ledger, moments = traced(place, "5", "300", "3")
    tracks, events = read_perfetto(place.report("perfetto", ledger))
    (process,) = [uuid for uuid, track in tracks.items() if track[0] is None]
    (counter,) = [uuid for uuid, track in tracks.items() if track[0]]
    same(tracks[counter], ("device memory, device 0", process))
    for moment in moments:
        when, wanted = live_at(place, ledger, moment)
        until = [value for ns, _, _, value in events if ns / 1e9 <= float(when[:-1])]
        same(until[-1], wanted, when)


def instants(place):
    """Steps and refused requests are instants of the process."""
    at = out_of_memory(place)
    _, events = read_perfetto(place.report("perfetto", at))
    names = [name for _, kind, _, name in events if kind == 3]
    same(len(names), 1, "instants")
    true(names[0].startswith("64.0 MiB refused: cuMemAlloc_v2 at "), names)


def slices_of(place, ledger):
    """[(track without the number of the thread, names of its slices, nesting after each event)]."""
    tracks, events = read_perfetto(place.report("perfetto", ledger))
    found = []
    for uuid, (name, _) in tracks.items():
        steps = [event for event in events if event[2] == uuid and event[1] in (1, 2)]
        if steps:
            depth = list(itertools.accumulate(1 if step[1] == 1 else -1 for step in steps))
            found.append((re.sub(r"thread \d+", "thread", name),
                          [step[3] for step in steps if step[1] == 1], depth))
    return found


def slices(place):
    """Ranges are slices: of each thread and domain, and of each that any thread may end."""
    same(slices_of(place, ranged(place, "nested")), [
        ("ranges of thread", ["serve", "decode", "inner\\x1B[#m\\x0A"], [1, 2, 3, 2, 1, 0])])
    wide = "gr\u00f6\u00dfe \u20ac \U0001f600"
    same(slices_of(place, ranged(place, "domains")), [
        ("ranges of thread", ["step", "wide"], [1, 0, 1, 0]),
        ("ranges of thread [my library]", ["registered"], [1, 0]),
        ("ranges of thread [other]", [wide, "(no name)"], [1, 0, 1, 0])])
    same(slices_of(place, ranged(place, "started")), [
        ("ranges of thread", ["part"], [1, 0]), ("range job #", ["job #"], [1, 0]),
        ("range other", ["other"], [1, 0]), *[("range again", ["again"], [1, 0])] * 5000,
        *[("range not ended", ["not ended"], [1])] * 31])


def torn_slices(place):
    """Of a ring that lost the begin of a range, the slice begins with the trace."""
    events = 408 - 31 - 1  # the last one is that of a block
    same(slices_of(place, ranged(place, "started", size="16KiB")),
         [("range again", ["again"], [1, 0])] * ((events + 1) // 2) +
         [("range not ended", ["not ended"], [1])] * 31)


def two_processes(place):
    """Each process has tracks of its own."""
    folder = place.path("ledgers")
    os.mkdir(folder)
    place.command("run", "--report", "none", "--trace", "1MiB", "--ledger", folder + "/%p", "--",
                  place.program("p_traced"), "6", "100", "1", "fork")
    tracks, _ = read_perfetto(place.report("perfetto", folder))
    same(sorted(track[0] or "" for track in tracks.values()),
         ["", "", "device memory, device 0", "device memory, device 0"])
    same(len(snapshot(place, folder)["device_traces"]), 2, "devices of the snapshot")


def of_perfetto(name):
    if viewers() not in sys.path:
        sys.path.insert(0, viewers())
    return module(name)


QUERY = """
select 'counter' as what, p.pid, t.name as track, '' as name, c.ts, cast(c.value as int) as value
    from counter c join process_counter_track t on c.track_id = t.id join process p using (upid)
union all select 'slice', p.pid, t.name, s.name, s.ts, s.dur
    from slice s join process_track t on s.track_id = t.id join process p using (upid)
union all select 'trouble', 0, name, severity, 0, value
    from stats where value > 0 and severity != 'info'
order by ts;"""


def queried(place, program, content):
    """What trace_processor has of the trace: [(what, track, name, ns, value or duration)], and pids."""
    trace = place.write("trace.perfetto", content)
    done = place.run(program, "-q", place.write("query.sql", QUERY.encode()), trace)
    rows = list(csv.reader(io.StringIO(done.stdout.decode()[done.stdout.index(b'"what"'):])))[1:]
    return [(what, None if track == "[NULL]" else track, name, int(ns), int(value))
            for what, _, track, name, ns, value in rows], {row[1] for row in rows}


def decoded(content):
    """The same rows by this file's decoder. A slice without an end has the duration -1."""
    tracks, events = read_perfetto(content)
    rows, opened = [], collections.defaultdict(list)
    for ns, kind, uuid, value in events:
        name = tracks[uuid][0]
        if kind == 4:
            rows.append(("counter", name, "", ns, value))
        elif kind == 2:
            at = opened[uuid].pop()
            rows[at] = (*rows[at][:4], ns - rows[at][3])
        else:
            if kind == 1:
                opened[uuid].append(len(rows))
            rows.append(("slice", name, value, ns, 0 if kind == 3 else -1))
    return rows


def trace_processor():
    try:
        return tool(os.environ.get("GPULEAK_TEST_TRACE_PROCESSOR") or "trace_processor_shell")
    except Missing as missing:
        raise NotFetched(missing) from None


def sums_of(rows, what):
    """The last value of each counter whose track begins with WHAT."""
    last = {row[1]: row[4] for row in sorted(rows, key=lambda row: row[3]) if row[0] == "counter"}
    return sum(value for track, value in last.items() if track.startswith(what))


def by_trace_processor(place):
    """trace_processor has the slices, counters and instants of the report, each with its numbers"""
    program = trace_processor()
    for ledger in (ranged(place, "nested"), ranged(place, "domains"), ranged(place, "started"),
                   ranged(place, "started", size="16KiB"), out_of_memory(place)):
        content, report = place.report("perfetto", ledger), json.loads(place.report("json", ledger))
        rows, _ = queried(place, program, content)
        same(sorted(rows, key=repr), sorted(decoded(content), key=repr), ledger)
        same(sums_of(rows, "device memory"), report["summary"]["leaked_bytes"], "left at the end")
        names = "/".join(entry["name"] or "" for entry in report.get("ranges", []))
        names = re.sub(r"[\0-\x1f]", lambda found: "\\x%02X" % ord(found[0]), names).split("/")
        missing = {name for name in names if name} - {row[2] for row in rows if row[0] == "slice"}
        true(not missing or "16KiB" in ledger, "ranges %s have no slice" % missing)
        same([row[2].split(" refused: ")[0] for row in rows if row[0] == "slice" and not row[1]],
             ["%.1f MiB" % (entry["requested_bytes"] / MIB) for entry in report["out_of_memory"]])


def cache_by_trace_processor(place):
    """trace_processor has a counter for what a cache has in use"""
    ledger = place.path("cache.gpuleak")
    place.command("run", "--report", "none", "--trace", "1MiB", "--ledger", ledger, "--",
                  place.program("p_nvtx_memory"), "refused", env={"GPULEAK_LIMIT": "1MiB"})
    report = json.loads(place.report("json", ledger))
    rows, _ = queried(place, trace_processor(), place.report("perfetto", ledger))
    (entry,) = report["fragmentation"]
    same(sums_of(rows, "in use of the " + entry["cache"]), entry["used_bytes"], "in use")
    same(sums_of(rows, "device memory"), report["summary"]["leaked_bytes"], "device memory")


def moments_by_trace_processor(place):
    """trace_processor has at each moment what the program counted, for each process"""
    ledger, moments = traced(place, "7", "300", "3")
    rows, _ = queried(place, trace_processor(), place.report("perfetto", ledger))
    for moment in moments:
        when, wanted = live_at(place, ledger, moment)
        same(sums_of([row for row in rows if row[3] / 1e9 <= float(when[:-1])], ""), wanted, when)
    folder = place.path("ledgers")
    os.mkdir(folder)
    place.command("run", "--report", "none", "--trace", "1MiB", "--ledger", folder + "/%p", "--",
                  place.program("p_traced"), "6", "100", "1", "fork")
    content = place.report("perfetto", folder)
    rows, pids = queried(place, trace_processor(), content)
    same(sorted(rows, key=repr), sorted(decoded(content), key=repr), "two processes")
    same(len(pids), 2, "processes")


def by_protos(place):
    """Perfetto's own description of its messages reads the trace, without an unknown field."""
    protos = of_perfetto("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    types = set()
    for ledger in traced(place, "8", "100", "1")[0], ranged(place, "domains"), out_of_memory(place):
        trace = protos.Trace.FromString(place.report("perfetto", ledger))
        size = trace.ByteSize()
        trace.DiscardUnknownFields()
        same(trace.ByteSize(), size, "unknown fields")
        tracks = {packet.track_descriptor.uuid: packet.track_descriptor
                  for packet in trace.packet if packet.HasField("track_descriptor")}
        events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
        types |= {event.type for event in events}
        true({event.track_uuid for event in events} <= set(tracks), "tracks of events")
        same([(track.name, track.counter.unit) for track in tracks.values()
              if track.HasField("counter")],
             [("device memory, device 0", protos.CounterDescriptor.UNIT_SIZE_BYTES)])
    event = protos.TrackEvent
    same(types, {event.TYPE_COUNTER, event.TYPE_INSTANT, event.TYPE_SLICE_BEGIN,
                 event.TYPE_SLICE_END}, "types of events")


def nothing_perfetto(place):
    """Status 24: an empty trace."""
    same(place.nothing("perfetto"), b"")


PERFETTO = [counters, instants, slices, torn_slices, two_processes, by_protos, by_trace_processor,
            cache_by_trace_processor, moments_by_trace_processor, nothing_perfetto]
