#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the answers are still true: answers.py ROOT. The names in answers.md still exist in their
files, the sentences in user_answers.md in their pages. Prints TAP."""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent


def names(root, answer):
    """Yields (place, whether it is there) for each `FILE:NAME`."""
    for file, name in re.findall(r"`([\w./]+\.\w+):(\w+)`", answer):
        yield "%s: no %s" % (file, name), (root / file).is_file() and re.search(
            r"\b%s\b" % name, (root / file).read_text())


def sentences(root, answer):
    """Yields (place, whether it is there) for each "SENTENCE" of the page that is named before it."""
    page = None
    for file, sentence in re.findall(r'`(docs/[\w./-]+\.md)`|"([^"]+)"', answer):
        page = file or page
        if sentence:
            text = (root / page).read_text() if (root / page).is_file() else ""
            wanted = " ".join(sentence.split())
            yield "%s: no \"%s\"" % (page, wanted), wanted in " ".join(text.split())


def answers(name, find, root):
    """Yields (question, what is wrong with its answer)."""
    questions = re.findall(r"^\d+\. ", (HERE / (name + "questions.md")).read_text(), re.M)
    texts = re.split(r"^\d+\. ", (HERE / (name + "answers.md")).read_text(), flags=re.M)[1:]
    for number in range(max(len(questions), len(texts))):
        if number >= min(len(questions), len(texts)):
            yield number + 1, ["%d questions, %d answers" % (len(questions), len(texts))]
            continue
        named = list(find(root, texts[number]))
        yield number + 1, [place for place, there in named if not there] if named else [
            "names no place"]


def main():
    root = pathlib.Path(sys.argv[1])
    results = [(what, *result) for what, name, find in (
        ("about the source", "", names), ("of a user", "user_", sentences))
               for result in answers(name, find, root)]
    print("1..%d" % len(results))
    for number, (what, question, gone) in enumerate(results, 1):
        print("%sok %d - question %d %s" % ("not " if gone else "", number, question, what))
        for line in gone:
            print("# " + line)
    return any(gone for _, _, gone in results)


sys.exit(main())
