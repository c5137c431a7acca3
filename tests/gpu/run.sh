#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What only a real GPU can show, in one go: every route's calls are recorded (counted
# against CUPTI), unharmed programs, ends, costs beside compute-sanitizer. Needs nvcc, a
# GPU, and whatever of PyTorch, CuPy, JAX is there. Results go to the folder named first.
#
#   tests/gpu/run.sh RESULTS [BUILD] [part ...]     parts: calls ends late errors families matrix programs contexts pools cost
#                                               frameworks suballocations kept keepers keepers-load oom fragmentation ranges ranges-beside nvtx-memory trace trace-cost parked opencl held costs objects steps scale attach two guard
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=$(mkdir -p "$1" && cd "$1" && pwd)
build=$(cd "${2:-$here/../../build}" && pwd)
shift; shift
parts=${*:-calls ends late errors families matrix programs contexts pools cost frameworks suballocations kept keepers keepers-load oom fragmentation ranges ranges-beside nvtx-memory trace trace-cost parked opencl held costs objects steps scale}
lib=$build/interpose/libgpuleak.so
gpuleak=$build/tools/gpuleak
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")

# Prints a text, and stores it in the summary. If a text ends in ": " or ", ", the program whose output
# should follow has printed nothing. The text then gets "WRONG".
say() {
	case $* in *[:,]' ') set -- "$*WRONG: no output" ;; esac
	printf '%s\n' "$*" | tee -a "$results/summary.txt"
}
wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }

say "gpu: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
say "date: $(date -u +%F), $(nproc) cores, $(. /etc/os-release; echo "$PRETTY_NAME"), $(ldd --version | head -1)"

nvcc -O2 -g -arch=sm_90 -cudart static -o "$work/churn-static" "$here/programs/churn.cu" || exit 1
nvcc -O2 -g -arch=sm_90 -cudart shared -o "$work/churn-shared" "$here/programs/churn.cu" || exit 1
nvcc -O2 -arch=sm_90 -o "$work/launch" "$here/programs/launch.cu" || exit 1
nvcc -O2 -g -arch=sm_90 -cudart static -o "$work/small" "$here/programs/small.cu" || exit 1
gcc -g -I"$cuda/include" -o "$work/driver_api" "$here/programs/driver_api.c" -L"$cuda/lib64/stubs" -lcuda || exit 1
# CUPTI comes with the toolkit, or with PyTorch's wheels.
site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
cupti_lib=$(find "$cuda" "$site/nvidia" -name 'libcupti.so.1[0-9]*' -printf '%h\n' 2>/dev/null | head -1)
cupti_inc=$(find "$cuda/" "$site/nvidia" -name cupti.h -printf '%h\n' 2>/dev/null | head -1)
gcc -O2 -shared -fPIC -I"$cuda/include" -I"$cupti_inc" -o "$work/count_calls.so" "$here/programs/count_calls.c" \
	"$(ls "$cupti_lib"/libcupti.so.1[0-9] | head -1)" -Wl,-rpath,"$cupti_lib" || say "no CUPTI: calls are not counted independently"
export LD_LIBRARY_PATH=$cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# count NAME CMD...: gpuleak's numbers beside CUPTI's, of one run
count() {
	local name=$1; shift
	CUDA_INJECTION64_PATH=$work/count_calls.so COUNT_FILE=$work/count LD_PRELOAD=$lib GPULEAK_FORMAT=json \
		GPULEAK_REPORT=$results/$name.json "$@" >"$results/$name.out" 2>"$results/$name.err"
	say "$name: exit $?, $(python3 - "$work/count" "$results/$name.json" <<'PY'
import json, sys
counts = dict(line.split() for line in open(sys.argv[1]))
ends = ("Free", "Unregister", "Destroy", "Release", "Unmap")
made = sum(int(v) for k, v in counts.items() if not any(e in k for e in ends))
freed = sum(int(v) for k, v in counts.items() if any(e in k for e in ends))
report = json.load(open(sys.argv[2]))
s = report["summary"]
ended = s["freed_blocks"] + s.get("late_blocks", 0)
print("CUPTI saw %d allocations, %d frees; gpuleak recorded %d, %d (+ %d with their context): %s; leaked %d blocks %d bytes, errors %d, peak %d, notes %s" % (
    made, freed, s["allocated_blocks"], s["freed_blocks"], s.get("with_context_blocks", 0),
    "EQUAL" if made == s["allocated_blocks"] and freed in (s["freed_blocks"], ended) else "DIFFERENT",
    s["leaked_blocks"], s["leaked_bytes"], s["errors"], s["peak_bytes"], report.get("notes")))
PY
)"
	rm -f "$work/count"
}

