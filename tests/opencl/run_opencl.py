#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""OpenCL by every route: preloaded, as a layer of the loader, both at once; extension
addresses; several loaders. What a program prints stays as it was, what it did is in the
report exactly, and the three ways tell the same.

run_opencl.py GROUP --preload LIB --command EXE --standin DIR --programs DIR [--only TEXT]
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "routes"))

import run as routes  # noqa: E402
from run import (LEAK, Skip, case, differences, functions, judge, not_clean, ours,  # noqa: E402
                 program, run)

PAIR = 8192
routes.cases.clear()

WAYS = {  # environment, preloads
    "preload": (lambda: {}, True),
    "layer": (lambda: {"OPENCL_LAYERS": ours()}, False),
    "both": (lambda: {"OPENCL_LAYERS": ours()}, True),
}


def vendor(place, platforms=1, mode=None):
    """The environment in which the loader finds our implementation and no other."""
    folder = place.root / "vendors"
    folder.mkdir(exist_ok=True)
    (folder / "standin.icd").write_text(program("libcl-vendor.so") + "\n")
    env = {"OCL_ICD_VENDORS": str(folder), "CL_VENDOR_PLATFORMS": str(platforms)}
    if mode:
        env["CL_VENDOR"] = mode
    return env


def pocl(_place):
    return {}


def bare(place, command, env):
    result = run(place, command, env=env)
    if result.status == 77:
        raise Skip("no OpenCL platform")
    return result


def three_ways(place, command, env, check, clean=True):
    """CHECK of the report, by each way; the reports must be the same in what they say."""
    untraced = bare(place, command, env)
    problems, told = not_clean(untraced) if clean else [], {}
    for way, (more, preload) in WAYS.items():
        traced = run(place, command, preload=[ours()] if preload else [], env={**env, **more()})
        problems += [f"{way}: {p}" for p in differences(untraced, traced) + check(traced.report)]
        told[way] = essence(traced.report)
    for way in ("layer", "both"):
        if told[way] != told["preload"]:
            problems.append(f"{way} tells {told[way]}, the preload {told['preload']}")
    return problems


def stack(frames):
    """What a stack says of the program: we, or a loader before us, may have a frame in it."""
    return [f"{f.get('function')}:{f.get('line')}" for f in frames
            if not re.search(r"libOpenCL|libgpuleak", f.get("module") or "")]


def essence(report):
    """All of a report but what differs between two runs: times, addresses."""
    if not report or "summary" not in report:
        return report
    leaks = [[l["api"], l["kind"], l["device"], l["blocks"], l["bytes"], stack(l["stack"])]
             for l in report["leaks"]]
    errors = [[e["type"], e["api"], stack(e["stack"]), (e.get("allocated") or {}).get("api"),
               (e.get("freed") or {}).get("api")] for e in report["errors"]]
    return json.loads(json.dumps([report["summary"], leaks, errors, report.get("notes")]))


def story(group, name, told, platforms=vendor, arguments=(), **wanted):
    """One story of cl-memory by each way."""
    mode, count = wanted.pop("mode", None), wanted.pop("platforms_count", 1)
    note, refused = wanted.pop("note", None), wanted.pop("refused", [])

    def check(place):
        env = platforms(place) if platforms is pocl else vendor(place, count, mode)

        def judged(report):
            problems = judge(report, **wanted)
            notes = (report or {}).get("notes") or []
            if bool(notes) != bool(note) or (note and not any(note in n for n in notes)):
                problems.append(f"notes {notes}")
            seen = [(r["api"], r["count"], r["allocated"]["api"], r["freed_later"])
                    for r in (report or {}).get("refused_frees") or []]
            if seen != refused:
                problems.append(f"refused frees {seen}, not {refused}")
            return problems
        return three_ways(place, [program("cl-memory"), told, *map(str, arguments)], env, judged)
    routes.cases.append((group, name, check))


# ---- as a layer, with the preload, both ----

for where in (pocl, vendor):
    story("layer", f"buffers and SVM, {where.__name__}", "work", where,
          allocated=(3, LEAK + 2 * PAIR),
          leaks=[("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")])
story("layer", "a second release", "twice", allocated=(1, PAIR), leaks=[], errors=["double-free"])
story("layer", "a callback inside clCreateBuffer calls back in", "callback",
      allocated=(3, LEAK + PAIR + 13),
      leaks=[("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")])
