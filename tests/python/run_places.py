#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which line of Python a report names: not one of an installed package, nor of a function that
only allocates for others, and a notebook's cell by its number.

run_places.py --preload LIB --command EXE --standin DIR --helper LIB"""

import json
import re
import shutil
import sys

sys.dont_write_bytecode = True

from run_two_lines import HERE, Place, Tap, compare, parse  # noqa: E402

PROGRAM = HERE / "places.py"
BINDING = """import ctypes, os
library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "_binding.so"))
driver = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
driver.cuInit(0)
driver.cuDeviceGet(ctypes.byref(device), 0)
driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
driver.cuCtxSetCurrent(context)
def allocate(size):
    assert library.helper_allocate(ctypes.c_size_t(size)) == 0
"""


def line_of(marker):
    lines = PROGRAM.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith("# @" + marker))


def install(place):
    """Installs the package `binding`, and a command `tool` that is such a program too."""
    packages = place.root / "site-packages"
    (packages / "binding").mkdir(parents=True)
    (packages / "binding" / "__init__.py").write_text(BINDING)
    shutil.copy(place.options.helper, str(packages / "binding" / "_binding.so"))
    shutil.copy(str(PROGRAM), str(packages / "tool.py"))
    (place.root / "bin").mkdir()
    (place.root / "bin" / "tool").write_text("import tool\n")
    place.env["PYTHONPATH"] = str(packages)


def report(place, *flags, program=PROGRAM, story):
    run = place.command("run", *flags, "--", sys.executable, str(program), story)
    compare("status", 0, run.returncode)
    return run.stderr


def worst(text):
    """Returns the place of the first line, without the caller and the folder."""
    found = re.match("gpuleak: [^\n]*? at (\\S+ \\([^)]*\\)(?: through \\w+)?)", text)
    return found and re.sub(r"\((/|\.\.\.)\S*/", "(", found.group(1))


def package(place):
    """a package and its library: the line of the program that calls them"""
    text = report(place, story="package")
    compare("place", "package (%s:%d)" % (PROGRAM.name, line_of("package")), worst(text))
    path = place.root / "report.json"
    report(place, "--format", "json", "--report", str(path), story="package")
    frames = json.loads(path.read_text())["leaks"][0]["stack"]
    codes = {frame["function"]: (frame.get("role"), frame.get("code")) for frame in frames}
    compare("codes", [(None, "package"), (None, "package"), (None, None)],
            [codes[name] for name in ("helper_allocate", "allocate", "package")])
    for form, pattern in (("junit", 'name="package \\(places.py\\) '),
                          ("sarif", 'places.py"[^{}]*},\\s*"region":\\s*{\\s*"startLine":\\s*%d' %
                           line_of("package"))):
        report(place, "--format", form, "--report", str(path), story="package")
        compare(form, True, re.search(pattern, path.read_text()) is not None)


def rule(place):
    """a user's rule: the package is the application's own code"""
    rules = place.root / "rules"
    rules.write_text("application path:*-packages/binding/*\n")
    compare("place", "allocate", worst(report(place, "--rules", str(rules), story="package"))
            .partition(" ")[0].replace("helper_", ""))


def command(place):
    """a command that is installed: its package's line, not the script's"""
    tool = place.root / "site-packages" / "tool.py"
    text = report(place, program=place.root / "bin" / "tool", story="package")
    compare("codes", False, "/bin/tool" in text.splitlines()[0])
    compare("place", True, "site-packages/" in text.splitlines()[0] and tool.exists())


def wrapper(place):
    """a function that allocates for three others: their lines, "through" it"""
    text = report(place, story="wrapper")
    compare("place", "decode (%s:%d) through device_alloc" % (PROGRAM.name, line_of("decode")),
            worst(text))
    path = place.root / "report.xml"
    report(place, "--format", "junit", "--report", str(path), story="wrapper")
    compare("places", ["decode", "decode", "encode", "encode", "load", "load"],
            sorted(re.findall('name="(\\w+) \\(places.py\\) ', path.read_text())))


def cells(place):
    """a notebook: the number of the cell and the line in it"""
    compare("cell", "<module> (In [3]:2)", worst(report(place, story="cell")))
    compare("kernel", "<module> (ipykernel_42/77.py:1)", worst(report(place, story="kernel")))


def main():
    options = parse(__doc__, "helper")
    tap = Tap()
    for check in (package, rule, command, wrapper, cells):
        place = Place(options)
        install(place)
        tap.step(check.__doc__, check, place)
        shutil.rmtree(str(place.root))
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
