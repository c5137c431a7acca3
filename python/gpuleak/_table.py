# SPDX-License-Identifier: MIT
"""A table of memory by line, kind and device, as text, HTML and a list of dicts. Has no words about
leaks and runs no command."""

import collections.abc
import html

from ._size import format_size, plural

COLUMNS = ("line", "kind", "device", "bytes", "blocks")


def _sums(leaks, place):
    """Returns a dict for each line, kind and device of LEAKS, largest first."""
    ret = {}
    for leak in leaks:
        device = None if leak.device is None or leak.device < 0 else leak.device
        row = ret.setdefault((place(leak), leak.what, device), {
            "line": place(leak), "kind": leak.what, "device": device, "bytes": 0, "blocks": 0})
        row["bytes"] += leak.bytes
        row["blocks"] += leak.blocks
    return sorted(ret.values(), key=lambda row: -row["bytes"])


def _cells(row):
    return [row["line"], row["kind"], "" if row["device"] is None else str(row["device"]),
            format(row["bytes"], ","), format(row["blocks"], ",")]


class Table(collections.abc.Sequence):
    """`rows` is a list of dicts with the keys of COLUMNS, largest first, so pandas.DataFrame(table)
    works. print(table) and a notebook show it. `title` is the line above it; `bytes` and `blocks`
    are the sums."""

    def __init__(self, leaks, title, place=lambda leak: leak.place):
        self.rows = _sums(leaks, place)
        self.bytes, self.blocks = (sum(row[key] for row in self.rows)
                                   for key in ("bytes", "blocks"))
        self.title = title.format(format_size(self.bytes), plural(self.blocks, "block"))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        return self.rows[at]

    def __repr__(self):
        lines = [list(COLUMNS)] + [_cells(row) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join([self.title] + ["  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths)))
            for line in lines if self.rows])

    def _repr_html_(self):
        def line(tag, cells):
            return "<tr>%s</tr>" % "".join('<%s style="text-align:%s">%s</%s>' % (
                tag, "left" if at < 2 else "right", html.escape(cell), tag)
                for at, cell in enumerate(cells))

        title = "<p>%s</p>" % html.escape(self.title)
        return title if not self.rows else "%s<table><thead>%s</thead><tbody>%s</tbody></table>" % (
            title, line("th", COLUMNS), "".join(line("td", _cells(row)) for row in self.rows))
