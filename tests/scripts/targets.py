#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the ninja targets that some tests run: targets.py BUILD WORD...

A word is a suite or the name of a test. So a sanitized build makes these, and nothing that no test
will run.
"""

import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", what, build], check=True,
                                     stdout=subprocess.PIPE).stdout)


def main():
    build, words = os.path.realpath(sys.argv[1]), set(sys.argv[2:])
    files = {target["id"]: target["filename"] for target in introspect(build, "--targets")}
    wanted = {name for test in introspect(build, "--tests")
              if words & {test["name"], *(suite.split(":")[-1] for suite in test["suite"])}
              for target in test["depends"] for name in files[target]}
    print(*sorted(os.path.relpath(name, build) for name in wanted))


if __name__ == "__main__":
    main()
