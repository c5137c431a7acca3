# SPDX-License-Identifier: MIT
"""The command line itself: what it answers to mistyped words and values, where a report goes and
what is said of it, and programs that can't be recorded."""

import glob
import os
import pty
import re
import signal
import subprocess

from harness import Failed, HERE, TIMEOUT, compare, no_call_seen
from stories import gate, needs, one_line

# Public names: docs/guides/gate.md.
KINDS = ("device", "managed", "pinned", "registered", "stream-ordered", "mempool", "array", "vmm-handle",
         "vmm-reservation", "vmm-mapping", "ipc", "external", "graph", "cl-buffer", "cl-sub-buffer",
         "cl-image", "cl-pipe", "cl-svm", "cl-usm")
SOURCES = os.path.dirname(os.path.dirname(HERE))


# ---- words and values ----

def switches(place):
    """a switch takes 0 or 1 as its value, and not the program behind it"""
    for words, wanted in ((["--verbose"], True), (["--verbose", "1"], True), (["--verbose=1"], True),
                          (["--verbose", "0"], False), ([], False), (["-v"], True)):
        run = place.command("run", *words, place.program("clean"))
        compare("%s: status and stdout" % words, (0, "clean\n"), (run.status, run.stdout))
        compare("%s: how the process reached the drivers" % words, wanted, "p_clean" in
                "".join(run.stderr.splitlines(True)[1:]))
    run = place.command("run", "--gate-caches", "--lsan-suppressions", "--gate", place.program("clean"))
    compare("several: status and stdout", (0, "clean\n"), (run.status, run.stdout))
    run = place.command("run", "--verbose=2", place.program("clean"))
    compare("neither 0 nor 1", (125, "gpuleak: run: bad value '2' of --verbose: expected is 0 or 1\n"),
            (run.status, run.stderr))


def durations(place):
    """durations may have a decimal point"""
    for text, status in (("0.5s", 0), ("1.5m", 0), ("100.9ms", 0), ("0.1", 0), ("0.25h", 0), ("0.0", 0),
                         ("0.05s", 125), ("0.0001s", 125), ("0.5ms", 125), (".5s", 125), ("1.s", 125),
                         ("1.5.5s", 125), ("1.5x", 125), ("0.5 s", 125)):
        run = place.command("run", "--every", text, "--", place.program("no_gpu"))
        compare("status for " + text, status, run.status)
    run = place.command("run", "--every", "0.0999s", "--", place.program("no_gpu"))
    compare("99 ms", True, run.stderr.startswith(
        "gpuleak: run: bad value '0.0999s' of --every: expected is a duration from 100ms on"))
    for text, wanted in (("0.2s", "no leaks"), ("0.0001s", "gpuleak: bad value '0.0001s' of "
                         "GPULEAK_STEP_EVERY: expected is a duration")):
        run = place.preloaded([place.program("clean")], {"GPULEAK_STEP_EVERY": text})
        compare("%s in the library" % text, (0, True), (run.status, wanted in run.stderr))


def sizes(place):
    """sizes: kB, MB, GB and TB are decimal, other units binary; in options, variables and budgets"""
    # p_ends leaks 2,097,929 bytes
    for text, status in (("2097929B", 0), ("2097928", 23), ("2098kB", 0), ("2097KB", 23), ("2048KiB", 23),
                         ("2049K", 0), ("2049kB", 23), ("2MB", 23), ("3MB", 0), ("3M", 0), ("1GB", 0)):
        for flags in (["--max-leaked-bytes", text],
                      ["--budgets", place.write("budgets", "kind:device %s\n" % text)]):
            compare("status for %s" % [*flags[:1], text], status, gate(place, "ends", *flags).status)
    for text in ("2mb", "9999999999TB", "MB"):
        run = gate(place, "ends", "--max-leaked-bytes", text)
        compare("status for " + text, 125, run.status)
        one_line(run.stderr, "bad value '%s' of --max-leaked-bytes" % text)
    for text, wanted in (("1MB", True), ("3MB", False)):  # the limit of the library: 2 MiB in 3 blocks
        run = place.preloaded([place.program("ends")], {"GPULEAK_LIMIT": text})
        compare("GPULEAK_LIMIT=%s is exceeded" % text, wanted, "worked" not in run.stdout)


# The format that each name of a file implies, and what its report contains.
IMPLIED = [("r.txt", "gpuleak: 1 leak"), ("r", "gpuleak: 1 leak"), ("r.json", '"schema": "gpuleak-report/1"'),
           ("r.html", "<html"), ("r.htm", "<html"), ("R.HTML", "<html"), ("r.xml", "<testsuite"),
           ("r.sarif", "sarif-schema-2.1"), ("r.sarif.json", "sarif-schema-2.1"), ("r.folded", ";leak ("),
           ("r.prom", "# TYPE gpuleak_"), ("r-%p.json", '"schema": "gpuleak-report/1"')]


