#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What can be told of the library without running it: its exports are the rows, it needs
libc alone, and its source keeps to the rules of a guest in somebody else's process.

static_checks.py --preload LIB --command GPULEAK --source ROOT [--cc CC]      TAP on stdout
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

GLIBC_MAX = (2, 28)  # what the wheel runs on
MAY_CALL_LOADER = {"loader.c"}
options = None


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


# ---- the binary ----

def symbols_of(path):
    """(name, version or None, defined, weak) of each dynamic symbol but local ones."""
    found = []
    for line in output("readelf", "-W", "--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit() or fields[4] == "LOCAL":
            continue
        name, _, version = fields[7].partition("@")
        found.append((name, version.lstrip("@") or None, fields[6] != "UND", fields[4] == "WEAK"))
    return found


def dynamic_symbols():
    return [symbol[:3] for symbol in symbols_of(options.preload)]


def rows():
    """The names that hooks.def and libc.def promise, as the preprocessor sees them."""
    text = ('#define HOOK(symbol, ...) GPULEAK_ROW symbol\n'
            '#define HAND(symbol, ...) GPULEAK_ROW symbol\n#include "interpose/dispatch/hooks.def"\n'
            '#define LIBC(symbol) GPULEAK_ROW symbol\n#include "interpose/dispatch/libc.def"\n'
            '#define LAYER(symbol) GPULEAK_ROW symbol\n#include "interpose/opencl/opencl_layer.def"\n'
            '#define PUBLIC(symbol) GPULEAK_ROW symbol\n#include "interpose/dispatch/public.def"\n')
    made = subprocess.run([options.cc, "-E", "-P", "-x", "c", f"-I{options.source}", "-"],
                          input=text.encode(), stdout=subprocess.PIPE, check=True)
    return re.findall(r"GPULEAK_ROW\s+(\w+)", made.stdout.decode())


def check_exports():
    promised = rows()
    exported = [name for name, _, defined in dynamic_symbols() if defined]
    problems = [f"no row: {name}" for name in sorted(set(exported) - set(promised))]
    problems += [f"not exported: {name}" for name in sorted(set(promised) - set(exported))]
    if len(promised) != len(set(promised)):
        problems.append("a name has two rows")
    for name in ("dlsym", "cuMemAlloc_v2", "cuGetProcAddress_v2", "clCreateBuffer"):
        if name not in promised:
            problems.append(f"no row for {name}: is the list read at all?")
    return problems


def check_unversioned():
    return [f"{name}@{version}" for name, version, defined in dynamic_symbols()
            if defined and version]


def check_needed():
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", options.preload))
    return [] if needed == ["libc.so.6"] else [f"DT_NEEDED {needed}"]


def check_undefined():
    foreign = re.compile(r"_U|unw_|_Z|__gxx|__cxa_(throw|begin|end)|cu[A-Z]|cl[A-Z]")
    undefined = [(name, version) for name, version, defined in dynamic_symbols() if not defined]
    problems = [f"undefined {name}" for name, _ in undefined if foreign.match(name)]
    weak = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__",
            # show whether the program is an interpreter
            "PyGILState_GetThisThreadState", "rb_profile_frames", "zend_get_executed_lineno"}
    problems += [f"undefined and not libc's: {name}" for name, version in undefined
                 if not (version or "").startswith("GLIBC_") and name not in weak]
    return problems


def check_tls():
    """Initial-exec: no call to find a variable, and the loader is told of it."""
    problems = [f"calls {name}" for name, _, _ in dynamic_symbols()
                if name in ("__tls_get_addr", "__tls_get_offset")]
    relocations = output("readelf", "-W", "-r", options.preload)
    problems += sorted(set(re.findall(
        r"R_\w+_(?:DTPMOD64|DTPOFF64|TLSDESC|TLS_DTP(?:MOD|REL)(?:64)?)\b", relocations)))
    if not re.search(r"R_\w+_(TPOFF64|TLS_TPREL(64)?)\b", relocations):
        problems.append("no initial-exec relocation: is there any thread-local variable?")
    # GNU ld does not set the flag on aarch64. The loader finds out from the relocations, too.
    if "AArch64" not in output("readelf", "-h", options.preload) and \
            "STATIC_TLS" not in output("readelf", "-d", options.preload):
        problems.append("DF_STATIC_TLS is not set")
    return problems


