#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the corpus for compare.py.

corpus.py record BUILD KEPT [TEST...] runs tests of BUILD and keeps the ledgers that their programs
write in folders of KEPT. corpus.py choose BUILD KEPT CORPUS [COUNT] chooses those ledgers whose
reports differ most in what they contain, adds damaged ones, and writes the files for the options.
The ledgers name the programs of BUILD, so that folder has to stay."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = (r"programs-(?!short-memory|sanitized|doctor).*(?<!-fast)|html|matrix-.*|opencl-layer|"
         r"frameworks-torch-(backward|bad-input|out-of-memory|peak|reports|recorded)|"
         r"frameworks-(cupy|keepers|recorded-keepers|design-reported|pyopencl)|"
         r"python-two-lines|formats-command")
TIMEOUT_S = 150
MOST_BYTES = 4 << 20
MOST_GROUPS = 10
MOST_OF_A_KIND = 3  # ledgers of one test and program
RUNNING = 25
MAGIC = b"GPULEAK\n"
FUZZ = "tests/fuzz/corpus-ledger"

FILES = {
    "suppressions": "leak:^main$\nleak:wrapper*\nleak:load\nleak:train_step\n",
    "rules": "framework function:main\ncache \"golden pool\" function:*alloc*\n"
             "cache none function:c10::*\n",
    "budgets": "kind:device 1MiB\ndevice:0 8 blocks\napi:cuMemHostAlloc 3 blocks\n"
               "site:^main$ 64KiB\ncache:PyTorch 2MiB\naccumulation:train 1KiB\n"
               "object:stream 1\npeak 64MiB\n",
    "tight-budgets": "kind:pinned 1\nkind:cl-buffer 1\nsite:leak 0 blocks\ncache:* 1\n"
                     "object:event 0\npeak 1\n",
    "only-at": "site:^main$\nkind:device\n",
}


