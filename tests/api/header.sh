#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# gpuleak.h compiles alone, without a warning, as every C from C99 and every C++ from C++98 on.
#   header.sh DIRECTORY-OF-THE-HEADER
set -u

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0 failed=0

try() { # COMPILER STANDARD SUFFIX
	count=$((count + 1))
	cat >"$work/user$3" <<-'END'
		#include <gpuleak.h>
		#include <gpuleak.h>
		int user(void);
		int user(void)
		{
			struct gpuleak_sum sum;
			sum.size = sizeof(sum);
			return gpuleak_leaked_since ? gpuleak_leaked_since(gpuleak_mark(), &sum) : 0;
		}
	END
	if "$1" "-std=$2" -Wall -Wextra -pedantic -Werror -I"$header" -fPIC -c "$work/user$3" \
		-o "$work/user.o" 2>"$work/said"; then
		echo "ok $count - $1 -std=$2"
	else
		failed=1
		echo "not ok $count - $1 -std=$2"
		sed 's/^/# /' "$work/said"
	fi
}

header=${1:?which directory has gpuleak.h?}
for compiler in gcc clang; do
	command -v "$compiler" >/dev/null || continue
	for standard in c99 c11 gnu17; do try "$compiler" "$standard" .c; done
done
for compiler in g++ clang++; do
	command -v "$compiler" >/dev/null || continue
	for standard in c++98 c++11 c++17; do try "$compiler" "$standard" .cpp; done
done
echo "1..$count"
exit "$failed"
