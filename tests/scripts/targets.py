#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the ninja targets that the tests of some suites run: targets.py BUILD SUITE...

So that a sanitized build makes these and not what nobody is going to run.
"""

import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", what, build], check=True,
                                     stdout=subprocess.PIPE).stdout)


def main():
    build, suites = os.path.realpath(sys.argv[1]), set(sys.argv[2:])
    files = {target["id"]: target["filename"] for target in introspect(build, "--targets")}
    wanted = {name for test in introspect(build, "--tests")
              if suites & {suite.split(":")[-1] for suite in test["suite"]}
              for target in test["depends"] for name in files[target]}
    print(*sorted(os.path.relpath(name, build) for name in wanted))


if __name__ == "__main__":
    main()
