# SPDX-License-Identifier: MIT
"""The guard: what is on, what it finds, and clean programs that it must not blame."""

from harness import compare, line_of
from stories import needs, one_line, reporting


@needs("clean")
def levels(place):
    """guard: the report lists the levels that are on; without the option it has none"""
    for value, want in (("copies", ["copies"]), ("pages,copies", ["copies", "pages"]),
                        ("off", None), (None, None)):
        env = {} if value is None else {"GPULEAK_GUARD": value}
        run = place.preloaded([place.program("clean")], reporting(place, **env))
        compare("status and stderr", (0, ""), (run.status, run.stderr))
        compare(value, want, place.json("report.json").get("guard", {}).get("levels"))


@needs("clean")
def bad_values(place):
    """guard: a value that is no list of levels is named once, and nothing is guarded"""
    for value in ("copy", "copies,", "copies,off", ""):
        run = place.preloaded([place.program("clean")], reporting(place, GPULEAK_GUARD=value))
        compare(value, (0, 1, True), (run.status, run.stderr.count("\n"), run.stderr.startswith(
            "gpuleak: bad value '%s' of GPULEAK_GUARD: expected is off, or a list" % value)))
        compare("guard", None, place.json("report.json").get("guard"))


@needs("clean")
def pool(place):
    """guard: it turns the pool off; a named pool is one warning, and 125 by gpuleak run"""
    run = place.preloaded([place.program("clean")], reporting(place, GPULEAK_GUARD="copies",
                                                              GPULEAK_POOL="fast"))
    compare("status and stderr", (0, "gpuleak: GPULEAK_GUARD turns the pool off: GPULEAK_POOL is "
                                  "ignored\n"), (run.status, run.stderr))
    compare("pool", (None, ["copies"]), (place.json("report.json").get("pool"),
                                         place.json("report.json")["guard"]["levels"]))
    for env, flags in (({}, ("--pool", "fast")), ({"GPULEAK_POOL": "strict"}, ())):
        run = place.command("run", "--guard", "copies", *flags, "--", place.program("clean"), env=env)
        compare("run", (125, 1), (run.status, run.stderr.count("\n")))
        compare("line", True, "--guard turns the pool off" in run.stderr)


def found(place, *words, env=None):
    """The accesses of the JSON report, and the calls' results."""
    run = place.preloaded([place.program("guard"), *words],
                          reporting(place, **{"GPULEAK_GUARD": "copies", **(env or {})}))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    return place.json("report.json")["errors"], run.stdout


OUT, FREED, GRAIN = "copy-out-of-bounds", "copy-after-free", 2 << 20
# Word, type, call, access, accessed bytes, marker of the innermost line, bytes of the block.
PLANTED = [("over", OUT, "cuMemsetD8_v2", "write", 1024, "set", 1000),
           ("read", OUT, "cuMemcpyDtoH_v2", "read", 8, "read", 1000),
           ("slack", OUT, "cuMemsetD8_v2", "write", 8, "set", 1000),
           ("before", OUT, "cuMemsetD8_v2", "write", 8, "set", 1000),
           ("end", OUT, "cuMemsetD8_v2", "write", 8, "set", 4096),
           ("nearer", OUT, "cuMemsetD8_v2", "write", 8, "set", 4096),
           ("mapped", OUT, "cuMemsetD8_v2", "write", 3 * GRAIN - 76, "set", 3 * GRAIN),
           ("freed", FREED, "cuMemsetD8_v2", "write", 100, "set", 2000),
           ("captured", OUT, "cuMemcpyHtoDAsync_v2", "write", 1024, "captured", 1000),
           ("node", OUT, "cuGraphAddMemsetNode", "write", 1024, "node", 1000),
           ("any-node", OUT, "cuGraphAddNode_v2", "write", 1024, "any", 1000),
           ("pinned", OUT, "cuMemcpyHtoD_v2", "read", 1024, "pinned", 1000)]


