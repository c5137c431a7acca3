#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs programs that others wrote: bare, under gpuleak and under a second tool. The second tool is
compute-sanitizer for CUDA, and for OpenCL the log that PoCL keeps of its own memory objects.

    run.py build --source DIR --build DIR                  copies the checkouts and compiles
    run.py run   --build DIR --gpuleak CMD --results FILE  runs each program in every way
    run.py judge --results FILE [--expected FILE]          gives each program its verdict
    run.py table --results FILE                            prints the tables of docs/developers/corpora.md

programs.tsv lists the programs, README.md says where the checkouts come from. Each stage writes
a line of JSON for each program as soon as it is done, and a second run goes on where the first
one stopped. Nothing here knows a single program: what is special is in the list."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
COLUMNS = ("corpus", "name", "api", "directory", "build", "command")
NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\binf\b|\bnan\b")
OWN_LINE = re.compile(r"^gpuleak\b.*\n?", re.M)
OUTPUT_LIMIT = 4 << 20

# What has to be done once in the copy of a checkout before its programs can be compiled.
PREPARE = {
    "gpu-rodinia": shlex.join([sys.executable, os.path.join(HERE, "inputs.py"), "data"]),
    # SHOC's own make file turns each kernel's source into a string in the same way.
    "shoc": r"""printf '#define HAVE_CLOCK_GETTIME 1\n#define HAVE_CLOCK_PROCESS_CPUTIME_ID 1\n#define restrict __restrict\n' >config/config.h
        find src/opencl -name '*.cl' | while read -r f; do
        { echo "const char *cl_source_$(basename "$f" .cl) ="
          tr -d '\r' <"$f" | sed 's/\\/\\\\/g; s/"/\\"/g; s/^\(.*\)$/"\1\\n"/'; echo ';'; } >"${f%.cl}_cl.cpp"; done""",
}


# CUDA 13 lacks names that older programs use; these stand in for them.
OLD_NAMES = {"cudaThreadSynchronize": "cudaDeviceSynchronize", "cudaThreadExit": "cudaDeviceReset",
             "clockRate": "l2CacheSize", "memoryClockRate": "l2CacheSize", "deviceOverlap": "asyncEngineCount",
             "kernelExecTimeoutEnabled": "integrated"}


def load_programs(path):
    """Returns the rows of the list as dictionaries; ends the program if the list is malformed."""
    rows, seen = [], set()
    with open(path) as f:
        lines = f.read().splitlines()
    if tuple(lines[0].split("\t")) != COLUMNS:
        sys.exit("%s:1: the columns are %s" % (path, ", ".join(COLUMNS)))
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS) or not all(cells):
            sys.exit("%s:%d: %d columns wanted, none of them empty" % (path, number, len(COLUMNS)))
        row = dict(zip(COLUMNS, cells))
        row["key"] = "/".join((row["corpus"], row["api"], row["name"]))
        if row["api"] not in ("cuda", "opencl"):
            sys.exit("%s:%d: the API is cuda or opencl" % (path, number))
        if row["key"] in seen:
            sys.exit("%s:%d: %s is listed twice" % (path, number, row["key"]))
        seen.add(row["key"])
        rows.append(row)
    # A fixed order that mixes the corpora, so that a part of the list is a fair part.
    return sorted(rows, key=lambda row: hashlib.md5(row["key"].encode()).hexdigest())


def load_results(path):
    """Returns the last record of each program in a file of JSON lines, or nothing."""
    if not path or not os.path.exists(path):
        return {}
    with open(path) as f:
        records = [json.loads(line) for line in f if line.endswith("}\n")]
    return {record["key"]: record for record in records}


