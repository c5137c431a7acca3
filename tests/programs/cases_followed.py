# SPDX-License-Identifier: MIT
"""Programs that a program of `gpuleak run` starts, whatever environment they get: followed.c. And
which files of a directory are ledgers."""

import json
import os
import shutil

from harness import compare
from stories import needs, one_line


@needs("clean")
def directory(place):
    """a directory: each ledger by its contents, the other files counted in one line"""
    for program in ("clean", "lost"):
        place.preloaded([place.program(program)], {"GPULEAK_REPORT": "none",
                                                   "GPULEAK_LEDGER": place.file("of-" + program)})
    results = place.file("results")
    os.mkdir(results)
    shutil.move(place.file("of-clean"), results)
    for command, status in (("report", 0), ("check", 0)):
        run = place.command(command, results)
        compare("%s: a clean ledger without a suffix" % command, status, run.status)
        compare("%s: stderr" % command, "", run.stderr)
    shutil.move(place.file("of-lost"), os.path.join(results, "of-lost.bak"))
    os.mkdir(os.path.join(results, "folder"))
    os.mkfifo(os.path.join(results, "fifo"))
    for name, text in (("report.json", "{}"), ("empty", ""), ("short", "GPULE")):
        place.write("results/" + name, text)
    ignored = "gpuleak: %s: ignored 3 files that are no ledgers\n" % results
    run = place.command("report", "--format", "json", results)
    compare("report", (0, ignored), (run.status, run.stderr))
    compare("programs", ["p_clean", "p_lost"], sorted(
        os.path.basename(each["process"]["command"][0])
        for each in json.loads(run.stdout)["processes"]))
    run = place.command("check", results)
    compare("check", (23, ignored), (run.status, run.stderr))
    for name in ("of-clean", "of-lost.bak", "empty", "short"):
        os.unlink(os.path.join(results, name))
    run = place.command("check", results)
    compare("no ledger", (24, "gpuleak: %s: no ledgers in this directory\n"
                          "gpuleak: %s: ignored 1 file that is no ledger\n" % (results, results)),
            (run.status, run.stderr))
    place.write("results/damaged.gpuleak", "no ledger")
    run = place.command("check", results)
    compare("a ledger's name and no ledger", 23, run.status)
    one_line(run.stdout + run.stderr, "gate failed: ", "damaged.gpuleak: is not a gpuleak ledger")


FOLLOWED = [directory]