story("layer", "the implementation calls its own exported names", "work", mode="self",
      allocated=(3, LEAK + 2 * PAIR),
      leaks=[("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")])
story("layer", "... and a second release there", "twice", mode="self",
      allocated=(1, PAIR), leaks=[], errors=["double-free"])


def on_pocl(told, **wanted):
    @case("layer", f"{told}, pocl")
    def check(place):
        route = pathlib.Path(program("cl-memory")).parent.parent / "routes" / "routes-cl-linked"
        return three_ways(place, [str(route), "linked", told], {},
                          lambda report: judge(report, **wanted))
    return check


on_pocl("sub-buffer", allocated=(2, PAIR + 4096), leaks=[])
on_pocl("context first, lost", allocated=(1, PAIR),
        leaks=[("clCreateBuffer", "cl-buffer", 1, PAIR, "make")])
on_pocl("retained", allocated=(1, PAIR), leaks=[("clCreateBuffer", "cl-buffer", 1, PAIR, "make")])


@case("layer", "a kernel by python3 with PyOpenCL")
def kernel(place):
    script = pathlib.Path(routes.__file__).resolve().parent / "kernel.py"
    # Debian 13's PyOpenCL warns if a package is missing that its own one only recommends.
    command = [routes.PYTHON, "-W", "ignore", str(script)]
    if subprocess.run([routes.PYTHON, "-c", "import pyopencl; pyopencl.get_platforms()"],
                      check=False, stderr=subprocess.DEVNULL).returncode:
        raise Skip("no PyOpenCL, or no platform")
    run(place, command)  # fills the caches
    return three_ways(place, command, {}, lambda report: judge(report, (2, 8000), []))


def unseen(way, name, layer_only):
    """A plugin that no preload sees comes by the layer; by both as well, once."""
    @case("layer", name)
    def check(place):
        command = [program("cl-opener"), way, "work", "0", program("libcl-plugin.so")]
        env = vendor(place)
        untraced = bare(place, command, env)
        problems = not_clean(untraced)
        for how in ("layer",) if layer_only else ("layer", "both"):
            more, preload = WAYS[how]
            traced = run(place, command, preload=[ours()] if preload else [],
                         env={**env, **more()})
            problems += [f"{how}: {p}" for p in differences(untraced, traced) + judge(
                traced.report, (3, LEAK + 2 * PAIR),
                [("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")])]
        return problems
    return check


unseen("local", "a plugin opened RTLD_LOCAL, the loader with it", False)
unseen("deepbind", "a plugin opened RTLD_DEEPBIND", False)
unseen("namespace", "a plugin in a namespace of its own", True)


@case("layer", "a loader under another name, with the layer")
def copied_loader(place):
    """The system's loader as wheels bring it: only the layer sees direct calls into it."""
    folder = place.root / "bundled"
    folder.mkdir(exist_ok=True)
    for path in ("/usr/lib", "/lib", "/usr/lib64"):
        found = sorted(pathlib.Path(path).rglob("libOpenCL.so.1"))
        if found:
            break
    else:
        raise Skip("no libOpenCL.so.1")
    loader = folder / "libOpenCL-5519dec5.so.1.0.0"
    shutil.copy(found[0], loader)
    command = [str(pathlib.Path(program("cl-opener")).parent.parent / "routes" / "routes-cl"),
               "path", "work", str(loader)]
    return three_ways(place, command, vendor(place), lambda report: judge(
        report, (2, LEAK + PAIR), [("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")]))


@case("layer", "the layer is another copy of what is preloaded")
def other_copy(place):
    copy = place.root / "libgpuleak.so"
    shutil.copy(ours(), copy)
    command, env = [program("cl-memory"), "work"], vendor(place)
    untraced = bare(place, command, env)
    traced = run(place, command, preload=[ours()], env={**env, "OPENCL_LAYERS": str(copy)})
    return not_clean(untraced) + differences(untraced, traced) + judge(
        traced.report, (3, LEAK + 2 * PAIR),
        [("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")])


