# SPDX-License-Identifier: MIT
"""Finds the shortest chain of references from a variable to an object, and puts it into words. Owns
the search among the interpreter's objects. Calls no code of the program: no __repr__, __eq__,
__hash__, property or __getattr__ of its classes. Holds objects only while it searches."""

import collections
import ctypes
import dis
import functools
import gc
import linecache
import sys
import time
import types
import warnings
import weakref

from . import _heap

LEVELS_MAX = 40
FRONTIER_MAX = 100   # objects of one level whose referrers are searched
REACHED_MAX = 3000000  # objects that one search downwards visits
CYCLE_MAX = 2000     # objects that a cycle refers to, if it is searched from its class
CYCLES_FAILED_MAX = 1000  # objects of that class that belong to no such cycle
LEVEL_PART = 20000  # objects whose references are read at once
SOURCE_MAX = 1 << 21
KEY = " (a key)"  # ends an expression for a key of a dict
# A torch.nn.Module stores its attributes of these kinds in dicts, and finds them by __getattr__.
_MODULE_DICTS = ("._parameters", "._buffers", "._modules")

_OPTIMIZED = 1  # CO_OPTIMIZED: the code of a function
_type_mro = type.__dict__["__mro__"].__get__
_type_dict = type.__dict__["__dict__"].__get__
_type_name = type.__dict__["__name__"].__get__
_type_module = type.__dict__["__module__"].__get__
_C_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_CONTAINERS = (list, tuple, collections.deque)
_FRAME_OWNERS = ((types.GeneratorType, "gi_frame"), (types.CoroutineType, "cr_frame"),
                 (types.AsyncGeneratorType, "ag_frame"))
_PLAIN = (dict, list, tuple, set, frozenset, types.CellType)  # named by what refers to them
# CPython deletes __main__.__file__ before atexit functions run.
_MAIN_FILE = getattr(sys.modules.get("__main__"), "__file__", None)
_own_globals = set()  # id of the globals of this package's modules that search


# ---- objects without their own code ----

def is_a(obj, cls):
    """isinstance() without __class__ and __instancecheck__."""
    return any(one is cls for one in _type_mro(type(obj)))


def is_one_of(kind, kinds):
    """Whether the class KIND is one of KINDS, without the == of its metaclass."""
    return any(kind is one for one in kinds)


def name_of_type(cls):
    return _type_name(cls)


def module_of_type(cls):
    found = _type_module(cls)
    return found if type(found) is str else ""


def shown_type(cls):
    """The name of a type as the program imports it."""
    name = _type_name(cls)
    return {"_lru_cache_wrapper": "functools.lru_cache", "_local": "threading.local"}.get(name, name)


def static(obj, name):
    """The attribute NAME in the classes of OBJ, not bound; None if they have none."""
    for cls in _type_mro(type(obj)):
        found = _type_dict(cls).get(name)
        if found is not None:
            return found
    return None


def instance_dict(obj):
    """The dict of the attributes of OBJ, or None."""
    if is_a(obj, type):
        return None
    descriptor = static(obj, "__dict__")
    if type(descriptor) is not types.GetSetDescriptorType:
        return None
    try:
        ret = descriptor.__get__(obj)
    except (AttributeError, TypeError):
        return None
    return ret if type(ret) is dict else None


def read(obj, name):
    """The attribute NAME of OBJ that is stored in it or in C code; None if it is computed."""
    descriptor = static(obj, name)
    if is_one_of(type(descriptor), _C_DESCRIPTORS):
        try:
            return descriptor.__get__(obj)
        except Exception:  # an unset slot, a framework's refusal
            return None
    attributes = instance_dict(obj) if descriptor is None else None
    return dict.get(attributes, name) if attributes is not None else None


def _items(mapping):
    """Key and value pairs of a dict, taken at one moment."""
    for _ in range(3):
        try:
            return list(dict.items(mapping))
        except RuntimeError:  # it changed
            continue
    return []


# ---- frames ----

def _is_traced(frame):
    """Whether a debugger or profiler may write this frame's dict of locals back."""
    import threading
    hooks = (sys.gettrace(), sys.getprofile(), getattr(threading, "_trace_hook", None),
             getattr(threading, "_profile_hook", None))
    return frame.f_trace is not None or any(hook is not None for hook in hooks)


def _variable(frame, name):
    get = ctypes.pythonapi.PyFrame_GetVar
    get.restype, get.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.py_object]
    try:
        return [(name, get(frame, name))]
    except NameError:
        return []


