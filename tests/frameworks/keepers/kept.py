# SPDX-License-Identifier: MIT
"""Programs that keep tensors or arrays, and what gpuleak.keepers() must say: (name, program, text).
`# @name` marks a line of the program; {name} in the text is its file and line."""

HEAD = """import gc, sys, gpuleak, torch

def make(count=1000):
    return torch.empty(count, device="cuda")  # @make

def show(where="make", **how):
    gpuleak.print_keepers(where, file=sys.stdout, **how)
"""
ONE = "gpuleak: 4,096 bytes (4.0 KiB) in 1 tensor allocated at make {make}, kept by:\n"
TWO = "gpuleak: 8,192 bytes (8.0 KiB) in 2 tensors allocated at make {make}, kept by:\n"
THREE = "gpuleak: 12,288 bytes (12.0 KiB) in 3 tensors allocated at make {make}, kept by:\n"
NOTHING = "gpuleak: no live memory was recorded there\n"
NATIVE = "native code, or a running loop or call: nothing in Python refers to it\n"

CASES = [
    ("a list of the module", """
history = []  # @history
for _ in range(3):
    history.append(make())
show()
del history[:]
show()
""", THREE + "    3: list `history` in __main__ ({history}), `history[0]` to `history[2]`\n" + NOTHING),

    ("a list inside main()", """
def main():
    history = []  # @history
    for _ in range(3):
        history.append(make())
    show()
    del history[:]
    show()
main()
""", THREE + "    3: list `history` in main() ({history}), `history[0]` to `history[2]`\n" + NOTHING),

    ("a dict, by its keys", """
rows = {}  # @rows
rows["first"] = make()
rows[2, "b"] = make()
show()
""", TWO + "    2: dict `rows` in __main__ ({rows}), `rows[\"first\"]` to `rows[2, \"b\"]`\n"),

    ("dicts in a list of an object", """
class Trainer:
    def __init__(self):
        self.outputs = []
def main():
    trainer = Trainer()  # @trainer
    for number in range(3):
        trainer.outputs.append({"loss": make(), "step": number})
    show()
main()
""", THREE + "    3: list `trainer.outputs` in main() ({trainer}), for example "
     "`trainer.outputs[0][\"loss\"]`\n"),

    ("attributes: of an object, of slots, of a class", """
class Plain:
    pass
class Slots:
    __slots__ = ("tensor",)
class Shared:
    tensor = make()  # in the class
plain, slots = Plain(), Slots()  # @both
plain.tensor = make()
show()
del Shared, plain
gc.collect()
slots.tensor = make()
show()
""", TWO + "    1: attribute `Shared.tensor` in __main__ ({Shared})\n"
     "    1: attribute `plain.tensor` in __main__ ({both})\n"
     + ONE + "    1: attribute `slots.tensor` in __main__ ({both})\n"),

    ("two keepers, the one with more first", """
alone = make()  # @alone
history = [make(), make()]  # @history
show()
""", THREE + "    2: list `history` in __main__ ({history}), `history[0]` to `history[1]`\n"
     "    1: variable `alone` in __main__ ({alone})\n"),

    ("a closure", """
hooks = []  # @hooks
def register():
    state = make()
    def hook():  # @hook
        return state
    hooks.append(hook)
register()
show()
""", ONE + "    1: variable `state` of the enclosing function of register.hook() ({hook}), which is "
     "`hooks[0]` in __main__ ({hooks})\n"),

    ("a default argument", """
def work(count, buffer=make(), *, other=None):  # @work
    pass
show()
del work
def work(*, other=make()):  # @again
    pass
show()
""", ONE + "    1: variable `buffer` as a default argument of work() ({work}), which is `work` in "
     "__main__ ({work})\n"
     + ONE + "    1: variable `other` as a default argument of work() ({again}), which is `work` in "
     "__main__ ({work})\n"),

    ("a cycle with __del__", """
class Node:
    def __del__(self):
        pass
def cycle():
    node = Node()
    node.itself, node.tensor = node, make()
gc.disable()
cycle()
show()
gc.set_threshold(0)
gc.enable()
show()
gc.collect()
show()
""", ONE + "    1: a reference cycle with a Node object, `(Node object).tensor`: no variable refers "
     "to it, and the garbage collector has not freed it yet; Node has __del__; gc.disable() was "
     "called\n"
     + ONE + "    1: a reference cycle with a Node object, `(Node object).tensor`: no variable refers "
     "to it, and the garbage collector has not freed it yet; Node has __del__\n" + NOTHING),

    ("equal cycles are one line, and what a variable refers to is none of them", """
class Node:
    def __init__(self):
        self.itself = self
        self.tensor = make()
class Holder:
    def __init__(self, node):
        self.node, node.holder = node, self
gc.disable()
for _ in range(20):
    Node()
alive = [Node(), Node()]  # @alive
for _ in range(3):
    Holder(Node())
show(seconds=1000)
""", "gpuleak: 102,400 bytes (100.0 KiB) in 25 tensors allocated at make {make}, kept by:\n"
     "    23: 23 reference cycles with Node objects, for example `(Node object).tensor`: no variable "
     "refers to them, and the garbage collector has not freed them yet; gc.disable() was called\n"
     "    2: list `alive` in __main__ ({alive}), for example `alive[0].tensor`\n"),

    ("more keepers than are listed", """
%s
show(seconds=1000)
""" % "\n".join("v%d = make()  # @v%d" % (one, one) for one in range(10)),
     "gpuleak: 40,960 bytes (40.0 KiB) in 10 tensors allocated at make {make}, kept by:\n"
     + "".join("    1: variable `v%d` in __main__ ({v%d})\n" % (one, one) for one in range(8))
     + "    (only 8 keepers are listed: 2 tensors have others)\n"),

    ("the middle of a chain says what keeps", """
class Future:
    pass
def embed():
    y = make()
    raise ValueError  # @raise
def main():
    pending = []  # @pending
    for _ in range(3):
        try:
            embed()
        except ValueError as error:
            pending.append(Future())
            pending[-1]._exception = error
    show()
    def queue(state):
        def task():  # @task
            return state
        return task
    pending = [queue(make()) for _ in range(2)]  # @tasks
    show()
main()
""", THREE + "    3: list `pending` in main() ({pending}), for example `y` of embed() ({raise}), in the "
     "traceback of a ValueError, which is `pending[0]._exception`\n"
     + TWO + "    2: list `pending` in main() ({pending}), for example `state` of the enclosing function of "
     "main.queue.task() ({task}), which is `pending[0]`\n"),

    ("an exception that keeps a frame", """
errors = []  # @errors
def step():
    batch = make()
    raise ValueError  # @raise
try:
    step()
except ValueError as error:
    show()
    errors.append(error)
show()
""", ONE + "    1: variable `batch` of step() ({raise}), in the traceback of a ValueError, which is "
     "being handled\n"
     + ONE + "    1: variable `batch` of step() ({raise}), in the traceback of a ValueError, which is "
     "`errors[0]` in __main__ ({errors})\n"),

    ("a suspended generator and a coroutine", """
def batches():
    batch = make()
    yield 1  # @yield
running = batches()  # @running
next(running)
show()
del running

async def fetch():
    data = make()
    await pause()  # @await
class pause:
    def __await__(self):
        yield
fetching = fetch()  # @fetching
fetching.send(None)
show()
fetching.close()
""", ONE + "    1: variable `batch` of the suspended batches() ({yield}), which is `running` in "
     "__main__ ({running})\n"
     + ONE + "    1: variable `data` of the suspended fetch() ({await}), which is `fetching` in "
     "__main__ ({fetching})\n"),

    ("sets, tuples, deques, caches of functions, partials, bound methods, threads' own", """
import collections, functools, threading
seen = {make(), make()}  # @seen
show()
seen = (1, (make(),))  # a tuple
show()
seen = collections.deque([make(), make()])
show()
seen = None
@functools.lru_cache(None)
def cached(number):  # @cached
    return make()
cached(1), cached(2)
show()
cached.cache_clear()
seen = functools.partial(print, make())
show()
class Model:
    def forward(self):
        pass
model = Model()
model.weight = make()
seen = {"forward": model.forward}
del model
show()
seen = threading.local()
seen.buffer = make()
show()
""", TWO + "    2: set `seen` in __main__ ({seen})\n"
     + ONE + "    1: item `seen[1][0]` in __main__ ({seen})\n"
     + TWO + "    2: deque `seen` in __main__ ({seen}), `seen[0]` to `seen[1]`\n"
     + TWO + "    2: dict in a functools.lru_cache, which is `cached` in __main__ ({cached}), `(dict)[1]` to "
     "`(dict)[2]`\n"
     + ONE + "    1: item `seen.args[0]` in __main__ ({seen})\n"
     + ONE + "    1: attribute `seen[\"forward\"].__self__.weight` in __main__ ({seen})\n"
     + ONE + "    1: item `seen[\"buffer\"]` in __main__ ({seen})\n"),

    ("tuples in tuples, frozensets, and a cycle with a tuple", """
def main():
    pairs = ((1, (make(), 2)), [(3, make())])  # @pairs
    show()
main()
seen = frozenset([make()])  # @seen
show()
del seen
class Node:
    pass
def cycle():
    node = Node()
    node.items = ((node, 1), make())
cycle()
show()
gc.collect()
show()
""", TWO + "    2: tuple `pairs` in main() ({pairs}), for example `pairs[0][1][0]`\n"
     + ONE + "    1: an object in a frozenset, which is `seen` in __main__ ({seen})\n"
     + ONE + "    1: a reference cycle with a Node object, `(Node object).items[1]`: no variable refers "
     "to it, and the garbage collector has not freed it yet\n" + NOTHING),

    # The trace function runs between any two instructions of the search, as another thread may.
    # With the threshold, Python before 3.12 collects garbage at each allocation. Python 3.14 does
    # not show such a tuple to the collector, so a search cannot refer to it.
    ("a tuple that is being built has no other reference at any moment", """
import ctypes
counts, tensors = [], []  # @tensors
def count(*_):
    counts.append(ctypes.c_uint32.from_address(address).value if address else 1)
def trace(frame, event, argument):
    if "/gpuleak/" not in frame.f_code.co_filename:
        return None
    frame.f_trace_opcodes = True
    count()
    return trace
def items():
    global address
    for number in range(100):
        if number == 12:
            built = [id(one) for one in gc.get_referrers(tensors[0]) if type(one) is tuple]
            address = built[0] if built else 0
            count()
            gc.callbacks.append(count)
            gc.set_threshold(1)
            sys.settrace(trace)
            show(seconds=1000)
            sys.settrace(None)
            gc.set_threshold(700)
            gc.callbacks.remove(count)
            tensors.clear()
        elif number < 2:
            tensors.append(make())
            yield tensors[-1]
        else:
            yield number
half = tuple(items())  # @half
print(len(half), len(counts) > 1000, *set(counts))
show()
""", TWO + "    2: list `tensors` in __main__ ({tensors}), `tensors[0]` to `tensors[1]`\n"
     "99 True 1\n"
     + TWO + "    2: tuple `half` in __main__ ({half=}), `half[0]` to `half[1]`\n"),

    ("a list whose slots C code fills later", """
import ctypes
new, store = ctypes.pythonapi.PyList_New, ctypes.pythonapi.PyList_SetItem
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_ssize_t]
store.argtypes = [ctypes.py_object, ctypes.c_ssize_t, ctypes.py_object]
def fill(items, number):
    one = make()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    store(items, number, one)
items = new(3)  # @items
fill(items, 1)
show()
fill(items, 0)
fill(items, 2)
show()
""", ONE + "    1: an object in a list, which is `items` in __main__ ({items})\n"
     + THREE + "    3: list `items` in __main__ ({items}), `items[0]` to `items[2]`\n"),

    ("without the GIL nothing is searched", """
kept = make()
sys._is_gil_enabled = lambda: False
show()
""", "gpuleak: this free-threaded Python runs without its lock (the GIL), so objects change while they "
     "are searched: set PYTHON_GIL=1\n"),

    ("a variable of another thread", """
import threading
ready, stop = threading.Event(), threading.Event()
def worker():
    batches = [make(), make()]  # @batches
    ready.set()
    stop.wait()
thread = threading.Thread(target=worker)
thread.start()
ready.wait()
show()
stop.set()
thread.join()
show()
""", TWO + "    2: list `batches` in worker() ({batches}), `batches[0]` to `batches[1]`\n" + NOTHING),

    ("native code, and a loop that runs", """
torch._C._keep(make())
show()
""", ONE + "    1: " + NATIVE),

    ("a loop that runs", """
for tensor in (make(), make()):
    del tensor
    show()
    break
""", TWO + "    2: tuple in a tuple_iterator, `(tuple)[0]` to `(tuple)[1]`; nothing in Python refers to the "
     "tuple_iterator: native code keeps it, or a running loop or call\n"),

    ("graphs that a list of losses keeps", """
weight = torch.empty(10, 10, requires_grad=True).to("cuda")
def train_step():
    batch = make(100).view(10, 10)
    hidden = batch @ weight  # @hidden
    return (hidden * hidden).sum()  # @loss
losses = [train_step() for _ in range(3)]  # @losses
show()
show("train.py:{hidden}")
show("train.py:{loss}")
show(losses[1].data_ptr())
numbers = [train_step().item() for _ in range(3)]
losses = None
gc.collect()
show()
""", "gpuleak: 1,536 bytes (1.5 KiB) in 3 tensors allocated at make {make}, kept by:\n"
     "    3: autograd graphs (MmBackward0) of 3 tensors, kept by list `losses` in __main__ "
     "({losses}), `losses[0]` to `losses[2]`\n"
     "gpuleak: 1,536 bytes (1.5 KiB) in 3 tensors allocated at train_step {hidden}, kept by:\n"
     "    3: autograd graphs (MulBackward0) of 3 tensors, kept by list `losses` in __main__ "
     "({losses}), `losses[0]` to `losses[2]`\n"
     "gpuleak: 1,536 bytes (1.5 KiB) in 3 tensors allocated at train_step {loss}, kept by:\n"
     "    3: list `losses` in __main__ ({losses}), `losses[0]` to `losses[2]`\n"
     "gpuleak: 512 bytes in 1 tensor allocated at train_step {loss}, kept by:\n"
     "    1: item `losses[1]` in __main__ ({losses})\n" + NOTHING),

    ("a graph of one variable, a graph after backward, and a gradient", """
weight = make().requires_grad_(True)
loss = (weight * make(1000)).sum()  # @loss
show("train.py:{loss}")
loss.backward()
show("train.py:{loss}")
""", "gpuleak: 4,096 bytes (4.0 KiB) in 1 tensor allocated at make {make}, kept by:\n"
     "    1: autograd graph (MulBackward0) of 1 tensor, kept by variable `loss` in __main__ "
     "({loss})\n"
     + 2 * ("gpuleak: 512 bytes in 1 tensor allocated at <module> {loss}, kept by:\n"
            "    1: variable `loss` in __main__ ({loss})\n")),

    ("graphs that gradients keep", """
def main():
    first = torch.empty(1000, requires_grad=True).to("cuda").detach().requires_grad_(True)  # @first
    parameters = [torch.empty(1000, requires_grad=True).to("cuda") for _ in range(2)]  # @parameters
    parameters = [one.detach().requires_grad_(True) for one in parameters]
    for one in [first] + parameters:
        one.grad = one * make()
    del one
    show()
main()
""", THREE + "    2: autograd graphs (MulBackward0) of `.grad` of tensors in list `parameters` in main() "
     "({parameters}), `parameters[0]` to `parameters[1]`\n"
     "    1: autograd graph (MulBackward0) of `.grad` of variable `first` in main() ({first})\n"),

    ("a saved tensor that has an object of Python", """
weight = torch.empty(10, 10, requires_grad=True).to("cuda")
def train_step():
    batch = make(100).view(10, 10)
    torch._C._hold(batch)
    hidden = batch @ weight
    torch._C._hold(hidden)
    return hidden.sum()
losses = [train_step() for _ in range(3)]  # @losses
show()
""", "gpuleak: 1,536 bytes (1.5 KiB) in 3 tensors allocated at make {make}, kept by:\n"
     "    3: autograd graphs (MmBackward0) of 3 tensors, kept by list `losses` in __main__ "
     "({losses}), `losses[0]` to `losses[2]`\n"),

    ("keys of a dict, which something else refers to", """
class Optimizer:
    def __init__(self, parameters):
        self.groups = [{"params": parameters}]
        self.state = {one: number for number, one in enumerate(parameters)}
optimizer = Optimizer([make()])  # @optimizer
show()
optimizer.groups = None
show()
""", ONE + "    1: item `optimizer.groups[0][\"params\"][0]` in __main__ ({optimizer})\n"
     + ONE + "    1: key of `optimizer.state` in __main__ ({optimizer})\n"),

    ("gradients, and the state of an optimizer", """
def main():
    model = torch.nn.Linear(64, 64).cuda()  # @model
    optimizer = torch.optim.Adam(model.parameters())  # @optimizer
    model(torch.randn(8, 64, device="cuda")).sum().backward()  # @backward
    optimizer.step()  # @step
    del model.bias
    show(None, limit=2)
    show("PyTorch's autograd engine")
main()
""", "gpuleak: 33,792 bytes (33.0 KiB) in 4 tensors allocated at main {step}, kept by:\n"
     "    4: defaultdict `optimizer.state` in main() ({optimizer}), for example "
     "`optimizer.state[<Tensor>][\"exp_avg\"]`\n"
     "gpuleak: 16,896 bytes (16.5 KiB) in 2 tensors allocated at main {model}, kept by:\n"
     "    1: attribute `model.weight` in main() ({model})\n"
     "    1: item `optimizer.param_groups[0][\"params\"][1]` in main() ({optimizer})\n"
     "gpuleak: 16,896 bytes (16.5 KiB) in 2 tensors allocated at the backward pass of main "
     "{backward}, kept by:\n"
     "    2: `.grad` of tensors in list `optimizer.param_groups[0][\"params\"]` in main() "
     "({optimizer}), `optimizer.param_groups[0][\"params\"][0]` to "
     "`optimizer.param_groups[0][\"params\"][1]`\n"),

    ("modules in modules, a buffer, and a module with a number for its name", """
def main():
    model = torch.nn.Module()  # @model
    model.inner = torch.nn.Linear(64, 64).cuda()  # @inner
    model.register_buffer("mask", make())
    model.parts = torch.nn.Sequential(torch.nn.Linear(64, 64).cuda())  # @parts
    del model.inner.bias, model.parts._modules["0"].bias
    show()
    show("train.py:{inner}")
    show("train.py:{parts}")
main()
""", ONE + "    1: attribute `model.mask` in main() ({model})\n"
     "gpuleak: 16,384 bytes (16.0 KiB) in 1 tensor allocated at main {inner}, kept by:\n"
     "    1: attribute `model.inner.weight` in main() ({model})\n"
     "gpuleak: 16,384 bytes (16.0 KiB) in 1 tensor allocated at main {parts}, kept by:\n"
     "    1: attribute `model.parts._modules[\"0\"].weight` in main() ({model})\n"),

    ("the blocks that a library takes from the driver at its first use are not listed", """
import os
if "PYTORCH_NO_CUDA_MEMORY_CACHING" not in os.environ:
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    os.execv(sys.executable, [sys.executable] + sys.argv)
torch._C._blas_handle()
kept = make()
show(None)
""", "gpuleak: 4,000 bytes (3.9 KiB) in 1 block allocated at make {make}, kept by:\n"
     "    1: variable `kept` in __main__ ({kept=})\n"),

    ("graphs are not read where the program unpacks saved tensors", """
def packs():
    return torch.autograd.graph.saved_tensors_hooks(None, None)
weight = torch.empty(10, 10, requires_grad=True).to("cuda")
loss = (make(100).view(10, 10) @ weight).sum()
show()
""", "gpuleak: 512 bytes in 1 tensor allocated at make {make}, kept by:\n    1: " + NATIVE +
     "    (autograd graphs were not read: the program may unpack saved tensors itself)\n"),

    ("graphs are not read while PyTorch unpacks saved tensors", """
def checkpoint():
    def unpack_hook():
        return weight
    return unpack_hook
weight = torch.empty(10, 10, requires_grad=True).to("cuda")
hook = checkpoint()
hook.__module__ = "torch.utils.checkpoint"
loss = (make(100).view(10, 10) @ weight).sum()
show()
del hook
show()
""", "gpuleak: 512 bytes in 1 tensor allocated at make {make}, kept by:\n    1: " + NATIVE +
     "    (autograd graphs were not read: the program may unpack saved tensors itself)\n"
     "gpuleak: 512 bytes in 1 tensor allocated at make {make}, kept by:\n"
     "    1: autograd graph (MmBackward0) of 1 tensor, kept by variable `loss` in __main__ "
     "({loss=})\n"),

    ("a view keeps all of its tensor", """
rows = {}  # @rows
for number in range(3):
    rows[number] = make().view(10, 100)[0]
show()
""", THREE + "    3: dict `rows` in __main__ ({rows}), `rows[0]` to `rows[2]`\n"),

    ("places: the largest, a file, a line, a function, an address, an object", """
def other():
    return torch.empty(5000, device="cuda")  # @other
first, second = make(), other()  # @both
show(None, limit=1)
show("train.py:{make}")
show("other")
show(second.data_ptr())
show(first.data_ptr() + 100)
show("nowhere.py")
show("train.py", limit=1)
print([(kept.leak.bytes, kept.keepers[0].variable, kept.keepers[0].blocks, kept.notes)
       for kept in gpuleak.keepers()])
""", "".join("gpuleak: %s allocated at %s, kept by:\n    1: variable `%s` in __main__ ({both})\n" % one
             for one in [
                 ("20,480 bytes (20.0 KiB) in 1 tensor", "other {other}", "second"),
                 ("4,096 bytes (4.0 KiB) in 1 tensor", "make {make}", "first"),
                 ("20,480 bytes (20.0 KiB) in 1 tensor", "other {other}", "second"),
                 ("20,480 bytes (20.0 KiB) in 1 tensor", "other {other}", "second"),
                 ("4,096 bytes (4.0 KiB) in 1 tensor", "make {make}", "first")])
     + NOTHING +
     "".join("gpuleak: %s allocated at %s, kept by:\n    1: variable `%s` in __main__ ({both})\n" % one
             for one in [("20,480 bytes (20.0 KiB) in 1 tensor", "other {other}", "second"),
                         ("4,096 bytes (4.0 KiB) in 1 tensor", "make {make}", "first")])
     + "[(20480, 'second', 1, []), (4096, 'first', 1, [])]\n"),

    ("nothing is kept alive, and the program's locals() stay", """
import contextlib, io
def quiet():
    with contextlib.redirect_stdout(io.StringIO()) as text:
        show()
    return text.getvalue().count("kept by")
def plain():
    tensor, others = make(), [make()]
    found = quiet()
    del tensor, others
    return found, torch.cuda.memory_allocated()
def with_locals():
    tensor, others = make(), [make()]
    mine = locals()
    found = quiet()
    same = mine["tensor"] is tensor and mine["others"] is others
    del tensor, others, mine
    return found, same, torch.cuda.memory_allocated() if sys.version_info >= (3, 13) else 0
def generator():
    tensor = make()
    yield quiet()
    del tensor
    yield torch.cuda.memory_allocated()
def traced():
    tensor, number = make(), 1
    sys.settrace(lambda *_: trace)
    found = quiet()
    sys.settrace(None)
    return found, tensor is not None, number
def trace(*_):
    return trace
print(plain())
print(with_locals())
gc.collect()
print(list(generator()))
print(traced())
gc.collect()
kept = gpuleak.keepers("make")
history = [make()]  # @history
kept = gpuleak.keepers("make")
del history
print(torch.cuda.memory_allocated(), kept[0].keepers[0].text)
""", "(1, 0)\n(1, True, 0)\n[1, 0]\n(1, True, 1)\n0 item `history[0]` in __main__ ({history})\n"),

    ("no code of the program runs", """
calls = []
class Meta(type):
    def __hash__(cls): calls.append("hash of a class"); return 1
    def __eq__(cls, other): calls.append("== of a class"); return False
    def __instancecheck__(cls, one): calls.append("isinstance"); return False
    def __getattribute__(cls, name): calls.append("getattr of a class"); return type.__getattribute__(cls, name)
class Hostile(metaclass=Meta):
    def __init__(self): object.__getattribute__(self, "__dict__")["tensor"] = make()
    def __hash__(self): calls.append("hash"); return 1
    def __eq__(self, other): calls.append("=="); return True
    def __repr__(self): calls.append("repr"); return "?"
    def __bool__(self): calls.append("bool"); return False
    def __len__(self): calls.append("len"); return 0
    def __iter__(self): calls.append("iter"); return iter(())
    def __getattribute__(self, name): calls.append("getattribute " + name); raise AttributeError
    def __getattr__(self, name): calls.append("getattr " + name); raise AttributeError
    @property
    def __cuda_array_interface__(self): calls.append("property"); return {"data": (1, False)}
    @property
    def __class__(self): calls.append("class"); return int
class HostileList(list):
    def __iter__(self): calls.append("iter of a list"); return iter(())
    def __len__(self): calls.append("len of a list"); return 0
    def __getitem__(self, key): calls.append("getitem of a list"); raise KeyError
class HostileDict(dict):
    def items(self): calls.append("items"); return []
    def keys(self): calls.append("keys"); return []
    def __iter__(self): calls.append("iter of a dict"); return iter(())
    def __getitem__(self, key): calls.append("getitem"); raise KeyError
class Name(str):
    def __eq__(self, other): calls.append("== of a name"); return str.__eq__(self, other)
    def __hash__(self): return str.__hash__(self)
    def __str__(self): calls.append("str"); return "?"
kept = HostileList([1])
kept.append(HostileDict())
key = Hostile()
dict.__setitem__(kept[1] if False else list.__getitem__(kept, 1), key, key)
key = None
plain = {Name("name"): Hostile()}
calls.clear()
found = gpuleak.keepers("make")
print(calls)
print([keeper.text.split(" in ")[0] for keeper in found[0].keepers])
""", "[]\n['attribute `kept[1][<Hostile>].tensor`', 'attribute `plain[<Name>].tensor`']\n"),

    ("the time is over", """
history = [make() for _ in range(3)]  # @history
show(seconds=0)
show(seconds=0.000001)
""", 2 * (THREE + "    (the search ended early, 3 tensors not searched: give it more "
                  "`seconds`)\n")),

    ("at exit", """
history = [make(), make()]  # @history
def main():
    gone = make()
main()
gpuleak.print_keepers_at_exit()
""", TWO + "    2: list `history` in __main__ ({history}), `history[0]` to `history[1]`\n"),

    ("on a signal", """
import os, signal
def main():
    history = [make(), make()]  # @history
    os.kill(os.getpid(), signal.SIGUSR2)
    for _ in range(10):
        pass
gpuleak.print_keepers_on()
main()
""", TWO + "    2: list `history` in main() ({history}), `history[0]` to `history[1]`\n"),

    ("a fork, and code from exec()", """
import os
exec("keep = [make(), make()]\\ndef function(): pass\\nregister.append(function)",
     {"make": make, "__name__": "plugin", "register": [].append.__self__ if False else sys.path_hooks})
show()
sys.stdout.flush()
if not os.fork():
    print(gpuleak.keepers())
    sys.stdout.flush()
    os._exit(0)
os.wait()
sys.path_hooks.pop()
""", TWO + "    2: list `keep` in plugin, `keep[0]` to `keep[1]`\n[]\n"),

    ("rows of CuPy's arrays, with its pool", """
import cupy
rows = {}  # @rows
def first_row(number):
    return (cupy.zeros((1000, 1000), dtype=cupy.float32) + 1)[0]  # @row
for number in range(3):
    rows[number] = first_row(number)
cupy.get_default_memory_pool().free_all_blocks()
show("first_row")
""", "gpuleak: 12,000,768 bytes (11.4 MiB) in 3 blocks allocated at first_row {row}, kept by:\n"
     "    3: dict `rows` in __main__ ({rows}), `rows[0]` to `rows[2]`\n"),

    ("rows of CuPy's arrays, without its pool", """
import cupy
cupy.cuda.set_allocator(None)
def main():
    rows = []  # @rows
    for number in range(3):
        whole = cupy.zeros((1000, 1000), dtype=cupy.float32)  # @whole
        rows.append(whole[1:2])
    del whole
    show("main")
main()
""", "gpuleak: 12,000,000 bytes (11.4 MiB) in 3 blocks allocated at main {whole}, kept by:\n"
     "    3: list `rows` in main() ({rows}), `rows[0]` to `rows[2]`\n"),

    ("interior addresses by __cuda_array_interface__ of an installed package", """
import site_package
view = site_package.Array(make(), 512)  # @view
base = site_package.driver(5000)  # @driver
inner = site_package.Array(None, 100, base)
show("driver")
""", "gpuleak: 5,000 bytes (4.8 KiB) in 1 block allocated at <module> {driver}, kept by:\n"
     "    1: variable `inner` in __main__ ({inner=})\n"),
]
