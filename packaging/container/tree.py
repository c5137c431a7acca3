#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the folder that the images are built from: tree.py WHEEL FOLDER.

The folder has what the wheel has for any program: the command, the library, and everything that
they find by their own path. The licences go along. The wheel's part for pip stays out: the
Python module is in share/gpuleak. Replaces FOLDER."""

import pathlib
import shutil
import sys
import zipfile

NATIVE = "gpuleak/_native/"
LICENSES = ".dist-info/licenses/"
BILL = ".dist-info/sboms/"
DOCUMENTS = "share/doc/gpuleak/"


def place_of(name):
    """Returns the path below FOLDER of the wheel's file NAME, or None."""
    if name.startswith(NATIVE):
        return name[len(NATIVE):]
    for part in (LICENSES, BILL):
        if part in name:
            return DOCUMENTS + name.partition(part)[2]
    return None


def make_tree(wheel, folder):
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            place = place_of(entry.filename)
            if not place:
                continue
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(entry))
            path.chmod(entry.external_attr >> 16 & 0o777)  # zipfile does not restore it
    if not (folder / "lib/libgpuleak.so").exists():
        raise SystemExit("%s: no wheel of gpuleak" % wheel)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    make_tree(sys.argv[1], pathlib.Path(sys.argv[2]))
