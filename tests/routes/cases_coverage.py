# SPDX-License-Identifier: MIT
"""What a report says of the routes to the drivers and of what leads past the preload: exactly
these routes, these names, these gaps, and nothing where there is none."""

import json
import os
import pathlib
import re
import shutil
import subprocess

r = None  # run.py
COVER = {"GPULEAK_DEEPBIND": "cover"}


def coverage_of(result):
    return (result.report or {}).get("coverage") or {}


def wrong(what, wanted, got):
    return [] if wanted == got else [f"{what}: {got}, not {wanted}"]


def base(path):
    return os.path.basename(path)


def judge_coverage(result, routes, untracked=(), unclassed=(), out_of_reach=(), notes=()):
    """ROUTES: (api, route, modules). OUT_OF_REACH: (what, module). NOTES: part of each."""
    got = coverage_of(result)
    problems = wrong("routes", sorted(routes), sorted(
        (x["api"], x["route"], tuple(sorted(base(m) for m in x["modules"])))
        for x in got.get("routes", [])))
    problems += wrong("untracked", list(untracked), [x["symbol"] for x in got.get("untracked", [])])
    problems += wrong("unclassed", list(unclassed), [x["symbol"] for x in got.get("unclassed", [])])
    problems += wrong("out of reach", list(out_of_reach), [
        (x["what"], base(x["module"])) for x in got.get("out_of_reach", [])])
    found = (result.report or {}).get("notes", ["no report"])
    if len(found) != len(notes) or not all(part in note for part, note in zip(notes, found)):
        problems.append(f"notes: {found}, not {notes}")
    return problems


def with_folder(place):
    """The plugin with its own folder beside it, which no other path names."""
    folder = place.root / "plugin"
    (folder / "beside").mkdir(parents=True, exist_ok=True)
    shutil.copy(r.program("libroutes-bind-plugin.so"), folder)
    shutil.copy(r.program("libroutes-beside.so"), folder / "beside")
    return str(folder / "libroutes-bind-plugin.so")


def with_future(place):
    folder = place.root / "future"
    folder.mkdir(exist_ok=True)
    shutil.copy(r.program("libcuda-future.so"), folder / "libcuda.so.1")
    return {"LD_LIBRARY_PATH": str(folder)}


DLSYM = ("CUDA", "dlsym", ("routes-bind",))
OWN = (2, 4097 + 8193)      # what the program itself allocates


def lost(blocks):
    return [("cuMemAlloc_v2", "device", blocks, blocks * 4097, "leak_here")]


def leak_sums(report, blocks):
    """BLOCKS lost in leak_here, in the program and in the plugin: a stack each."""
    got = [(leak["api"], leak["blocks"]) for leak in (report or {}).get("leaks", [])]
    return wrong("leaks", [("cuMemAlloc_v2", 1)] * blocks, got)


def bind(place, how, plugin, *more, env=None, preload=None):
    command = [r.program("routes-bind"), how, plugin, *more]
    bare = r.run(place, command, env=env)
    traced = r.run(place, command, preload=preload or [r.ours()], env=env)
    return traced, r.not_clean(bare) + r.differences(bare, traced) + (
        [] if bare.out.count(b"worked") == (1 if how in ("vendor", "namespace") else 2)
        else [f"without the preload: {bare.out}"])


def plain_plugin(place):
    traced, problems = bind(place, "plain", r.program("libroutes-plugin.so"))
    return problems + leak_sums(traced.report, 2) + judge_coverage(
        traced, [DLSYM, ("CUDA", "linked", ("libroutes-plugin.so",))])


def deepbind_linked(place):
    problems = []
    for more in ((), ("close",)):
        traced, found = bind(place, "deepbind", r.program("libroutes-plugin.so"), *more)
        problems += found + r.judge(traced.report, OWN, lost(1)) + judge_coverage(
            traced, [DLSYM], out_of_reach=[("deepbind", "libroutes-plugin.so")],
            notes=["CUDA calls of"])
    return problems


