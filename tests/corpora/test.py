#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests run.py on a collection of three small programs that it writes itself: one leaks, one is
clean, one prints something else when gpuleak is there. Also checks the list. TAP.

    test.py GPULEAK STANDIN     the command, and the folder of the stand-in CUDA driver"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
import run as corpora  # noqa: E402

PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = dlsym(driver, "cuInit");
	int (*create)(void **, unsigned, int) = dlsym(driver, "cuCtxCreate_v2");
	int (*alloc)(unsigned long long *, size_t) = dlsym(driver, "cuMemAlloc_v2");
	int (*release)(unsigned long long) = dlsym(driver, "cuMemFree_v2");
	int (*destroy)(void *) = dlsym(driver, "cuCtxDestroy_v2");
	unsigned long long block = 0;
	void *context;
	struct timespec now;

	init(0);
	create(&context, 0, 0);
	alloc(&block, 4096); /* LINE */
#ifdef ENDS
	destroy(context);
#elif !defined LEAKS
	release(block);
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("took %ld ns, result 42\n", now.tv_nsec);
#ifdef DIFFERS
	printf("preloaded: %s\n", getenv("LD_PRELOAD") ? "yes" : "no");
#endif
	return 3;
}
"""
# Stands for compute-sanitizer: writes its log, and none for the program named differs.
SANITIZER = """#!/usr/bin/env python3
import subprocess, sys
log, command = sys.argv[sys.argv.index("--log-file") + 1], sys.argv[sys.argv.index("--log-file") + 2:]
status = subprocess.call(command)
if "differs" not in command[0]:
    leaks = (4096, 1) if "leaks" in command[0] or "ends" in command[0] else (0, 0)
    with open(log, "w") as f:
        f.write("========= LEAK SUMMARY: %d bytes leaked in %d allocations\\n" % leaks)