def implied_format(place):
    """the flag --report implies the format by the end of the path, unless a format is given"""
    place.command("run", "--ledger", "ledger", "--", place.program("ends"))
    for name, part in IMPLIED:
        for words in (["run", "--report", name, "--", place.program("ends")],
                      ["report", "--report", name, "ledger"], ["check", "--report", name, "ledger"]):
            compare("status of %s" % words, 23 if words[0] == "check" else 0, place.command(*words).status)
            path, = glob.glob(place.file(name.replace("%p", "*")))
            compare("%s has %r" % (words, part), True, part in place.read(os.path.basename(path)))
            os.unlink(path)
    for name in ("r.pb.gz", "r.pprof"):
        place.command("report", "--report", name, "ledger")
        with open(place.file(name), "rb") as file:
            compare(name, b"\x1f\x8b", file.read(2))
    for env, flags in (({"GPULEAK_FORMAT": "text"}, []), ({}, ["--format", "text"]),
                       ({"GPULEAK_FORMAT": "json"}, ["--format", "text"]), ({"GPULEAK_FORMAT": "jsn"}, [])):
        for words in (["run", "--report", "r.html", *flags, "--", place.program("ends")],
                      ["report", *flags, "--report", "r.html", "ledger"]):
            place.command(*words, env=env)
            compare("%s %s" % (env, words), True, place.read("r.html").startswith("gpuleak: 1 leak"))
    place.command("run", "--", place.program("ends"), env={"GPULEAK_REPORT": place.file("v.html")})
    compare("a variable implies nothing", True, place.read("v.html").startswith("gpuleak: 1 leak"))


def program_without_run(place):
    """gpuleak PROGRAM is gpuleak run PROGRAM; a command's name has precedence; other words are unknown"""
    program = place.program("ends")
    run = place.command(program, "exit3", "--gate")
    compare("status and stdout", (3, "worked\n"), (run.status, run.stdout))
    one_line(run.stderr, "gpuleak: 1 leak, 2.0 MiB in 3 blocks")
    run = place.command("p_ends", env={"PATH": os.path.dirname(program)})
    compare("in PATH", (0, "worked\n", True), (run.status, run.stdout, "gpuleak: 1 leak" in run.stderr))
    for name in ("doctor", "help"):
        place.write(name, "#!/bin/sh\necho run\n")
        os.chmod(place.file(name), 0o755)
        run = place.command(name, env={"PATH": place.path})
        compare("%s is the command" % name, False, run.stdout.startswith("run\n"))
    compare("./doctor is the program", "run\n", place.command("./doctor").stdout)
    for word, reason in (("./nowhere", "No such file or directory"), ("./runtime", "Is a directory"),
                         (place.write("text", "x"), "Permission denied")):
        run = place.command(word)
        compare(word, (2, "", "gpuleak: unknown command '%s', and it cannot be run: %s; `gpuleak --help` lists "
                       "them\n" % (word, reason)), (run.status, run.stdout, run.stderr))
    for word in ("", "--nothing", "-x"):
        run = place.command(word)
        compare(word, (2, "", "gpuleak: unknown command '%s'; `gpuleak --help` lists them\n" % word),
                (run.status, run.stdout, run.stderr))


def suggestions(place):
    """a mistyped command or option: the one that is probably meant; none for a far-off word"""
    for words, status, said in (
            (["reprot"], 2, "unknown command 'reprot' (did you mean report?); `gpuleak --help` lists them"),
            (["help", "chekc"], 2, "help: unknown topic 'chekc' (did you mean check?); `gpuleak help` lists "
             "them"),
            (["help", "without-gpu"], 2, "help: unknown topic 'without-gpu' (did you mean without-a-gpu?); "
             "`gpuleak help` lists them"),
            (["help", "../../README"], 2, "help: unknown topic '../../README'; `gpuleak help` lists them"),
            (["server"], 2, "unknown command 'server'; `gpuleak --help` lists them"),
            (["run", "--supressions", "x"], 125, "run: unknown flag '--supressions' (did you mean "
             "--suppressions?); `gpuleak run --help` lists them"),
            (["run", "--fromat=json"], 125, "run: unknown flag '--fromat=json' (did you mean --format?); "
             "`gpuleak run --help` lists them"),
            (["run", "--gat"], 125, "run: unknown flag '--gat' (did you mean --gate?); `gpuleak run --help` "
             "lists them"),
            (["diff", "--pool", "fast"], 2, "diff: unknown flag '--pool'; `gpuleak diff --help` lists them"),
            (["top", "--intervall", "1"], 2, "top: unknown flag '--intervall' (did you mean --interval?); "
             "`gpuleak top --help` lists them"),
            (["top", "--colour"], 2, "top: unknown flag '--colour' (did you mean --color?); `gpuleak top --help` lists "
             "them"),
            (["run", "--" + "x" * 4000], 125, "run: unknown flag '--%s'; `gpuleak run --help` lists them" % (
                "x" * 4000))):
        run = place.command(*words)
        compare("%s" % words, (status, "", "gpuleak: %s\n" % said), (run.status, run.stdout, run.stderr))


