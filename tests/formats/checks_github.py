# SPDX-License-Identifier: MIT
"""GitHub: read by the rules of the runner (a line that begins with `::`, percent codes), and
counted against what it shows; the summary as the Markdown that it is."""

import html
import os
import re

from tools import HERE, same, true

COMMAND = re.compile(r"::(?P<name>[a-z-]+)(?: (?P<properties>.*?))?::(?P<data>.*)", re.S)


def unescape(text, codes):
    for code, char in codes:
        text = text.replace(code, char)
    return text


DATA = (("%0D", "\r"), ("%0A", "\n"), ("%25", "%"))
PROPERTY = (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))


def parsed(content):
    """[(name, properties, message)] as the runner's ActionCommand.TryParseV2 has them."""
    text = content.decode("utf-8")
    found = []
    for line in re.split(r"\r\n|\n|\r", text):
        if not line:
            continue
        # Everything that we print is a command: nothing can be smuggled in between.
        true(line.startswith("::"), "a line that is no command: %r" % line)
        match = COMMAND.fullmatch(line)
        true(match, line)
        properties = {}
        for part in (match["properties"] or "").split(","):
            key, equals, value = part.partition("=")
            true(equals and re.fullmatch("file|line|title", key), "property %r" % part)
            true(key not in properties, "%s twice" % key)
            properties[key] = unescape(value, PROPERTY)
        found.append((match["name"], properties, unescape(match["data"], DATA)))
    for name in ("error", "warning", "notice"):
        true(sum(f[0] == name for f in found) <= 10, "more than ten of %s" % name)
    for _, _, message in found:
        true(len(message) <= 4096, "a message that the runner cuts")
    return found


def clean(place):
    """A clean program: one notice, for silence is no success."""
    found = parsed(place.report("github", place.ledger("l", "leaks", 0)))
    same([(name, p, m) for name, p, m in found],
         [("notice", {"title": "gpuleak: no leaks"},
           "1 block, 500 bytes allocated by 1 process")])


def nothing(place):
    """Status 24: one error, and a summary that counts nothing."""
    summary = place.path("summary")
    same(parsed(place.nothing("github")),
         [("error", {"title": "gpuleak: nothing to judge"},
           "no ledger was found: no GPU call was seen\n")])
    place.command("run", "--gate", "--format", "github", "--", "/bin/true", status=24,
                  env={"GITHUB_STEP_SUMMARY": summary})
    with open(summary, encoding="utf-8") as file:
        same(file.read(), "### GPU memory: nothing to judge\n\n"
             "- no ledger was found&#58; no GPU call was seen\n\n")


def leaks(place):
    """An error each, at the line, relative to the workspace."""
    found = parsed(place.report("github", place.ledger("l", "leaks_apart", 2, "double"),
                                env={"GITHUB_WORKSPACE": os.path.dirname(HERE)}))
    same([(name, p["title"], p["file"]) for name, p, _ in found], [
        ("error", "GPU memory: double free", "formats/leaks.c"),
        ("error", "GPU memory leak: 1.9 KiB", "formats/leaks.c"),
        ("error", "GPU memory leak: 1000 bytes", "formats/leaks.c")])
    with open(os.path.join(HERE, "leaks.c"), encoding="utf-8") as file:
        lines = file.read().split("\n")
    true("SITES(SITE)" in lines[int(found[1][1]["line"]) - 1], "the line")
    true(re.search(r"\n    #0 leak_2 /.*/leaks\.c:\d+\n    #1 main ", found[1][2]), found[1][2])


def one_line(place):
    """Leaks of one line by several stacks: one error with their sum, and what differs of each."""
    found = parsed(place.report("github", place.ledger("l", "leaks", 3)))
    same([(name, p["title"]) for name, p, _ in found], [("error", "GPU memory leak: 5.8 KiB")])
    same(re.findall(r"\n  Of this (.*) by another stack, with (\w+) \(", found[0][2]),
         [("1.9 KiB in 1 block", "leak_2"), ("1000 bytes in 1 block", "leak_1")])


