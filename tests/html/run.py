#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Opens HTML reports in a headless Chromium and uses them: clicks, keys, a phone's width, print.
What the page says is compared with the JSON report of the same ledger. Speaks TAP. Without a
browser it is skipped, unless GPULEAK_MUST_RUN is set: then it fails."""

import argparse
import glob
import html.parser
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import browser as chromium

KINDS = {"device": "device memory", "pinned": "pinned host memory", "managed": "managed memory",
         "registered": "registered host memory", "stream-ordered": "stream-ordered memory",
         "cl-buffer": "OpenCL buffer"}
PROGRAMS = ("clean", "cuda_wrong_frees", "cuda_stolen", "cuda_all_calls", "families", "grouping",
            "timeline", "oom", "steps", "peak", "ipc", "driver_costs", "traced")
# Two of the three requests are refused. The status is that of a program that failed.
ARGUMENTS = {"oom": ["weights:40m", "cache:24m", "want:56m", "drop", "want:56m", "want:90m",
                     "exit:1"], "steps": ["named", "3"],
             "peak": ["weights:100m", "workspace:900m", "free:1", "pinned:7m", "unpin"],
             "ipc": ["freed"], "traced": ["1", "200", "4"]}
MEMORY = {"traced": {"GPULEAK_TRACE": "1MiB"}, "oom": {"STANDIN_MEMORY": str(100 << 20)},
          "driver_costs": {"STANDIN_COSTS": "%d,%d,%d,1024" % (500 << 20, 2 << 20, 120 << 10)},
          "steps": {"GPULEAK_STEP_SIGNAL": str(int(signal.SIGUSR2))}}
PAGES = ("hostile", "many", "full", "tensors", "ranks", "job", "clean", "nothing", "unproven")
SHIFT = """new Promise((done) => { let all = 0; new PerformanceObserver((list) => {
    for (const e of list.getEntries()) all += e.value; }).observe({ type: "layout-shift",
        buffered: true });
    setTimeout(() => done(all), 300); })"""
options = None
page = None
place = None


class Failed(Exception):
    pass


def same(what, wanted, got):
    if wanted != got:
        raise Failed("%s:\nwanted: %r\ngot:    %r" % (what, wanted, got))


# ---- the same figures, written by other code ----

def size(count):
    if count < 1024:
        return "%d byte%s" % (count, "" if count == 1 else "s")
    unit = 0
    while count >= 1024 ** (unit + 2):
        unit += 1
    tenths = count * 10 // 1024 ** (unit + 1)
    return "%d.%d %s" % (tenths // 10, tenths % 10, ["KiB", "MiB", "GiB", "TiB"][unit])


def exact(count):
    return size(count) if count < 1024 else "{:,} bytes ({})".format(count, size(count))


def blocks(count):
    return "{:,} block{}".format(count, "" if count == 1 else "s")


def load(name):
    with open(os.path.join(place, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def path(name):
    return os.path.join(place, name + ".html")


def source(name):
    with open(path(name), encoding="utf-8", newline="") as file:
        return file.read()


def make_reports():
    environment = {"PATH": os.environ["PATH"], "HOME": place, "LC_ALL": "C",
                   "LD_LIBRARY_PATH": options.standin, "XDG_RUNTIME_DIR": place}
    for name in PROGRAMS:
        subprocess.run([os.path.join(options.programs, "p_" + name), *ARGUMENTS.get(name, [])],
                       check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180,
                       env={**environment, "LD_PRELOAD": options.preload, "GPULEAK_REPORT": "none",
                            "GPULEAK_LEDGER": os.path.join(place, name + "-%p.ledger"),
                            **MEMORY.get(name, {})})
        ledgers = glob.glob(os.path.join(place, name + "-*.ledger"))
        for kind in ("html", "json", "text"):
            run = subprocess.run([options.command, "report", "--format", kind, *ledgers],
                                 check=True, stdout=subprocess.PIPE, timeout=180, env=environment)
            with open(os.path.join(place, "p-%s.%s" % (name, kind)), "wb") as file:
                file.write(run.stdout)
    subprocess.run([options.pages, place], check=True, timeout=120)


# ---- what a page shows ----

def cells(selector, count=99):
    """[the texts of the first COUNT cells] of every row that SELECTOR finds."""
    return page.js("""[...document.querySelectorAll('%s')].map((row) =>
        [...row.cells].slice(0, %d).map((cell) => cell.textContent))""" % (selector, count))


def rows(table="#leaks-table"):
    """[bytes as in the title, blocks, kind, device, call] of every row."""
    return page.js("""[...document.querySelectorAll('%s tr.leak')].map((row) => {
        const cells = [...row.cells].map((cell) => cell.textContent);
        return [row.querySelector('.size span').title, cells[1], cells[3], cells[4],
            cells[5]]; })"""
                   % table)


def wanted_rows(leaks):
    return [[exact(leak["bytes"]), "{:,}".format(leak["blocks"]), KINDS[leak["kind"]],
             "unknown" if leak["device"] < 0 else str(leak["device"]), leak["api"]]
            for leak in leaks]


def lines(leaks):
    """LEAKS, with those of one line, kind and device as one."""
    found = {}
    for leak in leaks:
        frames = leak["stack"]
        frame = next((frame for frame in frames if "role" not in frame), frames[0])
        key = tuple(map(str, [frame["function"], frame["file"] or frame["module"],
                              frame["line"] or frame["offset"], leak["kind"], leak["device"]]))
        one = found.setdefault(key, {**leak, "bytes": 0, "blocks": 0})
        one["bytes"] += leak["bytes"]
        one["blocks"] += leak["blocks"]
    return sorted(found.values(), key=lambda leak: -leak["bytes"])


def figure(name):
    return dict(page.js("""[...document.querySelectorAll('#summary div')].map((part) =>
        [part.children[0].textContent, part.children[1].textContent + ", " +
            part.children[2].textContent])"""
                        ))[name]


def silent():
    same("complaints", [], page.complaints())
    same("requests", [], page.requests())


def focused():
    return page.js("document.activeElement.id || document.activeElement.className || "
                   "document.activeElement.tagName")


# ---- cases ----

def pages_are_quiet():
    """every page opens without a complaint, a request, or a bar to scroll sideways"""
    for name in PAGES + tuple("p-" + program for program in PROGRAMS):
        for width, height, dark in ((1280, 900, False), (1280, 900, True), (360, 740, False)):
            page.open(path(name), width, height, dark)
            silent()
            same(name + ": width", width, page.js("document.documentElement.scrollWidth"))


def whole_and_embedded():
    """one file: two scripts, a style, no address, and data without an angle bracket"""
    class Reader(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.loads = [], []

        def handle_starttag(self, tag, attrs):
            self.tags.append(tag)
            self.loads += [value for name, value in attrs
                           if name in ("src", "href") and value != "data:,"]

    for name in PAGES:
        reader = Reader()
        reader.feed(source(name))
        same(name + ": elements", [2, 1, 0, 1], [reader.tags.count(tag) for tag in
                                                 ("script", "style", "img", "h1")])
        same(name + ": addresses", [], reader.loads)
        data = re.search(r'id="data">(.*?)</script>', source(name), re.S).group(1)
        same(name + ": brackets", [], re.findall(r"[<>&\u2028\u2029]|[^\x00-\x7f]", data))
        json.loads(data)
    small = len(source("nothing"))
    if small > 80 * 1024:
        raise Failed("the page without data has %d bytes" % small)


def verdict_is_the_text_reports():
    """the verdict is the text report's first line"""
    for name in PROGRAMS:
        page.open(path("p-" + name))
        with open(os.path.join(place, "p-%s.text" % name), encoding="utf-8") as file:
            first = file.readline().rstrip("\n").split(": ", 1)[1]
        said = page.text("h1")
        worst = page.texts(".worst")
        if worst:
            said += ("; " if worst[0].startswith("Held: ") else ", ") + worst[0][0].lower() + \
                worst[0][1:]
        same(name, first[0].upper() + first[1:], said)
        wrong = load("p-" + name)["summary"]
        same(name + ": colour", "bad" if wrong["leaked_blocks"] or wrong["errors"] else "good",
             page.js("document.body.className"))
    for name, colour in (("full", "bad"), ("clean", "good"), ("nothing", "warn"),
                         ("unproven", "warn")):
        page.open(path(name))
        same(name + ": colour", colour, page.js("document.body.className"))
        same(name + ": figures", name != "nothing", page.js("!!document.getElementById('summary')"))
    same("gates", {"full": 23, "clean": 0, "nothing": 24, "unproven": None},
         {name: load(name).get("gate", {}).get("status")
          for name in ("full", "clean", "nothing", "unproven")})


