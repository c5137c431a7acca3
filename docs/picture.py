#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the pictures of docs/images: runs docs/examples/viewer_pyopencl.py under gpuleak and takes
pictures of the HTML report and of what a terminal shows, in a headless Chromium. Needs PyOpenCL and
PoCL.

    docs/picture.py make GPULEAK FOLDER  writes FOLDER/NAME.png for each picture
    docs/picture.py check GPULEAK ROOT   TAP: the script works, the pictures of the tree are not too large
"""
import base64
import fcntl
import html
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/html"))
sys.dont_write_bytecode = True
import browser  # noqa: E402

BYTES_MAX = 200 << 10
PYTHON = "/usr/bin/python3"  # has the distribution's PyOpenCL
# The report names the folder. It is the same for everybody who makes the pictures.
FOLDER = pathlib.Path("/tmp/viewer")
COLUMNS = 118  # of the terminal
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff",
           "36": "#56d4dd", "1": "font-weight: bold", "2": "opacity: .6", "7": "background: #e6edf3; color: #0d1117"}
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body { margin: 0; background: #0d1117; color: #e6edf3 }
pre { margin: 16px; font: 14px/20px "DejaVu Sans Mono", monospace; white-space: pre-wrap;
  overflow-wrap: anywhere }
</style><pre>%s</pre>"""


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


def run_example(gpuleak, folder, *options, status=23):
    """Runs the example in FOLDER, by default for report.html. Returns what gpuleak printed."""
    options = options or ("--gate", "--format", "html", "--report", "report.html")
    shutil.copy(ROOT / "docs/examples/viewer_pyopencl.py", folder / "viewer.py")
    command = [gpuleak, "run", *options, "--", PYTHON, "viewer.py"]
    # The report names the host, which is not part of the picture.
    named = ["unshare", "--uts", "sh", "-c", 'hostname workstation && exec "$@"', "sh"]
    if os.getuid() != 0 or subprocess.run(named + ["true"], check=False,
                                          capture_output=True).returncode:
        named = []
    run = subprocess.run(named + command, cwd=folder, check=False, capture_output=True, text=True,
                         stdin=subprocess.DEVNULL)
    if run.returncode != status:
        sys.exit("gpuleak ended with %d, not with %d:\n%s" % (run.returncode, status, run.stderr))
    return run.stderr


