# SPDX-License-Identifier: MIT
"""Recording that begins in a running process: attached.c opens the library and attaches itself.
TEST_ROUNDS in the environment is the number of rounds beside threads."""

import json
import os

from harness import compare
from stories import needs, one_line

ROUTES = ("linked", "looked_up", "by_driver", "read_only")


def attached(place, *what, ledger="ledger"):
    """The words that start the program, which attaches with the library of this build."""
    return [place.program("attached"), place.options.preload, place.file(ledger), *what]


def report_of(place, ledger, *flags):
    run = place.command("report", "--format", "json", *flags, ledger)
    compare("report", (0, ""), (run.status, run.stderr))
    return json.loads(run.stdout)


@needs("attached")
def each_way(place):
    """each way to the driver is recorded from the attachment to its end, and the words are restored"""
    run = place.run(attached(place, "routes"))
    compare("routes", (0, "done\n", ""), (run.status, run.stdout, run.stderr))
    report = report_of(place, place.file("ledger"))
    lines = {line.split("@")[1].split()[0]: number for number, line in enumerate(
        open(os.path.join(os.path.dirname(__file__), "attached.c")), 1) if "/* @" in line}
    compare("leaks", {(lines[way], 2000 + i) for i, way in enumerate(ROUTES)},
            {(leak["stack"][0]["line"], leak["bytes"]) for leak in report["leaks"]})
    compare("frees of blocks from before are no errors", ([], 4),
            (report["errors"], report["summary"]["allocated_blocks"]))
    compare("the process goes on", "running", report["process"]["ended"])


@needs("attached")
def beside_threads(place):
    """attached and detached beside threads that allocate, launch, fork and open libraries: as bare"""
    rounds = os.environ.get("TEST_ROUNDS", "100")
    run = place.run(attached(place, "rounds", rounds, ledger="ledger-%p"))
    compare("rounds", (0, "done %s rounds, forked and opened\n" % rounds),
            (run.status, run.stdout))
    ledgers = [name for name in os.listdir(place.file("")) if name.startswith("ledger-")]
    compare("ledgers, and none of a forked child", int(rounds), len(ledgers))
    for name in ledgers[:3]:
        report = report_of(place, place.file(name))
        compare("no errors", [], report["errors"])
        compare("at least the four of the thread that attached", True,
                report["summary"]["allocated_blocks"] >= 4)


@needs("attached")
def recorded_already(place):
    """a process under a preload that records refuses an attachment"""
    run = place.run(attached(place, "routes"), {"LD_PRELOAD": place.options.preload})
    compare("a process that is recorded already refuses", 1, run.status)
    compare("its line", "failed: attach", one_line(run.stderr, "failed: "))


ATTACHED = [each_way, beside_threads, recorded_already]
