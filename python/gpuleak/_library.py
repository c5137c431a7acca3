# SPDX-License-Identifier: MIT
"""Calls the functions of gpuleak.h by ctypes. Looks them up in the process; loads and links
nothing. Has their prototypes. If the library is not preloaded, each function here returns what it
would return if nothing had ever been allocated."""

import ctypes
import os
import sys

_U64, _U32, _I32 = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int32


class SumStruct(ctypes.Structure):
    """struct gpuleak_sum"""
    _fields_ = [("size", _U64), ("kind", ctypes.c_char_p), ("thread", _U32), ("reserved", _U32),
                ("blocks", _U64), ("bytes", _U64), ("ignored_blocks", _U64),
                ("ignored_bytes", _U64), ("live_bytes", _U64), ("unrecorded_blocks", _U64),
                ("suballocation_blocks", _U64), ("suballocation_bytes", _U64),
                ("unrecorded_suballocations", _U64), ("ended_blocks", _U64),
                ("ended_bytes", _U64)]


class BlockStruct(ctypes.Structure):
    """struct gpuleak_block"""
    _fields_ = [("size", _U64), ("pcs", ctypes.POINTER(_U64)), ("pcs_room", _U32),
                ("pcs_count", _U32), ("address", _U64), ("bytes", _U64), ("span", _U64),
                ("context", _U64), ("parent", _U64), ("time_ns", _U64), ("mark", _U64),
                ("thread", _U32), ("references", _U32), ("device", _I32), ("flags", _U32),
                ("api", ctypes.c_char * 64), ("kind", ctypes.c_char * 32)]


_POOL_FIELDS = (
    "mode", "turned_off", "used_bytes", "cached_bytes", "pending_bytes", "reserved_bytes",
    "waste_bytes", "peak_used_bytes", "peak_reserved_bytes", "hits", "native_allocations",
    "native_frees", "frees", "native_calls_saved", "tickets", "shared_tickets", "waits",
    "wait_ns", "trims", "trimmed_blocks", "trimmed_bytes", "rescued", "refused",
    "injected_failures")


class PoolStruct(ctypes.Structure):
    """struct gpuleak_pool_stats"""
    _fields_ = [(name, _U64) for name in ("size",) + _POOL_FIELDS]


_PROTOTYPES = {
    "gpuleak_mark": (_U64, []),
    "gpuleak_leaked_since": (ctypes.c_int, [_U64, ctypes.POINTER(SumStruct)]),
    "gpuleak_peak": (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(_U64)]),
    "gpuleak_who": (ctypes.c_int, [_U64, ctypes.POINTER(BlockStruct)]),
    "gpuleak_ignore": (ctypes.c_int, [_U64]),
    "gpuleak_ignore_begin": (None, []),
    "gpuleak_ignore_end": (None, []),
    "gpuleak_ledger": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t]),
    "gpuleak_command": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t]),
    "gpuleak_pool_stats": (ctypes.c_int, [ctypes.POINTER(PoolStruct)]),
    "gpuleak_pool_trim": (ctypes.c_size_t, []),
    "gpuleak_step_named": (ctypes.c_uint, [ctypes.c_char_p]),
    "gpuleak_range_begin": (None, [ctypes.c_char_p]),
    "gpuleak_range_end": (None, []),
    "gpuleak_report": (ctypes.c_int, []),
    "gpuleak_keepers": (ctypes.c_int, [_U64, ctypes.c_char_p]),
    "gpuleak_segment": (ctypes.c_int, [_U64, _U64, _U64, _U64]),
    "gpuleak_doublings": (_U64, []),
    "gpuleak_report_live": (ctypes.c_int, [ctypes.c_int]),
}

_process = None


def _function(name):
    """Returns the function NAME of the preloaded library, or None."""
    global _process
    if _process is None:
        # Not PyDLL: the functions may wait for a lock, so the calls must release the GIL.
        _process = ctypes.CDLL(None, use_errno=True)
    try:
        function = getattr(_process, name)
    except AttributeError:
        return None
    function.restype, function.argtypes = _PROTOTYPES[name]
    return function


def _call(name, *arguments, default=-1):
    """Calls the function NAME. Returns DEFAULT if the library is not preloaded."""
    function = _function(name)
    return function(*arguments) if function else default