def quoted(place):
    """a bad value is quoted, by the command and by the library"""
    line = ("gpuleak: bad value 'jsn' of GPULEAK_FORMAT: expected is text or json or html or junit or sarif "
            "or github or folded or pprof or openmetrics or memory-viz or perfetto; the default is used: text")
    run = place.preloaded([place.program("clean")], {"GPULEAK_FORMAT": "jsn"})
    compare("the library", line, run.stderr.split("\n")[0])
    run = place.command("run", "--", place.program("clean"), env={"GPULEAK_FORMAT": "jsn"})
    compare("the command", line, run.stderr.split("\n")[0])
    run = place.preloaded([place.program("clean")], {"GPULEAK_FORMAT": "j" * 5000})
    compare("one that fills the line", line.replace("jsn", "(too long)"), run.stderr.split("\n")[0])


def formats_of_diff(place):
    """diff --help offers the formats that diff accepts, and no other"""
    text = place.command("diff", "--help").stdout
    offered = re.search(r"--format FORMAT +(.*)\n", text)
    compare("offered", "text or json", offered and offered[1])
    for word in ("html", "junit", "sarif", "github", "folded", "pprof", "openmetrics", "jsn"):
        compare("%s in the help" % word, None, re.search(r"\b%s\b" % word, text))
        run = place.command("diff", "--format", word, "a", "b")
        compare(word, (2, "gpuleak: diff: bad value '%s' of --format: expected is text or json\n" % word),
                (run.status, run.stderr))


def flags_of(text):
    """The flags that a help explains: their lines begin with two blanks and the flag."""
    return re.findall(r"^  (?:-\w, )?--([a-z-]+)", text, flags=re.M)


def help_of_run(place):
    """run --help explains ten options and names all others; --help-all explains all, in groups"""
    with open(os.path.join(SOURCES, "ledger", "options.def"), encoding="utf-8") as file:
        rows = re.findall(r'^OPTION\( \w+, +"([a-z-]+)",.*?(FIRST|MORE), +"', file.read(), flags=re.M)
    every = {flag for flag, _ in rows} | {"gate", "update-baseline"}
    first = {flag for flag, rank in rows if rank == "FIRST"} | {"gate"}
    compare("options that are rows", True, len(rows) > 30)
    run = place.command("run", "--help")
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    compare("explained", first, set(flags_of(run.stdout)))
    compare("ten", 10, len(flags_of(run.stdout)))
    compare("named", every | {"help-all"}, set(re.findall(r"(?<!\S)--([a-z-]+)", run.stdout.split("Every option")[0])))
    everything = place.command("run", "--help-all").stdout
    compare("explained by --help-all", every, set(flags_of(everything)))
    compare("once each", len(every), len(flags_of(everything)))
    compare("in --help-all only", (True, False), tuple(
        "PYTORCH_NO_CUDA_MEMORY_CACHING=1" in text for text in (everything, run.stdout)))
    compare("the first group", "The report:\n  --report PATH ", everything.split("\n\n")[2][:28])
    compare("help run", run.stdout, place.command("help", "run").stdout)


def help_of_all(place):
    """--help-all has the help of every command; each command takes it"""
    text = place.command("--help-all").stdout
    names = re.findall(r"^  gpuleak (\w+) ", place.command("--help").stdout, flags=re.M)
    compare("commands", True, len(names) >= 5)
    for name in names:
        run = place.command(name, "--help-all")
        compare(name, (0, ""), (run.status, run.stderr))
        compare(name + " in the whole", True, run.stdout in text)


def pages():
    """{topic: text} of the pages that `gpuleak help` prints."""
    found = {}
    for folder in ("*.md", "guides/**/*.md", "reference/**/*.md"):
        for path in sorted(glob.glob(os.path.join(SOURCES, "docs", folder), recursive=True)):
            with open(path, encoding="utf-8") as file:
                found.setdefault(os.path.basename(path)[:-3], []).append(file.read())
    del found["README"]
    return {name: "\n".join(texts) for name, texts in found.items()}


