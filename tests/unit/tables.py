#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every function of the GPU APIs stands in exactly one table: it has a row, or is ignored
with a reason, or takes and gives no memory. What a header brings and no table has, fails. The
same for those of CUDA once more: it submits work that uses memory, or it does not.

tables.py --source ROOT [--cc CC]      TAP on stdout. Headers that are not installed are a
skip; those of OpenCL are a failure where GPULEAK_MUST_RUN is set.
tables.py --source ROOT --tidy         takes the lines of names that have a row by now out of
the other tables.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

CLASSES = {"GAP", "DRIVER", "ALIAS", "OBJECT"}
APIS = {"cuda": r"cu[A-Z]\w*", "opencl": r"cl[A-Z]\w*"}
CUDA_HEADERS = ("cuda.h", "cudaProfiler.h")
CUDA_WAYS = ("", "-D__CUDA_API_VERSION_INTERNAL", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM")
# cudaGL.h and the like want headers of others: their names are read, not compiled.
CUDA_TEXTS = ("cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")
INLINE = {"cuGetProcAddress_v2_ptsz"}  # of the header, not exported

# A pointer to one of these among the parameters gives something that is memory, lies in
# memory or keeps some: the name can't stand among those that have to do with none...
GIVES = re.compile(r"\b(CUdeviceptr(_v\d)?|CUarray|CUmipmappedArray|CUmemGenericAllocationHandle|"
                   r"CUmemoryPool|CUexternalMemory|CUgraph|CUgraphExec|CUmodule|CUlibrary|"
                   r"CUgreenCtx|CUgraphicsResource|cl_mem)\s*\*\s*\w*\s*(,|$)")
# ... unless somebody looked at it: these tell what an object belongs to, or take a list.
ASKED = re.compile(r"cuFuncGetModule|cuGraphChildGraphNodeGetGraph|cuKernelGetLibrary|"
                   r"cuGraphNodeGetContainingGraph|cuLibraryGetModule|cuStreamGet(Green)?Ctx\w*|"
                   r"cuStreamGetCaptureInfo\w*|cuMem(Discard|DiscardAndPrefetch|Prefetch|cpy)"
                   r"BatchAsync\w*")
# Wrappers by hand that note a submission; those of two verbs do, too.
NOTED = {"cuGraphLaunch", "cuGraphLaunch_ptsz", "cuGraphInstantiateWithFlags",
         "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz"}
NOTED_VERBS = ("ALLOC_ASYNC", "FREE_ASYNC")
# A call that takes a stream works in it, unless somebody looked at it: these ask, order streams,
# capture, or hand over memory of a graphics API.
IN_NO_STREAM = re.compile(r"cuStream(Get|Set|Copy|Is|Begin|End|Update|Query|Synchronize|WaitEvent|"
                          r"Destroy)\w*|cuEventRecord\w*|cuGraphics(Unmap|Map)Resources\w*|"
                          r"cuGL\w*|cuEGLStream\w*")
options = None


NO_CUDA = "no cuda.h"


class Skip(Exception):
    pass


def without_comments(path):
    """The text of a file, with a row for each of the two calls that a row of cuda_twins.def has."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"^(\w+)_(PTSZ|PTDS)(\(\s*\w+)(.*)$", lambda row: "".join(
        f"{row[1]}{row[3]}{suffix}{row[4]}\n" for suffix in ("", "_" + row[2].lower())),
                  text, flags=re.M)


def table(name):
    """The file of a table: cuda_other.def is in interpose/cuda/."""
    return options.source / "interpose" / name.partition(".")[0].partition("_")[0] / name


def rows(name, macros, arguments=r"(\w+)"):
    path = table(name)
    return re.findall(r"^(?:%s)\(\s*%s" % (macros, arguments), without_comments(path), re.M)


def ignored(api):
    return rows(api + "_ignored.def", "IGNORED", r'(\w+),\s*(\w+),\s*"([^"]*)"\s*\)')


def tracked(api):
    """Names with a row in any of the tables of what is intercepted; what our wrappers call
    themselves may be intercepted as well."""
    paths = [path.name for path in sorted((options.source / "interpose").glob("*/*.def"))
             if path.parent.name in APIS and not path.stem.endswith(("_ignored", "_other"))]
    hooked = [name for path in paths for name in rows(path, "HOOK|HAND")]
    called = [name for path in paths for name in rows(path, "USED") if name not in hooked]
    return [name for name in hooked + called if re.fullmatch(APIS[api], name)]


def tables(api):
    """(name of the table, its symbols) of each table of API."""
    return (("tracked", tracked(api)),
            ("ignored", [row[0] for row in ignored(api)]),
            ("without memory", rows(api + "_other.def", "NO_MEMORY")))


def known(api):
    return {name for _, names in tables(api) for name in names}


def missing(api, names, where):
    found = sorted(set(names) - known(api))
    return [f"{name} of {where} is in no table: give it a row in {api}.def, or a line with a "
            f"reason in {api}_ignored.def, or, if it has nothing to do with memory, one in "
            f"{api}_other.def" for name in found]


def check_once():
    problems = []
    for api in APIS:
        seen = {}
        for table, names in tables(api):
            if len(names) < 10:
                problems.append(f"{api}, {table}: only {len(names)} names; is it read at all?")
            for name in names:
                if name in seen:
                    problems.append(f"{name} is both {seen[name]} and {table}: remove the line "
                                    f"of one of the tables (--tidy: of what has a row)")
                seen[name] = table
                if not re.fullmatch(APIS[api], name):
                    problems.append(f"{name} in a table of {api}")
    return problems


def tidy():
    for api in APIS:
        names = set(tracked(api))
        for suffix in ("_ignored.def", "_other.def"):
            path = table(api + suffix)
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines
                    if not (row := re.match(r"(?:IGNORED|NO_MEMORY)\(\s*(\w+)", line))
                    or row[1] not in names]
            if kept != lines:
                path.write_text("".join(kept), encoding="utf-8")
                print(f"{path.name}: {len(lines) - len(kept)} lines out")


def check_order():
    problems = []
    for api in APIS:
        names = rows(api + "_other.def", "NO_MEMORY")
        problems += [f"{api}_other.def: {b} stands behind {a}" for a, b in zip(names, names[1:])
                     if a >= b]
    return problems


def check_reasons():
    problems = []
    for api in APIS:
        text = without_comments(table(api + "_ignored.def"))
        if len(ignored(api)) != text.count("IGNORED("):
            problems.append(f"{api}_ignored.def: a row that can't be read")
        for name, kind, reason in ignored(api):
            if kind not in CLASSES:
                problems.append(f"{name}: class {kind}")
            if len(reason.split()) < 4 or reason.endswith("."):
                problems.append(f"{name}: {reason!r} is no reason that follows a name")
    return problems


def names_file(name):
    lines = (options.source / "standin/driver" / name).read_text(encoding="ascii").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def check_names(name, least):
    names = names_file(name)
    return missing("cuda", names, name) + (
        [] if len(names) >= least else [f"only {len(names)} names in {name}"])


def check_resolver():
    text = (options.source / "standin/driver/resolver.def").read_text(encoding="ascii")
    found = re.findall(r"^FOUND\((\w+), \d+, (\w+)", text, re.M)
    return missing("cuda", [name for pair in found for name in pair], "resolver.def")


def cuda_include():
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda", "/usr"):
        if home and (pathlib.Path(home) / "include/cuda.h").exists():
            return pathlib.Path(home) / "include"
    raise Skip(NO_CUDA)


def declarations(text, pattern):
    """{name: [its parameters, as often as it is declared]}"""
    ret = {}
    for name, parameters in re.findall(r"\b(%s)\s*\(([^()]*)\)\s*;" % pattern,
                                       re.sub(r"__attribute__\s*\(\(.*?\)\)", "", text)):
        ret.setdefault(name, []).append(" ".join(parameters.split()))
    return ret


def preprocessed(header, include, *more):
    done = subprocess.run([options.cc, "-E", "-P", "-x", "c", *more, f"-I{include}", "-"],
                          input=f"#include <{header}>\n".encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    return done.stdout.decode() if done.returncode == 0 else ""


def cuda_declarations():
    include, ret = cuda_include(), {}
    for header in CUDA_HEADERS:
        for way in CUDA_WAYS:
            made = preprocessed(header, include, *([way] if way else []))
            for name, parameters in declarations(made, APIS["cuda"]).items():
                ret.setdefault(name, []).extend(parameters)
    for header in CUDA_TEXTS:
        if (include / header).exists():
            text = without_comments(include / header)
            for name in re.findall(r"CUDAAPI\s+(%s)\s*\(" % APIS["cuda"], text):
                ret.setdefault(name, [])
    return ret


def check_cuda_header():
    names = set(cuda_declarations()) - INLINE
    return missing("cuda", names, "the installed cuda.h") + (
        [] if len(names) > 500 else [f"only {len(names)} names in cuda.h"])


def gives(parameters):
    return any(GIVES.search(part.strip() + ",") or re.search(r"\bvoid\s*\*\s*\*\s*pp\b", part)
               for part in parameters.split(",") if "const " not in part)


def check_cuda_rule():
    harmless = {name for name in rows("cuda_other.def", "NO_MEMORY") if not ASKED.fullmatch(name)}
    return [f"{name} gives memory by its parameters ({parameters}), yet stands in cuda_other.def"
            for name, found in sorted(cuda_declarations().items()) for parameters in set(found)
            if name in harmless and gives(parameters)]


def submitting():
    text = without_comments(options.source / "interpose/cuda/cuda.def")
    verbs = re.findall(r"^HOOK\(\s*(\w+),.*?\),\s*\([^()]*\),\s*(\w+)", text, re.M | re.S)
    return (rows("cuda_submits.def", "HOOK") + rows("cuda_launches.def", "HOOK") + sorted(set(rows("cuda_unseen.def", "UNSEEN"))) +
            sorted(NOTED) + [name for name, verb in verbs if verb in NOTED_VERBS])


def not_submitting():
    lines = (options.source / "tests/unit/not_submitting.names").read_text(encoding="ascii")
    return [line for line in lines.splitlines() if line and not line.startswith("#")]


def check_submits():
    yes, no = submitting(), not_submitting()
    names = known("cuda") | set(names_file("cuda13.names")) | set(names_file("cuda12.names"))
    problems = [f"{name} is listed twice among those that submit or do not"
                for name in sorted(set(yes) | set(no)) if (yes + no).count(name) > 1]
    problems += [f"{name}: does it submit work that uses memory? Give it a row in cuda_submits.def "
                 "or, if it can't have one, in cuda_unseen.def; otherwise a line in "
                 "not_submitting.names under a reason" for name in sorted(names - {*yes, *no})]
    problems += [f"{name} submits or not, and is in no other table"
                 for name in sorted({*yes, *no} - names)]
    return problems if len(yes) > 150 else problems + [f"only {len(yes)} names submit"]


def check_submits_rule():
    quiet = {name for name in not_submitting() if not IN_NO_STREAM.fullmatch(name)}
    return [f"{name} takes a stream ({parameters}), yet stands in not_submitting.names"
            for name, found in sorted(cuda_declarations().items()) for parameters in set(found)
            if name in quiet and re.search(r"\bCUstream\s+\w", parameters)]


def opencl_headers():
    folder = pathlib.Path("/usr/include/CL")
    found = [path for path in sorted(folder.glob("cl*.h"))]
    if not found:
        raise Skip("no CL/*.h")
    return found


def check_opencl_headers():
    problems, seen = [], 0
    for path in opencl_headers():
        text = without_comments(path)
        names = re.findall(r"\b(%s?)(?:_fn)?\s*\)?\s*\(" % APIS["opencl"], text)
        names += re.findall(r"\b(%s)_fn\b" % APIS["opencl"], text)
        names = {name.removesuffix("_fn").removesuffix("_t") for name in names}
        seen += len(names)
        problems += missing("opencl", names, path.name)
    return problems if seen > 200 else problems + [f"only {seen} names in CL/*.h"]


def result_rows(api):
    text = (options.source / "report/describe/result_names.def").read_text(encoding="utf-8")
    return {name: int(number) for name, number in
            re.findall(r"^RESULT\(%s, (\w+), (-?\d+)\)$" % api, text, re.M)}


def compare_results(api, found, least):
    """Each name of the headers stands in the table with its number."""
    table = result_rows(api)
    problems = [f"{name} is {number}, result_names.def has {table.get(name)}"
                for name, number in found.items() if table.get(name) != number]
    if len(set(table.values())) != len(table):
        problems.append(f"{api}: two names have one number")
    return problems if len(found) >= least else problems + [f"only {len(found)} names"]


def check_cuda_results():
    text = without_comments(cuda_include() / "cuda.h")
    return compare_results("CUDA", {name: int(number) for name, number in re.findall(
        r"\b(CUDA_ERROR_\w+)\s*=\s*(\d+)", text)}, 90)


def check_opencl_results():
    header = next((path for path in opencl_headers() if path.name == "cl.h"), None)
    if not header:
        raise Skip("no CL/cl.h")
    found = re.findall(r"^#define (CL_(?!BUILD_(?:NONE|ERROR|IN_PROGRESS)\b)\w+)\s+(-\d+)\s*$",
                       without_comments(header), re.M)
    return compare_results("OPENCL", {name: int(number) for name, number in found}, 60)


CHECKS = (
    ("each name stands in one table", check_once),
    ("the names without memory are in order", check_order),
    ("each ignored name has a reason", check_reasons),
    ("names of CUDA 12", lambda: check_names("cuda12.names", 600)),
    ("names of CUDA 13", lambda: check_names("cuda13.names", 637)),
    ("names that cuGetProcAddress knows", check_resolver),
    ("names of the installed cuda.h", check_cuda_header),
    ("what cuda.h says gives memory is not among the others", check_cuda_rule),
    ("names of the installed CL/*.h", check_opencl_headers),
    ("each function of CUDA submits work or does not", check_submits),
    ("what cuda.h gives a stream submits work", check_submits_rule),
    ("names of the results of the installed cuda.h", check_cuda_results),
    ("names of the results of the installed CL/cl.h", check_opencl_results),
)


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--tidy", action="store_true")
    options = parser.parse_args()
    if options.tidy:
        tidy()
        return 0
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (name, check) in enumerate(CHECKS, 1):
        skip = ""
        try:
            problems = check()
        except Skip as reason:
            # A CUDA toolkit is nothing that can be installed everywhere.
            must = os.environ.get("GPULEAK_MUST_RUN") and str(reason) != NO_CUDA
            problems, skip = ([f"must run, but: {reason}"], "") if must else ([], reason)
        print("not ok" if problems else "ok", number, "-", name, f"# SKIP {skip}" if skip else "")
        for problem in problems[:50]:
            print("#", problem)
        failed += bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
