#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the floors of the house by the #include lines: floors.py SOURCE. Prints TAP.

A file includes its own folder's files and those of folders below it, tables of rows (.def)
included. Of another tower it may include only what SHARED lists. Only the list of APIs includes
rows of folders above it, so every file sees the names that are made from these rows: a file below
the folder of a row must not use them. Also checks that no circle of modules has more than
LARGEST_CIRCLE files, that no folder has more than LARGEST_FOLDER, that no two headers have one
name, and that atomics are those of C11."""
import collections
import pathlib
import re
import sys

# Both towers stand on this floor.
GROUND = [["include", "ledger"]]
# From the ground up. Folders of one floor do not include each other, towers neither.
TOWERS = [
    [
        ["interpose/base"],
        ["interpose/dispatch"],
        ["interpose/recorder"],
        ["interpose/stack"],
        ["interpose/refusal"],
        ["interpose/block"],
        ["interpose/cuda", "interpose/opencl", "interpose/pytorch"],
        ["interpose/cuda/pool", "interpose/opencl/pool", "interpose/guard", "interpose/nvtx"],
        ["interpose/cuda/wrappers", "interpose/opencl/wrappers"],
        ["interpose/process"],
        ["interpose/attach"],
    ],
    [
        ["report/util"],
        ["report/load", "report/symbols"],
        ["report/suppress"],
        ["report/model"],
        ["report/describe"],
        ["report/analyze"],
        ["report/subjects"],
        ["report/gate", "report/top"],
        ["report/format/text", "report/format/json"],
        ["report/format/html", "report/format/sarif", "report/format/pprof"],
        ["report/format"],
        ["tools/launch"],
        ["tools/ledgers"],
        ["tools/nvml"],
        ["tools/attach"],
        ["tools/doctor"],
        ["tools"],
    ],
    [
        ["standin/driver"],
        ["standin/runtime"],
    ],
]
# What others declare: tables and types of CUDA, names of PyTorch, versions of Python.
SHARED = {
    "standin": r"interpose/cuda/(cuda_types\.h|\w+\.def)",
    "tools": r"interpose/(pytorch/pytorch_rows|stack/python_offsets)\.def",
}
# The list of APIs.
REGISTRY = "interpose/dispatch/apis.def"
# Who may read the records of a ledger: formats and the gate see only what was built from them.
BUILDER = "report/model/builder.h"
BUILDERS = ["report/model", "report/subjects", "report/top"]
FLOORS = [floor for tower in TOWERS for floor in GROUND + tower]
LARGEST_CIRCLE = 4
LARGEST_FOLDER = 42

ARCHITECTURE = re.compile(r"_(x86_64|aarch64)$")
TAG = re.compile(r"^(?:static |const )*(?:struct|enum|union) (\w+) \{", re.M)
FUNCTION = re.compile(r"^([A-Za-z_][\w *]*[ *])(\w+)\([^;{}]*\)\n\{", re.M)
GCC_ATOMICS = re.compile(r"\b(?:__atomic_|__ATOMIC_|__sync_)\w*")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ROW = re.compile(r"^(HOOK|HAND|USED|SPACE|API_BEGIN)(_PTSZ|_PTDS|)\( ?(\w+)", re.M)
FORMS = {"HAND": ["HOOK_"], "API_BEGIN": ["API_", "HOOK_FIRST_", "HOOK_END_"]}
OF_ROW = re.compile(r"\b(?:(?:HOOK|USED)(?:_FIRST|_END)?|SPACE|API)_\w+")


def floor_of(path):
    """The number of a file's floor, or None."""
    folder = str(path.parent)
    return next((n for tower in TOWERS for n, floor in enumerate(GROUND + tower)
                 if folder in floor), None)


def tower_of(path):
    """The number of a file's tower; None on the ground."""
    folder = str(path.parent)
    return next((n for n, tower in enumerate(TOWERS)
                 if any(folder in floor for floor in tower)), None)


def read(source):
    """{file: [files that it includes]}, and what is wrong with single includes."""
    problems, graph = [], {}
    for half in ("include", "ledger", "interpose", "report", "tools", "standin"):
        for path in sorted((source / half).rglob("*")):
            if path.suffix not in (".c", ".h", ".def", ".S", ".in"):
                continue
            name = path.relative_to(source)
            graph[name] = []
            if floor_of(name) is None:
                problems.append(f"{name}: its folder has no floor: give it one in floors.py")
            for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
                target = next((pathlib.Path(root, include) for root in ("", "include")
                               if (source / root / include).is_file()), None)
                if target:
                    graph[name].append(target)
                else:
                    problems.append(f'{name} includes "{include}": write the path from the '
                                    "top of the source tree")
    return graph, problems


def check_floors(graph):
    problems = []
    for name, targets in graph.items():
        for target in targets:
            if str(name) == REGISTRY or target.parent == name.parent:
                continue
            here, there = floor_of(name), floor_of(target)
            if here is None or there is None:
                continue
            if re.fullmatch(SHARED.get(name.parts[0], ""), str(target)):
                continue
            if there >= here:
                problems.append(f"{name} includes {target}, which is not below it")
            if tower_of(target) not in (None, tower_of(name)):
                problems.append(f"{name} includes {target} of the other half")
    return problems


def check_builder(graph):
    return [f"{name} includes {BUILDER}" for name, targets in graph.items()
            if pathlib.Path(BUILDER) in targets and str(name.parent) not in BUILDERS]