def run_process(command, directory, limit, out, err, env=None):
    """Returns the status and the seconds of a command; status None: it was killed at its limit."""
    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    start = time.monotonic()
    with open(out, "wb") as o, open(err, "wb") as e:
        try:
            process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=o, stderr=e,
                                       env=env, start_new_session=True, preexec_fn=limits)
        except OSError as error:
            e.write(str(error).encode())
            return 127, 0.0
        try:
            status = process.wait(max(limit, 0.1))
        except subprocess.TimeoutExpired:
            status = None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    if status is not None and status < 0:
        status = 128 - status  # as a shell and gpuleak give it
    return status, round(time.monotonic() - start, 3)


def tail(path, lines=3):
    with open(path, errors="replace") as f:
        return " / ".join(line.strip() for line in f.read()[-4000:].splitlines() if line.strip()[:1])[-300 * lines:]


class Stage:
    """Works through the list with several threads; writes each record when it is there."""

    def __init__(self, args, results):
        self.args, self.results = args, results
        self.lock = threading.Lock()
        self.deadline = time.monotonic() + args.seconds if args.seconds else None
        self.done = load_results(results)

    def time_left(self):
        return self.deadline - time.monotonic() if self.deadline else 1e9

    def work(self, row, one):
        if self.time_left() <= 0:
            return
        record = one(row)
        if record is None:  # the stage's time was up before the program was through
            return
        record["key"] = row["key"]
        with self.lock, open(self.results, "a") as f:
            f.write(json.dumps(record) + "\n")
            self.done[row["key"]] = record
            if self.args.verbose:
                print(len(self.done), row["key"], record.get("dropped", "ok"), flush=True)

    def all(self, rows, one):
        rows = [row for row in rows if row["key"] not in self.done]
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for future in [pool.submit(self.work, row, one) for row in rows]:
                future.result()
        print("%d programs are through, %d are left" %
              (len(self.done), sum(row["key"] not in self.done for row in rows)))


def select(args):
    rows = load_programs(args.programs)
    return [row for row in rows if (not args.api or row["api"] == args.api) and re.search(args.only, row["key"])]


# build

def build_environment(args):
    nvcc = shutil.which(os.environ.get("NVCC", "nvcc")) or "nvcc"
    env = dict(os.environ, NVCC=nvcc, ARCH=args.arch, CC=os.environ.get("CC", "gcc"), CXX=os.environ.get("CXX", "g++"),
               CUDA_DIR=os.path.dirname(os.path.dirname(os.path.realpath(nvcc))),
               NVFLAGS=" ".join(["-g -lineinfo -O2 -w -arch=" + args.arch] + ["-D%s=%s" % pair for pair in OLD_NAMES.items()]),
               CFLAGS="-g -O2 -w -fcommon -DCL_TARGET_OPENCL_VERSION=120")
    return env


def build(args):
    os.makedirs(args.build, exist_ok=True)
    rows, env = select(args), build_environment(args)
    for corpus in sorted({row["corpus"] for row in rows}):
        copy = os.path.join(args.build, corpus)
        if not os.path.exists(copy):
            shutil.copytree(os.path.join(args.source, corpus), copy, symlinks=True)
            subprocess.run(["sh", "-c", PREPARE.get(corpus, "true")], cwd=copy, check=True)
    logs = os.path.join(args.build, "logs")
    os.makedirs(logs, exist_ok=True)

    def one(row):
        out = os.path.join(logs, row["key"].replace("/", "-") + ".build")
        directory = os.path.join(args.build, row["corpus"], row["directory"])
        # Make files name their compiler CC; what the list's lines name is in the environment.
        status, seconds = run_process(["sh", "-c", row["build"]], directory, args.build_limit, out, out + "-err", env)
        record = {"seconds": seconds, "built": status == 0}
        if status != 0:
            errors = [line for line in open(out + "-err", errors="replace") if re.search(r"\berror\b|undefined reference|cannot find", line, re.I)] or [tail(out + "-err")]
            record["dropped"] = "does not build: " + errors[0].strip()[:200] if status is not None else "does not build in time"
        return record

    Stage(args, os.path.join(args.build, "build.jsonl")).all(rows, one)


# run

