# SPDX-License-Identifier: MIT
"""Folded stacks, read by flamegraph.pl; profiles, read by Go's pprof."""

import os
import re

from tools import TIMEOUT, leaked, same, tool, true

FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
GO_CACHE = os.environ.get("GOCACHE") or os.path.expanduser("~/.cache/go-build")


def stacks(place, content):
    """[(frames, bytes)], once flamegraph.pl drew them."""
    lines = content.decode("utf-8").split("\n")
    same(lines.pop(), "", "the last line ends")
    found = []
    for line in lines:
        match = re.fullmatch(r"(.*) (\d+)", line)
        true(match, line)
        found.append((match[1].split(";"), int(match[2])))
        true(all(found[-1][0]) and found[-1][1], line)
    if found:
        svg = place.run(tool("perl"), tool(FLAMEGRAPH),
                        place.write("folded", content)).stdout.decode("utf-8")
        total = re.search(r"<title>all \(([0-9,]+) samples, 100%\)</title>", svg)
        same(int(total[1].replace(",", "")), sum(b for _, b in found), "flamegraph.pl's sum")
    return found


def of_peak(found):
    return [(frames, size) for frames, size in found if frames[0].startswith("peak: ")]


def at_exit(found):
    return [(frames, size) for frames, size in found if not frames[0].startswith("peak: ")]


