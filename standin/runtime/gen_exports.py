#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write what a libcudart.so exports: gen_exports.py NAMES SONAME STUBS MAP SOURCE...

STUBS: a C file with a function for every name in NAMES that no source implements; it returns
cudaErrorNotSupported. MAP: a version script that gives every name the version with which programs
import it: the library's own name."""
import re
import sys

HEAD = """/* SPDX-License-Identifier: MIT
 *
 * Made by gen_exports.py: every name that the runtime exports and the stand-in does not implement.
 */
#include "standin/runtime/runtime.h"

#define STUB(name)                           \\
	CUDART(name)(void)                   \\
	{                                    \\
		return done(cudaErrorNotSupported); \\
	}

"""
SUFFIXES = {"CUDART": [""], "CUDART_UNABLE": [""], "CUDART_STREAM": ["", "_ptsz"],
            "CUDART_WAITS": ["", "_ptds"]}


def implemented(source):
    """Returns the names that SOURCE exports."""
    with open(source, encoding="utf-8") as file:
        text = file.read()
    names = set(re.findall(r"^EXPORTED [^\n;]*?\**(\w+)\(", text, re.M))
    for word, name in re.findall(r"^(CUDART(?:_STREAM|_WAITS|_UNABLE)?)\((\w+)", text, re.M):
        names.update(name + suffix for suffix in SUFFIXES[word])
    return names


def main():
    names_path, soname, stubs, version_map, *sources = sys.argv[1:]
    with open(names_path, encoding="ascii") as lines:
        names = lines.read().split()
    done = set().union(*map(implemented, sources))
    with open(stubs, "w", encoding="ascii") as out:
        out.write(HEAD)
        out.writelines(f"STUB({name})\n" for name in names if name not in done)
    with open(version_map, "w", encoding="ascii") as out:
        out.write(soname + " {\nglobal:\n")
        out.writelines(f"\t{name};\n" for name in names)
        out.write("local:\n\t*;\n};\n")


main()
