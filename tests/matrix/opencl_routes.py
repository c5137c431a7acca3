# SPDX-License-Identifier: MIT
"""Every route to OpenCL. `given` and the extensions go through giver.c, a loader under another
name in front of the real one, which can also be told to fail."""

import ctypes.util
import os
import subprocess

from cuda_routes import OWN_FATES, refusing
from rows import held

ROUTES = {
    "linked": "linked", "default": "linked", "handle": "unlinked", "plugin": "plugin",
    "given": "unlinked", "extension": "unlinked", "extension of platform": "unlinked",
}
# As a layer of the loader, without and with the preload; on when the library can be one.
LAYERS = {"layer": "linked", "layer and preload": "linked"}
FATES = ("leaked", "freed", "twice", "bad", "make fails", "drop fails", "make refused")
OF_FATE = {"make fails": "leaked", "drop fails": "freed"}


class Routes:
    name = "opencl"
    logs = False  # whether what reached the driver can be read
    refusal = -5  # CL_OUT_OF_RESOURCES
    failure = -5
    exhausted = -4  # CL_MEM_OBJECT_ALLOCATION_FAILURE

    def __init__(self, table, options):
        self.table = table
        self.programs = options.programs
        self.left_out = []
        self.routes = dict(ROUTES)
        with open(options.preload, "rb") as file:
            if b"clInitLayer\0" in file.read():
                self.routes.update(LAYERS)

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
        for number, route in enumerate(self.routes):
            for fate in FATES:
                if fate in OF_FATE and not self.through_giver(route):
                    continue  # only the giver can be told to fail
                chosen = [f for f in families if self.has_cell(f, fate)]
                if fate == "twice":  # a process each: every family, but by one route only
                    yield from ((route, fate, [family])
                                for family in chosen[number::len(self.routes)])
                else:
                    yield route, fate, chosen
        for family in families:
            if family.blocks and self.has_cell(family, "freed"):
                yield "given", "refused once", [family]
                if held(family):
                    yield "linked", "limited", [family]

    def through_giver(self, route):
        return self.routes[route] == "unlinked" and route != "handle"

    def traced(self, route, library):
        ret = {"OPENCL_LAYERS": library} if route in LAYERS else {}
        return ret if route == "layer" else dict(ret, LD_PRELOAD=library)

    def skipped_modules(self, route):
        """A layer is called by the loader, whose frame may stand in a stack, and ours."""
        return r"libOpenCL|libgpuleak" if route in LAYERS else None

    def has_cell(self, family, fate):
        if family.name in self.left_out:
            return False
        if fate == "bad":
            return bool(family.bad)
        if fate == "drop fails":
            return family.refused is not None and family.blocks
        return fate not in ("twice", "make fails", "make refused") or family.blocks

    def reported(self, _, symbol):
        return symbol

    def outer(self, route):
        return ["run_cells"] + (["matrix_main"] if route == "plugin" else []) + ["main"]

    def is_deadly(self, batch):
        """A second release is the end of PoCL, now and then."""
        return batch.fate == "twice"

    def command(self, batch):
        argv = [os.path.join(self.programs, "matrix-opencl-" + self.routes[batch.route])]
        if batch.route == "plugin":
            argv = [os.path.join(self.programs, "matrix-opener"),
                    os.path.join(self.programs, "libmatrix-opencl-plugin.so")]
        env = {"MATRIX_LOADER": os.path.join(self.programs, "libOpenCL-giver.so")
               if self.through_giver(batch.route) else ctypes.util.find_library("OpenCL")}
        if batch.fate == "make fails":
            env["GIVER_NOTHING"] = str(1 + len(batch.needs()))
        elif batch.fate == "drop fails":
            env["GIVER_REFUSES"] = "1"
        elif batch.fate == "make refused":
            env["GIVER_NOTHING"] = str(1 + len(batch.needs()))
            env["GIVER_DIES"] = "1"
        env.update(refusing(batch))
        argv.append("linked" if batch.route in LAYERS else batch.route)
        argv.append({**OF_FATE, **OWN_FATES}.get(batch.fate, batch.fate))
        return argv + [family.name for family in batch.families], env
