#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Attaches to programs that have worked for 5 seconds, by ptrace and by the page of a prepared process:
# the growing line is named, the output is that of a run without gpuleak, and calls are counted exactly.
# Called by run.sh, which compiles attach_service.
#
#   tests/gpu/attach.sh RESULTS BUILD WORK
#
# ATTACH in the environment names the parts; without it all run, about 8 minutes.
set -u
parts=${ATTACH:-service torch cupy jax counted devices turns}
wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }
results=$1 build=$2 work=$3 here=$(cd "$(dirname "$0")" && pwd)
gpuleak=$build/tools/gpuleak
export XLA_PYTHON_CLIENT_ALLOCATOR=platform XLA_PYTHON_CLIENT_PREALLOCATE=false CUBLAS_WORKSPACE_CONFIG=:4096:8
say() { printf '%s\n' "$*" | tee -a "$results/summary.txt"; }

wait_until_ready() { # PID FILE
	for _ in $(seq 600); do
		grep -q ready "$2" && return
		kill -0 "$1" 2>/dev/null || return
		sleep 0.1
	done
}

# attached NAME LINES CMD...: LINES is a regular expression for "FILE:NUMBER" of the growing lines
attached() {
	local name=$1 line=$2 way pid before first status took; shift 2
	"$@" >"$results/attach-$name.bare" 2>&1
	for way in ptrace page; do
		local out=$results/attach-$name-$way
		if [ $way = ptrace ]; then "$@" >"$out.out" 2>&1 &
		else LD_PRELOAD=$build/interpose/libgpuleak.so GPULEAK_RECORD=off "$@" >"$out.out" 2>&1 & fi
		pid=$!
		wait_until_ready $pid "$out.out"
		before=$(date +%s%N)
		timeout 60 "$gpuleak" attach --for 10s $pid >"$out.txt" 2>&1
		status=$? took=$((($(date +%s%N) - before) / 1000000))
		wait $pid
		say "attach $name by $way: program $?, attach $status in $took ms, output $(
			cmp -s <(grep -v ready "$results/attach-$name.bare") <(grep -v ready "$out.out") &&
			echo as bare || echo WRONG), growing line $(grep -m3 '^gpuleak:' "$out.txt" |
			grep -qE "$line" && echo named || echo NOT NAMED)"
		say "  $(grep -m1 -E '^gpuleak: (growth|kept|[0-9])' "$out.txt" || head -1 "$out.txt")"
		first=$(grep -oE 'stopped[^;]*|stood[^;]*' "$out.txt" | head -1)
		[ -z "$first" ] || say "  $first"
	done
}

line_of() { echo "$(basename "$1"):($(grep -n '@grows' "$1" | cut -d: -f1 | paste -sd '|'))([^0-9]|\$)"; }

# All calls after the attachment, beside the program's own count.
counted() {
	local out=$results/attach-counted pid
	"$work/attach_service" 1500 "$work/go" >"$out.out" 2>&1 &
	pid=$!
	wait_until_ready $pid "$out.out"
	"$gpuleak" attach --format json --report "$out.json" $pid >"$out.txt" 2>&1 &
	sleep 5
	touch "$work/go"
	wait
	say "attach counted: $(python3 - "$out.out" "$out.json" <<'PY'
import json, re, sys
text = open(sys.argv[1]).read()
ready = int(re.search(r"ready (\d+)", text).group(1))
total = int(re.search(r"allocations (\d+)", text).group(1))
summary = json.load(open(sys.argv[2]))["summary"]
print("program %d allocations after it, gpuleak %d: %s" % (
    total - ready, summary["allocated_blocks"],
    "equal" if total - ready == summary["allocated_blocks"] else "WRONG"))
PY
)"
}

# One process with all devices, which keeps a block on each in turn.
of_each_device() {
	local out=$results/attach-devices pid
	"$work/attach_service" 2500 >"$out.out" 2>&1 &
	pid=$!
	wait_until_ready $pid "$out.out"
	"$gpuleak" attach --for 8s --format json --report "$out.json" $pid >"$out.txt" 2>&1
	wait $pid
	say "attach devices: $(python3 - "$devices" "$out.json" <<'PY'
import collections, json, sys
count, report = int(sys.argv[1]), json.load(open(sys.argv[2]))
kept = collections.Counter()
for entry in report["kept"]:
    if any(frame["function"] == "open_session" for frame in entry["stack"]):
        kept[entry["device"]] += entry["blocks"]
grows = {entry["device"] for entry in report["growth"]["suspects"]}
good = set(kept) == grows == set(range(count)) and max(kept.values()) - min(kept.values()) <= 1
print("blocks kept on each of %d devices: %s, growth on devices %s: %s" % (
    count, dict(sorted(kept.items())), sorted(grows), "as planted" if good else "WRONG"))
PY
)"
}

devices=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
say "attach: $devices devices; the service uses each of them"
! wants service || attached service "$(line_of "$here/programs/attach_service.cu")" "$work/attach_service" 2500
for framework in torch cupy jax; do
	wants $framework || continue
	python3 -c "import $framework" 2>/dev/null || { say "attach: no $framework"; continue; }
	program=$here/programs/attach_$framework.py
	attached $framework "$(line_of "$program")" python3 "$program" 2500
done
! wants counted || counted
if wants devices; then
	if [ "$devices" -ge 2 ]; then of_each_device; else say "attach devices: skipped, it needs two devices"; fi
fi
if wants turns && python3 -c 'import torch' 2>/dev/null; then
	say "$(python3 "$here/attach_stop.py" "$gpuleak" 2>&1)"
	say "attach steps: $(STEPS=10 WAYS="bare,bare again,prepared,attached and detached" "$here/turns.py" \
		"$build/interpose/libgpuleak.so" "${PROCESSES:-3}" 6 python3 "$here/programs/torch_steps.py" turns gpt2-small \
		2>"$results/attach-turns.txt" | tr '\n' ';')"
fi
