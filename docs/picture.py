#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes docs/images/report.png, the picture of the HTML report: runs docs/examples/viewer_pyopencl.py
under gpuleak and takes a picture of the report in a headless Chromium. Needs PyOpenCL and PoCL.

    docs/picture.py make GPULEAK PNG     writes the picture
    docs/picture.py check GPULEAK ROOT   TAP: the script works, the picture of the tree is not too large
"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/html"))
sys.dont_write_bytecode = True
import browser  # noqa: E402

WIDTH, HEIGHT = 980, 1240
BYTES_MAX = 150 << 10
PYTHON = "/usr/bin/python3"  # has the distribution's PyOpenCL
# The report names the folder. It is the same for everybody who makes the picture.
FOLDER = pathlib.Path("/tmp/viewer")


def missing_opencl():
    """What the example needs and is not installed here, or None."""
    if not os.path.exists(PYTHON) or subprocess.run(
            [PYTHON, "-c", "import pyopencl as cl; cl.create_some_context(interactive=False)"],
            check=False, capture_output=True).returncode:
        return "no PyOpenCL, or no OpenCL device"
    return None


def missing():
    """What is not installed here, or None."""
    return missing_opencl() if browser.find() else "no Chromium"


def run_example(gpuleak, folder):
    """Writes report.html to FOLDER. Returns what gpuleak printed."""
    shutil.copy(ROOT / "docs/examples/viewer_pyopencl.py", folder / "viewer.py")
    command = [gpuleak, "run", "--gate", "--format", "html", "--report", "report.html", "--",
               PYTHON, "viewer.py"]
    # The report names the host, which is not part of the picture.
    named = ["unshare", "--uts", "sh", "-c", 'hostname workstation && exec "$@"', "sh"]
    if os.getuid() != 0 or subprocess.run(named + ["true"], check=False,
                                          capture_output=True).returncode:
        named = []
    run = subprocess.run(named + command, cwd=folder, check=False, capture_output=True, text=True,
                         stdin=subprocess.DEVNULL)
    if run.returncode != 23:
        sys.exit("gpuleak ended with %d, not with 23:\n%s" % (run.returncode, run.stderr))
    return run.stderr


def take_picture(folder, png):
    subprocess.run(
        [browser.find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-dev-shm-usage", "--force-color-profile=srgb", "--user-data-dir=%s/browser" % folder,
         "--window-size=%d,%d" % (WIDTH, HEIGHT), "--screenshot=%s" % png,
         "file://%s/report.html" % folder], check=True, capture_output=True, timeout=120,
        env={**os.environ, "HOME": str(folder)})


def size_of(png):
    """(width, height, bytes) of a PNG."""
    data = pathlib.Path(png).read_bytes()
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("%s is no PNG" % png)
    return (*struct.unpack(">II", data[16:24]), len(data))


def make(gpuleak, png):
    why = missing()
    if why:
        sys.exit("picture.py: " + why)
    FOLDER.mkdir()
    try:
        print(run_example(gpuleak, FOLDER), end="")
        take_picture(FOLDER, png)
    finally:
        shutil.rmtree(FOLDER)


def problems_of(gpuleak, root):
    with tempfile.TemporaryDirectory(prefix="gpuleak-picture-") as name:
        said = run_example(gpuleak, pathlib.Path(name))
        if "1 leak, 88.0 MiB in 54 blocks never freed, allocated at keep " not in said:
            yield "the example has other leaks than the picture shows: " + said
        take_picture(name, name + "/made.png")
        made = size_of(name + "/made.png")
    kept = size_of(pathlib.Path(root) / "docs/images/report.png")
    if made[:2] != (WIDTH, HEIGHT) or kept[:2] != (WIDTH, HEIGHT):
        yield "the picture is %dx%d, the one in docs/images %dx%d" % (*made[:2], *kept[:2])
    # An empty page has about 10 KB.
    for which, size in (("made", made[2]), ("kept", kept[2])):
        if not 60 << 10 <= size <= BYTES_MAX:
            yield "the picture that is %s has %d bytes" % (which, size)


def check(gpuleak, root):
    why = missing()
    print("1..1")
    if why and not os.environ.get("GPULEAK_MUST_RUN"):
        print("ok 1 - the picture of the HTML report # SKIP " + why)
        return 0
    problems = [why] if why else list(problems_of(gpuleak, root))
    print("%sok 1 - the picture of the HTML report" % ("not " if problems else ""))
    for problem in problems:
        print("# " + problem)
    return bool(problems)


def main():
    what, gpuleak, where = sys.argv[1:]
    if what == "check":
        sys.exit(check(os.path.realpath(gpuleak), where))
    make(os.path.realpath(gpuleak), os.path.realpath(where))


if __name__ == "__main__":
    main()
