#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The guard's level pages on a GPU: which accesses fault and what names them, what a pair costs, and
# PyTorch's results and steps. With a GPU_GUARD folder of programs compiled before, needs no nvcc.
#
#   tests/gpu/guard_pages.sh RESULTS BUILD [compile FOLDER]
set -u
results=$(mkdir -p "$1" && cd "$1" && pwd) build=$(cd "$2" && pwd) here=$(cd "$(dirname "$0")" && pwd)
if [ "${3:-}" = compile ]; then
	mkdir -p "$4"
	nvcc -O2 -g -arch=sm_90 -cudart static -o "$4/guard" "$here/programs/guard.cu" -lcuda || exit 1
	nvcc -ptx -arch=sm_90 -o "$4/kernels.ptx" "$here/../torture/kernels.cu" || exit 1
	exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
programs=${GPU_GUARD:-$work}
[ -n "${GPU_GUARD:-}" ] || "$0" "$results" "$build" compile "$work" || exit 1
gpuleak=$build/tools/gpuleak
say() { printf '%s\n' "$*" | tee -a "$results/summary.txt"; }
guarded() { "$gpuleak" run --guard pages --guard-sample 1 --report "$work/report" -- "$@"; }

# touched WANT ARGUMENTS...: the output, and the finding
touched() {
	local want=$1 got; shift
	got=$(guarded "$programs/guard" "$@" 2>/dev/null | tail -1)
	say "guard $*: $got$([ "$got" = "$want" ] || echo " WRONG"), $(grep -m1 -E 'unmapped|illegal' "$work/report" || echo "no finding")"
}
touched cudaSuccess touch 1000 999 w
touched cudaSuccess touch 1024 1023 r
touched cudaSuccess touch 10000000 9999999 w
touched cudaErrorIllegalAddress touch 1000 1024 w
touched cudaErrorIllegalAddress touch 1000 1024 r
touched cudaErrorIllegalAddress touch 10000000 10000128 w
touched cudaErrorIllegalAddress touch 1000 0 w freed
touched cudaErrorIllegalAddress touch 1000 0 r freed
touched "launch 0, cudaErrorIllegalAddress" kernel
for way in bare guarded; do
	run=; [ $way = bare ] || run=guarded
	say "guard waits, $way: $($run "$programs/guard" waits 2>/dev/null | grep free | paste -sd,)"
	say "guard pair of 1,000 bytes, $way: $($run "$programs/guard" pairs 2>/dev/null | tail -1)"
done
if [ -e "$build/tests/programs/p_guard_pages" ]; then
	export GUARD_IMAGE=$programs/kernels.ptx
	for story in "query" "work" "capture" "struct ok" "struct wrong" "pitch w" "reset ok" "reset w" "many" "threads" \
		"touch 300000 5 w freed_async"; do
		bare=$("$build/tests/programs/p_guard_pages" $story 2>&1)
		got=$(guarded "$build/tests/programs/p_guard_pages" $story 2>/dev/null)
		say "guard program $story: $([ "$bare" = "$got" ] && echo "as bare" || echo "bare: $bare; guarded: $got") ($(
			grep -m1 -E 'unmapped' "$work/report" || echo "no finding"))"
	done
fi
python3 -c 'import torch' 2>/dev/null || { say "guard: no PyTorch"; exit 0; }
for net in mlp gpt2-small; do
	for way in bare bypass pages sync; do
		run=("$gpuleak" run --bypass-pools --report "$work/report")
		case $way in bare) run=() ;; pages) run+=(--guard pages) ;; sync) run+=(--guard pages --guard-sync 1) ;; esac
		"${run[@]}" ${run:+--} python3 "$here/programs/torch_steps.py" 1 $net >"$results/guard-$net-$way.out" 2>"$results/guard-$net-$way.err"
		say "guard PyTorch $net $way: exit $?, $(tail -1 "$results/guard-$net-$way.out") ms, results $(
			cmp -s <(head -n -1 "$results/guard-$net-bare.out") <(head -n -1 "$results/guard-$net-$way.out") &&
			echo "as bare" || echo "differ from bare")"
	done
done
