#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `gpuleak run --keepers` on the stand-ins for PyTorch and CuPy. A program that waits for a
search waits until the text is in its own ledger, so that no test depends on time. TAP.

    run_recorded.py --torch FOLDER --cupy FOLDER --preload ... --command ... --standin ...
                    [--only TEXT]"""

import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
FRAMEWORKS = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(FRAMEWORKS))
sys.path.insert(0, FRAMEWORKS)

from standin_torch import PYTHON, arguments, run_steps
from harness import SLOWER, Failed, compare

PACKAGES = [os.path.join(FRAMEWORKS, name, "site-packages") for name in ("torch", "cupy")]

# A program's own means: keep() allocates two tensors and returns one; recorded() is true as soon as
# the ledger of the process has TEXT.
HEAD = """import ctypes, os, signal, sys, time
import torch

def ledger():
    room = ctypes.create_string_buffer(8192)
    function = ctypes.CDLL(None).gpuleak_ledger
    return room.value.decode() if function(room, ctypes.c_size_t(8192)) >= 0 else None

def recorded(text):
    time.sleep(0.001)
    if time.monotonic() - started > 90:
        sys.exit("nothing was recorded")
    with open(ledger(), "rb") as file:
        return text.encode() in file.read()

def keep():
    other = torch.empty(1000, device="cuda")
    return torch.empty(1000, device="cuda")  # @keep

started = time.monotonic()
"""
MAIN = HEAD + """
def main():
    history = []  # @history
    while len(history) < 400 or not recorded("list `history` in main()"):
        history.append(keep())

%s
"""
MODULE = HEAD + """
history = []  # @history
for _ in range(400):
    history.append(keep())
"""
REMARK = ("--keepers found nothing in pid PID: no search ran while the accumulated memory was in "
          "use, or Python did not load gpuleak's sitecustomize.py (python -I, -E or -S, or PYTHONPATH "
          "was changed), or the program imported no framework that gpuleak knows, or its Python is free-threaded")


class Program:
    """TEXT as a file in PLACE, and the ways to run it."""

    def __init__(self, options, place, text):
        self.options, self.place = options, place
        self.path = os.path.join(os.path.realpath(place), "train.py")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)

    def line(self, mark):
        with open(self.path, encoding="utf-8") as file:
            return next(number for number, line in enumerate(file, 1)
                        if line.endswith("# @%s\n" % mark))

    def run(self, *words, flags=("--keepers",), status=0, path=(), command="run"):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("GPULEAK_", "STANDIN_", "PYTHON"))}
        env.update(
            STANDIN_TORCH=self.options.torch, STANDIN_CUPY=self.options.cupy,
            LD_LIBRARY_PATH=self.options.standin, PYTHONDONTWRITEBYTECODE="1",
            PYTHONPATH=":".join([*path, *PACKAGES]))
        words = [PYTHON, *words, self.path]
        if command:
            words = [self.options.command, command, *flags, "--", *words]
        ran = subprocess.run(words, env=env, check=False, capture_output=True, text=True,
                             cwd=self.place, timeout=300 * SLOWER)
        if ran.returncode != status:
            raise Failed("status %d\n%s%s" % (ran.returncode, ran.stdout, ran.stderr))
        return ran

    def report(self, *words, flags=("--keepers",), **more):
        path = os.path.join(self.place, "report.json")
        self.run(*words, flags=(*flags, "--format", "json", "--report", path), **more)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def entry(self, entries):
        """The one of ENTRIES whose innermost line in Python is the one with @keep."""
        return next(entry for entry in entries for frame in entry["stack"]
                    if frame["file"] == self.path and frame["line"] == self.line("keep"))

    def kept(self, *words, **more):
        """The entry that accumulates, and its keepers."""
        entry = self.entry(self.report(*words, **more)["suballocations"])
        compare("trend", "accumulating", entry["trend"])
        return entry, entry["keepers"]

    def text_of(self, count, where, name="history"):
        return "list `%s` in %s (%s:%d), `%s[0]` to `%s[%d]`" % (
            name, where, self.path, self.line("history"), name, name, count - 1)


def at_exit(options, place):
    """what a module keeps is found at the end"""
    program = Program(options, place, MODULE)
    entry, keepers = program.kept()
    compare("keepers", [{"blocks": 400, "text": program.text_of(400, "__main__")}], keepers)
    compare("kept", 400, entry["kept_blocks"])
    ran = program.run()
    found = re.search(r"^  Kept after [\d.]+ m?s by:\n    400: (.*)\n\n", ran.stderr, re.M)
    compare("text", program.text_of(400, "__main__"), found and found.group(1))
    compare("without the option", (False, False), (
        "keepers" in program.entry(program.report(flags=())["suballocations"]),
        "Kept after" in program.run(flags=()).stderr))


def inside_main(options, place):
    """what main() keeps is found while it runs"""
    program = Program(options, place, MAIN % "main()")
    entry, keepers = program.kept()
    count = keepers[0]["blocks"]
    compare("keepers", [program.text_of(count, "main()")], [one["text"] for one in keepers])
    if not 0 < count <= entry["kept_blocks"] or entry["bytes"]:
        raise Failed("%d of %d, live %d" % (count, entry["kept_blocks"], entry["bytes"]))


def doubled(options, place):
    """a search comes when a line has 8 live tensors, and when it has 16, whatever the time is"""
    program = Program(options, place, HEAD + """
