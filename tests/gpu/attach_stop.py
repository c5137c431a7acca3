# SPDX-License-Identifier: MIT
"""How long a thread of a PyTorch process stands while gpuleak attaches and detaches: the longest time
between two readings of the clock, beside that of the same process without gpuleak.

    attach_stop.py GPULEAK"""
import os
import subprocess
import sys
import time

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "attach_gap.py")


def main():
    process = subprocess.Popen([sys.executable, PROGRAM], stdin=-1, stdout=-1, text=True)
    assert process.stdout.readline() == "ready\n"

    def start():
        process.stdin.write("5\n")
        process.stdin.flush()

    start()
    bare = int(process.stdout.readline())
    start()
    time.sleep(1)
    run = subprocess.run([sys.argv[1], "attach", "--for", "2s", "--report", "none", str(process.pid)],
                         capture_output=True, text=True, check=False)
    print("attach stop: longest gap of a thread %d us, without gpuleak %d us, status %d %s" % (
        int(process.stdout.readline()), bare, run.returncode,
        run.stderr.strip().split("\n")[-1] if run.returncode else ""))
    process.stdin.close()
    return process.wait(60)


sys.exit(main())