# pairs NAME N CMD...: bare and preloaded in turn, N times each; the program prints its own figure
pairs() {
	local name=$1 n=$2; shift 2
	say "$name: $("$here/paired.py" "$lib" "$n" "$@")"
}

if wants calls; then
	count driver_api "$work/driver_api"
	count churn-static "$work/churn-static" 3 return 200
	count churn-shared "$work/churn-shared" 3 return 200
fi

if wants families; then
	for story in leak twice mixed arrays pools captured; do
		count families-$story "$build/tests/programs/p_families" $story
		say "   it says: $(tr '\n' ';' <"$results/families-$story.out")"
		say "   errors: $(python3 -c 'import json,sys; print([(e["type"], e["api"], e["result"]) for e in json.load(open(sys.argv[1]))["errors"]])' "$results/families-$story.json")"
	done
fi

if wants objects; then
	gcc -g -I"$cuda/include" -o "$work/objects" "$here/programs/objects.c" -L"$cuda/lib64/stubs" -lcuda || exit 1
	for fate in "" freed; do
		name=objects${fate:+-$fate}
		LD_PRELOAD=$lib GPULEAK_FORMAT=json GPULEAK_REPORT=$results/$name.json "$work/objects" 1000 $fate >"$results/$name.out" 2>&1
		say "$name: exit $?, $("$here/objects.py" "$results/$name.json" "$results/$name.out" | tr '\n' ';')"
	done
fi

# Frees after the runtime has ended: with the shared runtime they are recorded and the gate passes, with
# the static one they cannot be seen.
if wants late; then
	for kind in shared static; do
		nvcc -O0 -g -arch=sm_90 -cudart $kind -o "$work/late-$kind" "$here/programs/freed_too_late.cu" || exit 1
		"$gpuleak" run --gate --format json --report "$results/late-$kind.json" -- "$work/late-$kind" >"$results/late-$kind.out" 2>&1
		say "late $kind: status $? ($([ $kind = shared ] && echo "0 is right" || echo "23 is right")), $(head -1 "$results/late-$kind.out"), $(python3 - "$results/late-$kind.json" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
report = report.get("processes", [report])[0]
late = [(one["api"], one["result"], one["allocated"]["bytes"]) for one in report.get("refused_frees", ()) if one["after_shutdown"]]
print("late frees %s, leaked %d blocks" % (late, report["summary"]["leaked_blocks"]))
PY
)"
	done
fi