@case("layer", "_exit is not seen by a layer: the ledger stays for gpuleak report")
def underscore_exit(place):
    ledger = place.root / "ledger"
    traced = run(place, [program("cl-memory"), "_exit"],
                 env={**vendor(place), "OPENCL_LAYERS": ours(), "GPULEAK_LEDGER": str(ledger)})
    told = subprocess.run([routes.options.command, "report", "--format", "json", str(ledger)],
                          stdout=subprocess.PIPE, check=False).stdout
    problems = [f"status {traced.status}"] if traced.status != 4 else []
    problems += ["a report at the end"] if traced.report or traced.err else []
    return problems + judge(json.loads(told), (1, LEAK),
                            [("clCreateBuffer", "cl-buffer", 1, LEAK, "leak_here")])


@case("layer", "no GPU call, no report")
def silent(place):
    traced = run(place, ["/bin/true"], env={"OPENCL_LAYERS": ours()})
    return [f"{traced}"] if traced.report or traced.err or traced.left else []


# ---- out of memory ----

for way, (more, preload) in WAYS.items():
    def out_of_memory(place, more=more, preload=preload):
        traced = run(place, [program("cl-memory"), "pool full"],
                     preload=[ours()] if preload else [],
                     env={**vendor(place), **more(), "CL_VENDOR_ROOM": str(3 * PAIR)})
        seen = [(e["api"], e["requested_bytes"], e["outcome"], e["refused_by"], e["times"],
                 e["free_bytes"], [(h["kind"], h["bytes"], h["blocks"]) for h in e["holders"]])
                for e in (traced.report or {}).get("out_of_memory", [])]
        wanted = [("clCreateBuffer", 2 * PAIR, "tolerated", "driver", 1, None,
                   [("cl-buffer", 2 * PAIR, 1)])]
        return [] if seen == wanted else [f"{seen}, not {wanted}"]
    routes.cases.append(("layer", f"out of memory: the holders, {way}", out_of_memory))


# ---- the pool of buffers: a driver whose commands hold none, so that only tickets tell ----

def pooled(name, told, lines, counts, mode=None, room=None):
    """What the application sees with the pool, and what the pool says it did."""
    for how in ("fast", "strict"):
        for way, (more, preload) in WAYS.items():
            def check(place, how=how, more=more, preload=preload):
                env = {**vendor(place, mode=mode), **more(), "GPULEAK_POOL": how}
                if room:
                    env["CL_VENDOR_ROOM"] = str(room)
                traced = run(place, [program("cl-memory"), told],
                             preload=[ours()] if preload else [], env=env)
                out = traced.out.decode().splitlines()
                problems = [f"status {traced.status}"] if traced.status else []
                problems += [f"no line {line!r} in {out}" for line in lines if line not in out]
                pools = ((traced.report or {}).get("pool") or {}).get("pools") or [{}]
                got = {key: pools[0].get(key) for key in counts}
                return problems + ([f"counted {got}, not {counts}"] if got != counts else [])
            routes.cases.append(("pool", f"{name}, {how}, {way}", check))


pooled("a buffer is handed out when every queue is done", "pool pending",
       ["both have work: another", "the second has: another", "none has: the same",
        "one is gone: another", "both are: the same"],
       {"hits": 2, "native_allocations": 4, "frees": 2, "not_pooled": {}})
pooled("a marker that fails: the buffer goes back", "pool broken",
       ["its marker failed: another", "again: -38"],
       {"hits": 0, "native_allocations": 2, "trimmed_blocks": 1, "native_frees": 1}, mode="broken")
pooled("no markers: nothing is kept", "pool broken", ["its marker failed: another", "again: -38"],
       {"hits": 0, "native_allocations": 2, "frees": 0, "native_frees": 1,
        "not_pooled": {"queues": 1}}, mode="no markers")
pooled("out of memory: all is given back, and it works", "pool full", ["create: 0", "full: 0"],
       {"hits": 0, "native_allocations": 4, "trimmed_blocks": 3, "rescued": 1},
       room=3 * PAIR)


# ---- unified shared memory and other extensions ----

USM = [("clHostMemAllocINTEL", "cl-usm", 1, LEAK, "make_usm"),
       ("clDeviceMemAllocINTEL", "cl-usm", 1, LEAK + 1, "leak_usm"),
       ("clSharedMemAllocINTEL", "cl-usm", 1, LEAK + 2, "leak_usm")]
for how, arguments in (("by name", (0, "name")), ("by platform", (0,))):
    story("usm", f"leaked, {how}", "usm lost", arguments=arguments,
          allocated=(3, 3 * LEAK + 3), leaks=USM)
    story("usm", f"freed, {how}", "usm", arguments=arguments, allocated=(4, 4 * PAIR), leaks=[])
    story("usm", f"freed twice, {how}", "usm twice", arguments=arguments,
          allocated=(1, PAIR), leaks=[], errors=["double-free"])
