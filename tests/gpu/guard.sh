#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The guard on a real GPU: the planted errors of tests/guard beside compute-sanitizer, and
# what it costs (other projects' tests: guard_suites.sh). Needs nvcc, and takes its own parts:
#
#   GUARD_PARTS="planted gpt2 cost" tests/gpu/guard.sh RESULTS BUILD WORK
#
# Variables: JOBS and DEADLINE (s) of `planted`, API for one of its APIs; NETWORKS of `cost`.
# With PROGRAMS, a folder with what "compile" made, no compiler is needed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
guard=$here/../guard
results=$(mkdir -p "$1" && cd "$1" && pwd)
build=$(cd "$2" && pwd)
programs=${PROGRAMS:-$3/guard}
gpuleak=$build/tools/gpuleak
parts=" ${GUARD_PARTS:-planted cost} "
say() { printf '%s\n' "$*" | tee -a "$results/summary.txt"; }
wants() { case $parts in *" $1 "*) true ;; *) false ;; esac; }

compile() { # the machine of the build has OpenCL's headers, this one need not
	local cuda
	mkdir -p "$programs"
	cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
	for kind in static shared; do
		nvcc -O0 -g -arch=sm_90 -cudart $kind -o "$programs/planted-$kind" "$guard/planted.cu" || return
	done
	nvcc -O0 -g -arch=sm_90 -shared -Xcompiler -fPIC -o "$programs/libextension.so" "$guard/extension.cu" || return
	gcc -g -O0 -I"$here/../programs" -o "$programs/planted_driver" "$guard/planted_driver.c" -L"$cuda/lib64/stubs" -lcuda || return
	cp "$build/tests/guard/planted_cl" "$programs/"
}

if wants compile || { [ -z "${PROGRAMS:-}" ] && wants planted; }; then
	compile || exit 1
fi
if wants planted; then
	# shellcheck disable=SC2086 # words
	python3 "$guard/run.py" --gpu --table --sanitizer --command "$gpuleak" --programs "$programs" \
		--jobs "${JOBS:-12}" --deadline "${DEADLINE:-480}" --json "$results/guard.json" ${API:+--api $API} \
		>"$results/guard.txt" 2>&1
	say "guard, planted errors: status $?"
	say "$(grep -A99 -m1 '^copies: ' "$results/guard.txt" | cut -c1-300)"
fi
if wants gpt2; then # GPT-2 with 124 million random weights, in less than 150 s
	say "guard, training steps of gpt2-small: $(STEPS=10 WAYS="bare,bare again,bypassed no gpuleak,bypassed all levels" timeout 150 \
		"$here/turns.py" "$build/interpose/libgpuleak.so" 1 8 python3 "$here/programs/torch_steps.py" turns gpt2-small \
		2>"$results/guard-gpt2.txt" | tr '\n' ';')"
fi
if wants cost; then
	for network in ${NETWORKS:-mlp gpt2-small}; do
		case $network in mlp) turns=12 ;; *) turns=2 ;; esac
		say "guard, training steps of $network: $(WAYS="bare,bare again,gpuleak,copies,bypassed no gpuleak,bypassed all levels" "$here/turns.py" "$build/interpose/libgpuleak.so" \
			"${PROCESSES:-2}" $turns python3 "$here/programs/torch_steps.py" turns "$network" \
			2>"$results/guard-steps-$network.txt" | tr '\n' ';')"
		for way in bare copies all; do
			case $way in
			bare) python3 "$here/programs/torch_steps.py" 1 "$network" ;;
			copies) "$gpuleak" run --guard copies --report none -- python3 "$here/programs/torch_steps.py" 1 "$network" ;;
			all) "$gpuleak" run --guard copies,patterns,pages --bypass-pools --format json \
				--report "$results/guard-steps-$network.json" -- python3 "$here/programs/torch_steps.py" 1 "$network" ;;
			esac >"$results/guard-out" 2>/dev/null
			say "   $way: $(grep loss "$results/guard-out")"
		done
		rm -f "$results/guard-out"
		say "   $(python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
print("errors", len(report["errors"]), "guard", report.get("guard"))' "$results/guard-steps-$network.json" 2>&1 | tail -1)"
	done
fi
