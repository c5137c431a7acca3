#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write a C file with a stub for every exported name that no source implements.

gen_stubs.py NAMES OUTPUT SOURCE...: a name is implemented if a source has STANDIN(name) or
NOTHING(name). An implemented name that NAMES lacks is an error.
"""
import re
import sys

HEAD = """/* SPDX-License-Identifier: MIT
 *
 * Made by gen_stubs.py: every name that the stand-in exports and does not implement.
 * Each returns CUDA_ERROR_NOT_SUPPORTED.
 */
#define STUB(name) \\
	int name(void); \\
	__attribute__((visibility("default"))) int name(void) \\
	{ \\
		return 801; \\
	}

"""


def main():
    names_path, output, *sources = sys.argv[1:]
    with open(names_path, encoding="ascii") as lines:
        names = lines.read().split()
    done = set()
    for source in sources:
        with open(source, encoding="utf-8") as text:
            done.update(re.findall(r"^(?:STANDIN|NOTHING)\((cu\w+)\)", text.read(), re.M))
    unknown = sorted(done - set(names))
    if unknown:
        sys.exit(f"implemented, but not exported by the driver: {' '.join(unknown)}")
    with open(output, "w", encoding="ascii") as out:
        out.write(HEAD)
        for name in names:
            if name not in done:
                out.write(f"STUB({name})\n")


main()
