#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The packages from PyPI: only the set-up fetches them, and the tests use what is there. TAP.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/tap.sh
. "$here/../tap.sh"
export PIP_NO_INDEX=1 # as without a network
unset PIP_FIND_LINKS PIP_CONFIG_FILE

status=0
XDG_CACHE_HOME=$work/empty "$here/../../tools/setup.sh" --tests --os-release /dev/null \
	>"$work/out" 2>&1 </dev/null && status=1 # an unknown distribution: no packages
grep -q '^setup: .*PyPI could not be fetched' "$work/out" || status=1
[ -z "$(ls "$work/empty/gpuleak" 2>/dev/null)" ] || status=1
result 'without a network the set-up fails, says why, and leaves no half of a folder' "$status" "$work/out"

status=0
XDG_CACHE_HOME=$work/empty "$here/schemas.sh" "$work/none" >"$work/out" 2>&1 && status=1
grep -q 'run tools/setup.sh --tests' "$work/out" || status=1
result 'a test without the packages names the set-up' "$status" "$work/out"

if ! "$here/pypi.sh" --folder >/dev/null 2>&1 && [ -z "${GPULEAK_MUST_RUN-}" ]; then
	result 'the schemas, unpacked twice at once # SKIP tools/setup.sh --tests was not run' 0
else
	status=0
	"$here/schemas.sh" "$work/schemas" >"$work/out" 2>&1 &
	"$here/schemas.sh" "$work/schemas" >"$work/out2" 2>&1 || status=1
	wait $! || status=1
	cat "$work/out2" >>"$work/out"
	[ -e "$work/schemas/kubernetes/pod-v1.json" ] || status=1
	[ -e "$work/schemas/github-workflow.json" ] || status=1
	[ -e "$work/schemas/gitlab-ci.json" ] || status=1
	result 'the schemas, unpacked twice at once' "$status" "$work/out"
fi
finish
