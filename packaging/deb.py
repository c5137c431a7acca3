#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lays out the tree of the Debian package: deb.py --machine M --stage DIR --unpacked DIR --tree DIR.

STAGE is what `meson install` wrote for the prefix /usr, with the libraries of
packaging/dependencies.sh. dpkg-deb then makes the package from TREE. Runs no compiler."""

import argparse
import email.utils
import gzip
import os
import pathlib
import shutil

from sbom import make_sbom
from wheel import LICENSES, ROOT, python_files, third_party, version

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PYTHON = "usr/lib/python3/dist-packages"


def put(path, data, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    path.chmod(mode)


def put_compressed(path, data):
    put(path.with_name(path.name + ".gz"),
        gzip.compress(data.encode() if isinstance(data, str) else data, 9, mtime=0))


def put_python(tree, release):
    """Adds the Python package for every Python 3 of the system, with the entry point that pytest
    reads."""
    for path in python_files():
        put(tree / PYTHON / "gpuleak" / path.name, path.read_bytes())
    info = tree / PYTHON / ("gpuleak-%s.dist-info" % release)
    put(info / "METADATA",
        (ROOT / "python/METADATA.in").read_text().replace("@VERSION@", release))
    put(info / "entry_points.txt", (ROOT / "python/entry_points.txt").read_bytes())


def copyright_text(unpacked):
    """Returns the licences of everything in the package, in one file as Debian wants it."""
    parts = [(ROOT / "LICENSE").read_text(), third_party()]
    for folder, name in LICENSES:
        if name in ("COPYING", "COPYING-GPLV2", "COPYING-LGPLV3") and folder == "elfutils":
            continue
        parts.append("%s: %s\n\n%s" % (folder, name, (unpacked / folder / name).read_text()))
    parts.append("The GPL and LGPL are in /usr/share/common-licenses/GPL-2, GPL-3 and LGPL-3.\n")
    return ("\n" + "-" * 79 + "\n\n").join(parts)


def put_documents(tree, args, release):
    documents = tree / "usr/share/doc/gpuleak"
    put(documents / "copyright", copyright_text(args.unpacked))
    put_compressed(documents / "NEWS", (ROOT / "NEWS").read_bytes())
    put_compressed(documents / "changelog",
                   "gpuleak (%s) unstable; urgency=medium\n\n  * See NEWS.gz.\n\n"
                   " -- The gpuleak authors <maintainers@gpuleak.invalid>  %s\n"
                   % (release, email.utils.formatdate(args.epoch)))
    put(tree / "usr/share/lintian/overrides/gpuleak",
        (ROOT / "packaging/deb/lintian-overrides").read_bytes())
    for page in sorted((tree / "usr/share/man/man1").glob("*.1")):
        put_compressed(page, page.read_bytes())
        page.unlink()


def put_sbom(tree, args, release):
    files = {str(path.relative_to(tree)): (path.read_bytes(), path.stat().st_mode)
             for path in tree.rglob("*") if path.is_file() and not path.is_symlink()}
    purl = "pkg:deb/gpuleak@%s?arch=%s" % (release, ARCHITECTURES[args.machine])
    put(tree / "usr/share/doc/gpuleak/gpuleak.cdx.json",
        make_sbom(purl, release, args.machine, args.epoch, files))


def put_control(tree, machine, release):
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    text = (ROOT / "packaging/deb/control.in").read_text()
    for name, value in (("VERSION", release), ("ARCHITECTURE", ARCHITECTURES[machine]),
                        ("SIZE", str((size + 1023) // 1024))):
        text = text.replace("@%s@" % name, value)
    put(tree / "DEBIAN/control", text)
    put(tree / "DEBIAN/triggers", "activate-noawait ldconfig\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", required=True, choices=sorted(ARCHITECTURES))
    for option in ("--stage", "--unpacked", "--tree"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    release = version()
    shutil.rmtree(args.tree, ignore_errors=True)
    shutil.copytree(args.stage, args.tree / "usr")
    zsh = args.tree / "usr/share/zsh"
    if (zsh / "site-functions").exists():
        (zsh / "site-functions").rename(zsh / "vendor-completions")
    put_python(args.tree, release)
    put_documents(args.tree, args, release)
    put_sbom(args.tree, args, release)
    put_control(args.tree, args.machine, release)
    for path in args.tree.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
        elif path.suffix == ".so" or ".so." in path.name:
            path.chmod(0o644)
    print("gpuleak_%s_%s.deb" % (release, ARCHITECTURES[args.machine]))


if __name__ == "__main__":
    main()
