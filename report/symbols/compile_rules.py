#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints C source with the rules of a file: compile_rules.py FILE. rules.c parses the files of
users at run time. tests/unit/test_rules.c checks that rules.c parses FILE into the same rules."""
import re
import sys

ROLES = "application|runtime|framework|interpreter|package"
NAMED = "cache|library|thread|managed"
PATTERN = re.compile(r'\s+(module|function|file|path):("[^"]*"|[^\s"]\S*)')
RULE = re.compile(rf'(?:({ROLES})|({NAMED})\s+("[^"]+"|none)(?:\s+(\d+))?)'
                  rf'((?:{PATTERN.pattern})+)')


def c_string(text):
    return '"%s"' % "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else "\\%03o" % b
                            for b in text.encode())


def c_rule(role, verb, name, limit, patterns):
    """Returns the C source of one rule, an element of shipped_rules."""
    targets = []
    for field, pattern in PATTERN.findall(patterns):
        pattern = pattern.strip('"')
        target = "MODULE_PATH" if field == "module" and "/" in pattern else field.upper()
        targets.append(f"[RULE_{target}] = {c_string(pattern)}")
    if len(set(target.split("]")[0] for target in targets)) < len(targets):
        sys.exit(f"a field is given twice: {patterns}")
    name = c_string(name.strip('"')) if verb and name != "none" else "NULL"
    return (f"{{ RULE_{(role or verb).upper()}, {name}, {{ {', '.join(targets)} }}, "
            f"{limit or 0} }},")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    print('#include "report/symbols/rule.h"\n\nconst struct rule shipped_rules[] = {')
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            rule = RULE.fullmatch(line)
            if not rule:
                sys.exit(f"{sys.argv[1]}:{number}: not a rule")
            print("\t" + c_rule(*rule.groups()[:5]))
    print("};\nconst size_t shipped_rule_count = sizeof(shipped_rules) / sizeof(*shipped_rules);\n"
          "_Static_assert(sizeof(shipped_rules) / sizeof(*shipped_rules) <= RULES_SHIPPED_MAX, "
          '"raise RULES_SHIPPED_MAX");')


main()