# Each program says what the report on it must say; expect.py holds the two against each other.
if wants matrix; then
	for kind in static shared; do
		for program in runtime_families ipc; do
			nvcc -O0 -g -arch=sm_90 -cudart $kind -o "$work/$program-$kind" "$here/programs/$program.cu" || exit 1
		done
		for fate in leaked freed twice graphs reset; do
			name=matrix-$kind-$fate
			LD_PRELOAD=$lib GPULEAK_FORMAT=json GPULEAK_REPORT=$results/$name.json "$work/runtime_families-$kind" $fate \
				>"$results/$name.out" 2>"$results/$name.err"
			say "$name: exit $?, $("$here/expect.py" "$results/$name.json" "$results/$name.out")"
			[ -s "$results/$name.err" ] && say "   stderr: $(head -3 "$results/$name.err" | tr '\n' ';')"
		done
		name=matrix-$kind-array-twice # the driver dies of it
		"$gpuleak" run --format json --report "$results/$name.json" -- "$work/runtime_families-$kind" array-twice \
			>"$results/$name.out" 2>"$results/$name.err"
		say "$name: exit $?, $("$here/expect.py" "$results/$name.json" "$results/$name.out")"
		name=matrix-$kind-ipc
		IPC_ROLE=importer LD_PRELOAD=$lib GPULEAK_FORMAT=json GPULEAK_REPORT="$results/$name-%q{IPC_ROLE}.json" \
			"$work/ipc-$kind" >"$results/$name-importer.out" 2>"$results/$name-exporter.out"
		say "$name: exit $?, $("$here/expect.py" "$results/$name-importer.json" "$results/$name-importer.out" \
			"$results/$name-exporter.json" "$results/$name-exporter.out")"
	done
fi

# The exact cases of tests/programs, on the real driver; skipped is what only the stand-in can
# run (injected failures, forged handles), each with its reason.
if wants programs; then
	mkdir -p "$work/real" # before the programs' own way to the stand-in
	ln -sf "$(ldconfig -p | awk '/libcuda.so.1 /{ print $NF; exit }')" "$work/real/libcuda.so.1"
	for family in vmm graph contexts cuda ipc; do
		timeout 250 python3 "$here/../programs/run.py" $family --preload "$lib" --command "$gpuleak" --standin "$work/real" --real-driver \
			--programs "$build/tests/programs" >"$results/programs-$family.tap" 2>&1
		say "programs $family: $(grep '^ok' "$results/programs-$family.tap" | grep -vc '# SKIP') passed, $(grep -c '^not ok' "$results/programs-$family.tap") failed, $(grep -c '# SKIP' "$results/programs-$family.tap") cases left out"
	done
fi

# What ends with a context, under each pool backend. Bare, "late" is what the driver itself answers;
# the memory of all rounds together is more than the device has.
if wants contexts; then
	gcc -g -I"$here/../programs" -o "$work/context_states" "$here/programs/context_states.c" -L"$cuda/lib64/stubs" -lcuda || exit 1
	"$work/context_states" >"$results/context_states-bare.out" 2>&1
	say "context_states bare: exit $?"
	for mode in strict fast; do
		for backend in device stream-ordered managed; do
			"$gpuleak" run --pool $mode --pool-backend $backend --report none -- "$work/context_states" >"$results/context_states-$mode-$backend.out" 2>/dev/null
			say "context_states $mode $backend: exit $?, $(cmp -s "$results/context_states-bare.out" "$results/context_states-$mode-$backend.out" && echo as bare || diff "$results/context_states-bare.out" "$results/context_states-$mode-$backend.out" | tr '\n' ';')"
		done
	done
	for story in destroyed released reset; do
		say "context_pool $story bare: $(timeout 100 "$build/tests/programs/p_context_pool" $story 50 2048 2>&1)"
		for mode in strict fast; do
			for backend in device stream-ordered; do
				timeout 100 "$gpuleak" run --pool $mode --pool-backend $backend --format json --report "$results/context_pool.json" -- \
					"$build/tests/programs/p_context_pool" $story 50 2048 >"$results/context_pool.out" 2>&1
				say "context_pool $story $mode $backend: exit $?, $(grep -v ^gpuleak "$results/context_pool.out" | tr '\n' ';') $(python3 -c 'import json,sys; r=json.load(open(sys.argv[1])); print("errors", [e["type"] for e in r["errors"]], "leaks", len(r["leaks"]), "pool kept", sum(p["reserved_bytes"] for p in r["pool"]["pools"]))' "$results/context_pool.json" 2>&1 | tail -1)"
			done
		done
	done
	# Each object is destroyed by the call for another type: a driver need not survive it.
	"$build/tests/programs/p_families" other-destroy >"$results/other-destroy.out" 2>&1
	say "other-destroy bare: exit $?, $(tr '\n' ';' <"$results/other-destroy.out")"
	"$gpuleak" run --format json --report "$results/other-destroy.json" -- "$build/tests/programs/p_families" other-destroy >"$results/other-destroy.out" 2>&1
	say "other-destroy: exit $?, $(grep -v ^gpuleak "$results/other-destroy.out" | tr '\n' ';') $(python3 -c 'import json,sys; print([(e["type"], e["api"], e["result"]) for e in json.load(open(sys.argv[1]))["errors"]])' "$results/other-destroy.json" 2>&1 | tail -1)"
