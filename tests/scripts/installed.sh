#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Checks that gpuleak is installed on this system as README.md promises: the command is in PATH,
# the plain name of the library preloads, and the system's Python imports the package.
# fresh-debian.sh runs it after the README's commands.
#
#   tests/scripts/installed.sh
set -eu
cd /

fail() {
	printf 'installed: %s\n' "$*" >&2
	exit 1
}

[ "$(command -v gpuleak)" = /usr/local/bin/gpuleak ] || fail 'gpuleak is not in PATH'
[ "$(LD_PRELOAD=libgpuleak.so /bin/true 2>&1)" = '' ] || fail 'LD_PRELOAD=libgpuleak.so does not preload'
# shellcheck disable=SC2016 # for the inner shell
LD_PRELOAD=libgpuleak.so sh -c 'grep -q libgpuleak.so /proc/$$/maps' ||
	fail 'LD_PRELOAD=libgpuleak.so does not preload'
LD_PRELOAD=libgpuleak.so python3 -c 'import gpuleak; assert gpuleak.active()' ||
	fail 'Python does not import gpuleak, or it does not find the library'
echo 'installed: the command, the library by its plain name, the Python package'
