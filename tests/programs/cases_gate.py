# SPDX-License-Identifier: MIT
"""The gate of real projects: baselines, budgets, a policy of places, suppressions that are
generated or that the program brings along, reports compared, and eight ranks of one job."""

import json
import os
import re
import shutil

from harness import Failed, compare, line_of
from stories import gate, one_line

LIBRARY_ENV = {"GPULEAK_REPORT": "none"}


def sentences(run):
    """The verdict's lines, without the words that all of them begin with."""
    return [re.sub(r"^(gpuleak: )?(gate (failed|passed): |gate: )", "", line)
            for line in (run.stderr + run.stdout).split("\n")
            if re.match(r"^(gpuleak: )?gate( failed| passed)?: ", line)]


def plain(text):
    """TEXT without what differs from machine to machine."""
    text = re.sub(r"\(/[^)]*/(\w+\.c):\d+\)", r"(\1)", text)
    return re.sub(r"[0-9a-f]{16}", "HASH", re.sub(r"process \d+", "process N", text))


def kept(place, name, *argv, pattern="%p.gpuleak", env=None):
    """A directory of the ledgers that ARGV leaves behind under plain preload."""
    os.makedirs(place.file(name), exist_ok=True)
    run = place.preloaded(argv, {"GPULEAK_LEDGER": os.path.join(place.file(name), pattern),
                                 **LIBRARY_ENV, **(env or {})})
    return place.file(name), run


# ---- baseline ----

def entries(place, name):
    lines = [line for line in place.read(name).split("\n") if line and line[0] != "#"]
    compare("head", "gpuleak-baseline 1", lines[0])
    return lines[1:]


def make_baseline(place, *argv):
    run = place.command("run", "--update-baseline", "--baseline", place.file("known"), "--", *argv)
    compare("status of an update", 0, run.status)
    return run


def baseline_passes(place):
    """a baseline that was just written passes, and is the same when it is written again"""
    run = make_baseline(place, place.program("ends"))
    one_line(run.stderr, "known: 2 known leaks now (2 new, 0 grew, 0 shrank, 0 gone)")
    compare("lines", ["2097152 2 # cuMemAlloc_v2 device leak (ends.c)",
                      "777 1 # cuMemAlloc_v2 device leak (ends.c)"],
            sorted(line.split(" ", 1)[1] for line in entries(place, "known")))
    compare("in the order of fingerprints", sorted(entries(place, "known")),
            entries(place, "known"))
    first = place.read("known")
    run = gate(place, "ends", "--baseline", place.file("known"))
    compare("status", 0, run.status)
    compare("verdict", ["nothing leaked beyond the baseline"], sentences(run))
    run = make_baseline(place, place.program("ends"))
    one_line(run.stderr, "(0 new, 0 grew, 0 shrank, 0 gone)")
    compare("second file", first, place.read("known"))
    compare("files", ["known", "runtime"], sorted(os.listdir(place.path)))
    place.nothing_left()


def baseline_new(place):
    """a leak that the baseline does not have fails the gate and is named"""
    make_baseline(place, place.program("ends"))
    head, lines = place.read("known").split("gpuleak-baseline 1\n")
    for lost, told in (("2097152", "new leak: 2,097,152 bytes (2.0 MiB) in 2 blocks "
                        "(device memory, cuMemAlloc_v2) at leak (ends.c), called from "
                        "lose_cache; fingerprint HASH"),
                       (" 777 ", "new leak: 777 bytes in 1 block (device memory, cuMemAlloc_v2) at "
                        "leak (ends.c), called from work; fingerprint HASH")):
        rest = "".join(line + "\n" for line in lines.split("\n") if line and lost not in line)
        place.write("known", head + "gpuleak-baseline 1\n" + rest)
        run = gate(place, "ends", "--baseline", place.file("known"))
        compare("status", 23, run.status)
        compare("second reason", told, plain(sentences(run)[1]))
        compare("number of reasons", 2, len(sentences(run)))


def baseline_growth(place):
    """one byte or one block more than the baseline has fails, and how much is said"""
    make_baseline(place, place.program("ends"))
    whole = place.read("known")
    for old, new, told in ((" 777 1 ", " 776 1 ", "known leak grew by 1 byte and 0 blocks: 777 "
                            "bytes in 1 block now, 776 bytes in 1 known"),
                           (" 2097152 2 ", " 2097152 1 ", "known leak grew by 0 bytes and 1 "
                            "block: 2,097,152 bytes (2.0 MiB) in 2 blocks now, "
                            "2,097,152 bytes (2.0 MiB) in 1 known")):
        place.write("known", whole.replace(old, new))
        run = gate(place, "ends", "--baseline", place.file("known"))
        compare("status", 23, run.status)
        if not sentences(run)[1].startswith(told):
            raise Failed("not the reason:\n%s" % sentences(run)[1])
    run = gate(place, "ends", "--baseline", place.file("known"), "--max-leaked-bytes", "1")
    compare("a budget beside it", 0, run.status)