def help_topics(place):
    """help lists the pages of the documentation, and prints each as it is; a pager on a terminal"""
    found = pages()
    text = place.command("help").stdout
    compare("begins as --help", True, text.startswith(place.command("--help").stdout))
    listed = dict(re.findall(r"^  ([a-z][a-z.-]*) +(\S.*)$", text.split("Topics")[1], flags=re.M))
    compare("titles", {name: text.split("\n")[0][2:] for name, text in found.items()},
            {name.replace(".md", ""): title for name, title in listed.items()})
    compare("a page with the name of a command", True, "doctor.md" in listed)
    for name, title in listed.items():
        run = place.command("help", name)
        compare(name, (0, "", found[name.replace(".md", "")]), (run.status, run.stderr, run.stdout))
        del title
    for pager, wanted in (("sed s/^/p:/", "p:# The gate\n"), ("", "# The gate\n"), ("head -n 1", "# The gate\n")):
        status, shown = on_terminal(place, [place.options.command, "help", "gate"], {"PAGER": pager})
        compare("by the pager %r" % pager, (0, wanted), (status, shown[:len(wanted)]))
    compare("not in a pipe", found["gate"], place.command("help", "gate", env={"PAGER": "false"}).stdout)


def messages_name_topics(place):
    """messages and options point at topics that exist, and at no file of the source"""
    known = set(pages()) | set(re.findall(r"^  gpuleak (\w+) ", place.command("--help").stdout, flags=re.M))
    number = 0
    for folder in ("ledger", "interpose", "report", "tools", "python"):
        for path in glob.glob(os.path.join(SOURCES, folder, "**", "*.*"), recursive=True):
            if not path.endswith((".c", ".h", ".def", ".inc", ".py")):
                continue
            with open(path, encoding="utf-8") as file:
                code = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
            strings = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', code))
            named = re.findall(r"gpuleak help ([a-z][a-z-]*)", strings)
            number += len(named)
            compare("topics in %s that are not there" % path, set(), set(named) - known)
            if not path.endswith(".py"):
                compare("pages in %s" % path, [], re.findall(r"docs/(?:guides|reference)/[\w.-]*", strings))
    compare("messages with topics", True, number >= 10)


def version(place):
    """--version: the version, and the commit unless the build did not know it"""
    run = place.command("--version")
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    compare("line", True, bool(re.fullmatch(
        r"gpuleak \d+\.\d+\.\d+( \(commit [0-9a-f]{12}(-dirty)?\))?\n", run.stdout)))


def kinds(place):
    """budgets and policies: every kind of memory is accepted, and a name that is no kind is refused"""
    for flag, end in (("budgets", " 1GiB\n"), ("only-at", "\n")):
        place.write("file", "".join("kind:%s%s" % (kind, end) for kind in KINDS))
        run = place.command("run", "--" + flag, place.file("file"), "--", place.program("clean"))
        compare("every kind in " + flag, (0, "clean\n"), (run.status, run.stdout))
        for kind in ("foo", "pined", "dev*", "object/cl-event", "suballocation", "Device"):
            place.write("file", "\nkind:%s%s" % (kind, end))
            run = gate(place, "ends", "--" + flag, place.file("file"))
            compare("%s in %s" % (kind, flag), (125, "", "gpuleak: %s:2: '%s' is not a kind of memory; known are "
                    "%s\n" % (place.file("file"), kind, ", ".join(KINDS))),
                    (run.status, run.stdout, run.stderr))


def kinds_of_rows(place):
    """every kind that a row of the library gives to a block is known to budgets, but suballocations"""
    del place
    found = set()
    for path in glob.glob(os.path.join(SOURCES, "interpose", "*", "*.def")):
        with open(path, encoding="utf-8") as file:
            found |= set(re.findall(r', "([a-z][a-z-]*)", ', file.read()))
    compare("kinds of rows that no budget knows", {"suballocation"}, found - set(KINDS))
    if len(found) < 15:
        raise Failed("the rows were not understood: %s" % found)


def budgets_in_docs(place):
    """docs/guides/gate.md has every kind, subject and option of a budget in one section"""
    del place
    with open(os.path.join(SOURCES, "docs", "guides", "gate.md"), encoding="utf-8") as file:
        sections = re.split(r"^## ", file.read(), flags=re.M)
    section = next(text for text in sections if text.startswith("Budgets"))
    missing = [word for word in [*KINDS, "--max-leaked-bytes", "--budgets", "--max-growth", "--gate-caches"]
               if "`" + word not in section]
    missing += [word for word in ("kind:", "device:", "api:", "site:", "cache:", "peak ", " blocks")
                if word not in section]
    compare("missing", [], missing)