@needs("guard")
def planted(place):
    """guard: each planted access is one error, with its line and the allocation's"""
    for word, kind, api, access, size, marker, block in PLANTED:
        errors, out = found(place, word)
        compare(word, [(kind, api, access, size, block, 1)],
                [(e["type"], e["api"], e["access"], e["accessed_bytes"], e["allocated"]["bytes"],
                  e["count"]) for e in errors])
        lines = [f["line"] for f in errors[0]["stack"]]
        compare("line", line_of("guard.c", marker), lines[0])
        if kind == FREED:
            compare("free", line_of("guard.c", "free"), errors[0]["freed"]["stack"][0]["line"])
        bare = place.run([place.program("guard"), word])
        compare("output without gpuleak", bare.stdout, out)


@needs("guard")
def clean_twins(place):
    """guard: the same programs without the error, and what only looks like one"""
    for word in ("over-clean", "read-clean", "freed-clean", "captured-clean", "node-clean",
                 "pinned-clean", "reused", "captured-freed", "host", "mapped-clean", "variable",
                 "any-node-clean"):
        errors, _ = found(place, word)
        compare(word, [], errors)
        compare("checked", True, place.json("report.json")["guard"]["checks"] > 0)


@needs("guard")
def all_levels(place):
    """guard: copies finds the same beside the other levels, which change where blocks lie"""
    for word, size in (("freed", 2000), ("end", 4096), ("over", 1000)):
        errors, _ = found(place, word, env={"GPULEAK_GUARD": "copies,patterns,pages",
                                            "STANDIN_ASYNC": "1"})
        compare(word, [(FREED if word == "freed" else OUT, size)],
                [(e["type"], e["allocated"]["bytes"]) for e in errors
                 if e["type"].startswith("copy-")])


@needs("guard_tensors")
def tensors(place):
    """guard: a copy of a freed tensor in a live block of the cache, unless other memory is there"""
    for word, want in (("freed", [(FREED, "cuMemcpyDtoH_v2", 64 << 10)]), ("covered", []),
                       ("inside", []), ("captured", [])):
        run = place.preloaded([place.program("guard_tensors"), word],
                              reporting(place, GPULEAK_GUARD="copies"))
        compare("status and stderr", (0, "copy 0\n", ""), (run.status, run.stdout, run.stderr))
        errors = place.json("report.json")["errors"]
        compare(word, want, [(e["type"], e["api"], e["allocated"]["bytes"]) for e in errors])
        if want:
            compare("lines", [line_of("guard_tensors.c", "copy"), line_of("guard_tensors.c", "tensor")],
                    [next(f["line"] for f in stack if f["file"] and "guard_tensors" in f["file"])
                     for stack in (errors[0]["stack"], errors[0]["allocated"]["stack"])])
            run = place.command("run", "--guard", "copies", "--", place.program("guard_tensors"), word)
            compare("words", True, "read 1,000 bytes in a block that had been freed" in run.stderr)


@needs("guard")
def off(place):
    """guard: off, nothing is found, and lookups return the driver's own functions"""
    run = place.preloaded([place.program("guard"), "over", "freed", "export"], reporting(place))
    compare("output", "cuMemsetD8_v2 0\ncuStreamQuery 0\n", "\n".join(run.stdout.split("\n")[2:]))
    compare("errors", [], place.json("report.json")["errors"])
    _, out = found(place, "export")
    compare("on", "cuMemsetD8_v2 1\ncuStreamQuery 0\n", out)


@needs("guard")
def formats(place):
    """guard: every format that lists errors has an access, and the gate fails for it"""
    argv = ["--", place.program("guard"), "many"]
    run = place.command("run", "--gate", "--guard", "copies", *argv)
    compare("gate", 23, run.status)
    one_line(run.stderr, "gate failed: ", "2 accesses outside a block")
    one_line(run.stderr, "Guard (copies): 4 checks")
    for form, text in (("junit", "copy out of bounds"), ("sarif", '"copy-out-of-bounds"'),
                       ("github", "copy out of bounds"), ("html", "copy-out-of-bounds"),
                       ("openmetrics", 'type="copy-out-of-bounds"')):
        run = place.command("run", "--guard", "copies", "--format", form, *argv)
        compare(form, (0, True), (run.status, text in run.stderr))


GUARD = [levels, bad_values, pool, planted, clean_twins, all_levels, tensors, off, formats]
