# SPDX-License-Identifier: MIT
"""One program for each way in which Python code comes to run: programs.py NAME.

Each is a process of its own under each CPython. A program imports the modules that take long (asyncio
takes three times as long as the interpreter's start)."""

import atexit
import contextlib
import ctypes
import functools
import gc
import os
import signal
import sys
import tempfile
import threading
import time

import traced
from traced import alloc, helper, helper_held, note, on_new_threads

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def plain():
    alloc(1000)
    for size in (2000, 3000):
        alloc(size)


@program
def gil_held():
    alloc(1000, traced.held)
    note(2000); helper_held.helper_allocate(ctypes.c_size_t(2000))
    note(3000); helper.helper_allocate(ctypes.c_size_t(3000))


def down(depth, size, alloc=alloc, again=None):
    if depth:
        return (again or down)(depth - 1, size, alloc, again)
    return alloc(size)


@program
def recursion():
    down(20, 1000)
    down(3, 2000)
    down(3, 3000)


@program
def deep():
    down(200, 1000)


@program
def one_place_two_callers():
    # The native stacks are equal: only Python tells these apart.
    def here():
        address = ctypes.c_uint64()
        where = ctypes.byref(address)
        note(1000); traced.released.cuMemAlloc_v2(where, ctypes.c_size_t(1000))

    def first():
        here()

    def second():
        here()

    for _ in range(300):
        first()
        second()


@program
def remembered():
    def often(size):
        note(size); helper.helper_repeat(ctypes.c_size_t(size), 500)

    def other(size):
        often(size)

    for _ in range(3):
        often(1000)
        other(2000)


@program
def threads():
    import concurrent.futures

    def work(size):
        for _ in range(20):
            alloc(size)

    workers = [threading.Thread(target=on_new_threads(work), args=(1000 * i,)) for i in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(on_new_threads(alloc), [100, 200, 300]))


@program
def generators():
    def numbers(n):
        for i in range(n):
            alloc(1000 + i)
            yield i

    def outer():
        yield from numbers(3)

    for _ in outer():
        pass
    sum(numbers(2))
    [alloc(500 + i) for i in range(2)]
    {alloc(700).value: alloc(800) for _ in (1,)}
    list(alloc(900) for _ in range(1))


@program
def coroutines():
    import asyncio

    async def inner(size):
        await asyncio.sleep(0)
        alloc(size)

    async def gatherer():
        async with context():
            await asyncio.gather(inner(1000), inner(2000))

    @contextlib.asynccontextmanager
    async def context():
        alloc(3000)
        yield
        alloc(4000)

    asyncio.run(gatherer())


class Holder:
    def method(self):
        return alloc(1000)

    @classmethod
    def of_class(cls):
        return alloc(2000)

    @staticmethod
    def of_none():
        return alloc(3000)

    @property
    def prop(self):
        return alloc(4000)

    def __getitem__(self, key):
        return alloc(key)

    def __enter__(self):
        alloc(6000)

    def __exit__(self, *_):
        alloc(7000)

    class Inner:
        def __init__(self):
            alloc(8000)


@program
def classes():
    holder = Holder()
    holder.method()
    Holder.of_class()
    holder.of_none()
    holder.prop
    holder[5000]
    with holder:
        pass
    Holder.Inner()


class Made:
    def __init__(self, size):
        alloc(size)


@program
def constructors():
    # After some calls CPython runs __init__ without C in between.
    def make():
        Made(1000)

    for _ in range(50):
        make()


@program
def through_c():
    sorted([2, 1], key=lambda x: alloc(1000 + x).value)
    functools.partial(alloc, 2000)()

    @functools.lru_cache(None)
    def cached(size):
        return alloc(size)

    @functools.wraps(cached)
    def wrapped(*args):
        return cached(*args)

    wrapped(3000)
    list(map(alloc, [4000]))
    functools.reduce(lambda a, b: alloc(5000), [1, 2, 3])
    max([1, 2], key=lambda x: alloc(6000).value)


@program
def executed():
    exec("alloc(1000)")
    exec(compile("\n\n\ndef f():\n    return alloc(\n        2000)\n\nf()\n", "made up.py", "exec"))
    eval("alloc(3000)")
    namespace = {"alloc": alloc}
    exec(compile("def a(): return alloc(4000)\ndef b():\n    return a()", "/x/y.py", "exec"),
         namespace)
    namespace["b"]()


@program
def names():
    for i, name in enumerate(["f\xe9\xe8", "\u0444\u0443\u043d", "\u5165\u53e3",
                              "\U0001d4cd\U0001d4ce", "plain"]):
        for k, path in enumerate(["l\xe4t.py", "\u043f\u0443\u0442\u044c.py", "\U0001f40d.py",
                                  "/odd/name \"quoted\" <b>.py"]):
            space = {"alloc": alloc}
            exec(compile("def %s():\n%s alloc(%d)\n" % (name, "\n" * k, 1000 * i + k + 1), path,
                         "exec"), space)
            # As the compiler normalizes names, by the name that it gave.
            [value for key, value in space.items() if key not in ("alloc", "__builtins__")][0]()


@program
def no_utf8():
    # A file name whose bytes are no UTF-8, as the interpreter has it.
    path = os.fsdecode(b"/tmp/\xff\xfe.py")
    exec(compile("alloc(1000)", path, "exec"), {"alloc": alloc})


@program
def churn():
    # Code objects come and go at the same addresses: names, files and lines must be their own.
    for i in range(1500):
        space = {"alloc": alloc}
        exec(compile("%sdef f%d():\n%s  alloc(64)\n\nf%d()\n" %
                     ("\n" * (i % 7), i % 40, "\n" * (i % 5), i % 40), "made %d.py" % (i % 11),
                     "exec"), space)
        if i % 100 == 0:
            gc.collect()


