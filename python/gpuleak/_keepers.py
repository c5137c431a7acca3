# SPDX-License-Identifier: MIT
"""Says what keeps device memory: for a place of allocation, the variables that its tensors and
arrays are reached from. Owns the choice of places and the words. What it returns has no references
to the program's objects."""

import atexit
import gc
import json
import os
import signal
import sys
import types

from . import _heap, _library
from ._address import address_of
from ._references import (
    KEY, References, _CONTAINERS, _FRAME_OWNERS, _own_globals, instance_dict, is_a, is_one_of,
    joined, module_of_type, name_of_type, shown_type, static, step)
from ._report import Leak, ReportError, _json
from ._size import format_size, plural
from ._tensors import Objects, gradients, saved_tensors

KEEPERS_MAX = 8
FROZEN_BY_PYTHON = 5000  # CPython 3.12 freezes some hundred objects itself


class Keeper:
    """What keeps `blocks` of a place's blocks, in words: `text`. `variable` is the expression of
    the object, None if no variable leads to it."""

    __slots__ = ("text", "blocks", "variable", "_unreferenced")

    def __init__(self, text, blocks, variable=None):
        self.text, self.blocks, self.variable = text, blocks, variable
        self._unreferenced = None  # addresses of blocks to which nothing in Python refers

    @classmethod
    def _native(cls, addresses):
        ret = cls(NATIVE if len(addresses) == 1 else NATIVES, len(addresses))
        ret._unreferenced = addresses
        return ret

    def __repr__(self):
        return "<gpuleak.Keeper of %d: %s>" % (self.blocks, self.text)


class Kept:
    """The live blocks of one place of allocation, `leak`, and their `keepers`, the one with most
    blocks first. `notes` are remarks: on what was cut, on what cannot be seen."""

    __slots__ = ("leak", "keepers", "notes")

    def __init__(self, leak, keepers, notes=()):
        self.leak, self.keepers, self.notes = leak, list(keepers), list(notes)

    def lines(self):
        """Lines of text."""
        ret = ["%s in %s allocated %s, kept by:" % (
            format_size(self.leak.bytes), plural(self.leak.blocks, self.leak.unit), self.leak.at)]
        ret += ["    %s: %s" % (format(keeper.blocks, ","), keeper.text) for keeper in self.keepers]
        return ret + ["    (%s)" % note for note in self.notes]

    def __repr__(self):
        return "<gpuleak.Kept %d bytes at %s>" % (self.leak.bytes, self.leak.place)


# ---- places ----

def _is_at(leak, where):
    """Whether the place WHERE ("train.py:8", "train.py", "train_step") is in the stack of LEAK."""
    filename, colon, line = where.rpartition(":")
    if not colon or not line.isdecimal():
        filename, line = where, None
    if leak.stack.thread == where:
        return True
    for frame in leak.stack.frames:
        if frame.function.rpartition(".")[2] == where or frame.function == where:
            return True
        if frame.filename and (frame.filename == filename or
                               frame.filename.endswith("/" + filename)) and \
                (line is None or frame.lineno == int(line)):
            return True
    return False


def _entries(report):
    """The entries that an object may keep: not the blocks of a cache whose tensors are known."""
    for name in ("suballocations", "leaks", "cached", "suppressed"):
        for entry in report.get(name) or ():
            if entry["blocks"] and not entry.get("suballocated_bytes") and \
                    not (name == "cached" and entry.get("cache", "").startswith("PyTorch")):
                yield entry


def _sorted_places(report, where):
    """(Leak, addresses, entry) of the call sites in REPORT that WHERE names, those that accumulate
    first, then by bytes."""
    found = []
    for entry in _entries(report):
        leak = Leak._of({"device": -1, **entry})
        addresses = [int(one, 16) for one in entry.get("addresses", ())]
        if leak.is_workspace or not addresses:
            continue
        if isinstance(where, str) and not _is_at(leak, where):
            continue
        found.append((entry.get("trend") != "accumulating", -leak.bytes, len(found), leak,
                      addresses, entry))
    return [one[3:] for one in sorted(found, key=lambda one: one[:3])]