def figures_are_the_jsons():
    """figures and rows are those of the JSON report"""
    for name in ["p-" + program for program in PROGRAMS] + ["full"]:
        page.open(path(name))
        report = load(name)
        total = report["summary"]
        same(name + ": leaked", size(total["leaked_bytes"]) + ", " + blocks(total["leaked_blocks"]),
             figure("Leaked"))
        same(name + ": allocated", size(total["allocated_bytes"]) + ", " +
             blocks(total["allocated_blocks"]), figure("Allocated"))
        same(name + ": errors", "%d, invalid frees" % total["errors"], figure("Errors"))
        several = "processes" in report
        same(name + ": peak", size(total["peak_bytes"]) + ", live at one moment" +
             (", in all processes" if several else ""), figure("Peak"))
        if not several:
            same(name + ": rows", wanted_rows(report["leaks"]), rows())
    same("families leaked", 5, len(load("p-families")["leaks"]))


def sorts():
    """a click on a column sorts by it, a second one the other way round"""
    page.open(path("full"))
    leaks = load("full")["leaks"]
    for column, key in ((1, "blocks"), (4, "device")):
        for down in (True, False):
            page.click("#leaks-table th button", column)
            got = [row[1 if key == "blocks" else 3] for row in rows()]
            same("%s, down %s" % (key, down),
                 [str(leak[key]) for leak in sorted(leaks, key=lambda leak: leak[key],
                     reverse=down)],
                 got)
            same("aria-sort", ["descending" if down else "ascending"], page.js(
                "[...document.querySelectorAll('#leaks [aria-sort]')].map((e) => e.ariaSort)"))
    page.click("#leaks-table th button", 5)
    same("by call", sorted(leak["api"] for leak in leaks), [row[4] for row in rows()])


def filters():
    """typing filters by any frame, a selection by kind; both together"""
    page.open(path("full"))
    leaks = load("full")["leaks"]
    word = next(frame["function"] for frame in leaks[3]["stack"][2:])
    having = [leak for leak in leaks if any(word in frame["function"] for frame in leak["stack"])]
    if not 0 < len(having) < len(leaks):
        raise Failed("%s tells nothing apart" % word)
    page.click("#leaks-table-search")
    page.type(word.upper())
    same("with " + word, wanted_rows(having), rows())
    same("status", "{} site{}, {}, {} of {}".format(
        len(having), "" if len(having) == 1 else "s",
            blocks(sum(leak["blocks"] for leak in having)),
        exact(sum(leak["bytes"] for leak in having)), size(sum(leak["bytes"] for leak in leaks))),
         page.text("#leaks .left"))
    kind = having[0]["kind"]
    page.js("(() => { const s = document.getElementById('leaks-table-kind'); s.value = '%s'; "
            "s.dispatchEvent(new Event('change')); })()" % kind)
    same("and of kind " + kind, wanted_rows([leak for leak in having if leak["kind"] == kind]),
        rows())


def unfolds():
    """a row unfolds to its stack, the application's frames open, the rest behind one more click"""
    page.open(path("p-cuda_all_calls"))
    for at, leak in enumerate(load("p-cuda_all_calls")["leaks"]):
        page.click("#leaks-table tr.leak .where .place", at)
        frames = page.js("""[...document.querySelectorAll('tr.more .stack li')].filter((li) =>
            li.querySelector(':scope > .function')).map((li) =>
                [li.querySelector('.function').textContent,
            li.querySelector('.place').textContent])""")
        same("stack %d" % at, [[frame["function"] or "???", "%s:%d" % (frame["file"], frame["line"])
                                if frame["file"] else "%s+%s" % (frame["module"], frame["offset"])]
                               for frame in leak["stack"]], frames)
        same("open", "true", page.js("document.querySelectorAll('.site')[%d].ariaExpanded" % at))
        page.click("#leaks-table .site", at)
        same("closed again", 0, page.js("document.querySelectorAll('tr.more').length"))
    page.open(path("full"))
    page.click("#leaks-table .site")
    same("hidden at first", False, page.js(
        "document.querySelector('.stack .lines').checkVisibility()"))
    page.click(".stack summary")
    same("one click on", "cudaMalloc", page.js(
        "document.querySelector('.stack .lines .function').innerText"))