WORDS = [switches, durations, sizes, implied_format, program_without_run, suggestions, quoted, formats_of_diff, help_of_run, help_of_all, help_topics, messages_name_topics, version, kinds, kinds_of_rows, budgets_in_docs]


# ---- where a report goes ----

def on_terminal(place, argv, env=None):
    """Status of ARGV, and what it writes to a terminal that is its stdout and stderr."""
    leader, follower = pty.openpty()
    process = place.start(argv, env or {}, stdout=follower, stderr=follower)
    os.close(follower)
    text = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # nobody has the other end
            break
        text += piece
    os.close(leader)
    return process.wait(TIMEOUT), text.decode().replace("\r\n", "\n")


def html_on_terminal(place):
    """HTML is not written to a terminal: run starts nothing, a plain preload reports as text"""
    said = "gpuleak: the format html is not written to a terminal: name a file with --report\n"
    compare("run", (125, said), on_terminal(place, [
        place.options.command, "run", "--format", "html", "--", place.program("ends")]))
    place.command("run", "--ledger", place.file("ledger"), "--", place.program("ends"))
    compare("report", (2, said), on_terminal(place, [
        place.options.command, "report", "--format", "html", place.file("ledger")]))
    status, text = on_terminal(place, [place.program("ends")], {
        "LD_PRELOAD": place.options.preload, "GPULEAK_FORMAT": "html"})
    compare("status and stdout of a plain preload", (0, True), (status, text.startswith("worked\n" + said)))
    one_line(text, "gpuleak: 1 leak, 2.0 MiB in 3 blocks")
    compare("HTML on the terminal", False, "<html" in text)
    run = place.command("run", "--format", "html", "--", place.program("ends"))
    compare("to a pipe", (0, True), (run.status, "<html" in run.stderr))


def report_is_checked(place):
    """a report that can't be written: run starts nothing and ends with 125"""
    place.write("file", "no directory\n")
    os.mkdir(place.file("directory"))
    os.symlink(place.file("missing/target"), place.file("link"))
    for where, why in (("missing/x.html", "No such file or directory"), ("file/x.html", "Not a directory"),
                       ("directory", "Is a directory"), ("missing/%p.html", "No such file or directory"),
                       ("x" * 254, "File name too long"), ("/proc/self/fd/99", "Bad file descriptor")):
        for form in ("html", "text", "json"):
            run = place.command("run", "--format", form, "--report", where, "--", place.program("ends"))
            compare("%s as %s" % (where, form), (125, ""), (run.status, run.stdout))
            said = "gpuleak: cannot write the report to %s: %s; %s was not started\n" % (
                where.replace("%p", "2147483647"), why, place.program("ends"))
            compare("what is said of " + where, said, run.stderr)
    compare("files", ["directory", "file", "link", "runtime"], sorted(os.listdir(place.path)))
    place.nothing_left()


def files_are_checked(place):
    """a ledger, suppressions or a baseline that can't be written: run starts nothing, ends with 125"""
    place.write("file", "no directory\n")
    os.mkdir(place.file("directory"))
    for what, options, where, why in (
            ("ledger", ["--ledger"], "file/x", "Not a directory"),
            ("ledger", ["--ledger"], "file/x/%e", "Not a directory"),
            ("ledger", ["--ledger"], "directory", "Is a directory"),
            ("ledger", ["--ledger"], "directory/", "Is a directory"),
            ("suppressions", ["--gen-suppressions"], "missing/x", "No such file or directory"),
            ("baseline", ["--update-baseline", "--baseline"], "missing/x", "No such file or directory")):
        run = place.command("run", *options, where, "--", place.program("ends"))
        compare(where, (125, ""), (run.status, run.stdout))
        one_line(run.stderr, "gpuleak: cannot write the %s to %s: %s" % (
            what, where.replace("%e", "p_ends"), why))
    compare("files", ["directory", "file", "runtime"], sorted(os.listdir(place.path)))
    place.nothing_left()


