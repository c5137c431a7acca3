# SPDX-License-Identifier: MIT
"""A headless Chromium, spoken to by its own protocol over two pipes: real clicks and keys, what
it said on its console, what it asked the network for. Needs the browser and nothing else."""

import contextlib
import glob
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

TIMEOUT = 120
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DOWNLOADED = "~/.cache/ms-playwright/chromium*/chrome*"
IN_THERE = ("chrome", "headless_shell", "chrome-headless-shell")
KEYS = {"Enter": (13, "\r"), "Tab": (9, None), "Escape": (27, None), "ArrowUp": (38, None),
        "ArrowDown": (40, None), "ArrowLeft": (37, None), "ArrowRight": (39, None), " ": (32, " ")}


class BrowserError(Exception):
    pass


def works(path):
    """A chromium that is only a note to install the snap is none."""
    try:
        run = subprocess.run([path, "--version"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0 and b"Chrom" in run.stdout


def candidates():
    yield os.environ.get("GPULEAK_TEST_CHROMIUM")
    yield from map(shutil.which, NAMES)
    for name in IN_THERE:
        yield from sorted(glob.glob(os.path.expanduser(os.path.join(DOWNLOADED, name))))


def find():
    """The path of a Chromium, or None."""
    return next((path for path in candidates() if path and works(path)), None)


class Browser:
    """One browser with one page."""

    def __init__(self, path):
        self.numbers = itertools.count(1)
        self.home = tempfile.mkdtemp(prefix="gpuleak-html-")
        self.buffer = b""
        self.events = []
        to_read, self.to = os.pipe()
        self.from_, to_write = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        low = [os.dup2(to_read, 60), os.dup2(to_write, 61)]
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "$@" 3<&60 4>&61', "bash", path, "--headless", "--no-sandbox",
             "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--hide-scrollbars", "--force-color-profile=srgb",
             "--user-data-dir=" + self.home, "about:blank"],
            pass_fds=low, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.home})
        for fd in (*low, to_read, to_write):
            os.close(fd)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
            flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(domain + ".enable")

    def close(self):
        with contextlib.suppress(BrowserError, OSError):
            self.session = None
            self.call("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.from_)
        shutil.rmtree(self.home, ignore_errors=True)

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_], [], [], left)[0]:
                raise BrowserError("the browser did not answer")
            more = os.read(self.from_, 1 << 20)
            if not more:
                raise BrowserError("the browser is gone")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError("%s: %s" % (method, answer["error"]["message"]))
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    # ---- the page ----

    def open(self, path, width=1280, height=900, dark=False, scripts=True):
        """Opens the file PATH in a window of that size. Forgets what was said before."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media="", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events = []
        self.call("Page.navigate", url="file://" + os.path.realpath(path))
        deadline = time.monotonic() + TIMEOUT
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            answer = self.receive(deadline)
            if "method" in answer:
                self.events.append(answer)
        if not scripts:
            return
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def js(self, expression):
        """What EXPRESSION is in the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def texts(self, selector):
        return self.js("[...document.querySelectorAll(%s)].map((e) => e.innerText.trim())"
                       % json.dumps(selector))

    def text(self, selector):
        found = self.texts(selector)
        if len(found) != 1:
            raise BrowserError("%d elements are %s" % (len(found), selector))
        return found[0]

    def click(self, selector, at=0):
        """A real click in the middle of the AT-th element that is SELECTOR."""
        place = self.js("""(() => {
            const e = document.querySelectorAll(%s)[%d];
            if (!e) return null;
            e.scrollIntoView({ block: "center", behavior: "instant" });
            const box = e.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        })()""" % (json.dumps(selector), at))
        if place is None:
            raise BrowserError("nothing to click: %s" % selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left",
                      clickCount=1)

    def key(self, name, shift=False):
        code, text = KEYS[name]
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code,
                      modifiers=8 if shift else 0,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def type(self, text):
        self.call("Input.insertText", text=text)

    # ---- what it said ----

    def complaints(self):
        """Whatever the console, the page's policy or an uncaught error had to say."""
        self.js("0")
        ret = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                ret.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                ret.append("console: " + json.dumps(params["args"]))
            elif event["method"] == "Log.entryAdded":
                ret.append("log: " + params["entry"]["text"])
            elif event["method"] == "Audits.issueAdded":
                ret.append("issue: " + json.dumps(params["issue"])[:300])
        return ret

    def requests(self):
        """What was asked for besides the page itself and data: addresses."""
        urls = [event["params"]["request"]["url"] for event in self.events
                if event["method"] == "Network.requestWillBeSent"]
        return [url for url in urls[1:] if not url.startswith("data:")]


@contextlib.contextmanager
def started(path):
    browser = Browser(path)
    try:
        yield browser
    finally:
        browser.close()
