#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the wheel from what was built: wheel.py --machine M --stage DIR --unpacked DIR --out DIR.

STAGE is what `meson install` wrote, with the libraries of packaging/dependencies.sh. The same input
makes the same bytes: names are sorted and every time is SOURCE_DATE_EPOCH. Runs no compiler."""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import stat
import sys
import time
import zipfile

from sbom import make_sbom
from sources import read_sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAG = "py3-none-manylinux_2_28_%s"
LARGEST = 6 << 20
NATIVE = "gpuleak/_native"
# The folders of the stage that lie below NATIVE, as they are installed. What only a build of another
# program needs stays out.
FOLDERS = ["bin", "lib", "include", "share/gpuleak"]
LEFT_OUT = ["lib/pkgconfig/", "lib/cmake/"]
# What is installed below the prefix of the Python: pages for man, completions for shells.
SHARED = ["share/man/man1", "share/bash-completion/completions", "share/zsh/site-functions",
          "share/fish/vendor_completions.d"]
# The texts that go along: (folder of the unpacked source, file).
LICENSES = [
    ("elfutils", "COPYING"), ("elfutils", "COPYING-LGPLV3"), ("elfutils", "COPYING-GPLV2"),
    ("libunwind", "COPYING"), ("jansson", "LICENSE"), ("zlib", "LICENSE"),
    ("libiberty", "libiberty/COPYING.LIB"), ("xz", "COPYING"), ("xz", "COPYING.0BSD"), ("uthash", "LICENSE"),
]


def version():
    return (ROOT / "python/gpuleak/VERSION").read_text().strip()


def python_files():
    """Returns the files of the Python package, sorted."""
    return sorted(path for path in (ROOT / "python/gpuleak").iterdir()
                  if path.suffix == ".py" or path.name in ("VERSION", "py.typed"))


def metadata(release):
    """Returns METADATA: the package's own, with the wheel's licences and the README."""
    head = (ROOT / "python/METADATA.in").read_text().replace("@VERSION@", release).rstrip("\n")
    bundled = " AND ".join(sorted({"(%s)" % s.license if " OR " in s.license else s.license
                                   for s in read_sources() if s.name != "opencl-headers"}))
    return "%s\nLicense: MIT AND %s\nDescription-Content-Type: text/markdown\n\n%s" % (
        re.sub(r"^License: .*\n", "", head + "\n", flags=re.M).rstrip("\n"), bundled,
        (ROOT / "python/README.md").read_text())


def third_party():
    """Returns the text that says what the wheel has besides gpuleak, and where its source is."""
    lines = [
        "This wheel has these libraries besides gpuleak. Their licences are beside this file.",
        "",
        "libelf and libdw (elfutils) are the files lib/gpuleak/libelf.so.1 and libdw.so.1 below",
        "gpuleak/_native, and libiberty's demanglers are libiberty.so.1 beside them. You may replace them by libraries that you built or changed, with the",
        "same names. libunwind.so.8 may be replaced, too. jansson, zlib, liblzma (xz) and uthash",
        "are parts of other files. To build all of them again: tools/package.sh wheel, in",
        "gpuleak's source.",
        "",
    ]
    for source in read_sources():
        if source.name == "opencl-headers":
            continue
        lines += ["%s %s" % (source.name, source.version), "  license: " + source.license,
                  "  SHA-256 of the source archive: " + source.sha256]
        lines += ["  source: " + url for url in source.urls] + [""]
    return "\n".join(lines)


def console_entry():
    plugin = (ROOT / "python/entry_points.txt").read_text().rstrip("\n")
    return plugin + "\n\n[console_scripts]\ngpuleak = _gpuleak_command:main\n"


def contents(args, release):
    """Returns {name in the wheel: (bytes, mode)} without RECORD."""
    info = "gpuleak-%s.dist-info" % release
    shared = "gpuleak-%s.data/data" % release
    files = {}

    def put(name, data, mode=0o644):
        files[name] = (data.encode() if isinstance(data, str) else data, mode)

    for path in python_files():
        put("gpuleak/" + path.name, path.read_bytes())
    put("_gpuleak_command.py", (ROOT / "packaging/wheel/_gpuleak_command.py").read_bytes())
    for folder in FOLDERS:
        for path in sorted((args.stage / folder).rglob("*")):
            name = str(path.relative_to(args.stage))
            if path.is_file() and not name.startswith(tuple(LEFT_OUT)):
                put(NATIVE + "/" + name, path.read_bytes(),
                    0o755 if path.stat().st_mode & 0o100 else 0o644)
    for folder in SHARED:
        for path in sorted((args.stage / folder).glob("*")):
            put("%s/%s/%s" % (shared, folder, path.name), path.read_bytes())
    put(info + "/METADATA", metadata(release))
    put(info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: gpuleak tools/package.sh\n"
        "Root-Is-Purelib: false\nTag: %s\n" % (TAG % args.machine))
    put(info + "/entry_points.txt", console_entry())
    put(info + "/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
    for folder, name in LICENSES:
        put("%s/licenses/%s/%s" % (info, folder, name),
            (args.unpacked / folder / name).read_bytes())
    put(info + "/licenses/THIRD-PARTY.txt", third_party())
    put(info + "/sboms/gpuleak.cdx.json",
        make_sbom("pkg:pypi/gpuleak@" + release, release, args.machine, args.epoch, files))
    return files


def record(files, name):
    """Returns RECORD, the list of all files with their hashes."""
    lines = []
    for path in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path][0]).digest())
        lines.append("%s,sha256=%s,%d" % (path, digest.rstrip(b"=").decode(), len(files[path][0])))
    return "\n".join(lines + ["%s,," % name, ""])


def write(path, files, epoch):
    moment = time.gmtime(max(epoch, 315532800))[:6]  # zip knows no year before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        # pip reads the metadata first, so it lies last, as in other wheels.
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            data, mode = files[name]
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            archive.writestr(entry, data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", required=True, choices=["x86_64", "aarch64"])
    for option in ("--stage", "--unpacked", "--out"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    release = version()
    files = contents(args, release)
    name = "gpuleak-%s.dist-info/RECORD" % release
    files[name] = (record(files, name).encode(), 0o644)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / ("gpuleak-%s-%s.whl" % (release, TAG % args.machine))
    write(path, files, args.epoch)
    size = path.stat().st_size
    if size > LARGEST:
        sys.exit("wheel: %s has %d bytes, more than %d" % (path, size, LARGEST))
    print(path)


if __name__ == "__main__":
    main()
