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
    KEY, Budget, References, _CONTAINERS, _FRAME_OWNERS, _PLAIN, _own_globals, instance_dict, is_a,
    is_one_of, joined, module_of_type, name_of_type, shown_type, static, step)
from ._report import Leak, ReportError, _json
from ._size import format_size, plural
from ._tensors import Objects, gradients, graphs, saved_tensors

KEEPERS_MAX = 8
FROZEN_BY_PYTHON = 5000  # CPython 3.12 freezes some hundred objects itself


class Keeper:
    """What keeps `blocks` of a place's blocks, in words: `text`. `variable` is the expression of
    the object, None if no variable leads to it."""

    __slots__ = ("text", "variable", "_addresses")

    def __init__(self, text, addresses, variable=None):
        self.text, self.variable = text, variable
        self._addresses = set(addresses)

    @classmethod
    def _native(cls, addresses):
        return cls(NATIVE if len(addresses) == 1 else NATIVES, addresses)

    @property
    def blocks(self):
        return len(self._addresses)

    @property
    def _is_native(self):
        """True if nothing in Python refers to the blocks."""
        return self.text in (NATIVE, NATIVES)

    def __repr__(self):
        return "<gpuleak.Keeper of %d: %s>" % (self.blocks, self.text)


class Kept:
    """The live blocks of one place of allocation, `leak`, and their `keepers`, the one with most
    blocks first. `notes` are remarks: on what was cut, on what cannot be seen."""

    __slots__ = ("leak", "keepers", "notes", "_is_begun", "_is_cut")

    def __init__(self, leak, keepers, notes=()):
        self.leak, self.keepers, self.notes = leak, list(keepers), list(notes)
        self._is_begun = True   # the search had time for this place
        self._is_cut = False    # it had too little, or reached a limit

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
    """The object at position AT of CHAIN: its `expression` from a variable, and `where`, which leaves
    out the place of the last variable unless WITH_ROOT."""

    def __init__(self, chain, at, with_root=True):
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
            self._add(chain.root.name + suffix, chain.root.where if with_root else "")
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
    """The first and the last item of CONTAINER that is among IDS, as they are written: "[0]". One if
    only one is."""
    if is_a(container, dict):
        found = [value for value in list(dict.values(container)) if id(value) in ids]
        return [step(container, value, None).expression for value in found[:1] + found[1:][-1:]]
    for kind in _CONTAINERS:
        if is_a(container, kind):
            found = [number for number, value in enumerate(_heap.items(container, kind) or ())
                     if id(value) in ids]
            return ["[%d]" % number for number in found[:1] + found[1:][-1:]]
    return []


class _Words:
    """The text for a chain's object at position AT that keeps IDS. `cycles`: how many reference
    cycles as that of the chain keep one of these."""

    def __init__(self, chain, at, ids):
        self.chain, self.at, self.ids, self.cycles = chain, at, ids, 1
        self.described = _Described(chain, at)
        self.variable, self.is_key = self.described.expression or None, False
        if self.variable and self.variable.endswith(KEY):
            self.variable, self.is_key = self.variable[:-len(KEY)], True

    def _of_items(self):
        container = self.chain.objects[self.at]
        found = _positions(container, self.ids)
        name = self.variable or "(%s)" % _type_words(container)
        if found:
            return ", " + " to ".join("`%s%s`" % (name, one) for one in found)
        example = _Described(self.chain, 0, with_root=False)
        if not example.expression or example.expression == name:
            return ""
        return (", for example `%s` %s" % (example.expression, example.where)).rstrip()

    @property
    def is_native(self):
        """True if nothing in Python refers to the object."""
        return len(self.chain.objects) == 1 and self.chain.root is None

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
        top, several = self.chain.objects[-1], self.cycles > 1
        words = "%ss" % _type_words(top) if several and not is_a(top, type) else _type_words(top)
        text = "%d reference cycles with " % self.cycles if several else \
            "a reference cycle with %s" % ("" if is_a(top, type) else "a ")
        path = _Described(self.chain, 0).expression
        text += words + (", %s`%s`" % ("for example " if several else "", path) if path else "")
        text += ": no variable refers to %s, and the garbage collector has not freed %s yet" % (
            ("them", "them") if several else ("it", "it"))
        if static(top, "__del__") is not None:
            text += "; %s has __del__" % name_of_type(type(top))
        return text if gc.isenabled() else text + "; gc.disable() was called"


# ---- the search ----

