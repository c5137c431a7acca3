#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renders documentation from tables.

    render.py hooks SOURCE_ROOT             docs/reference/hooks.md, from interpose/*/*.def
    render.py options SOURCE_ROOT           docs/reference/options.md, from ledger/options.def and
                                            tools/launch/bypass.def
    render.py benchmarks SOURCE_ROOT        docs/developers/benchmarks.md, from results/0*.json
    render.py benchmarks SOURCE_ROOT --all  the same and all other measurements of results/*.json
    render.py man SOURCE_ROOT TEMPLATE VERSION   the manual page; fills in @OPTIONS@ and @VERSION@
    render.py check SOURCE_ROOT             exits with 1 if a checked-in page differs from its table
"""
import json
import pathlib
import re
import sys


def rows(text, macro):
    """Yields the argument lists of MACRO(...), split at top-level commas. A row of
    interpose/cuda/cuda_twins.def has two calls."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for match in re.finditer(r"^%s(_PTSZ|_PTDS)?\(" % macro, text, flags=re.M):
        depth, start, arguments, quoted = 1, match.end(), [], False
        for at in range(start, len(text)):
            c = text[at]
            if c == '"' and text[at - 1] != "\\":
                quoted = not quoted
            if quoted:
                continue
            depth += (c == "(") - (c == ")")
            if (c == "," and depth == 1) or depth == 0:
                arguments.append(text[start:at].strip())
                start = at + 1
            if depth == 0:
                break
        yield arguments
        if match[1]:
            yield [arguments[0] + match[1].lower(), *arguments[1:]]


VERBS = {
    "ALLOC": "creates a block", "ALLOC_POOLED": "creates a block, or takes one from the pool",
    "FREE_POOLED": "ends a block; the pool may keep its memory",
    "ALLOC_ASYNC": "creates a block in stream order",
    "FREE_ASYNC": "ends a block in stream order", "MAKE": "creates an object", "DROP": "ends an object",
    "OBJECT": "creates an object without memory", "EVENT": "may create an event",
    "COMMAND": "may create an event, and uses memory", "MAP": "maps an object's memory",
    "UNMAP": "ends a mapping", "OBJECT_BY": "creates objects without memory",
    "AFTER": "changes what keeps memory alive", "MARK": "makes the driver use more memory of its own",
    "DISPOSE": "ends a block", "REGISTER": "registers a block of the application", "UNREGISTER": "ends the registration", "CREATE": "creates an object", "FREE": "ends a block",
    "SHARE": "creates a block", "UNSHARE": "ends a block",
    "MAKE_BY": "creates a block", "MAKE_PHYSICAL": "creates a block", "LEND": "creates a block",
    "BUFFER": "creates an object, or takes one from the pool",
    "FINISH": "waits for a queue: the pool may reuse its buffers",
    "RETAIN_MEM": "adds a reference",
    "RELEASE_CONTEXT": "removes a reference; the last one ends the object",
    "MAKE_OBJECT": "creates an object without memory", "RETAIN_OBJECT": "adds references",
    "MARK_OBJECT": "creates an object without memory; makes the driver use more memory of its own",
    "MEASURE_OBJECT": "creates an object without memory; makes the driver use more memory of its own",
    "FIRST_USE": "makes the driver use more memory of its own, the first time for each kernel",
    "NODE": "makes a node of a graph that copies or sets memory: a guard checks its ranges",
    "WAIT": "waits for work, or polls for its end: a guard checks blocks there",
    "LAUNCH": "makes the driver use more memory of its own, the first time for each kernel; counted by "
              "the pool as submitted work",
    "DROP_OBJECT": "removes references; the last one ends the object",
    "DROP_BY": "ends a block",
    "REPORT": "creates or ends a suballocation, and is passed on", "GIVE_UP": "records that PyTorch gave up, and is passed on",
    "RETAIN": "adds a reference", "RELEASE": "removes a reference; the last one ends the object",
}


CLASSES = {
    "GAP": "not tracked; the report names a program that looks it up",
    "DRIVER": "driver memory", "ALIAS": "memory that is already a block, or another API's",
    "OBJECT": "no memory itself",
}


def ignored(text):
    """Functions that allocate or free memory and have no row, by reason."""
    reasons = {}
    for symbol, kind, reason in rows(text, "IGNORED"):
        reasons.setdefault((kind, reason.strip('"')), []).append(symbol)
    for (kind, reason), symbols in reasons.items():
        yield "| %s | %s | %s |" % (", ".join("`%s`" % s for s in symbols), reason, CLASSES[kind])


def hooks(root):
    out = ["# Intercepted calls", "",
           "Rendered from interpose/*/*.def by docs/render.py; do not edit.", ""]
    for name, title in (("cuda", "CUDA driver API"), ("opencl", "OpenCL")):
        text = "".join(path.read_text() for path in
                       sorted((root / "interpose" / name).glob("*.def")))
        out += ["## " + title, "", "| call | effect | kind |", "|---|---|---|"]
        for row in rows(text, "HOOK"):
            if row[4] in ("SUBMIT", "LATE"):
                continue
            kind = row[6].strip('"')
            out.append("| `%s` | %s | %s |" % (row[0], VERBS[row[4]], "`%s`" % kind if kind else ""))
        made = ["`%s` (`%s`)" % (row[0], row[1]) for row in rows(text, "MAKES")]
        if made:
            out += ["", "Calls that add memory to a graph; it is live after a launch: "
                    + ", ".join(made) + "."]
        submits = ["`%s`" % row[0] for row in rows(text, "HOOK") if row[4] == "SUBMIT"]
        if submits:
            out += ["", "Passed on, and counted by the pool as submitted work: "
                    + ", ".join(submits) + "."]
        out += ["", "Hand-written wrappers (first use, lookups, contexts, streams, graphs, queries about pooled blocks): "
                + ", ".join("`%s`" % row[0] for row in rows(text, "HAND")) + ".", "",
                "Called by the wrappers, not intercepted: "
                + ", ".join("`%s`" % row[0] for row in rows(text, "USED")) + ".", "",
                "Ignored, although they allocate or free memory:", "", "| call | reason | class |", "|---|---|---|"]
        out += list(ignored((root / "interpose" / name / (name + "_ignored.def")).read_text()))
        other = list(rows((root / "interpose" / name / (name + "_other.def")).read_text(), "NO_MEMORY"))
        out += ["", "The other %d functions of the API allocate and free no memory; interpose/%s/%s_other.def "
                "lists them." % (len(other), name, name), ""]
    text = (root / "interpose/cuda/cuda_runtime.def").read_text()
    out += ["## CUDA runtime (shared)", "", "Passed on; recorded only if they come after the runtime has ended: "
            + ", ".join("`%s`" % row[0] for row in rows(text, "HOOK")) + ".", ""]
    out += ["## PyTorch", "", "| call | effect | kind |", "|---|---|---|"]
    for row in rows((root / "interpose/pytorch/pytorch_rows.def").read_text(), "HOOK"):
        out.append("| `%s` | %s | %s |" % (row[0], VERBS[row[4]],
                                           row[6].replace('"', "`").replace("``", "")))
    out.append("")
    text = (root / "interpose/dispatch/libc.def").read_text()
    out += ["## libc", "", "Lookups, and calls that load or unload a module, start a program or end the process: "
            + ", ".join("`%s`" % row[0] for row in rows(text, "LIBC")) + ".", ""]
    text = (root / "interpose/opencl/opencl_layer.def").read_text()
    out += ["## As an OpenCL layer", "", "Functions that a loader calls (see [opencl.md](../guides/opencl.md)): "
            + ", ".join("`%s`" % row[0] for row in rows(text, "LAYER")) + ".", ""]
    return "\n".join(out)