def deepbind_lookup(place):
    problems = []
    for how in ("deepbind", "base"):
        traced, found = bind(place, how, with_folder(place))
        problems += found + r.judge(traced.report, OWN, lost(1)) + judge_coverage(
            traced, [DLSYM], out_of_reach=[("deepbind", "libroutes-bind-plugin.so")],
            notes=["GPULEAK_DEEPBIND=cover"])
    return problems


def deepbind_covered(place):
    plugin = with_folder(place)
    problems = []
    for other in (None, [r.ours(), r.program("libroutes-hook.so")],
                  [r.program("libroutes-hook.so"), r.ours()]):
        traced, found = bind(place, "deepbind", plugin, env=COVER, preload=other)
        problems += found + leak_sums(traced.report, 2) + judge_coverage(
            traced, [("CUDA", "dlsym", ("libroutes-bind-plugin.so", "routes-bind"))])
        if b"beside: 42" not in traced.out:
            problems.append(f"DT_RUNPATH: {traced.out}")
    traced, found = bind(place, "deepbind", r.program("libroutes-plugin.so"), env=COVER)
    return problems + found + leak_sums(traced.report, 2) + judge_coverage(
        traced, [DLSYM, ("CUDA", "linked", ("libroutes-plugin.so",))])


def deepbind_other(place):
    """A library that has nothing to do with GPUs may be opened as it likes."""
    command = [r.program("routes-bind"), "deepbind", r.program("libroutes-vendor-alike.so")]
    bare, traced = r.run(place, command), r.run(place, command, preload=[r.ours()])
    return r.differences(bare, traced) + judge_coverage(traced, [DLSYM])


def namespace(place):
    problems = []
    for more in ((), ("close",)):
        traced, found = bind(place, "namespace", r.program("libroutes-plugin.so"), *more)
        problems += found + r.judge(traced.report, OWN, lost(1)) + judge_coverage(
            traced, [DLSYM], out_of_reach=[("namespace", "libcuda.so.1")], notes=["dlmopen"])
    return problems


def vendor(place):
    traced, problems = bind(place, "vendor", r.program("libroutes-vendor.so"))
    problems += judge_coverage(traced, [DLSYM], out_of_reach=[("no-loader", "libroutes-vendor.so")],
                               notes=["OpenCL calls of"])
    traced, found = bind(place, "vendor", r.program("libroutes-vendor-alike.so"))
    return problems + found + judge_coverage(traced, [DLSYM])


def unknown_names(place):
    env, command = with_future(place), [r.program("routes-tables")]
    bare = r.run(place, command, env=env)
    traced = r.run(place, command, preload=[r.ours()], env=env)
    wanted = (b"known: 0, a table\nunknown: 0, a table\nrefused: 1, none\nno id: 1, none\n"
              b"in no table: 1\nnot exported: 0\nlibcuda.so.1: undefined symbol: cuMemHoardNot\n"
              b"by default: 0\n: undefined symbol: cuMemHoard\n"
              b"without a row: 1\nignored: 1\n"
              b"without memory: 1\nresolved: 1\n")
    problems = wrong("without the preload", wanted, bare.out) + r.not_clean(bare)
    problems += r.differences(bare, traced) + judge_coverage(
        traced, [("CUDA", "cuGetProcAddress", ("routes-tables",)),
                 ("CUDA", "dlsym", ("routes-tables",))],
        untracked=["cuLogicalEndpointCreate"], unclassed=["cuMemHoard", "cuMemSquirrel"],
        out_of_reach=[("export-table", "routes-tables")],
        notes=["cuGetExportTable", "cuLogicalEndpointCreate", "cuMemHoard, cuMemSquirrel"])
    reach = coverage_of(traced).get("out_of_reach", [{}])
    return problems + wrong("table", "00112233-4455-6677-8899-aabbccddeeff",
                            reach[0].get("subject"))