sys.modules["_gpuleak._recorded_keepers"].FIRST_SECONDS = 1e6

def main():
    history = []  # @history
    for count in [1] * 50 + [8, 16]:  # Python 3.14 runs a new loop in several ways at first
        while len(history) < count:
            history.append(keep())
        if count == 1:
            history.clear()
        while count > 1 and not recorded("`history[%d]`" % (count - 1)):
            pass
    os.kill(os.getpid(), signal.SIGKILL)

main()
""")
    entry = program.entry(program.report(status=128 + 9)["suballocations"])
    compare("keepers", [{"blocks": 16, "text": program.text_of(16, "main()")}], entry["keepers"])


# From here on each search is cut at once. searches() waits until COUNT have ended.
CUT = """
def cut(self):
    self.cut = self.timed_out = True
    return True

def searched(*arguments):
    result = real(*arguments)
    ended.append(arguments)
    return result

def searches(count):
    count += len(ended)
    while len(ended) < count:
        time.sleep(0.001)

ended = []
recorded_keepers = sys.modules["_gpuleak._recorded_keepers"]
real, recorded_keepers._search = recorded_keepers._search, searched
"""


def cut(options, place):
    """a search that was cut does not replace what an earlier one found"""
    program = Program(options, place, HEAD + CUT + """
def main():
    history = []  # @history
    for count in (400, 1600):
        while len(history) < count:
            history.append(keep())
        while count == 400 and not recorded("`history[399]`"):
            pass
        sys.modules["_gpuleak._references"].References.late = cut
        searches(2)
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)

main()
""")
    entry = program.entry(program.report(status=128 + 9)["suballocations"])
    compare("keepers", [{"blocks": 400, "text": program.text_of(400, "main()")}], entry["keepers"])


def nothing_found(options, place):
    """a search that found nothing in its time says what can be done"""
    program = Program(options, place, HEAD + CUT + """
sys.modules["_gpuleak._references"].References.late = cut
history = []
for _ in range(400):
    history.append(keep())
""")
    _, keepers = program.kept()
    compare("keepers", [{"blocks": 0, "text": "the search ended early, 400 tensors not searched: "
                         "gpuleak.print_keepers(seconds=100) in the program searches longer"}], keepers)


def ends(options, place):
    """a program ends, though a search would go on"""
    program = Program(options, place, HEAD + CUT + """
def chain(self, target):
    endless.append(target)
    while not self.late():
        time.sleep(0.001)
    return find(self, target)

endless, references = [], sys.modules["_gpuleak._references"].References
find, references.chain = references.chain, chain
recorded_keepers.SEARCH_SECONDS = recorded_keepers.CPU_SECONDS = 1e6, 1e6
recorded_keepers.WALL_SECONDS, recorded_keepers.EXIT_SECONDS = 1e6, 0.0
history = []
while not endless:
    history.append(keep())
    time.sleep(0.001)
""")
    program.run(flags=("--keepers", "--report", "none"))


def crowded(options, place):
    """what a variable keeps is not replaced by many call sites to which nothing in Python refers"""
    lose = "".join("    lose(torch.empty(%d, device='cuda'))\n" % (1000000 + 1000 * number)
                   for number in range(12))
    program = Program(options, place, HEAD + """
def lose(tensor):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))

def main():
    history = []  # @history
%s    while len(history) < 400 or not recorded("list `history` in main()"):
        history.append(keep())
    while not recorded("native code"):
        pass

main()
""" % lose)
    _, keepers = program.kept()
    compare("keepers", [program.text_of(keepers[0]["blocks"], "main()")],
            [one["text"] for one in keepers])


def ended_meanwhile(options, place):
    """what ends while a search runs is not said to be kept by native code"""
    program = Program(options, place, HEAD + """
def searched(*arguments):
    history.clear()
    searches.append(arguments)
    return real(*arguments)

history, searches = [], []
keepers = sys.modules["_gpuleak._keepers"]
real, keepers._searched = keepers._searched, searched
for _ in range(400):
    history.append(keep())
while not searches:
    time.sleep(0.001)
""")
    found = program.entry(program.report()["suballocations"]).get("keepers", [])
    compare("native", [], [one for one in found if one["text"].startswith("native")])


def killed(options, place):
    """a program that is killed: what was found last"""
    text = MAIN % "main()"
    text = text.replace("        history.append(keep())\n", "        history.append(keep())\n"
                        "    os.kill(os.getpid(), signal.SIGKILL)\n")
    program = Program(options, place, text)
    _, keepers = program.kept(status=128 + 9)
    compare("keepers", [program.text_of(keepers[0]["blocks"], "main()")],
            [one["text"] for one in keepers])


def forked(options, place):
    """a child by fork, which imports nothing anew"""
    program = Program(options, place, MAIN % (
        "pid = os.fork()\nif pid == 0:\n    main()\n    os._exit(0)\n"
        "sys.exit(os.waitpid(pid, 0)[1])"))
    _, keepers = program.kept()
    compare("keepers", [program.text_of(keepers[0]["blocks"], "main()")],
            [one["text"] for one in keepers])


def not_seen(options, place):
    """a program sees no thread, child, signal or module path of the search"""
    program = Program(options, place, MAIN % """
