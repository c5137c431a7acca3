# SPDX-License-Identifier: MIT
"""Reads the objects of the interpreter while other threads of the program may run. Owns the rule
which of them the search may refer to. Calls no code of the program.

C code fills a tuple or a frozenset before anything else refers to it, and fails with SystemError if
something else does: _PyTuple_Resize(), PyTuple_SetItem() and PySet_Add() need the only reference.
`tuple(generator)` runs the program's Python code meanwhile. The garbage collector lists such an
object from its first moment. So the search never takes a tuple or a frozenset from the collector.
It takes those that another object or a variable refers to: these are complete."""

import collections
import contextlib
import gc
import itertools
import operator
import sys

from ._report import ReportError

_FILLED = frozenset((id(tuple), id(frozenset)))  # ids of the types whose objects C code fills
_WITH_SLOTS = (list, tuple)  # C code fills their slots in order

NO_LOCK = "this free-threaded Python runs without its lock (the GIL), so objects change while they " \
    "are searched: set PYTHON_GIL=1"


def check_lock():
    """Raises ReportError if threads run while the search does not let them."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ReportError(NO_LOCK)


def is_filled(obj):
    """Whether OBJ is a tuple or a frozenset, which may be incomplete."""
    return id(type(obj)) in _FILLED


def _are_of(objects, ids):
    """For each of OBJECTS whether its type has one of these IDS. Compares no types, whose metaclass may
    have code."""
    return map(ids.__contains__, map(id, map(type, objects)))


def _are_not_filled(objects):
    return map(operator.not_, _are_of(objects, _FILLED))


def _in_one_call(*steps):
    """Runs all STEPS, iterators in C code. The interpreter switches threads only between two of its
    instructions, so no other thread runs until the last step has ended."""
    collections.deque(itertools.chain.from_iterable(steps), 0)


def _select(function, arguments, are_wanted=_are_not_filled, with_ids=True):
    """What FUNCTION(*ARGUMENTS) of the collector returns, as far as ARE_WANTED(list) yields true: by
    default without tuples and frozensets. And the ids of these if WITH_IDS.

    No step allocates an object that the collector tracks while `every` refers to something: before
    3.12 that may start a collection, which runs destructors and so other threads."""
    every, found, ids = [], [], []
    others = itertools.compress(every, are_wanted(every))
    filled = itertools.compress(map(id, every), _are_of(every, _FILLED))
    try:
        _in_one_call(map(every.extend, itertools.starmap(function, (arguments,))),
                     map(found.extend, (others,)),
                     map(ids.extend, (filled,) if with_ids else ()),
                     itertools.starmap(every.clear, ((),)))
    finally:
        every.clear()  # after a MemoryError
    return found, ids


@contextlib.contextmanager
def objects(with_ids=False):
    """All objects of the collector but tuples and frozensets, and the ids of these if WITH_IDS."""
    found, ids = _select(gc.get_objects, (), with_ids=with_ids)
    try:
        yield found, ids
    finally:
        found.clear()  # it has itself


def of_types(ids):
    """All objects of the collector whose types have one of these IDS. Not for tuples and frozensets."""
    return _select(gc.get_objects, (), lambda every: _are_of(every, ids), with_ids=False)[0]


def without(objects, ids):
    """OBJECTS without those with one of these IDS."""
    return list(itertools.compress(objects, map(
        operator.not_, map(ids.__contains__, map(id, objects)))))


def only_filled(objects):
    """The tuples and frozensets among OBJECTS."""
    return list(itertools.compress(objects, _are_of(objects, _FILLED)))


def add_by_id(mapping, objects):
    """Adds OBJECTS to MAPPING {id: object}, and returns it."""
    mapping.update(zip(map(id, objects), objects))
    return mapping


def referrers(targets):
    """What refers to one of TARGETS but tuples and frozensets, and the ids of these."""
    arguments = tuple(targets)
    found, ids = _select(gc.get_referrers, arguments)
    return found, [one for one in ids if one != id(arguments)]


def referents(containers, ids):
    """The objects with one of these IDS that one of CONTAINERS refers to; one may be there twice."""
    found = gc.get_referents(*containers)
    return list(itertools.compress(found, map(ids.__contains__, map(id, found))))


def items(container, kind):
    """The items of CONTAINER, an object of KIND: list, tuple or deque. None if C code has not filled
    all slots yet: to read an empty one would crash."""
    if any(type(container) is one for one in _WITH_SLOTS):
        slots = kind.__len__(container)
        if len(gc.get_referents(container)) < slots:
            return None
    return list(kind.__iter__(container))
