# SPDX-License-Identifier: MIT
"""Calls the functions of gpuleak.h by ctypes. Looks them up in the process; loads and links
nothing. Has their prototypes. If the library is not preloaded, each function here returns what it
would return if nothing had ever been allocated."""

import ctypes
import errno
import os

_U64, _U32, _I32 = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int32


class SumStruct(ctypes.Structure):
    """struct gpuleak_sum"""
    _fields_ = [("size", _U64), ("kind", ctypes.c_char_p), ("thread", _U32), ("reserved", _U32),
                ("blocks", _U64), ("bytes", _U64), ("ignored_blocks", _U64),
                ("ignored_bytes", _U64), ("live_bytes", _U64), ("unrecorded_blocks", _U64),
                ("suballocation_blocks", _U64), ("suballocation_bytes", _U64),
                ("unrecorded_suballocations", _U64)]


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
    "gpuleak_step": (ctypes.c_uint, [ctypes.c_char_p]),
    "gpuleak_step_named": (ctypes.c_uint, [ctypes.c_char_p]),
    "gpuleak_report": (ctypes.c_int, []),
    "gpuleak_keepers": (ctypes.c_int, [_U64, ctypes.c_char_p]),
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


def present():
    return _function("gpuleak_mark") is not None


def _check(answer, what):
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (what, os.strerror(code)))


def mark():
    function = _function("gpuleak_mark")
    return function() if function else 0


def leaked_since(since, kind, thread):
    ret = SumStruct(size=ctypes.sizeof(SumStruct), kind=kind.encode() if kind else None,
                    thread=thread)
    function = _function("gpuleak_leaked_since")
    if function:
        _check(function(since, ctypes.byref(ret)), "gpuleak_leaked_since")
    return ret


def peak(restart):
    ret = _U64()
    function = _function("gpuleak_peak")
    if function:
        _check(function(bool(restart), ctypes.byref(ret)), "gpuleak_peak")
    return ret.value


def who(address):
    """Returns the BlockStruct of the live block that contains ADDRESS, or None."""
    ret = BlockStruct(size=ctypes.sizeof(BlockStruct))
    function = _function("gpuleak_who")
    if not function or not 0 < address < 1 << 64:
        return None
    if function(address, ctypes.byref(ret)) < 0:
        if ctypes.get_errno() == errno.ENOENT:
            return None
        _check(-1, "gpuleak_who")
    return ret


def ignore(address):
    function = _function("gpuleak_ignore")
    return bool(function) and 0 < address < 1 << 64 and function(address) == 0


def ignore_begin():
    function = _function("gpuleak_ignore_begin")
    if function:
        function()


def ignore_end():
    function = _function("gpuleak_ignore_end")
    if function:
        function()


def step(name):
    function = _function("gpuleak_step_named")
    if not function:
        return 0
    return function(name.encode(errors="replace") if name is not None else None)


def report_now():
    function = _function("gpuleak_report")
    return bool(function) and function() == 0


def keepers(site, text):
    """Stores TEXT, what keeps the blocks of call site SITE, in the ledger. Returns True if it
    did."""
    function = _function("gpuleak_keepers")
    return bool(function) and function(site, text.encode("utf-8", "replace")) == 0


def doublings():
    function = _function("gpuleak_doublings")
    return function() if function else 0


def report_live():
    """Returns the JSON report on live memory, with addresses, as text, or None."""
    function = _function("gpuleak_report_live")
    if not function:
        return None
    file = os.memfd_create("gpuleak")
    try:
        if function(file) < 0:
            return None
        return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace")
    finally:
        os.close(file)


def path(name):
    """Returns the path that NAME, gpuleak_ledger or gpuleak_command, stores, or None."""
    function = _function(name)
    room = ctypes.create_string_buffer(8192)
    if not function or function(room, len(room)) < 0:
        return None
    return os.fsdecode(room.value)


def pool_stats():
    """Returns the counters by name, or {} if there is no pool and no limit."""
    ret = PoolStruct(size=ctypes.sizeof(PoolStruct))
    function = _function("gpuleak_pool_stats")
    if not function or function(ctypes.byref(ret)) < 0:
        return {}
    return {name: getattr(ret, name) for name in _POOL_FIELDS}


def pool_trim():
    function = _function("gpuleak_pool_trim")
    return function() if function else 0