def flame_zooms():
    """the flame graph zooms by click and key, back again, and finds"""
    page.open(path("full"))
    leaks = load("full")["leaks"]
    total = sum(leak["bytes"] for leak in leaks)
    same("all of it", "all leaks, %s in %s, 100.0 %%" % (size(total), blocks(sum(
        leak["blocks"] for leak in leaks))),
            page.js("document.querySelector('.flame button').ariaLabel"))
    names = page.texts(".flame button")
    page.click(".flame button", 2)
    label = page.js("document.activeElement.ariaLabel")
    same("the zoomed box", names[2], label.split(",")[0])
    same("is as wide as the graph", True, page.js("document.activeElement.offsetWidth === "
                                                  "document.querySelector('.flame').offsetWidth"))
    part = [leak for leak in leaks if leak["stack"][-2]["function"] == names[2]]
    same("and tells of its bytes", True, size(sum(leak["bytes"] for leak in part)) in label)
    page.key("Escape")
    page.key("Escape")
    same("back", names, page.texts(".flame button"))
    page.key("ArrowDown")
    page.key("ArrowDown")
    page.key("Enter")
    same("by keyboard", names[2], page.js("document.activeElement.ariaLabel").split(",")[0])
    page.click("#flame-reset")
    same("reset", names, page.texts(".flame button"))
    word = leaks[0]["stack"][2]["function"]
    page.click("#flame-search")
    page.type(word)
    found = sum(leak["bytes"] for leak in leaks if any(
        word in frame["function"] or word in frame["file"] for frame in leak["stack"][1:]))
    same("found bytes", True, " with %s, " % size(found) in page.text(".told"))
    same("marked", True, page.js("document.querySelectorAll('.flame .hit').length") > 0)


def keyboard_alone():
    """Tab reaches everything in the order of the page, visibly; Enter unfolds"""
    page.open(path("full"))
    order = []
    for _ in range(60):
        page.key("Tab")
        order.append(focused())
        visible = page.js("getComputedStyle(document.activeElement).outlineStyle !== 'none' && "
                          "parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2")
        if not visible:
            raise Failed("no visible focus on " + order[-1])
        if order[-1] == "site":
            break
    same("order", ["moment", "flame-search", "flame-whole", "leaks-table-search",
        "leaks-table-kind",
                   "leaks-table-device", "site"], [name for name in order if name in (
                       "moment", "flame-search", "flame-whole", "leaks-table-search",
                       "leaks-table-kind", "leaks-table-device", "site")])
    before = page.text(".legend thead th:last-child")
    page.key("Enter")
    same("unfolded", 1, page.js("document.querySelectorAll('tr.more').length"))
    page.key(" ")
    same("folded", 0, page.js("document.querySelectorAll('tr.more').length"))
    page.js("document.querySelector('.moment').focus()")
    page.key("ArrowLeft")
    same("the moment moved", True, before != page.text(".legend thead th:last-child"))


def stories():
    """a double free has its three stacks; a block freed by mistake has the possible cause"""
    page.open(path("p-cuda_wrong_frees"))
    same("stories", ["Double free", "Interior free", "Invalid free"],
         [title.split(" of ")[0] for title in page.texts(".story h3")])
    errors = load("p-cuda_wrong_frees")["errors"]
    heads = page.js("[...document.querySelectorAll('.story')].map((s) => "
                    "[...s.querySelectorAll('li.head .function')].map((e) => e.textContent))")
    same("their stacks", [[call["stack"][0]["function"] for call in
                           (error, error["allocated"],
                               error["freed"]) if call] for error in errors],
         heads)
    same("three of the first", 3, len(heads[0]))
    same("in words", "cuMemFree_v2 was given a block that had been freed already (the driver "
         "returned CUDA_ERROR_INVALID_VALUE (1)).", page.texts(".story p")[0])
    page.open(path("p-cuda_stolen"))
    same("five stacks", 5, page.js("document.querySelectorAll('.story .acts h4').length"))
    same("the second free is not called the wrong one", "The second free: cuMemFree_v2",
         page.texts(".acts h4")[0])
    same("the possible cause", 1, len([title for title in page.texts(".acts h4")
                                  if "possible cause" in title]))


def threads_and_short_names():
    """long C++ names are short, and whole as tooltips; a framework's thread is named"""
    page.open(path("engine"))
    whole = load("engine")["leaks"][0]["stack"][0]["function"]
    same("whole in JSON", True, whole.startswith("void at::native::") and whole.endswith("float)"))
    same("places", ["the backward pass of train_step train.py:7",
                    "PyTorch's autograd engine, at::native::vectorized_elementwise_kernel server+0x1000"],
         [" ".join(text.split()) for text in page.texts("#leaks-table tr.leak .site")])
    page.click("#leaks-table .site", 1)
    same("tooltip", [whole], page.js(
        "[...new Set([...document.querySelectorAll('#leaks-table .function[title]')]"
        ".map((e) => e.title))]"))


def hostile_names():
    """hostile names stay names: nothing runs, nothing turns round, nothing fills the page"""
    page.open(path("hostile"))
    for at in range(5):
        page.click("#leaks-table .site", at)
    silent()
    same("elements that names could make", 0, page.js(
        "document.querySelectorAll('img, i:not(.stacked i), iframe, [onerror], [onmouseover]')"
        ".length"))
    same("title", False, "owned" == page.js("document.title"))
    same("turning characters", 0, page.js(
        "(document.body.innerText.match(/[\\u202a-\\u202e\\u2066-\\u2069]/g) || []).length"))
    same("names are there", True, "</script><script>" in page.text("#leaks-table"))
    longest = page.js("Math.max(...[...document.querySelectorAll('main *')].filter((e) => "
                      "!e.children.length).map((e) => e.textContent.length))")
    if longest > 2000:
        raise Failed("a text of %d characters" % longest)


