#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/quickstart.sh where /sys or /proc is not mounted: quickstart_bare.sh BUILD. TAP.
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0 failed=0

unshare=(unshare --mount)
[ "$(id -u)" = 0 ] || unshare=(unshare --mount --map-root-user)
if ! "${unshare[@]}" mount -t tmpfs none /sys 2>/dev/null; then
	echo '1..0 # SKIP this user can make no mount namespace'
	exit
fi

mkdir "$work/tree" "$work/tree/tools"
cp "$root/tools/quickstart.sh" "$root/tools/setup.sh" "$root/tools/steps.sh" "$work/tree/tools"
ln -s "$root/docs" "$work/tree/docs"
ln -s "$build" "$work/tree/build-quickstart"

# Runs quickstart.sh where FOLDERS are empty.
quickstart_without() { # FOLDERS
	# shellcheck disable=SC2016 # for the inner shell
	"${unshare[@]}" sh -c 'for folder in $1; do mount -t tmpfs none "$folder" || exit 99; done
		exec "$2/tools/quickstart.sh" opencl' sh "$1" "$work/tree" >"$work/out" 2>&1 </dev/null
}

check() { # NAME FOLDERS STATUS LINES-OF-ADVICE
	local status=0

	quickstart_without "$2" || status=$?
	number=$((number + 1))
	if [ "$status" = "$3" ] && [ "$(grep -c 'is not mounted' "$work/out")" = "$4" ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		echo "# status $status, not $3, or not $4 lines with 'is not mounted':"
		sed 's/^/# /' "$work/out"
		failed=1
	fi
}

check 'with all mounted: no advice' '' 0 0
check 'without /sys: one line of advice, and it goes on' /sys 0 1
check 'without /proc: one line of advice, and it ends' /proc 1 1
echo "1..$number"
exit "$failed"
