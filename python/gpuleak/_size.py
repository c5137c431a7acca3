# SPDX-License-Identifier: MIT
"""Parses and formats sizes: "1.5 GiB"."""

import re

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS[_letter] = _UNITS[_letter + "IB"] = 1 << 10 * _power
    _UNITS[_letter + "B"] = 1000 ** _power


def parse_size(size):
    """Returns the number of bytes of SIZE: 4096, "4096", "64 KiB", "1.5 GiB". "50 MB" is decimal, as
    in the options of the command: 50,000,000. "50 M" is 50 MiB."""
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size) \
        if isinstance(size, str) else None
    if not found or found.group(2).upper() not in _UNITS:
        raise ValueError("bad size %r: expected is a number of bytes, or a text such as "
                         "'4096', '64 KiB', '1.5 GiB'" % (size,))
    return int(float(found.group(1)) * _UNITS[found.group(2).upper()]) \
        if "." in found.group(1) else int(found.group(1)) * _UNITS[found.group(2).upper()]


def format_size(size):
    """Returns "1,536 bytes (1.5 KiB)" for 1536. Rounds down, as the text report does."""
    exact = "%s byte%s" % (format(size, ","), "" if size == 1 else "s")
    if size < 1024:
        return exact
    scaled = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        scaled /= 1024
        if scaled < 1024 or unit == "TiB":
            break
    return "%s (%.1f %s)" % (exact, int(scaled * 10) / 10, unit)


def plural(count, what):
    return "%s %s%s" % (format(count, ","), what, "" if count == 1 else "s")