def tensors():
    """what accumulates is a table, a figure and the flame graph; what is live in caches is a fold"""
    page.open(path("tensors"))
    silent()
    sites = load("tensors")["suballocations"]
    kept = [site for site in sites if site["trend"] == "accumulating" and "pattern" not in site]
    same("entries", [4, 2], [len(sites), len(kept)])
    same("colour, of a gate that passed", "warn", page.js("document.body.className"))
    same("figure", "1.7 MiB, 450 tensors", figure("Accumulating"))
    head, row = [page.js("[...document.querySelectorAll('%s')].map((e) => e.textContent)" % at)
                 for at in ("#accumulating-table th", "#accumulating-table tr.leak:first-child td")]
    same("head", ["Bytes", "Blocks", "Allocated at", "Device", "Cache", "While the program ran",
                  "Kept by"], head)
    same("row", ["1.5 MiB", "400", "train_step train_step.py:8from <module> train.py:40", "0",
                 "PyTorch caching allocator", "400 of 400 kept, 30 per minute until the loop ended",
                 "list `history` <b>in</b> main()"], row)
    same("sum", "2 sites, 450 tensors, 1,843,200 bytes (1.7 MiB)",
         page.text("#accumulating .left"))
    page.click("#accumulating-table .site")
    same("unfolded", "1,638,400 bytes (1.5 MiB) in 400 tensors, allocated by "
         "c10::reportMemoryUsageToProfiler at:", page.text("#accumulating tr.more p"))
    same("keepers", ["Kept after 3.85 s by:", "390: list `history` <b>in</b> main()", "10: native code",
                     "(the search ended early)"],
         page.texts("#accumulating tr.more h4") + page.texts("#accumulating tr.more .keepers li"))
    same("flame", "all that leaks or accumulates, 1.7 MiB in 450 blocks, 100.0 %",
         page.js("document.querySelector('.flame button').ariaLabel"))
    same("leaf", True, "tensors that accumulate" in page.texts(".flame button"))
    page.js("document.getElementById('inside').open = true")
    same("live", [10, 3, 2], [int(text) for text in page.js(
        "[...document.querySelectorAll('#inside-table tr.leak')].map((e) =>"
        " e.cells[1].textContent)")])
    same("what became of them", "filled up and stays",
         page.js("document.querySelector('#inside-table tr.leak').cells[5].textContent"))
    same("outside", True, "1 tensor lies in no driver block that gpuleak recorded" in page.text("#inside"))
    page.js("document.getElementById('cached').open = true")
    same("divided", ["4.0 MiB", "48.0 KiB", "3.9 MiB"], page.js(
        "(() => { const c = document.querySelector('#cached-table tr.leak').cells;"
        " return [c[0], c[6], c[7]].map((e) => e.textContent); })()"))
    same("by kind", ["48.0 KiB", "3.9 MiB"], page.js(
        "[...document.querySelector('#left tbody tr').cells].slice(-2).map((e) =>"
        " e.textContent)"))


def out_of_memory():
    """out of memory: the verdict names the request and the holders, the table has all of them"""
    page.open(path("p-oom"))
    same("verdict", True, page.text("#verdict").startswith("Out of memory: 90.0 MiB wanted at want"))
    same("held", True, page.text("#verdict + .worst").startswith("Held: 56.0 MiB want ("))
    same("stories", ["final: 90.0 MiB wanted at want", "recovered: 56.0 MiB wanted at want"],
         [text.split(" (")[0] for text in page.texts("#out-of-memory h3")])
    same("holders", [[held, "1 block", "device memory", ""]
                     for held in ("56.0 MiB", "40.0 MiB", "40.0 MiB", "24.0 MiB")],
         cells("#out-of-memory tbody tr", 4))
    same("where", True, "cache oom.c:" in page.texts("#out-of-memory tbody tr")[3])
    same("figures", True, "96.0 MiB held by this process, 4.0 MiB free, 100.0 MiB on the device" in
         page.text("#out-of-memory"))
    page.js("document.querySelector('#out-of-memory details').open = true")
    same("stack", True, "want" in page.text("#out-of-memory article:first-of-type .stack"))
    page.open(path("p-oom"), 375, 812)
    same("on a phone: each place whole inside the page, nothing to scroll sideways", [True] * 5,
         page.js("""[...document.querySelectorAll('#out-of-memory td.where')].map((cell) => {
            const { left, right } = cell.getBoundingClientRect();
            return left >= 0 && right <= 375 && right - left > 200; }).concat(
            [...document.querySelectorAll('#out-of-memory .scroll')].every((box) =>
                box.scrollWidth <= box.clientWidth))"""))


def named_steps():
    """named steps are a table: what each allocated, freed and left, its peak, and the open one"""
    page.open(path("p-steps"))
    page.js("document.getElementById('steps').open = true")
    table = cells("#steps tbody tr")
    same("all but the last", [
        ["warm-up", "1", "4.0 MiB", "2.0 MiB", "2.0 MiB", "3.0 MiB"],
        ["train", "3", "15.0 MiB", "15.0 MiB", "0 bytes", "8.0 MiB"],
        ["evaluate", "1", "32.0 MiB", "32.0 MiB", "0 bytes", "34.0 MiB"],
        ["free", "1", "0 bytes", "1.0 MiB", "-1.0 MiB", "2.0 MiB"]], table[:-1])
    same("the open one", ["1", "32.0 MiB", "16.0 MiB", "16.0 MiB", "33.0 MiB"], table[-1][1:])
    same("its name", True, "<b>" in table[-1][0] and table[-1][0].endswith(" (not ended)"))
    same("a step as text", 0, page.js("document.querySelectorAll('#steps td b').length"))


def growth_and_pools():
    """call sites that grow, refused frees and memory pools of the driver are tables"""
    page.open(path("full"))
    page.js("['refused', 'parked'].forEach((id) => document.getElementById(id).open = true)")
    same("growth", [["1.0 MiB", "1", "9.0 MiB", "9", "device memory", "0"]],
         cells("#growth tbody tr", 6))
    same("refused", [["3", "cuMemFree_v2", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "never freed"]],
         [[row[i] for i in (0, 1, 2, 5)] for row in cells("#refused tbody tr")])
    same("pools", [["default", "0", "peak", "96.0 MiB", "64.0 MiB"],
                   ["0x55d0c0ffee00", "1", "exit", "32.0 MiB", "0 bytes"]],
         cells("#parked tbody tr"))


