# SPDX-License-Identifier: MIT
"""The cell magic %%gpuleak of IPython and Jupyter: shows what a cell left allocated, with the flame
graph of the HTML report. IPython runs the cell itself, without its first line: so errors, `await`,
the value of the last line and the numbers of lines are those of a cell without the magic."""

import contextlib
import gc
import html
import json
import re
import sys

from . import _library, _report
from ._size import format_size, plural
from ._table import Table

_OURS = re.compile(r"\s*(?:%%[^\n]*\n\s*)*?%%gpuleak(?!\S)")  # also below %%time and the like
_DATA = re.compile(r'(<script type="application/json" id="data">)(.*?)(</script>)', re.S)
_WORDS = re.compile(r'(<h1 id="verdict">|<pre>)(.*?)(</h1>|</pre>)', re.S)
_ESCAPES = {ord(c): "\\u%04x" % ord(c) for c in "<>&"}
_KEPT = ("schema", "process", "kinds", "frames", "stacks")
_FLAME = {"title": "Who allocated what the cell left", "lead": "what is left of it",
          "name": "all that the cell left", "of": "of it"}
_FRAME = '<iframe srcdoc="%s" sandbox="allow-scripts" title="gpuleak: flame graph" ' \
    'style="width:100%%;height:30em;border:1px solid #8884"></iframe>'


def _how(shell):
    what, command = ("kernel", "jupyter lab") if hasattr(shell, "kernel") else ("IPython", "ipython")
    return "gpuleak is not in this %s: the cell ran, and nothing was recorded. Start it by\n" \
        "    gpuleak run -- %s" % (what, command)


class Cell(Table):
    """What one cell left, as a table and as a small page: the HTML report with its flame graph,
    without what belongs to the process and not to the cell."""

    def __init__(self, name, summary, page):
        self._page, self._data = page, json.loads(_DATA.search(page)[2])
        frames, stacks = self._data["frames"], self._data["stacks"]
        self._left = _report.counted({key: [
            {**entry, "stack": [frames[at] for at in stacks[entry["stack"]]],
             "number": entry["stack"]} for entry in self._data.get(key, ())]
            for key in ("leaks", "suballocations")})
        left = " left {} in {}" if self._left else " left nothing allocated"
        super().__init__([leak for _, leak in self._left], "Cell " + name + left,
                         lambda leak: leak.place_from(name))
        size, blocks = (self._data["summary"][key] - summary.get(key, 0)
                        for key in ("allocated_bytes", "allocated_blocks"))
        self.title += "; it allocated %s in %s" % (format_size(size), plural(blocks, "block")) \
            if blocks else ""

    def _small(self):
        data = {key: value for key, value in self._data.items() if key in _KEPT}
        data.update(flame=_FLAME, summary={})
        data["frames"] = [{**frame, "file": _report.shown_file(frame["file"])}
                          for frame in data["frames"]]
        data["leaks"] = [{**entry, "stack": entry["number"], "bytes": leak.bytes,
                          "blocks": leak.blocks, "kind": leak.what, "unit": None}
                         for entry, leak in self._left]
        page = self._page
        for part, text in (_DATA, json.dumps(data).translate(_ESCAPES)), \
                (_WORDS, html.escape(self.title)):
            page = part.sub(lambda found, text=text: found[1] + text + found[3], page)
        return re.sub("<(header|details) id=", r"<\1 hidden id=", page)

    def _repr_html_(self):
        return super()._repr_html_() + (
            _FRAME % html.escape(self._small()) if self.rows else "")


class Magic:
    """The magic in the IPython SHELL. `open` has what was true when each cell began that runs."""

    def __init__(self, shell):
        self.shell, self.open = shell, []

    def before(self, info):
        if not _OURS.match(info.raw_cell or ""):
            return
        report = "{}"
        if _library.active():
            with contextlib.suppress(_report.ReportError):  # after() gets the same error
                report = _report.run("--format", "json") or report
        self.open.append((info, json.loads(report).get("summary", {}), _library.mark()))

    def after(self, result):
        if not self.open or result is not None and result.info is not self.open[-1][0]:
            return
        info, summary, mark = self.open.pop()
        if result is not None and result.error_before_exec:
            return
        gc.collect()
        try:
            page = _report.run("--format", "html", *(["--since", str(mark)] if mark else []))
        except _report.ReportError as error:
            print("gpuleak: %s" % error, file=sys.stderr)
            return
        if not _library.active():
            print(_how(self.shell), file=sys.stderr)
        elif page is None:
            print("gpuleak: no GPU call was made")
        else:
            number = self.shell.execution_count - bool(info.store_history)
            _display(Cell("In [%d]" % number, summary, page))

    def magic(self, line, cell):
        """Runs the cell and shows what GPU memory it left: by line, kind and device, and as a flame
        graph."""
        self.shell.run_cell("%%%%gpuleak %s\n%s" % (line, cell)).raise_error()


def _display(table):
    from IPython.display import display  # the package needs IPython for this module only
    display(table)


def _without_magic(lines):
    """Removes the magic from the LINES of a cell. The line stays empty, so that the numbers of the
    others are those that the user sees, unless the next one must be the first."""
    words = lines[0].split() if lines else []
    if words[:1] != ["%%gpuleak"] or lines[0][0].isspace():
        return lines
    if words[1:]:
        from IPython.core.error import UsageError
        raise UsageError("%%%%gpuleak takes no arguments: %s" % " ".join(words[1:]))
    return lines[1:] if lines[1:] and lines[1].startswith("%%") else ["\n"] + lines[1:]


_without_magic.has_side_effects = True  # so that IPython's prompt waits for the rest of the cell


def load(shell):
    """Adds the magic to SHELL, once."""
    if _without_magic in shell.input_transformers_cleanup:
        return
    magic = Magic(shell)
    shell.input_transformers_cleanup.append(_without_magic)
    shell.events.register("pre_run_cell", magic.before)
    shell.events.register("post_run_cell", magic.after)
    shell.register_magic_function(magic.magic, "cell", "gpuleak")