def _places(where, since, limit):
    """(Leak, addresses) of the places that WHERE names; else of the LIMIT places that accumulate
    or have most bytes. Only blocks since the mark SINCE."""
    flags = ["--addresses"] + (["--since", str(since)] if since else [])
    if isinstance(where, int):
        flags += ["--address", "0x%x" % where]
    found = _merged([one[:2] for one in _sorted_places(_json(*flags), where)])
    return found if where is not None else found[:limit]


def _merged(places):
    """One line of the program is one place, by however many ways a framework allocates there."""
    ret = {}
    for leak, addresses in places:
        at = leak.at if leak.stack.frames else id(leak)
        first = ret.setdefault((leak.kind, leak.device, leak.cache, at), (leak, addresses))
        if first[0] is not leak:
            first[0].bytes += leak.bytes
            first[0].blocks += leak.blocks
            first[1].extend(addresses)
    return list(ret.values())


# ---- words ----

_PLAIN_MODULES = ("builtins", "collections", "functools", "_thread")


def _type_words(obj):
    """"list", "Trainer object": what a person calls OBJ."""
    if is_a(obj, type):
        return "class %s" % name_of_type(obj)
    name = shown_type(type(obj))
    return name if module_of_type(type(obj)) in _PLAIN_MODULES else name + " object"


class _Described:
    """The object at position AT of CHAIN: its `expression` from a variable, and `where`."""

    def __init__(self, chain, at):
        self.expression, self.words = "", []
        objects, suffix = chain.objects, ""
        while at + 1 < len(objects):
            above = objects[at + 2] if at + 2 < len(objects) else None
            one = step(objects[at + 1], objects[at], above)
            at += one.objects if at + one.objects < len(objects) else 1
            if one.name is None:
                suffix = joined(one.expression, suffix, objects[at])
            else:
                self._add(one.name + suffix, one.words)
                suffix = ""
        self.top = objects[-1]
        if chain.root is not None:
            self._add(chain.root.name + suffix, chain.root.where)
        else:
            self._add(suffix and "(%s)%s" % (_type_words(self.top), suffix), "")

    def _add(self, expression, where):
        if not self.words:
            self.expression = expression
            self.words = [where]
        elif expression:
            self.words.append(("which is `%s` %s" % (expression, where)).strip())
        elif where:
            self.words.append(where)

    @property
    def where(self):
        return ", ".join(filter(None, self.words))


def _positions(container, ids):
    """The items of CONTAINER that are among IDS, as they are written: "[0]" and so on."""
    if is_a(container, dict):
        for key, value in list(dict.items(container)):
            if id(value) in ids:
                yield step(container, value, None).expression
    for kind in _CONTAINERS:
        if is_a(container, kind):
            for number, value in enumerate(_heap.items(container, kind) or ()):
                if id(value) in ids:
                    yield "[%d]" % number


class _Words:
    """The text for a chain's object at position AT that keeps IDS."""

    def __init__(self, chain, at, ids):
        self.chain, self.at, self.ids = chain, at, ids
        self.described = _Described(chain, at)
        self.variable, self.is_key = self.described.expression or None, False
        if self.variable and self.variable.endswith(KEY):
            self.variable, self.is_key = self.variable[:-len(KEY)], True

    def _of_items(self):
        container = self.chain.objects[self.at]
        found = list(_positions(container, self.ids))
        name = self.variable or "(%s)" % _type_words(container)
        if len(found) > 1:
            return ", `%s%s` to `%s%s`" % (name, found[0], name, found[-1])
        if found:
            return ", `%s%s`" % (name, found[0])
        example = _Described(self.chain, 0).expression
        return ", for example `%s`" % example if example and example != name else ""

    def _kind(self):
        """What the expression of the kept object is."""
        if not self.variable:
            return "an object"
        if self.is_key:
            return "key of"
        if self.variable.endswith("]"):
            return "item"
        return "attribute" if "." in self.variable else "variable"

    def text(self):
        chain, obj = self.chain, self.chain.objects[self.at]
        if chain.ends == "cycle":
            return self._of_cycle()
        kind = self._kind() if self.at == 0 else "class" if is_a(obj, type) else _type_words(obj)
        text = "%s `%s`" % (kind, self.variable) if self.variable else kind
        if self.described.where:
            text += " " + self.described.where
        if self.at > 0:
            text += self._of_items()
        if chain.cut:
            return text + "; the search for what refers to it was cut"
        if chain.root is None:
            return text + "; nothing in Python refers to the %s: native code keeps it, or a " \
                "running loop or call" % _type_words(self.described.top)
        return text

    def _of_cycle(self):
        top = self.chain.objects[-1]
        path = _Described(self.chain, 0).expression
        text = "a reference cycle with %s%s" % ("" if is_a(top, type) else "a ", _type_words(top))
        if path:
            text += ", `%s`" % path
        text += ": no variable refers to it, and the garbage collector has not freed it yet"
        if static(top, "__del__") is not None:
            text += "; %s has __del__" % name_of_type(type(top))
        return text if gc.isenabled() else text + "; gc.disable() was called"


