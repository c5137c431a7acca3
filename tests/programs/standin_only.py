# SPDX-License-Identifier: MIT
"""Cases that only the stand-in driver can run, by name, and why: for --real-driver. Those that
set a variable of the stand-in's (injected failures, devices) are found by that."""

SETS = "sets variables of the stand-in driver"
CRASHES = "passes a number that is no handle: a real driver crashes over it"
TEAM = "multicast takes several GPUs"

STANDIN_ONLY = {
    "a limit above the device: said once, and the device is the limit": SETS,
    "a limit is each device's own, and a percentage is of it": SETS,
    "a percentage of a device that does not tell its size: said once, and no limit": SETS,
    "all calls": "the 32-bit calls answer 201 in a real driver",
    "array destroyed twice": "a real driver crashes over it: see tests/gpu, array-twice",
    "contexts: every family that ends with one": "uses a forged IPC handle",
    "contexts: every family, freed too late": "uses a forged IPC handle",
    "graph: beside captures of each mode": "a real driver refuses to instantiate beside a capture",
    "graph: invalid streams": CRASHES,
    "multicast: a binding is left": TEAM,
    "multicast: all freed": TEAM,
    "multicast: bindings end with their object": TEAM,
    "multicast: unbind refused": TEAM,
    "multicast: unbound twice": TEAM,
    "objects destroyed by another type's call": CRASHES,
    "out of memory in any call: the pool gives back what it keeps, and the call is made again":
        SETS,
    "pool of another process": "imports in the process that exported",
    "virtual memory: bad arguments": TEAM,
    "virtual memory: imported by another process, which leaves it mapped":
        "the stand-in's descriptors may be inherited, a real driver's answered 999",
    "wrong call: handles": CRASHES,
    "wrong call: linear and pinned memory": CRASHES,
    "wrong call: mappings and reservations": CRASHES,
    "wrong call: the text says that the range was wrong, not the call": CRASHES,
}


def reason(item, name):
    """Why ITEM can't run on a real driver, or None."""
    if any(variable.startswith("STANDIN_") for variable in getattr(item, "env", None) or {}):
        return SETS
    return STANDIN_ONLY.get(name)
