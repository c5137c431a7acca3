#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fetches what tests read traces with, pinned by content: PyTorch's memory viewer and D3, and
Perfetto's descriptions of its messages. tools/setup.sh --tests runs this.

    fetch.py             fetch it, unless it is there
    fetch.py --folder    print its folder; fail if it is not there

The folder is in the user's cache. Its name changes with what is fetched. GPULEAK_TEST_VIEWERS can
name another one with the same files."""

import contextlib
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile

REQUIREMENTS = pathlib.Path(__file__).with_name("formats.requirements")
# Debian's archive has PyTorch's source, without parts that are not free. PyTorch's packages do not
# contain MemoryViz.js.
SOURCE = "http://deb.debian.org/debian/pool/main/p/pytorch/pytorch_2.6.0+dfsg.orig.tar.xz"
SHA256 = "099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff"
FILES = ("torch/cuda/_memory_viz.py", "torch/utils/viz/MemoryViz.js")
TIMEOUT = 60


def folder():
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + SHA256.encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(os.environ.get("GPULEAK_TEST_VIEWERS") or
                        os.path.join(cache, "gpuleak", "viewers-" + key))


def fetch_packages(work):
    packages = work / "packages"
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download",
                    "--no-deps", "--require-hashes", "--only-binary", ":all:", "-d", packages,
                    "-r", REQUIREMENTS], check=True)
    for package in packages.iterdir():
        with zipfile.ZipFile(package) as wheel:
            wheel.extractall(work)
    shutil.copy(work / "mpld3" / "js" / "d3.v5.min.js", work / "d3.js")
    shutil.rmtree(packages)


def fetch_viewer(work):
    with urllib.request.urlopen(SOURCE, timeout=TIMEOUT) as answer:
        archive = answer.read()
    found = hashlib.sha256(archive).hexdigest()
    if found != SHA256:
        sys.exit("%s: SHA-256 %s, not %s" % (SOURCE, found, SHA256))
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.name.endswith(FILES):
                name = pathlib.Path(member.name).name
                (work / name).write_bytes(tar.extractfile(member).read())


def main():
    if sys.argv[1:] == ["--folder"]:
        print(folder())
        return not folder().exists()
    if folder().exists():
        return 0
    folder().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder().parent) as parent:
        work = pathlib.Path(parent) / "viewers"
        work.mkdir()
        fetch_packages(work)
        fetch_viewer(work)
        with contextlib.suppress(OSError):  # another run was faster
            work.rename(folder())
    return not folder().exists()


if __name__ == "__main__":
    sys.exit(main())