def read_output(*paths):
    text = ""
    for path in paths:
        with open(path, errors="replace") as f:
            text += OWN_LINE.sub("", f.read(OUTPUT_LIMIT))
    return text


def first_difference(bare, other):
    for its, mine in zip(bare.splitlines(), other.splitlines()):
        if its != mine:
            return "%.150s | %.150s" % (its, mine)
    return "the number of lines"


def same_output(bare, other):
    """Returns what differs between a run and several bare runs, or None: the numbers in which the
    bare runs differ from one another are times and the like, and are not compared."""
    def masked(text):
        return NUMBER.sub("#", text)

    shapes, shape = [masked(text) for text in bare], masked(other)
    if len(set(shapes)) > 1:  # threads that print in any order, lines that are sorted by time
        shapes, shape = ["\n".join(sorted(text.splitlines())) for text in shapes], "\n".join(sorted(shape.splitlines()))
        return None if shape in shapes else first_difference(shapes[0], shape)
    if shape != shapes[0]:
        return first_difference(shapes[0], shape)
    numbers = [NUMBER.findall(text) for text in bare]
    for position, mine in enumerate(NUMBER.findall(other)):
        its = {row[position] for row in numbers}
        if len(its) == 1 and mine not in its:
            return "number %d: %s | %s" % (position + 1, its.pop(), mine)
    return None


def place(stack, root):
    """Returns file:line of the innermost frame whose source lies in the checkout, or a function."""
    for frame in stack:
        name = frame.get("file") or ""
        if name and os.path.realpath(name).startswith(root + os.sep):
            return "%s:%d" % (os.path.relpath(os.path.realpath(name), root), frame.get("line") or 0)
    names = [frame["function"] for frame in stack if frame.get("function")]
    return names[-1] if names else "?"


def read_report(path, root):
    """Returns what a comparison needs of a report of one or several processes."""
    with open(path) as f:
        report = json.load(f)
    processes = report.get("processes", [report])
    summary = report["summary"]
    leaks = {}
    for process in processes:
        for leak in process.get("leaks", []):
            key = (place(leak["stack"], root), leak["kind"])
            old = leaks.get(key, (0, 0))
            leaks[key] = (old[0] + leak["bytes"], old[1] + leak["blocks"])
    wanted = ("leaked_bytes", "leaked_blocks", "errors", "allocated_blocks", "with_context_bytes", "with_context_blocks",
              "held_bytes", "held_blocks", "peak_bytes")
    errors = sorted({"%s %s" % (error["type"], place(error["stack"], root))
                     for process in processes for error in process.get("errors", [])})
    refused = sum(free["count"] for process in processes for free in process.get("refused_frees", []))
    return {"summary": dict({key: summary[key] for key in wanted if key in summary}, refused_frees=refused), "processes": len(processes),
            "errors": errors, "notes": sorted({note if isinstance(note, str) else json.dumps(note)
                                               for process in processes for note in process.get("notes") or []}),
            "leaks": [{"place": key[0], "kind": key[1], "bytes": value[0], "blocks": value[1]}
                      for key, value in sorted(leaks.items(), key=lambda item: -item[1][0])]}


def read_sanitizer(path):
    """Returns the leaks that compute-sanitizer's log counts; None where it has no summary."""
    with open(path, errors="replace") as f:
        text = f.read()
    sums = re.findall(r"LEAK SUMMARY: (\d+) bytes leaked in (\d+) allocations", text)
    if not sums:
        return None, text.strip().splitlines()[-3:]
    return {"bytes": sum(int(s[0]) for s in sums), "blocks": sum(int(s[1]) for s in sums),
            "errors": len(re.findall(r"^========= (?:Invalid|Program hit|Misaligned|Warning|Error)", text, re.M))}, None