story("usm", "invalid frees", "usm wrong", allocated=(3, 3 * PAIR), leaks=[], freed=3,
      errors=["interior-free", "invalid-free", "mismatched-free", "mismatched-free"])
story("usm", "a refused free keeps its block", "usm refused", mode="refuse",
      allocated=(1, PAIR), leaks=[], refused=[("clMemFreeINTEL", 1, "clHostMemAllocINTEL", True)])
story("usm", "... which may be lost", "usm refused, lost", mode="refuse",
      allocated=(1, PAIR), leaks=[("clHostMemAllocINTEL", "cl-usm", 1, PAIR, "make_usm")],
      refused=[("clMemFreeINTEL", 1, "clHostMemAllocINTEL", False)])
story("usm", "eight threads", "usm threads", allocated=(8003, 8000 * 64 + 3 * LEAK + 3), leaks=USM)
story("usm", "platform 1 of 4", "usm lost", arguments=(1,), platforms_count=4,
      allocated=(3, 3 * LEAK + 3), leaks=USM)
story("usm", "four platforms, each with its own functions", "usm everywhere", platforms_count=4,
      allocated=(8, 4 * (LEAK + PAIR)),
      leaks=[("clHostMemAllocINTEL", "cl-usm", 4, 4 * LEAK, "make_usm")])
story("usm", "ten platforms: eight are seen, of the others it is said", "usm everywhere",
      platforms_count=10, allocated=(16, 8 * (LEAK + PAIR)),
      leaks=[("clHostMemAllocINTEL", "cl-usm", 8, 8 * LEAK, "make_usm")],
      note="does not know")
story("usm", "other creators of objects, released", "creators",
      allocated=(10, PAIR + LEAK), leaks=[])
story("usm", "other creators of objects, lost", "creators lost", allocated=(10, PAIR + LEAK),
      leaks=[(api, kind, 1, size, "creators") for api, kind, size in (
          ("clCreateFromGLBuffer", "cl-buffer", 0), ("clCreateFromGLTexture", "cl-image", 0),
          ("clCreateFromGLTexture2D", "cl-image", 0), ("clCreateFromGLTexture3D", "cl-image", 0),
          ("clCreateFromGLRenderbuffer", "cl-image", 0),
          ("clCreateFromEGLImageKHR", "cl-image", 0), ("clCreateFromEGLImageKHR", "cl-image", 0),
          ("clCreateBufferWithPropertiesINTEL", "cl-buffer", PAIR),
          ("clCreateBufferNV", "cl-buffer", LEAK), ("clImportMemoryARM", "cl-buffer", 0))])
story("usm", "SVM of other names, freed, one twice", "svm", allocated=(2, LEAK + PAIR),
      leaks=[], errors=["double-free"])
story("usm", "SVM of other names, lost", "svm lost", allocated=(2, LEAK + PAIR),
      leaks=[("clSVMAllocWithPropertiesKHR", "cl-svm", 1, LEAK, "other_svm"),
             ("clSVMAllocARM", "cl-svm", 1, PAIR, "other_svm")])


@case("usm", "a second free is on file before the driver dies of it")
def dies(place):
    problems = []
    for way, (more, preload) in WAYS.items():
        ledger = place.root / f"ledger-{way}"
        traced = run(place, [program("cl-memory"), "usm twice"], preload=[ours()] if preload else [],
                     env={**vendor(place, mode="die"), **more(), "GPULEAK_LEDGER": str(ledger)})
        if traced.status != -signal.SIGKILL:
            problems.append(f"{way}: status {traced.status}")
        told = subprocess.run([routes.options.command, "report", "--format", "json", str(ledger)],
                              stdout=subprocess.PIPE, check=False).stdout
        errors = [e["type"] for e in json.loads(told)["errors"]]
        if errors != ["double-free"]:
            problems.append(f"{way}: {errors}")
    return problems


# ---- several loaders ----