def glibc_number(version):
    numbers = re.fullmatch(r"GLIBC_([\d.]+)", version or "")
    return tuple(map(int, numbers[1].split("."))) if numbers else None


def is_in_old_glibc(name, has_older):
    """Newer headers call strtol() and its like by other names, and stat() without a wrapper."""
    return name in has_older or re.fullmatch(r"__isoc23_\w+|[fl]?stat(at)?(64)?", name)


def check_glibc():
    """A function that came after GLIBC_MAX may only be a weak reference. This machine's libc keeps
    the older versions of functions that have several, such as pthread_create()."""
    problems = []
    libc = re.search(r"=> (\S+/libc\.so\.6)", output("ldd", sys.executable))[1]
    older = {name for name, version, _, _ in symbols_of(libc)
             if (glibc_number(version) or GLIBC_MAX + (1,)) <= GLIBC_MAX}
    for path in (options.preload, options.command):
        for name, version, defined, is_weak in symbols_of(path):
            number = glibc_number(version)
            if defined or is_weak or not (version or "").startswith("GLIBC"):
                continue
            if not number or number > GLIBC_MAX and not is_in_old_glibc(name, older):
                problems.append(f"{path}: {name} needs {version}")
    return problems


# ---- the source ----

def sources(folders, patterns=("*.c", "*.h", "*.S", "*.def")):
    for folder in folders:
        for pattern in patterns:
            yield from sorted((options.source / folder).rglob(pattern))


def without_comments(text):
    """Same lines, with comments, strings and characters blanked."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


def check_calls():
    problems = []
    for path in sources(["interpose"], ("*.c", "*.h")):
        if path.name in MAY_CALL_LOADER:
            continue
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            if re.search(r"(?<!\w)dlv?sym\s*\(", line):
                problems.append(f"{path.name}:{number}: {line.strip()}")
    # These may; they mean the real one, and never the public dlsym, which is ours.
    for name in sorted(MAY_CALL_LOADER):
        path, = (options.source / "interpose").rglob(name)
        text = without_comments(path.read_text())
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(r"(?<!\w)dlsym\s*\(", line):
                problems.append(f"{name}:{number}: {line.strip()}")
    return problems


def check_environment():
    problems = []
    for path in sources(["interpose"], ("*.c", "*.h")):
        if path.name == "config.c":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r'getenv\s*\(\s*"GPULEAK_', line):
                problems.append(f"{path.name}:{number}: {line.strip()}")
    return problems


def check_spdx():
    problems = []
    for path in sources(["interpose", "ledger", "report", "tools", "tests"]):
        with path.open(encoding="utf-8") as lines:
            if "SPDX-License-Identifier: MIT" not in lines.readline():
                problems.append(str(path.relative_to(options.source)))
    return problems


CHECKS = (
    ("exports are the rows", check_exports),
    ("exports have no version", check_unversioned),
    ("DT_NEEDED is libc.so.6 alone", check_needed),
    ("nothing undefined but libc's", check_undefined),
    ("thread-local variables are initial-exec", check_tls),
    ("nothing that glibc 2.28 lacks", check_glibc),
    ("no public dlsym call, dlvsym only where it belongs", check_calls),
    ("GPULEAK_* is read in config.c alone", check_environment),
    ("an SPDX line first", check_spdx),
)


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload", required=True, type=os.path.abspath)
    parser.add_argument("--command", required=True, type=os.path.abspath)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--cc", default="cc")
    options = parser.parse_args()
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (name, check) in enumerate(CHECKS, 1):
        problems = check()
        print("not ok" if problems else "ok", number, "-", name)
        for problem in problems[:50]:
            print("#", problem)
        failed += bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
