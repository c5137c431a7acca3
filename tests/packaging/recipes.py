#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks packaging/recipes: recipes.py ROOT. TAP. Fills them for an archive of the last commit.

Spack and vcpkg are not installed, so small stand-ins run their recipes. A tool that is
missing skips its line; packaging/recipes/README.md says which recipe was tried how."""

import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import contents  # noqa: E402

# What meson.build looks for, by the names of the package managers.
NEEDED = {
    "conda": {"elfutils", "jansson", "libunwind", "uthash", "zlib", "khronos-opencl-icd-loader"},
    "spack": {"elfutils", "jansson", "libunwind", "uthash", "zlib-api", "opencl-c-headers"},
    "nix": {"elfutils", "jansson", "libunwind", "uthash", "zlib", "opencl-headers"},
}
VCPKG = """
function(vcpkg_download_distfile out)
  cmake_parse_arguments(A "" "FILENAME;SHA512" "URLS" ${ARGN})
  if(NOT A_URLS MATCHES "^https://github.com/owner/gpuleak/releases/download/v.*/${A_FILENAME}$")
    message(FATAL_ERROR "address ${A_URLS}")
  endif()
  file(SHA512 "${GIVEN}" seen)
  if(NOT seen STREQUAL A_SHA512)
    message(FATAL_ERROR "SHA512 ${A_SHA512}")
  endif()
  set(${out} "${GIVEN}" PARENT_SCOPE)
endfunction()
function(vcpkg_extract_source_archive out)
  cmake_parse_arguments(A "" "ARCHIVE" "" ${ARGN})
  file(ARCHIVE_EXTRACT INPUT "${A_ARCHIVE}" DESTINATION "${PLACE}/source")
  file(GLOB top "${PLACE}/source/*")
  set(${out} "${top}" PARENT_SCOPE)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(A "" "" "FILE_LIST" ${ARGN})
  file(INSTALL ${A_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
endfunction()
include("${PORTFILE}")
"""


def missing(tap, tool):
    if shutil.which(tool):
        return False
    tap.number += 1
    print("ok %d - %s # SKIP not installed" % (tap.number, tool))
    return True


def archive(root, work, version):
    """A source archive of the last commit, as tools/package.sh source makes it."""
    path = work / ("gpuleak-%s.tar.gz" % version)
    subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "archive", "--format=tar.gz",
                    "--prefix=gpuleak-%s/" % version, "-o", path, "HEAD"], check=True)
    return path


def check_spack(tap, folder, version):
    seen = {"depends_on": [], "version": []}

    def record(name):
        return lambda *words, **_: seen.setdefault(name, []).append(words[0])

    directives = types.ModuleType("spack.package")
    for name in ("license", "version", "depends_on", "requires"):
        setattr(directives, name, record(name))
    meson = types.ModuleType("spack_repo.builtin.build_systems.meson")
    meson.MesonPackage = type("MesonPackage", (), {})
    stand_ins = {"spack": types.ModuleType("spack"), "spack.package": directives}
    for depth in range(1, 4):
        name = ".".join(meson.__name__.split(".")[:depth])
        stand_ins[name] = types.ModuleType(name)
    sys.modules.update(stand_ins, **{meson.__name__: meson})
    made = runpy.run_path(str(folder / "spack/package.py"))["Gpuleak"]
    names = {one.partition("@")[0] for one in seen["depends_on"]}
    tap.check(seen["version"] == [version] and NEEDED["spack"] <= names, "Spack's class", seen)
    return made().meson_args()


def check_vcpkg(tap, folder, work, given):
    port = json.loads((folder / "vcpkg/vcpkg.json").read_text())
    tap.check(port["name"] == "gpuleak" and port["supports"] == "linux", "vcpkg.json", port)
    if missing(tap, "cmake"):
        return
    (work / "stand-in.cmake").write_text(VCPKG)
    done = subprocess.run(
        ["cmake", "-DGIVEN=%s" % given, "-DPLACE=%s" % work, "-DPORT=gpuleak",
         "-DVERSION=%s" % port["version"], "-DCURRENT_PACKAGES_DIR=%s/installed" % work,
         "-DPORTFILE=%s/vcpkg/portfile.cmake" % folder, "-P", work / "stand-in.cmake"],
        check=False, capture_output=True, text=True)
    files = {str(path.relative_to(work / "installed")) for path in (work / "installed").rglob("*")
             if path.is_file()}
    tap.check(done.returncode == 0 and files == {"include/gpuleak.h", "share/gpuleak/usage",
                                                "share/gpuleak/LICENSE"},
              "vcpkg's portfile installs the header", done.stdout + done.stderr, files)


def check_conda(tap, folder, version):
    text = (folder / "conda-forge/recipe.yaml").read_text()
    try:
        import yaml
    except ImportError:
        yaml = None
    recipe = yaml.safe_load(text) if yaml else {}
    host = set(recipe.get("requirements", {}).get("host", NEEDED["conda"]))
    tap.check(NEEDED["conda"] <= host and 'version: "%s"' % version in text,
              "conda-forge's recipe", host)
    return re.findall(r"-D\w+=\w+", text)


def main():
    root, tap = pathlib.Path(sys.argv[1]).resolve(), contents.Tap()
    version = (root / "python/gpuleak/VERSION").read_text().strip()
    if not (root / ".git").exists():
        if os.environ.get("GPULEAK_MUST_RUN"):
            sys.exit("Bail out! not a git checkout")
        print("1..0 # SKIP not a git checkout")
        return
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        given, folder = archive(root, work, version), work / "filled"
        fill = root / "packaging/recipes/fill.sh"
        done = subprocess.run([fill, folder, "owner", given], check=False, capture_output=True)
        left = [path for path in folder.rglob("*") if path.is_file()
                and re.search(r"@[A-Z0-9]+@", path.read_text())]
        tap.check(done.returncode == 0 and not left, "all places are filled", done, left)
        wrong = subprocess.run([fill, work / "x", "owner", root / "NEWS"], check=False,
                               capture_output=True)
        tap.check(wrong.returncode == 1, "a file that is no source archive is refused", wrong)
        options = check_conda(tap, folder, version) + check_spack(tap, folder, version)
        nix = (folder / "nix/flake.nix").read_text()
        tap.check(NEEDED["nix"] <= set(re.findall(r"pkgs\.([\w-]+)", nix)),
                  "the flake's inputs", nix)
        options += re.findall(r"-D\w+=\w+", nix)
        known = re.findall(r"^option\('(\w+)'", (root / "meson_options.txt").read_text(), re.M)
        unknown = [one for one in options
                   if one.startswith("-D") and one[2:].split("=")[0] not in known]
        tap.check(len(options) > 4 and not unknown, "the options of meson exist", options, unknown)
        if not missing(tap, "nix-instantiate"):
            done = subprocess.run(["nix-instantiate", "--parse", folder / "nix/flake.nix"],
                                  check=False, capture_output=True, text=True)
            tap.check(done.returncode == 0, "Nix parses the flake", done.stderr)
        check_vcpkg(tap, folder, work, given)
    print("1..%d" % tap.number)
    sys.exit(tap.failed)


if __name__ == "__main__":
    main()
