#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Checks that gpuleak is installed on this system as README.md promises: the command and its manual
# page, the library by its plain name, the system's Python, pkg-config, and CMake where it is there.
# A small program is compiled and its leak found. fresh-debian.sh runs it after `meson install`.
#
#   tests/scripts/installed.sh
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
	printf 'installed: %s\n' "$*" >&2
	exit 1
}

[ "$(command -v gpuleak)" = /usr/local/bin/gpuleak ] || fail 'gpuleak is not in PATH'
version=$(gpuleak --version | sed -n '1s/^gpuleak \([0-9.]*\).*/\1/p')
[ "$version" ] || fail 'gpuleak --version has no version'
[ -e /usr/local/share/man/man1/gpuleak-run.1 ] || fail 'no manual page'

[ "$(LD_PRELOAD=libgpuleak.so /bin/true 2>&1)" = '' ] || fail 'LD_PRELOAD=libgpuleak.so does not preload'
# shellcheck disable=SC2016 # for the inner shell
LD_PRELOAD=libgpuleak.so sh -c 'grep -q libgpuleak.so /proc/$$/maps' ||
	fail 'LD_PRELOAD=libgpuleak.so does not preload'

python3 - "$version" <<'END' || fail 'Python does not find the package, or another version of it'
import importlib.metadata as metadata, sys
import gpuleak
assert not gpuleak.active()
assert gpuleak.__version__ == metadata.version("gpuleak") == sys.argv[1], gpuleak.__version__
assert "pytest11" in {entry.group for entry in metadata.distribution("gpuleak").entry_points}
END
LD_PRELOAD=libgpuleak.so python3 -c 'import gpuleak; assert gpuleak.active()' ||
	fail 'the Python package does not find the library'
gpuleak run -- python3 -c 'import gpuleak; assert gpuleak.active()' 2>err ||
	fail 'gpuleak run does not preload the library into Python'

# A program that includes gpuleak.h and leaks memory of the driver that needs no GPU.
cat >leak.c <<'END'
#include <dlfcn.h>
#include <gpuleak.h>

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
	int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))dlsym(driver, "cuCtxCreate_v2");
	int (*allocate)(unsigned long long *, unsigned long) =
		(int (*)(unsigned long long *, unsigned long))dlsym(driver, "cuMemAlloc_v2");
	unsigned long long block;

	if (init(0) || create(&context, 0, 0) || !gpuleak_mark)
		return 1;
	return allocate(&block, 4096);
}
END
[ "$(pkg-config --modversion gpuleak)" = "$version" ] || fail 'pkg-config does not find the version'
# shellcheck disable=SC2046 # a list of words
cc -g -o leak leak.c $(pkg-config --cflags --libs gpuleak) -ldl || fail 'the program is not compiled'
status=0
gpuleak run --fake-gpu --gate -- ./leak 2>err || status=$?
if [ "$status" != 23 ] || ! grep -q 'leak\.c:15' err; then
	cat err >&2
	fail "gpuleak run --fake-gpu: status $status, not 23, or no line of the program"
fi

if command -v cmake >/dev/null; then
	cat >CMakeLists.txt <<-END
		cmake_minimum_required(VERSION 3.10)
		project(leak C)
		find_package(gpuleak $version EXACT REQUIRED)
		add_executable(leak-cmake leak.c)
		target_link_libraries(leak-cmake gpuleak::gpuleak \${CMAKE_DL_LIBS})
	END
	{ cmake -G Ninja -B cmake . && cmake --build cmake; } >log 2>&1 || { cat log >&2; fail 'cmake does not find the package'; }
fi
echo 'installed: the command, the library by its plain name, the Python package, pkg-config, a leak by line'