def fragmentation():
    """unused memory in caches, who keeps it, and what would have helped a refused request"""
    page.open(path("full"))
    (cache,), (entry,) = load("full")["fragmentation"], load("full")["out_of_memory"]
    frame = next(frame["function"] for frame in cache["pinned_by"][0]["stack"] if "role" not in frame)
    tables = [[cache["cache"], "0", "60.0 MiB", "2.0 MiB", "58.0 MiB", "0 bytes"],
              ["58.0 MiB", "58.0 MiB", "1", "2.0 MiB", frame]]
    for part in "fragmentation", "out-of-memory":
        page.js("document.getElementById('%s').open = true" % part)
        got = cells("#%s tbody tr" % part)
        same(part, tables, [got[0], got[1][:4] + [got[1][4].split(" ")[0]]])
    same("link", "Fragmentation", page.text("nav a[href='#fragmentation']"))
    same("remedies", ["expandable-segments", "order"], [each["remedy"] for each in entry["remedies"]])
    told = page.texts("#out-of-memory li")
    same("next", "Next: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (frees up to 58.0 MiB)",
         told[0])
    same("order", True, told[1].startswith("Next: allocate the ") and frame in told[1])
    same("what was wanted", True, "; would fit without fragmentation: expandable_segments:True "
         "frees 58.0 MiB" in page.text("#out-of-memory h3"))
    page.open(path("clean"))
    same("clean", 0, page.js("document.querySelectorAll('#fragmentation').length"))


def ranges():
    """ranges of the program are a table; a peak that is not known is no number"""
    page.open(path("full"))
    page.js("document.getElementById('ranges').open = true")
    table = cells("#ranges tbody tr")
    same("figures", [["library", "3.0 MiB", "4.0 MiB", "1.0 MiB", "3.0 MiB"],
                     ["", "1.0 MiB", "1.0 MiB", "0 bytes", "not known"]], [row[1:] for row in table])
    same("names", [True, "(outside all ranges)"], [table[0][0].startswith("serve/<b>"), table[1][0]])


def driver_memory():
    """what calls made the driver take is a table: the cause, how much, and the call"""
    page.open(path("p-driver_costs"))
    page.js("document.getElementById('devices').open = true")
    table = cells("#devices tbody tr")
    same("costs", [
        ["context", "0", "500.0 MiB", "1", "1", "0", "cuCtxCreate_v2"],
        ["context", "0", "unknown", "1", "0", "0", "cuDevicePrimaryCtxRetain"],
    ], [row[:6] + [row[6].split(",")[0]] for row in table][:2])
    same("as in JSON", len(load("p-driver_costs")["driver_costs"]), len(table))
    same("places", [], [row[6] for row in table if " driver_costs.c:" not in row[6]])
    page.open(path("clean"))
    same("without any", 0, page.js("document.querySelectorAll('#devices').length"))


def flame_of_the_peak():
    """the flame graph of the peak is beside that at exit, and a table below: by clicks"""
    page.open(path("p-peak"))
    silent()
    same("views", ["At exit", "Peak of device 0", "Peak of host memory"], page.texts(".switch button"))

    def is_shown(number, first, title, boxes):
        same("pressed", [str(at == number).lower() for at in range(3)], page.js(
            "[...document.querySelectorAll('.switch button')].map((e) => e.ariaPressed)"))
        same("first box", first, page.js("document.querySelector('.flame button').ariaLabel"))
        same("title", title, page.text("#flame h2"))
        names = page.js("[...document.querySelectorAll('.flame button')].map((e) =>"
                        " e.ariaLabel.split(',')[0])")
        same("boxes", [], [name for name in boxes if name not in names])
        same("not " + title, False, "workspace" in names and "workspace" not in boxes)

    is_shown(0, "all leaks, 100.0 MiB in 1 block, 100.0 %", "Who allocated what leaked",
             ["main", "weights"])
    page.click(".switch button", 1)
    is_shown(1, "all of the peak, 1000.0 MiB in 2 blocks, 100.0 %",
             "Who held device 0 at its peak", ["main", "weights", "workspace"])
    page.click("#flame-search")
    page.type("workspace")
    same("found", True, " with 900.0 MiB, 90.0 % of the peak" in page.text(".told"))
    page.click(".switch button", 2)
    is_shown(2, "all of the peak, 7.0 MiB in 1 block, 100.0 %", "Who held host memory at its peak",
             ["main", "pin"])
    page.click(".switch button", 0)
    is_shown(0, "all leaks, 100.0 MiB in 1 block, 100.0 %", "Who allocated what leaked", ["weights"])
    page.click("#peak > summary")
    same("table", [["900.0 MiB", "1 block"], ["100.0 MiB", "1 block"], ["7.0 MiB", "1 block"]], cells(
        "#peak tbody tr", 2))
    same("a clean program has only that of its peak", [False, "all of the peak"], [
        page.open(path("p-clean")) or page.js("Boolean(document.querySelector('.switch'))"),
        page.js("document.querySelector('.flame button').ariaLabel").split(",")[0]])


def shared_memory():
    """memory that was freed while another process had it open: both processes in one table"""
    page.open(path("p-ipc"))
    silent()
    same("heading", "Freed, but still open in another process", page.text("#shared h2"))
    owner = [process for process in load("p-ipc")["processes"]
             if process["ipc"]["freed_while_open"]][0]
    group = owner["ipc"]["freed_while_open"][0]
    row = cells("#shared tbody tr")
    same("rows", 1, len(row))
    same("figures", ["4.0 MiB", "1"], row[0][:2])
    same("process", "pid %d" % group["importer"]["pid"], row[0][4])
    for number, event in ((2, "allocated"), (3, "freed"), (5, "opened")):
        frame = [one for one in group[event]["stack"] if one.get("role", "application") == "application"][0]
        same(event, True, row[0][number].startswith("%s ipc.c:%d" % (frame["function"],
                                                                     frame["line"])))
    page.open(path("p-clean"))
    same("clean", 0, page.js("document.querySelectorAll('#shared').length"))


def policy_holds():
    """a script that got in all the same does not run, nor does a handler or a request"""
    page.open(path("full"))
    page.js("""(() => {
        const script = document.createElement('script');
        script.textContent = "document.title = 'owned'";
        document.body.append(script);
        const box = document.createElement('div');
        box.innerHTML = '<img src="x:y" onerror="document.title=\\'owned\\'">';
        document.body.append(box);
        fetch('http://127.0.0.1:9/').catch(() => 0);
    })()""")
    page.js("new Promise((done) => setTimeout(done, 200))")
    same("title", False, page.js("document.title") == "owned")
    same("the browser says so", True, any("Content Security Policy" in text
                                          for text in page.complaints()))


