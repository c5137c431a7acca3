# SPDX-License-Identifier: MIT
"""Frameworks' caches and whose code a frame is: an application on libraries that have
frameworks' names. What a cache holds is told, summed and no leak; the same framework without
its cache leaks; whoever calls a library decides whose its memory is; a user's rules win."""

import re

from harness import Case, Leak, compare
from stories import gate, lines_of_ours, needs, one_line

ALLOC = "cuMemAlloc_v2"
NATIVE = "c10::cuda::CUDACachingAllocator::Native::"
TENSOR = [NATIVE + "NativeCachingAllocator::allocate@rules_c10.cpp:%s",
          "at::empty@rules_torch.cpp:empty", "train@train_%s", "main@main"]


def tensor(frame, how, inner):
    return [inner, TENSOR[0] % frame, TENSOR[1], TENSOR[2] % how, TENSOR[3]]


CACHED = Leak(ALLOC, 4 << 20, tensor(
    "cached", "cached", NATIVE + "DeviceCachingAllocator::malloc@rules_c10.cpp:segment"))
UNCACHED = Leak(ALLOC, 5000, tensor(
    "allocate", "uncached", NATIVE + "uncached_allocate@rules_c10.cpp:uncached"))
MATMUL = Leak(ALLOC, 8192, ["cublasCreate_v2@rules_cublas.cpp:workspace",
                            "at::matmul@rules_torch.cpp:matmul", "train@train_matmul",
                            "main@main"])
HANDLE = Leak(ALLOC, 16384, ["cublasCreate_v2@rules_cublas.cpp:workspace",
                             "train@train_handle", "main@main"])
OWN = Leak(ALLOC, 777, ["own@own", "train@train_own", "main@main"])


def case(name, *words, leaks=(), cached=()):
    blocks = list(leaks) + list(cached)
    return Case("caches: " + name, "rules", args=words, leaks=list(leaks), cached=list(cached),
                allocated=(len(words), sum(leak.bytes for leak in blocks)), freed=0,
                culprits=("train", "own"))


def told(place, *words, **env):
    """What one run of p_rules says on stderr, and its status."""
    run = place.preloaded([place.program("rules"), *words], env)
    compare("stdout", "", run.stdout)
    return run.status, run.stderr


@needs("rules")
def text(place):
    """caches in text: one line that tells them when clean, folded stacks else, whole with -v"""
    line = lines_of_ours(told(place, "cached", "matmul")[1])
    compare("lines", 1, len(line))
    compare("clean", True, re.fullmatch(
        r"gpuleak: no leaks: 2 blocks \(4\.0 MiB\) "
        r"allocated by p_rules \(pid \d+\), 0 freed, 1 held by the PyTorch caching allocator "
        r"\(4\.0 MiB\), 1 by the cuBLAS workspaces \(8\.0 KiB\); peak 4\.0 MiB, almost all of it "
        r"by the PyTorch caching allocator, at train\(char const\*\) \(\S+\)", line[0]) is not None or line[0])
    compare("a framework's stream is not in the line", False,
            "destroyed" in told(place, "cached", "stream")[1])
    compare("it is with -v", True, "\nNot released: 1 stream, made by cuStreamCreate at:\n"
            in told(place, "cached", "stream", GPULEAK_VERBOSE="1")[1])
    err = told(place, "uncached", "matmul")[1]
    one_line(err, "gpuleak: 1 leak, 4.8 KiB in 1 block never freed, allocated at train(char const*) (",
             "/rules.cpp:", ", called from main (")
    stack = [entry for entry in err.split("\n") if entry.startswith("    #")]
    compare("folded", 4, len(stack))
    compare("fold", True, re.fullmatch(
        r"    #0-#\d \d frames of (libcuda\.so\.1, )?libc10_cuda\.so", stack[0]) is not None
        or stack[0])
    compare("called", True, " at::empty(unsigned long, bool) " in stack[1])
    compare("own", True, " train(char const*) " in stack[2] and " main " in stack[3])
    one_line(err, "  cuBLAS workspaces: 8,192 bytes (8.0 KiB) in 1 block, at train(char const*)")
    err = told(place, "uncached", GPULEAK_VERBOSE="1")[1]
    one_line(err, NATIVE + "uncached_allocate(unsigned long) ")
    compare("no fold", [], re.findall(r"#\d+-#\d+", err))