def locals_of(frame):
    """Name and value of the variables of a function's frame. Before 3.13 f_locals leaves a dict in
    the frame that keeps its values; so it is not used (3.12) or emptied (3.9 to 3.11)."""
    code = frame.f_code
    if not code.co_flags & _OPTIMIZED:
        return []  # of a module or a class: these are in a dict that others refer to
    if sys.version_info >= (3, 13):
        return list(frame.f_locals.items())
    if sys.version_info >= (3, 12):
        names = code.co_varnames + code.co_cellvars + code.co_freevars
        return [pair for name in dict.fromkeys(names) for pair in _variable(frame, name)]
    snapshot = frame.f_locals
    pairs = list(snapshot.items())
    # Referred to by the frame, by `snapshot` and by the call: the program did not call locals().
    if sys.getrefcount(snapshot) <= 3 and not _is_traced(frame):
        snapshot.clear()
    return pairs


def _name_of_code(code):
    return getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")


def _place(code):
    return "%s() (%s:%d)" % (_name_of_code(code), code.co_filename, code.co_firstlineno)


def _stores(code, name, operations):
    """The first line of CODE that stores into the variable NAME, or None."""
    lines = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = lines.get(instruction.offset) or line
        values = instruction.argval if type(instruction.argval) is tuple else (instruction.argval,)
        if instruction.opname.startswith(operations) and name in values:
            return line
    return None


def _line_of_local(code, name):
    if name in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]:
        return code.co_firstlineno
    return _stores(code, name, ("STORE_FAST", "STORE_DEREF")) or code.co_firstlineno


def _inner_codes(code):
    yield code
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _inner_codes(constant)


def _line_of_global(code, name):
    """The line that makes a variable of a module: its own, or that of a function."""
    line = _stores(code, name, ("STORE_NAME",))
    for inner in _inner_codes(code):
        line = line or _stores(inner, name, ("STORE_GLOBAL",))
    return line


