# SPDX-License-Identifier: MIT
"""Acts when a framework is imported: switches CuPy's memory pools off for `gpuleak run
--bypass-pools`, and starts the search for `gpuleak run --keepers`.

Python imports this module at its start, because the command puts its folder on PYTHONPATH. The
module then imports the sitecustomize that Python would have imported without it. Must not import
CuPy itself, and must work in every Python from 2.7 on."""

import os
import sys

# as in tools/launch/bypass.def
FRAMEWORKS = ("cupy", "cudf", "jax", "numba", "tensorflow", "tinygrad", "torch")
WITH_OBJECTS = FRAMEWORKS + ("pycuda", "rmm")  # --keepers searches their objects
BYPASS = "GPULEAK_BYPASS" in os.environ
KEEPERS = os.environ.get("GPULEAK_KEEPERS") == "1" and sys.version_info >= (3, 8)
FOLDER = os.path.dirname(os.path.realpath(__file__))
if KEEPERS:
    import time
    STARTED = time.monotonic()


def note(name, text):
    """Stores TEXT about framework NAME in a file, for the report of the command."""
    if not os.environ.get("GPULEAK_BYPASS"):
        return  # The command has no folder.
    try:
        path = os.path.join(os.environ["GPULEAK_BYPASS"], "%d.%s" % (os.getpid(), name))
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, text.encode("utf-8", "replace"))
        finally:
            os.close(file)
    except (KeyError, OSError):
        pass  # The command's folder cannot be reached: the report lacks the text.


def switch_off(cupy):
    try:
        cupy.cuda.set_allocator(None)
        cupy.cuda.set_pinned_memory_allocator(None)
        return "off"
    except Exception as error:  # pylint: disable=broad-except
        return "%s: %s" % (type(error).__name__, error)


def search():
    """Starts the search for what keeps memory. Uses the copy of the package beside this folder,
    under another name, because the program may import a `gpuleak` of its own."""
    import importlib.util
    name, place = "_gpuleak", os.path.join(os.path.dirname(FOLDER), "gpuleak")
    if name in sys.modules:
        return
    try:
        spec = importlib.util.spec_from_file_location(
            name, os.path.join(place, "__init__.py"), submodule_search_locations=[place])
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        importlib.import_module(name + "._recorded_keepers").prepare(STARTED)
    except Exception as error:  # pylint: disable=broad-except
        sys.stderr.write("gpuleak: --keepers: %s: %s\n" % (type(error).__name__, error))


def imported(name, module):
    if KEEPERS:
        search()
    if BYPASS and name in FRAMEWORKS:
        bypass(name, module)


def bypass(name, module):
    if name != "cupy":
        note(name, "off")  # An environment variable switched its cache off.
    elif hasattr(module, "cuda"):  # else another module has this name
        note(name, switch_off(module))


class Finder(object):
    """Leaves the import of a framework to the other finders, and calls imported() at its end. The
    importing thread holds the lock of the module until then, so no thread sees CuPy with its
    pools."""

    def __init__(self):
        self.importing = set()
        self.module = sys.modules[__name__]  # Python 2 clears a module without references.

    def find_spec(self, name, path=None, target=None):
        """For Python 3.4 and later."""
        if name not in WITH_OBJECTS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    self.extend(name, spec.loader)
                return spec
        return None

    @staticmethod
    def extend(name, loader):
        """Replaces exec_module() of this loader only. Does not change its class."""
        try:
            execute = loader.exec_module

            def exec_module(module):
                execute(module)
                imported(name, module)

            loader.exec_module = exec_module
        except AttributeError as error:
            note(name, "its loader cannot be extended: %s" % error)

    def find_module(self, name, path=None):
        """For Python 2."""
        del path
        return self if name in WITH_OBJECTS and name not in self.importing else None

    def load_module(self, name):
        """For Python 2, which holds one lock for all imports meanwhile."""
        self.importing.add(name)
        try:
            __import__(name)
        finally:
            self.importing.discard(name)
        imported(name, sys.modules[name])
        return sys.modules[name]


def chain():
    """Imports the next sitecustomize on the path, as Python would without this module. If there is
    none, raises the ImportError that Python expects."""
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != FOLDER]
    del sys.modules[__name__]
    __import__(__name__)


sys.meta_path.insert(0, Finder())
chain()