def folded_leaks(place):
    """Root first, bytes last, a tower for each kind and device."""
    found = at_exit(stacks(place, place.report("folded", place.ledger("l", "leaks", 3))))
    same([b for _, b in found], [3000, 2000, 1000])
    for frames, size in found:
        same(frames[0], "device on device 0")
        true(re.fullmatch(r"main \(leaks\.c:\d+\)", frames[-4]), frames)
        true(re.fullmatch(r"leak_%d \(leaks\.c:\d+\)" % (size // 1000), frames[-3]), frames)
        true(re.fullmatch(r"allocate \(leaks\.c:\d+\)", frames[-2]), frames)
        same(frames[-1], "cuMemAlloc_v2")


def folded_clean(place):
    """A clean program: nothing to draw but its peak."""
    same(at_exit(stacks(place, place.report("folded", place.ledger("l", "leaks", 0)))), [])


def folded_nothing(place):
    """Status 24: no stack."""
    same(place.nothing("folded"), b"")


def folded_peak(place):
    """Who held the memory at the peak: towers of their own, freed memory too."""
    found = stacks(place, place.report("folded", place.ledger("l", "leaks", 3)))
    same([(frames[0], size) for frames, size in of_peak(found)],
         [("peak: device on device 0", size) for size in (3000, 2000, 1000, 500)])
    for (frames, _), (leaked_frames, _) in zip(of_peak(found), at_exit(found)):
        same(frames[1:], leaked_frames[1:])
    frames, size = of_peak(found)[3]
    true(re.fullmatch(r"main \(leaks\.c:\d+\)", frames[-3]), frames)
    same(frames[-1], "cuMemAlloc_v2")


def folded_errors(place):
    """What it has no place for is said on stderr."""
    done = place.command("report", "--format", "folded", place.ledger("l", "leaks", 1, "double"))
    same(done.stderr.decode(), "gpuleak: the format folded has no place for 1 invalid free and 0 "
         "notes: see --format text\n")
    same(len(at_exit(stacks(place, done.stdout))), 1)


def folded_hostile(place):
    """Names of any bytes end neither a frame nor a line."""
    found = stacks(place, place.made("folded", "hostile"))
    same([(len(frames), b) for frames, b in found], [(7, 2000), (7, 60)])
    true(found[1][0][0].startswith("cache: e:v i<l>"), found[1][0][0])


def folded_ranks(place):
    """Several processes: a frame below the root names each."""
    found = stacks(place, place.made("folded", "ranks"))
    same([(frames[:2], b) for frames, b in found],
         [(["device on device 0", "train (pid 11)"], 3072)])


def folded_tensors(place):
    """Tensors take the place of their bytes in the block; no byte comes twice."""
    found = stacks(place, place.made("folded", "tensors"))
    pool = "cache: PyTorch caching allocator: "
    make = ["main (main.c:70)", "make (make.c:7)"]
    same(found, [
        ([pool + "device on device 0", *make, "cuMemAlloc_v2", "cached, unused"],
         2097152 - 104 * 512),
        ([pool + "tensors on device 0", *make, "tensors"], 51200),
        ([pool + "tensors on device 0", "<module> (train.py:20)", "train_step (train.py:8)",
          "tensors"], 6 * 512 - 256)])
    found = stacks(place, place.made("folded", "trainings"))
    same([(frames[1], size) for frames, size in found],
         [("python3 (pid 1)", 2097152 - 104 * 512), ("python3 (pid 1)", 51200),
          ("python3 (pid 1)", 6 * 512 - 256), ("python3 (pid 2)", 51200)])
    lines = place.made("folded", "wild-tensors").decode("utf-8").split("\n")
    same(len(lines), 9)


def pprof(place, content, *flags):
    """What `go tool pprof` prints. Go 1.25 and later compile pprof at its first use, which takes
    minutes on a busy machine: so into the user's cache."""
    return place.run(tool("go"), "tool", "pprof", *flags, place.write("p.pb.gz", content),
                     env={"PPROF_TMPDIR": place.home, "GOCACHE": GO_CACHE, "GOFLAGS": "-mod=mod"},
                     timeout=5 * TIMEOUT).stdout.decode("utf-8")


def samples(place, content):
    """[(values, labels, locations)] of `pprof -raw`, without the values of the peak."""
    return [(values[:4], labels, locations) for values, labels, locations in
            all_samples(place, content) if any(values[:4])]


def all_samples(place, content):
    raw = pprof(place, content, "-raw")
    head = re.search(r"Samples:\n(.*)\n", raw)[1]
    same(head, "inuse_objects/count inuse_space/bytes[dflt] alloc_objects/count alloc_space/bytes "
         "peak_objects/count peak_space/bytes")
    found = []
    for line in re.search(r"Samples:\n[^\n]*\n(.*?)Locations\n", raw, re.S)[1].split("\n"):
        match = re.fullmatch(r"((?:\s+\d+){6}): ([\d ]+)", line)
        if match:
            found.append(([int(n) for n in match[1].split()], {}, match[2].split()))
        elif line.strip():
            # Labels are printed in one line; a hostile one may look like several.
            for key, value in re.findall(r"(\w+):\[(.*?)\]", line):
                found[-1][1][key] = value
    return found


def pprof_leaks(place):
    """Each site with what is in use and what it ever allocated, freed ones too."""
    content = place.report("pprof", place.ledger("l", "leaks", 3))
    found = samples(place, content)
    same([v for v, _, _ in found], [[1, 3000, 1, 3000], [1, 2000, 1, 2000], [1, 1000, 1, 1000],
                                    [0, 0, 1, 500]])
    same(found[0][1], {"api": "cuMemAlloc_v2", "device": "0", "kind": "device"})
    raw = pprof(place, content, "-raw", "-symbolize=none")
    true(re.search(r"^1: \S+ \S+/leaks [0-9a-f]{40} \[FN\]\[FL\]\[LN\]\[IN\] *$", raw, re.M), raw)
    top = pprof(place, content, "-top", "-unit=B")
    true("Type: inuse_space" in top, top)
    true(re.search(r"Build ID: [0-9a-f]{40}\n", top), top)
    flat = {m[1]: int(m[0]) for m in re.findall(r"^\s*(\d+)B?\s.*?%\s+\S+%\s+\S+\s+\S+%\s+(\S+)$",
                                               top, re.M)}
    same(flat["allocate"], 6000, top)
    listing = pprof(place, content, "-peek", "leak_", "-unit=B")
    for name, size in leaked(3).items():
        true(re.search(r"^ +0 +0%% +\S+ +%dB +\S+ +\| %s$" % (size, name), listing, re.M), listing)
    total = pprof(place, content, "-top", "-sample_index=alloc_space", "-unit=B")
    true("of 6500B total" in total, total)


def pprof_peak(place):
    """Who held the memory at the peak, freed memory too."""
    content = place.report("pprof", place.ledger("l", "leaks", 3))
    found = [(values, labels) for values, labels, _ in all_samples(place, content) if any(values[4:])]
    same([values[4:] for values, _ in found],
         [[1, size] for size in (3000, 2000, 1000, 500)])
    same(found[3][1], {"api": "cuMemAlloc_v2", "device": "0", "kind": "device"})
    listing = pprof(place, content, "-peek", "leak_", "-unit=B", "-sample_index=peak_space")
    for name, size in leaked(3).items():
        true(re.search(r"^ +0 +0%% +\S+ +%dB +\S+ +\| %s$" % (size, name), listing, re.M), listing)
    top = pprof(place, content, "-top", "-sample_index=peak_space", "-unit=B")
    true("of 6500B total" in top, top)
    top = pprof(place, content, "-top", "-sample_index=peak_objects")
    true("of 4 total" in top, top)


def pprof_lines(place):
    """Locations have the lines of the source, the leaf first."""
    content = place.report("pprof", place.ledger("l", "leaks", 1))
    raw = pprof(place, content, "-raw")
    leaf = samples(place, content)[0][2]
    names = []
    for number in leaf[:3]:
        names.append(re.search(r"^ +%s: 0x[0-9a-f]+ M=\d+ (\S+) \S*/leaks\.c:[1-9]\d*" % number,
                               raw, re.M)[1])
    same(names, ["allocate", "leak_1", "main"])


def pprof_errors(place):
    """Wrong frees and the verdict are comments."""
    content = place.report("pprof", "--max-leaked-bytes", 0, place.ledger("l", "leaks", 1,
                                                                          "double"))
    text = pprof(place, content, "-comments")
    true(re.search(r"^gpuleak: gate failed: 1 invalid free$", text, re.M), text)
    true(re.search(r"^gpuleak: double free of 0x[0-9a-f]+ at main \(", text, re.M), text)


def pprof_out_of_memory(place):
    """An out-of-memory that ended the program is a comment."""
    content = place.report("pprof", place.out_of_memory("exit:3", status=3))
    text = pprof(place, content, "-comments")
    true(re.search(r"^gpuleak: out of memory: 64\.0 MiB wanted at want \(", text, re.M), text)
    same(text.count("gpuleak: "), 1, text)


def pprof_clean(place):
    """A clean program is a profile of 0 bytes in use."""
    same([v for v, _, _ in samples(place, place.report("pprof", place.ledger("l", "leaks", 0)))],
         [[0, 0, 1, 500]])


def pprof_hostile(place):
    """Names of any bytes: valid UTF-8, and the numbers still right."""
    found = samples(place, place.made("pprof", "hostile", "23"))
    same([v for v, _, _ in found], [[2, 2000, 2, 2000], [1, 0, 1, 0], [1, 50, 1, 50],
                                    [1, 60, 1, 60], [0, 0, 3, 300]])


def pprof_caches(place):
    """Caches and suppressed ones have labels to leave them out by."""
    content = place.made("pprof", "caches")
    found = samples(place, content)
    same([(labels.get("cache"), labels.get("suppressed")) for _, labels, _ in found],
         [(None, "libquiet"), ("PyTorch caching allocator", None), (None, None)])
    top = pprof(place, content, "-top", "-unit=B", "-tagignore=libquiet", "-tagignore=PyTorch")
    true("of 4196B total" in top or "of 100B total" in top, top)


def pprof_tensors(place):
    """Tensors take the place of their bytes in the block, whose rest has a leaf of its own."""
    content = place.made("pprof", "tensors")
    found = samples(place, content)
    same([(v, labels.get("trend")) for v, labels, _ in found],
         [([1, 2097152 - 104 * 512, 0, 0], None), ([0, 0, 1, 2097152], None), ([0, 0, 3, 300], None),
          ([100, 51200, 0, 0], "constant"), ([6, 2816, 0, 0], "accumulating")])
    same({labels["cache"] for _, labels, _ in found if "cache" in labels},
         {"PyTorch caching allocator"})
    raw = pprof(place, content, "-raw")
    for at, name in ((0, "cached, unused"), (1, "make"), (4, "train_step")):
        true(re.search(r"^ +%s: 0x[0-9a-f]+ (?:M=\d+ )?%s " % (found[at][2][0], name), raw, re.M),
             (name, raw))
    same(len(samples(place, place.made("pprof", "wild-tensors"))), 9)


def pprof_nothing(place):
    """Status 24: a profile without samples, with the verdict as its comment."""
    content = place.nothing("pprof")
    same(samples(place, content), [])
    true("gpuleak: gate has nothing to judge: " in pprof(place, content, "-comments"), "the verdict")


def pprof_ranks(place):
    """Several processes: a label names each."""
    found = samples(place, place.made("pprof", "ranks"))
    same([labels["process"] for v, labels, _ in found if v[1]], ["train (pid 11)"])


FOLDED = [folded_nothing, folded_tensors, folded_leaks, folded_clean, folded_peak, folded_errors, folded_hostile, folded_ranks]
PPROF = [pprof_nothing, pprof_tensors, pprof_leaks, pprof_peak, pprof_lines, pprof_errors,
         pprof_out_of_memory, pprof_clean, pprof_hostile, pprof_caches, pprof_ranks]
