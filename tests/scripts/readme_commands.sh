#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs the commands of README.md and docs/guides/install.md as a reader would, in a copy of this
# tree: each block whose info string is exactly "sh", from the top of the copy, in the order of the
# pages. Blocks marked "sh no-test" are not run, those marked "sh as-root" only with --as-root: they change
# this system. tools/test.sh is left out, since it is what runs this.
# Each block stops at the first command that fails. The command is in PATH once it is built.
# --build takes DIR, a build directory that is set up, for the copy's folders build and
# build-quickstart: what the page builds is built there, and is there afterwards.
#
#   tests/scripts/readme_commands.sh [--as-root] [--build DIR] [FILE...]
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
as_root='' build=''
while [ $# -gt 0 ]; do
	case $1 in
	--as-root) as_root=' as-root' ;;
	--build) build=$(realpath "$2"); shift ;;
	*) break ;;
	esac
	shift
done
[ $# -gt 0 ] || set -- "$root/README.md" "$root/docs/guides/install.md"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for page; do
	[ -e "$page" ] || { echo "$page: not there" >&2; exit 1; }
done

# The tree with what is not committed yet, without what git ignores.
mkdir "$work/tree" "$work/blocks"
if git -C "$root" rev-parse --git-dir >/dev/null 2>&1; then
	git -C "$root" ls-files -z -co --exclude-standard |
		(cd "$root" && while IFS= read -r -d '' file; do
			[ ! -e "$file" ] || printf '%s\0' "$file"
		done) | tar -C "$root" --null -T - -cf - | tar -C "$work/tree" -xf -
else
	tar -C "$root" --exclude='./build*' -cf - . | tar -C "$work/tree" -xf -
fi

if [ "$build" ]; then
	ln -s "$build" "$work/tree/build"
	ln -s "$build" "$work/tree/build-quickstart"
fi

# A file for each block: the number of its page, that of its first line, and the name of the page.
pages=0
for page; do
	pages=$((pages + 1))
	awk -v start="$work/blocks/$pages" -v page="$(basename "$page")" -v as_root="$as_root" '
		/^```/ && !inside {
			inside = 1
			run = ($0 == "```sh" || $0 == "```sh" as_root)
			file = sprintf("%s.%05d.%s", start, NR + 1, page)
			next
		}
		/^```/ { inside = 0; if (run) close(file); next }
		inside && run && !/^#/ && !/^(\.\/)?tools\/test\.sh/ { print > file }
	' "$page"
	if ! ls "$work/blocks/$pages".* >/dev/null 2>&1; then
		echo "readme: $page has no block that is marked sh" >&2
		exit 1
	fi
done

count=0
for block in "$work"/blocks/*; do
	IFS=. read -r _ number page <<<"$(basename "$block")"
	printf -- '-- %s:%d\n' "$page" "$((10#$number))"
	sed 's/^/$ /' "$block"
	if ! (cd "$work/tree" && PATH="$work/tree/build/tools:$PATH" \
		bash -e "$block" </dev/null); then
		echo "readme: the block at line $((10#$number)) of $page failed" >&2
		exit 1
	fi
	count=$((count + 1))
done
echo "readme: $count blocks ran"