def eleven(place):
    """Eleven leaks: nine errors, and a tenth for the rest."""
    found = parsed(place.made("github", "eleven"))
    same(len(found), 10)
    same(found[9][1]["title"], "GPU memory: 2 more")
    true(found[9][2].startswith("2 blocks, 3 bytes in 2 more, the first of them:\n"), found[9][2])


def twelve(place):
    """Twelve real leaks under a gate that fails: the verdict, eight leaks, the rest."""
    found = parsed(place.report("github", "--max-leaked-bytes", 0, place.ledger("l", "leaks_apart", 12)))
    same([name for name, _, _ in found], ["error"] * 10)
    same(found[0][1], {"title": "gpuleak: gate failed"})
    same(found[9][1]["title"], "GPU memory: 4 more")
    true(found[9][2].startswith("4 blocks, 10,000 bytes (9.7 KiB) in 4 more"), found[9][2])


def verdicts(place):
    """What the gate lets pass are warnings."""
    ledger = place.ledger("l", "leaks_apart", 2)
    found = parsed(place.report("github", "--max-leaked-bytes", 3000, ledger))
    same([name for name, _, _ in found], ["notice", "warning", "warning"])
    same(found[0][1], {"title": "gpuleak: gate passed"})


def incomplete(place):
    """What was not recorded is an error of its own."""
    found = parsed(place.command("report", "--format", "github", place.ledger("l", "leaks", 0),
                                 place.write("broken", b"no ledger"), status=1).stdout)
    same([(name, p) for name, p, _ in found],
         [("error", {"title": "gpuleak: not everything was recorded"})])


def hostile(place):
    """Names of any bytes end neither a line nor a value."""
    found = parsed(place.made("github", "hostile", "23", env={"GITHUB_WORKSPACE": "/src/app"}))
    same([name for name, _, _ in found], ["error"] * 6 + ["notice"])
    same(found[2][1]["file"].count("\\x0A::error file=x,line=1::hi\\x0D\\x1B[31m\\xFF\\xFE"), 1)
    same(found[2][1]["line"], "9")


def caches(place):
    """A cache is a notice, next to the one that says that nothing leaked."""
    found = parsed(place.made("github", "caches"))
    same([(name, p["title"]) for name, p, _ in found],
         [("notice", "gpuleak: no leaks"), ("notice", "GPU memory held by a cache: 4.0 KiB")])


def tensors(place):
    """What accumulates is a warning at its line, also if the gate fails; not if suppressed."""
    for verdict, others in (("none", []), ("23", ["gpuleak: gate failed"])):
        found = parsed(place.made("github", "tensors", verdict,
                                  env={"GITHUB_WORKSPACE": "/src/app"}))
        same([(name, p["title"]) for name, p, _ in found],
             [("error", title) for title in others] +
             [("warning", "GPU memory accumulates: 200.0 KiB"),
              ("notice", "GPU memory held by a cache: 2.0 MiB")])
        same((found[-2][1]["file"], found[-2][1]["line"]), ("train.py", "8"))
        same(found[-2][2],
             "204,800 bytes (200.0 KiB) in 400 tensors (PyTorch caching allocator, device 0) "
             "accumulate: 400 of 400 kept, 2 per second until the loop ended, allocated at:\n"
             "    #0 train_step /src/app/train.py:8\n    #1 <module> /src/app/train.py:20\n")
    same([p["title"] for _, p, _ in parsed(place.made("github", "constant"))],
         ["gpuleak: no leaks"])
    text = place.made("github", "tensors", env={"MADE_SUMMARY": "1"}).decode("utf-8")
    true(text.startswith("### GPU memory: memory accumulates\n"), text[:100])
    true(", 1 call site accumulates; peak " in text, text[:300])
    same([row.split(" | ")[0] for row in text.split("\n") if row.startswith("| ")][1:],
         ["| accumulates", "| cache", "| suppressed"])
    same(len(parsed(place.made("github", "wild-tensors"))), 7)


def ranks(place):
    """Several processes: each message names its own."""
    found = parsed(place.made("github", "ranks"))
    same([p["title"] for _, p, _ in found],
         ["gpuleak: not everything was recorded", "GPU memory leak: 3.0 KiB"])
    true(found[1][2].startswith("in train (pid 11): 3 blocks, "), found[1][2])