def read_runtime(path):
    """Returns the memory objects that PoCL's own log says it created and did not free."""
    with open(path, errors="replace") as f:
        text = f.read()
    live = {int(number): int(size) for number, size in re.findall(r"Created Buffer (\d+) .*SIZE (\d+)", text)}
    for number in re.findall(r"Free Memory Object (\d+) ", text):
        live.pop(int(number), None)
    return {"bytes": sum(live.values()), "blocks": len(live), "errors": 0}


class Ways:
    """One program, run in each way."""

    def __init__(self, stage, row):
        self.args, self.stage, self.row = stage.args, stage, row
        self.root = os.path.realpath(os.path.join(self.args.build, row["corpus"]))
        self.directory = os.path.join(self.root, row["directory"])
        self.command = shlex.split(row["command"])
        self.prefix = os.path.join(self.args.build, "logs", row["key"].replace("/", "-") + ".")

    def one(self, way, limit, command, **variables):
        if self.stage.time_left() < 1:
            raise TimeoutError
        limit = min(limit, self.stage.time_left())
        status, seconds = run_process(command, self.directory, limit, self.prefix + way + ".out", self.prefix + way + ".err",
                                      dict(os.environ, **variables))
        if status is None and self.stage.time_left() < 1:
            raise TimeoutError
        return {"status": status, "seconds": seconds}

    def output(self, way):
        return read_output(self.prefix + way + ".out", self.prefix + way + ".err")

    def bare(self, number):
        return self.one("bare%d" % number, self.args.limit, self.command)

    def gpuleak(self):
        report = self.prefix + "json"
        if os.path.exists(report):
            os.unlink(report)
        run = self.one("gpuleak", max(3 * self.args.limit, 30), self.args.gpuleak +
                       ["run", "--format", "json", "--report", report, "--"] + self.command)
        if os.path.exists(report):
            run["report"] = read_report(report, self.root)
        return run

    def sanitizer(self):
        log = self.prefix + "memcheck"
        if os.path.exists(log):
            os.unlink(log)
        run = self.one("sanitizer", self.args.sanitizer_limit, self.args.sanitizer +
                       ["--tool", "memcheck", "--leak-check", "full", "--log-file", log] + self.command)
        if os.path.exists(log) and run["status"] is not None:
            run["leaks"], run["last"] = read_sanitizer(log)
        return run

    def runtime(self, leaked):
        """Runs the program with PoCL's log. A process may end before PoCL has carried out the last
        commands, so of up to four runs the one counts that leaves least."""
        best = None
        for _ in range(4):
            run = self.one("runtime", max(3 * self.args.limit, 30), self.command, POCL_DEBUG="refcounts,memory")
            if run["status"] is None:
                return best or run
            run["leaks"] = read_runtime(self.prefix + "runtime.err")
            if best is None or run["leaks"]["blocks"] < best["leaks"]["blocks"]:
                best = run
            if best["leaks"]["blocks"] <= leaked:
                break
        return best

    def compare(self):
        bare = [self.bare(1)]
        record = {"bare": bare}
        if bare[0]["status"] is None:
            return dict(record, dropped="does not end within %d s bare" % self.args.limit)
        bare.append(self.bare(2))
        if bare[1]["status"] is None:
            return dict(record, dropped="does not end within %d s bare" % self.args.limit)
        record["gpuleak"] = self.gpuleak()
        summary = record["gpuleak"].get("report", {}).get("summary", {})
        difference = same_output([self.output("bare1"), self.output("bare2")], self.output("gpuleak"))
        for number in (3, 4, 5):  # a number that seldom varies, say a time that is mostly 0.0
            if difference is None:
                break
            bare.append(self.bare(number))
            outputs = [self.output("bare%d" % n) for n in range(1, number + 1)]
            difference = same_output(outputs, self.output("gpuleak"))
        if difference:  # a time that only this run had; what gpuleak causes comes again
            self.one("again", max(3 * self.args.limit, 30), self.args.gpuleak + ["run", "--report", "none", "--"] + self.command)
            difference = same_output(outputs, self.output("again"))
        record["difference"] = difference
        if self.args.sanitizer and self.row["api"] == "cuda":
            record["second"] = self.sanitizer()
        if self.row["api"] == "opencl":
            record["second"] = self.runtime(summary.get("leaked_blocks", 0))
        allocated = summary.get("allocated_blocks", 0)
        if bare[0]["status"] and not allocated:
            record["dropped"] = "ends with status %d bare and allocates nothing: %s" % (
                bare[0]["status"], tail(self.prefix + "bare1.err", 1) or tail(self.prefix + "bare1.out", 1))
        return record