def wholesale(place):
    """As a CUDA runtime does: who asks for everything has not asked for anything."""
    traced = r.run(place, [r.program("routes-resolver")], preload=[r.ours()])
    got = coverage_of(traced)
    return wrong("notes", [], (traced.report or {}).get("notes")) + wrong(
        "asked for", [], [x for x in got.get("untracked", []) if x["asked_for"]])


def no_noise(place):
    traced = r.run(place, [r.program("routes-tables"), "plain"], preload=[r.ours()],
                   env=with_future(place))
    return judge_coverage(traced, [("CUDA", "dlsym", ("routes-tables",))])


def linked_gap(place):
    problems = []
    name = "cuLogicalEndpointCreate"
    for binding, argument, wanted in (("lazy", [], []), ("lazy", ["call"], [(name, True)]),
                                      ("now", [], [(name, False)]), ("now", ["call"], [(name, False)])):
        built = "routes-linked-gap-" + binding
        traced = r.run(place, [r.program(built), *argument], preload=[r.ours()])
        problems += judge_coverage(traced, [("CUDA", "linked", (built,))], [x for x, _ in wanted],
                                   notes=[name] if (name, True) in wanted else [])
        problems += wrong(binding, wanted, [(x["symbol"], x["asked_for"])
                                            for x in coverage_of(traced).get("untracked", [])])
    return problems


def later_variant(place):
    env = with_future(place)
    traced = r.run(place, [r.program("routes-future-user")], preload=[r.ours()], env=env)
    return judge_coverage(traced, [("CUDA", "cuGetProcAddress", ("routes-future-user",))],
                          unclassed=["cuMemAlloc_v3"], notes=["of a version", "cuMemAlloc_v3"])


def routes(place):
    problems = []
    for built, how, *found in (("routes-route", "cudart", "cuGetProcAddress"),
                               ("routes-route", "handle", "dlsym"),
                               ("routes-route-linked", "linked", "linked"),
                               ("routes-route-linked", "default", "dlsym", "linked"),
                               ("routes-route", "self", "dlsym")):
        traced = r.run(place, [r.program(built), how], preload=[r.ours()])
        problems += [f"{built} {how}: {p}" for p in judge_coverage(
            traced, [("CUDA", route, (built,)) for route in found])]
    return problems


def opencl_routes(place):
    problems = []
    for how, found in (("path", "dlsym"), ("extension", "extension")):
        traced = r.run(place, [r.program("routes-cl"), how, "work", r.cl_standin()],
                       preload=[r.ours()])
        wanted = {("OpenCL", found, ("routes-cl",)), ("OpenCL", "dlsym", ("routes-cl",))}
        problems += judge_coverage(traced, wanted)
    traced = r.run(place, [r.program("routes-cl-linked"), "linked", "work"], preload=[r.ours()])
    problems += judge_coverage(traced, [("OpenCL", "linked", ("routes-cl-linked",))])
    return problems


def in_words(place):
    """The text: one line with the leak, a page with -v, and what a kept ledger says later."""
    ledger = place.root / "kept.gpuleak"
    command = [r.program("routes-bind"), "deepbind", r.program("libroutes-plugin.so")]
    place.clear()
    done = subprocess.run(command, cwd=place.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=r.environment(place, {"GPULEAK_LEDGER": str(ledger),
                                                    "GPULEAK_VERBOSE": "1"}, [r.ours()]),
                          check=False)
    line = "coverage: CUDA intercepted via dlsym; not seen: libroutes-plugin.so (RTLD_DEEPBIND)"
    problems = []
    later = subprocess.run([str(r.options.command), "report", "-v", str(ledger)],
                           stdout=subprocess.PIPE, check=False).stdout.decode()
    checked = subprocess.run([str(r.options.command), "check", "-v", str(ledger)],
                             stdout=subprocess.PIPE, check=False)
    ran = subprocess.run([str(r.options.command), "run", "-v", "--", *command],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                         env=r.environment(place, {}, ()))
    for text in (done.stderr.decode(), later, ran.stderr.decode()):
        if text.splitlines().count(line) != 1:
            problems.append(f"no line in {text}")
    for text in (done.stderr.decode(), later, checked.stdout.decode(), ran.stderr.decode()):
        page = re.search(r"^Coverage of routes-bind \(pid \d+\):\n((?:  .*\n)+)", text, re.M)
        if not page or "  CUDA intercepted via dlsym, 4 times: /" not in page[1] or \
                "  calls not seen, RTLD_DEEPBIND: /" not in page[1]:
            problems.append(f"no page in {text}")
    if checked.returncode != 23 or not checked.stdout.startswith(b"gate failed"):
        problems.append(f"check: {checked}")
    return problems


