# SPDX-License-Identifier: MIT
"""GPULEAK_GUARD=patterns: a write beside a block, or after its free, by a kernel or a memset, is
reported with its place, and a correct program gets the same results and no error."""

from harness import compare, frame_text, line_of
from stories import reporting

BLOCK = 1000


def found(error, source):
    """What matters of an error: type, place beside the block, bytes, call, stacks."""
    def stack_of(stack):
        return [text for text in (frame_text(frame, source) for frame in stack) if text]
    distance = int(error["address"], 16) - int(error["block_address"], 16)
    return (error["type"], distance, error["accessed_bytes"], error["api"],
            stack_of(error["allocated"]["stack"])[-2].partition("@")[0],
            stack_of((error["freed"] or {}).get("stack", []))[:1])


def story(program, name, wanted, text, alike=True, blocks=1, unguarded=None, **env):
    """WANTED: (type, distance, bytes, call[, first frame of the free]) of each error."""
    def run_story(place):
        argv = [place.program(program), name]
        run = place.preloaded(argv, reporting(place, GPULEAK_GUARD="patterns", STANDIN_ASYNC="3",
                                              **env))
        if alike and not wanted:
            bare = place.run(argv, {"STANDIN_ASYNC": "3"})
            compare("as without a guard", (bare.status, bare.stdout), (run.status, run.stdout))
        compare("status and stderr", (0, ""), (run.status, run.stderr))
        report = place.json("report.json")
        if wanted is None:
            return
        compare("errors", [(*row[:4], name, list(row[4:])) for row in wanted],
                [found(error, program + ".c") for error in report["errors"]])
        compare("guarded", (["patterns"], True),
                (report["guard"]["levels"], report["guard"]["guarded_blocks"] >= blocks))
        if unguarded is not None:
            compare("not guarded", unguarded, {row["reason"]: row["blocks"]
                                               for row in report["guard"]["unguarded"]})
        if wanted:
            run = place.command("run", "--gate", "--guard", "patterns", "--", *argv,
                                env={"STANDIN_ASYNC": "3", **env})
            compare("the gate", 23, run.status)
    run_story.__doc__ = "guard patterns: " + text
    run_story.needs = program
    GUARD_PATTERNS.append(run_story)


def suspects_of(error):
    """The calls that may have written: (call, kernel, count, whether it got an address)."""
    return [(one["api"], one.get("kernel"), one["count"], one["given_address"])
            for one in error["suspects"]]


def suspects(program, name, wanted, found_bytes, calls, lines, needs_async=True):
    """WANTED: the suspects of the one error, LINES: the markers of their innermost lines."""
    def run_suspects(place):
        env = {"STANDIN_ASYNC": "3"} if needs_async else {}
        argv = [place.program(program), name]
        place.preloaded(argv, reporting(place, GPULEAK_GUARD="patterns", **env))
        error, = place.json("report.json")["errors"]
        compare("suspects", wanted, suspects_of(error))
        compare("all calls", calls, error["calls_since_check"])
        pattern = "fb7f" * 9
        begin = int(error["address"], 16) % 2 * 2
        compare("bytes", (pattern[begin:begin + len(found_bytes)], found_bytes),
                (error["wanted_bytes"], error["found_bytes"]))
        compare("lines", [line_of(program + ".c", marker) for marker in lines],
                [one["stack"][0]["line"] for one in error["suspects"]])
        run = place.command("run", "--guard", "patterns", "--", *argv, env=env)
        compare("text", True, "%s may have written it:" % (
            "1 call" if calls == 1 else "%d calls" % calls) in run.stderr)
        compare("bytes in the text", True, ", found %s" % " ".join(
            found_bytes[at:at + 2] for at in range(0, len(found_bytes), 2)) in run.stderr)
        compare("SARIF", True, "may have written it" in place.command(
            "run", "--guard", "patterns", "--format", "sarif", "--", *argv, env=env).stderr)
    run_suspects.__doc__ = "guard patterns: the calls that may have written: " + program + " " + name
    run_suspects.needs = program
    GUARD_PATTERNS.append(run_suspects)


GUARD_PATTERNS = []
OUT, FREED = "write-out-of-bounds", "write-after-free"
FREE, WAIT = "cuMemFree_v2", "cuCtxSynchronize"
DROPPED = "drop@drop"


def cuda(name, wanted, text, **more):
    story("guard_patterns", name, wanted, text, **more)
    if name != "pushed_out":  # it ends by _exit() with frees on the way
        story("guard_patterns", name, wanted, text + ", if no free waits", GPULEAK_GUARD_WAIT="0",
              **more)


cuda("behind_clean", [], "a write up to the last byte of a block is no error")
cuda("fresh", [], "fresh memory holds the pattern", alike=False)
cuda("inside", None, "a free of an address in a pattern, or inside a block, is refused")
cuda("twice", None, "a second free of a block that is held back is refused")
cuda("queries", [], "the driver's queries give the application's size and begin", alike=False,
     blocks=3)
cuda("full", [], "all of a device can be allocated: a block is unguarded before it fails",
     STANDIN_MEMORY=str(1 << 30))
cuda("after_free_clean", [], "a block that nobody writes after its free is no error")


