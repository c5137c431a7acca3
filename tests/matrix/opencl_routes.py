# SPDX-License-Identifier: MIT
"""Every route to OpenCL. `given` and the extensions go through giver.c, a loader under another
name in front of the real one, which can also be told to fail."""

import ctypes.util
import os
import subprocess

ROUTES = {
    "linked": "linked", "default": "linked", "handle": "unlinked", "plugin": "plugin",
    "given": "unlinked", "extension": "unlinked", "extension of platform": "unlinked",
}
FATES = ("leaked", "freed", "twice", "bad", "make fails", "drop fails")
OF_FATE = {"make fails": "leaked", "drop fails": "freed"}


class Routes:
    name = "opencl"
    logs = False  # whether what reached the driver can be read
    refusal = -5  # CL_OUT_OF_RESOURCES
    failure = -5

    def __init__(self, table, options):
        self.table = table
        self.programs = options.programs
        self.left_out = []

    def unable(self):
        if not os.path.exists(os.path.join(self.programs, "matrix-opencl-linked")):
            return "no OpenCL to link with"
        if not ctypes.util.find_library("OpenCL"):
            return "no OpenCL loader"
        if not self.can_make("buffer"):
            return "no OpenCL device"
        if self.can_make("pipe"):  # then programs, "a pipe is recorded exactly", sees one
            self.left_out.append("pipe")
        return None

    def can_make(self, family):
        argv = [os.path.join(self.programs, "matrix-opencl-linked"), "linked", "leaked", family]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return done.stdout.decode() == family + ": make 0\n"

    def batches(self, families):
        for route in ROUTES:
            for fate in FATES:
                if fate in OF_FATE and ROUTES[route] != "unlinked" or \
                   fate in OF_FATE and route == "handle":
                    continue  # only the giver can be told to fail
                chosen = [f for f in families if self.has_cell(f, fate)]
                if fate == "twice":
                    yield from ((route, fate, [family]) for family in chosen)
                else:
                    yield route, fate, chosen

    def has_cell(self, family, fate):
        if family.name in self.left_out:
            return False
        if fate == "bad":
            return bool(family.bad)
        if fate == "drop fails":
            return family.refused is not None and family.blocks
        return fate not in ("twice", "make fails") or family.blocks

    def reported(self, _, symbol):
        return symbol

    def outer(self, route):
        return ["run_cells"] + (["matrix_main"] if route == "plugin" else []) + ["main"]

    def is_deadly(self, batch):
        """A second release is the end of PoCL, now and then."""
        return batch.fate == "twice"

    def command(self, batch):
        argv = [os.path.join(self.programs, "matrix-opencl-" + ROUTES[batch.route])]
        if batch.route == "plugin":
            argv = [os.path.join(self.programs, "matrix-opener"),
                    os.path.join(self.programs, "libmatrix-opencl-plugin.so")]
        env = {"MATRIX_LOADER": os.path.join(self.programs, "libOpenCL-giver.so")
               if batch.route not in ("handle", "linked", "default", "plugin") else
               ctypes.util.find_library("OpenCL")}
        if batch.fate == "make fails":
            env["GIVER_NOTHING"] = str(1 + len(batch.needs()))
        elif batch.fate == "drop fails":
            env["GIVER_REFUSES"] = "1"
        argv += [batch.route, OF_FATE.get(batch.fate, batch.fate)]
        return argv + [family.name for family in batch.families], env
