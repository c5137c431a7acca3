#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes one HTML page from a template, a style sheet and a script, and writes it as C: see
html_page.h. The page is divided where print_html.c inserts the contents of a report.

embed_page.py TEMPLATE CSS JS OUTPUT. In the template {{style}} and {{script}} become the two files.
{{policy}} becomes a policy by which a browser runs only these two. The page is divided at all other
{{names}}.
"""
import base64
import hashlib
import re
import sys

HEAD = """/* SPDX-License-Identifier: MIT
 *
 * Made by html/embed_page.py from html/template.html, report.css and report.js.
 */
#include "report/format/html/html_page.h"

"""
ROW = 24


def source(text):
    """Returns TEXT without indentation and without comments on lines of their own."""
    text = re.sub(r"^[ \t]*(?:/\*(?:[^*]|\*(?!/))*\*/|//[^\n]*)\n", "", text, flags=re.M)
    text = re.sub(r"^[ \t]+|[ \t]+$", "", text, flags=re.M)
    text = re.sub(r"\n{2,}", "\n", text).strip() + "\n"
    if re.search(r"</(script|style)|<!--", text, re.I):
        sys.exit("the style sheet and the script must not contain </style, </script or <!--")
    return text


def digest(text):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page(template, style, script):
    policy = ("default-src 'none'; script-src %s; style-src %s; img-src data:; base-uri 'none'; "
              "form-action 'none'" % (digest(script), digest(style)))
    for name, text in (("policy", policy), ("style", style), ("script", script)):
        if template.count("{{%s}}" % name) != 1:
            sys.exit("the template must have {{%s}} once" % name)
        template = template.replace("{{%s}}" % name, text)
    return template


def array(number, text):
    data = text.encode()
    rows = ["".join("%d," % byte for byte in data[at:at + ROW])
            for at in range(0, len(data), ROW)]
    return "static const unsigned char part_%d[] = {\n%s\n};\n" % (number, "\n".join(rows) or "0")


def main():
    *paths, output = sys.argv[1:]
    texts = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    # [text, name, text, name, text ...]
    parts = re.split(r"\{\{(\w+)\}\}", page(texts[0], source(texts[1]), source(texts[2])))
    names = parts[1::2] + [""]
    with open(output, "w", encoding="ascii") as out:
        out.write(HEAD)
        for number, text in enumerate(parts[::2]):
            out.write(array(number, text))
        out.write("const struct html_part html_page[] = {\n")
        for number, (text, name) in enumerate(zip(parts[::2], names)):
            out.write('\t{ (const char *)part_%d, %d, "%s" },\n'
                      % (number, len(text.encode()), name))
        out.write("};\nconst size_t html_page_size = sizeof(html_page) / sizeof(html_page[0]);\n")


main()