def ten_thousand():
    """10,000 leaks: what is not shown is said, nothing jumps, filter and sum see all"""
    page.open(path("many"))
    leaks = lines(load("many")["leaks"])
    same("layout shift", True, page.js(SHIFT) < 0.01)
    same("rows", wanted_rows(leaks[:200]), rows())
    rest = sum(leak["bytes"] for leak in leaks[200:])
    same("left out", True, "{:,} of them not shown: {}".format(len(leaks) - 200, size(rest)) in page.text("#leaks .left"))
    page.click("#leaks .left button")
    same("more", wanted_rows(leaks[:1200]), rows())
    page.click("#leaks-table-search")
    page.type("cuMemHostAlloc")
    found = [leak for leak in leaks if leak["api"] == "cuMemHostAlloc"]
    same("filter", True, page.text("#leaks .left").startswith("{:,} sites, {}, {} of".format(
        len(found), blocks(sum(leak["blocks"] for leak in found)),
        exact(sum(leak["bytes"] for leak in found)))))


def narrow_boxes():
    """a flame graph of boxes that are too narrow has a box for some of them, which zooms to them"""
    page.open(path("many"))
    leaks = load("many")["leaks"]
    total = size(sum(leak["bytes"] for leak in leaks))
    same("root", True, total in page.js("document.querySelector('.flame button').ariaLabel"))
    below = """(() => { const all = [...document.querySelectorAll('.flame button')];
        const top = parseFloat(document.querySelector('.flame [tabindex="0"]').style.top);
        const next = all.map((e) => parseFloat(e.style.top)).filter((at) => at > top);
        return all.filter((e) => parseFloat(e.style.top) === Math.min(...next))
            .map((e) => e.ariaLabel); })()"""
    group = """[...document.querySelectorAll('.flame button')].filter((e) =>
        e.ariaLabel.includes('narrower boxes')).pop()"""
    for _ in range(8):
        same("boxes for many", True, page.js("!!(%s)" % group))
        page.js("(%s).click()" % group)
        places = page.js("""[...document.querySelectorAll('.flame button')].map((e) =>
            e.style.top + ' ' + e.style.left)""")
        same("no two boxes in one place", len(places), len(set(places)))
        if any("narrower boxes" not in label for label in page.js(below)):
            break
    else:
        raise Failed("no zoom leads to a function: %r" % page.js(below))
    page.js("document.querySelector('.flame [tabindex=\"0\"]').focus()")
    for _ in range(20):
        page.key("Escape")
    same("back", True, page.js("document.getElementById('flame-reset').disabled"))


def choose(at):
    page.js("(() => { const s = document.getElementById('process'); s.value = '%d'; "
            "s.dispatchEvent(new Event('change')); })()" % at)


def eight_processes():
    """eight processes: the sum first, the one that leaks most on top, each by itself"""
    page.open(path("ranks"))
    report = load("ranks")
    same("processes", 8, len(report["processes"]))
    same("sum", size(report["summary"]["leaked_bytes"]) + ", " + blocks(
        report["summary"]["leaked_blocks"]), figure("Leaked"))
    same("most on top", "server (pid 105)", page.js(
        "document.querySelector('#processes tbody button').innerText"))
    page.click("#processes tbody button")
    same("one", wanted_rows(lines(report["processes"][5]["leaks"])), rows())
    same("focus", "process", focused())
    choose(-1)
    same("all again", sum(len(lines(process["leaks"])) for process in report["processes"]), len(rows()))


def ranks_of_a_job():
    """ranks with one leak are one row; filters and the view of a rank have their part of it"""
    page.open(path("job"))
    report = load("job")
    shared = [leak for process in report["processes"] for leak in process["leaks"]
              if leak["bytes"] != 100 << 20]
    other = next(leak for leak in report["processes"][3]["leaks"] if leak["bytes"] == 100 << 20)
    row = [exact(39 << 20), "4", KINDS[shared[0]["kind"]], "0, 1", shared[0]["api"]]
    same("leaks", [1 << 20, 2 << 20, 4 << 20, 32 << 20], [leak["bytes"] for leak in shared])
    same("rows", wanted_rows([other]) + [row], rows())
    same("processes", ["server rank 5 (pid 605, node-17)", "ranks 0-2, 5"],
         [cell[-1] for cell in cells("#leaks-table tr.leak")])
    same("sum", size(139 << 20), figure("Leaked").split(",")[0])
    page.click("#leaks-table tr.leak:nth-child(2) button")
    same("one stack", [1, True], page.js("""(() => { const said = [...document.querySelectorAll(
        '#leaks-table tr.more p.soft')].map((p) => p.textContent); return [said.filter((text) =>
            text.includes('allocated by')).length, said[0].includes(' in ranks 0-2, 5 at:')]; })()"""))
    for device, ranks, total in ("1", "ranks 1, 5", 34), ("0", "ranks 0, 2", 5):
        page.js("(() => { const s = document.getElementById('leaks-table-device'); s.value = '%s'; "
                "s.dispatchEvent(new Event('change')); })()" % device)
        found = [cell for cell in cells("#leaks-table tr.leak") if cell[-1].startswith("ranks")]
        same("device " + device, [[size(total << 20), ranks]], [[cell[0], cell[-1]] for cell in found])
    choose(3)
    same("rank 5", wanted_rows([other, shared[3]]), rows())
    choose(-1)
    page.js("(() => { const s = document.getElementById('leaks-table-search'); "
            "s.value = '601,'; s.dispatchEvent(new Event('input')); })()")
    same("search for a rank", [["2.0 MiB", "server rank 1 (pid 601, node-17)"]],
         [[cell[0], cell[-1]] for cell in cells("#leaks-table tr.leak")][-1:])