def option_rows(root):
    for row in rows((root / "ledger/options.def").read_text(), "OPTION"):
        yield (row[0], row[1].strip('"'), row[3], row[4].strip('"'), row[9].strip('"'), row[7],
               row[8] == "FIRST")


def option_groups(root):
    """Yields (title, its options) for each group of options, in the order of --help-all."""
    found = list(option_rows(root))
    groups = re.search(r"#define OPTION_GROUPS\(X\)(.*?)\nenum",
                       (root / "ledger/options.h").read_text(), flags=re.S)[1]
    groups = re.findall(r'X\((\w+), "([^"]*)"\)', groups)
    unknown = {row[5] for row in found} - {name for name, _ in groups}
    if unknown:
        sys.exit("ledger/options.def: no such group: %s" % ", ".join(sorted(unknown)))
    for name, title in groups:
        members = [row for row in found if row[5] == name]
        if members:
            yield title, members


BYPASS = """## What --bypass-pools switches off

Rendered from tools/launch/bypass.def. A variable that the user set stays as it is, and one line on
stderr names it. [Find the tensor that is kept](../guides/kept-tensors.md) explains the option."""


def options(root):
    out = ["# Options", "", "Rendered from ledger/options.def by docs/render.py; do not edit.", "",
           "`gpuleak run --help` explains the options in **bold**, `gpuleak run --help-all` all options.",
           "",
           "`gpuleak PROGRAM ...` is `gpuleak run -- PROGRAM ...`. A command of gpuleak has precedence over a",
           "program with its name: write `gpuleak run -- top` or `gpuleak ./top` to run such a program.", "",
           "Sizes are written as `4096`, `64K` or `64KiB` (65,536 bytes), `50MB` (decimal: 50,000,000 bytes) or",
           "`1GiB`, times as `500ms`, `0.5s`, `10s` (or `10`), `5m`, `1h` or `1d`, signals as `USR1`, `SIGUSR1`,",
           "`RTMIN+3` or a number."]
    for title, members in option_groups(root):
        out += ["", "## " + title, "",
                "| variable | flag of `gpuleak run` | default | meaning |", "|---|---|---|---|"]
        for name, flag, _, default, what, _, first in members:
            out.append("| `GPULEAK_%s` | %s | %s | %s |" % (
                name, "**`--%s`**" % flag if first else "`--%s`" % flag, default or "unset",
                what.replace("|", "\\|")))
    out += ["", BYPASS, "", "| framework | set or called | cache | what changes |", "|---|---|---|---|"]
    for row in rows((root / "tools/launch/bypass.def").read_text(), "BYPASS"):
        framework, setting, cache, _, _, changes = (cell.strip('"') for cell in row)
        out.append("| %s | `%s` | %s | %s |" % (framework, setting, cache, changes))
    return "\n".join(out) + "\n"