cuda("behind_1", [(OUT, BLOCK, 1, FREE)], "one byte behind a block")
cuda("behind_16", [(OUT, BLOCK, 16, FREE)], "16 bytes behind a block")
cuda("behind_at_16", [(OUT, BLOCK + 16, 1, FREE)], "one byte, 16 bytes behind a block")
cuda("behind_256", [(OUT, BLOCK, 256, FREE)], "256 bytes behind a block")
cuda("by_kernel", [(OUT, BLOCK, 4, FREE)], "a kernel writes behind its block")
cuda("before", [(OUT, -4, 4, FREE)], "before a block")
cuda("before_next", [(OUT, -4, 4, FREE)], "before a block that has no pattern before it", blocks=3)
cuda("at_exit", [(OUT, BLOCK, 1, WAIT)], "of a block that is never freed")
cuda("at_wait", [(OUT, BLOCK, 1, WAIT)], "found where the program waits, and reported once")
cuda("at_step", [(OUT, BLOCK, 1, "cuMemAlloc_v2")], "found at a step")
cuda("after_free", [(FREED, 100, 4, WAIT, DROPPED)], "a kernel writes to a freed block")
cuda("pushed_out", [(FREED, 0, 4, FREE, DROPPED)], "found when the freed block makes room",
     blocks=9, GPULEAK_GUARD_HOLD="4KiB")


LAUNCH, SET = "cuLaunchKernel", "cuMemsetD8Async"
suspects("guard_patterns", "behind_1", [(SET, None, 1, True), (LAUNCH, "gl_fill", 1, True)], "07", 2,
         ["set", "launch"])
suspects("guard_patterns", "after_free", [(LAUNCH, "gl_fill", 1, True)], "07000000", 1, ["launch"])
suspects("guard_patterns", "many", [(SET, None, 1, True), (LAUNCH, "gl_fill", 3, False)], "07", 4,
         ["set", "launch"])
suspects("guard_patterns", "waited", [(SET, None, 1, True)], "07", 1, ["set"])


def opencl(name, wanted, text, **more):
    story("cl_guard", name, wanted, text, **more)


FINISH, RELEASE = "clFinish", "clReleaseMemObject"

opencl("behind_clean", [], "OpenCL: up to the last byte of a buffer is no error")
opencl("copied", [], "OpenCL: a buffer with initial data has its data and its size", blocks=2)
opencl("released_early", [], "OpenCL: commands before a release are correct", blocks=2)
opencl("parts", [], "OpenCL: a part keeps its buffer alive")
opencl("callback", [], "OpenCL: a destructor callback is called at the release")
opencl("waiting", [], "OpenCL: a command that waits for the host stops no release", blocks=2)
opencl("refused", [], "OpenCL: a call that fails makes no block that is not guarded", unguarded={})
opencl("busy", [], "OpenCL: a device that fills no buffer in time is the reason",
       unguarded={"the device was busy for too long": 1})
opencl("behind_1", [(OUT, BLOCK, 1, FINISH)], "OpenCL: one byte behind a buffer")
opencl("behind_16", [(OUT, BLOCK, 16, FINISH)], "OpenCL: 16 bytes behind a buffer")
opencl("behind_256", [(OUT, BLOCK + 255, 1, FINISH)], "OpenCL: 256 bytes behind a buffer")
opencl("at_release", [(OUT, BLOCK, 1, RELEASE)], "OpenCL: found at the release")
opencl("at_exit", [(OUT, BLOCK, 1, FINISH)], "OpenCL: of a buffer that is never released")
opencl("properties", [(OUT, BLOCK, 1, FINISH)], "OpenCL: one made with an empty list of properties")
suspects("cl_guard", "behind_1", [("clEnqueueNDRangeKernel", "put", 1, False)], "07", 1, ["launch"], False)
suspects("cl_guard", "twice", [("clEnqueueNDRangeKernel", "put", 1, False)], "07", 1, ["launch"], False)
suspects("cl_guard", "at_release", [("clEnqueueNDRangeKernel", "put", 1, False)], "07", 1, ["launch"],
         False)


def beyond(place):
    """guard patterns: OpenCL: calls beyond a buffer return what they return without a guard, and
    each is an error"""
    argv = [place.program("cl_guard"), "beyond"]
    bare = place.run(argv)
    for levels in ("patterns", "copies,patterns"):
        run = place.preloaded(argv, reporting(place, GPULEAK_GUARD=levels))
        compare("as without a guard", (bare.status, bare.stdout, ""),
                (run.status, run.stdout, run.stderr))
        errors = place.json("report.json")["errors"]
        compare("errors", [("copy-out-of-bounds", BLOCK)] * 7,
                [(error["type"], error["allocated"]["bytes"]) for error in errors])
    compare("refused and not", [True, False], ["-30" in line for line in bare.stdout.splitlines()])


beyond.needs = "cl_guard"
GUARD_PATTERNS.append(beyond)


def without_memory(place):
    """guard patterns: a driver whose memory holds nothing: no block is guarded, and no error"""
    place.preloaded([place.program("guard_patterns"), "behind_clean"],
                    reporting(place, GPULEAK_GUARD="patterns"))
    report = place.json("report.json")
    compare("errors and guarded blocks", ([], 0),
            (report["errors"], report["guard"]["guarded_blocks"]))
    compare("blocks that are not guarded", 1, sum(row["blocks"] for row in
                                                  report["guard"]["unguarded"]))


without_memory.needs = "guard_patterns"
GUARD_PATTERNS.append(without_memory)

FAMILIES = {"guard-patterns": GUARD_PATTERNS}