def baseline_ratchet(place):
    """what is gone or has become smaller passes and is named, and an update shortens the file"""
    make_baseline(place, place.program("ends"))
    whole = place.read("known").replace(" 777 1 ", " 900 1 ")
    place.write("known", whole + "ffffffffffffffff 64 2 # cuMemAlloc_v2 device gone (old.c)\n")
    run = gate(place, "ends", "--baseline", place.file("known"))
    compare("status", 0, run.status)
    one_line(run.stderr, "known:%d: known leak is gone: ffffffffffffffff 64 bytes, 2 blocks, cuMemAlloc_v2 "
             "device gone (old.c)" % (whole.count("\n") + 1))
    one_line(run.stderr, "of 3 known leaks 1 are gone and 1 are smaller now")
    run = make_baseline(place, place.program("ends"))
    one_line(run.stderr, "2 known leaks now (0 new, 0 grew, 1 shrank, 1 gone)")
    compare("lines", 2, len(entries(place, "known")))


def baseline_by_ledger(place):
    """check and report take a baseline and write one, too; JSON has reasons and notes"""
    ledgers, _ = kept(place, "ledgers", place.program("ends"))
    known = place.file("known")
    run = place.command("check", "--update-baseline", "--baseline", known, ledgers)
    compare("check, updating", 0, run.status)
    compare("check", 0, place.command("check", "--baseline", known, ledgers).status)
    place.write("known", "gpuleak-baseline 1\n")
    run = place.command("check", "--format", "json", "--baseline", known, ledgers)
    compare("check with an empty one", 23, run.status)
    reasons = json.loads(run.stdout)["gate"]["reasons"]
    compare("reasons in JSON", 3, len(reasons))
    run = place.command("report", "--update-baseline", "--baseline", known, ledgers)
    compare("report, updating", 0, run.status)
    compare("lines", 2, len(entries(place, "known")))


def baseline_preloaded(place):
    """GPULEAK_BASELINE under plain preload: known leaks do not set the status, others do"""
    make_baseline(place, place.program("ends"))
    env = {"GPULEAK_BASELINE": place.file("known"), "GPULEAK_EXITCODE": "57"}
    compare("known", 0, place.preloaded([place.program("ends")], env).status)
    place.write("known", "gpuleak-baseline 1\n")
    run = place.preloaded([place.program("ends")], env)
    compare("not known", 57, run.status)
    one_line(run.stderr, "new leak: 777 bytes")
    os.unlink(place.file("known"))
    run = place.preloaded([place.program("ends")], env)
    compare("missing", 57, run.status)
    compare("what is said of it", True, "known: cannot read baselines: No such file" in run.stderr)


def bad_files(place):
    """a baseline, budget or policy file that can't be read: its line, and no program is run"""
    ledgers, _ = kept(place, "ledgers", place.program("clean"))
    good = "gpuleak-baseline 1\n"
    for flag, text, line, what in (
            ("baseline", "hello\n", 1, "a baseline begins with"),
            ("baseline", "gpuleak-baseline 2\n", 1, "the baseline has version '2'"),
            ("baseline", good + "# c\nabc 1 1\n", 3, "'abc' is not a fingerprint"),
            ("baseline", good + "0123456789abcdef x 1\n", 2, "'x' is not a number of bytes"),
            ("baseline", good + "0123456789abcdef 1\n", 2, "'' is not a number of blocks"),
            ("baseline", good + "0123456789abcdef 1 1 y\n", 2, "'y' follows the number of blocks"),
            ("baseline", good + 2 * "0123456789abcdef 1 1\n", 3, "this line repeats the fingerprint of line 2"),
            ("budgets", "\nkind:pinned lots\n", 2, "'lots' is not a limit"),
            ("budgets", "colour:red 4MiB\n", 1, "cannot read 'colour:red'; a budget begins with"),
            ("budgets", "device:x 4MiB\n", 1, "'x' is not the number of a device"),
            ("budgets", "site: 4MiB\n", 1, "the pattern is empty"),
            ("only-at", "site:a\nplace:b\n", 2, "cannot read 'place:b'"),
            ("only-at", "site:\n", 1, "the pattern is empty")):
        path = place.write("file", text)
        for argv, status in ((("run", "--" + flag, path, "--", place.program("ends")), 125),
                             (("check", "--" + flag, path, ledgers), 2),
                             (("report", "--" + flag, path, ledgers), 2)):
            run = place.command(*argv)
            compare("status of %s" % (argv,), status, run.status)
            compare("stdout of %s" % (argv,), "", run.stdout)
            one_line(run.stderr, "gpuleak: %s:%d: " % (path, line), what)
    for flag in ("baseline", "budgets", "only-at"):
        run = place.command("check", "--" + flag, place.file("absent"), ledgers)
        compare("a missing file", 2, run.status)
        one_line(run.stderr, "absent: cannot read", "No such file or directory")
    run = place.command("check", "--update-baseline", ledgers)
    compare("an update of nothing", 2, run.status)
    one_line(run.stderr, "--update-baseline needs --baseline FILE")


