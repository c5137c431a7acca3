# SPDX-License-Identifier: MIT
"""Finds the Python objects that have device memory, and what PyTorch's autograd graphs keep. Owns
the knowledge of frameworks' objects. Imports none of the frameworks and calls only their C code,
and properties of installed packages, never those of the program's own classes."""

import contextlib
import sys
import types

from . import _heap
from ._references import _type_dict, _type_mro, is_a, name_of_type, read, static, _own_globals

_NESTED = 0x10  # CO_NESTED: the code of a function inside a function
_INSTALLED = ("/site-packages/", "/dist-packages/")


def _of_module(module, name):
    found = sys.modules.get(module)
    return types.ModuleType.__dict__["__dict__"].__get__(found).get(name) \
        if found is not None and is_a(found, types.ModuleType) else None


def _torch():
    """The class torch.Tensor, or None."""
    found = _of_module("torch", "Tensor")
    return found if found is not None and is_a(found, type) else None


def _dispatch_off():
    """While it lasts, PyTorch calls no __torch_function__ and no __torch_dispatch__ of a
    subclass."""
    native = sys.modules.get("torch._C") or _of_module("torch", "_C")
    guards = contextlib.ExitStack()
    for names in (("DisableTorchFunctionSubclass", "DisableTorchFunction"),
                  ("_DisableTorchDispatch",)):
        guard = next(filter(None, (getattr(native, name, None) for name in names)), None)
        made = guard() if guard is not None else None
        if hasattr(type(made), "__enter__"):
            guards.enter_context(made)
        else:  # before 2.0 some guards last as long as the object
            guards.callback(lambda _: None, made)
    return guards


def _address_of_tensor(tensor, base):
    """The first address of the tensor's storage."""
    for name in ("untyped_storage", "storage"):
        method = static(tensor, name) if base is None else getattr(base, name, None)
        if method is not None:
            return method(tensor).data_ptr()
    return base.data_ptr(tensor)


def _reader_of_torch(base):
    def address(tensor):
        return _address_of_tensor(tensor, base) if base.is_cuda.__get__(tensor) else 0
    return address


def _address_in_cupy(array):
    memory = read(read(array, "data"), "mem")
    return read(memory, "ptr") or read(read(array, "data"), "ptr") or 0


def _address_in_interface(obj):
    return static(obj, "__cuda_array_interface__").__get__(obj)["data"][0]


def _is_installed(cls):
    filename = _of_module(_type_dict(cls).get("__module__"), "__file__")
    return type(filename) is str and any(folder in filename for folder in _INSTALLED)


def _own_reader(cls, torch, cupy):
    """The function that returns the address that objects of CLS and of its subclasses have, or None."""
    if cls is torch:
        return _reader_of_torch(torch)
    if cls is cupy:
        return _address_in_cupy
    found = _type_dict(cls).get("__cuda_array_interface__")
    if type(found) is types.GetSetDescriptorType or (type(found) is property and _is_installed(cls)):
        return _address_in_interface
    return None


def _readers(torch):
    """{id of a class: the function that returns the address that its objects have}. Looks at all
    classes, because to look at the classes of all objects takes longer."""
    ret, seen, level = {}, set(), [(object, None)]
    cupy = _of_module("cupy", "ndarray")
    while level:
        cls, inherited = level.pop()
        if inherited is not None:
            ret.setdefault(id(cls), inherited)
        elif id(cls) in seen:
            continue
        seen.add(id(cls))
        reader = inherited or _own_reader(cls, torch, cupy)
        if reader is not None:
            ret.setdefault(id(cls), reader)
        level += [(one, reader) for one in type.__subclasses__(cls)]
    return ret


class Objects:
    """All objects with device memory: `list`, and the `addresses` of the same positions. `graphs`: the
    tensors with an autograd graph. `late` is called now and then, and ends the search if it returns
    true. CODES are running modules'."""

    def __init__(self, late, codes=()):
        self.list, self.addresses, self.graphs = [], [], []
        self._codes, self._has_hooks = codes, None
        torch = _torch()
        readers = _readers(torch)
        with _dispatch_off():
            for number, obj in enumerate(_heap.of_types(readers.keys())):
                if number % 1000 == 0 and late():
                    break
                self._add(obj, readers[id(type(obj))], torch)

    def _add(self, obj, reader, torch):
        try:
            address = reader(obj)
        except Exception:  # a framework's refusal: it has no storage
            address = 0
        if type(address) is int and address:
            self.list.append(obj)
            self.addresses.append(address)
        if torch is not None and is_a(obj, torch):
            try:
                if torch.grad_fn.__get__(obj) is not None:
                    self.graphs.append(obj)
            except Exception:  # a subclass without a graph
                return

    @property
    def has_hooks(self):
        """Whether code of the program may pack saved tensors, and unpack them when they are read."""
        if self._has_hooks is None:
            self._has_hooks = any("saved_tensors_hooks" in code.co_names for code in self._codes) or \
                any(map(_makes_hooks, _heap.of_types({id(types.FunctionType)})))
        return self._has_hooks