def summary(place):
    """The step's summary is appended to, in Markdown."""
    path = place.write("summary.md", b"before\n")
    ledger = place.ledger("l", "leaks_apart", 2, "double")
    place.report("github", ledger, env={"GITHUB_STEP_SUMMARY": path})
    with open(path, encoding="utf-8") as file:
        text = file.read()
    true(text.startswith("before\n### GPU memory: leaks or invalid frees\n"), text[:200])
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    same([len(re.findall(r"(?<!\\)\|", row)) for row in rows], [8] * 4)
    same([row.split(" | ")[0] for row in rows[1:]], ["| double free", "| leak", "| leak"])
    same(text.count("<pre>"), 3)
    place.command("check", "--format", "github", ledger, status=23,
                  env={"GITHUB_STEP_SUMMARY": path})
    with open(path, encoding="utf-8") as file:
        true("### GPU memory: gate failed" in file.read(), "the verdict")


def summary_limits(place):
    """A summary that would be too large or can't be written costs a line, nothing else."""
    ledger = place.ledger("l", "leaks", 1)
    path = place.write("full.md", b"x" * ((1 << 20) - 100))
    done = place.command("report", "--format", "github", ledger,
                         env={"GITHUB_STEP_SUMMARY": path})
    same(done.stderr.decode(), "gpuleak: GITHUB_STEP_SUMMARY: cannot append the summary to %s: "
         "it would exceed the size limit\n" % path)
    same(os.path.getsize(path), (1 << 20) - 100)
    same(len(parsed(done.stdout)), 1)
    done = place.command("report", "--format", "github", ledger,
                         env={"GITHUB_STEP_SUMMARY": place.path("no/such")})
    same(done.stderr.count(b"\n"), 1)


def summary_hostile(place):
    """No name becomes Markdown, HTML or a cell."""
    text = place.made("github", "hostile", "23", env={"MADE_SUMMARY": "1"}).decode("utf-8")
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    same([row.count("|") for row in rows], [8] * 7)
    tags = set(re.findall(r"</?\w+>", text))
    same(tags, {"<code>", "</code>", "<pre>", "</pre>", "<br>", "<details>", "</details>",
                "<summary>", "</summary>"})
    true(len(place.made("github", "many", env={"MADE_SUMMARY": "1"})) < 1 << 20, "its size")


def out_of_memory(place):
    """A request that ended the program is an error at its line and the summary's first row."""
    ledger = place.out_of_memory("exit:3", status=3)
    found = parsed(place.report("github", ledger))
    same([(name, p["title"], os.path.basename(p["file"])) for name, p, _ in found], [
        ("error", "GPU out of memory: 64.0 MiB wanted", "oom.c"),
        ("error", "GPU memory leak: 40.0 MiB", "oom.c")])
    true(found[0][2].startswith("out of memory: 64.0 MiB wanted at want ("), found[0][2])
    true("\nWanted at:\n    #0 want /" in found[0][2], found[0][2])
    summary = place.path("summary.md")
    place.report("github", ledger, env={"GITHUB_STEP_SUMMARY": summary})
    with open(summary, encoding="utf-8") as file:
        text = file.read()
    true(text.startswith("### GPU memory: out of memory\n"), text[:60])
    row = html.unescape(re.search(r"\|\n\|---.*\n(.*)\n", text).group(1))
    true(re.fullmatch(r"\| out of memory \| 64\.0 MiB \| \| <code>cuMemAlloc_v2</code> \| "
                      r"<code>want</code> \| <code>\S+oom\.c</code>:\d+ \| .*", row), row)
    os.unlink(ledger)
    same([p["title"] for _, p, _ in parsed(place.report(
        "github", place.out_of_memory("drop", status=0)))], ["gpuleak: no leaks"])


CHECKS = [nothing, out_of_memory, tensors, clean, leaks, one_line, eleven, twelve, verdicts, incomplete, hostile, caches, ranks, summary,
          summary_limits, summary_hostile]