def killed(place):
    """What is known before a kill is in the ledger then."""
    script = ("import ctypes, os, signal\n"
              "cuda = ctypes.CDLL('libcuda.so.1')\n"
              "p = ctypes.CDLL(%r, mode=8 | 2)\n"
              "cuda.cuInit(0)\n"
              "os.kill(os.getpid(), signal.SIGKILL)\n" % r.program("libroutes-plugin.so"))
    ledger = place.root / "killed.gpuleak"
    place.clear()
    subprocess.run([r.PYTHON, "-c", script], cwd=place.work, check=False,
                   env=r.environment(place, {"GPULEAK_LEDGER": str(ledger)}, [r.ours()]))
    text = subprocess.run([str(r.options.command), "report", "--format", "json", str(ledger)],
                          stdout=subprocess.PIPE, check=False).stdout
    result = r.Result(b"", b"", 0, json.loads(text))
    got = coverage_of(result)
    return wrong("routes", ["dlsym"], [x["route"] for x in got.get("routes", [])]) + wrong(
        "out of reach", ["libroutes-plugin.so"],
        [base(x["module"]) for x in got.get("out_of_reach", [])])


def by_doctor(place):
    """gpuleak doctor --start names the library whose calls were not seen."""
    place.clear()
    command = [r.program("routes-bind"), "deepbind", r.program("libroutes-plugin.so")]
    ran = subprocess.run([str(r.options.command), "doctor", "--start", "--", *command], cwd=place.work,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                         env=r.environment(place, {}, []))
    lines = ran.stdout.decode().splitlines()
    gaps = [line for line in lines if line.startswith("warning  start") and "libroutes-plugin.so" in line]
    return wrong("status", 0, ran.returncode) + wrong(
        "recorded", 1, sum("1 process made GPU calls, and was recorded" in line for line in lines)) + wrong(
        f"gaps in {lines}", 1, len(gaps))


CASES = (
    ("each route by its name", routes),
    ("OpenCL's routes", opencl_routes),
    ("a plugin linked to the driver", plain_plugin),
    ("RTLD_DEEPBIND, linked: a gap", deepbind_linked),
    ("RTLD_DEEPBIND, by lookups: a gap", deepbind_lookup),
    ("RTLD_DEEPBIND covered: recorded, DT_RUNPATH works", deepbind_covered),
    ("RTLD_DEEPBIND of others is no gap", deepbind_other),
    ("another namespace: a gap", namespace),
    ("a vendor's OpenCL without a loader: a gap", vendor),
    ("export tables, names without a row, names in no table", unknown_names),
    ("nothing said where nothing is", no_noise),
    ("nothing said of who looks everything up", wholesale),
    ("a later driver's variant by its name", later_variant),
    ("linked to a function without a row: noted if it was called", linked_gap),
    ("in words: a line, and a page with -v", in_words),
    ("in the ledger of a killed process", killed),
    ("by gpuleak doctor --start", by_doctor),
)


def add(run):
    global r
    r = run
    for name, function in CASES:
        run.cases.append(("coverage", name, function))
