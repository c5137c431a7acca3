# SPDX-License-Identifier: MIT
"""Lets pip build gpuleak from its source (PEP 517), by tools/package.sh: the same wheel as that of a
release. Needs what tools/package.sh needs: make, m4, pkg-config, gcc and the network. It names what
is missing. Builds nothing itself."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def _make(kind, pattern, folder, *words):
    """Runs tools/package.sh and moves the file that it makes to FOLDER. Returns its name."""
    dist = ROOT / "build-package" / "dist"
    for old in dist.glob(pattern):
        old.unlink()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([ROOT / "tools/package.sh", kind, *words], cwd=ROOT, env=environment,
                          check=False)
    if done.returncode != 0:
        sys.exit("gpuleak: tools/package.sh %s failed; a release has wheels" % kind)
    made, = dist.glob(pattern)
    shutil.move(str(made), folder)
    return made.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    del config_settings, metadata_directory
    machine = platform.machine()
    return _make("wheel", "gpuleak-*_%s.whl" % machine, wheel_directory, machine)


def build_sdist(sdist_directory, config_settings=None):
    del config_settings
    return _make("source", "gpuleak-*.tar.gz", sdist_directory)
