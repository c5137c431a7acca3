#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make resolver.def: gen_resolver.py TYPEDEFS... < cuda13.names > resolver.def

TYPEDEFS are the CUDA toolkit's cudaTypedefs.h and cudaProfilerTypedefs.h, where
PFN_<base>_v<version>[_ptds|_ptsz] names every ABI of every call. The n-th ABI of a base
name is the n-th exported symbol of it: base, base_v2, base_v3, with the same suffix.
Not part of the build: run it when cuda13.names is replaced by the names of a newer CUDA.
"""
import collections
import re
import sys

HEAD = """/* SPDX-License-Identifier: MIT
 *
 * What cuGetProcAddress finds: base name, first CUDA version with the symbol, exported symbol, and
 * 1 if the symbol uses the per-thread default stream (flag 2). Sorted by name, then stream, then
 * version. Made by gen_resolver.py from the typedef headers of CUDA 13.0; a real driver
 * (580.159.04) returned the same for every name, flags 0 and 2, all versions.
 */
"""


def main():
    names = sys.stdin.read().split()
    versions = collections.defaultdict(set)
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as header:
            for base, version, stream in re.findall(
                    r"PFN_(cu\w+?)_v(\d{4,5})(_ptds|_ptsz)?\)", header.read()):
                versions[base, stream].add(int(version))
    out = [HEAD]
    for (base, stream), since in sorted(versions.items()):
        symbols = sorted(n for n in names if re.fullmatch(rf"{base}(_v\d)?{stream}", n))
        if len(symbols) != len(since):
            sys.exit(f"{base}{stream}: {sorted(since)} does not fit {symbols}")
        for version, symbol in zip(sorted(since), symbols):
            out.append(f"FOUND({base}, {version}, {symbol}, {int(bool(stream))})\n")
    sys.stdout.write("".join(out))


main()
