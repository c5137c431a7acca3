#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Changes two entries in the dynamic section of each FILE: fix_dynamic.py FILE ...

DF_SYMBOLIC is cleared. Zig's driver refuses -Bsymbolic-functions, but takes -Bsymbolic. Both bind a
library's own calls to its own functions. Only this flag is different: with it, the loader would
search this library before all others for every symbol that it needs.

RUNPATH becomes RPATH, which precedes LD_LIBRARY_PATH. So another libdw, for example of conda, does
not replace the one that the command was built with."""

import struct
import sys

PT_DYNAMIC, DT_RPATH, DT_RUNPATH, DT_FLAGS, DF_SYMBOLIC = 2, 15, 29, 30, 2


def fix(data):
    """Changes the ELF file DATA in place."""
    table, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(table, table + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind != PT_DYNAMIC:
            continue
        for entry in range(offset, offset + length, 16):
            tag, value = struct.unpack_from("<QQ", data, entry)
            if tag == DT_FLAGS:
                struct.pack_into("<Q", data, entry + 8, value & ~DF_SYMBOLIC)
            elif tag == DT_RUNPATH:
                struct.pack_into("<Q", data, entry, DT_RPATH)


def main():
    for path in sys.argv[1:]:
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            fix(data)
            file.seek(0)
            file.write(data)


if __name__ == "__main__":
    main()