TRIES_MAX = 2  # searches that are cut at the same place before the others have their turn
MORE_SECONDS = "give it more `seconds`"
IN_PROGRAM = "gpuleak.print_keepers(seconds=100) in the program searches longer"
NATIVE = "native code, or a running loop or call: nothing in Python refers to it"
NATIVES = "native code, or running loops or calls: nothing in Python refers to them"
_NAMED_BELOW = (types.FrameType, types.CellType, types.FunctionType) + tuple(
    kind for kind, _ in _FRAME_OWNERS)


class _Search:
    """Keepers of the blocks of one place. Holds objects until it is closed."""

    def __init__(self, references, objects, with_graphs):
        self.references, self.objects, self.with_graphs = references, objects, with_graphs
        self.is_full = False   # KEEPERS_MAX was reached
        self.wanted = set()    # addresses of all places for which of_objects() found no keeper
        self._kept_by_autograd = None
        self._before = set()   # addresses for which an earlier search found a keeper
        for one in (objects.list, objects.addresses, objects.graphs):
            references._mine(one)
        references._own.add(id(objects.__dict__))
        self.by_id = references._mine({id(obj): obj for obj in objects.graphs})
        self.by_id.update((id(obj), obj) for obj in objects.list)
        self._referenced = None
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

    @property
    def referenced(self):
        """The ids of the objects with device memory that Python refers to."""
        if self._referenced is None:
            self._referenced = self.references.referenced(set(self.by_id))
        return self._referenced

    def _ids_at(self, address):
        return [id(self.objects.list[position]) for position in self.positions.get(address, ())]

    def of_objects(self, addresses, before):
        """Keepers of blocks at ADDRESSES with an object that something in Python refers to. BEFORE are
        those that the last search found for this place. What they keep comes last."""
        self._before = set().union(*(keeper._addresses for keeper in before))
        return self._of_objects({one: {address} for address in addresses
                                 for one in self._ids_at(address)})

    def of_others(self, addresses, before):
        """Keepers of the other blocks at ADDRESSES: those with an object to which nothing refers, and
        those without one. Takes more time."""
        if not addresses or self.references.late():
            return []
        self.referenced  # pylint: disable=pointless-statement
        ret = self.of_objects(addresses, before)
        left = addresses.difference(*(keeper._addresses for keeper in ret))
        return ret + self._of_graphs({address for address in left
                                      if not self.referenced.intersection(self._ids_at(address))})

    def _kept(self, owned):
        """Yields for OWNED, {id of an object: addresses}: the _Words for what keeps some of these
        objects, their ids, and their addresses. Ends at an object to which nothing seems to refer, if
        it is not known which objects these are."""
        left = dict(owned)
        if self._referenced is not None:
            left = {one: left[one] for one in left if one in self._referenced}
        while left and not self.references.late():
            first = min(left, key=lambda one: (left[one] <= self._before, min(left[one])))
            chain = self.references.chain(self.by_id[first])
            if len(chain.objects) == 1 and chain.root is None and (
                    chain.cut or self._referenced is None):
                return
            words = self._words_of(chain, left.keys())
            found = set().union(*(left[one] for one in words.ids))
            yield words, found
            left = {one: addresses for one, addresses in left.items() if not addresses <= found}

    def _words_of(self, chain, left):
        at, reached = self._level(chain, left)
        ret = _Words(chain, at, reached)
        if chain.ends == "cycle" and not is_one_of(type(chain.objects[-1]), _PLAIN):
            for more in self.references.cycles_of(type(chain.objects[-1]), left - reached):
                ret.ids |= more
                ret.cycles += 1
        return ret

    def _level(self, chain, left):
        """The lowest object of CHAIN that keeps as many of LEFT as the one at its root does."""
        found, seen = {id(chain.objects[0])}, set()
        at = 0
        for number, obj in enumerate(chain.objects[1:], 1):
            if left <= found:
                break
            more = self.references.reached(obj, left, seen) - found
            if more:
                found, at = found | more, number
        obj = chain.objects[at]
        if len(found) == 1 or is_one_of(type(obj), _NAMED_BELOW):
            return 0, found
        if at + 1 < len(chain.objects) and (
                instance_dict(chain.objects[at + 1]) is obj or is_a(chain.objects[at + 1], type)):
            at += 1  # the object rather than its dict
        return at, found

    def _listed(self, kept, text_of):
        """The Keepers for what KEPT yields, as _kept() does. One for each different text, which TEXT_OF
        returns for words and addresses."""
        ret = []
        for words, found in kept:
            ret = _joined(ret + [Keeper(text_of(words, found), found, words.variable)])
            if len(ret) == KEEPERS_MAX:
                self.is_full = True
                break
        return ret

    def _of_objects(self, ids, prefixes=("", "")):
        """Keepers of the objects with these IDS {id: addresses}. PREFIXES begin the text for one
        object and for several."""
        def text_of(words, _):
            return prefixes[len(words.ids) > 1] + (NATIVE if words.is_native else words.text())
        return self._listed(self._kept(ids), text_of)

    def _of_graphs(self, wanted):
        """Keepers of blocks to whose objects nothing in Python refers, or that have none."""
        if not self.with_graphs:
            return [] if self.references.cut else [Keeper._native(wanted)]
        of_gradients, saved = self._autograd()
        saved = {address: saved[address] for address in wanted & saved.keys()}
        ret = self._of_owners(saved, False) + self._of_owners(saved, True)
        ret += self._of_objects({id(self.objects.list[of_gradients[address]]): {address}
                                 for address in wanted & of_gradients.keys()},
                                ("`.grad` of ", "`.grad` of tensors in "))
        left = wanted.difference(of_gradients, saved)
        if left and not self.references.cut:
            ret.append(Keeper._native(left))
        return ret

    def _autograd(self):
        """What gradients and graphs keep of the blocks of all places: {address: position in Objects.list
        of the tensor with the gradient}, and {address: Saved}."""
        if self._kept_by_autograd is None:
            of_gradients, more = gradients(self.objects, self.wanted, self.referenced)
            self._kept_by_autograd = of_gradients, saved_tensors(
                graphs(self.objects, self.referenced) + more, self.wanted - set(of_gradients),
                self.references.late)
        return self._kept_by_autograd

    def _of_owners(self, saved, of_gradient):
        """Keepers of what autograd graphs keep, SAVED {address: Saved}: those of the tensors that have
        the graphs, or whose gradients have them."""
        owned = {}
        for address, one in saved.items():
            if one.graph.of_gradient == of_gradient:
                owned.setdefault(one.graph.owner, set()).add(address)

        def text_of(words, found):
            nodes = sorted({saved[address].node for address in found})
            several = len(words.ids) > 1
            return "autograd %s (%s) of %s%s" % (
                "graphs" if several else "graph",
                ", ".join(nodes[:3]) + (", ..." if len(nodes) > 3 else ""),
                ("`.grad` of %s" % ("tensors in " if several else "")) if of_gradient
                else "%s, kept by " % plural(len(words.ids), "tensor"),
                NATIVE if words.is_native else words.text())
        return self._listed(self._kept(owned), text_of)


