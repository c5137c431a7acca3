#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Which commit tools/commit.sh prints for a checkout, a changed one, a tarball, and a folder below
# somebody else's repository: commit_test.sh COMMIT_SH. Prints TAP.
set -u

script=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
number=0

expect() { # NAME PATTERN COMMAND...
	local name=$1 pattern=$2 got

	shift 2
	number=$((number + 1))
	got=$("$@" 2>&1)
	if [[ $got =~ ^$pattern$ ]]; then
		echo "ok $number - $name"
	else
		echo "not ok $number - $name"
		echo "# printed: $got, expected: $pattern"
	fi
}

git_here() {
	git -C "$place/repo" -c user.name=n -c user.email=e@example.org "$@" >/dev/null
}

echo 1..7
export GIT_CONFIG_GLOBAL=/dev/null GIT_CEILING_DIRECTORIES=
mkdir -p "$place/repo/below" "$place/plain"
git init -q "$place/repo"
echo a >"$place/repo/file"
git_here add file && GIT_COMMITTER_DATE='1700000000 +0000' git_here commit -q -m 'a: b'
git_here tag -a v9 -m v9 # a tag must not replace the commit
hash=$(git -C "$place/repo" rev-parse HEAD)
expect 'a checkout' "${hash:0:12}" "$script" "$place/repo"
expect 'a folder below a repository' unknown "$script" "$place/repo/below"
expect 'a folder without git' unknown "$script" "$place/plain"
echo b >"$place/repo/file"
expect 'a changed checkout' "${hash:0:12}-dirty" "$script" "$place/repo"
MESON_SOURCE_ROOT=$place/repo MESON_DIST_ROOT=$place/plain "$script" --dist
expect 'the file of a tarball' "${hash:0:12}-dirty" cat "$place/plain/COMMIT"
expect 'and the time of its files' "$(git -C "$place/repo" log -1 --format=%ct)" stat -c %Y "$place/plain/COMMIT"
expect 'an unpacked tarball' "${hash:0:12}-dirty" "$script" "$place/plain"