def baseline_unwritable(place):
    """an update that fails leaves the file as it was and fails the gate"""
    place.write("file", "no directory\n")
    below = os.path.join(place.file("file"), "known")
    run = place.command("run", "--update-baseline", "--baseline", below, "--",
                        place.program("clean"))
    compare("below a file", 125, run.status)
    nowhere = os.path.join(place.file("absent"), "known")
    run = place.command("run", "--update-baseline", "--baseline", nowhere, "--",
                        place.program("clean"))
    compare("in no directory", (125, ""), (run.status, run.stdout))
    one_line(run.stderr, "gpuleak: cannot write the baseline to ", "No such file or directory")
    make_baseline(place, place.program("ends"))
    before = place.read("known")
    run = place.command("run", "--update-baseline", "--baseline", place.file("known"), "--",
                        place.program("no_gpu"))
    compare("nothing was recorded", 23, run.status)
    compare("the file then", before, place.read("known"))
    run = place.command("run", "--update-baseline", "--baseline", place.file("known"), "--",
                        place.program("ends"), "exit3")
    compare("the program's own status", 3, run.status)
    compare("files", ["file", "known", "runtime"], sorted(os.listdir(place.path)))


# ---- budgets and policy ----

def budgeted(place, text, *argv):
    return place.command("run", "--budgets", place.write("budgets", text), "--",
                         place.program("ends"), *argv)


def budgets(place):
    """budgets by kind, call, device, place and peak: exact to the byte, each reason complete"""
    cache, whole = 2 << 20, (2 << 20) + 777
    for rule in ("kind:device", "api:cuMemAlloc_v2", "device:0", "site:^work$", "site:ends.c"):
        run = budgeted(place, "%s %d\n" % (rule, whole))
        compare("%s, enough" % rule, (0, ["nothing leaked beyond the budgets"]),
                (run.status, sentences(run)))
        run = budgeted(place, "# c\n%s %d\n" % (rule, whole - 1))
        compare("%s, one byte too little" % rule, 23, run.status)
        compare("its reason", ["%s (%s:2): 2,097,929 bytes (2.0 MiB) in 3 blocks leaked, "
                               "2,097,928 bytes (2.0 MiB) allowed, 1 byte over; most at leak "
                               "(ends.c), called from lose_cache" % (rule, place.file("budgets"))],
                [plain(reason) for reason in sentences(run)])
        run = budgeted(place, "%s 3 blocks\n" % rule)
        compare("%s in blocks, enough" % rule, 0, run.status)
        run = budgeted(place, "%s 2 blocks\n" % rule)
        compare("%s in blocks, one too little" % rule, 23, run.status)
        one_line(run.stderr, "3 blocks leaked, 2 allowed, 1 over; most at leak")
    run = budgeted(place, "site:lose_cache %d\n" % cache)
    compare("the rest has no budget", 23, run.status)
    compare("its reason", ["1 block, 777 bytes leaked beyond the budgets, 0 allowed"],
            sentences(run))
    for text in ("kind:pinned 1GiB\n", "device:1 1GiB\n", "site:nowhere 1GiB\n"):
        compare("a budget of something else", 23, budgeted(place, text).status)
    compare("two rules, the stricter one fails", 23,
            budgeted(place, "kind:device 1GiB\nsite:lose_cache 1MiB\n").status)
    all_of_it = "kind:device 1GiB\npeak "
    compare("peak", 0, budgeted(place, all_of_it + "2102929\n").status)
    run = budgeted(place, all_of_it + "2102928\n")
    compare("peak, one byte too little", 23, run.status)
    compare("its reason", "peak (%s:2): process N (p_ends) held 2,102,929 bytes (2.0 MiB) at one "
            "time, 2,102,928 bytes (2.0 MiB) allowed, 1 byte over" % place.file("budgets"),
            plain(sentences(run)[0]).split("; ")[0])
    compare("the culprits", True, re.fullmatch(
        r"2\.0 MiB of device 0: 1\.0 MiB lose_cache \(.*\), 1\.0 MiB lose_cache "
        r"\(.*\), 4\.8 KiB work \(.*\), 777 bytes other places",
        plain(sentences(run)[0]).split("; ")[1]) is not None or sentences(run)[0])


