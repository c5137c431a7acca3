#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs a build into a directory of its own and holds it to what the manual says: these
# files and no others, an installed tree that may be moved, a library that the plain name
# preloads. On Debian and Ubuntu, a build without options installs where the dynamic linker and
# Python search. BUILD has the programs of the tests (`ninja all tests`).
#
#   tests/scripts/install.sh BUILD
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

option() { # NAME
	meson introspect --buildoptions "$build" |
		python3 -c 'import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1"
}

fail() {
	printf 'install: %s\n' "$*" >&2
	exit 1
}

libdir=$(option libdir)
DESTDIR=$work/image meson install -C "$build" --no-rebuild >"$work/log" || {
	cat "$work/log"
	fail 'meson install failed'
}

# Manual pages may be more or fewer, and the pages of `gpuleak help` are those of docs; all else is as
# listed.
(cd "$work/image$(option prefix)" && find . ! -type d) |
	sed -E "s,^\./,,; s,^[^ ]*/python3[^/]*/(site|dist)-packages/,PYTHON/,; s,^$libdir/,LIBDIR/,
		s,gpuleak-[0-9.]+\.dist-info,DIST-INFO," |
	grep -vx -e 'share/man/man1/gpuleak[-a-z]*\.1' -e 'share/gpuleak/docs/.*\.md' | sort >"$work/found"
sort "$here/installed-files" | diff -u --label expected --label installed - "$work/found" ||
	fail 'other files than expected'

# Moved away from where it was configured to be.
mv "$work/image$(option prefix)" "$work/moved"
rm -rf "$work/image"
library=$work/moved/$libdir/libgpuleak.so
program=$build/tests/programs/p_cuda_wrong_frees
cd "$work"
export LD_LIBRARY_PATH=$build/standin/driver

diff -r --exclude=README.md "$root/docs/guides" "$work/moved/share/gpuleak/docs/guides" ||
	fail 'the pages of gpuleak help are not those of docs'
"$work/moved/bin/gpuleak" help gate | cmp - "$root/docs/guides/gate.md" || fail 'gpuleak help fails'

# shellcheck disable=SC2016 # for the inner shell
seen=$("$work/moved/bin/gpuleak" run -- sh -c 'echo "$LD_PRELOAD"')
[ "$seen" = "$library" ] || fail "the command preloads '$seen', not $library"

judge() { # STATUS EXPECTED-STATUS WHAT
	if [ "$1" != "$2" ] || ! grep -q 'cuda_wrong_frees\.c:[0-9]' "$work/err"; then
		cat "$work/err" >&2
		fail "$3: status $1, not $2, or no report with lines of the source"
	fi
}

status=0
"$work/moved/bin/gpuleak" run --gate -- "$program" >"$work/out" 2>"$work/err" || status=$?
judge "$status" 23 'gpuleak run'

# shellcheck disable=SC2016 # for the inner shell
seen=$("$work/moved/bin/gpuleak" run --fake-gpu -- sh -c 'echo "${LD_LIBRARY_PATH%%:*}"')
[ "$seen" = "$work/moved/$libdir/gpuleak/fake-gpu" ] ||
	fail "the command leads to the stand-ins in '$seen', not to those of the installation"
status=0
"$work/moved/bin/gpuleak" run --fake-gpu --gate -- "$build/tests/fake_gpu/p_cudart" \
	>"$work/out" 2>"$work/err" || status=$?
if [ "$status" != 23 ] || ! grep -q 'leak\.c:[0-9]' "$work/err"; then
	cat "$work/err" >&2
	fail "gpuleak run --fake-gpu: status $status, not 23, or no report with lines of the source"
fi

# The report with lines comes from the command, which the library must find in turn.
status=0
env "LD_LIBRARY_PATH=$work/moved/$libdir:$LD_LIBRARY_PATH" LD_PRELOAD=libgpuleak.so \
	"$program" >"$work/out" 2>"$work/err" || status=$?
judge "$status" 0 'LD_PRELOAD=libgpuleak.so'

