#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the floors by symbols: floors_by_linker.py ARCHIVE... Prints TAP.

An object of libgpuleak.so uses symbols of its own folder and of folders below it. floors.py reads
#include lines, which a declaration by hand gets past. There are three ways up: each API's table
of operations, the functions that base/ and recorder/ call in higher folders, and what a lock of
ledger/ calls while its owner is gone or asleep."""
import os
import pathlib
import re
import subprocess
import sys

import floors

WAYS_UP = re.compile(r"api_ops_\w+|upcalls|lock_lost|lock_sleep")
FOLDERS = sorted((folder for floor in floors.GROUND + floors.TOWERS[0] for folder in floor),
                 key=len, reverse=True)


def path_of(member):
    """The source of an object: interpose/cuda/pool/pool_slabs.c for cuda_pool_pool_slabs.c.o."""
    for folder in FOLDERS:
        prefix = os.path.relpath(folder, "interpose").replace("/", "_") + "_"
        if member.startswith(prefix):
            return pathlib.Path(folder, member.removeprefix(prefix).removesuffix(".o"))
    return None


def symbols(archives):
    """[(object, its symbol, the symbol's type)]."""
    rows = []
    for archive in archives:
        nm = subprocess.run(["nm", "-A", archive], capture_output=True, text=True, check=True)
        for line in nm.stdout.splitlines():
            place, kind, name = re.fullmatch(r"(.*):[0-9a-f ]*(\S) (\S+)", line).groups()
            rows.append((path_of(re.split(r"[:/]", place)[-1]), name, kind))
    return rows


def check(rows):
    defined = {name: path for path, name, kind in rows if kind in "TDBRVW"}
    return [f"{path} uses {name} of {defined[name]}, which is not below it"
            for path, name, kind in rows
            if kind == "U" and name in defined and not WAYS_UP.fullmatch(name)
            and path.parent != defined[name].parent
            and floors.floor_of(path) <= floors.floor_of(defined[name])]


def main():
    rows = symbols(sys.argv[1:])
    low, high = pathlib.Path("interpose/block/x.c"), pathlib.Path("interpose/cuda/y.c")
    cases = [
        ("every object has a folder", [name for path, name, _ in rows if path is None]),
        ("no symbol goes up", check(rows)),
        ("a symbol that goes up is found",
         [] if check([(low, "f", "U"), (high, "f", "T")]) else ["check() found nothing"]),
    ]
    return floors.report(cases)


sys.exit(main())
