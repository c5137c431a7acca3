#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Packs a wheel from an ordinary build, and checks it: contents.py BUILD. TAP.

tools/package.sh compiles for an old glibc, which takes minutes. This checks the rest: what is in the
wheel, that pip installs it at a path with a blank, that its command and library find each other
there, and that the same input makes the same bytes."""

import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "packaging"))
sys.dont_write_bytecode = True
from sources import read_sources  # noqa: E402
import wheel as maker  # noqa: E402


class Tap:
    def __init__(self):
        self.number, self.failed = 0, False

    def check(self, good, name, *remarks):
        self.number += 1
        print("%sok %d - %s" % ("" if good else "not ", self.number, name), flush=True)
        if not good:
            self.failed = True
            for line in "\n".join(map(str, remarks)).splitlines():
                print("# " + line)


def make_stage(build, work):
    """Returns the folder of an installation, moved out of its prefix."""
    options = json.loads(subprocess.run(["meson", "introspect", "--buildoptions", str(build)],
                                        check=True, capture_output=True).stdout)
    value = {option["name"]: option["value"] for option in options}
    subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild", "--destdir",
                    str(work / "image")], check=True, capture_output=True)
    stage = work / "stage"
    (work / "image" / value["prefix"].lstrip("/")).rename(stage)
    if value["libdir"] != "lib":
        (stage / value["libdir"]).rename(stage / "lib.moved")
        shutil.rmtree(stage / "lib", ignore_errors=True)
        (stage / "lib.moved").rename(stage / "lib")
    for folder in (stage / "lib").glob("python3*"):
        shutil.rmtree(folder)
    return stage


def make_licenses(work):
    """Texts that stand for those of the unpacked sources."""
    for folder, name in maker.LICENSES:
        path = work / "unpacked" / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("licence of " + folder)
    return work / "unpacked"


def pack(stage, unpacked, out):
    done = subprocess.run([sys.executable, ROOT / "packaging/wheel.py", "--machine", "x86_64",
                           "--stage", stage, "--unpacked", unpacked, "--out", out], check=True,
                          env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"),
                          capture_output=True, text=True)
    return pathlib.Path(done.stdout.strip())


def check_record(tap, archive):
    names = archive.namelist()
    record = next(name for name in names if name.endswith(".dist-info/RECORD"))
    rows = dict(line.split(",", 1) for line in archive.read(record).decode().splitlines())
    wrong = [name for name in names if name != record and rows.get(name) != "sha256=%s,%d" % (
        base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode(),
        len(archive.read(name)))]
    tap.check(not wrong and set(rows) == set(names), "RECORD has every file with its hash", wrong)


def check_bill(tap, bill):
    """The bill of materials is complete, and valid by the schema of CycloneDX."""
    tap.check({source.name for source in read_sources()} <= {c["name"] for c in bill["components"]},
              "the bill of materials has them, too", bill["components"])
    try:
        import jsonschema
    except ImportError:
        tap.check(not os.environ.get("GPULEAK_MUST_RUN"), "the bill is valid # SKIP no jsonschema")
        return
    schema = json.loads((HERE / "schemas/cyclonedx-1.5.json").read_text())
    wrong = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(bill)]
    tap.check(not wrong, "the bill is valid", *wrong)


def check_names(tap, archive):
    names = archive.namelist()
    modules = {"gpuleak/" + path.name for path in (ROOT / "python/gpuleak").glob("*.py")}
    needed = modules | {"_gpuleak_command.py", "gpuleak/VERSION", "gpuleak/py.typed"} | {
        maker.NATIVE + "/" + name for name in (
            "bin/gpuleak", "lib/libgpuleak.so", "include/gpuleak.h", "share/gpuleak/gpuleak.rules",
            "share/gpuleak/bypass/sitecustomize.py", "share/gpuleak/docs/guides/gate.md",
            "share/gpuleak/docs/reference/options.md", "share/gpuleak/docs/glossary.md")}
    tap.check(needed <= set(names), "everything is in it", needed - set(names))
    executable = {name for name in names if archive.getinfo(name).external_attr >> 16 & 0o100}
    tap.check(maker.NATIVE + "/bin/gpuleak" in executable and not modules & executable,
              "the command is executable", executable)
    bundled = {source.name for source in read_sources()} - {"opencl-headers"}
    texts = {name.split("/licenses/")[1].split("/")[0] for name in names if "/licenses/" in name}
    tap.check(bundled <= texts, "each bundled source has its licence", bundled - texts)
    third = next(name for name in names if name.endswith("THIRD-PARTY.txt"))
    text = archive.read(third).decode()
    tap.check(all(source.sha256 in text for source in read_sources() if source.name in bundled),
              "and the hash of its archive")
    bill = json.loads(archive.read(next(name for name in names if name.endswith(".cdx.json"))))
    check_bill(tap, bill)
    of_files = {c["name"] for c in bill["components"] if c["type"] == "file"}
    binaries = executable | {name for name in names if re.search(r"\.so(\.|$)", name)}
    tap.check(of_files == binaries, "and the hash of each binary", of_files ^ binaries)


def check_installed(tap, build, wheel, work):
    place = work / "with blank"
    venv.create(place, with_pip=True)
    done = subprocess.run([place / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps",
                           wheel], check=False, capture_output=True, text=True)
    tap.check(done.returncode == 0, "pip installs it", done.stdout + done.stderr)
    command = place / "bin/gpuleak"
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("GPULEAK_", "LC_", "LD_", "LANG"))}

    def run(*words, **more):
        return subprocess.run([command, *words], check=False, capture_output=True, text=True,
                              env=dict(environment, **more))

    done = run("--version")
    tap.check(maker.version() in done.stdout, "its command runs", done.stdout + done.stderr)
    done = run("run", "--gate", "--", build / "tests/programs/p_cuda_wrong_frees",
               LD_LIBRARY_PATH=str(build / "standin/driver"))
    tap.check(done.returncode == 23 and re.search(r"cuda_wrong_frees\.c:[0-9]", done.stderr),
              "and reports lines", done.returncode, done.stderr)
    program = ["sh", "-c", 'grep SigIgn /proc/self/status; echo "<${LC_CTYPE-}>"']
    bare = subprocess.run(program, check=False, capture_output=True, text=True, env=environment)
    done = run("run", "--", *program)
    tap.check("<>" in bare.stdout and done.stdout == bare.stdout,
              "Python's own signals and variables do not reach the program", done.stdout)
    done = run("run", "--", place / "bin/python", "-c",
               "import gpuleak; print(gpuleak.active(), gpuleak.command())")
    tap.check(done.stdout.startswith("True "), "the module finds the library", done.stdout,
              done.stderr)
    done = subprocess.run([place / "bin/python", "-c", "from importlib.metadata import *; "
                           "print([e.value for e in distribution('gpuleak').entry_points])"],
                          check=False, capture_output=True, text=True)
    tap.check("gpuleak.pytest_plugin" in done.stdout, "pytest finds the plugin",
              done.stdout + done.stderr)


def main():
    build, tap = pathlib.Path(sys.argv[1]).resolve(), Tap()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        stage, unpacked = make_stage(build, work), make_licenses(work)
        first, second = (pack(stage, unpacked, work / name) for name in ("one", "two"))
        tap.check(first.read_bytes() == second.read_bytes(), "twice the same bytes")
        with zipfile.ZipFile(first) as archive:
            check_record(tap, archive)
            check_names(tap, archive)
        check_installed(tap, build, first, work)
    print("1..%d" % tap.number)
    sys.exit(tap.failed)


if __name__ == "__main__":
    main()