def names_of_rows(texts):
    """{HOOK_x, USED_x, SPACE_x or API_x: the folder of its row}."""
    names = {}
    for path, text in texts.items():
        for row, twin, name in ROW.findall(text) if path.suffix == ".def" else []:
            for form in FORMS.get(row, [row + "_"]):
                names[form + name] = names[form + name + twin.lower()] = path.parent
    return names


def check_rows(texts):
    names = names_of_rows(texts)
    return [f"{path} uses {name}, which is made from a row of {names[name]}"
            for path, text in texts.items() for name in sorted(set(OF_ROW.findall(text)))
            if name in names and path.parent != names[name]
            and floor_of(path) <= floor_of(names[name] / "rows.def")]


def without_architecture(path):
    """A build has one of the files whose names differ only in their architecture."""
    return path.with_name(ARCHITECTURE.sub("", path.stem) + path.suffix)


def module_of(path):
    return without_architecture(path).with_suffix("")


def circles(graph):
    """Strongly connected modules. A module is a .c file with the header of the same name."""
    edges = collections.defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            if str(name) != REGISTRY:
                edges[module_of(name)].add(module_of(target))
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            found.append(circle)

    sys.setrecursionlimit(10000)
    for name in graph:
        if module_of(name) not in index:
            visit(module_of(name))
    return found


def check_circles(graph):
    return [f"a circle of {len(circle)} modules: " + ", ".join(sorted(map(str, circle)))
            for circle in circles(graph) if len(circle) > LARGEST_CIRCLE]


def check_folders(source):
    problems = []
    for folder in sorted({folder for floor in FLOORS for folder in floor}):
        if not (source / folder).is_dir():
            continue
        count = sum(path.is_file() for path in (source / folder).iterdir())
        if count > LARGEST_FOLDER:
            problems.append(f"{folder} has {count} files; at most {LARGEST_FOLDER}")
    return problems


def check_names(graph):
    headers = collections.Counter(path.name for path in graph if path.suffix == ".h")
    return [f"{count} headers are named {name}" for name, count in headers.items() if count > 1]


def check_definitions(source, graph):
    """The stand-ins are never linked with each other, nor with the product."""
    apart = [{path for path in graph if path.is_relative_to(folder)}
             for folder in ("standin/driver", "standin/runtime")]
    return [problem for files in (*apart, set(graph).difference(*apart))
            for problem in check_definitions_of(source, files)]


def check_definitions_of(source, files):
    tags, exported, static = (collections.defaultdict(set) for _ in range(3))
    for path in sorted(files):
        if path.suffix not in (".c", ".h"):
            continue
        text = (source / path).read_text(encoding="utf-8")
        where = str(without_architecture(path))
        for tag in TAG.findall(text):
            tags[tag].add(where)
        for before, name in FUNCTION.findall(text):
            (static if "static" in before.split() else exported)[name].add(where)
    return ([f"the tag {tag} is defined in {', '.join(sorted(paths))}"
             for tag, paths in tags.items() if len(paths) > 1] +
            [f"the function {name} is exported by {', '.join(sorted(paths))}"
             for name, paths in exported.items() if len(paths) > 1] +
            [f"the function {name} of {min(paths)} is static in "
             f"{', '.join(sorted(static[name]))}"
             for name, paths in exported.items() if name in static])


def check_atomics(source, graph):
    return [f"{path}:{number} has {found[0]}: use stdatomic.h, and SHARED() of ledger/shared.h "
            "for what is not _Atomic"
            for path in graph
            for number, line in enumerate((source / path).read_text("utf-8").splitlines(), 1)
            if (found := GCC_ATOMICS.search(line))]


def check_planted(texts):
    """What check_floors(), check_builder() and check_rows() do not find although it is wrong."""
    low, high = pathlib.Path("interpose/block/x.c"), pathlib.Path("interpose/cuda/cuda.def")
    names = ["HOOK_cuMemCreate", "HOOK_FIRST_CUDA", "SPACE_CL_USM", "API_OPENCL",
             "USED_cuDeviceTotalMem_v2"]
    found = check_rows({**texts, low: " ".join(names)})
    return ([name for name in names if not any(name in problem for problem in found)] +
            [f"{low} includes {high}" for _ in "1" if not check_floors({low: [high]})] +
            [f"{low} includes {BUILDER}" for _ in "1"
             if not check_builder({low: [pathlib.Path(BUILDER)]})])


def report(checks):
    print(f"1..{len(checks)}")
    for number, (name, problems) in enumerate(checks, 1):
        for problem in problems:
            print(f"# {problem}")
        print(f"{'not ' if problems else ''}ok {number} - {name}")
    return any(problems for _, problems in checks)


def main():
    source = pathlib.Path(sys.argv[1])
    graph, single = read(source)
    texts = {path: (source / path).read_text("utf-8") for path in graph}
    checks = [
        ("every include names a file from the top, every folder has a floor", single),
        ("no include goes up", check_floors(graph)),
        ("no format includes the builder", check_builder(graph)),
        ("no name of a row goes down", check_rows(texts)),
        ("an include and names that go down are found", check_planted(texts)),
        (f"no circle of more than {LARGEST_CIRCLE} modules", check_circles(graph)),
        (f"no folder with more than {LARGEST_FOLDER} files", check_folders(source)),
        ("no two headers with one name", check_names(graph)),
        ("no two tags or exported functions with one name", check_definitions(source, graph)),
        ("atomics are those of C11", check_atomics(source, graph)),
    ]
    return report(checks)


if __name__ == "__main__":
    sys.exit(main())
