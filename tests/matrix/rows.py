# SPDX-License-Identifier: MIT
"""What a row of the matrix is made of. No row is here."""

import dataclasses


class Any:
    """Equal to everything: a driver's own affair."""

    def __eq__(self, _):
        return True

    def __repr__(self):
        return "anything"


ANY = Any()


# Calls that make a block of what is there already: GPULEAK_FAIL_AT does not mean them.
OPENS = {"cuMemPoolImportFromShareableHandle", "cuMemPoolImportPointer", "cuIpcOpenMemHandle",
         "cuIpcOpenMemHandle_v2", "cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer",
         "cuExternalMemoryGetMappedMipmappedArray", "cuMemImportFromShareableHandle"}

# Kinds of blocks whose bytes are not in device memory, or another block's.
ELSEWHERE = ("pinned", "registered", "cl-sub-buffer")


def held(row):
    """Bytes that count against the limit of device 0."""
    return row.bytes if row.device == 0 and row.kind not in ELSEWHERE else 0


@dataclasses.dataclass
class Need:
    """Something that a family's calls take: a block that is made once and stays."""
    make: str
    given: str
    kind: str
    bytes: int
    device: int = 0


@dataclasses.dataclass
class Family:
    name: str
    kind: str
    bytes: int
    make: str        # the call that makes a block,
    given: str       # and its arguments, in C
    drop: str        # the call that ends it
    back: str
    again: object    # what the driver answers when it is ended a second time; None: anything
    bad: list = dataclasses.field(default_factory=list)  # (arguments, answer): makes nothing
    needs: str = ""
    also: str = ""      # further calls that the cell is about
    blocks: int = 1     # 0: this driver can't make one, and nothing is recorded
    made: int = 0       # what `make` then answers,
    dropped: int = 0    # and what `drop` does
    fails: object = None  # what it answers when the driver is made to fail, if not the API's code
    refused: object = 1  # frees counted as refused when `drop` fails; None: it can't fail
    device: int = 0
    passing: int = 0    # blocks of no bytes that `make` also makes, and ends again
    told: object = None  # bytes that an error gives the block, if not `bytes`
    forgiven: bool = False  # a second end is no error
    # Where the second end is another call than the first, or the first is another thread's:
    twice: str = ""     # its expression in C,
    again_by: str = ""  # its name;
    ended_by: str = ""  # the call that a report must name as the first end, if not `drop`,
    freed_in: tuple = ()  # and the functions in its stack
    again_told: object = None  # the result in the error, where the driver may die instead