def context_ends(place):
    """memory that ended with its context: its option, budgets, baseline, suppressions, diff"""
    lost = "most at allocate (context.c), called from main"

    def judged(*options):
        return gate(place, "context", "--gate", *options, args=["reset"])

    run = judged()
    compare("status", 23, run.status)
    compare("reason", ["2 blocks, 3,000 bytes (2.9 KiB) ended with their context, 0 allowed "
                       "(--gate-context-ends 0 allows it); " + lost],
            [plain(reason) for reason in sentences(run)])
    one_line(run.stderr, "gpuleak: 2 blocks (2.9 KiB) never freed, ended with their context at main "
             "(", "context.c:%d); allocated at allocate (" % line_of("context.c", "reset"))
    run = judged("--gate-context-ends", "0")
    compare("the gate does not count it", (0, [
        "nothing leaked", "3,000 bytes (2.9 KiB) in 2 blocks ended with a context, which does not "
        "count (--gate-context-ends 1 counts it)"]), (run.status, sentences(run)))
    compare("--max-leaked-bytes", 23,
            judged("--max-leaked-bytes", "1GiB").status)
    for rule, limit in (("site:allocate", 3000), ("kind:device", 3000), ("site:allocate", 2999)):
        run = judged("--budgets",
                   place.write("budgets", "%s %d\n" % (rule, limit)))
        compare("%s %d" % (rule, limit), 0 if limit == 3000 else 23, run.status)
    compare("suppressed", 0, judged("--suppressions",
                                  place.write("hides", "leak:allocate\n")).status)
    make_baseline(place, place.program("context"), "reset")
    compare("lines", ["3000 2 # cuMemAlloc_v2 device allocate (context.c)"],
            [line.split(" ", 1)[1] for line in entries(place, "known")])
    compare("known", 0, judged("--baseline", place.file("known")).status)
    place.write("known", place.read("known").replace(" 3000 ", " 2999 "))
    run = judged("--baseline", place.file("known"))
    compare("known, but grew", (23, 2), (run.status, len(sentences(run))))
    ledger, _ = kept(place, "lost", place.program("context"), "reset")
    known, _ = kept(place, "none", place.program("context"), "at_exit")
    for sides, status, word in (((known, ledger), 23, "new"), ((ledger, known), 23, "gone"),
                                ((ledger, ledger), 0, None)):
        run = place.command("diff", "--gate", *sides)
        compare("diff", (status, word is not None), (
            run.status, "\nended with its context, %s: " % word in run.stdout))
    for name, wanted in (
            ("junit", '<testcase classname="gpuleak.ended-with-context" name="allocate (context.c) '),
            ("sarif", '"ruleId": "ended-with-context"'), ("github", "title=GPU memory ended with "
                                                          "its context%3A 2.9 KiB"),
            ("folded", "ended with its context: device on device 0;"),
            ("openmetrics", "gpuleak_site_ended_with_context_bytes{"), ("html", '"ended_with_context":')):
        one_line(place.command("report", "--format", name, ledger).stdout, wanted)


def policy(place):
    """--only-at: every place that allocated is asked for, also if it freed everything"""
    def run(text):
        return place.command("run", "--max-leaked-bytes", "1GiB", "--only-at",
                             place.write("policy", text), "--", place.program("ends"))
    told = run("site:^leak$\n")
    compare("a place that freed its block", 23, told.status)
    compare("its reason", ["process N (p_ends) allocated 5,000 bytes (4.8 KiB) in 1 block "
                           "(device memory, cuMemAlloc_v2) at work (ends.c), called from main, "
                           "which no rule in %s allows" % place.file("policy")],
            [plain(reason) for reason in sentences(told)])
    compare("nothing is allowed", 4, len(sentences(run("# nothing\n"))))
    for text in ("site:^work$\n", "kind:device\n", "api:cuMemAlloc_v2\n", "site:*\n",
                 "site:^leak$\nsite:^main$\n"):
        compare("allowed by %r" % text, 0, run(text).status)
    compare("not by another kind", 23, run("kind:pinned\n").status)


# ---- suppressions ----

def suppress_with(place, text, *argv):
    run = place.command("run", "--format", "json", "--report", place.file("report.json"),
                        "--lsan-suppressions", "0", "--suppressions",
                        place.write("suppressions", text), "--", *argv)
    compare("status", 0, run.status)
    report = place.json("report.json")
    return (sorted(leak["bytes"] for leak in report["leaks"]),
            sorted(leak["bytes"] for leak in report["suppressed"]))


def generated(place):
    """--gen-suppressions: each line, pasted alone, suppresses exactly its leak"""
    argv = [place.program("lsan")]
    place.command("run", "--lsan-suppressions", "0", "--gen-suppressions", place.file("lines"),
                  "--", *argv)
    lines = place.read("lines").split("\n")
    compare("lines", ["leak:^known_loss$", "leak:^new_loss$"],
            [line for line in lines if line and line[0] != "#"])
    one_line(place.read("lines"), "# 500 bytes in 1 block (device memory, cuMemAlloc_v2), "
             "allocated in function new_loss (")
    compare("the first", ([500], [3000]), suppress_with(place, "leak:^known_loss$\n", *argv))
    compare("the second", ([3000], [500]), suppress_with(place, "leak:^new_loss$\n", *argv))
    compare("all", ([], [500, 3000]), suppress_with(place, place.read("lines"), *argv))
    told = place.command("run", "-v", "--lsan-suppressions", "0", "--", *argv).stderr
    for line in lines[:-1]:
        one_line(told, line)