fi

if wants suballocations; then
	for how in default expandable_segments:True "default graph" "expandable_segments:True graph"; do
		conf=${how% *}
		GPULEAK_LEDGER=$work/suballocations.ledger LEDGER=$work/suballocations.ledger LD_PRELOAD=$lib GPULEAK_REPORT=none \
			PYTORCH_CUDA_ALLOC_CONF=$([ $conf = default ] || echo $conf) python3 "$here/programs/torch_suballocations.py" "${how#"$conf"}" \
			>"$results/torch_suballocations-$conf.out" 2>&1
		say "torch_suballocations $how: exit $?, $(tail -1 "$results/torch_suballocations-$conf.out")"
		rm -f "$work/suballocations.ledger"
	done
fi

# Scripts that say of themselves what accumulates: each line, and the first line of the report.
if wants kept; then
	timeout 500 python3 "$here/kept.py" --gpuleak "$gpuleak" --results "$results/kept" -j "$(($(nproc) / 2 + 1))" \
		"$here/programs/kept" "$here/../frameworks/design" "$here/../frameworks/unseen" >"$results/kept.txt" 2>&1
	say "kept: $(tail -1 "$results/kept.txt")"
	say "$(grep -A2 '^not ok' "$results/kept.txt" | cut -c1-300)"
fi

# Which variable keeps what: programs with exact texts, and the scripts of the guide.
if wants keepers; then
	timeout 400 python3 "$here/../frameworks/keepers/run.py" --real --preload "$lib" --command "$gpuleak" >"$results/keepers.tap" 2>&1
	say "keepers: $(grep -c '^ok' "$results/keepers.tap") passed, $(grep -c '^not ok' "$results/keepers.tap") failed"
	for name in torch cupy jax; do
		"$gpuleak" run --keepers $([ $name = torch ] || echo --bypass-pools) --report "$results/keepers-$name.txt" -- \
			python3 "$here/../../docs/examples/kept_$name.py" >"$results/keepers-$name.out" 2>&1
		say "keepers of kept_$name.py: exit $?, $(grep -A1 -m1 '^ *Kept ' "$results/keepers-$name.txt" | tr '\n' ';')"
	done
fi

# Training programs on a busy machine, each of which keeps tensors in another way.
if wants keepers-load; then
	timeout 590 python3 "$here/keepers_load.py" --gpuleak "$gpuleak" --results "$results/keepers-load" --load "${LOAD:-20}" --cores "${CORES:-0}" \
		"$here/programs/keepers" >"$results/keepers-load.txt" 2>&1
	say "keepers-load: $(tail -1 "$results/keepers-load.txt")"
	say "$(grep '^not ok' "$results/keepers-load.txt" | cut -c1-300)"
fi