def timeline_by_kind():
    """the timeline has each kind and device, and at a moment their bytes"""
    page.open(path("full"))
    parts = load("full")["timeline"]["parts"]
    same("areas", len(parts), page.js("document.querySelectorAll('path.area:not(.whole)').length"))
    page.js("(() => { const s = document.querySelector('.moment'); s.value = 10; "
            "s.dispatchEvent(new Event('input')); })()")
    same("legend", sorted("%s, device %d\t%s" % (KINDS[part["kind"]], part["device"],
        size(part["live"][10][1]))
                          for part in parts), sorted(page.texts(".legend tbody tr")[:-2]))
    same("what is between the samples of kinds", "not sampled by kind\t0 bytes",
         page.texts(".legend tbody tr")[-2])


def legend_at(part):
    """The legend's rows when the slider stands at PART of its way."""
    page.js("(() => { const s = document.querySelector('.moment'); s.value = s.max * %r; "
            "s.dispatchEvent(new Event('input')); })()" % part)
    return page.texts(".legend tbody tr")


def processes_in_turn():
    """several processes: the peak is that of one moment, the legend has each of them"""
    page.open(path("sequence"))
    report = load("sequence")
    same("separate peaks together", 93 << 20, report["summary"]["peak_bytes"])
    # 60 MiB of the second and 2 MiB of the third at 103 s; the first one is gone.
    same("peak", "62.0 MiB, live at one moment, in all processes", figure("Peak"))
    rows = ["device memory, device 0\t60.0 MiB", "processes without kinds\t2.0 MiB",
            "total\t62.0 MiB", "loader (pid 22) peak 60.0 MiB\t60.0 MiB",
            "loader (pid 21) peak 30.0 MiB\t0 bytes",
            "loader (pid 23) peak 3.0 MiB, kinds not recorded\t2.0 MiB"]
    same("at first", rows, page.texts(".legend tbody tr"))
    # From the first sample, at 1 s, to the last end, at 111 s.
    same("at 103.5 s", rows, legend_at(102.5 / 110))
    same("at 5 s", ["2.0 MiB", "0 bytes", "2.0 MiB", "0 bytes", "2.0 MiB", "0 bytes"],
         [row.split("\t")[1] for row in legend_at(4 / 110)])
    same("between them", ["0 bytes"] * 6, [row.split("\t")[1] for row in legend_at(0.5)])
    same("at the end", ["0 bytes", "1.0 MiB", "1.0 MiB", "0 bytes", "0 bytes", "1.0 MiB"],
         [row.split("\t")[1] for row in legend_at(1)])


def slider_and_cursor():
    """the slider's knob stands where the cursor is, moved by either"""
    page.open(path("sequence"))
    for move in ("", "const s = document.querySelector('.moment'); s.value = s.max / 4; "
                     "s.dispatchEvent(new Event('input'));",
                 "const p = document.querySelector('.plot svg'), b = p.getBoundingClientRect(); "
                 "p.dispatchEvent(new PointerEvent('pointermove', "
                 "{ clientX: b.left + b.width * 0.75 }));"):
        knob, cursor, said = page.js("""(() => { { %s }
            const s = document.querySelector('.moment'), b = s.getBoundingClientRect();
            const c = document.querySelector('.cursor').getBoundingClientRect();
            return [b.left + 8 + (b.width - 16) * s.value / s.max, c.left + c.width / 2,
                document.querySelector('.legend thead th:last-child').innerText]; })()""" % move)
        if abs(knob - cursor) > 1.5:
            raise Failed("%s: knob at %r, cursor at %r (%s)" % (move, knob, cursor, said))
        if move:
            same("said", "at 28.50 s" if "max / 4" in move else "at 1 min 23 s", said)


def report_of(name, *flags):
    """The JSON report on the only ledger of a program."""
    (ledger,) = glob.glob(os.path.join(place, name + "-*.ledger"))
    run = subprocess.run([options.command, "report", "--format", "json", *flags, ledger],
                         check=True, stdout=subprocess.PIPE, timeout=180)
    return json.loads(run.stdout)


def by_function(holders):
    return {holder["stack"][0]["function"]: (holder["bytes"], holder["blocks"])
            for holder in holders}