def generated_shared(place):
    """--gen-suppressions: the innermost name that is the leak's alone; if none is, that is said"""
    run = place.preloaded([place.program("ends")], {
        "GPULEAK_GEN_SUPPRESSIONS": place.file("lines-%p")})
    text = place.read("lines-%d" % run.pid)
    compare("patterns", ["leak:^lose_cache$", "leak:^leak$"], re.findall("^leak:.*$", text, re.M))
    one_line(text, "# 777 bytes", "; also suppresses 1 other leak")
    compare("the first", ([777], [1 << 20, 1 << 20]),
            suppress_with(place, "leak:^lose_cache$\n", place.program("ends")))


def generate(place, *argv):
    """The lines that --gen-suppressions writes for ARGV, without comments."""
    place.command("run", "--gen-suppressions", place.file("lines"), "--", *argv)
    return re.findall("^leak:.*$", place.read("lines"), re.M)


def gate_with(place, lines, *argv):
    """Status and first sentence of a gate that suppresses LINES."""
    run = place.command("run", "--gate", "--suppressions",
                        place.write("suppressions", "\n".join(lines) + "\n"), "--", *argv)
    return run.status, sentences(run)[0]


def generated_stripped(name):
    """A function that tests a program without symbols."""
    def test(place):
        first = [place.program(name)]
        lines = generate(place, *first)
        compare("lines", 1, len(lines))
        if not re.fullmatch("leak:stack:[0-9a-f]{16}", lines[0]):
            raise Failed("no fingerprint: " + lines[0])
        compare("the known leak", (0, "nothing leaked (2 blocks, 2,000 bytes suppressed)"),
                gate_with(place, lines, *first))
        compare("a second leak", (23, "1 block, 600 bytes leaked, 0 allowed"),
                gate_with(place, lines, *first, "more"))
        both = generate(place, *first, "more")
        compare("lines of two leaks", (2, True), (len(set(both)), lines[0] in both))
        compare("a third leak, in a thread", (23, "1 block, 700 bytes leaked, 0 allowed"),
                gate_with(place, both, *first, "more", "thread"))
        three = generate(place, *first, "more", "thread")
        compare("all", (0, "nothing leaked (4 blocks, 3,300 bytes suppressed)"),
                gate_with(place, three, *first, "more", "thread"))
    test.__doc__ = "--gen-suppressions: %s: a line hides one leak of a program without symbols" \
        % name
    test.needs = name
    return test


def generated_main(place):
    """--gen-suppressions: a leak of main itself does not hide what main calls"""
    argv = [place.program("only_main")]
    lines = generate(place, *argv)
    compare("lines", [True], [bool(re.fullmatch("leak:stack:[0-9a-f]{16}", line))
                              for line in lines])
    compare("the known leak", (0, "nothing leaked (1 block, 2,000 bytes suppressed)"),
            gate_with(place, lines, *argv))
    compare("another one", (23, "1 block, 600 bytes leaked, 0 allowed"),
            gate_with(place, lines, *argv, "more"))
    compare("its own name", ["leak:^lose$"], generate(place, *argv, "more")[1:])


def generated_verdicts(place):
    """the gate says in every format with a verdict how much was suppressed"""
    ledgers, _ = kept(place, "ledgers", place.program("only_main"))
    said = "nothing leaked (1 block, 2,000 bytes suppressed)"
    rules = place.write("suppressions", "leak:^main$\n")
    for words in ("text", "json", "junit", "github", "sarif", "html"):
        run = place.command("check", "--format", words, "--suppressions", rules, ledgers)
        compare("status of " + words, 0, run.status)
        compare("the sentence in " + words, True, said in run.stdout + run.stderr)


def lsan(place):
    """__lsan_default_suppressions: asked once, used, by run and at exit, and after a kill"""
    def numbers(report):
        return ([(leak["bytes"], leak["pattern"]) for leak in report["suppressed"]],
                [leak["bytes"] for leak in report["leaks"]], report["notes"])
    wanted = ([(3000, "known_loss")], [500], [])
    report = place.file("report.json")
    run = place.command("run", "--format", "json", "--report", report, "--", place.program("lsan"))
    compare("run", (0, "asked 1\n", wanted), (run.status, run.stdout, numbers(place.json(report))))
    compare("what was used", [
        {"pattern": "known_loss", "blocks": 1, "bytes": 3000,
         "source": "__lsan_default_suppressions"},
        {"pattern": "never_seen", "blocks": 0, "bytes": 0,
         "source": "__lsan_default_suppressions"}], place.json(report)["suppressions"])
    run = place.preloaded([place.program("lsan")], {"GPULEAK_FORMAT": "json",
                                                    "GPULEAK_REPORT": report})
    compare("plain", ("asked 1\n", wanted), (run.stdout, numbers(place.json(report))))
    ledgers, run = kept(place, "ledgers", place.program("lsan"), "killed")
    compare("killed", "asked 1\n", run.stdout)
    told = place.command("report", "--format", "json", ledgers)
    compare("report on one that was killed", wanted, numbers(json.loads(told.stdout)))
    told = place.command("report", "--format", "json", "--lsan-suppressions", "0", ledgers)
    compare("turned off for the report", ([], [3000, 500], []), numbers(json.loads(told.stdout)))
    text = place.command("report", ledgers).stdout
    one_line(text, "Suppressions used (__lsan_default_suppressions of the program):")
    compare("those for other memory are not called unused", False, "never_seen" in text)