def ledger_folders(place):
    """the folders of --ledger are created: before the program starts, or when its name is known"""
    run = place.command("run", "--ledger", "a/b/%e-%p", "--", "/bin/sh", "-c",
                        "ls -d a/b; exec %s" % place.program("clean"))
    compare("status and the folder", (0, "a/b"), (run.status, run.stdout.split("\n")[0]))
    compare("name", ["p_clean-"], [re.sub(r"\d+", "", name) for name in os.listdir(place.file("a/b"))])
    compare("check", 0, place.command("check", "a/b").status)
    run = place.command("run", "--ledger", "c/%e/%p.gpuleak", "--", place.program("clean"))
    compare("status", 0, run.status)
    compare("check of the other", 0, place.command("check", "c/p_clean").status)
    place.nothing_left()


def report_stays(place):
    """the check before the run leaves an earlier report as it is, and makes no file"""
    path = place.write("report", "of yesterday\n")
    before = os.stat(path)
    for where in (path, place.file("new")):
        run = place.command("run", "--report", where, "--", place.program("no_gpu"))
        compare("status and stdout", (0, "no GPU\n"), (run.status, run.stdout))
    compare("text", "of yesterday\n", place.read("report"))
    after = os.stat(path)
    compare("file", (before.st_ino, before.st_mtime_ns), (after.st_ino, after.st_mtime_ns))
    compare("files", ["report", "runtime"], sorted(os.listdir(place.path)))


def report_lost(place):
    """a report that can't be written at the end: as text on stderr, and the status is not 0"""
    for form in ("html", "json", "pprof"):
        for where in ("/dev/full", "%p/report"):
            to = ("--format", form, "--report", where)
            for program, options, args, status in (
                    ("clean", (), (), 125), ("clean", ("--gate",), (), 125), ("ends", (), (), 125),
                    ("ends", ("--gate",), (), 23), ("ends", ("--gate",), ("exit3",), 3)):
                run = gate(place, program, *to, *options, args=args)
                compare("%s %s %s" % (to, program, options), status, run.status)
                one_line(run.stderr, "gpuleak: cannot write the report to ")
                one_line(run.stderr, "gpuleak: no leaks: " if program == "clean" else "gpuleak: 1 leak, ")
                compare("markup on stderr", None, re.search(r"<html|{", run.stderr))
    place.command("run", "--ledger", place.file("ledger"), "--", place.program("clean"))
    for command, status in (("check", 1), ("report", 1)):
        run = place.command(command, "--report", "/dev/full", place.file("ledger"))
        compare(command, status, run.status)
    run = place.preloaded([place.program("ends")], {"GPULEAK_FORMAT": "html",
                                                    "GPULEAK_REPORT": place.file("missing/x")})
    compare("a plain preload", (0, "worked\n", False), (run.status, run.stdout, "<html" in run.stderr))
    one_line(run.stderr, "gpuleak: cannot write the report to ")
    one_line(run.stderr, "gpuleak: 1 leak, ")
    place.nothing_left()


def report_is_named(place):
    """a report that was written: one line with its verdict and its absolute path"""
    leaked = ("gpuleak: 1 leak, 2.0 MiB in 3 blocks never freed, allocated at leak (", "; report: ")
    place.command("run", "--ledger", place.file("ledger"), "--", place.program("ends"))
    for form in ("html", "json", "text"):
        to = ("--format", form, "--report", "x.%e")
        path = os.path.realpath(place.file("x.p_ends"))
        run = gate(place, "ends", *to)
        compare("run", (0, 1), (run.status, run.stderr.count("\n")))
        one_line(run.stderr, *leaked[:-1], leaked[-1] + path)
        run = gate(place, "ends", *to, "--gate")
        compare("run with a gate", (23, 2), (run.status, run.stderr.count("\n")))
        one_line(run.stderr, *leaked[:-1], leaked[-1] + path)
        for command in ("report", "check"):
            run = place.command(command, *to, place.file("ledger"))
            compare(command, 1, run.stderr.count("\n"))
            one_line(run.stderr, *leaked[:-1], leaked[-1] + path)
    run = gate(place, "clean", "--report", "x")
    compare("clean", True, run.stderr.startswith("gpuleak: no leaks: "))
    one_line(run.stderr, "; report: " + os.path.realpath(place.file("x")))
    for where in ("/dev/null", "none", "/dev/stdout"):
        compare(where, "", gate(place, "clean", "--report", where).stderr)
    run = place.preloaded([place.program("ends")], {"GPULEAK_REPORT": place.file("x")})
    compare("a plain preload", (0, ""), (run.status, run.stderr))