def screens(gpuleak, folder, rows):
    """What `gpuleak top` shows of the example in a terminal, screen by screen."""
    shutil.copy(ROOT / "docs/examples/viewer_pyopencl.py", folder / "viewer.py")
    env = {**os.environ, "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
    with subprocess.Popen([gpuleak, "run", "--report", "none", "--", PYTHON, "viewer.py"],
                          cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as run:
        with subprocess.Popen([gpuleak, "top", "--interval", "400ms", str(run.pid)], cwd=folder,
                              env=env, stdin=theirs, stdout=theirs, stderr=theirs):
            os.close(theirs)
            text = b""
            while True:
                try:
                    text += os.read(ours, 65536)
                except OSError:  # nobody has the other end
                    break
    os.close(ours)
    text = text.decode(errors="replace").partition("\x1b[?1049l")[0]
    return [with_last_row(re.sub(r"\r+\n", "\n", screen)) for screen in text.split("\x1b[H")[1:]]


def with_last_row(screen):
    """SCREEN with line feeds in place of the sequence that leads to its last row, the keys."""
    body, row, keys = (re.split(r"\x1b\[J\x1b\[(\d+);1H", screen) + ["1", ""])[:3]
    return body + "\n" * (int(row) - len(body.split("\n"))) + keys


def marked_up(text):
    """TEXT of a terminal as HTML: colours, bold and dim; other sequences are left out."""
    out, opened = [], 0
    for part in re.split(r"(\x1b\[[?\d;]*[A-Za-z])", text):
        codes = re.fullmatch(r"\x1b\[([\d;]*)m", part)
        if codes:
            for code in codes[1].split(";"):
                style = COLOURS.get(code)
                if style:
                    out.append('<span style="%s">' % (style if ":" in style else "color: " + style))
                    opened += 1
                elif code in ("", "0"):
                    out.append("</span>" * opened)
                    opened = 0
        elif not part.startswith("\x1b"):
            out.append(html.escape(part))
    return TERMINAL % "".join(out + ["</span>" * opened])


# ---- the pictures: each writes PAGE.html to FOLDER, and returns what must be in the picture ----

def report(gpuleak, folder):
    return run_example(gpuleak, folder)


def top(gpuleak, folder):
    shown = screens(gpuleak, folder, 14)
    screen = shown[-1] if shown else ""
    (folder / "top.html").write_text(marked_up(screen), encoding="utf-8")
    return screen


def out_of_memory(gpuleak, folder):
    text = run_example(gpuleak, folder, "--limit", "64MiB", "--color", "always", status=1)
    text = text[text.index("gpuleak: out of memory") - len("\x1b[1;31m"):]
    beginning = "$ gpuleak run --limit 64MiB -- python3 viewer.py\n" + text[:text.index("  By library: ")]
    (folder / "out-of-memory.html").write_text(marked_up(beginning), encoding="utf-8")
    return text


def cursor(gpuleak, folder):
    return run_example(gpuleak, folder, "--trace", "1MiB", "--gate", "--format", "html", "--report",
                       "cursor.html")


def between(gpuleak, folder):
    text = cursor(gpuleak, folder)
    shutil.move(folder / "cursor.html", folder / "between.html")
    return text


def move_cursor(page, part):
    """Moves the timeline's cursor to this PART of the time."""
    page.js("(() => { const s = document.querySelector('.moment'); s.value = s.max * %r; "
            "s.dispatchEvent(new Event('input')); })()" % part)


def choose(page, view):
    page.click(".switch button", page.texts(".switch button").index(view))


def click_cursor(page):
    move_cursor(page, 0.55)
    choose(page, "At the cursor")


def click_between(page):
    move_cursor(page, 0.4)
    page.click("#mark")
    move_cursor(page, 0.8)
    choose(page, "Freed")


# name of the picture: what is clicked before it is taken. It shows the timeline and what follows.
CLICKS = {"cursor": click_cursor, "between": click_between}
# name of the picture: (what makes its page, width, height, least bytes of it, words in it)
PICTURES = {
    "report": (report, 980, 1240, 60 << 10,
               "1 leak, 88.0 MiB in 54 blocks never freed, allocated at keep "),
    "top": (top, 1040, 312, 12 << 10, "/viewer.py:20), called"),
    "out-of-memory": (out_of_memory, 1040, 532, 30 << 10, "called from save_undo_step"),
    "cursor": (cursor, 980, 860, 40 << 10, "1 leak, 88.0 MiB in 54 blocks never freed"),
    "between": (between, 980, 860, 40 << 10, "1 leak, 88.0 MiB in 54 blocks never freed"),
}


def take_clicked(folder, name, png):
    _, width, height, _, _ = PICTURES[name]
    with browser.started(browser.find()) as page:
        page.open("%s/%s.html" % (folder, name), width=width, height=1600)
        CLICKS[name](page)
        page.js("window.scrollTo(0, 0)")
        top = page.js("document.querySelector('#timeline').getBoundingClientRect().top")
        shown = page.call("Page.captureScreenshot", clip={"x": 0, "y": top, "width": width,
                                                         "height": height, "scale": 1})
    pathlib.Path(png).write_bytes(base64.b64decode(shown["data"]))


def take_picture(folder, name, png):
    if name in CLICKS:
        return take_clicked(folder, name, png)
    _, width, height, _, _ = PICTURES[name]
    subprocess.run(
        [browser.find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-dev-shm-usage", "--force-color-profile=srgb",
         "--user-data-dir=%s/browser" % folder, "--window-size=%d,%d" % (width, height),
         "--screenshot=%s" % png, "file://%s/%s.html" % (folder, name)], check=True,
        capture_output=True, timeout=120, env={**os.environ, "HOME": str(folder)})


def size_of(png):
    """(width, height, bytes) of a PNG."""
    data = pathlib.Path(png).read_bytes()
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("%s is no PNG" % png)
    return (*struct.unpack(">II", data[16:24]), len(data))


def make(gpuleak, images):
    why = missing()
    if why:
        sys.exit("picture.py: " + why)
    FOLDER.mkdir()
    try:
        for name, (page, *_) in PICTURES.items():
            print(page(gpuleak, FOLDER), end="")
            take_picture(FOLDER, name, "%s/%s.png" % (images, name))
    finally:
        shutil.rmtree(FOLDER)


def problems_of(name, gpuleak, root):
    page, width, height, least, words = PICTURES[name]
    with tempfile.TemporaryDirectory(prefix="gpuleak-picture-") as folder:
        said = page(gpuleak, pathlib.Path(folder))
        if words not in said:
            yield "the example shows something else than the picture: " + said
        take_picture(folder, name, folder + "/made.png")
        made = size_of(folder + "/made.png")
    kept = size_of(pathlib.Path(root) / "docs/images" / (name + ".png"))
    if made[:2] != (width, height) or kept[:2] != (width, height):
        yield "the picture is %dx%d, the one in docs/images %dx%d" % (*made[:2], *kept[:2])
    # An empty page has about 10 KB, and much less in one colour.
    for which, size in (("made", made[2]), ("kept", kept[2])):
        if not least <= size <= BYTES_MAX:
            yield "the picture that is %s has %d bytes" % (which, size)


def check(gpuleak, root):
    why, failed = missing(), 0
    print("1..%d" % len(PICTURES))
    for number, name in enumerate(PICTURES, 1):
        skipped = why and not os.environ.get("GPULEAK_MUST_RUN")
        problems = [] if skipped else [why] if why else list(problems_of(name, gpuleak, root))
        failed += bool(problems)
        print("%sok %d - the picture %s.png%s" % ("not " if problems else "", number, name,
                                                  " # SKIP " + why if skipped else ""))
        for line in "\n".join(problems).split("\n") if problems else ():
            print("# " + line)
    return bool(failed)


def main():
    what, gpuleak, where = sys.argv[1:]
    if what == "check":
        sys.exit(check(os.path.realpath(gpuleak), where))
    make(os.path.realpath(gpuleak), os.path.realpath(where))


if __name__ == "__main__":
    main()
