# SPDX-License-Identifier: MIT
"""What an attachment costs a PyTorch process: attach_turns.py GPULEAK LIBRARY. In turns, steps of a
bare process, of one that was attached to and detached from, and of one that was started with
GPULEAK_RECORD=off. And how long a thread stands while gpuleak attaches and detaches.

The turns last for SECONDS_OF_TURNS of the environment. Each turn is a pair with a bare one before and after
it, so that a drift of the clock cancels. The interval is that of the median's order statistics: no
distribution is assumed, and a turn that the host disturbed counts as one turn."""
import math
import os
import subprocess
import sys
import time

SECONDS, STEPS = float(os.environ.get("SECONDS_OF_TURNS", "200")), 300
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


def median(ratios):
    """The median, and the bounds of its interval of 95 %."""
    ratios, count = sorted(ratios), len(ratios)
    low = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return ratios[count // 2], ratios[low], ratios[count - 1 - low]


def of_turn(name, process, bare):
    """The time of one step of the process over that of the bare ones around it."""
    before = bare.ask("steps %d" % STEPS)
    own = process.ask("steps %d" % STEPS)
    after = bare.ask("steps %d" % STEPS)
    of_a_step[name].append(own)
    return own / ((before + after) / 2)


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
# `second` is as bare as the first one: its ratio shows what the method itself can tell apart.
second = Process()
others = {"detached": detached, "prepared": prepared, "second bare process": second}
ratios = {name: [] for name in others}
of_a_step = {name: [] for name in others}
end = time.monotonic() + SECONDS
while time.monotonic() < end or len(ratios["detached"]) < 5:
    for name in others:
        ratios[name].append(of_turn(name, others[name], bare))
for name in others:
    print("attach steps %s over bare: median %.4f (95 %%: %.4f to %.4f), %d turns of %d steps, "
          "%.1f us each" % (name, *median(ratios[name]), len(ratios[name]), STEPS,
                            median(of_a_step[name])[0] / 1000))
print("attach steps: the programs ended with", [one.end() for one in (bare, *others.values())])