sys.exit(status)
"""
LINE = next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if "LINE" in text)
FAILED = []


def check(right, name, seen=""):
    check.count += 1
    print("%sok %d - %s%s" % ("" if right else "not ", check.count, name, "" if right else "\n# saw %s" % (seen,)))
    if not right:
        FAILED.append(name)


check.count = 0


def stage(*arguments, **kwargs):
    command = [sys.executable, os.path.join(HERE, "run.py")] + list(arguments)
    return subprocess.run(command, capture_output=True, text=True, **kwargs)


def write_corpus(folder):
    os.makedirs(os.path.join(folder, "source", "small"))
    with open(os.path.join(folder, "source", "small", "program.c"), "w") as f:
        f.write(PROGRAM)
    rows = [corpora.COLUMNS]
    for name, flags in ("leaks", "-DLEAKS"), ("clean", ""), ("differs", "-DDIFFERS"), ("ends", "-DENDS"):
        rows.append(("small", name, "cuda", ".", "$CC -g %s -o %s program.c -ldl" % (flags, name), "./" + name))
    rows.append(("small", "broken", "cuda", ".", "$CC -o broken absent.c", "./broken"))
    with open(os.path.join(folder, "programs.tsv"), "w") as f:
        f.write("".join("\t".join(row) + "\n" for row in rows))


def runs(gpuleak, standin, folder):
    write_corpus(folder)
    listed = ["--programs", os.path.join(folder, "programs.tsv"), "--build", os.path.join(folder, "build"), "-j", "2"]
    results = os.path.join(folder, "results.jsonl")
    sanitizer = os.path.join(folder, "sanitizer")
    with open(sanitizer, "w") as f:
        f.write(SANITIZER)
    os.chmod(sanitizer, 0o755)
    paths = os.pathsep.join(filter(None, [standin, os.environ.get("LD_LIBRARY_PATH")]))
    env = dict(os.environ, LD_LIBRARY_PATH=paths)
    stage("build", "--source", os.path.join(folder, "source"), *listed, check=True)
    stage("run", "--gpuleak", gpuleak, "--sanitizer", sanitizer, "--results", results, "--limit", "300", *listed,
          env=env, check=True)
    records = corpora.load_results(results)
    return results, {key.split("/")[-1]: record for key, record in records.items()}


def verdicts(gpuleak, standin, folder):
    results, records = runs(gpuleak, standin, folder)
    check({name: corpora.judge_one(record) for name, record in records.items()} ==
          {"leaks": "both: leak", "clean": "both: clean", "differs": "unknown, clean",
           "ends": "both: leak", "broken": "dropped"}, "each program has its verdict", records)
    check(records["leaks"]["gpuleak"]["report"]["leaks"] ==
          [{"place": "program.c:%d" % LINE, "kind": "device", "bytes": 4096, "blocks": 1}], "a leak has its line", records["leaks"])
    check({name for name, record in records.items() if record.get("difference")} == {"differs"},
          "a time that varies is no difference, another word is", records)
    check("absent.c" in records["broken"]["dropped"], "a program that does not build gives the reason", records["broken"])
    check({bare["status"] for bare in records["clean"]["bare"]} == {3} == {records["clean"]["gpuleak"]["status"]},
          "the status is the program's", records["clean"])
    expected = os.path.join(folder, "expected.tsv")
    with open(expected, "w") as f:
        f.write(stage("judge", "--results", results).stdout)
    again = stage("judge", "--results", results, "--expected", expected)
    check(again.returncode == 1 and "preloaded: no | preloaded: yes" in again.stdout and "1 differ" in again.stdout,
          "judge finds the different output, and no other difference", again.stdout + again.stderr)
    with open(expected) as f:
        text = f.read()
    with open(expected, "w") as f:
        f.write(text.replace("program.c:%d" % LINE, "program.c:1"))
    again = stage("judge", "--results", results, "--expected", expected)
    check("2 differ" in again.stdout, "judge finds a leak at another line", again.stdout)
    check("| all | 5 | 4 | 4 | 1 | 1 | 0 | 0 | 0 | 1 | 3 |" in stage("table", "--results", results).stdout, "the table counts them",
          stage("table", "--results", results).stdout)


def disagreements():
    def verdict(mine, others):
        summary = {"leaked_bytes": 512 * mine, "leaked_blocks": mine}
        return corpora.judge_one({"gpuleak": {"status": 0, "report": {"summary": summary}},
                                  "second": {"status": 0, "leaks": {"bytes": 512 * others, "blocks": others}}})

    check([verdict(1, 0), verdict(0, 1), verdict(1, 2)] == ["only gpuleak", "only the second tool", "both: leak, other bytes"],
          "each disagreement has its verdict", [verdict(1, 0), verdict(0, 1), verdict(1, 2)])
    check(corpora.judge_one({"gpuleak": {"status": 0}, "second": {"leaks": {"bytes": 1, "blocks": 1}}}) == "only the second tool",
          "a leak in a program without a report is missed")


def comparisons():
    same = corpora.same_output
    check(same(["a 1.5 s 7", "a 1.6 s 7"], "a 9.9 s 7") is None, "a number that varies bare is not compared")
    check(same(["a 1.5 s 7", "a 1.6 s 7"], "a 1.5 s 8") is not None, "a number that is the same bare is compared")
    check(same(["x\ny\n", "y\nx\n"], "y\nx\n") is None, "lines in any order are the same output")
    check(same(["1 x\n2 y\n", "4 y\n5 x\n"], "9 y\n7 x\n") is None, "lines that are sorted by a time are the same output")
    check(same(["x\ny\n", "y\nx\n"], "y\nz\n") is not None, "another line is a difference")


def sanitizer_logs(folder):
    log = os.path.join(folder, "log")
    with open(log, "w") as f:
        f.write("========= COMPUTE-SANITIZER\n========= Leaked 512 bytes at 0x7f\n"
                "========= LEAK SUMMARY: 1536 bytes leaked in 2 allocations\n========= ERROR SUMMARY: 2 errors\n")
    check(corpora.read_sanitizer(log)[0] == {"bytes": 1536, "blocks": 2, "errors": 0}, "compute-sanitizer's sum is read")
    with open(log, "w") as f:
        f.write("========= COMPUTE-SANITIZER\n")
    check(corpora.read_sanitizer(log)[0] is None, "a log without a sum is unknown")
    with open(log, "w") as f:
        f.write("MEMORY | Created Buffer 8 (0x5), MEM_HOST_PTR: (nil), device_ptrs[0]: (nil), SIZE 100, FLAGS 1\n"
                "MEMORY | Created Buffer 9 (0x6), MEM_HOST_PTR: (nil), device_ptrs[0]: (nil), SIZE 68, FLAGS 1\n"
                "REFCOUNTS | Release Memory Object 9 (0x6), Refcount: 1\nREFCOUNTS | Free Memory Object 8 (0x5), Flags: 1\n")
    check(corpora.read_runtime(log) == {"bytes": 68, "blocks": 1, "errors": 0}, "PoCL's log gives what it still holds")


def lists():
    rows = corpora.load_programs(os.path.join(HERE, "programs.tsv"))
    check(len(rows) >= 300, "the list has at least 300 programs", len(rows))
    expected = corpora.read_expected(os.path.join(HERE, "expected.tsv"))
    listed = {row["key"] for row in rows}
    check(set(expected) <= listed and {len(row) for row in expected.values()} == {3}, "the expected results are of the list",
          sorted(set(expected) - listed))
    check({row["key"] for row in rows if row["api"] == "opencl"} <= set(expected), "every OpenCL program has a result",
          sorted(listed - set(expected)))
    check(all(row[2] for row in expected.values() if row[0].startswith(("dropped", "only", "unknown"))),
          "every program that dropped out and every disagreement has its reason",
          [key for key, row in expected.items() if not row[2]])


def main():
    gpuleak, standin = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    lists()
    comparisons()
    disagreements()
    with tempfile.TemporaryDirectory() as folder:
        sanitizer_logs(folder)
        verdicts(gpuleak, standin, folder)
    print("1..%d" % check.count)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
