# SPDX-License-Identifier: MIT
"""The first line of a report: which call is missing, and how many blocks of a line were freed."""

import re

from harness import compare
from stories import needs

MISSING = {
    "register": "4.0 KiB in 1 block never unregistered (cuMemHostUnregister missing), registered at "
                "register_host (",
    "runtime": "4.0 KiB in 1 block never unregistered (cudaHostUnregister missing), registered at ",
    "pin": "4.0 KiB in 1 block never freed (cuMemFreeHost missing), allocated at pin (",
    "array": "4.0 KiB in 1 block never freed (cuArrayDestroy missing), allocated at make_array (",
    "mipmapped": "4.0 KiB in 1 block never freed (cuMipmappedArrayDestroy missing), allocated at "
                 "make_mipmapped (",
    "pool": "0 bytes in 1 block never destroyed (cuMemPoolDestroy missing), created at make_pool (",
    "handle": "2.0 MiB in 1 block unmapped, but never released (cuMemRelease missing), allocated "
              "at create_on (",
    "unused": "2.0 MiB in 1 block never released (cuMemRelease missing), allocated at create_on (",
    "addresses": "0 bytes in 1 block never freed (cuMemAddressFree missing), reserved at reserve (",
    "import": "2.0 MiB in 1 block unmapped, but import never released (cuMemRelease missing), "
              "imported at import (",
    "some": "5.0 KiB in 5 of 10 blocks never freed, allocated at free_some (",
    "some-async": "2.0 KiB in 2 of 3 blocks never freed (cuMemFreeAsync missing), allocated at "
                  "free_some_async (",
}


def lines_of(place, program, *words):
    run = place.preloaded([place.program(program), *words])
    compare("status and output", (0, ""), (run.status, run.stdout))
    lines = run.stderr.split("\n\n")[0].split("\n")
    compare("columns", True, max(map(len, lines)) <= 160)
    return " ".join(lines).replace(" gpuleak: ", " ")


@needs("missing_calls")
def kinds(place):
    """first line: names the call that is missing, by the kind of memory and the API"""
    for story, words in MISSING.items():
        line = lines_of(place, "missing_calls", story)
        compare(story, "gpuleak: 1 leak, " + words, line[:len("gpuleak: 1 leak, " + words)])


@needs("missing_calls")
def several(place):
    """first line: leaks that need different calls; a mapping that is left"""
    line = lines_of(place, "missing_calls", "mapping")
    compare("mapping", True, line.startswith(
        "gpuleak: 2 leaks, 2.0 MiB in 2 blocks, most (2.0 MiB) never unmapped (cuMemUnmap missing), "
        "mapped at map (") or line)
    line = lines_of(place, "missing_calls", "two-kinds")
    compare("two kinds", True, line.startswith(
        "gpuleak: 2 leaks, 1.0 MiB in 2 blocks, most (1.0 MiB) never freed, allocated at "
        "two_kinds (") or line)
    line = lines_of(place, "missing_calls", "one-of-two")
    compare("one is still mapped", 0, line.count("unmapped"))


@needs("missing_calls")
def details(place):
    """first line: the paragraph of a leak names the missing call, too"""
    run = place.preloaded([place.program("missing_calls"), "handle"])
    compare("paragraph", 1, run.stderr.count(
        "\nLeak of 2,097,152 bytes (2.0 MiB) in 1 block (physical memory, cuMemCreate, device 0), "
        "unmapped, but never released (cuMemRelease missing), allocated at:\n"))


@needs("cl_released")
def parent(place):
    """first line: a sub-buffer names the released parent that it keeps, and its line"""
    run = place.preloaded([place.program("cl_released"), "parts"])
    text = run.stderr.replace("\ngpuleak: ", " ")
    compare("line", True, bool(re.match(
        r"gpuleak: 1 leak, 8\.0 KiB in 1 block never released \(clReleaseMemObject missing\), created at "
        r"parts \(\S+cl_released\.c:\d+\), called from main \(\S+\); it keeps its released parent of "
        r"8\.0 KiB, allocated at create \(", text)) or text)
    compare("paragraph", 1, text.count("  Keeps a released parent that was allocated at:\n    #0 "))


MISSING_CALLS = [kinds, several, details, parent]
