#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the cells of one API as C: a function for each call of each family, and the tables
that matrix.h walks. The names of these functions are what a report's stacks are held against.

generate.py cuda|opencl OUTPUT [RESOLVER_DEF]
"""

import importlib
import re
import sys

sys.dont_write_bytecode = True


def resolver_rows(path):
    """{symbol: (base name, version, per thread)}: what to ask cuGetProcAddress for."""
    text = open(path, encoding="utf-8").read()
    return {symbol: (base, int(since), int(per_thread)) for base, since, symbol, per_thread in
            re.findall(r"^FOUND\((\w+), (\d+), (\w+), (\d)\)", text, re.M)}


def cuda_calls(table, resolver):
    rows = resolver_rows(resolver)
    for symbol, parameters in table.CALLS.items():
        yield f"typedef CUresult type_{symbol}({parameters});"
        yield f"#ifdef LINKED\nextern type_{symbol} {symbol};\n#endif"
    yield from calls(table, lambda symbol: '"%s", %d, %d' % rows[symbol])


def opencl_calls(table, _):
    for symbol in table.CALLS:
        yield f"typedef __typeof__({symbol}) type_{symbol};"
    yield from calls(table, lambda symbol: "NULL, 0, 0")


def calls(table, asked):
    yield "enum {\n" + "".join(f"\tINDEX_{symbol},\n" for symbol in table.CALLS) + "};"
    yield "static struct call calls[] = {"
    for symbol in table.CALLS:
        yield f'\t{{ "{symbol}", {asked(symbol)}, LINK({symbol}), NULL }},'
    yield "};"


def function(name, expression):
    return (f"static int {name}(struct block *b)\n{{\n\tint r = 0;\n\n\t(void)b, (void)r;\n"
            f"\tr = {expression}; /* so that this frame stays */\n\treturn r;\n}}")


def call(symbol, arguments):
    """ARGUMENTS alone, or a whole expression where # may stand for the call."""
    if arguments.startswith("(") and "#" not in arguments:
        return f"C({symbol}){arguments}"
    return arguments.replace("#", f"C({symbol})")


def cells(table):
    for name, need in table.NEEDS.items():
        yield function("prepare_" + name, call(need.make, need.given))
    for family in table.FAMILIES:
        yield function("make_" + family.name, call(family.make, family.given))
        yield function("drop_" + family.name, call(family.drop, family.back))
        yield function("again_" + family.name, family.twice or call(family.drop, family.back))
        for number, (arguments, _) in enumerate(family.bad):
            yield function(f"bad_{family.name}_{number}", call(family.make, arguments))
    yield "static const struct need needs[] = {"
    for name in table.NEEDS:
        yield f'\t{{ "{name}", prepare_{name} }},'
    yield "\t{ NULL, NULL },\n};\nstatic const struct family families[] = {"
    for family in table.FAMILIES:
        n = family.name
        bad = ", ".join(f"bad_{n}_{i}" for i in range(len(family.bad))) or "NULL"
        yield (f'\t{{ "{n}", " {family.needs} ", make_{n}, drop_{n}, again_{n}, '
               f"{{ {bad} }} }},")
    yield "};"


def main():
    api, output = sys.argv[1:3]
    table = importlib.import_module(api + "_families")
    lines = list((cuda_calls if api == "cuda" else opencl_calls)(table, sys.argv[-1]))
    with open(output, "w", encoding="utf-8") as file:
        file.write("/* Made by generate.py from %s_families.py. */\n" % api)
        file.write("\n".join(lines + list(cells(table))) + "\n")


if __name__ == "__main__":
    main()
