#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a script as if all of it but its imports, functions, classes and CONSTANTS stood in a
function main(): in_main.py SCRIPT. Lines keep their numbers."""

import ast
import sys


def stays(statement):
    """Returns true for what stands at the top of a program that has a main()."""
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
        return True
    return isinstance(statement, ast.Assign) and all(
        name.id.isupper() for target in statement.targets
        for name in ast.walk(target) if isinstance(name, ast.Name))


def with_main(source, path):
    tree = ast.parse(source, path)
    body = [statement for statement in tree.body if not stays(statement)]
    main = ast.parse("def main(): pass\nmain()", path)
    main.body[0].body = body
    for node, line in ((main.body[0], body[0].lineno), (main.body[1], body[-1].end_lineno + 1)):
        for part in (node, *ast.walk(node)) if node is main.body[1] else (node,):
            if hasattr(part, "lineno"):
                part.lineno = part.end_lineno = line
    tree.body = [statement for statement in tree.body if stays(statement)] + main.body
    return compile(tree, path, "exec")


def main():
    path = sys.argv[1]
    with open(path, encoding="utf-8") as file:
        code = with_main(file.read(), path)
    sys.argv = sys.argv[1:]
    exec(code, {"__name__": "__main__", "__file__": path})


if __name__ == "__main__":
    main()
