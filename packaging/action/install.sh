#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# First step of action.yml: lets pip unpack the wheel below RUNNER_TEMP and puts the folder of its
# command into PATH for later steps. Changes no Python environment.
#
# INPUT_WHEEL is what pip installs. If it is empty, that is the wheel of this version's release in
# ACTION_REPOSITORY (OWNER/NAME): never a package that only has the same name.
set -eu
fail() {
	printf '::error title=gpuleak::%s\n' "$*"
	exit 1
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
version=$(cat "$root/python/gpuleak/VERSION")
wheel=${INPUT_WHEEL-}
if [ -z "$wheel" ]; then
	[ -n "${ACTION_REPOSITORY-}" ] || fail "no wheel: set the input 'wheel' to its path or address"
	wheel=$GITHUB_SERVER_URL/$ACTION_REPOSITORY/releases/download/v$version
	wheel=$wheel/gpuleak-$version-py3-none-manylinux_2_28_$(uname -m).whl
fi
[ -n "${RUNNER_TEMP:+${GITHUB_PATH-}}" ] || fail 'RUNNER_TEMP and GITHUB_PATH must be set'
command -v python3 >/dev/null || fail 'no python3 in PATH, whose pip installs gpuleak'

folder=$RUNNER_TEMP/gpuleak
rm -rf "$folder"
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m pip install --quiet --no-deps --target "$folder" "$wheel" ||
	fail "pip cannot install $wheel: see above"
bin=$folder/gpuleak/_native/bin
shown=$("$bin/gpuleak" --version) || fail "$wheel was installed, but its command does not run"
printf '%s\n' "$bin" >>"$GITHUB_PATH"
printf '%s\n' "${shown%%$'\n'*}"
