#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the stable names with those of the last release: stable.py BUILD SOURCE [--write].

stable-names has one line for each option, flag, key, function and so on that users depend on, see
docs/reference/stability.md. A line that is no longer true is a failure. New names are added to the
file by --write, before a release. Prints TAP."""
import ast
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COMMANDS = ["run", "attach", "report", "check", "diff", "top", "doctor"]
PLUGIN_OPTION = re.compile(r'addoption\("(--[a-z-]+)"|addini\("([a-z_]+)"|^[A-Z]+ = "(limit_[a-z_]+)"', re.M)


def read(source, *names):
    return "\n".join((source / name).read_text() for name in names)


def options(source):
    row = re.compile(r'^OPTION\(\s*(\w+),\s*"([^"]*)",\s*\w+,\s*(\w+),\s*"([^"]*)"', re.M)
    for name, flag, kind, default in row.findall(read(source, "ledger/options.def")):
        yield "GPULEAK_%s --%s %s default '%s'" % (name, flag, kind, default)


def flags(run):
    for command in COMMANDS:
        for flag in re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", run(command, "--help-all"), re.M):
            yield "gpuleak %s %s" % (command, flag)


def header(source):
    """Yields functions, constants and, with their places, the members of structs."""
    text = re.sub(r"/\*.*?\*/", "", read(source, "include/gpuleak.h"), flags=re.S)
    for function in re.findall(r"^GPULEAK_FUNCTION ([^;]+);", text, re.M):
        yield " ".join(function.split())
    for name, value in re.findall(r"^#define (GPULEAK_\w+) (\d+u?)\s*$", text, re.M):
        yield "%s %s" % (name, value)
    for name, body in re.findall(r"^struct (\w+) \{(.*?)^\};", text, re.M | re.S):
        for place, member in enumerate(body.split(";")[:-1]):
            yield "struct %s, member %d: %s" % (name, place, " ".join(member.split()))


def python(source):
    for node in ast.parse(read(source, "python/gpuleak/__init__.py")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            for name in ast.literal_eval(node.value):
                yield "gpuleak." + name
    for names in PLUGIN_OPTION.findall(read(source, "python/gpuleak/pytest_plugin.py")):
        yield "pytest " + "".join(names)


def words(source):
    for name in re.findall(r'^KIND\( "([^"]+)"', read(source, "ledger/kinds.def"), re.M):
        yield "kind " + name
    for name in re.findall(r'^\t(?:\{ |ACCESS\()"([a-z-]+)", "Gpu', read(
            source, "report/format/sarif/sarif_helpers.c"), re.M):
        yield "error or rule " + name


def paths_of(value, path, found):
    """Adds {path of a key: types} of a JSON value to FOUND."""
    if isinstance(value, dict):
        for key, inner in value.items():
            paths_of(inner, path + "." + key if path else key, found)
    elif isinstance(value, list):
        found[path].add("list")
        for inner in value:
            paths_of(inner, path + "[]", found)
    elif value is not None:
        found[path].add({str: "text", bool: "boolean"}.get(type(value), "number"))
    else:
        found[path]  # pylint: disable=pointless-statement


def json_keys(source, run):
    """Yields the keys that the code writes, and the places and types of those in the reports on
    ledgers of earlier versions."""
    for folder in ("describe", "format/json", "subjects"):
        for file in sorted((source / "report" / folder).glob("*.c")):
            text = re.sub(r"{ SUM\((\w+)\)", r'{ "\1", ', file.read_text())
            for key in re.findall(r'(?:\{ ?|json_set\(\w+, |LIST\()"([a-z_]+)",\s', text):
                yield "key " + key
    found = collections.defaultdict(set)
    for ledger in sorted((source / "tests/fuzz/corpus-ledger").iterdir()):
        paths_of(json.loads(run("report", "--format", "json", ledger)), "", found)
    for path, types in found.items():
        yield "path %s: %s" % (path, " or ".join(sorted(types)) or "null")


def metrics(source, run):
    for ledger in sorted((source / "tests/fuzz/corpus-ledger").iterdir()):
        text = run("report", "--format", "openmetrics", ledger)
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)", text, re.M):
            yield "metric %s, %s" % (name, kind)
        for name, labels in re.findall(r"^(\w+)\{(.*)\}", text, re.M):
            for label in re.findall(r'(\w+)="', labels):
                yield "metric %s, label %s" % (name, label)


def collect(build, source):
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "XDG_RUNTIME_DIR": home, "LC_ALL": "C"}

        def run(*arguments):
            return subprocess.run([build / "tools/gpuleak", *arguments], check=False, env=env,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  universal_newlines=True).stdout

        return {"options": set(options(source)), "flags": set(flags(run)),
                "gpuleak.h": set(header(source)), "Python": set(python(source)),
                "words": set(words(source)), "JSON": set(json_keys(source, run)),
                "OpenMetrics": set(metrics(source, run))}


def gone(before, now):
    """Returns the lines of BEFORE that are no longer true. A path may get null instead of a type,
    and loses none of its meaning by that."""
    types = {line.split(": ")[0]: set(line.split(": ")[1].split(" or "))
             for line in now if line.startswith("path ")}
    for line in sorted(before - now):
        path, _, old = line.partition(": ")
        if not line.startswith("path ") or path not in types or \
                not types[path] <= {"null"} | set(old.split(" or ")) and old != "null":
            yield line


def main():
    build, source = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    file = source / "tests/scripts/stable-names"
    now = collect(build, source)
    if "--write" in sys.argv:
        file.write_text("".join("%s: %s\n" % (group, line) for group in now
                                for line in sorted(now[group])))
        return 0
    before = {group: set() for group in now}
    for line in file.read_text().splitlines():
        group, _, text = line.partition(": ")
        before[group].add(text)
    failed = False
    print("1..%d" % len(now))
    for number, group in enumerate(now, 1):
        missing = list(gone(before[group], now[group])) if before[group] else ["every name"]
        print("%s %d - %s: %d names are as released" % (
            "not ok" if missing else "ok", number, group, len(before[group])))
        for line in missing:
            print("# gone or changed: " + line)
        failed |= bool(missing)
    return failed


if __name__ == "__main__":
    sys.exit(main())
