# SPDX-License-Identifier: MIT
"""What an attachment costs a PyTorch process: attach_turns.py GPULEAK LIBRARY. In turns, steps of a
bare process, of one that was attached to and detached from, and of one that was started with
GPULEAK_RECORD=off. And how long a thread stands while gpuleak attaches and detaches."""
import os
import statistics
import subprocess
import sys
import time

ROUNDS, STEPS = int(os.environ.get("TURNS", "15")), 200
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "attach_steps.py")
gpuleak, library = sys.argv[1:]


class Process:
    def __init__(self, **variables):
        self.process = subprocess.Popen([sys.executable, PROGRAM], stdin=-1, stdout=-1, text=True,
                                        env={**os.environ, **variables})
        assert self.process.stdout.readline() == "ready\n"

    def start(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        return int(self.process.stdout.readline())

    def ask(self, line):
        self.start(line)
        return self.answer()

    def attach(self, seconds):
        return subprocess.run([gpuleak, "attach", "--for", "%gs" % seconds, "--report", "none",
                               str(self.process.pid)], capture_output=True, text=True, check=False)

    def end(self):
        self.process.stdin.close()
        return self.process.wait(60)


bare, detached = Process(), Process()
prepared = Process(LD_PRELOAD=library, GPULEAK_RECORD="off")
bare_gap = detached.ask("gap 5")
detached.start("gap 5")
time.sleep(1)
run = detached.attach(2)
attached_gap = detached.answer()
print("attach stop: longest gap of a thread %d us, without gpuleak %d us, status %d %s" % (
    attached_gap, bare_gap, run.returncode, run.stderr.strip().split("\n")[-1] if run.returncode
    else ""))
times = {"bare": [], "detached": [], "prepared": []}
for number in range(ROUNDS):
    turn = [("bare", bare), ("detached", detached), ("prepared", prepared)]
    for name, process in turn[number % 3:] + turn[:number % 3]:
        times[name].append(process.ask("steps %d" % STEPS))
for name in ("detached", "prepared"):
    ratios = sorted(a / b for a, b in zip(times[name], times["bare"]))
    print("attach steps %s over bare: median %.4f, quartiles %.4f to %.4f (%d turns of %d steps, "
          "%.1f us each)" % (name, statistics.median(ratios), ratios[len(ratios) // 4],
                             ratios[-1 - len(ratios) // 4], ROUNDS, STEPS,
                             statistics.median(times[name]) / 1000))
print("attach steps: the programs ended with", [one.end() for one in (bare, detached, prepared)])