def _makes_hooks(function):
    """Whether FUNCTION sets hooks for saved tensors. PyTorch's own hooks are functions that live as
    long as what they packed."""
    code, module = function.__code__, function.__module__
    if type(module) is str and module in ("torch.utils.checkpoint", "torch.autograd.graph"):
        return code.co_name.startswith("unpack") and code.co_flags & _NESTED != 0
    return "saved_tensors_hooks" in code.co_names


# ---- autograd ----

class Graph:
    """An autograd graph that ends in NODE. OWNER is the id of the tensor that has it, or whose `.grad`
    has it (OF_GRADIENT)."""

    __slots__ = ("node", "owner", "of_gradient")

    def __init__(self, node, owner, of_gradient):
        self.node, self.owner, self.of_gradient = node, owner, of_gradient


class Saved:
    """A tensor that a graph keeps: the name of the NODE that has it, and the GRAPH."""

    __slots__ = ("node", "graph")

    def __init__(self, node, graph):
        self.node, self.graph = node, graph


def _name_of_node(node):
    name = name_of_type(type(node))
    return node.name() if name in ("CppFunction", "Node") else name


def _saved_by(kind):
    """The names of the attributes of a node of the class KIND that may be saved tensors."""
    return sorted({name for cls in _type_mro(kind) for name in _type_dict(cls)
                   if type(name) is str and (name.startswith("_saved_") or
                                             name in ("saved_tensors", "variable"))})


def _tensors_of(node, torch, names):
    """The tensors that NODE saved, in the attributes with these NAMES. Reading those that a backward has
    released is an error, for which read() returns None."""
    for name in names:
        value = read(node, name)
        for one in value if type(value) is tuple else (value,):
            if one is not None and is_a(one, torch):
                yield one


def graphs(objects, owners):
    """The graphs that tensors with an id in OWNERS have."""
    torch = _torch()
    if torch is None or objects.has_hooks:
        return []
    with _dispatch_off():
        return [Graph(torch.grad_fn.__get__(tensor), id(tensor), False) for tensor in objects.graphs
                if id(tensor) in owners]


def saved_tensors(every, wanted, late):
    """{address: Saved} of the addresses in WANTED that the graphs of EVERY keep."""
    torch, ret, seen, nodes = _torch(), {}, set(), []
    names = {}  # by the id of a node's class, which a node in `nodes` keeps alive
    with _dispatch_off():
        for graph in every:
            level = [graph.node]
            while level and len(ret) < len(wanted) and not late():
                node = level.pop()
                if node is None or id(node) in seen:
                    continue
                seen.add(id(node))
                nodes.append(node)  # so that no other node gets its id
                if id(type(node)) not in names:
                    names[id(type(node))] = _saved_by(type(node))
                for one in _tensors_of(node, torch, names[id(type(node))]):
                    address = _address_of_tensor(one, torch)
                    if address in wanted and address not in ret:
                        ret[address] = Saved(_name_of_node(node), graph)
                level += [pair[0] for pair in read(node, "next_functions") or ()]
    return ret


def gradients(objects, wanted, owners):
    """Reads the gradients, which tensors keep in native code. Returns {address: position in
    Objects.list of the tensor} of those in WANTED, and the graphs that gradients of tensors with an
    id in OWNERS have."""
    torch, ret, found = _torch(), {}, []
    gradient = None if torch is None else getattr(torch, "_grad", None) or \
        getattr(torch, "grad", None)
    if type(gradient) is not types.GetSetDescriptorType:
        return ret, found
    with _dispatch_off():
        for position, tensor in enumerate(objects.list):
            if not is_a(tensor, torch) or not (
                    read(tensor, "is_leaf") or read(tensor, "retains_grad")):
                continue
            try:
                one = gradient.__get__(tensor)
                address = _address_of_tensor(one, torch) if one is not None else 0
                node = torch.grad_fn.__get__(one) if one is not None else None
            except Exception:  # a framework's refusal
                continue
            if address in wanted:
                ret.setdefault(address, position)
            if node is not None and id(tensor) in owners and not objects.has_hooks:
                found.append(Graph(node, id(tensor), True))
    return ret, found


_own_globals.add(id(globals()))
