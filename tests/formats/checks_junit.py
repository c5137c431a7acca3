# SPDX-License-Identifier: MIT
"""JUnit: against the schema of the xUnit plugin of Jenkins, Ant's rules and junitparser."""

import os
import re
import xml.etree.ElementTree as ElementTree

from tools import HERE, module, same, tool, true


def parsed(place, content):
    """The suites, once all tools took the file."""
    path = place.write("report.xml", content)
    place.run(tool("xmllint"), "--noout", "--nonet", "--schema",
              os.path.join(HERE, "schemas", "junit-10.xsd"), path)
    place.run(tool("xmllint"), "--noout", "--nonet", "--schema",
              os.path.join(HERE, "schemas", "junit-ant.xsd"), path)
    read = module("junitparser").JUnitXml.fromfile(path)
    root = ElementTree.fromstring(content)
    suites = root.findall("testsuite")
    for suite, theirs in zip(suites, read):
        cases = suite.findall("testcase")
        same(int(suite.get("tests")), len(cases), "tests")
        same(theirs.tests, len(cases), "tests, says junitparser")
        for counter, element in (("failures", "failure"), ("errors", "error"),
                                 ("skipped", "skipped")):
            same(int(suite.get(counter)), sum(c.find(element) is not None for c in cases), counter)
        names = [(case.get("classname"), case.get("name")) for case in cases]
        same(len(set(names)), len(names), "distinct names")
    same([int(suite.get("id")) for suite in suites], list(range(len(suites))), "ids")
    return suites


def outcomes(suite):
    """{name without hash: (classname, outcome)}"""
    found = {}
    for case in suite.findall("testcase"):
        child = list(case)
        name = re.sub(r" [0-9a-f]{8}(-\d+)?$", "", case.get("name"))
        found.setdefault(name, []).append(
            (case.get("classname"), child[0].tag if child else "passed"))
    return found


PASSED = [("gpuleak", "passed")]
FAILED = [("gpuleak.leak", "failure")]


def clean(place):
    """A clean program: cases that pass."""
    suites = parsed(place, place.report("junit", place.ledger("l", "leaks", 0)))
    same([suite.get("name") for suite in suites], ["leaks", "gpuleak"])
    same(outcomes(suites[0]), {"everything was recorded": PASSED, "no leaks": PASSED,
                               "no invalid frees": PASSED})
    same(outcomes(suites[1]), {"everything was recorded": PASSED})


def leaks(place):
    """Two leaks and a double free: three failures, one line and one hash each."""
    suites = parsed(place, place.report("junit", place.ledger("l", "leaks_apart", 2, "double")))
    same(outcomes(suites[0]), {
        "everything was recorded": PASSED,
        "leak_2 (leaks.c)": FAILED,
        "leak_1 (leaks.c)": FAILED,
        "main (leaks.c)": [("gpuleak.double-free", "failure")],
    })
    message = suites[0].findall("testcase")[2].find("failure").get("message")
    true(re.fullmatch(r"1 block, 2,000 bytes \(1\.9 KiB\) \(device memory, cuMemAlloc_v2, device 0\) "
                      r"never freed, allocated at leak_2 \(.*/leaks\.c:\d+\), called from main "
                      r"\(.*/leaks\.c:\d+\)", message), message)


def one_line(place):
    """Leaks of one line by several stacks: one case with their sum."""
    (suite, _) = parsed(place, place.report("junit", place.ledger("l", "leaks", 3)))
    same(outcomes(suite)["allocate (leaks.c)"], FAILED)
    failure = suite.find(".//failure")
    true(failure.get("message").startswith("3 blocks, 6,000 bytes (5.8 KiB) ("), failure.get("message"))
    same(failure.text.count(" by another stack, with leak_"), 2)


def stable(place):
    """Names stay over a second run and over an edit that moves every line."""
    def names(program):
        suites = parsed(place, place.report("junit", place.ledger(program, program, 3, "double")))
        return [(c.get("classname"), c.get("name")) for c in suites[0].findall("testcase")]
    first = names("leaks_apart")
    os.unlink(place.path("leaks_apart.gpuleak"))
    same(names("leaks_apart"), first)
    same(names("leaks_shifted"), first)


def verdicts(place):
    """The gate: what it lets pass is skipped, a verdict is a case."""
    ledger = place.ledger("l", "leaks_apart", 2)
    suites = parsed(place, place.report("junit", "--max-leaked-bytes", 3000, ledger))
    same(outcomes(suites[0])["leak_2 (leaks.c)"], [("gpuleak.leak", "skipped")])
    same(outcomes(suites[1])["gate"], PASSED)
    suites = parsed(place, place.report("junit", "--max-leaked-bytes", 2999, ledger))
    same(outcomes(suites[0])["leak_2 (leaks.c)"], FAILED)
    same(outcomes(suites[1])["gate"], [("gpuleak", "failure")])


def suppressed(place):
    """What a suppression took out is skipped and says why."""
    rules = place.write("rules", b"leak:leak_1\n")
    suites = parsed(place, place.report("junit", "--suppressions", rules,
                                        place.ledger("l", "leaks_apart", 2)))
    same([outcomes(suites[0])["leak_%d (leaks.c)" % n] for n in (2, 1)],
         [FAILED, [("gpuleak.leak", "skipped")]])
    true("suppressed by leak:leak_1" in suites[0].find(".//skipped").get("message"), "the reason")


