#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times a program's loop as turns.py does, with other ways: under levels of the guard. Measures
PyTorch's steps without its cache, too: what --bypass-pools alone takes.

    guard_turns.py LIBRARY GROUPS TURNS COMMAND..."""

import os

import turns

BYPASSED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
turns.WAYS = {
    "bare": {},
    "bare again": {},
    "gpuleak": {"LD_PRELOAD": "LIBRARY"},
    "copies": {"LD_PRELOAD": "LIBRARY", "GPULEAK_GUARD": "copies"},
    "bypassed no gpuleak": BYPASSED,
    "bypassed all levels": dict(BYPASSED, LD_PRELOAD="LIBRARY",
                                 GPULEAK_GUARD="copies,patterns,pages"),
}
if "WAYS" in os.environ:  # only these, with commas
    turns.WAYS = {name: turns.WAYS[name] for name in os.environ["WAYS"].split(",")}
turns.main()
