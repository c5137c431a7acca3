#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes one HTML page from a template, a style sheet and a script, and writes it as C: see
print_html.c.

embed_page.py TEMPLATE CSS JS OUTPUT. In the template {{style}} and {{script}} become the two files.
{{policy}} becomes a policy by which a browser runs only these two. All other {{names}} stay: there
print_html.c inserts the contents of a report.
"""
import base64
import hashlib
import pathlib
import re
import sys

HEAD = """/* SPDX-License-Identifier: MIT
 *
 * Made by html/embed_page.py from html/template.html, report.css and report.js.
 */
const char html_page[] = {
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


def main():
    *paths, output = sys.argv[1:]
    template, style, script = (pathlib.Path(path).read_text(encoding="utf-8") for path in paths)
    text = page(template, source(style), source(script))
    if re.findall(r"\{\{(\w*)", text) != ["headline", "text", "data"]:
        sys.exit("the page must have {{headline}}, {{text}} and {{data}}, and no other {{")
    data = text.encode("ascii")
    rows = ["".join("%d," % byte for byte in data[at:at + ROW])
            for at in range(0, len(data), ROW)]
    pathlib.Path(output).write_text(HEAD + "\n".join(rows) + "0\n};\n", encoding="ascii")


main()