def incomplete(place):
    """A ledger that can't be read is an error, and so is nothing at all."""
    ledger = place.ledger("l", "leaks", 0)
    suites = parsed(place, place.command("report", "--format", "junit", ledger,
                                         place.write("broken", b"no ledger"), status=1).stdout)
    same(outcomes(suites[0])["everything was recorded"], PASSED)
    same(outcomes(suites[1]), {"everything was recorded": [("gpuleak", "error")]})
    suites = parsed(place, place.made("junit", "empty"))
    same(outcomes(suites[0]), {"everything was recorded": [("gpuleak", "error")]})


def nothing(place):
    """Status 24: one case, gpuleak.gate, fails with a type of its own."""
    suites = parsed(place, place.nothing("junit"))
    same([outcomes(suite) for suite in suites], [{"gate": [("gpuleak", "failure")]}])
    failure = suites[0].find("testcase/failure")
    same((failure.get("type"), failure.get("message")),
         ("nothing-to-judge", "no ledger was found: no GPU call was seen"))


def hostile(place):
    """Names of any bytes stay inside their attributes."""
    suites = parsed(place, place.made("junit", "hostile", "23"))
    same([suite.get("tests") for suite in suites], ["7", "2"])
    same([suite.get("failures") for suite in suites], ["4", "1"])
    same([suite.get("skipped") for suite in suites], ["2", "0"])
    same([suite.get("errors") for suite in suites], ["1", "1"])
    true("\\x0A::error file=x" in suites[0].get("name"), "a newline is spelled out")


def caches(place):
    """Caches and suppressed ones are no failures."""
    suites = parsed(place, place.made("junit", "caches"))
    same(outcomes(suites[0]), {
        "everything was recorded": PASSED, "no leaks": PASSED, "no invalid frees": PASSED,
        "make (make.c)": [("gpuleak.cache", "skipped"), ("gpuleak.leak", "skipped")]})


def ranks(place):
    """Several processes of one name: a suite each; the one that runs is not whole."""
    suites = parsed(place, place.made("junit", "ranks"))
    same([suite.get("name") for suite in suites],
         ["train", "train #2", "train #3", "train #4", "train #5", "gpuleak"])
    same([suite.get("failures") for suite in suites], ["0", "1", "0", "0", "0", "0"])
    same([suite.get("errors") for suite in suites], ["0", "0", "0", "1", "0", "0"])


def many(place):
    """Thirty thousand leaks: ten thousand cases, and one for the rest."""
    suites = parsed(place, place.made("junit", "many"))
    same(suites[0].get("failures"), "10001")
    message = suites[0].findall("testcase")[-1].find("failure").get("message")
    true(message.startswith("and 20000 more: 20000 blocks, %d bytes" % (20000 * 20001 // 2)),
         message)


def tensors(place):
    """What accumulates is a failed case, or skipped if the gate passes; else a case passes."""
    suites = parsed(place, place.made("junit", "tensors"))
    same(outcomes(suites[0]), {
        "everything was recorded": PASSED, "no leaks": PASSED, "no invalid frees": PASSED,
        "train_step (train.py)": [("gpuleak.accumulation", "failure")],
        "make (make.c)": [("gpuleak.cache", "skipped"), ("gpuleak.accumulation", "skipped")]})
    same(suites[0].find(".//failure").get("message"),
         "204,800 bytes (200.0 KiB) in 400 tensors (PyTorch caching allocator, device 0) "
         "accumulate: 400 of 400 kept, 2 per second until the loop ended, allocated at train_step "
         "(/src/app/train.py:8), called from <module> (/src/app/train.py:20)")
    reasons = [skipped.get("message") for skipped in suites[0].iter("skipped")]
    true(reasons[0].endswith("; held by PyTorch caching allocator: 53,248 bytes (52.0 KiB) in "
                             "tensors, 2,043,904 bytes (1.9 MiB) cached, unused"), reasons[0])
    true(reasons[1].endswith("; suppressed by leak:libquiet"), reasons[1])
    suites = parsed(place, place.made("junit", "tensors", "0"))
    same(outcomes(suites[0])["train_step (train.py)"], [("gpuleak.accumulation", "skipped")])
    suites = parsed(place, place.made("junit", "trainings"))
    same([suite.get("failures") for suite in suites], ["1", "0", "0"])
    same(["nothing accumulates" in outcomes(suite) for suite in suites], [False, True, False])
    suites = parsed(place, place.made("junit", "constant"))
    same(outcomes(suites[0])["nothing accumulates"], PASSED)
    suites = parsed(place, place.made("junit", "wild-tensors"))
    same(suites[0].get("failures"), "7")


def out_of_memory(place):
    """A request that ended the program is a failed case; one that was tolerated is none."""
    suites = parsed(place, place.report("junit", place.out_of_memory("drop", "exit:3", status=3)))
    same(outcomes(suites[0]), {
        "everything was recorded": PASSED, "no leaks": PASSED, "no invalid frees": PASSED,
        "want (oom.c)": [("gpuleak.out-of-memory", "failure")]})
    failure = suites[0].find(".//failure")
    true(re.fullmatch(r"out of memory: 64\.0 MiB wanted at want \(\S+/oom\.c:\d+\); held: 40\.0 MiB "
                      r"weights \(\S+/oom\.c:\d+\)", failure.get("message")), failure.get("message"))
    true("\nWanted at:\n    #0 want /" in failure.text, failure.text)
    os.unlink(place.path("oom.gpuleak"))
    suites = parsed(place, place.report("junit", place.out_of_memory("drop", status=0)))
    same(outcomes(suites[0]), {
        "everything was recorded": PASSED, "no leaks": PASSED, "no invalid frees": PASSED,
        "not out of memory at the end": PASSED})


CHECKS = [nothing, out_of_memory, tensors, clean, leaks, one_line, stable, verdicts, suppressed, incomplete, hostile, caches, ranks, many]