def of_any_device(report):
    """The report with one leak per stack. The handle of a device is an address in its loader: where a
    loader lies elsewhere when it is opened again, its device has another number."""
    leaks = {}
    for leak in (report or {}).get("leaks", []):
        first = leaks.setdefault(json.dumps(leak["stack"]), {**leak, "blocks": 0, "bytes": 0})
        first["blocks"] += leak["blocks"]
        first["bytes"] += leak["bytes"]
    return report and {**report, "leaks": list(leaks.values())}


def loaders(name, way, first, second, rounds=1):
    @case("loaders", name)
    def check(place):
        command = [program("cl-opener"), way, "", "0",
                   program(f"libcl-caller1-{first}.so"), program(f"libcl-caller2-{second}.so")]
        untraced = run(place, command)
        traced = run(place, command, preload=[ours()])
        problems = not_clean(untraced) + differences(untraced, traced)
        if b"was given" in untraced.out:
            problems.append("without the preload: the wrong loader")
        return problems + judge(
            of_any_device(traced.report), (4 * rounds, 2 * rounds * (LEAK + PAIR)),
            [("clCreateBuffer", "cl-buffer", blocks, blocks * LEAK, "leak_here")
             for blocks in ([rounds] * 2)])
    return check


for one in ("linked", "handle"):
    for other in ("linked", "handle"):
        loaders(f"two in one process, {one} and {other}", "local", one, other)
loaders("two, closed and opened again", "reopen", "linked", "linked", 3)
loaders("two, closed and opened again, by handle", "reopen", "handle", "handle", 3)


@case("loaders", "two, opened, called and closed by eight threads")
def storm(place):
    command = [program("cl-opener"), "threads", "", "0"] + [
        program(f"libcl-caller{tag}-{way}.so") for tag in "12" for way in ("linked", "handle")]
    untraced, traced = run(place, command), run(place, command, preload=[ours()])
    problems = not_clean(untraced)
    for result in (untraced, traced):
        result.out = b"\n".join(sorted(result.out.splitlines()))
    report, stories = traced.report or {}, 8 * 40
    problems += differences(untraced, traced) + judge(
        report, (2 * stories, stories * (LEAK + PAIR)),
        [(leak["api"], leak["kind"], leak["blocks"], leak["bytes"], "leak_here")
         for leak in report.get("leaks", [])], freed=stories)
    if sum(leak["bytes"] for leak in report.get("leaks", [])) != stories * LEAK:
        problems.append(f"leaks {report.get('leaks')}")
    return problems


# ---- an implementation that destroys what is left when the process ends ----

WHOLE = 1 << 20
KINDS = {"buffer": ("clCreateBuffer", "cl-buffer", 1, WHOLE)}


def ending_vendor(place):
    """The environment of the implementation that ends as Intel's CPU runtime does, or of that
    runtime itself."""
    folder = place.root / "ending"
    folder.mkdir(exist_ok=True)
    vendor = os.environ.get("INTEL_OPENCL") or program("libcl-ending-vendor.so")
    (folder / "ending.icd").write_text(vendor + "\n")
    return {"OCL_ICD_VENDORS": str(folder)}


def judge_ending(report, wanted):
    """The leaks and sums, and what was freed after the driver had begun to shut down."""
    late = wanted.pop("late", [])
    problems = judge(report, **wanted)
    if not report or "summary" not in report:
        return problems
    got = [(entry["count"], entry["kind"], entry["allocated"]["api"],
            functions(entry["allocated"]["stack"])[:2])
           for entry in report.get("after_shutdown", [])]
    if got != late:
        problems.append(f"after_shutdown {got}, not {late}")
    sums = {"late_blocks": sum(entry[0] for entry in late), "unseen_blocks": None}
    got = {key: report["summary"].get(key) for key in sums}
    return problems + ([f"{got}, not {sums}"] if got != sums else [])


def ending(told, name, more=lambda place: [], same_as_exit=True, handler="1", **wanted):
    """One story of cl-ending, with and without a context that is left."""
    for keep in ([], ["k"]):
        def check(place, keep=keep):
            command = [program("cl-ending"), told] + (keep or ["-"]) + more(place)
            env = {**ending_vendor(place), "CL_ENDING_HANDLER": handler}
            untraced = bare(place, command, env)
            traced = run(place, command, preload=[ours()], env=env)
            problems = not_clean(untraced) + differences(untraced, traced)
            problems += judge_ending(traced.report, dict(wanted))
            if same_as_exit:
                left = run(place, command, preload=[ours()], env={**env, "CL_ENDING": "_exit"})
                if essence(left.report) != essence(traced.report):
                    problems.append(f"_exit tells {essence(left.report)}, exit "
                                    f"{essence(traced.report)}")
            gate = run(place, [str(routes.options.command), "run", "--gate", "--"] + command,
                       env={**env, "GPULEAK_REPORT": "none"})
            status = 23 if wanted["leaks"] else 0
            if gate.status != status:
                problems.append(f"the gate ends with {gate.status}, not {status}: {gate.err}")
            return problems
        routes.cases.append(("ending", name + (", its context too" if keep else ""), check))