def lsan_off(place):
    """__lsan_default_suppressions is not called where GPULEAK_LSAN_SUPPRESSIONS is 0"""
    for run in (gate(place, "lsan", "--gate", "--lsan-suppressions", "0"),
                place.preloaded([place.program("lsan")], {"GPULEAK_LSAN_SUPPRESSIONS": "0"})):
        compare("stdout", "asked 0\n", run.stdout)
        one_line(run.stderr, "gpuleak: 2 leaks, 3.4 KiB in 2 blocks never freed")


def lsan_bad(place):
    """__lsan_default_suppressions with lines that are none, and with more than 64 KiB: notes"""
    run = gate(place, "lsan", "--max-leaked-bytes", "500", args=["bad"])
    compare("bad lines", 0, run.status)
    one_line(run.stderr, "note: ", "__lsan_default_suppressions:2: cannot read 'nonsense'")
    run = gate(place, "lsan", "--max-leaked-bytes", "500", args=["long"])
    compare("a long text", 0, run.status)
    one_line(run.stderr, "note: ", "longer than 64 KiB")


def killed(place):
    """a program that a signal killed may pass the gate, which says so"""
    for how, status, more in (("SEGV", 139, ["process N (p_ends) was killed by signal 11, which the gate "
                                             "does not judge"]), ("exit3", 3, [])):
        run = place.command("run", "--gate", "--max-leaked-bytes", "1GiB", "--", place.program("ends"), how)
        compare("status of " + how, status, run.status)
        compare("sentences of " + how, more, [plain(text) for text in sentences(run)][1:])


FILES = [killed, baseline_passes, baseline_new, baseline_growth, baseline_ratchet, baseline_by_ledger,
         baseline_preloaded, bad_files, baseline_unwritable, budgets, context_ends, policy, generated,
         generated_shared, generated_stripped("stripped"),
         generated_stripped("stripped_no_id"), generated_main, generated_verdicts, lsan, lsan_off, lsan_bad]


# ---- diff ----

def diff(place):
    """diff: new, gone, grew, shrank, the same, from ledgers and from JSON, and its statuses"""
    sides = {}
    for name, words in (("few", "shared"), ("many", "shared more one")):
        sides[name], _ = kept(place, name, place.program("ranks"), words)
        report = place.command("report", "--format", "json", sides[name])
        sides[name + ".json"] = place.write(name + ".json", report.stdout)
    changes = {("few", "many"): {"new": [(0, 1 << 20)], "grew": [(8 * 4096, 7 * 4096 + 12288)]},
               ("many", "few"): {"gone": [(1 << 20, 0)], "shrank": [(7 * 4096 + 12288, 8 * 4096)]},
               ("few", "few"): {"unchanged": [(8 * 4096, 8 * 4096)]}}
    for (before, after), wanted in changes.items():
        for ends in (("", ""), (".json", ".json"), ("", ".json")):
            argv = [sides[before + ends[0]], sides[after + ends[1]]]
            run = place.command("diff", "--format", "json", "--gate", *argv)
            got = {}
            for leak in json.loads(run.stdout)["leaks"]:
                got.setdefault(leak["change"], []).append(
                    (leak["before"]["bytes"], leak["after"]["bytes"]))
            compare("%s against %s" % tuple(argv), wanted, got)
            compare("with a gate", 23 if "new" in wanted else 0, run.status)
            compare("without", 0, place.command("diff", *argv).status)
    text = place.command("diff", sides["few"], sides["many"]).stdout
    one_line(text, "gpuleak diff: 1 new, 1 grew, 0 shrank, 0 gone, 0 unchanged; leaked: ")
    one_line(text, "new: 1,048,576 bytes (1.0 MiB) in 1 block (device memory, cuMemAlloc_v2)",
             "at take (", "called from lose_one (")


SAME = (("objects", "left"), ("cl_objects", "left"), ("cl_history", "thread"), ("families", "twice"),
        ("cuda_wrong_frees",), ("cuda_stolen",), ("inlined",), ("globals",), ("coroutine",), ("stripped",),
        ("stripped_no_id",), ("grouping", "leak"), ("accumulation",), ("vmm", "left"), ("peak",))