# Programs that fill the device and say of themselves who wanted memory and who held it.
if wants oom; then
	timeout 500 python3 "$here/oom.py" --gpuleak "$gpuleak" --results "$results/oom" "$here"/programs/oom/* >"$results/oom.txt" 2>&1
	say "oom: $(tail -1 "$results/oom.txt")"
	say "$(grep -A4 '^not ok' "$results/oom.txt" | cut -c1-300)"
fi

# What PyTorch's cache does not use, and which line keeps it: the figures of memory_snapshot().
if wants fragmentation; then
	timeout 500 python3 "$here/fragmentation.py" --gpuleak "$gpuleak" --results "$results/fragmentation" >"$results/fragmentation.txt" 2>&1
	say "fragmentation: $(tail -1 "$results/fragmentation.txt")"
	say "$(grep -A4 '^not ok' "$results/fragmentation.txt" | cut -c1-400)"
fi

# What was allocated at ten moments: as PyTorch counts it, and as the trace has it.
if wants trace; then
	timeout 500 python3 "$here/trace.py" --gpuleak "$gpuleak" --results "$results/trace" >"$results/trace.txt" 2>&1
	say "trace: $(tail -1 "$results/trace.txt")"
	say "$(grep '^not ok' "$results/trace.txt" | cut -c1-400)"
fi

# What a trace costs 100 training steps.
if wants trace-cost; then
	for network in ${NETWORKS:-gpt2-small mlp}; do
		case $network in mlp) turns=18 ;; *) turns=${TURNS:-2} ;; esac
		say "trace, training steps of $network: $(WAYS="bare,bare again,gpuleak,trace" "$here/turns.py" "$lib" "${PROCESSES:-4}" $turns \
			python3 "$here/programs/torch_steps.py" turns $network 2>"$results/trace-$network.txt" | tr '\n' ';')"
	done
fi

# What the driver's pools have reserved and used: as the program itself reads it, and as gpuleak does. A
# refusal during a global capture (GPULEAK_FAIL_AT) must read nothing, or the capture is invalidated.
if wants ranges; then
	"$gpuleak" run --format json --report "$results/ranges.json" -- python3 "$here/ranges.py" >"$work/out" 2>&1
	say "ranges, PyTorch: exit $?, $(python3 "$here/ranges.py" compare "$results/ranges.json" "$work/out")"
fi

# Other tools that take NVTX's ranges, beside gpuleak: both must see them.
if wants ranges-beside; then
	beside() { # NAME WHAT-IT-SAW COMMAND...
		say "ranges beside $1: $2; $(python3 "$here/ranges.py" compare "$results/ranges-$1.json" "$work/out")"
	}
	export GPULEAK_FORMAT=json
	ncu --nvtx --nvtx-include "step/optimizer/" --launch-count 5 --section LaunchStats --clock-control none \
		env LD_PRELOAD=$lib GPULEAK_REPORT=$results/ranges-ncu.json python3 "$here/ranges.py" >"$results/ranges-ncu.out" 2>&1
	grep '^{' "$results/ranges-ncu.out" >"$work/out"
	beside ncu "$(grep -c '==PROF== Profiling' "$results/ranges-ncu.out") kernels profiled in its range"
	nsys=$(command -v nsys || find /opt/nvidia "$cuda"/ -path '*target-linux-x64/nsys' 2>/dev/null | head -1)
	"$nsys" profile --trace cuda,nvtx --output "$work/ranges" \
		env LD_PRELOAD=$lib GPULEAK_REPORT=$results/ranges-nsys.json python3 "$here/ranges.py" >"$results/ranges-nsys.out" 2>&1
	grep '^{' "$results/ranges-nsys.out" >"$work/out"
	beside nsys "$(cat "$work"/ranges.* 2>/dev/null | strings | grep -c optimizer) times the name of its range in $(ls "$work" | grep '^ranges\.' | tr '\n' ' ')"
	unset GPULEAK_FORMAT
fi

# Heaps and regions that a program registers by NVTX, without NVTX's header.
if wants nvtx-memory; then
	gcc -g -o "$work/nvtx_memory" "$here/../programs/nvtx_memory.c" -L"$cuda/lib64/stubs" -lcuda -ldl || exit 1
	"$gpuleak" run --format json --report "$results/nvtx-memory.json" -- "$work/nvtx_memory" pool
	say "nvtx-memory: exit $?, $(python3 -c 'import json, sys
found = sorted((one["cache"], one["bytes"]) for one in json.load(open(sys.argv[1]))["suballocations"])
print(found == [("my pool #", 2048), ("my pool #", 4096)] or found)' "$results/nvtx-memory.json")"
fi

if wants parked; then
	gcc -g -o "$work/parked" "$here/../programs/parked.c" -L"$cuda/lib64/stubs" -lcuda || exit 1
	for words in "keep take:96m back figures" "keep take:1000m take:8m back figures" "own keep take:96m back figures"; do
		"$gpuleak" run --format json --report "$results/parked.json" -- "$work/parked" $words >"$work/out" 2>&1
		say "parked $words: exit $?, $(cat "$work/out"), $(python3 - "$results/parked.json" <<'PY'
import json, sys
exits = [pool for pool in json.load(open(sys.argv[1]))["parked"] if pool["when"] == "exit"]
print(" + ".join("reserved %d used %d" % (pool["reserved_bytes"], pool["used_bytes"]) for pool in exits))
PY
)"
	done
	say "parked, capture: $(GPULEAK_FAIL_AT=2 "$gpuleak" run --format json --report "$results/parked-capture.json" -- \
		"$work/parked" keep take:96m back capture want:1m over 2>&1 | tr '\n' ' ') (wants: want 2 over 0), moments: $(grep -o '"when": "[a-z-]*"' \
		"$results/parked-capture.json" | tr '\n' ' ') (wants: peak, exit)"
fi

if wants frameworks; then
	count torch python3 "$here/programs/torch_steps.py"
	count cupy python3 "$here/programs/cupy_raw.py"
	count jax python3 "$here/programs/jax_run.py"
	for p in torch_steps cupy_raw jax_run; do
		python3 "$here/programs/$p.py" >"$work/bare" 2>/dev/null
		say "$p bare: $(tr '\n' ' ' <"$work/bare")"
	done
fi

# figures NAME CMD...: what the program says it holds beside what gpuleak says
figures() {
	local name=$1; shift
	timeout 300 "$gpuleak" run --format json --report "$results/$name.json" -- "$@" >"$results/$name.out" 2>"$results/$name.err"
	say "$name: exit $?; $("$here/figures.py" "$results/$name.json" "$results/$name.out" 2>&1 | tr '\n' ';')"
}

if wants pools; then
	figures torch-caching python3 "$here/programs/torch_pools.py"
	figures torch-caching-empty python3 "$here/programs/torch_pools.py" empty
	for conf in expandable_segments:True backend:cudaMallocAsync; do
		PYTORCH_CUDA_ALLOC_CONF=$conf figures "torch-${conf%:*}" python3 "$here/programs/torch_pools.py"
	done
	PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True figures torch-expandable-empty python3 "$here/programs/torch_pools.py" empty
	figures torch-graph python3 "$here/programs/torch_graph.py"
	PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True figures torch-graph-expandable python3 "$here/programs/torch_graph.py"
	for mode in global thread_local relaxed; do # PyTorch 2.11 can't do two of them in a process, bare neither
		PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync figures torch-graph-async-$mode python3 "$here/programs/torch_graph.py" $mode
		say "   $(grep captures "$results/torch-graph-async-$mode.out")"
	done
	for pool in device managed async pinned; do
		figures cupy-$pool python3 "$here/programs/cupy_pools.py" $pool
	done
	XLA_PYTHON_CLIENT_PREALLOCATE=false figures jax-no-preallocation python3 "$here/programs/jax_pools.py"
	XLA_PYTHON_CLIENT_MEM_FRACTION=.10 figures jax-preallocation python3 "$here/programs/jax_pools.py"
fi

if wants held; then
	gcc -g -I"$cuda/include" -o "$work/driver_held" "$here/programs/driver_held.c" -L"$cuda/lib64/stubs" -lcuda || exit 1
	for name in "driver $work/driver_held" "torch python3 $here/programs/torch_steps.py"; do
		# shellcheck disable=SC2086 # words
		"$gpuleak" run --format json --report "$results/held-${name%% *}.json" -- ${name#* } >"$results/held.out" 2>"$results/held.err"
		say "held ${name%% *}: exit $?; $("$here/held.py" "$results/held-${name%% *}.json" "$results/held.out" 2>&1 | tr '\n' ';')"
	done
	# A plain preload asks once, at its end.
	LD_PRELOAD=$lib GPULEAK_FORMAT=json GPULEAK_REPORT=$results/held-preload.json "$work/driver_held" >"$results/held.out" 2>"$results/held.err"
	say "held preload: exit $?; $("$here/held.py" "$results/held-preload.json" "$results/held.out" 2>&1 | tr '\n' ';')"
fi

# What each cause took, by the report and by nvidia-smi before and after it.
if wants costs; then
	gcc -g -I"$cuda/include" -o "$work/driver_costs" "$here/programs/driver_costs.c" -L"$cuda/lib64/stubs" -lcuda || exit 1
	"$gpuleak" run --format json --report "$results/costs.json" -- "$work/driver_costs" >"$results/costs.out" 2>"$results/costs.err"
	say "costs: exit $?; $("$here/costs.py" "$results/costs.json" "$results/costs.out" 2>&1 | tr '\n' ';')"
fi

if wants attach; then
	nvcc -O2 -g -arch=sm_90 -cudart static -o "$work/attach_service" "$here/programs/attach_service.cu" || exit 1
	"$here/attach.sh" "$results" "$build" "$work"
fi

if wants guard; then
	"$here/guard.sh" "$results" "$build" "$work"
fi

if wants two; then # two GPUs
	nvcc -O2 -g -arch=sm_90 -o "$work/peer" "$here/programs/peer.cu" || exit 1
	figures two-peer "$work/peer"
	export NCCL_NVLS_ENABLE=0
	figures two-nccl python3 "$here/programs/nccl.py"
fi

if wants ends; then
	for kind in static shared; do
		for end in return exit _exit reset; do
			"$gpuleak" run --gate --format json --report "$results/end-$kind-$end.json" -- "$work/churn-$kind" 3 $end 10 >/dev/null 2>"$work/err"
			say "end $kind $end: exit $?, $(python3 -c 'import json,sys; r=json.load(open(sys.argv[1])); s=r["summary"]; l=[f for f in (r["leaks"] or [{"stack":[]}])[0]["stack"] if f["file"] and "churn" in f["file"]]; print("leaked", s["leaked_blocks"], s["leaked_bytes"], "with context", s.get("with_context_blocks"), "ended", r["process"]["ended"], "at", l[0]["function"] if l else None, l[0]["line"] if l else None)' "$results/end-$kind-$end.json" 2>&1 | tail -1)"
		done
	done
fi

if wants errors; then
	LD_PRELOAD=$lib "$work/driver_api" >"$results/driver_api.txt" 2>&1
	say "driver_api: $(head -8 "$results/driver_api.txt" | grep -v gpuleak | tr '\n' ';')"
	say "$(grep -m1 ^gpuleak "$results/driver_api.txt")"
fi

if wants cost; then
	pairs "churn 2000 x (cudaMalloc 4 MiB, kernel, cudaFree), ms" 60 "$work/churn-static"
	pairs "cheapest cudaMalloc/cudaFree pair, static cudart, ns" 9 "$work/small"
	GPULEAK_STACK_DEPTH=0 pairs "the same without stacks, ns" 5 "$work/small"
	pairs "kernel launch, ns" 9 "$work/launch"
	say "compute-sanitizer: $(compute-sanitizer --version | grep -o 'Version.*')"
	say "compute-sanitizer churn, ms: $(for i in 1 2 3; do compute-sanitizer --tool memcheck --leak-check full "$work/churn-static" 2>&1 | grep -E '^[0-9.]+$'; done | tr '\n' ' ')"
	say "compute-sanitizer PyTorch, ms: $(compute-sanitizer --tool memcheck --leak-check full python3 "$here/programs/torch_steps.py" 2>&1 | grep -E '^[0-9.]+$' | tr '\n' ' ')"
fi

if wants steps; then
	for network in ${NETWORKS:-mlp gpt2 resnet gpt2-small resnet50}; do
		case $network in mlp) turns=18 ;; gpt2-small | resnet50) turns=2 ;; *) turns=6 ;; esac # a turn takes 0.1 to 5 s
		say "PyTorch, training steps of $network, ${PROCESSES:-8} processes each, $turns turns of 100 steps: $("$here/turns.py" "$lib" "${PROCESSES:-8}" $turns \
			python3 "$here/programs/torch_steps.py" turns $network 2>"$results/steps-$network.txt" | tr '\n' ';')"
		python3 "$here/programs/torch_steps.py" 1 $network 2>&1 | grep loss >"$work/bare"
		LD_PRELOAD=$lib GPULEAK_REPORT=none python3 "$here/programs/torch_steps.py" 1 $network 2>&1 | grep loss >"$work/with"
		say "   bare: $(cat "$work/bare"); $(cmp -s "$work/bare" "$work/with" && echo "the same under gpuleak" || echo "under gpuleak: $(cat "$work/with")")"
	done
fi

if wants opencl; then
	# The toolkit's own loader knows no variable for vendors: the distribution's is taken, with
	# NVIDIA's platform alone. The line that names the platform is to be looked at.
	mkdir -p "$work/icd" "$work/loader" && echo libnvidia-opencl.so.1 >"$work/icd/nvidia.icd"
	ln -sf /lib/x86_64-linux-gnu/libOpenCL.so.1 "$work/loader/"
	export OCL_ICD_VENDORS=$work/icd LD_LIBRARY_PATH=$work/loader:$LD_LIBRARY_PATH
	say "OpenCL platform: $(python3 -c '
import ctypes
cl, p, name = ctypes.CDLL("libOpenCL.so.1"), ctypes.c_void_p(), ctypes.create_string_buffer(200)
print(cl.clGetPlatformIDs(1, ctypes.byref(p), None), cl.clGetPlatformInfo(p, 0x0902, 200, name, None), name.value.decode())')"
	for story in five clean svm; do
		"$gpuleak" run --gate -- \
			"$build/tests/programs/p_cl_leak" $story >"$results/opencl-$story.txt" 2>&1
		say "p_cl_leak $story: exit $?, $(grep -m1 ^gpuleak "$results/opencl-$story.txt")"
	done
	"$here/opencl_handles.sh" "$build" "$results" | tee -a "$results/summary.txt"
	for mode in preload layer both; do # the same library by each way
		layer=; preload=
		[ $mode = preload ] || layer=$lib
		[ $mode = layer ] || preload=$lib
		OPENCL_LAYERS=$layer LD_PRELOAD=$preload GPULEAK_FORMAT=json GPULEAK_REPORT=$results/opencl-by-$mode.json \
			"$build/tests/opencl/cl-memory" work >"$results/opencl-by-$mode.out" 2>&1
		say "cl-memory by $mode: exit $?, $(python3 -c 'import json,sys; r=json.load(open(sys.argv[1])); print(r["summary"], [(l["api"], l["bytes"]) for l in r["leaks"]], [e["type"] for e in r["errors"]])' "$results/opencl-by-$mode.json" 2>&1 | tail -1)"
	done
	unset OCL_ICD_VENDORS
	LD_LIBRARY_PATH=${LD_LIBRARY_PATH#*:}
fi

if wants scale; then
	export LD_LIBRARY_PATH=$build/standin/driver
	for t in 1 2 4 8 16; do
		bare=$("$build/tests/bench/bench-pair" $t 20 2>/dev/null)
		with=$(LD_PRELOAD=$lib GPULEAK_REPORT=none "$build/tests/bench/bench-pair" $t 20 2>/dev/null)
		say "stand-in pair, 20 frames, $t threads: bare $bare ns, gpuleak $with ns"
	done
fi
cat "$results/summary.txt"