def cursor_of_the_trace():
    """the flame graph at ten cursors is what report --at says, and between two of them --between"""
    text = source("p-traced")
    start = re.search(r'id="data">', text).end()
    data = json.loads(text[start:text.index("</script>", start)])
    trace, timeline = data["trace"], data["timeline"]
    functions = [data["frames"][data["stacks"][site["stack"]][0]]["function"]
                 for site in trace["sites"]]
    ns, last = trace["ns"], len(trace["ns"]) - 1
    known = [at for at, _ in timeline["live"]] + [timeline["peak_ns"], timeline["end_ns"]]
    known += [at for part in timeline["parts"] for at, _ in part["live"]]
    page.open(path("p-traced"))

    def move(at):
        part = (ns[at] + 3e5 - min(known)) / (max(known) - min(known))
        page.js("(() => { const s = document.querySelector('.moment'); s.value = s.max * %r; "
                "s.dispatchEvent(new Event('input')); })()" % part)

    def shows(name, sums):
        same("first box", "%s, %s in %s, 100.0 %%" % (name, size(sums["bytes"]), blocks(
            sums["blocks"])), page.js("document.querySelector('.flame button').ariaLabel"))

    views = page.texts(".switch button")
    page.click(".switch button", views.index("At the cursor"))
    moments = [last * i // 10 for i in range(1, 10)] + [last - 1]
    for at in moments:
        live = report_of("traced", "--at", "%dms" % (ns[at] // 1000000))["at"]["live"]
        same("holders", by_function(live["holders"]), {
            functions[site]: (total, count) for site, total, count in trace["live"][at]})
        move(at)
        shows("all at this moment", live)
    move(moments[2])
    page.click("#mark")
    move(moments[6])
    between = report_of("traced", "--between", "%dms..%dms" % (
        ns[moments[2]] // 1000000, ns[moments[6]] // 1000000))["between"]
    for view in ("Allocated", "Freed"):
        page.click(".switch button", views.index(view))
        shows("all of it", between[view.lower()])
        same("title", True, page.text("#flame h2").startswith(view + " between "))


def timeline_of_a_program():
    """the timeline of a real program: both kinds at each moment, and what was left at its end"""
    report = load("p-timeline")
    told = report["timeline"]
    parts = {(part["kind"], part["device"]): part["live"] for part in told["parts"]}
    same("kinds", [("device", 0), ("pinned", 0)], sorted(parts))
    same("at the same moments", [at for at, _ in parts["device", 0]],
         [at for at, _ in parts["pinned", 0]])
    mib = 1 << 20
    seen = [(device, pinned) for (_, device), (_, pinned) in zip(parts["device", 0],
                                                                parts["pinned", 0])]
    for device, pinned in seen:
        steps, rest = divmod(device, mib)
        if rest not in (0, 256) or not 0 <= steps <= 8 or pinned not in (0, 4 * mib):
            raise Failed("impossible moment: %d device, %d pinned" % (device, pinned))
    if len(seen) < 8 or seen[-1] != (8 * mib + 256, 4 * mib):
        raise Failed("moments: %r" % seen)
    same("its end", True, told["live"][-1][0] <= told["end_ns"] < told["live"][-1][0] + 2e9)
    page.open(path("p-timeline"))
    same("areas", 2, page.js("document.querySelectorAll('path.area:not(.whole)').length"))
    page.js("(() => { const s = document.querySelector('.moment'); s.value = s.max; "
            "s.dispatchEvent(new Event('input')); })()")
    same("at the end", ["device memory, device 0\t8.0 MiB", "pinned host memory, device 0\t4.0 MiB",
                        "total\t12.0 MiB"], page.texts(".legend tbody tr"))


def timeline_at_the_peak():
    """the timeline's kinds add up to its total at the peak: by its holders, or with a rest"""
    text = source("p-timeline")
    start = re.search(r'id="data">', text).end()
    data = json.loads(text[start:text.index("</script>", start)])
    moments = data["timeline"]["live"]
    data["timeline"]["peak_ns"] = (moments[-2][0] + moments[-1][0]) // 2
    before = {part["kind"]: [held for at, held in part["live"]
                             if at <= data["timeline"]["peak_ns"]][-1]
              for part in data["timeline"]["parts"]}
    data["summary"]["peak_bytes"] = 100 << 20
    data["peak"].update(bytes=96 << 20, seconds=data["timeline"]["peak_ns"] / 1e9)
    data["peak"]["holders"][0]["bytes"] += (96 << 20) - sum(
        holder["bytes"] for holder in data["peak"]["holders"])
    for name, others, rows in (
            ("holders", {}, ["device memory, device 0\t96.0 MiB",
                             "pinned host memory, device 0\t4.0 MiB", "total\t100.0 MiB"]),
            ("rest", {"other_holders": {}}, ["device memory, device 0\t" + size(before["device"]),
                                             "pinned host memory, device 0\t4.0 MiB",
                                             "not sampled by kind\t" + size(
                                                 (100 << 20) - sum(before.values())),
                                             "total\t100.0 MiB"])):
        data["peak"].update(others)
        with open(path(name), "w", encoding="utf-8") as file:
            file.write(text[:start] + json.dumps(data).replace("<", "\\u003c") +
                       text[text.index("</script>", start):])
        page.open(path(name))
        same(name, rows, page.texts(".legend tbody tr"))


def kinds_without_a_leak():
    """the page has the words of kinds of memory that no leak has"""
    page.open(path("p-clean"))
    same("leaks", [], load("p-clean")["leaks"])
    same("words", ["physical memory", "OpenCL command queue"],
         page.js("(() => { const { kinds } = JSON.parse(document.getElementById('data').textContent);"
                 " return [kinds['vmm-handle'], kinds['object/cl-queue']]; })()"))


def on_paper():
    """print hides what is for the screen and unfolds the rest"""
    page.open(path("full"))
    page.call("Emulation.setEmulatedMedia", media="print")
    same("hidden", [False, False], page.js(
        "['nav', '#flame .controls'].map((s) => document.querySelector(s).checkVisibility())"))
    page.js("dispatchEvent(new Event('beforeprint'))")
    same("open", True, page.js("document.getElementById('suppressed').open"))
    if len(page.call("Page.printToPDF")["data"]) < 10000:
        raise Failed("hardly anything on paper")


def without_script():
    """without JavaScript the text report is there to read"""
    page.open(path("p-families"), scripts=False)
    with open(os.path.join(place, "p-families.text"), encoding="utf-8") as file:
        same("text", file.read().strip(), page.text("#text pre"))
    same("and nothing else was made", "", page.text("main"))


CASES = (pages_are_quiet, whole_and_embedded, verdict_is_the_text_reports, figures_are_the_jsons,
         sorts, filters, unfolds, flame_zooms, keyboard_alone, stories, hostile_names, tensors,
         out_of_memory, named_steps, growth_and_pools, fragmentation, ranges, driver_memory,
         flame_of_the_peak,
         shared_memory, policy_holds, threads_and_short_names, ten_thousand, narrow_boxes,
         eight_processes, ranks_of_a_job, timeline_by_kind, processes_in_turn,
         slider_and_cursor, cursor_of_the_trace, timeline_of_a_program, timeline_at_the_peak, kinds_without_a_leak,
         on_paper, without_script)


def run(case, number):
    try:
        case()
    except (Failed, chromium.BrowserError, subprocess.SubprocessError) as failure:
        print("not ok %d - %s" % (number, case.__doc__))
        print("# " + str(failure).replace("\n", "\n# "), flush=True)
        return 1
    print("ok %d - %s" % (number, case.__doc__), flush=True)
    return 0


def only_a_snap():
    """Ubuntu has Chromium only as a snap, which no container can run; a Chrome would do."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            return "\nID=ubuntu\n" in "\n" + file.read()
    except OSError:
        return False


def main():
    global options, page, place
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("command", "preload", "standin", "programs", "pages"):
        parser.add_argument("--" + name, required=True, type=os.path.realpath)
    parser.add_argument("--only", default="", help="only cases with this in their name")
    options = parser.parse_args()
    path_of_it = chromium.find()
    if not path_of_it:
        must = os.environ.get("GPULEAK_MUST_RUN") and not only_a_snap()
        print("1..1\nnot ok 1 - must run here, but there is no Chromium" if must else
              "1..0 # SKIP no Chromium (GPULEAK_TEST_CHROMIUM can name one)")
        return 1 if must else 0
    cases = [case for case in CASES if options.only in case.__name__]
    print("1..%d" % len(cases))
    with tempfile.TemporaryDirectory(prefix="gpuleak-html-") as place:
        make_reports()
        with chromium.started(path_of_it) as page:
            return 1 if sum([run(case, number) for number, case in enumerate(cases, 1)]) else 0


sys.exit(main())