def diff_same(place):
    """diff: a ledger and its JSON report are the same, in each order, also with suppressions"""
    ledger, report = place.file("a.gpuleak"), place.file("a.json")
    hides = ("--suppressions", place.write("hides", "leak:^m\nleak:make\n"))
    listed = 0
    for argv in SAME:
        if not os.path.exists(place.program(argv[0])):
            continue
        program = place.program(argv[0])
        if argv[0] == "stripped":  # below /tmp the two versions of its fingerprint differ
            program = shutil.copy(program, place.file("stripped"))
        place.preloaded([program, *argv[1:]],
                        {"GPULEAK_LEDGER": ledger, "GPULEAK_REPORT": "none", "GPULEAK_ACCUMULATION": "on"})
        place.write("a.json", place.command("report", "--format", "json", ledger).stdout)
        for flags in ((), hides):
            for pair in ((ledger, ledger), (ledger, report), (report, ledger), (report, report)):
                run = place.command("diff", "--format", "json", "--gate", *flags, *pair)
                compare("status of %s" % (argv,), 0, run.status)
                found = json.loads(run.stdout)
                rows = (found["leaks"] + found["objects"] + found["accumulating"] +
                        found.get("peak", {}).get("holders", []))
                listed += len(rows)
                compare("of %s with %s" % (argv, flags), [],
                        [row for row in rows if row["change"] != "unchanged"])
    compare("something was compared", True, listed > 100)


def diff_bad(place):
    """diff: what can't be read, what is no report, how many words"""
    ledgers, _ = kept(place, "ledgers", place.program("clean"))
    for text in ("{", "{}", '{"schema": "other"}', '{"schema": "gpuleak-report/1"}',
                 '{"schema": "gpuleak-report/1", "processes": 7}',
                 '{"schema": "gpuleak-report/1", "summary": {"errors": 0}, "leaks": [{}]}',
                 '{"schema": "gpuleak-report/1", "summary": {"errors": 0}, "leaks": '
                 '[{"api": "a", "kind": "b", "bytes": -1, "blocks": 1}]}'):
        run = place.command("diff", ledgers, place.write("bad.json", text))
        compare("%s: status, stdout" % text, (1, ""), (run.status, run.stdout))
        compare("lines for %s" % text, 1, run.stderr.count("\n"))
        one_line(run.stderr, "gpuleak: " + place.file("bad.json"))
    run = place.command("diff", ledgers, place.file("absent"))
    compare("a missing side", 1, run.status)
    for argv in ([ledgers], [ledgers] * 3, ["--format", "html", ledgers, ledgers]):
        compare("usage", 2, place.command("diff", *argv).status)


# ---- ranks ----

WORDS = ("", "shared", "one", "killed", "one killed", "shared one killed")


def run_ranks(place, words, end="0", *options):
    return place.command("run", *options, "--", place.program("ranks"), words, end)


def rank_statuses(place):
    """eight ranks: own status, 128+N, 23 and 24 hold whoever leaks and whoever is killed"""
    for words in WORDS:
        failed = 23 if words else 0
        compare("%r" % words, 0, run_ranks(place, words).status)
        compare("%r, gate" % words, failed, run_ranks(place, words, "0", "--gate").status)
        compare("%r, own status" % words, 7, run_ranks(place, words, "7", "--gate").status)
        compare("%r, killed itself" % words, 128 + 9,
                run_ranks(place, words, "KILL", "--gate").status)
        compare("%r, exitcode" % words, 42 if words else 0,
                run_ranks(place, words, "0", "--exitcode", "42").status)
    run = place.command("run", "--gate", "--", "/bin/sh", "-c",
                        "for RANK in 0 1 2 3 4 5 6 7; do RANK=$RANK %s & done; wait; exit 0"
                        % place.program("no_gpu"))
    compare("eight ranks without a GPU call", 24, run.status)
    place.nothing_left()


def rank_ledgers(place):
    """ledgers named by rank, and the gate on their directory after the fact"""
    for words in WORDS:
        ledgers, run = kept(place, "ledgers-" + words, place.program("ranks"), words,
                            pattern="%q{RANK}.gpuleak")
        compare("ledgers", ["%d.gpuleak" % rank for rank in range(8)],
                sorted(os.listdir(ledgers)))
        compare("status of the launcher", 0, run.status)
        compare("check, %r" % words, 23 if words else 0,
                place.command("check", ledgers).status)
        report = json.loads(place.command("report", "--format", "json", ledgers).stdout)
        compare("ranks", list(range(8)),
                [each["process"]["rank"] for each in report["processes"]])
    os.mkdir(place.file("empty"))
    compare("no ledger", 24, place.command("check", place.file("empty")).status)


def odd(place, words):
    ledgers, _ = kept(place, "ledgers " + words, place.program("ranks"), words)
    report = json.loads(place.command("report", "--format", "json", ledgers).stdout)
    first = place.command("report", "--verbose", "1", ledgers).stdout.split("\n")[0]
    job = report["ranks"]
    if job["odd"] and not first.startswith("gpuleak: " + job["odd"][0] + "; "):
        raise Failed("the odd one out is not named first:\n" + first)
    return ([plain(sentence) for sentence in job["odd"]], job["leaking"],
            [(leak["bytes"], len(leak["in"])) for leak in job["shared"]])