import threading
seen, path = [], list(sys.path)
signal.signal(signal.SIGCHLD, lambda *_: seen.append("SIGCHLD"))
main()
try:
    seen.append(os.waitpid(-1, 0))
except ChildProcessError:
    pass
print(seen, threading.enumerate(), sys.path == path,
      any("bypass" in one for one in path), "gpuleak" in sys.modules,
      signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""")
    ran = program.run()
    compare("seen", "[] [<_MainThread(MainThread, started NUMBER)>] True False False True\n",
            re.sub(r"started \d+", "started NUMBER", ran.stdout))


def deaf(options, place):
    """python -I does not load the module: the report says so"""
    text = MODULE.replace("import torch", "sys.path[:0] = %r\nimport torch" % PACKAGES)
    program = Program(options, place, text)
    found = program.report("-I")
    compare("notes", [REMARK.replace("PID", str(found["process"]["pid"]))], found["notes"])
    compare("with it", [], program.report()["notes"])


def arrays(options, place):
    """arrays of CuPy with --bypass-pools, and without it CuPy's pool stays on"""
    text = MAIN.replace("import torch", "import cupy").replace(
        'torch.empty(1000, device="cuda")', "cupy.zeros(1000)")
    program = Program(options, place, text % "main()")
    _, keepers = program.kept(flags=("--keepers", "--bypass-pools"))
    compare("keepers", [program.text_of(keepers[0]["blocks"], "main()")],
            [one["text"] for one in keepers])
    text = MODULE.replace("import torch", "import cupy").replace(
        'torch.empty(1000, device="cuda")', "cupy.zeros(1000)")
    program = Program(options, place, text)
    leak = program.entry(program.report(flags=("--keepers", "--bypass-pools"))["leaks"])
    compare("of a leak", [{"blocks": 400, "text": program.text_of(400, "__main__")}],
            leak["keepers"])
    compare("pool", 1, len({one["cache"] for one in program.report()["cached"]}))


def with_site(place, text):
    """Writes TEXT as a sitecustomize below PLACE. Returns its folder."""
    folder = os.path.join(place, "own")
    os.mkdir(folder)
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(text)
    return folder


def own_site(options, place):
    """the user's sitecustomize runs, and --keepers prints nothing into the program's output"""
    folder = with_site(place, "import sys\nsys.stdout.write('mine\\n')\n")
    program = Program(options, place, MODULE)
    ran = program.run(path=[folder], flags=("--keepers", "--report", "none"))
    compare("output", ("mine\n", ""), (ran.stdout, ran.stderr))


def without_lock(options, place):
    """a free-threaded Python without the GIL: one line on stderr, and no search"""
    folder = with_site(place, "import sys\nsys._is_gil_enabled = lambda: False\n")
    program = Program(options, place, MODULE)
    ran = program.run(path=[folder], flags=("--keepers", "--report", "none"))
    compare("stderr", "gpuleak: --keepers: this free-threaded Python runs without its lock (the GIL), "
            "so objects change while they are searched: set PYTHON_GIL=1\n", ran.stderr)
    found = program.entry(program.report(path=[folder])["suballocations"])
    compare("keepers", [], found.get("keepers", []))


def failed_search(options, place):
    """a search at exit that fails: one line on stderr, and the report is written"""
    text = "\nsys.modules['_gpuleak._recorded_keepers'].keepers_by_site = None\n"
    program = Program(options, place, MODULE + text)
    ran = program.run(flags=("--keepers", "--report", "none"))
    compare("stderr", "gpuleak: --keepers: the search at exit failed, so the report may lack variables: "
            "TypeError: 'NoneType' object is not callable\n", ran.stderr)
    compare("status", 0, ran.returncode)
    found = program.entry(program.report()["suballocations"])
    compare("keepers", [], found.get("keepers", []))


def exception(options, place):
    """an exception that ends main(): its traceback keeps what main() had"""
    text = HEAD + """
def main():
    history = []  # @history
    for _ in range(400):
        history.append(keep())
    raise ValueError("the end")
main()
"""
    program = Program(options, place, text)
    _, keepers = program.kept(status=1)
    compare("keepers", [400], [one["blocks"] for one in keepers])
    if "list `history` of main() (%s:" % program.path not in keepers[0]["text"] or \
            "which is `last_traceback` in sys" not in keepers[0]["text"]:
        raise Failed(keepers[0]["text"])


CASES = (at_exit, inside_main, doubled, cut, nothing_found, ends, crowded, ended_meanwhile, killed, forked, not_seen, deaf, arrays, own_site,
         without_lock, failed_search, exception)


def main():
    options = arguments(__doc__, "cupy")
    return run_steps(options, [(case.__doc__, case) for case in CASES])


if __name__ == "__main__":
    sys.exit(main())