def _check(name, *arguments):
    """Calls the function NAME, and raises OSError if it fails."""
    if _call(name, *arguments, default=0) < 0:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (name, os.strerror(code)))


def _is_address(number):
    return 0 < number < 1 << 64


def active():
    """Returns True if libgpuleak.so is preloaded in this process."""
    return _function("gpuleak_mark") is not None


def mark():
    """Returns a number for this moment, for leaked_since(). It is exact which blocks were
    allocated before the mark, and which after it."""
    return _call("gpuleak_mark", default=0)


def leaked_since(since, kind, thread):
    ret = SumStruct(size=ctypes.sizeof(SumStruct), kind=kind.encode() if kind else None,
                    thread=thread)
    _check("gpuleak_leaked_since", since, ctypes.byref(ret))
    return ret


def peak(restart=False):
    """Returns the highest number of live bytes since the last peak(restart=True), or since the
    start. RESTART: begins a new measurement."""
    ret = _U64()
    _check("gpuleak_peak", bool(restart), ctypes.byref(ret))
    return ret.value


def who(address):
    """Returns the BlockStruct of the live block that contains ADDRESS, or None."""
    ret = BlockStruct(size=ctypes.sizeof(BlockStruct))
    if not active() or not _is_address(address):
        return None
    try:
        _check("gpuleak_who", address, ctypes.byref(ret))
    except FileNotFoundError:  # ENOENT: there is no such block
        return None
    return ret


def ignore(address):
    return _is_address(address) and _call("gpuleak_ignore", address) == 0


def ignore_begin():
    _call("gpuleak_ignore_begin")


def ignore_end():
    _call("gpuleak_ignore_end")


def step(name):
    return _call("gpuleak_step_named", name if name is None else name.encode(errors="replace"),
                 default=0)


def range_begin(name):
    _call("gpuleak_range_begin", name.encode(errors="replace"))


def range_end():
    _call("gpuleak_range_end")


def report_now():
    """Makes the library write its report to the place in GPULEAK_REPORT, and waits until it is
    written. Returns True if it was."""
    return _call("gpuleak_report") == 0


def keepers(site, text):
    """Stores TEXT, what keeps the blocks of call site SITE, in the ledger. Returns True if it
    did."""
    return _call("gpuleak_keepers", site, text.encode("utf-8", "replace")) == 0


def segment(address, size, stream, pool):
    """Stores the stream and the private pool, a pair of numbers, that a cache's memory is for.
    Returns True if it did."""
    return _call("gpuleak_segment", address, size, stream, pool[0] << 32 | pool[1]) == 0


def store_segments(print_error):
    """Stores for which stream PyTorch has each segment of its cache."""
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            for one in torch.cuda.memory_snapshot():
                segment(one["address"], one["total_size"], one["stream"],
                        one.get("segment_pool_id", (0, 0)))
    except Exception as error:  # pylint: disable=broad-except
        print_error("the streams of PyTorch's cache cannot be read: %s: %s"
                    % (type(error).__name__, error))


def doublings():
    return _call("gpuleak_doublings", default=0)


def report_live():
    """Returns the JSON report on live memory, with addresses, as text, or None."""
    file = os.memfd_create("gpuleak")
    try:
        if _call("gpuleak_report_live", file) < 0:
            return None
        return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace")
    finally:
        os.close(file)


def path(name):
    """Returns the path that NAME, gpuleak_ledger or gpuleak_command, stores, or None."""
    room = ctypes.create_string_buffer(8192)
    return os.fsdecode(room.value) if _call(name, room, len(room)) >= 0 else None


def pool_stats():
    """Returns the counters of gpuleak's pool by name (see gpuleak.h), or {} if no pool and no
    limit is on."""
    ret = PoolStruct(size=ctypes.sizeof(PoolStruct))
    if _call("gpuleak_pool_stats", ctypes.byref(ret)) < 0:
        return {}
    return {name: getattr(ret, name) for name in _POOL_FIELDS}


def pool_trim():
    """Gives the unused blocks of gpuleak's pool back to the driver. Returns their bytes."""
    return _call("gpuleak_pool_trim", default=0)
