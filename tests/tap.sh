# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# For TAP tests in bash: `. tap.sh`, `result` for each case, `finish` at the end.
# shellcheck disable=SC2034 # the tests use them
number=0 failed=0

# STATUS 0 passes. Otherwise the test fails and shows the first lines of FILE.
result() { # NAME STATUS FILE
	number=$((number + 1))
	if [ "$2" = 0 ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		sed 's/^/# /' "$3" | head -n 30
		failed=1
	fi
}

finish() {
	echo "1..$number"
	exit "$failed"
}
