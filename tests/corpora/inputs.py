#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes made-up inputs for Rodinia's programs, whose data sets are a separate download.

    inputs.py DIR       DIR is the folder `data` beside Rodinia's folders `cuda` and `opencl`

The values are the same in every run. Owns no knowledge of how a program is built or run."""

import os
import random
import sys


def bfs(write, rng, nodes=65536, degree=6):
    edges = [[rng.randrange(nodes) for _ in range(degree)] for _ in range(nodes)]
    lines = [str(nodes)] + ["%d %d" % (i * degree, degree) for i in range(nodes)]
    lines += ["", "0", "", str(nodes * degree)] + ["%d 1" % e for node in edges for e in node]
    write("bfs/graph65536.txt", "\n".join(lines) + "\n")


def grids(write, rng):
    for name, low, high in ("hotspot/temp_512", 320, 340), ("hotspot/power_512", 0, 0.001):
        write(name, "".join("%f\n" % rng.uniform(low, high) for _ in range(512 * 512)))
    for name, low, high in ("hotspot3D/temp_64x8", 320, 340), ("hotspot3D/power_64x8", 0, 0.001):
        write(name, "".join("%f\n" % rng.uniform(low, high) for _ in range(64 * 64 * 8)))


def cfd(write, rng, elements=8192):
    lines = [str(elements)]
    for i in range(elements):
        row = ["%f" % rng.uniform(0.5, 1.5)]
        for step in (1, -1, 64, -64):
            row.append("%d" % (i + step + 1 if 0 <= i + step < elements else -1))
            row += ["%f" % rng.uniform(-0.1, 0.1) for _ in range(3)]
        lines.append(" ".join(row))
    write("cfd/fvcorr.domn.097K", "\n".join(lines) + "\n")


def trees(write, rng):
    keys = rng.sample(range(1, 1000000), 65536)
    write("b+tree/mil.txt", "%d\n%s\n" % (len(keys), "\n".join(map(str, keys))))
    write("b+tree/command.txt", "j 600 300\nk 1000\n")


def points(write, rng):
    write("kmeans/kdd_cup", "".join("%d %s\n" % (i, " ".join("%.3f" % rng.random() for _ in range(34)))
                                    for i in range(8192)))
    for i in range(4):
        write("nn/cane4_%d.db" % i, "".join(
            "1950  1  1  0  1 NAME%08d  %5.1f%5.1f  %3d  %3d\n" %
            (j, rng.uniform(0, 60), rng.uniform(0, 99), rng.randrange(200), rng.randrange(900))
            for j in range(2048)))


def raw(write, rng):
    write("huffman/test1024_H2.206587175259.in", bytes(rng.choice(b"aaaabbcd") for _ in range(1 << 20)))
    write("dwt2d/192.bmp", bytes(54) + bytes(rng.randrange(256) for _ in range(192 * 192 * 3)))
    write("myocyte/y.txt", "".join("%f\n" % rng.uniform(0.01, 1) for _ in range(91)))
    write("myocyte/params.txt", "".join("%f\n" % rng.uniform(0.01, 1) for _ in range(18)))
    write("srad/image.pgm", "P2\n# made up\n458 502\n255\n" +
          "".join("%d\n" % rng.randrange(256) for _ in range(458 * 502)))


def main():
    root = sys.argv[1]

    def write(name, content):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())

    for make in bfs, grids, cfd, trees, points, raw:
        make(write, random.Random(make.__name__))


if __name__ == "__main__":
    main()