# ---- the search ----

NATIVE = "native code, or a running loop or call: nothing in Python refers to it"
NATIVES = "native code, or running loops or calls: nothing in Python refers to them"
_NAMED_BELOW = (types.FrameType, types.CellType, types.FunctionType) + tuple(
    kind for kind, _ in _FRAME_OWNERS)


class _Search:
    """Keepers of the blocks of one place. Holds objects until it is closed."""

    def __init__(self, references, objects, with_graphs):
        self.references, self.objects, self.with_graphs = references, objects, with_graphs
        self.graphs = None
        for one in (objects.list, objects.addresses, objects.graphs):
            references._mine(one)
        references._own.add(id(objects.__dict__))
        self.by_id = {id(obj): position for position, obj in enumerate(objects.list)}
        self.referenced = references.referenced(
            self.by_id.keys() | {id(obj) for obj in objects.graphs})
        self.positions = {}  # of the objects at an address
        for position, address in enumerate(objects.addresses):
            self.positions.setdefault(address, []).append(position)

    def _blocks_of(self, address):
        """The block of the driver that contains ADDRESS; for mapped memory also its handle."""
        block = _library.who(address)
        return {block.address, block.parent} if block else set()

    def of_interior(self, addresses):
        """Objects that begin inside a block of the driver, or whose memory is mapped, belong to
        it."""
        wanted = set(addresses)
        for address in list(self.positions):
            if address not in wanted and not self.references.late():
                for block in self._blocks_of(address) & wanted:
                    self.positions.setdefault(block, []).extend(self.positions[address])

    def _sorted(self, addresses):
        """Blocks with an object that Python refers to, as {id of the object: address}; the
        others."""
        ids, others = {}, []
        for address in addresses:
            found = [id(self.objects.list[position]) for position in
                     self.positions.get(address, ())]
            referenced = [one for one in found if one in self.referenced]
            ids.update((one, address) for one in referenced)
            if not referenced:
                others.append(address)
        return ids, others

    def keepers(self, addresses):
        """The Keepers of the blocks at ADDRESSES."""
        ids, others = self._sorted(addresses)
        ret = self._of_objects(ids)
        ret += self._of_graphs(others) if others else []
        return sorted(ret, key=lambda one: -one.blocks)

    def _first(self, left):
        """The object of LEFT {id: address} with the lowest address."""
        return self.objects.list[self.by_id[min(left, key=left.get)]]

    def _of_objects(self, ids, prefixes=()):
        """Keepers of the objects with these IDS {id: address}. PREFIXES begin the text for one
        object and for several."""
        ret, left = [], dict(ids)
        while left and len(ret) < KEEPERS_MAX and not self.references.late():
            sample = self._first(left)
            chain = self.references.chain(sample)
            at, reached = self._level(chain, left, id(sample))
            words = _Words(chain, at, reached)
            blocks = {left[one] for one in reached}
            if len(chain.objects) == 1 and chain.root is None and chain.cut:
                break
            if len(chain.objects) == 1 and chain.root is None and not prefixes:
                ret.append(Keeper._native(blocks))
            else:
                text = NATIVE if len(chain.objects) == 1 and chain.root is None else words.text()
                ret.append(Keeper((prefixes[len(reached) > 1] if prefixes else "") + text,
                                  len(blocks), words.variable))
            left = {one: address for one, address in left.items() if address not in blocks}
        return ret

    def _level(self, chain, left, sample):
        """The lowest object of CHAIN that keeps as many of LEFT as the one at its root does."""
        counts = [{sample}]
        for obj in chain.objects[1:]:
            counts.append(self.references.reached(obj, left.keys()) | {sample})
        most = max(map(len, counts))
        at = next(at for at, found in enumerate(counts) if len(found) == most)
        obj = chain.objects[at]
        if most == 1 or is_one_of(type(obj), _NAMED_BELOW):
            return 0, counts[at]
        if at + 1 < len(chain.objects) and (
                instance_dict(chain.objects[at + 1]) is obj or is_a(chain.objects[at + 1], type)):
            at = min(at + 1, len(chain.objects) - 1)  # the object rather than its dict
        return at, counts[at]

    def _of_graphs(self, addresses):
        """Keepers of blocks without an object of Python."""
        wanted, owners, ret = set(addresses), {}, []
        if not self.with_graphs:
            return [] if self.references.cut else [Keeper._native(wanted)]
        of_gradients = gradients(self.objects, wanted)
        for address, saved in saved_tensors(self.objects, wanted - set(of_gradients),
                                            self.referenced, self.references.late).items():
            owners.setdefault(saved.owner, []).append((address, saved.node))
        graphs = {}  # id of the tensor with the graph: blocks
        for owner, found in sorted(owners.items(), key=lambda pair: min(pair[1])):
            graphs[id(self.objects.graphs[owner])] = found
        ret += self._of_owners(graphs)
        if of_gradients:
            tensors = {id(self.objects.list[position]): address
                       for address, position in of_gradients.items()}
            ret += self._of_objects(tensors, ("`.grad` of ", "`.grad` of tensors in "))
        left = wanted - set(of_gradients)
        left.difference_update(address for found in owners.values() for address, _ in found)
        if left and not self.references.cut:
            ret.append(Keeper._native(left))
        return ret

    def _of_owners(self, graphs):
        """Keepers of what autograd graphs keep: those of the tensors that have the graphs."""
        ret, left = [], dict(graphs)
        while left and len(ret) < KEEPERS_MAX and not self.references.late():
            first = next(iter(left))
            sample = next(one for one in self.objects.graphs if id(one) == first)
            chain = self.references.chain(sample)
            at, reached = self._level(chain, left, id(sample))
            words = _Words(chain, at, reached)
            found = [one for owner in reached for one in left[owner]]
            nodes = sorted({node for _, node in found})
            text = "autograd %s (%s) of %s, kept by %s" % (
                "graph" if len(reached) == 1 else "graphs",
                ", ".join(nodes[:3]) + (", ..." if len(nodes) > 3 else ""),
                plural(len(reached), "tensor"),
                words.text() if chain.root is not None or len(chain.objects) > 1 else NATIVE)
            ret.append(Keeper(text, len({address for address, _ in found}), words.variable))
            left = {one: found for one, found in left.items() if one not in reached}
        return ret