@functools.lru_cache(None)
def _compiled(filename):
    text = "".join(linecache.getlines(filename))
    if not text or len(text) > SOURCE_MAX:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compile(text, filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return None


# ---- chains ----

class Root:
    """Where a chain begins: `name` is the variable's, `where` says in words whose it is."""

    __slots__ = ("name", "where")

    def __init__(self, name, where):
        self.name, self.where = name, where


class Chain:
    """`objects` from the one that is kept to the one that the root refers to. `root` is None if
    nothing in Python refers to the last one, or if the search was cut."""

    __slots__ = ("objects", "root", "cut", "ends")

    def __init__(self, objects, root=None, cut=False, ends=""):
        self.objects, self.root, self.cut, self.ends = objects, root, cut, ends


class Step:
    """How one object of a chain refers to the one below: by an expression (".name", "[0]"), or in
    WORDS by a variable NAME that has no expression. `objects`: how many it passes."""

    __slots__ = ("expression", "name", "words", "objects")

    def __init__(self, expression="", name=None, words="", objects=1):
        self.expression, self.name, self.words, self.objects = expression, name, words, objects


def _key(key):
    """A dict's key as it is written; of other types the type."""
    if is_one_of(type(key), (str, bytes, int, float, bool, type(None))):
        text = repr(key) if type(key) is not str else '"%s"' % key.replace("\n", "\\n")
        return text if len(text) <= 60 else text[:57] + '..."'
    if type(key) is tuple and len(key) <= 4:
        return ", ".join(map(_key, key))
    return "<%s>" % name_of_type(type(key))


def _where_in(container, child):
    """The positions of CHILD in a list, tuple or deque."""
    kind = next(kind for kind in _CONTAINERS if is_a(container, kind))
    for number, value in enumerate(_heap.items(container, kind) or ()):
        if value is child:
            return number
    return None


def _step_of_dict(mapping, child, above):
    for key, value in _items(mapping):
        if value is child:
            break
    else:
        return Step(KEY)
    if above is not None and (is_a(above, type) or instance_dict(above) is mapping):
        return Step(".%s" % (key if type(key) is str else _key(key)), objects=2)
    if type(above) is types.FunctionType and above.__kwdefaults__ is mapping:
        return Step(name=_key(key).strip('"'), objects=2,
                    words="as a default argument of %s" % _place(above.__code__))
    if type(key) is weakref.ReferenceType or name_of_type(type(key)) == "_localdummy":
        return Step()  # of a threading.local
    return Step("[%s]" % _key(key))


def _step_of_tuple(values, child, above):
    index = _where_in(values, child)
    if type(above) is types.FunctionType:
        code = above.__code__
        if above.__closure__ is values:
            return Step(name=code.co_freevars[index],
                        words="of the enclosing function of %s" % _place(code),
                        objects=2)
        if above.__defaults__ is values:
            names = code.co_varnames[:code.co_argcount]
            return Step(name=names[len(names) - len(values) + index],
                        words="as a default argument of %s" % _place(code), objects=2)
    return Step("[%d]" % index) if index is not None else Step()


def _step_of_frame(frame, child, words):
    name = next((name for name, value in locals_of(frame) if value is child), None)
    if name is None:
        # CPython stores a variable that a closure uses in a cell object. CHILD may be this cell.
        name = next((name for name, _ in locals_of(frame)
                     if type(child) is types.CellType and name in frame.f_code.co_cellvars), None)
    line = frame.f_lineno or frame.f_code.co_firstlineno
    return Step(name=name or "a value", words="%s %s() (%s:%d)" % (
        words, _name_of_code(frame.f_code), frame.f_code.co_filename, line))


def _step_of_object(obj, child):
    for name, value in _items(instance_dict(obj) or {}):
        if value is child:
            return Step(".%s" % name)
    for cls in _type_mro(type(obj)):
        for name, descriptor in list(_type_dict(cls).items()):
            if type(descriptor) is types.MemberDescriptorType and read(obj, name) is child:
                return Step(".%s" % name)
    return None


def is_torch_module(obj):
    """Whether OBJ is a torch.nn.Module."""
    return any(_type_name(cls) == "Module" and module_of_type(cls).startswith("torch.nn")
               for cls in _type_mro(type(obj)))


def joined(expression, rest, owner):
    """EXPRESSION, by which OWNER refers to something, with REST added, which begins there:
    `.weight` instead of `._parameters["weight"]` of a module of PyTorch."""
    name, quote, after = rest[2:].partition('"]')
    if expression in _MODULE_DICTS and rest[:2] == '["' and quote and name.isidentifier() and \
            is_torch_module(owner):
        return ".%s%s" % (name, after)
    return expression + rest


def step(parent, child, above):
    """The Step from PARENT to CHILD. ABOVE is what refers to PARENT, or None."""
    kind = type(parent)
    if is_a(parent, dict):
        return _step_of_dict(parent, child, above)
    if kind is tuple:
        return _step_of_tuple(parent, child, above)
    if any(is_a(parent, one) for one in _CONTAINERS):
        index = _where_in(parent, child)
        if index is not None:
            return Step("[%d]" % index)
    if kind is types.FrameType:
        if any(type(above) is owner for owner, _ in _FRAME_OWNERS):  # before 3.11
            found = _step_of_frame(parent, child, "of the suspended")
            found.objects = 2
            return found
        return _step_of_frame(parent, child, "of")
    for owner, frame in _FRAME_OWNERS:
        if kind is owner and getattr(parent, frame) is not None:
            return _step_of_frame(getattr(parent, frame), child, "of the suspended")
    if is_a(parent, BaseException) and type(child) is types.TracebackType:
        return Step(name="", words="in the traceback of a %s" % name_of_type(kind))
    if is_one_of(kind, (types.CellType, types.TracebackType)) or name_of_type(kind) == "_local":
        return Step()
    if kind is types.MethodType:
        return Step(".__self__")
    return _step_of_object(parent, child) or Step(name="", words="in a %s" % shown_type(kind))


def _count_in(objects, number):
    return sys.getrefcount(objects[number])


class Budget:
    """The time of a search: SECONDS by the clock, and CPU_SECONDS of the thread that makes the
    Budget. Both are over as soon as IS_STOPPED() returns true."""

    def __init__(self, seconds, cpu_seconds=float("inf"), is_stopped=lambda: False):
        self._end, self._cpu_end = time.monotonic() + seconds, time.thread_time() + cpu_seconds
        self._is_stopped = is_stopped

    def is_over(self):
        return time.monotonic() > self._end or time.thread_time() > self._cpu_end or \
            self._is_stopped()


class References:
    """The roots of the process at one moment, and the search. close() lets go of everything."""

    def __init__(self, budget):
        self._budget = budget
        self._with_keys = self._skipped = False
        self.cut = False  # the time was over, or a limit was reached: the rest is not known
        self.timed_out = False
        self._containers = []
        self._own = {id(self), id(self.__dict__), id(self._containers)}
        self._frames = self._mine([])
        self._locals = self._mine({})    # id of the value: (frame, name)
        self._running = self._mine(set())
        self._modules = self._mine({})   # id of the dict: module's name
        self._raised = self._mine(set())  # ids of exceptions
        self._module_codes = self._mine({})
        self._away = self._mine({})      # id of the type: whether its objects lead elsewhere
        self._known = self._mine({})     # id: Chain of an object that was searched before
        self._filled = self._mine({})    # id: tuple or frozenset that something refers to
        self._all_filled = False         # all of these are there
        self._add_modules()
        self._add_frames()
        self._add_exceptions()

    def _mine(self, container):
        """Remembers a container of the search, which refers to objects but does not keep them. It
        lives until close(): an id of a former object may be another object's."""
        self._own.add(id(container))
        self._containers.append(container)
        return container

    def close(self):
        self.__dict__.clear()

    def codes(self):
        """The code of modules that run."""
        return list(self._module_codes.values())

    def begin(self):
        """Begins the search for one place. The time may be over already."""
        self.cut = self.timed_out

    def late(self):
        """Whether the time is over; remembers that the search was cut."""
        if not self.timed_out and self._budget.is_over():
            self.cut = self.timed_out = True
        return self.timed_out

    # ---- roots ----

    def _add_modules(self):
        for name, module in _items(sys.modules):
            if is_a(module, types.ModuleType):
                contents = types.ModuleType.__dict__["__dict__"].__get__(module)
                if (type(name) is str and name == "__main__") or id(contents) not in self._modules:
                    self._modules[id(contents)] = name

    def _add_frames(self):
        for frame in sys._current_frames().values():
            while frame is not None:
                self._running.add(id(frame))
                if id(frame.f_globals) not in _own_globals:
                    self._frames.append(frame)
                    if frame.f_code.co_name == "<module>":
                        self._module_codes[id(frame.f_globals)] = frame.f_code
                    for name, value in locals_of(frame):  # the outermost of several wins
                        self._locals[id(value)] = (frame, name)
                        if _heap.is_filled(value):
                            self._filled[id(value)] = value
                frame = frame.f_back

    def _add_exceptions(self):
        current = getattr(sys, "_current_exceptions", dict)()
        for error in current.values():
            if type(error) is tuple:  # before 3.12
                error = error[1]
            if error is not None:
                self._raised.add(id(error))

    def _line_of(self, contents, name):
        filename = dict.get(contents, "__file__")
        if filename is None and self._modules.get(id(contents)) == "__main__":
            filename = _MAIN_FILE
        code = self._module_codes.get(id(contents))
        if code is None and type(filename) is str and filename.endswith(".py"):
            code = _compiled(filename)
        line = _line_of_global(code, name) if code else None
        filename = code.co_filename if code else filename
        return "%s:%d" % (filename, line) if line else filename

    def _root_in_module(self, contents, child):
        name = next((key for key, value in _items(contents) if value is child), None)
        if type(name) is not str:
            return None
        module = self._modules.get(id(contents)) or dict.get(contents, "__name__")
        line = self._line_of(contents, name)
        return Root(name, "in %s%s" % (module, " (%s)" % line if line else ""))

    def _root_of(self, obj):
        """The Root that refers to OBJ itself, if it is not a module's dict."""
        if id(obj) in self._locals:
            frame, name = self._locals[id(obj)]
            code = frame.f_code
            return Root(name, "in %s() (%s:%d)" % (_name_of_code(code), code.co_filename,
                                                   _line_of_local(code, name)))
        if id(obj) in self._raised:
            return Root("", "which is being handled")
        return None

    @staticmethod
    def _is_namespace(obj):
        """Whether OBJ is the globals of code that ran by exec()."""
        return type(obj) is dict and "__builtins__" in obj and type(obj.get("__name__")) is str

    # ---- upwards ----

    def _referrers(self, level):
        """What refers to the objects of LEVEL, without this search."""
        found, filled = _heap.referrers(level)
        ret = [one for one in _heap.without(found, self._own | self._running | {id(level)})
               if type(one) is not types.FrameType or id(one.f_globals) not in _own_globals]
        return ret + self._filled_of(filled)

    def chain(self, target):
        """The shortest Chain from a variable to TARGET."""
        chain = None
        for with_keys in (False, True):  # a dict's key is found elsewhere, if possible
            objects = self._mine({id(target): target})
            self._with_keys = with_keys
            try:
                chain = self._search(target, objects)
            finally:
                objects.clear()
            if chain.root is not None or chain.cut or not self._skipped:
                break
        return self._remember(chain)

    def _search(self, target, objects):
        below = {id(target): None}  # id: id of the object that it refers to
        level = [target]
        self._skipped = False
        for _ in range(LEVELS_MAX):
            for obj in level:
                root = self._root_of(obj)
                if root is not None:
                    return Chain(self._down(id(obj), objects, below), root)
                if id(obj) in self._known:
                    return self._joined(id(obj), objects, below)
            obj = root = None  # what garbage refers to is counted at the end
            if self.late():
                break
            last, level = level, self._next_level(level, objects, below)
            last.clear()
            if type(level) is Chain:
                return level
            if not level and not self.cut:
                return self._end(target, objects, below)
            if not level:
                return Chain(self._mine([target]), cut=True)
        self.cut = True
        return Chain(self._down(id(level[0]), objects, below), cut=True)

    def _next_level(self, level, objects, below):
        """What refers to LEVEL, or the Chain if a module does."""
        children = {id(obj) for obj in level}
        found = []
        for parent in self._referrers(level):
            if id(parent) in objects or self.late():
                continue
            child = next(map(id, _heap.referents((parent,), children)), None)
            if child is None:
                continue
            if id(parent) in self._modules or self._is_namespace(parent):
                root = self._root_in_module(parent, objects[child])
                if root is not None:
                    return Chain(self._down(child, objects, below), root)
            if not self._with_keys and is_a(parent, dict) and \
                    not any(value is objects[child] for _, value in _items(parent)):
                self._skipped = True
                continue
            objects[id(parent)], below[id(parent)] = parent, child
            found.append(parent)
        if len(found) > FRONTIER_MAX:
            self.cut = True
        del found[FRONTIER_MAX:]
        return found

    def _down(self, at, objects, below):
        """From the kept object up to the one whose id is AT."""
        ret = self._mine([])
        while at is not None:
            ret.append(objects[at])
            at = below[at]
        ret.reverse()
        return ret

    def _remember(self, chain):
        for number, obj in enumerate(chain.objects[1:], 1):
            self._known.setdefault(id(obj), (chain, number))
        return chain

    def _joined(self, at, objects, below):
        """The chain by way of the object whose id is AT, whose own chain is known."""
        known, number = self._known[at]
        return Chain(self._mine(self._down(at, objects, below) + known.objects[number + 1:]),
                     known.root, known.cut, known.ends)

    def _end(self, target, objects, below):
        """No variable refers to TARGET. OBJECTS are all that refer to it, directly or not. If they
        are garbage, each reference to one of them comes from one of them."""
        counts = collections.Counter(
            id(one) for obj in objects.values() for one in gc.get_referents(obj))
        alone = 0
        for probe in {0: object()}.values():
            alone = sys.getrefcount(probe)
        for obj in objects.values():
            own = alone + (id(obj) in self._filled)
            if obj is not target and sys.getrefcount(obj) > counts[id(obj)] + own:
                return Chain(self._down(id(obj), objects, below), ends="native")
        garbage = [one for one in objects if one != id(target)]
        if not garbage:
            return Chain(self._mine([target]), ends="native")
        shown = next((one for one in garbage if not is_one_of(type(objects[one]), _PLAIN)), garbage[-1])
        return Chain(self._down(shown, objects, below), ends="cycle")

    # ---- downwards ----

    def _parts(self, every):
        """EVERY, a list of the heap's objects, in parts, without the search's own and running frames."""
        excluded = self._own | self._running | {id(every)}
        for start in range(0, len(every), LEVEL_PART):
            if self.late():
                return
            yield _heap.without(every[start:start + LEVEL_PART], excluded)

    def referenced(self, wanted):
        """The ids in WANTED of objects that another object or a running function refers to.
        PyTorch keeps the Python object of a tensor as long as native code keeps the tensor. Finds all
        tuples and frozensets in the same pass."""
        found = set(self._locals)
        with _heap.objects(with_ids=True) as (every, filled):
            sought = wanted.union(filled)
            for part in self._parts(every):
                self._take(_heap.referents(part, sought), found)
            part = None
        level = list(self._filled.values())
        while level and not self.late():
            level = self._take(_heap.referents(level, sought), found)
        self._all_filled = not self.timed_out
        return found & wanted

    def _take(self, objects, found):
        """Adds the ids of OBJECTS to FOUND, and the tuples and frozensets among them to those that
        something refers to. Returns these if they are new."""
        found.update(map(id, objects))
        filled = _heap.add_by_id({}, _heap.only_filled(objects))
        ret = [filled[one] for one in filled.keys() - self._filled.keys()]
        self._filled.update(filled)
        return ret

    def _filled_of(self, ids):
        """The tuples and frozensets with these IDS to which something refers."""
        missing = set(ids) - self._filled.keys()
        if missing and not self._all_filled:
            with _heap.objects() as (every, _):
                for part in self._parts(every):
                    _heap.add_by_id(self._filled, _heap.referents(part, missing))
                part = None
            if missing - self._filled.keys():  # other tuples refer to them
                self.referenced(set())
        return [self._filled[one] for one in ids if one in self._filled]

    def reached(self, top, wanted, seen):
        """The ids in WANTED that TOP refers to, by any way that does not lead through modules,
        classes, functions' globals or running frames. Adds the ids of what it visits to SEEN, and
        leaves out what is in SEEN already."""
        found, level = set(), [top]
        seen.add(id(top))
        while level and len(seen) < REACHED_MAX and not self.late():
            part, level = level[:LEVEL_PART], level[LEVEL_PART:]
            below = {id(one): one for one in gc.get_referents(*part)}
            fresh = below.keys() - seen
            seen |= fresh
            found |= fresh & wanted
            level += [below[one] for one in fresh if one not in wanted and
                      gc.is_tracked(below[one]) and not self._leads_away(below[one])]
        return found

    # ---- cycles of one class ----

    def cycles_of(self, kind, wanted):
        """Yields a set of ids in WANTED for each reference cycle with an object of the class KIND that
        is garbage and keeps one of WANTED."""
        with _heap.objects() as (every, _):
            tops = self._mine([one for one in every if type(one) is kind])
        left, waiting, failed = set(wanted), {id(one) for one in tops}, 0
        while tops and left and failed < CYCLES_FAILED_MAX and not self.late():
            objects = self._below(tops, left)
            first = next(iter(objects))
            waiting.discard(first)
            found = left & objects.keys()
            if found and self._is_garbage(objects, first, waiting):
                left -= found
                yield found
            else:
                failed += 1
        tops.clear()

    def _below(self, tops, wanted):
        """{id: object} of the last one of TOPS, which it removes, and what that refers to. No other
        variable has one of the objects when it returns."""
        level = [tops.pop()]
        ret = {id(level[0]): level[0]}
        while level and len(ret) < CYCLE_MAX:
            below = {id(one): one for one in gc.get_referents(*level)}
            level = [below[one] for one in below.keys() - ret.keys()
                     if one in wanted or (gc.is_tracked(below[one]) and not self._leads_away(below[one]))]
            ret.update((id(one), one) for one in level)
            level = [one for one in level if id(one) not in wanted]
        return ret

    def _is_garbage(self, objects, first, waiting):
        """Whether each reference to the object with the id FIRST, and to all of OBJECTS {id: object}
        that lead to it, comes from one of OBJECTS. The objects with ids in WAITING have another one."""
        above = {}  # id: ids of what refers to it
        for number, obj in objects.items():
            for one in gc.get_referents(obj):
                above.setdefault(id(one), []).append(number)
        obj = one = None
        alone, cycle, level = _count_in({0: object()}, 0), {first}, [first]
        while level:
            number = level.pop()
            parents = above.get(number, ())
            own = alone + (number in waiting) + (number in self._filled)
            if not parents or _count_in(objects, number) > len(parents) + own:
                return False
            level += set(parents) - cycle
            cycle.update(parents)
        return True

    def _leads_away(self, obj):
        kind = type(obj)
        if kind is dict:
            return id(obj) in self._modules or self._is_namespace(obj)
        if kind is types.FrameType:
            return id(obj) in self._running
        if id(kind) not in self._away:
            self._away[id(kind)] = any(
                one is away for one in _type_mro(kind)
                for away in (type, types.ModuleType, types.CodeType))
        return self._away[id(kind)]


_own_globals.update((id(globals()), id(vars(_heap))))