@needs("rules")
def gates(place):
    """caches and the gate: outside by default, inside with --gate-caches 1, to the byte"""
    both = (4 << 20) + 8192
    for words, options, wanted in (
            (["cached", "matmul"], ["--gate"], 0),
            (["cached", "matmul"], ["--gate", "--gate-caches", "1"], 23),
            (["cached", "matmul"], ["--gate-caches", "1", "--max-leaked-bytes", str(both)], 0),
            (["cached", "matmul"], ["--gate-caches", "1", "--max-leaked-bytes", str(both - 1)],
             23),
            (["cached", "uncached"], ["--gate"], 23),
            (["cached", "uncached"], ["--max-leaked-bytes", "5000"], 0),
            (["cached", "uncached"], ["--max-leaked-bytes", "4999"], 23),
            (["handle"], ["--gate"], 23), (["matmul"], ["--gate"], 0)):
        compare(" ".join(options + words), wanted,
                gate(place, "rules", *options, args=words).status)
    for value, wanted in (("0", 0), ("1", 9)):
        compare("GPULEAK_GATE_CACHES=" + value, wanted, told(
            place, "cached", GPULEAK_GATE_CACHES=value, GPULEAK_EXITCODE="9")[0])


@needs("rules")
def own_rules(place):
    """--rules, GPULEAK_RULES: asked before what ships, for caches and for the headline"""
    path = place.write("rules", "# ours\ncache none function:c10::*\n"
                                "cache \"handles of ours\" function:cublasCreate_v2\n"
                                "application module:libc10_cuda.so\n")
    err = told(place, "cached", "handle", GPULEAK_RULES=path)[1]
    one_line(err, "gpuleak: 1 leak, 4.0 MiB in 1 block never freed, allocated at "
             "c10::cuda::...::Native::DeviceCachingAllocator::malloc (")
    err = told(place, "cached", GPULEAK_RULES=path, GPULEAK_VERBOSE="1")[1]
    one_line(err, "gpuleak: 1 leak, 4.0 MiB in 1 block never freed, allocated at " + NATIVE +
             "DeviceCachingAllocator::malloc(unsigned long) (")
    err = told(place, "cached", "handle", GPULEAK_RULES=path)[1]
    one_line(err, "allocated by p_rules", "1 held by the handles of ours (16.0 KiB)")
    compare("run", (23, 0), tuple(gate(place, "rules", "--gate", "--rules", path,
                                       args=[word]).status for word in ("cached", "handle")))
    place.preloaded([place.program("rules"), "cached"],
                    {"GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("ledger")})
    for options, wanted in (([], 0), (["--rules", path], 23), (["--gate-caches", "1"], 23)):
        compare("check %s" % options, wanted,
                place.command("check", *options, place.file("ledger")).status)


@needs("rules")
def bad_rules(place):
    """a rule file that does not parse: file:line, a usage status, and at exit no gate passes"""
    path = place.write("rules", "runtime module:a\nframe module:b\n")
    run = gate(place, "rules", "--rules", path, args=["cached"])
    compare("run", (125, ""), (run.status, run.stdout))
    one_line(run.stderr, "gpuleak: " + path + ":2: cannot read 'frame'")
    place.preloaded([place.program("rules"), "cached"],
                    {"GPULEAK_REPORT": "none", "GPULEAK_LEDGER": place.file("ledger")})
    for command in ("report", "check"):
        run = place.command(command, "--rules", path, place.file("ledger"))
        compare(command, (2, ""), (run.status, run.stdout))
        one_line(run.stderr, path + ":2: ")
    for name in (path, place.file("missing")):
        status, err = told(place, "cached", GPULEAK_RULES=name, GPULEAK_EXITCODE="9")
        compare("at exit", 9, status)
        one_line(err, "gpuleak: " + name)
        one_line(err, "1 held by the PyTorch caching allocator (4.0 MiB)")
        one_line(err, "note: the rules could not be read")


RULES = [
    case("segments of a caching allocator", "cached", "cached",
         cached=[Leak(ALLOC, 8 << 20, CACHED.stack, blocks=2)]),
    case("the same framework without its cache", "uncached", leaks=[UNCACHED]),
    case("a library that the framework called, and the application", "matmul", "handle",
         leaks=[HANDLE], cached=[MATMUL]),
    case("all at once", "own", "cached", "uncached", "matmul", leaks=[OWN, UNCACHED],
         cached=[CACHED, MATMUL]),
    text, gates, own_rules, bad_rules,
]