def rank_odd(place):
    """the odd one out of eight ranks is named first, in words; what ranks share is one leak"""
    at_one = "at take (ranks.c), called from lose_one"
    at_all = "at take (ranks.c), called from lose_shared"
    compare("all the same", ([], 8, [(8 * 4096, 8)]), odd(place, "shared"))
    compare("nobody leaks", ([], 0, []), odd(place, ""))
    compare("one", (["only rank 3 leaks 1.0 MiB " + at_one], 1, []), odd(place, "one"))
    compare("one beside all", (["only rank 3 leaks 1.0 MiB " + at_one], 8, [(8 * 4096, 8)]),
            odd(place, "shared one"))
    compare("more", (["rank 3 leaks 8.0 KiB more than the 4.0 KiB of the others " + at_all], 8,
                     [(7 * 4096 + 12288, 8)]), odd(place, "shared more"))
    compare("killed", (["rank 5 was killed (cause unknown)",
                        "only rank 3 leaks 1.0 MiB " + at_one,
                        "only rank 5 leaks 1.9 KiB at take (ranks.c), called from work"],
                       8, [(7 * 4096, 7)]), odd(place, "shared one killed"))
    compare("peak", (["rank 3 peaks at 64.0 MiB, 48.0 MiB more than the median, 48.0 MiB of it at "
                      "take (ranks.c), called from take_for_a_while"], 0, []), odd(place, "peak"))
    compare("absent", (["no ledger of rank 4", "only rank 3 leaks 1.0 MiB " + at_one], 1, []),
            odd(place, "one absent"))


def rank_text(place):
    """the text on eight ranks: a shared leak once, each rank by name"""
    text = run_ranks(place, "shared one").stderr
    one_line(text, "Leak of 32,768 bytes (32.0 KiB) in 8 blocks in 8 of 8 ranks, 4.0 KiB each (")
    compare("stacks", 2, text.count("#0 take"))
    for rank in range(8):
        named = [line for line in text.split("\n") if "p_ranks rank %d (pid " % rank in line]
        compare("lines with rank %d" % rank, True, len(named) >= 1)
    one_line(text, "gpuleak: only rank 3 leaks 1.0 MiB at take (", "), called from lose_one; 8 leaks, 1.0 MiB in 9 blocks never freed by 8 of 8 ranks")
    one_line(text, "gpuleak: 17 blocks (1.0 MiB) allocated by 8 ranks, 8 freed, 9 leaked: ")


def rank_variables(place):
    """the rank by other launchers' variables, by the rank's own code, and none for other text"""
    for words, variable in (("mpi", "OMPI_COMM_WORLD_RANK"), ("late", "RANK"), ("", "RANK")):
        ledgers, _ = kept(place, "ledgers " + words, place.program("ranks"), words,
                          env={"SLURM_PROCID": "0", "SLURM_NTASKS": "1"})
        report = json.loads(place.command("report", "--format", "json", ledgers).stdout)
        compare("ranks of %r" % words, [(rank, variable) for rank in range(8)],
                [(each["process"]["rank"], each["process"]["rank_variable"])
                 for each in report["processes"]])
    for value in ("", "gold", "-1", "3 ", "99999999999"):
        ledgers, _ = kept(place, "none", place.program("clean"), pattern="one.gpuleak",
                          env={"RANK": value})
        report = json.loads(place.command("report", "--format", "json", ledgers).stdout)
        compare("rank of %r" % value, None, report["process"].get("rank"))
    ledgers, _ = kept(place, "size", place.program("clean"), pattern="one.gpuleak",
                      env={"PMI_RANK": "2", "PMI_SIZE": "4"})
    report = json.loads(place.command("report", "--format", "json", ledgers).stdout)
    compare("rank and size", (2, 4), (report["process"]["rank"], report["process"]["ranks"]))


def rank_baseline(place):
    """one baseline for a job: the sum of its ranks, and one rank more is growth"""
    known = place.file("known")
    run = run_ranks(place, "shared", "0", "--update-baseline", "--baseline", known)
    compare("update", 0, run.status)
    compare("lines", ["32768 8"], [line.split(" #")[0].split(" ", 1)[1]
                                   for line in entries(place, "known")])
    compare("the same", 0, run_ranks(place, "shared", "0", "--baseline", known).status)
    run = run_ranks(place, "shared more", "0", "--baseline", known)
    compare("more", 23, run.status)
    one_line(run.stderr, "known leak grew by 8,192 bytes (8.0 KiB) and 0 blocks: ")


def rank_policy(place):
    """--only-at over a job: a place that all ranks have is named once, and how often it was met"""
    run = run_ranks(place, "", "0", "--only-at", place.write("policy", "site:nowhere\n"))
    compare("status", 23, run.status)
    compare("reasons", 2, len(sentences(run)))
    one_line(run.stderr, "rank 0 (process ", "allocated 2,000 bytes (1.9 KiB) in 1 block")
    one_line(run.stderr, "7 more call sites allocated memory that no rule in ")
    run = run_ranks(place, "", "0", "--only-at", place.write("policy", "site:^work$\n"))
    compare("allowed", 0, run.status)


RANKS = [rank_statuses, rank_ledgers, rank_odd, rank_text, rank_variables, rank_baseline,
         rank_policy]

FAMILIES = {"gate-files": FILES, "diff": [diff, diff_same, diff_bad], "ranks": RANKS}
