#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that `ninja` builds only the product, and `ninja tests` all that tests need.

    default_targets.py BUILD SOURCE

Prints TAP. It reads what Meson recorded in the build folder, and builds nothing."""
import json
import os
import pathlib
import re
import subprocess
import sys

FEWEST_TARGETS = 100


def built_by(build, name):
    """Returns the files that `ninja NAME` makes or reads, relative to the build folder."""
    graph = subprocess.run(["ninja", "-C", str(build), "-t", "graph", name], check=True,
                           stdout=subprocess.PIPE, universal_newlines=True).stdout
    return set(re.findall(r'label="([^"]+)"', graph))


def read(build, what):
    return json.loads((build / "meson-info" / ("intro-%s.json" % what)).read_text())


def main():
    build, source = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    files, of_tests = {}, {}
    for target in read(build, "targets"):
        files[target["id"]] = [os.path.relpath(file, build) for file in target["filename"]]
        folder = pathlib.Path(os.path.relpath(target["defined_in"], source)).parent
        if folder.parts[:1] == ("tests",) and target["name"] != "tests":
            of_tests.update(dict.fromkeys(files[target["id"]], folder / "meson.build"))
    named = {file: "test " + test["name"] for test in read(build, "tests")
             for target in test["depends"] for file in files[target]}
    product, tests = built_by(build, "all"), built_by(build, "tests")

    few = [] if len(of_tests) >= FEWEST_TARGETS and "tools/gpuleak" in product & tests else ["targets"]
    results = [
        ("the build folder has the product and the tests", few, {}, "too few"),
        ("`ninja` builds no target of a test", product & set(of_tests), of_tests,
         "set build_by_default: false"),
        ("`ninja tests` builds every target of a test", set(of_tests) - tests, of_tests,
         "add it to test_targets"),
        ("`ninja tests` builds what tests name", set(named) - tests, named, "add it to test_targets"),
    ]
    print("1..%d" % len(results), flush=True)
    for number, (what, wrong, where, mend) in enumerate(results, 1):
        print("%s %d - %s" % ("not ok" if wrong else "ok", number, what))
        for file in sorted(wrong):
            print("# %s (%s): %s" % (file, where.get(file, ""), mend))
    return any(wrong for _, wrong, _, _ in results)


if __name__ == "__main__":
    sys.exit(main())