def copy_of_vendor(place):
    """An implementation that the program itself opens and closes."""
    return [shutil.copy(program("libcl-ending-vendor.so"), place.root / "libother.so")]


for told, name, function in (("plain", "a buffer is left", "do_story"),
                             ("callback", "... with a callback of the program", "do_story"),
                             ("retain", "a reference is left", "leave_reference")):
    ending(told, name, allocated=(1, WHOLE), leaks=[KINDS["buffer"] + (function,)])
    ending(told, name + ", the driver has a destructor only", handler="0",
           allocated=(1, WHOLE), leaks=[KINDS["buffer"] + (function,)])
ending("image", "an image is left", allocated=(1, 16384),
       leaks=[("clCreateImage", "cl-image", 1, 16384, "leave_image")])
ending("sub", "a sub-buffer is left, and keeps its buffer", allocated=(2, WHOLE + 4096), freed=0,
       leaks=[("clCreateSubBuffer", "cl-sub-buffer", 1, 4096, "leave_part")])
ending("map", "a mapping is left of a released buffer", allocated=(1, WHOLE),
       leaks=[KINDS["buffer"] + ("leave_mapping",)])
ending("unmap", "unmaps may wait in the queue", same_as_exit=False, allocated=(2, 2 * WHOLE),
       leaks=[], freed=None)
ending("copy", "... and copies", same_as_exit=False, allocated=(2, 8 * WHOLE), leaks=[],
       freed=None)
ending("before", "an exit handler releases before the driver ends", same_as_exit=False,
       allocated=(1, WHOLE), leaks=[])
ending("closed", "... and another driver was closed before", copy_of_vendor, same_as_exit=False,
       allocated=(1, WHOLE), leaks=[])
ending("after", "an exit handler releases after the driver has begun to end", same_as_exit=False,
       allocated=(1, WHOLE), leaks=[], late=[(1, "cl-buffer", "clCreateBuffer",
                                              ["do_story", "main"])])
ending("plugin", "a destructor releases what the driver has destroyed",
       lambda place: [program("libcl-ending-plugin.so")], same_as_exit=False,
       allocated=(1, WHOLE), leaks=[], late=[(1, "cl-buffer", "clCreateBuffer",
                                              ["hand_over", "do_story"])])


@case("ending", "a free that nothing explains fails the gate, which names the number")
def unexplained(place):
    command, env = [program("cl-ending"), "unseen"], ending_vendor(place)
    traced = run(place, command, preload=[ours()], env=env)
    problems = differences(bare(place, command, env), traced)
    problems += judge(traced.report, (1, WHOLE), [], freed=0)
    if ((traced.report or {}).get("summary") or {}).get("unseen_blocks") != 1:
        problems.append(f"{(traced.report or {}).get('summary')}")
    gate = run(place, [str(routes.options.command), "run", "--gate", "--"] + command,
               env={**env, "GPULEAK_REPORT": "stderr", "GPULEAK_FORMAT": "text"})
    wanted = b"was not recorded completely: 1 block was freed by unseen calls"
    if gate.status != 23 or not re.search(b"^gpuleak: gate failed: .*" + wanted, gate.err, re.M):
        problems.append(f"the gate ends with {gate.status}: {gate.err}")
    return problems


LEAK_UNSEEN = ("clCreateBuffer", "cl-buffer", 1, WHOLE, "release_unseen")


@case("ending", "a buffer that nothing used and that is released unseen counts as a leak")
def unexplained_unused(place):
    command, env = [program("cl-ending"), "unused"], ending_vendor(place)
    traced = run(place, command, preload=[ours()], env=env)
    return (differences(bare(place, command, env), traced) +
            judge(traced.report, (1, WHOLE), [LEAK_UNSEEN], freed=0))


if __name__ == "__main__":
    sys.exit(routes.main())
