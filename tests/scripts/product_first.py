#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes what only tests need out of the target `all` of a build folder.

Meson runs it after it wrote build.ninja. Since 1.7 Meson itself does this; before, `all` contains
every program that a test names. `ninja test` still builds them."""
import os
import pathlib
import re
import sys

ONLY_FOR_TESTS = ["meson-test-prereq", "meson-benchmark-prereq"]


def without(words, line):
    return " ".join(word for word in line.split(" ") if word not in words)


def main():
    file = pathlib.Path(os.environ["MESON_BUILD_ROOT"]) / "build.ninja"
    lines = file.read_text().split("\n")
    found = set()
    for number, line in enumerate(lines):
        edge = re.match(r"build (all|meson-internal__test): ", line)
        if not edge:
            continue
        found.add(edge.group(1))
        lines[number] = without(ONLY_FOR_TESTS, line)
        if edge.group(1) != "all":
            lines[number] += " " + ONLY_FOR_TESTS[0]
    if len(found) != 2:
        print("build.ninja is not as expected: `ninja` will build the tests, too", file=sys.stderr)
        return
    new = file.with_name("build.ninja.new")
    new.write_text("\n".join(lines))
    new.replace(file)


if __name__ == "__main__":
    main()