# A program that includes gpuleak.h is compiled by what pkg-config and CMake find. It runs without the
# library, too.
cat >"$work/marks.c" <<'END'
#include <gpuleak.h>

int main(void)
{
	return gpuleak_mark && gpuleak_mark() == 0;
}
END
if ! command -v pkg-config >/dev/null; then
	[ -z "${GPULEAK_MUST_RUN-}" ] || fail 'pkg-config is not installed'
else
	export PKG_CONFIG_PATH=$work/moved/$libdir/pkgconfig
	for name in command library; do
		seen=$(pkg-config --define-prefix --variable=$name gpuleak)
		[ -f "$seen" ] || fail "pkg-config: there is no file $seen ($name)"
	done
	pkg-config --exact-version="$(cat "$root/python/gpuleak/VERSION")" gpuleak || fail 'pkg-config has another version'
	flags=$(pkg-config --define-prefix --cflags --libs gpuleak)
	# shellcheck disable=SC2086 # a list of words
	cc -Werror -o "$work/marks" "$work/marks.c" $flags || fail 'pkg-config has wrong flags'
	"$work/marks" || fail 'the program compiled by pkg-config'
	"$work/moved/bin/gpuleak" run -- "$work/marks" 2>"$work/err" || fail 'the same under gpuleak'
fi
if ! command -v cmake >/dev/null; then
	[ -z "${GPULEAK_MUST_RUN-}" ] || fail 'cmake is not installed'
else
	mkdir "$work/cmake"
	cat >"$work/cmake/CMakeLists.txt" <<-'END'
		cmake_minimum_required(VERSION 3.10)
		project(marks C)
		foreach(other 0.9 2.0 ${version}.1)
		  find_package(gpuleak ${other} QUIET)
		  if(gpuleak_FOUND)
		    message(FATAL_ERROR "this release says that it has version ${other}")
		  endif()
		endforeach()
		find_package(gpuleak ${version} EXACT REQUIRED)
		find_package(gpuleak 1.0 REQUIRED)
		add_executable(marks ../marks.c)
		target_link_libraries(marks gpuleak::gpuleak)
		foreach(path ${gpuleak_COMMAND} ${gpuleak_LIBRARY})
		  if(NOT EXISTS ${path} OR IS_DIRECTORY ${path})
		    message(FATAL_ERROR "there is no ${path}")
		  endif()
		endforeach()
	END
	cmake -G Ninja -S "$work/cmake" -B "$work/cmake/build" -Dversion="$(cat "$root/python/gpuleak/VERSION")" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1 &&
		cmake --build "$work/cmake/build" >>"$work/log" 2>&1 || {
		cat "$work/log"
		fail 'cmake does not find the package'
	}
	"$work/cmake/build/marks" || fail 'the program compiled by cmake'
fi

# The folder that a build without options installs FILE into. A stock Debian lacks
# dpkg-architecture, and meson then chooses other folders.
mkdir "$work/lacking"
printf '#!/bin/sh\nexit 1\n' >"$work/lacking/dpkg-architecture"
chmod +x "$work/lacking/dpkg-architecture"
configure_plainly() {
	PATH=$work/lacking:$PATH meson setup "$work/plain" "$root" >"$work/log" || {
		cat "$work/log"
		fail 'meson setup failed'
	}
}

installed_into() { # FILE
	meson introspect --installed "$work/plain" | python3 -c 'import json, os, sys
print(*(os.path.dirname(path) for path in json.load(sys.stdin).values()
        if path.endswith("/" + sys.argv[1])))' "$1"
}

if [ -e /etc/debian_version ]; then
	configure_plainly
	place=$(installed_into libgpuleak.so)
	PATH=$PATH:/sbin:/usr/sbin ldconfig -N -X -v 2>/dev/null | grep -q "^$place:" ||
		fail "the dynamic linker does not search $place"
	place=$(dirname "$(installed_into gpuleak/__init__.py)")
	/usr/bin/python3 -c 'import site, sys; sys.exit(sys.argv[1] not in site.getsitepackages())' \
		"$place" || fail "/usr/bin/python3 does not search $place"
fi
echo 'install: as listed, movable, preloads by its plain name'
