#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands that nothing would run, on pages of several folders: docs_commands.py must refuse them,
and must take the same commands with a reason. TAP."""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
import docs_commands

COMMAND = "gpuleak run -- ./app"
REFUSED = {
    "README.md": "```bash\n%s\n```\n",
    "docs/guides/gate.md": "```sh\n%s\n```\n",
    "docs/guides/languages/go.md": "```text\n%s\n```\n",
    "docs/guides/gitlab.md": "- In a list:\n\n  ```sh\n  %s\n  ```\n",
    "docs/reference/formats.md": "    %s\n",
    "docs/developers/testing.md": "~~~\n%s\n~~~\n",
    "CONTRIBUTING.md": "```text\n$ %s\n```\n",
    "RELEASING.md": "```sh no-test\n%s\n```\n",
    "docs/glossary.md": "```console not-run\n$ %s\n```\n",
}
TAKEN = {
    "docs/guides/gate.md": "- In a list:\n\n  ```sh no-test: the program is yours\n  %s\n  ```\n",
    "docs/guides/faults.md": "```sh\n%s\n```\n",
    "docs/reference/formats.md": "```console not-run: needs a GPU\n$ %s\n```\n",
    "docs/glossary.md": "```text\ngpuleak: 1 leak\n```\nUse `%s`.\n",
}


class Runner(docs_commands.Runner):
    def __init__(self):  # runs nothing
        pass


def problem(name, text, work):
    """What docs_commands.py says to the only page of the folder, or None."""
    page = os.path.join(work, name)
    os.makedirs(os.path.dirname(page), exist_ok=True)
    with open(page, "w", encoding="utf-8") as file:
        file.write("# A page\n\n" + text)
    for _, info, lines in docs_commands.blocks(page):
        try:
            Runner().check(page, info, lines, work)
        except docs_commands.Wrong as wrong:
            return str(wrong)
    return None


def main():
    failed = number = 0
    with tempfile.TemporaryDirectory() as work:
        docs_commands.ROOT = work
        for pages, refused in ((REFUSED, True), (TAKEN, False)):
            for name, text in pages.items():
                found, number = problem(name, text % COMMAND, work), number + 1
                failed += bool(found) != refused
                print("%sok %d - %s %s: %s" % ("not " * (bool(found) != refused), number, name,
                                               "is refused" if refused else "is taken",
                                               repr(text).replace("#", "")))
    print("1..%d" % number)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
