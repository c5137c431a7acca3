#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds the library and the stand-in for aarch64 and runs a program under qemu's user
# emulation: shows that the other entries of dlsym and dlopen work. On demand, no test depends on it.
#
#   tests/scripts/aarch64.sh SYSROOT
#
# Needs gcc-aarch64-linux-gnu, qemu-user and, unpacked in SYSROOT, the arm64 packages
# libunwind-dev, libunwind8 and liblzma5 (apt-get download NAME:arm64; dpkg -x).
set -eu
sysroot=$(cd "${1:?"usage: $0 SYSROOT"}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=aarch64-linux-gnu-gcc
libraries=$work:$sysroot/usr/lib/aarch64-linux-gnu:$sysroot/lib/aarch64-linux-gnu

# Headers that are the same everywhere, without the rest of this machine's.
mkdir "$work/include"
cp -r /usr/include/CL /usr/include/uthash.h "$work/include"
flags="-std=gnu11 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden -isystem $work/include
	-isystem $sysroot/usr/include/aarch64-linux-gnu -I. -Iinclude"

# shellcheck disable=SC2086
{
	$cc -E -P -x c $flags interpose/dispatch/libgpuleak.map.in -o "$work/map"
	$cc $flags -shared -ftls-model=initial-exec -DGPULEAK_BINDIR_FROM_LIBDIR='"."' \
		-DGPULEAK_COMMAND='"/nowhere"' interpose/*/*.c interpose/*/*/*.c interpose/*/*_aarch64.S \
		ledger/writer.c ledger/options.c ledger/pattern.c ledger/directory.c ledger/reader.c \
		ledger/error_text.c \
		-Wl,-Bsymbolic-functions -Wl,--no-undefined -Wl,--version-script="$work/map" \
		-o "$work/libgpuleak.so"
	standin=$(sed -n "/^standin_sources/,/^)/s/^ *'\(.*\.c\)',$/standin\/driver\/\1/p" standin/driver/meson.build)
	python3 standin/driver/gen_stubs.py standin/driver/cuda13.names "$work/stubs.c" $standin
	$cc $flags -shared $standin "$work/stubs.c" -Wl,-Bsymbolic \
		-Wl,-soname,libcuda.so.1 -o "$work/libcuda.so.1"
	ln -s libcuda.so.1 "$work/libcuda.so"
	$cc -g tests/programs/cuda_wrong_frees.c -L"$work" -lcuda -o "$work/linked"
	$cc -g tests/routes/route.c -o "$work/looked-up"
	mkdir "$work/beside"
	$cc -shared -fPIC tests/routes/beside.c -o "$work/beside/libroutes-beside.so"
	$cc -shared -fPIC -g tests/routes/bind_plugin.c -Wl,--enable-new-dtags \
		-Wl,-rpath,"\$ORIGIN/beside" -o "$work/plugin.so"
	$cc -g -D_GNU_SOURCE tests/routes/bind.c -o "$work/bind"
}

run() {
	qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$libraries" \
		-E "LD_PRELOAD=$work/libgpuleak.so" "$@" 2>&1
}

run "$work/linked" | grep -F '1 blocks, 100000 bytes never freed, 3 wrong frees'
for route in handle default cudart; do
	run "$work/looked-up" "$route" | grep -F '1 blocks, 4097 bytes never freed, 0 wrong frees'
done
run "$work/bind" deepbind "$work/plugin.so" | grep -F '1 blocks, 4097 bytes never freed'
run -E GPULEAK_DEEPBIND=cover "$work/bind" deepbind "$work/plugin.so" |
	grep -F '2 blocks, 8194 bytes never freed'
run "$work/bind" namespace "$work/plugin.so" | grep -F '1 blocks, 4097 bytes never freed'