def _notes(references, objects, leak, kept, with_graphs):
    ret, left = [], leak.blocks - sum(keeper.blocks for keeper in kept)
    if left > 0 or references.cut:
        ret.append("the search ended early%s: give it more `seconds`" % (
            ", %s not searched" % plural(left, leak.unit) if left > 0 else ""))
    if any(keeper.text in (NATIVE, NATIVES) for keeper in kept):
        if objects.has_hooks:
            ret.append("autograd graphs were not read: the program may unpack saved tensors itself")
        elif objects.graphs and not with_graphs:
            ret.append("gradients and autograd graphs were not read while the program runs: "
                       "gpuleak.print_keepers() in the program reads them")
    if gc.get_freeze_count() > FROZEN_BY_PYTHON:
        ret.append("%s are frozen by gc.freeze() and cannot be searched"
                   % plural(gc.get_freeze_count(), "object"))
    return ret


def _searched(places, seconds, with_graphs=True):
    """Kept for each of PLACES, pairs of a Leak and addresses. Gradients and autograd graphs are read
    if WITH_GRAPHS: a backward pass of another thread changes them without Python's lock, and PyTorch
    does not survive that."""
    _heap.check_lock()
    references = References(seconds)
    try:
        objects = Objects(references.late, references.codes())
        search, ret = _Search(references, objects, with_graphs), []
        is_complete = not references.cut
        for number, (leak, addresses) in enumerate(places):
            references.begin(len(places) - number, is_complete)
            if not leak.is_suballocation:
                search.of_interior(addresses)
            found = search.keepers(addresses)
            ret.append(Kept(leak, found, _notes(references, objects, leak, found, with_graphs)))
        return ret
    finally:
        references.close()
        objects = search = None


