#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what gpuleak reports of the design scripts, on the stand-ins for PyTorch's libraries. Each
script runs at module level and inside main(): exactly the lines that it states must accumulate.
Then first lines, the gate, and processes that end in other ways. TAP.

    reported.py --torch FOLDER --preload FILE --command FILE --standin FOLDER [--only TEXT]

stated_scripts.py describes what a script states."""

import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import stated_scripts
from stated_scripts import SLOWER, Failed, Tap, compare
from standin_torch import PYTHON, SITE_PACKAGES, is_missing


def path_of(name):
    return os.path.join(HERE, name)


def environment(options):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("STANDIN_", "GPULEAK_"))}
    env.update(STANDIN_TORCH=options.torch, LD_LIBRARY_PATH=options.standin,
               PYTHONPATH=SITE_PACKAGES, PYTHONDONTWRITEBYTECODE="1")
    return env


def started(command, env, status=0):
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False,
                         timeout=120 * SLOWER)
    if ran.returncode != status:
        raise Failed("status %d of %s\n%s%s" % (ran.returncode, command, ran.stdout, ran.stderr))
    return ran


def recorded(options, place, command, status=0):
    """Runs COMMAND, and returns its ledger."""
    ledger = os.path.join(place, "ledger")
    started(command, dict(environment(options), LD_PRELOAD=options.preload, GPULEAK_REPORT="none",
                          GPULEAK_LEDGER=ledger), status)
    return ledger


def report(options, ledger):
    ran = started([options.command, "report", "--format", "json", ledger], environment(options))
    return json.loads(ran.stdout)


def accumulating(found):
    return [entry for entry in found["suballocations"] if entry["trend"] == "accumulating"]


# ---- what each script states ----

def backward_line(path):
    """The line that calls backward(): what that allocates has no line of the script, because it
    runs in a thread of the framework."""
    with open(path, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if ".backward(" in line)


def line_of(entry, path):
    """The innermost line of the script at PATH in the stack of ENTRY."""
    lines = [frame["line"] for frame in entry["stack"] if frame["file"] == path]
    return lines[0] if lines else backward_line(path)


def script(path, inside_main):
    return [PYTHON, *([path_of("in_main.py")] if inside_main else []), path]


def states(options, path, inside_main):
    _, marked = stated_scripts.stated(path)
    with tempfile.TemporaryDirectory() as place:
        found = report(options, recorded(options, place, script(path, inside_main)))
    compare("lines that accumulate", marked,
            sorted({line_of(entry, path) for entry in accumulating(found)}))


# ---- first lines, amounts and the gate ----

def run(options, name, *more, status=0, variables=()):
    """The first line of the report of `gpuleak run` on a script, used suppressions, and the
    verdict of the gate; without what differs in each run."""
    ran = started([options.command, "run", *more, "--", *script(path_of(name), False)],
                  {**environment(options), **dict(variables)}, status)
    lines = [re.sub(r"(process|pid) \d+", r"\1 N", re.sub(r"python3[.\d]*", "python3", line))
             for line in ran.stderr.replace(HERE + "/", "").splitlines()]
    return lines[:1] + [line for line in lines[1:] if line.startswith("gpuleak: gate") or
                        re.fullmatch(r" +[\d,]+ +[\d,]+  \w+", line)]


LOSSES = "150.0 KiB in 300 tensors accumulate at train_step (losses_bad.py:13)"
DRIVER = ("1 block (2.0 MiB) allocated by python3 (pid N), 0 freed, 1 held by the PyTorch caching "
          "allocator (2.0 MiB), peak 2.0 MiB")
CLEAN = (DRIVER[:DRIVER.rindex(",")] +
         "; peak 2.0 MiB, of which %s MiB unused in the PyTorch caching allocator")
CACHES = ("gpuleak: gate passed: nothing leaked; caches hold 2,097,152 bytes (2.0 MiB) in 1 block, "
          "which do not count (--gate-caches 1 counts them)")
KEPT = "153,600 bytes (150.0 KiB) in 300 tensors accumulate"
FAILED = ("gpuleak: gate failed: " + KEPT + " at train_step (losses_bad.py:13), called from "
          "<module> in process N (python3), 0 allowed")


def first_lines(options, _):
    """The first line names what accumulates, how much, and where"""
    for name, wanted in (
            ("losses_bad.py", LOSSES), ("masks_bad.py", "92.7 MiB in 320 tensors accumulate at "
                                        "Masks.get (masks_bad.py:14)"),
            ("micro_batches_bad.py", "10.1 MiB in 960 tensors accumulate at 2 places, most at "
                                     "micro_batch (micro_batches_bad.py:11)")):
        compare("first line", "gpuleak: " + wanted, run(options, name)[0])
    compare("report", ["gpuleak: " + LOSSES], run(options, "losses_bad.py"))
    compare("clean", ["gpuleak: no leaks: " + CLEAN % "1.2"], run(options, "losses_good.py"))


def amounts(options, place):
    """JSON has what was kept, and at which rate"""
    before = "import time, torch\nkept = []\nfor step in range(400):\n"
    text = before + ("    [torch.empty(1000, device='cuda') for _ in range(9)]\n"
                     "    kept.append(torch.empty(2000, device='cuda'))\n    time.sleep(0.002)\n")
    found = report(options, recorded(options, place, [PYTHON, "-c", text]))
    (entry,) = accumulating(found)
    compare("kept", (400, 400 * 8192, 400, 400, 0),
            tuple(entry[key] for key in ("kept_blocks", "kept_bytes", "peak_blocks",
                                         "allocated_blocks", "blocks")))
    compare("sum", (400, 400 * 8192), (found["summary"]["accumulating_blocks"],
                                       found["summary"]["accumulating_bytes"]))
    # 450 on an idle machine
    compare("rate", True, 10 < entry["kept_per_second"] <= 500)


def gate(options, _):
    """Without the option the verdict mentions it; with the option the gate fails"""
    compare("mentioned", [CACHES, "gpuleak: gate passed: %s, which does not count "
                          "(--gate-accumulation 1 counts it)" % KEPT],
            run(options, "losses_bad.py", "--gate")[1:])
    compare("failed", [FAILED], run(options, "losses_bad.py", "--gate-accumulation", status=23)[1:])
    compare("clean", [CACHES], run(options, "losses_good.py", "--gate-accumulation")[1:])
    compare("other failure", ["gpuleak: gate failed: 1 block, 2,097,152 bytes (2.0 MiB) held by "
                              "caches, 0 allowed", "gpuleak: gate: %s, which does not count "
                              "(--gate-accumulation 1 counts it)" % KEPT],
            run(options, "losses_bad.py", "--gate", "--gate-caches", status=23)[1:])


def plain_blocks(options, _):
    """Tensors that are blocks of the driver are judged as those in the cache are"""
    failed = FAILED.replace("tensors", "blocks")
    for variables in ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
                      {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}):
        line, *verdict = run(options, "losses_bad.py", "--gate", variables=variables)
        compare("first line", "gpuleak: 150.0 KiB in 300 blocks accumulate at train_step "
                "(losses_bad.py:13)", line)
        compare("mentioned", ["gpuleak: gate passed: nothing leaked",
                              "gpuleak: gate passed: 153,600 bytes (150.0 KiB) in 300 blocks accumulate, "
                              "which does not count (--gate-accumulation 1 counts it)"], verdict)
        compare("failed", [failed], run(options, "losses_bad.py", "--gate-accumulation", status=23,
                                        variables=variables)[1:])
        for name in ("losses_good.py", "masks_good.py", "checkpoints_good.py"):
            compare(name, ["gpuleak: gate passed: nothing leaked"],
                    run(options, name, "--gate-accumulation", variables=variables)[1:])
        compare("off", ["gpuleak: gate passed: nothing leaked"],
                run(options, "losses_bad.py", "--gate-accumulation", "--accumulation", "off",
                    variables=variables)[1:])


def check_and_variable(options, place):
    """`gpuleak check` judges a ledger alike; the variable works without the command"""
    ledger = recorded(options, place, script(path_of("losses_bad.py"), True))
    started([options.command, "check", ledger], environment(options))
    started([options.command, "check", "--gate-accumulation", ledger], environment(options), 23)
    env = dict(environment(options), LD_PRELOAD=options.preload, GPULEAK_EXITCODE="42")
    started(script(path_of("losses_bad.py"), False), env)
    started(script(path_of("losses_bad.py"), False), dict(env, GPULEAK_GATE_ACCUMULATION="1"), 42)


def budgets(options, place):
    """A budget covers what its pattern matches"""
    rules = os.path.join(place, "budgets")
    for text, status in (("accumulation:train_step 150KiB", 0), ("accumulation:* 300 blocks", 0),
                         ("accumulation:train_step 149KiB", 23),
                         ("accumulation:* 299 blocks", 23), ("accumulation:other 1GiB", 23)):
        with open(rules, "w", encoding="utf-8") as file:
            file.write(text)
        lines = run(options, "losses_bad.py", "--gate-accumulation", "--budgets", rules,
                    status=status)
        compare("verdict", [CACHES] if status == 0 else [FAILED] if "other" in text else
                ["gpuleak: gate failed: accumulation:train_step (%s:1): 153,600 bytes (150.0 KiB) "
                 "in 300 blocks accumulated, 152,576 bytes (149.0 KiB) allowed, 1,024 bytes "
                 "(1.0 KiB) over; most at train_step (losses_bad.py:13), called from <module>"
                 % rules] if "149" in text else
                ["gpuleak: gate failed: accumulation:* (%s:1): 300 blocks accumulated, 299 "
                 "allowed, 1 over; most at train_step (losses_bad.py:13), called from <module>"
                 % rules],
                [line.replace("beyond the budgets; ", "; ").replace(" ; ", "; ")
                 for line in lines[1:]])


def suppressed(options, place):
    """A suppression by stack applies, and is listed"""
    rules = os.path.join(place, "suppressions")
    with open(rules, "w", encoding="utf-8") as file:
        file.write("leak:train_step")
    compare("report", ["gpuleak: no leaks: " + CLEAN % "1.1",
                       "         0                    0  train_step", CACHES],
            run(options, "losses_bad.py", "--gate-accumulation", "--suppressions", rules))


def growth(options, place):
    """--max-growth limits what accumulates in each step, too"""
    text = ("import time, torch\nkept = []\nfor step in range(400):\n"
            "    [torch.empty(1000, device='cuda') for _ in range(9)]\n"
            "    kept.append(torch.empty(2000, device='cuda'))\n    time.sleep(0.002)\n")
    command = [options.command, "run", "--step-every", "100ms", "--max-growth"]
    for limit, status in (("1GiB", 0), ("1KiB", 23)):
        ran = started([*command, limit, "--", PYTHON, "-c", text], environment(options), status)
        compare("verdict", status != 0,
                "gate failed: tensors accumulate by " in ran.stderr and
                "bytes (1.0 KiB) allowed" in ran.stderr)


# ---- other ends, and ledgers that do not have it ----

def ends(options, place):
    """_exit and SIGKILL leave the same verdict"""
    with open(path_of("losses_bad.py"), encoding="utf-8") as file:
        source = file.read()
    for last, status in (("os._exit(0)", 0), ("os.kill(os.getpid(), 9)", -9)):
        text = "import os\nexec(compile(%r, 'losses_bad.py', 'exec'))\n%s\n" % (source, last)
        ledger = recorded(options, place, [PYTHON, "-c", text], status)
        (entry,) = accumulating(report(options, ledger))
        compare("kept", (300, 300), (entry["kept_blocks"], entry["blocks"]))
        os.unlink(ledger)


def changed(ledger, of_type, size, change):
    """Calls CHANGE on each record of a type in a ledger."""
    with open(ledger, "r+b") as file:
        data = bytearray(file.read())
        for chunk in range(16384, len(data), 16384):
            kind, used = struct.unpack_from("II", data, chunk)
            for at in range(chunk + 64, chunk + used, size) if kind == of_type else ():
                change(data, at)
        file.seek(0)
        file.write(data)


def contradicted(options, place):
    """Windows that contradict the live blocks, or that were being changed, give no trend"""
    ledger = recorded(options, place, script(path_of("losses_bad.py"), False))
    compare("trends", 1, len(accumulating(report(options, ledger))))
    for first, last in ((24, 1 << 42), (0, 1)):  # `allocated` is too large; `done` differs
        def change(data, at):
            (value,) = struct.unpack_from("Q", data, at + first)
            struct.pack_into("Q", data, at + first, (value + last) & (2**64 - 1))
        changed(ledger, 27, 832, change)
        compare("trends", 0, len(accumulating(report(options, ledger))))
        started([options.command, "check", "--gate-accumulation", ledger], environment(options), 23)
        if first:  # the next change must be seen alone
            last = -last
            changed(ledger, 27, 832, change)
            compare("trends", 1, len(accumulating(report(options, ledger))))


def without_samples(options, place):
    """A ledger without samples gives no trend, and does not pass --gate-accumulation"""
    ledger = recorded(options, place, [PYTHON, "-c", "import torch, os\n"
                                       "x = torch.empty(1000, device='cuda')\nos._exit(0)\n"])
    started([options.command, "check", "--gate-accumulation", ledger], environment(options))
    changed(ledger, 26, 64, lambda data, at: struct.pack_into("I", data, at + 52, 0))
    (entry,) = report(options, ledger)["suballocations"]
    compare("trend", None, entry["trend"])
    started([options.command, "check", ledger], environment(options))
    ran = started([options.command, "check", "--gate-accumulation", ledger], environment(options),
                  23)
    compare("reason", True, "does not show if tensors accumulate" in ran.stdout + ran.stderr)
    run(options, "losses_good.py", "--gate-accumulation", "--suballocations", "off", status=23)


CASES = [first_lines, amounts, gate, plain_blocks, check_and_variable, budgets, suppressed, growth, ends,
         contradicted, without_samples]


def case(options, function):
    with tempfile.TemporaryDirectory() as place:
        function(options, place)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("torch", "preload", "command", "standin", "only"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    if is_missing(options.torch):
        return 0
    for name in ("torch", "preload", "command", "standin"):
        setattr(options, name, os.path.realpath(getattr(options, name)))
    tap = Tap()
    for function in CASES:
        if options.only in function.__doc__:
            tap.step(function.__doc__, case, options, function)
    for name in sorted(os.listdir(HERE)):
        for inside_main in (False, True) if name.endswith(("_bad.py", "_good.py")) else ():
            step = name + (" inside main()" if inside_main else "")
            if options.only in step:
                tap.step(step, states, options, path_of(name), inside_main)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
