#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fetches and unpacks what packaging/sources lists: fetch.py DOWNLOADS UNPACKED.

Keeps the archives in DOWNLOADS and unpacks each into UNPACKED/NAME. An archive whose SHA-256
differs from the table is never unpacked."""

import hashlib
import io
import pathlib
import shutil
import sys
import tarfile
import urllib.request

from sources import read_sources

TIMEOUT = 60


def fetch(source, downloads):
    """Returns the bytes of SOURCE's archive."""
    kept = downloads / ("%s-%s" % (source.name, source.sha256[:16]))
    if kept.exists() and hashlib.sha256(kept.read_bytes()).hexdigest() == source.sha256:
        return kept.read_bytes()
    troubles = []
    for url in source.urls:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                archive = answer.read()
        except OSError as error:
            troubles.append("%s: %s" % (url, error))
            continue
        found = hashlib.sha256(archive).hexdigest()
        if found == source.sha256:
            kept.write_bytes(archive)
            return archive
        troubles.append("%s: SHA-256 %s, not %s" % (url, found, source.sha256))
    sys.exit("fetch: %s %s\n  %s" % (source.name, source.version, "\n  ".join(troubles)))


def data_of_deb(archive):
    """Returns the tar archive with the files of a Debian package."""
    at = len(b"!<arch>\n")
    while at < len(archive):
        name, size = archive[at:at + 16].strip(), int(archive[at + 48:at + 58])
        at += 60
        if name.startswith(b"data.tar"):
            return archive[at:at + size]
        at += size + size % 2
    sys.exit("fetch: a .deb without data.tar")


def unpack(archive, folder):
    """Unpacks into FOLDER, without the folder that most archives begin with."""
    if archive.startswith(b"!<arch>\n"):
        archive = data_of_deb(archive)
    if folder.exists():
        shutil.rmtree(folder)
    scratch = folder.with_name(folder.name + ".unpacking")
    shutil.rmtree(scratch, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(scratch)
    inside = list(scratch.iterdir())
    if len(inside) == 1 and inside[0].name != "usr":
        inside[0].rename(folder)
        scratch.rmdir()
    else:
        scratch.rename(folder)


def main():
    downloads, unpacked = map(pathlib.Path, sys.argv[1:3])
    downloads.mkdir(parents=True, exist_ok=True)
    unpacked.mkdir(parents=True, exist_ok=True)
    for source in read_sources():
        unpack(fetch(source, downloads), unpacked / source.name)


if __name__ == "__main__":
    main()