@program
def callbacks():
    # Two evaluation loops with native code between: alloc, order, qsort, callbacks.
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                               ctypes.POINTER(ctypes.c_int))
    libc = ctypes.CDLL(None)
    numbers = (ctypes.c_int * 2)(2, 1)

    def order(a, b):
        alloc(1000)
        return a[0] - b[0]

    libc.qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare(order))

    def again(depth):
        alloc(2000 + depth)
        if depth:
            helper.helper_call(callback, depth - 1)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_int)(again)
    helper.helper_call(callback, 2)


@program
def extension():
    call = helper_held.helper_call_object
    call.restype = ctypes.py_object
    call.argtypes = [ctypes.py_object]

    def inner():
        return call(functools.partial(alloc, 1000))

    def outer():
        return call(inner)

    call(outer)


@program
def foreign_thread():
    traced.write(1000, [])
    helper.helper_on_thread(ctypes.c_size_t(1000))
    alloc(2000)


@program
def forks():
    alloc(1000)
    child = os.fork()
    if child == 0:
        traced.start()
        alloc(2000)
        down(2, 3000)
        sys.exit(0)
    os.waitpid(child, 0)
    alloc(4000)


@program
def freed():
    for _ in range(50):
        traced.free(alloc(10))
    # What was noted is freed: nothing may be reported.
    os.truncate(os.environ["PYTHON_EXPECTED"], 0)


@program
def exits():
    atexit.register(alloc, 1000)
    atexit.register(down, 2, 2000)

    def last():
        yield 1
        alloc(3000)

    global kept
    kept = last()
    next(kept)


class AtEnd:
    def __del__(self, down=down, alloc=alloc):
        down(2, 1000, alloc, down)


@program
def finalization():
    # Modules are taken apart when this one goes: their functions still run.
    global at_end
    at_end = AtEnd()
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


@program
def daemon_threads():
    # They go on calling while the interpreter ends; whatever they free is no leak.
    def work():
        while True:
            address = ctypes.c_uint64()
            traced.released.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64))
            traced.released.cuMemFree_v2(address)

    for _ in range(4):
        threading.Thread(target=on_new_threads(work), daemon=True).start()
    time.sleep(0.2)


class LetsGoAtEnd:
    def __del__(self, let_go=helper.helper_let_go):
        let_go()


@program
def native_at_end():
    # A thread is in native code, without the GIL, when the interpreter frees the thread's state. Then
    # gpuleak must not read the thread's frames.
    global lets_go_at_end
    lets_go_at_end = LetsGoAtEnd()
    traced.write(1000, [])
    wait = functools.partial(helper.helper_allocate_when_let_go, ctypes.c_size_t(1000))
    threading.Thread(target=on_new_threads(wait), daemon=True).start()
    while not helper.helper_is_waiting():
        time.sleep(0.01)


@program
def python_signal():
    def on_signal(_number, _frame):
        alloc(1000)

    signal.signal(signal.SIGUSR1, on_signal)
    os.kill(os.getpid(), signal.SIGUSR1)
    for _ in range(1000):
        pass


@program
def native_signal():
    # The handler runs wherever the interpreter is, its frames half made.
    total = 0
    # Two seconds, and more of them where a busy machine has not handled enough signals in two.
    while helper.helper_by_signal(300) <= 100:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            total += sum(x * x for x in range(50))
            total += down_only(30)
            exec("total = 1")
    helper.helper_by_signal(0)


def down_only(depth):
    return down_only(depth - 1) if depth else 1


@program
def sub_interpreters():
    try:
        import _interpreters as interpreters
        new = functools.partial(interpreters.create, "legacy")
    except ImportError:
        import _xxsubinterpreters as interpreters
        new = interpreters.create
        if sys.version_info >= (3, 9):  # before, no interpreter is isolated
            new = functools.partial(new, isolated=False)
    alloc(1000)
    one = new()
    together = sys.version_info < (3, 12)  # what is known of threads is of one interpreter
    if together:
        traced.write(2000, [])
        down_no_note(2000)
    else:
        alloc(2000)
    interpreters.run_string(one, SUB % (sys.path, together))
    interpreters.destroy(one)
    alloc(4000)


SUB = """
import sys
sys.path[:] = %r
import traced
if %r:
    traced.note = lambda size: None
    traced.write(3000, [])
    traced.alloc(3000, note=lambda size: None)
else:
    traced.alloc(3000)
"""


def down_no_note(size):
    return alloc(size, note=lambda _size: None)


@program
def stress():
    end = time.monotonic() + float(os.environ.get("PYTHON_STRESS_S", "3"))

    def churn_for(number):
        i = 0
        while time.monotonic() < end:
            i += 1
            space = {"alloc": alloc, "down": down}
            exec(compile("%sdef f%d(n):\n%s  alloc(64) if n == 0 else f%d(n - 1)\n\nf%d(%d)\n" %
                         ("\n" * (i % 5), i % 9, "\n" * (i % 3), i % 9, i % 9, i % 6),
                         "thread %d.py" % number, "exec"), space)
            if i % 20 == 0:
                gc.collect()
            down(i % 12, 32)

    def objects():
        while time.monotonic() < end:
            [str(i) * 3 for i in range(1000)]
            compile("a = [%d, 'x%d']" % (id(end), id(end)), "f%d" % id(end), "exec")

    workers = [threading.Thread(target=on_new_threads(churn_for), args=(i,)) for i in range(4)]
    workers.append(threading.Thread(target=objects))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    sys.setswitchinterval(1e-4)
    traced.start()
    PROGRAMS[sys.argv[1]]()