def run(args):
    stage = Stage(args, args.results)
    built = load_results(os.path.join(args.build, "build.jsonl"))

    def one(row):
        state = built.get(row["key"])
        if not state or not state["built"]:
            return {"dropped": state["dropped"] if state else "not built"}
        try:
            return Ways(stage, row).compare()
        except TimeoutError:
            return None
        except Exception as error:  # one program must not end the stage; the row gives the reason
            return {"dropped": "run.py failed: %r" % error}

    stage.all([row for row in select(args) if row["key"] in built], one)


# judge

def judge_one(record):
    """Returns the verdict on a record by what the two tools say; reasons are found in the source."""
    if "dropped" in record:
        return "dropped"
    if record["gpuleak"]["status"] is None:
        return "gpuleak did not end"
    report = record["gpuleak"].get("report")
    summary = report["summary"] if report else {}
    # compute-sanitizer counts a block that its context took along as a leak. gpuleak has a class of its own for it.
    blocks, leaked = (summary.get("leaked_" + unit, 0) + summary.get("with_context_" + unit, 0) for unit in ("blocks", "bytes"))
    leaked = leaked if blocks else None
    other = record.get("second", {}).get("leaks")
    if other and other["blocks"]:
        return "only the second tool" if leaked is None else "both: leak" if leaked == other["bytes"] else "both: leak, other bytes"
    if report is None:
        return "no GPU call"
    if "second" in record and not other:
        return "unknown, clean" if leaked is None else "unknown, leak"
    if other:
        return "both: clean" if leaked is None else "only gpuleak"
    return "clean" if leaked is None else "leak"


def places(record):
    leaks = record.get("gpuleak", {}).get("report", {}).get("leaks", [])
    return "; ".join("%s %s %d in %d" % (leak["place"], leak["kind"], leak["bytes"], leak["blocks"]) for leak in leaks)


def expected_rows(results):
    for key in sorted(results):
        record = results[key]
        yield key, judge_one(record), places(record), record.get("dropped", "").replace("\t", " ")


def read_expected(path):
    with open(path) as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    return {row[0]: row[1:] for row in rows[1:]}


def differences(record, where, wanted):
    """Yields what is not as expected: the leaks, the status, the output."""
    if where != wanted[1]:
        yield "%s; expected: %s" % (where or "no leak", wanted[1] or "no leak")
    bare = {run["status"] for run in record["bare"]}
    if record["gpuleak"]["status"] not in bare:
        yield "status %s, bare %s" % (record["gpuleak"]["status"], record["bare"][0]["status"])
    if record.get("difference"):
        yield "output, bare | gpuleak: " + record["difference"]


def judge(args):
    """Prints a row for each program, or what differs from the rows of an earlier run."""
    results = load_results(args.results)
    rows = list(expected_rows(results))
    if not args.expected:
        print("\n".join("\t".join(row) for row in [("program", "verdict", "leaks", "reason")] + rows))
        return 0
    expected, wrong, compared = read_expected(args.expected), 0, 0
    for key, verdict, where, _ in rows:
        wanted = expected.get(key)
        if verdict == "dropped" or not wanted or wanted[0] == "dropped":
            continue
        compared += 1
        found = list(differences(results[key], where, wanted))
        wrong += bool(found)
        for text in found:
            print("%s: %s" % (key, text))
    print("%d programs compared, %d differ from %s" % (compared, wrong, args.expected))
    return 1 if wrong else 0


# table