def without_colors(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def without_pids(text):
    return re.sub(r"pid \d+|0x[0-9a-f]+", "pid", text)


def colors(place):
    """colours: on a terminal, unless NO_COLOR, TERM or --color forbid it; never in a file"""
    command, program = place.options.command, place.program("cuda_wrong_frees")
    _, plain = on_terminal(place, [command, "run", "--gate", "--", program])
    compare("without TERM", False, "\x1b" in plain)
    for env, flags, wanted in (
            ({"TERM": "xterm"}, [], True), ({"TERM": "xterm", "NO_COLOR": ""}, [], True),
            ({"TERM": "xterm", "NO_COLOR": "1"}, [], False), ({"TERM": "dumb"}, [], False),
            ({"TERM": "xterm"}, ["--color", "never"], False),
            ({"TERM": "xterm", "GPULEAK_COLOR": "never"}, [], False),
            ({"TERM": "xterm", "NO_COLOR": "1"}, ["--color", "always"], True)):
        status, text = on_terminal(place, [command, "run", *flags, "--gate", "--", program], env)
        compare("%s %s" % (env, flags), (23, wanted), (status, "\x1b" in text))
        compare("the text without colours", without_pids(plain), without_pids(without_colors(text)))
    status, text = on_terminal(place, [command, "run", "--gate", "--", program], {"TERM": "xterm"})
    for part in ("\x1b[1;31mgpuleak: ", "\x1b[36m", "cuda_wrong_frees.c:", "\x1b[1;31mgpuleak: gate failed"):
        compare(part, True, part in text)
    _, text = on_terminal(place, [command, "run", "--gate", "--", place.program("clean")], {"TERM": "xterm"})
    compare("a clean program", True, "\x1b[1;32mgpuleak: no leaks" in text and "\x1b[1;31m" not in text)
    _, text = on_terminal(place, [program], {"TERM": "xterm", "LD_PRELOAD": place.options.preload})
    compare("a plain preload", True, "\x1b[1;31mgpuleak: " in text)
    _, text = on_terminal(place, [program], {"TERM": "xterm", "LD_PRELOAD": place.options.preload,
                                             "GPULEAK_COLOR": "never"})
    compare("a plain preload with never", False, "\x1b" in text)
    for flags, wanted in (([], False), (["--color", "always"], True)):
        run = place.command("run", *flags, "--", program, env={"TERM": "xterm"})
        compare("to a pipe %s" % flags, wanted, "\x1b" in run.stderr)
    for form in ("text", "json", "github", "folded"):
        on_terminal(place, [command, "run", "--color", "always", "--format", form, "--report", place.file("x"),
                            "--ledger", place.file("ledger"), "--", program], {"TERM": "xterm"})
        compare("a file as " + form, False, "\x1b" in place.read("x"))
    with open(place.file("stderr"), "wb") as file:
        place.run([command, "run", "--color", "always", "--", program], {"TERM": "xterm"}, stderr=file)
    compare("stderr is a file", (True, False), ("gpuleak: " in place.read("stderr"), "\x1b" in place.read("stderr")))
    for words, part in ((["report"], "\x1b[36m"), (["check"], "\x1b[1;31mgate failed"),
                        (["report", "--format", "json"], None)):
        _, text = on_terminal(place, [command, *words, place.file("ledger")], {"TERM": "xterm"})
        compare("%s" % words, bool(part), (part or "\x1b") in text)
    _, text = on_terminal(place, [command, "doctor", "nosuch"], {"TERM": "xterm"})
    compare("doctor", True, "\x1b[1;31mproblem " in text)


REPORTS = [html_on_terminal, colors, report_is_checked, files_are_checked, ledger_folders, report_stays, report_lost, report_is_named]


# ---- a run that is watched, and one without a GPU call ----

def waiting(place, argv, **how):
    return place.start([place.options.command, "run", "--", *argv], {}, stdin=subprocess.PIPE,
                       start_new_session=True, **how)


def end(run):
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()


def answer(run, wanted="ready"):
    compare("answer", wanted, run.stdout.readline().decode().strip())


def first_line(run):
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    return run.stdout.split("\n")[0]


def run_is_followed(place):
    """top and report with the pid of `gpuleak run`: they show its program"""
    run = waiting(place, [place.program("top")])
    try:
        answer(run)
        line = first_line(place.command("top", "--once", run.pid))
        pid = int(re.fullmatch(r"gpuleak top: p_top \(pid (\d+)\)", line)[1])
        compare("the program's own pid", True, pid != run.pid)
        compare("by its own pid", line, first_line(place.command("top", "--once", pid)))
        told = place.command("report", run.pid)
        compare("report", (0, True), (told.status, "by p_top (pid %d, still running)" % pid in told.stdout))
    finally:
        end(run)


def run_is_waited_for(place):
    """top with the pid of `gpuleak run` whose program made no GPU call yet: top waits for one"""
    run = waiting(place, ["/bin/sh", "-c", "echo begun; read line; exec " + place.program("top")])
    try:
        answer(run, "begun")
        told = place.command("report", run.pid)
        compare("report", (1, "gpuleak: %d: is `gpuleak run`, and no process of it made a GPU call so far\n"
                           % run.pid), (told.status, told.stderr))
        top = place.start([place.options.command, "top", "--once", run.pid], {})
        compare("top", "gpuleak: %d: waiting for a GPU call of its program\n" % run.pid,
                top.stderr.readline().decode())
        compare("top has not ended", None, top.poll())
        run.stdin.write(b"go on\n")
        run.stdin.flush()
        out, _ = top.communicate(timeout=TIMEOUT)
        compare("status and first words", (0, "gpuleak top: p_top"), (top.returncode, out.decode()[:18]))
    finally:
        end(run)


def run_from_a_shell(place):
    """`gpuleak run CMD & gpuleak top $!` in one line of a shell"""
    process = place.start(["/bin/sh", "-c", "exec 3<&0; '%s' run -- '%s' <&3 >&2 & '%s' top --once $!" % (
        place.options.command, place.program("top"), place.options.command)], {},
        stdin=subprocess.PIPE, start_new_session=True)
    try:
        compare("first words", "gpuleak top: p_top (pid ", process.stdout.readline().decode()[:24])
    finally:
        end(process)


def run_of_several(place):
    """top with the pid of `gpuleak run` of two processes with GPU calls: it lists them"""
    program = place.program("top")
    run = waiting(place, ["/bin/sh", "-c", "exec 3<&0; '%s' <&3 & '%s' <&3 & wait" % (program, program)])
    try:
        answer(run)
        answer(run)
        told = place.command("top", "--once", run.pid)
        lines = told.stderr.splitlines()
        compare("status and stdout", (1, ""), (told.status, told.stdout))
        compare("first line", "gpuleak: %d: is `gpuleak run` of several processes with GPU calls; name one of "
                "them:" % run.pid, lines[0])
        compare("lines", 3, len(lines))
        for line in lines[1:]:
            pid = re.fullmatch(r"gpuleak:   (\d+) p_top", line)[1]
            compare("one of them", "gpuleak top: p_top (pid %s)" % pid,
                    first_line(place.command("top", "--once", pid)))
    finally:
        end(run)


def no_gpu_call(place):
    """run of a program without a GPU call: one line says so, unless no report is wanted"""
    program = place.program("no_gpu")
    line = no_call_seen(program)
    run = place.command("run", "--", program)
    compare("status, stdout, stderr", (0, "no GPU\n", line), (run.status, run.stdout, run.stderr))
    run = place.command("run", "--", program, "9")
    compare("its own status", (9, line), (run.status, run.stderr))
    run = place.command("run", "--report", "none", "--", program)
    compare("no report is wanted", (0, ""), (run.status, run.stderr))
    run = place.command("run", "--", place.program("clean"))
    compare("with GPU calls", False, "no GPU call" in run.stderr)
    place.nothing_left()


RUNS = [run_is_followed, run_is_waited_for, run_from_a_shell, run_of_several, no_gpu_call]


# ---- programs that the library can't be loaded into ----

@needs("musl")
def musl(place):
    """run of a program of the musl C library: one line says so, it runs without gpuleak, no gate passes"""
    program = place.program("musl")
    with open(program, "rb") as file:
        loader = re.search(rb"/\S*ld-musl-\S*\.so\.1", file.read()).group().decode()
    line = "gpuleak: %s uses the musl C library (%s), which libgpuleak.so does not support; it runs without " \
        "gpuleak\n" % (program, loader)
    for status in (0, 5):
        bare = place.run([program, str(status)])
        compare("bare", (status, "musl\n", ""), (bare.status, bare.stdout, bare.stderr))
        run = place.command("run", "--", program, str(status))
        compare("run", (status, "musl\n", line), (run.status, run.stdout, run.stderr))
    run = place.command("run", "--gate", "--", program)
    compare("with a gate", (24, "musl\n", line), (run.status, run.stdout, run.stderr[:len(line)]))
    script = place.write("script", "#!%s\n" % program)
    os.chmod(script, 0o700)
    run = place.command("run", "--", script)
    compare("as the interpreter of a script", ("musl\n", line), (run.stdout, run.stderr))
    run = place.command("run", "--", loader, program)
    compare("by its loader", (0, "musl\n", 1, True), (run.status, run.stdout, run.stderr.count("\n"),
                                                    "uses the musl C library (%s)" % loader in run.stderr))
    place.nothing_left()


FOREIGN = [musl]
