#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renders documentation from tables.

    render.py hooks SOURCE_ROOT             docs/reference/hooks.md, from interpose/api/*.def
    render.py options SOURCE_ROOT           docs/reference/options.md, from ledger/options.def
    render.py benchmarks SOURCE_ROOT        docs/developers/benchmarks.md, from results/*.json
    render.py man SOURCE_ROOT TEMPLATE VERSION   the manual page; fills in @OPTIONS@ and @VERSION@
    render.py check SOURCE_ROOT             exits with 1 if a checked-in page differs from its table
"""
import json
import pathlib
import re
import sys


def rows(text, macro):
    """The argument lists of MACRO(...), split at top-level commas."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for match in re.finditer(r"^%s\(" % macro, text, flags=re.M):
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


VERBS = {
    "ALLOC": "makes a block", "ALLOC_ASYNC": "makes a block in stream order",
    "FREE_ASYNC": "ends a block in stream order", "MAKE": "makes an object", "DROP": "ends an object",
    "OBJECT": "makes an object that is no memory", "EVENT": "may make an event",
    "COMMAND": "may make an event, and uses memory", "MAP": "maps an object's memory",
    "UNMAP": "ends a mapping", "USER_EVENT": "makes an object that is no memory",
    "SET": "sets a user event: commands behind it may run",
    "CONTEXT": "makes an object that is no memory", "KERNELS": "makes objects that are no memory",
    "ARGUMENT": "may hold a buffer", "MARK": "makes the driver hold more: noted",
    "DISPOSE": "ends a block", "REGISTER": "lends a block", "UNREGISTER": "takes it back", "CREATE": "makes an object", "FREE": "ends a block",
    "SHARE": "makes a block", "UNSHARE": "ends a block",
    "MAKE_BY": "makes a block", "MAKE_PHYSICAL": "makes a block", "LEND": "makes a block",
    "BUFFER": "makes an object, or the pool does", "QUEUE": "makes an object that is no memory",
    "FINISH": "waits for a queue: its buffers are free to use again",
    "RETAIN_MEM": "takes a reference", "RETAIN_QUEUE": "takes a reference",
    "RETAIN_CONTEXT": "takes a reference",
    "RELEASE_MEM": "gives a reference back, the last one ends the object",
    "RELEASE_QUEUE": "gives a reference back, the last one ends the object",
    "RELEASE_CONTEXT": "gives a reference back, the last one ends the object",
    "TRY": "tried again when the pool had the memory", "DROP_BY": "ends a block",
    "RETAIN": "takes a reference", "RELEASE": "gives a reference back, the last one ends the object",
}


CLASSES = {
    "GAP": "not followed, told to a program that looks it up",
    "DRIVER": "the driver's own memory", "ALIAS": "memory that is a block already, or another API's",
    "OBJECT": "no memory itself",
}


def ignored(text):
    """Functions that take or give memory and have no row, by reason."""
    reasons = {}
    for symbol, kind, reason in rows(text, "IGNORED"):
        reasons.setdefault((kind, reason.strip('"')), []).append(symbol)
    for (kind, reason), symbols in reasons.items():
        yield "| %s | %s | %s |" % (", ".join("`%s`" % s for s in symbols), reason, CLASSES[kind])


def hooks(root):
    out = ["# What is intercepted", "",
           "Rendered from interpose/api/*.def by docs/render.py; do not edit.", ""]
    for name, title in (("cuda", "CUDA driver API"), ("opencl", "OpenCL")):
        text = "".join(path.read_text() for path in
                       sorted((root / "interpose/api").glob(name + "*.def")))
        out += ["## " + title, "", "| call | what it does | kind |", "|---|---|---|"]
        for row in rows(text, "HOOK"):
            if row[4] == "SUBMIT":
                continue
            kind = row[6].strip('"')
            out.append("| `%s` | %s | %s |" % (row[0], VERBS[row[4]], "`%s`" % kind if kind else ""))
        made = ["`%s` (`%s`)" % (row[0], row[1]) for row in rows(text, "MAKES")]
        if made:
            out += ["", "Into a graph, which makes it live when it is launched: "
                    + ", ".join(made) + "."]
        submits = ["`%s`" % row[0] for row in rows(text, "HOOK") if row[4] == "SUBMIT"]
        if submits:
            out += ["", "Passed on, and noted for the pool as work that may use memory: "
                    + ", ".join(submits) + "."]
        out += ["", "By hand (first use, lookups, contexts, streams, graphs, what a pool keeps true): "
                + ", ".join("`%s`" % row[0] for row in rows(text, "HAND")) + ".", "",
                "Asked by our wrappers, not intercepted: "
                + ", ".join("`%s`" % row[0] for row in rows(text, "USED")) + ".", "",
                "Ignored, though they take or give memory:", "", "| call | reason | class |", "|---|---|---|"]
        out += list(ignored((root / "interpose/api" / (name + "_ignored.def")).read_text()))
        other = list(rows((root / "interpose/api" / (name + "_other.def")).read_text(), "NO_MEMORY"))
        out += ["", "The other %d functions of the API take and give no memory: interpose/api/%s_other.def "
                "names them." % (len(other), name), ""]
    text = (root / "interpose/api/libc.def").read_text()
    out += ["## libc", "", "The lookup, and the ways in which a process ends or a module goes away: "
            + ", ".join("`%s`" % row[0] for row in rows(text, "LIBC")) + ".", ""]
    text = (root / "interpose/api/layer.def").read_text()
    out += ["## As an OpenCL layer", "", "What a loader asks for (see [opencl.md](../guides/opencl.md)): "
            + ", ".join("`%s`" % row[0] for row in rows(text, "LAYER")) + ".", ""]
    return "\n".join(out)


def option_rows(root):
    for row in rows((root / "ledger/options.def").read_text(), "OPTION"):
        yield row[0], row[1].strip('"'), row[3], row[4].strip('"'), row[7].strip('"')


def options(root):
    out = ["# Options", "", "Rendered from ledger/options.def by docs/render.py; do not edit.", "",
           "| variable | flag of `gpuleak run` | default | meaning |", "|---|---|---|---|"]
    for name, flag, _, default, what in option_rows(root):
        out.append("| `GPULEAK_%s` | `--%s` | %s | %s |" % (name, flag, default or "unset", what.replace("|", "\\|")))
    return "\n".join(out) + "\n"


def man(root, template, version):
    out = []
    for name, flag, kind, default, what in option_rows(root):
        out += [".TP", ".BI \\-\\-%s \" VALUE\" \\fR, \\fBGPULEAK_%s\\fR" % (flag.replace("-", "\\-"), name),
                what[0].upper() + what[1:].replace("\\", "\\e") + ".",
                "Default: %s." % (default or "unset")]
    text = pathlib.Path(template).read_text()
    return text.replace("@OPTIONS@", "\n".join(out)).replace("@VERSION@", version)


BENCHMARKS = """# Measurements

What gpuleak costs, and what it was checked against. Rendered from results/*.json by docs/render.py;
do not edit. "Without" is the same program without gpuleak in the same run. Ratios carry over to
other machines; absolute times do so only roughly. [corpora.md](corpora.md) has the results on programs
that others wrote."""


def benchmarks(root):
    out = [BENCHMARKS]
    for path in sorted((root / "results").glob("*.json")):
        result = json.loads(path.read_text())
        out += ["", "## " + result["title"], "", result["about"], "", "| | |", "|---|---|"]
        out += ["| %s | %s |" % (key, "`%s`" % result[key] if key == "command" and "`" not in result[key]
                                else result[key]) for key in ("machine", "date", "commit", "command")]
        out += [""] + ["| %s |" % " | ".join(cells) for cells in
                       [result["columns"], ["---"] * len(result["columns"])] + result["rows"]]
        out += [""] * ("notes" in result) + ["- " + note for note in result.get("notes", [])]
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
    sys.stdout.write(man(root, *sys.argv[3:]) if what == "man" else PAGES[what][1](root))


main()