def man_option(name, flag, _kind, default, what, _group, _first):
    return [".TP", ".BI \\-\\-%s \" VALUE\" \\fR, \\fBGPULEAK_%s\\fR" % (flag.replace("-", "\\-"), name),
            what[0].upper() + what[1:].replace("\\", "\\e") + ".", "Default: %s." % (default or "unset")]


def man(root, template, version):
    out = []
    for title, members in option_groups(root):
        out += [".SS " + title]
        out += [line for row in members for line in man_option(*row)]
    text = pathlib.Path(template).read_text()
    return text.replace("@OPTIONS@", "\n".join(out)).replace("@VERSION@", version)


BENCHMARKS = """# Measurements

What gpuleak costs, and what it was checked against. Rendered from results/0*.json by docs/render.py;
do not edit. "Without" is the same program without gpuleak, in turn on the same machine. Ratios carry
over to other machines; absolute times do so only roughly. [corpora.md](corpora.md) has the results
on programs that others wrote."""

ALL_BENCHMARKS = """## All measurements

`docs/render.py benchmarks . --all` prints these too, with machine, date, commit and command. Each is
a file in `results/`. Those of earlier days are of earlier versions; "last library" in a row is a
later version than that of the other rows of its table.

| measurement | file in `results/` | date |
|---|---|---|"""


def benchmark(path):
    result = json.loads(path.read_text())
    out = ["", "## " + result["title"], "", result["about"], "", "| | |", "|---|---|"]
    out += ["| %s | %s |" % (key, "`%s`" % result[key] if key == "command" and "`" not in result[key]
                             else result[key]) for key in ("machine", "date", "commit", "command")]
    out += [""] + ["| %s |" % " | ".join(cells) for cells in
                   [result["columns"], ["---"] * len(result["columns"])] + result["rows"]]
    return out + [""] * ("notes" in result) + ["- " + note for note in result.get("notes", [])]


def benchmarks(root, every=False):
    paths = sorted((root / "results").glob("*.json"))
    out = [BENCHMARKS]
    for path in paths:
        if every or path.name.startswith("0"):
            out += benchmark(path)
    if not every:
        results = [(path.stem, json.loads(path.read_text())) for path in paths]
        out += ["", ALL_BENCHMARKS]
        out += ["| %s | `%s` | %s |" % (result["title"], stem, result["date"])
                for stem, result in results if not stem.startswith("0")]
    return "\n".join(out) + "\n"


PAGES = {"hooks": ("docs/reference/hooks.md", hooks), "options": ("docs/reference/options.md", options),
         "benchmarks": ("docs/developers/benchmarks.md", benchmarks)}


def check(root):
    stale = [name for name, (path, make) in PAGES.items() if (root / path).read_text() != make(root)]
    for name in stale:
        path = PAGES[name][0]
        print("%s differs from its table: run docs/render.py %s . >%s" % (path, name, path))
    return 1 if stale else 0


def main():
    what, root = sys.argv[1], pathlib.Path(sys.argv[2])
    if what == "check":
        sys.exit(check(root))
    if what == "man":
        text = man(root, *sys.argv[3:])
    elif sys.argv[3:] == ["--all"]:
        text = benchmarks(root, every=True)
    else:
        text = PAGES[what][1](root)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
