# SPDX-License-Identifier: MIT
"""Every route to the CUDA driver: which program takes it, and by which names it shows."""

import os
import subprocess

from generate import resolver_rows
from rows import OPENS, held

# By symbol and by linker; then what each resolver hands out, the resolver itself included.
# RTLD_NEXT is asked by the program: asked by a library behind the preload, it is the next one
# by right, and no wrapper may stand in for it.
ROUTES = {
    "linked": "linked", "default": "linked", "next": "linked", "handle": "unlinked",
    "plugin": "plugin", "resolver-4": "unlinked", "resolver-5": "unlinked",
    "self-4": "unlinked", "self-5": "unlinked", "per-thread-5": "unlinked",
}
FATES = ("leaked", "freed", "twice", "bad", "make fails", "drop fails", "drop late",
         "make refused")
OF_FATE = {"make fails": "leaked", "drop fails": "freed", "drop late": "freed"}
OWN_FATES = {"make refused": "leaked", "refused once": "once", "limited": "limited"}


def refusing(batch):
    """What makes gpuleak refuse what the cells of BATCH make, and not what they need."""
    needs = [need for _, need in batch.needs()]
    first = 1 + sum(need.make not in OPENS for need in needs)
    return {"make refused": {"GPULEAK_FAIL_AT": f"{first}+"},
            "refused once": {"GPULEAK_FAIL_AT": str(first)},
            "limited": {"GPULEAK_LIMIT": str(sum(map(held, needs + batch.families)))},
            }.get(batch.fate, {})


class Routes:
    name = "cuda"
    logs = True  # whether what reached the driver can be read
    refusal = 999  # of no meaning that could end a block
    failure = 2
    exhausted = 2

    def __init__(self, table, options):
        self.table = table
        self.programs = options.programs
        self.standin = options.standin
        here = os.path.dirname(os.path.abspath(__file__))
        self.resolver = resolver_rows(os.path.join(here, "..", "..", "standin", "driver", "resolver.def"))
        self.handles = None

    def unable(self):
        return None

    def batches(self, families):
        for route in ROUTES:
            for fate in FATES:
                chosen = [f for f in families if fate != "bad" or f.bad]
                # What makes one may be what ends another: not to be failed together.
                alone = [f for f in chosen if f.passing and fate in OF_FATE]
                yield route, fate, [f for f in chosen if f not in alone]
                yield from ((route, fate, [f]) for f in alone)
        for family in families:
            if family.make not in OPENS:
                yield "linked", "refused once", [family]
            if held(family):
                yield "linked", "limited", [family]

    def reported(self, route, symbol):
        """The function behind SYMBOL's base name when per-thread streams are asked for."""
        if route == "per-thread-5":
            base, since, _ = self.resolver[symbol]
            for other, what in self.resolver.items():
                if what == (base, since, 1):
                    return other
        return symbol

    def outer(self, route):
        return ["run_cells"] + (["matrix_main"] if route == "plugin" else []) + ["main"]

    def traced(self, _, library):
        return {"LD_PRELOAD": library}

    def skipped_modules(self, _):
        return None

    def is_deadly(self, _):
        return False

    def faults(self, batch):
        """STANDIN_FAIL: each of these calls from the first one of a cell on."""
        if batch.fate not in OF_FATE:
            return None
        code = {"make fails": self.failure, "drop fails": self.refusal, "drop late": 700}[batch.fate]
        prepared = [self.reported(batch.route, need.make) for _, need in batch.needs()]
        calls = {self.reported(batch.route, f.make if batch.fate == "make fails" else f.drop)
                 for f in batch.families}
        return ",".join(f"{call}:{1 + prepared.count(call)}+={code}" for call in sorted(calls))

    def ipc_handles(self):
        """From a process that is another one, and not traced."""
        if not self.handles:
            made = subprocess.run(
                [os.path.join(self.programs, "matrix-cuda-unlinked"), "handle", "export"],
                env={"LD_LIBRARY_PATH": self.standin}, stdout=subprocess.PIPE, check=True)
            self.handles = made.stdout.decode()
        return self.handles

    def command(self, batch):
        argv = [os.path.join(self.programs, "matrix-cuda-" + ROUTES[batch.route])]
        if batch.route == "plugin":
            argv = [os.path.join(self.programs, "matrix-opener"),
                    os.path.join(self.programs, "libmatrix-cuda-plugin.so")]
        argv += [batch.route, {**OF_FATE, **OWN_FATES}.get(batch.fate, batch.fate)]
        env = {"MATRIX_IPC": self.ipc_handles()}
        faults = self.faults(batch)
        if faults:
            env["STANDIN_FAIL"] = faults
        env.update(refusing(batch))
        return argv + [family.name for family in batch.families], env
