# SPDX-License-Identifier: MIT
# Keeps a row of each of ten large arrays. A view keeps its whole array.
import cupy


def first_row(number):
    measured = cupy.zeros((1000, 1000), dtype=cupy.float32) + number  # @kept
    return measured[0]


rows = {}
for number in range(10):
    rows[number] = first_row(number)
pinned = [cupy.cuda.alloc_pinned_memory(5000) for _ in range(3)]  # @pinned
print(sum(row.nbytes for row in rows.values()), "bytes in", len(rows), "rows")
