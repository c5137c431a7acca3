#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Prints the commit that this source tree is, for `gpuleak --version`: 12 hexadecimal digits, with
# -dirty if tracked files were changed; "unknown" outside of a git checkout. A source tarball has it
# in the file COMMIT.
#
#   commit.sh SOURCE      prints it
#   commit.sh --dist      writes it into the tarball that `meson dist` makes, and gives all files there
#                         the time of the commit: two tarballs of a commit have the same bytes
set -eu

commit_of() { # SOURCE
	if [ -f "$1/COMMIT" ]; then
		head -n 1 "$1/COMMIT"
		return
	fi
	# A tarball that was unpacked below somebody else's repository is not of that repository.
	# A container's root may build a tree that belongs to another user.
	top=$(git -c 'safe.directory=*' -C "$1" rev-parse --show-toplevel 2>/dev/null) || top=
	if [ -n "$top" ] && [ "$(cd "$top" && pwd -P)" = "$(cd "$1" && pwd -P)" ]; then
		git -c 'safe.directory=*' -C "$1" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null && return
	fi
	echo unknown
}

if [ "$1" = --dist ]; then
	commit_of "$MESON_SOURCE_ROOT" >"$MESON_DIST_ROOT/COMMIT"
	seconds=${SOURCE_DATE_EPOCH:-$(git -c 'safe.directory=*' -C "$MESON_SOURCE_ROOT" log -1 --format=%ct)}
	find "$MESON_DIST_ROOT" -exec touch -h -d "@$seconds" {} +
else
	commit_of "$1"
fi
