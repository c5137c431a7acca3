#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the files and names in answers.md still exist: answers.py ROOT. Prints TAP."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
here = pathlib.Path(__file__).resolve().parent
questions = re.findall(r"^\d+\. ", (here / "questions.md").read_text(), re.M)
answers = re.split(r"^\d+\. ", (here / "answers.md").read_text(), flags=re.M)[1:]
print("1..%d" % len(questions))
failed = len(questions) != len(answers)
for number, answer in enumerate(answers, 1):
    named = re.findall(r"`([\w./]+\.\w+):(\w+)`", answer)
    gone = ["%s: no %s" % place for place in named if not (root / place[0]).is_file() or
            not re.search(r"\b%s\b" % place[1], (root / place[0]).read_text())]
    if not named:
        gone = ["names no place"]
    failed |= bool(gone)
    print("%sok %d - answer %d" % ("not " if gone else "", number, number))
    for line in gone:
        print("# " + line)
sys.exit(failed)