def ratio(records, way):
    """Returns the median of a way's time over the second bare run's: the first one fills caches."""
    values = [record[way]["seconds"] / max(record["bare"][1]["seconds"], 0.001)
              for record in records if way in record and record[way]["status"] is not None]
    return "%.2f" % statistics.median(values) if values else ""


def table(args):
    results = load_results(args.results)
    groups = {}
    for key, record in results.items():
        groups.setdefault("/".join(key.split("/")[:2]), []).append(record)
    print("| programs | listed | compared | allocate | leak | context ended with blocks | a free was refused |"
          " only gpuleak | only the second tool | unknown | same output and status | gpuleak, times bare |"
          " second tool, times bare |")
    print("|---|" + "---|" * 12)
    for name, records in sorted(groups.items()) + [("all", list(results.values()))]:
        there = [record for record in records if "dropped" not in record]
        reports = [record["gpuleak"]["report"]["summary"] for record in there if "report" in record["gpuleak"]]
        verdicts = [judge_one(record) for record in there]
        same = sum(not list(differences(record, "", ["", ""])) for record in there)
        cells = [len(records), len(there), sum(s["allocated_blocks"] > 0 for s in reports),
                 sum(s["leaked_blocks"] > 0 for s in reports),
                 sum(s.get("with_context_blocks", 0) > 0 for s in reports), sum(s.get("refused_frees", 0) > 0 for s in reports),
                 verdicts.count("only gpuleak"), verdicts.count("only the second tool"),
                 sum(v.startswith("unknown") for v in verdicts), same,
                 ratio(there, "gpuleak"), ratio(there, "second")]
        print("| %s | %s |" % (name, " | ".join(map(str, cells))))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("build", "run", "judge", "table"))
    parser.add_argument("--programs", default=os.path.join(HERE, "programs.tsv"), help="the list")
    parser.add_argument("--source", help="folder with the checkouts, each under its corpus' name")
    parser.add_argument("--build", help="folder for copies, programs and logs")
    parser.add_argument("--results", help="file of JSON lines, one for each program")
    parser.add_argument("--expected", help="file that `judge` printed: compare with it")
    parser.add_argument("--gpuleak", type=shlex.split, default=["gpuleak"], help="the command")
    parser.add_argument("--sanitizer", type=shlex.split, help="compute-sanitizer, with further options; unset: not run")
    parser.add_argument("--api", choices=("cuda", "opencl"), help="only the programs of this API")
    parser.add_argument("--only", default="", help="only the programs whose corpus/api/name has this pattern")
    parser.add_argument("--arch", default="sm_90", help="architecture to compile for")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="programs at the same time")
    parser.add_argument("--seconds", type=float, help="stop after this time; a second run goes on")
    parser.add_argument("--limit", type=float, default=20, help="seconds that a program may take bare")
    parser.add_argument("--sanitizer-limit", type=float, default=45, help="seconds under compute-sanitizer")
    parser.add_argument("--build-limit", type=float, default=300, help="seconds to compile a program")
    parser.add_argument("--verbose", action="store_true", help="a line for each program")
    args = parser.parse_args()
    for stage, wanted in (("build", ("source", "build")), ("run", ("build", "results")), ("judge", ("results",)),
                          ("table", ("results",))):
        if args.stage == stage and not all(getattr(args, name) for name in wanted):
            parser.error("%s needs --%s" % (stage, " and --".join(wanted)))
    for name in ("source", "build", "results"):
        if getattr(args, name):
            setattr(args, name, os.path.abspath(getattr(args, name)))
    args.gpuleak[0] = shutil.which(args.gpuleak[0]) or args.gpuleak[0]
    if os.sep in args.gpuleak[0]:
        args.gpuleak[0] = os.path.abspath(args.gpuleak[0])
    return args


def main():
    args = arguments()
    return {"build": build, "run": run, "judge": judge, "table": table}[args.stage](args) or 0


if __name__ == "__main__":
    sys.exit(main())
