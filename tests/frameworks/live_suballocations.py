# SPDX-License-Identifier: MIT
"""Reads a ledger without gpuleak's reader, so that tests can hold the two against each other."""

import struct


def slots(data):
    """State and bytes of each slot for a suballocation."""
    for chunk in range(16384, len(data) - 16383, 16384):
        kind, used = struct.unpack_from("II", data, chunk)
        for at in range(chunk + 64, chunk + used, 64) if kind == 25 else ():
            state, _, _, size = struct.unpack_from("IIQQ", data, at)
            yield state & 0xff, size


def content(path):
    with open(path, "rb") as file:
        return file.read()


def live_in(path):
    """Blocks and bytes of the live suballocations of a ledger, read without gpuleak's reader."""
    live = [size for state, size in slots(content(path)) if state == 1]
    return len(live), sum(live)


def slots_in(path):
    """The number of slots that the writer used or set aside."""
    return len(list(slots(content(path))))
