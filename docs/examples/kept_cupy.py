# SPDX-License-Identifier: MIT
# Reads 50 measurements of 4 MB, and keeps one row of each. A row is a view: it keeps its whole array
# on the GPU. Argument "copy": each row is an array of its own; "host": the GPU keeps nothing.
import sys
import time

import cupy


def read(number):
    time.sleep(0.02)  # reads a file
    return cupy.zeros((1000, 1000), dtype=cupy.float32) + number  # @allocated


def first_row(number):
    row = read(number)[0]
    return row.get() if "host" in sys.argv else row.copy() if "copy" in sys.argv else row


def main():
    rows = {}
    for number in range(50):
        rows[number] = first_row(number)  # @kept
    print(sum(row.nbytes for row in rows.values()), "bytes in", len(rows), "rows")


main()
