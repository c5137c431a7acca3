# SPDX-License-Identifier: MIT
"""Reads a ledger without gpuleak's reader, so that tests can hold the two against each other."""

import struct


def live_in(path):
    """Blocks and bytes of the live suballocations of a ledger, read without gpuleak's reader."""
    with open(path, "rb") as file:
        data = file.read()
    blocks = size = 0
    for chunk in range(16384, len(data) - 16383, 16384):
        kind, used = struct.unpack_from("II", data, chunk)
        for at in range(chunk + 64, chunk + used, 64) if kind == 25 else ():
            state, _, _, block_bytes = struct.unpack_from("IIQQ", data, at)
            if state & 0xff == 1:
                blocks, size = blocks + 1, size + block_bytes
    return blocks, size