def _joined(found):
    """FOUND, Keepers, with one for each text."""
    ret = {}
    for keeper in found:
        key = NATIVE if keeper._is_native else keeper.text
        addresses = keeper._addresses | (ret[key]._addresses if key in ret else set())
        if addresses:
            ret[key] = Keeper._native(addresses) if keeper._is_native else \
                Keeper(keeper.text, addresses, keeper.variable)
    return list(ret.values())


def _notes(search, place, advice):
    ret, leak = [], place.leak
    left = leak.blocks - sum(keeper.blocks for keeper in place.found)
    if place.is_cut and search.references.timed_out:
        ret.append("the search ended early%s: %s" % (
            ", %s not searched" % plural(left, leak.unit) if left > 0 else "", advice))
    elif place.is_full and left > 0:
        ret.append("only %d keepers are listed: %s %s others" % (
            KEEPERS_MAX, plural(left, leak.unit), "has" if left == 1 else "have"))
    elif left > 0 or place.is_cut:
        ret.append("a limit of the search was reached%s" % (
            ", %s not searched" % plural(left, leak.unit) if left > 0 else ""))
    if any(keeper._is_native for keeper in place.found):
        if search.with_graphs and search.objects.has_hooks:
            ret.append("autograd graphs were not read: the program may unpack saved tensors itself")
        elif search.objects.graphs and not search.with_graphs:
            ret.append("gradients and autograd graphs were not read while the program runs: "
                       "gpuleak.print_keepers() in the program reads them")
    if gc.get_freeze_count() > FROZEN_BY_PYTHON:
        ret.append("%s are frozen by gc.freeze() and cannot be searched"
                   % plural(gc.get_freeze_count(), "object"))
    return ret


