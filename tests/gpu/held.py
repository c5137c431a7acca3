#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""held.py REPORT OUTPUT: what a report says of the driver's own memory, beside what nvidia-smi
said in the program's output ("smi MiB: N")."""
import json
import re
import sys

MIB = 1 << 20


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        devices = json.load(file).get("devices", [])
    with open(sys.argv[2], encoding="utf-8") as file:
        smi = [int(n) for n in re.findall(r"^smi MiB: (\d+)", file.read(), re.M)]
    if len(devices) != 1:
        print("DIFFERENT: figures of %d devices" % len(devices))
        return
    device = devices[0]
    grown = device["grown_most"] or {}
    call = grown.get("call") or {"api": None, "stack": []}
    print("%s %s: tracked %d MiB, held %d, driver's %d, %d samples in %.2f s; nvidia-smi %s: %s" % (
        device["source"], device["name"], device["tracked_bytes"] // MIB,
        device["held_bytes"] // MIB, device["driver_bytes"] // MIB, device["samples_taken"],
        device["last"][0] / 1e9, smi,
        "not asked" if not smi else
        "EQUAL" if device["last"][2] // MIB == smi[-1] else "DIFFERENT"))
    print("grown most: %s MiB between %.3f and %.3f s, %s calls, %s at %s" % (
        grown.get("bytes", 0) // MIB, grown.get("from_ns", 0) / 1e9, grown.get("to_ns", 0) / 1e9,
        grown.get("calls"), call["api"],
        [frame["function"] for frame in call["stack"]][:3]))
    seen = []
    for at, tracked, held in device["samples"]:
        if not seen or seen[-1][1:] != (tracked // MIB, held // MIB):
            seen.append((round(at / 1e9, 3), tracked // MIB, held // MIB))
    print("changes (s, tracked MiB, held MiB): %s" % seen)


main()