def run_test(build, test, kept):
    """Runs TEST, and ends all that it started if it takes too long: some wait without end if a
    ledger is kept."""
    env = {**os.environ, **test["env"], "PYTHONPATH": str(HERE / "keep"),
           "PYTHONDONTWRITEBYTECODE": "1", "GPULEAK_TEST_KEEP": str(kept)}
    with open(kept / (test["name"] + ".log"), "wb") as log:
        process = subprocess.Popen(test["cmd"], env=env, cwd=test["workdir"] or build, stdout=log,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return test["name"]


def record(build, kept, *names):
    kept = pathlib.Path(kept).resolve()
    kept.mkdir(parents=True, exist_ok=True)
    tests = json.loads(subprocess.run(["meson", "introspect", "--tests", build], check=True,
                                      capture_output=True).stdout)
    wanted = "|".join(names) or TESTS
    tests = [test for test in tests if re.fullmatch(wanted, test["name"])]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name in pool.map(lambda test: run_test(build, test, kept), tests):
            print(name, flush=True)


# ---- what a report contains ----

def paths(value, above=""):
    """Yields what VALUE, a report in JSON, contains: each key with the words that it has."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from paths(part, above + "/" + key)
    elif isinstance(value, list):
        yield "%s %s" % (above, "empty" if not value else "one" if len(value) == 1 else "several")
        for part in value:
            yield from paths(part, above)
    elif isinstance(value, str) and above.rpartition("/")[2] not in (
            "function", "file", "module", "offset", "fingerprint", "address", "exe", "host", "cwd",
            "command", "ledger"):
        yield "%s %s" % (above, re.sub(r"/\S+|\d+", "#", value))
    else:
        yield "%s %s" % (above, "0" if not value else type(value).__name__)


def features(gpuleak, path):
    """Returns the set of what the reports on the ledger at PATH contain."""
    def run(*args):
        ran = subprocess.run([gpuleak, *args, str(path)], check=False, capture_output=True,
                             stdin=subprocess.DEVNULL, timeout=60)
        return (ran.returncode, ran.stdout.decode(errors="replace"),
                ran.stderr.decode(errors="replace"))

    ret = set()
    status, out, err = run("report", "--format", "json")
    if status == 0:
        ret.update(paths(json.loads(out)))
    status, out, err = run("report", "--verbose", "1", "--max-leaked-bytes", "0")
    ret.add("status %d" % status)
    ret.update(re.sub(r"/\S+|0x[0-9a-f]+|[\d.,]+|[KMG]iB|\b\w+ \(#[^)]*\)", "#", line)
               for line in (out + err).split("\n")
               if " at " not in line and "called from" not in line)
    return ret


def kind_of(path):
    """Returns the name of a kept ledger without numbers: the test and the program."""
    test = re.sub(r"(---\w+)?-\d+-\d+$", "", path.parent.name)
    return "%s-%s" % (test, re.sub(r"\W", "_", re.sub(r"-?\d+(\.\d+)?$", "", path.name)))


def few_of_a_kind(kept):
    """Returns at most MOST_OF_A_KIND ledgers of each kind, from all parts of the test."""
    kinds = {}
    for path in sorted(kept.glob("*/*")):
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            kinds.setdefault(kind_of(path), []).append(path)
    return [paths[i * len(paths) // min(len(paths), MOST_OF_A_KIND)] for paths in kinds.values()
            for i in range(min(len(paths), MOST_OF_A_KIND))]


def cover(found, count):
    """Returns at most COUNT names, in the order in which each adds most to what was seen, large
    ledgers last."""
    seen, ret = set(), []
    left = dict(found)
    while left and len(ret) < count:
        name = max(left, key=lambda each: (len(left[each] - seen), -len(left[each]), each))
        if not left[name] - seen:
            break
        seen |= left.pop(name)
        ret.append(name)
    return ret


def running(corpus, names):
    """Writes ledgers of process 1, which runs always, so that `top` shows them."""
    ret = []
    with open("/proc/1/stat", encoding="utf-8") as file:
        start = int(file.read().rpartition(")")[2].split()[19])
    for number, name in enumerate(names):
        data = bytearray((corpus / "ledgers" / name).read_bytes())
        if len(data) > 0x4000 and data[:len(MAGIC)] == MAGIC:
            struct.pack_into("<i", data, 32, 1)
            struct.pack_into("<Q", data, 40, start)
            struct.pack_into("<I", data, 84, 0)  # ended: LEDGER_RUNNING
            ret.append("running-%02d" % number)
            (corpus / "ledgers" / ret[-1]).write_bytes(data)
    return ret


def write_baseline(corpus, names, gpuleak):
    """Writes a file of known leaks, of some ledgers that were recorded completely."""
    target = str(corpus / "baseline")
    complete = []
    for name in names:
        ran = subprocess.run([gpuleak, "check", "--update-baseline", "--baseline", target,
                              str(corpus / "ledgers" / name)], capture_output=True, check=False)
        if os.path.exists(target) and ran.returncode in (0, 23):
            complete.append(str(corpus / "ledgers" / name))
            os.remove(target)
    subprocess.run([gpuleak, "check", "--update-baseline", "--baseline", target, *complete[:25]],
                   stdout=subprocess.DEVNULL, check=False)


def damaged(corpus, names):
    """Writes a few ledgers that no writer leaves."""
    ret = []
    for number, name in enumerate(names[:6]):
        data = bytearray((corpus / "ledgers" / name).read_bytes())
        if number == 0:
            data = data[:100]
        elif number == 1:
            data = data[:len(data) // 2]
        elif number == 2:
            data[8:12] = b"\x63\0\0\0"
        elif number == 3:
            data[0x4000:0x4004] = b"\xff\xff\0\0"
        else:
            for at in range(0x4040 * (number - 3), len(data), 4099):
                data[at] ^= 0x55
        ret.append("damaged-%d" % number)
        (corpus / "ledgers" / ret[-1]).write_bytes(data)
    (corpus / "ledgers" / "damaged-empty").write_bytes(b"")
    return ret + ["damaged-empty"]


def copy_groups(kept, corpus, gpuleak):
    """Copies folders with several ledgers, each of another kind."""
    found = {}
    for folder in sorted(path for path in kept.iterdir() if path.is_dir()):
        ledgers = [path for path in folder.iterdir() if path.is_file()]
        if 1 < len(ledgers) <= 16 and sum(path.stat().st_size for path in ledgers) < 2 * MOST_BYTES:
            found[folder.name] = features(gpuleak, folder)
    for number, name in enumerate(cover(found, MOST_GROUPS)):
        target = corpus / "groups" / ("%02d-%s" % (number, re.sub(r"(---\w+)?-\d+-\d+$", "", name)))
        shutil.copytree(kept / name, target)


def choose(build, kept, corpus, count="250"):
    kept, corpus = pathlib.Path(kept), pathlib.Path(corpus)
    gpuleak = str(pathlib.Path(build).resolve() / "tools" / "gpuleak")
    shutil.rmtree(corpus, ignore_errors=True)
    (corpus / "ledgers").mkdir(parents=True)
    (corpus / "groups").mkdir()
    for name, text in FILES.items():
        (corpus / name).write_text(text)
    files = [path for path in few_of_a_kind(kept) + sorted((HERE.parents[1] / FUZZ).iterdir())
             if path.is_file() and path.stat().st_size <= MOST_BYTES]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        sets = pool.map(lambda path: features(gpuleak, path), files)
        found = dict(zip(map(str, files), sets))
    order = []
    for number, name in enumerate(cover(found, int(count))):
        path = pathlib.Path(name)
        order.append("%03d-%s" % (number, kind_of(path)))
        shutil.copyfile(path, corpus / "ledgers" / order[-1])
    print("%d of %d ledgers" % (len(order), len(files)))
    special = damaged(corpus, order) + running(corpus, order[:RUNNING])
    order[10:10] = special[3:6] + special[-5:]
    order += [name for name in special if name not in order]
    copy_groups(kept, corpus, gpuleak)
    write_baseline(corpus, order, gpuleak)
    (corpus / "order").write_text("\n".join(order) + "\n")


if __name__ == "__main__":
    {"record": record, "choose": choose}[sys.argv[1]](*sys.argv[2:])
