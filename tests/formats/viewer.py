# SPDX-License-Identifier: MIT
"""PyTorch's memory viewer (MemoryViz.js) in a headless Chromium: what it draws of a snapshot.

The viewer loads D3 from the network; here D3 is in the page. fetch.py has fetched both."""

import base64
import json
import os
import re
import sys

from tools import HERE, Missing

sys.path.insert(0, os.path.join(os.path.dirname(HERE), "html"))
import browser

PAGE = """<!doctype html><html><head><meta charset="utf-8"></head><body><script>%s</script>
<script type="module">const { axisLeft, scaleLinear, zoom, zoomIdentity, brushX } = d3;
%s
add_local_files([{ name: "snapshot", base64: %s }], "Active Memory Timeline");
window.finished = true;</script></body></html>"""
CHOOSE = """(() => { const view = document.querySelectorAll("select")[1];
    view.value = %s; view.dispatchEvent(new Event("change"));
    return new Promise((done) => setTimeout(done, 300)); })()"""
SHOWN = """(() => { const shown = [...document.querySelectorAll("body > div")].filter(
        (div) => !div.style.display.startsWith("none") && div.children.length)[0];
    const count = (name) => shown.querySelectorAll(name).length;
    return { text: shown.innerText, polygons: count("polygon"), rects: count("rect") }; })()"""


def read(folder, *names):
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            yield file.read()


def drawn(place, folder, snapshot):
    """{view: {"text", "polygons", "rects"}} of the pickle SNAPSHOT."""
    d3, script = read(folder, "d3.js", "MemoryViz.js")
    program = browser.find()
    if not program:
        raise Missing("no Chromium")
    script = re.sub(r"^import .*$", "", script, flags=re.M).replace("export function", "function")
    content = base64.b64encode(snapshot + bytes(-len(snapshot) % 3)).decode()
    page = place.write("viewer.html", (PAGE % (d3, script, json.dumps(content))).encode())
    with browser.started(program) as viewer:
        viewer.open(page, width=1200)
        if not viewer.js("window.finished"):
            raise AssertionError("the viewer stopped: %s" % viewer.complaints())
        found = {}
        for view in viewer.texts("select:nth-of-type(2) option"):
            viewer.js(CHOOSE % json.dumps(view))
            found[view] = viewer.js(SHOWN)
        wrong = [text for text in viewer.complaints() if not text.startswith(("console", "issue"))]
        if wrong or viewer.requests():
            raise AssertionError("%s, %s" % (wrong, viewer.requests()))
        return found