class _Place:
    """One of the places of a search: its Leak and ADDRESSES, the Keepers BEFORE, which the last search
    found, and those that this search FOUND."""

    def __init__(self, leak, addresses, before):
        self.leak, self.addresses = leak, set(addresses)
        self.before = [keeper for keeper in before if not keeper._is_native]
        self.found, self.is_begun, self.is_cut, self.is_full = [], False, False, False

    def search(self, search, how):
        """Adds what HOW, a function of SEARCH, finds for the blocks that are left."""
        references = search.references
        self.is_begun = self.is_begun or not references.late()
        search.is_full = False
        references.begin()
        found = how(self.left(), self.before)
        self.found = _joined(self.found + found)
        self.is_cut, self.is_full = references.cut or self.is_cut, search.is_full or self.is_full

    def left(self):
        return self.addresses.difference(*(keeper._addresses for keeper in self.found))

    def kept(self, search, advice):
        if self.is_cut:  # what there was no time for
            left = self.left()
            self.found = _joined(self.found + [Keeper(one.text, one._addresses & left, one.variable)
                                               for one in self.before])
        self.found.sort(key=lambda one: -one.blocks)
        ret = Kept(self.leak, self.found, _notes(search, self, advice))
        ret._is_begun, ret._is_cut = self.is_begun, self.is_cut
        return ret


def _searched(places, budget, advice, with_graphs=True):
    """Kept for each of PLACES: a Leak, its addresses, and the Keepers that the last search found.
    Gradients and autograd graphs are read if WITH_GRAPHS: a backward pass of another thread changes
    them without Python's lock, and PyTorch does not survive that. ADVICE ends the note on a search
    whose BUDGET was too small."""
    _heap.check_lock()
    references = References(budget)
    try:
        objects = Objects(references.late, references.codes())
        search = _Search(references, objects, with_graphs)
        places = [_Place(*one) for one in places]
        for place in places:
            if not place.leak.is_suballocation:
                search.of_interior(place.addresses)
            place.search(search, search.of_objects)
        search.wanted = set().union(*(place.left() for place in places))
        for place in places:
            if not place.is_full:
                place.search(search, search.of_others)
        return [place.kept(search, advice) for place in places]
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
                if keeper._is_native]
    live = _live_sites() if doubtful else {}
    for site, one, keeper in doubtful:
        addresses = keeper._addresses.intersection(live[site][1] if site in live else ())
        one.keepers[one.keepers.index(keeper)] = Keeper._native(addresses)
    for one in kept.values():
        one.keepers = [keeper for keeper in one.keepers if keeper.blocks]
    return kept


class Progress:
    """What searches found by call site (`kept`), and where those that were cut have stopped. So the
    next one goes on there: with the call site at which the last one was cut, then with those that it
    did not begin."""

    def __init__(self):
        self.kept, self._tries = {}, {}
        self.is_cut = False  # the next search has to go on

    def order(self, sites):
        """SITES, in the order of the next search."""
        return sorted(sites, key=lambda site: self._tries.get(site, 0) >= TRIES_MAX)

    def before(self, site):
        """The Keepers that were found for SITE."""
        return self.kept[site].keepers if site in self.kept else ()

    def add(self, found):
        """Adds what a search FOUND {site: Kept}."""
        self.kept.update(found)
        for site, one in found.items():
            if one._is_begun:
                self._tries[site] = self._tries.get(site, 0) + 1 if one._is_cut else TRIES_MAX
        self.is_cut = any(self._tries.get(site, 0) < TRIES_MAX for site in found)
        if not self.is_cut:
            self._tries.clear()


def keepers_by_site(limit, start, with_graphs, progress):
    """{a call site's number in the ledger: its Kept} of the LIMIT call sites that accumulate or have
    most bytes. Starts no child process that the program could see. START returns the Budget, when the
    call sites are known. WITH_GRAPHS: see _searched(). Adds the result to PROGRESS."""
    live = dict(list(_live_sites().items())[:limit])
    places = {site: (*live[site], progress.before(site)) for site in progress.order(live)}
    kept = _searched(list(places.values()), start(), IN_PROGRAM, with_graphs) if live else []
    ret = _without_ended(dict(zip(places, kept)))
    progress.add(ret)
    return ret


def keepers(where=None, *, since=0, limit=3, seconds=10.0):
    """What keeps the live memory of WHERE: a place ("train.py:8", "train.py" or a function's name),
    a device address, or an object with one. Without WHERE: of the LIMIT places that accumulate or
    have most bytes. With SINCE only what was allocated after that mark(). Returns a list of Kept,
    for each place one. [] without gpuleak.

    Searches the interpreter's objects for about SECONDS at most. It is no part of the program's
    state: it keeps no object alive and calls no code of the program. Call it where the memory is
    expected to be free."""
    if not _library.active():
        return []
    if where is not None and not isinstance(where, str):
        where = address_of(where)
    places = _places(where, since, limit)
    if not places:
        return []
    return _searched([(*one, ()) for one in places], Budget(seconds), MORE_SECONDS)


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
    if not _library.active():
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