def _live_sites():
    """{a call site's number in the ledger: (Leak, addresses)}, first those that accumulate."""
    text = _library.report_live()
    return {entry["ledger_site"]: (leak, addresses) for leak, addresses, entry in
            _sorted_places(json.loads(text) if text else {}, None)}


def _without_ended(kept):
    """Takes what ended while the search ran out of KEPT {site: Kept}: nothing keeps that."""
    doubtful = [(site, one, keeper) for site, one in kept.items() for keeper in one.keepers
                if keeper._unreferenced]
    live = _live_sites() if doubtful else {}
    for site, one, keeper in doubtful:
        addresses = keeper._unreferenced.intersection(live[site][1] if site in live else ())
        one.keepers[one.keepers.index(keeper)] = Keeper._native(addresses)
    for one in kept.values():
        one.keepers = [keeper for keeper in one.keepers if keeper.blocks]
    return kept


def keepers_by_site(limit, seconds, with_graphs):
    """{a call site's number in the ledger: its Kept} of the LIMIT call sites that accumulate or have
    most bytes. Starts no child process that the program could see. WITH_GRAPHS: see _searched()."""
    live = dict(list(_live_sites().items())[:limit])
    kept = _searched(list(live.values()), seconds, with_graphs) if live else []
    return _without_ended(dict(zip(live, kept)))


def keepers(where=None, *, since=0, limit=3, seconds=10.0):
    """What keeps the live memory of WHERE: a place ("train.py:8", "train.py" or a function's name),
    a device address, or an object with one. Without WHERE: of the LIMIT places that accumulate or
    have most bytes. With SINCE only what was allocated after that mark(). Returns a list of Kept,
    for each place one. [] without gpuleak.

    Searches the interpreter's objects for about SECONDS at most. It is no part of the program's
    state: it keeps no object alive and calls no code of the program. Call it where the memory is
    expected to be free."""
    if not _library.present():
        return []
    if where is not None and not isinstance(where, str):
        where = address_of(where)
    places = _places(where, since, limit)
    if not places:
        return []
    return _searched(places, seconds)


def print_keepers(where=None, *, since=0, limit=3, seconds=10.0, file=None):
    """Prints keepers() to FILE, by default to standard error."""
    out = sys.stderr if file is None else file
    try:
        found = keepers(where, since=since, limit=limit, seconds=seconds)
    except ReportError as error:
        print("gpuleak: %s" % error, file=out)
        return
    for kept in found:
        print("gpuleak: " + "\n".join(kept.lines()), file=out)
    if not _library.present():
        print("gpuleak is not preloaded: start the program with `gpuleak run -- python ...`", file=out)
    elif not found:
        print("gpuleak: no live memory was recorded%s" % (
            " there" if where is not None else ""), file=out)


def print_keepers_at_exit(where=None, *, limit=3, seconds=10.0):
    """Prints keepers() when the interpreter ends, before it clears modules. What functions had is
    free by then."""
    pid = os.getpid()

    def at_exit():
        if os.getpid() == pid:
            print_keepers(where, limit=limit, seconds=seconds)

    atexit.register(at_exit)


def print_keepers_on(number=signal.SIGUSR2, where=None, *, limit=3, seconds=10.0):
    """Prints keepers() when the process gets the signal NUMBER, between two steps of the main
    thread's Python code."""
    signal.signal(number, lambda *_: print_keepers(where, limit=limit, seconds=seconds))


_own_globals.add(id(globals()))
