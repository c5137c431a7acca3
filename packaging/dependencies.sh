#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds what the wheel needs besides gpuleak into PREFIX, with the compiler in $CC and the archiver
# in $AR: libelf, libdw, libiberty and libunwind as shared libraries, jansson, zlib and liblzma as static ones.
#
#   packaging/dependencies.sh UNPACKED PREFIX MACHINE [NAME]    all of them, or only NAME
#
# UNPACKED is the folder that packaging/fetch.py filled; the builds change it. MACHINE is x86_64 or
# aarch64.
set -eu
# shellcheck source=tools/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/steps.sh"
unpacked=$(cd "$1" && pwd)
mkdir -p "$2/lib" "$2/include"
prefix=$(cd "$2" && pwd)
host=$3-linux-gnu
jobs=$(nproc)
export RANLIB=${RANLIB:-$AR s}
# Some tests of configure scripts run what they compiled, which works only without these variables.
unset LD_PRELOAD LD_LIBRARY_PATH

# zlib and liblzma become parts of libelf and libdw with hidden symbols, so that they do not mix with
# the application's copies.
build_zlib() {
	cd "$unpacked/zlib"
	CFLAGS="-O2 -fPIC -fvisibility=hidden" CHOST=$host ./configure --static --prefix="$prefix"
	make -j"$jobs" libz.a
	cp libz.a "$prefix/lib"
	cp zlib.h zconf.h "$prefix/include"
}

# Builds only the decoder: libdw reads compressed symbol tables (.gnu_debugdata).
build_xz() {
	cd "$unpacked/xz"
	./configure --host="$host" --prefix="$prefix" --disable-shared --with-pic --disable-nls \
		--disable-xz --disable-xzdec --disable-lzmadec --disable-lzmainfo --disable-scripts \
		--disable-doc --disable-encoders --disable-threads \
		CFLAGS='-O2 -fvisibility=hidden'
	make -j"$jobs" -C src/liblzma install
}

# Builds jansson without its configure script, which the archive lacks.
build_jansson() {
	cd "$unpacked/jansson/src"
	sed 's/@json_inline@/inline/; s/@json_have_[a-z_]*@/1/' jansson_config.h.in >jansson_config.h
	for name in ENDIAN_H FCNTL_H SCHED_H UNISTD_H SYS_PARAM_H SYS_STAT_H SYS_TIME_H SYS_TYPES_H \
		STDINT_H CLOSE GETPID GETTIMEOFDAY OPEN READ SCHED_YIELD ATOMIC_BUILTINS LOCALE_H \
		SETLOCALE INT32_T UINT32_T UINT16_T UINT8_T SSIZE_T; do
		printf '#define HAVE_%s 1\n' "$name"
	done >jansson_private_config.h
	printf '#define USE_URANDOM 1\n#define INITIAL_HASHTABLE_ORDER 3\n' >>jansson_private_config.h
	# shellcheck disable=SC2086 # $CC may have options
	for file in *.c; do
		$CC -O2 -fPIC -fvisibility=hidden -DHAVE_STDINT_H -I. -c "$file"
	done
	rm -f libjansson.a
	$AR rc libjansson.a ./*.o
	cp libjansson.a "$prefix/lib"
	cp jansson.h jansson_config.h "$prefix/include"
}

# Builds no tools and no libdebuginfod: libdw opens libdebuginfod.so.1 if the system has it.
build_elfutils() {
	cd "$unpacked/elfutils"
	# A response file, since no shell and no make expands a $ in it. libdw finds libelf beside it.
	printf '%s\n' "-L$prefix/lib" '-Wl,-s,--disable-new-dtags,-rpath,$ORIGIN' >"$unpacked/origin"
	./configure --host="$host" --prefix="$prefix" --disable-debuginfod \
		--enable-libdebuginfod=dummy --without-bzlib --without-zstd --with-lzma --disable-nls \
		--disable-demangler CPPFLAGS="-I$prefix/include" LDFLAGS="@$unpacked/origin" CFLAGS='-O2' CXX=false
	for folder in lib libelf libcpu backends libebl libdwelf libdwfl libdw; do
		make -j"$jobs" -C "$folder"
	done
	mkdir -p "$prefix/include/elfutils"
	cp libelf/libelf.h libelf/gelf.h libelf/nlist.h libdw/dwarf.h "$prefix/include"
	cp libdw/libdw.h libdwfl/libdwfl.h libebl/libebl.h libdwelf/libdwelf.h libelf/elf-knowledge.h \
		version.h "$prefix/include/elfutils"
	cp libelf/libelf.so "$prefix/lib/libelf.so.1"
	cp libdw/libdw.so "$prefix/lib/libdw.so.1"
	ln -sf libelf.so.1 "$prefix/lib/libelf.so"
	ln -sf libdw.so.1 "$prefix/lib/libdw.so"
}

build_libunwind() {
	cd "$unpacked/libunwind"
	./configure --host="$host" --prefix="$prefix" --disable-static --disable-minidebuginfo \
		--disable-coredump --disable-ptrace --disable-setjmp --disable-cxx-exceptions \
		--disable-tests --disable-documentation CFLAGS='-O2' LDFLAGS=-Wl,-s
	make -j"$jobs" -C src libunwind.la
	cp src/.libs/libunwind.so.8 "$prefix/lib/libunwind.so.8"
	cp include/libunwind.h include/libunwind-common.h include/libunwind-dynamic.h \
		"include/libunwind-$1.h" "$prefix/include"
}

# Builds only the demanglers of Rust, D and Ada. Those of C++, which cplus-dem.c refers to, are under
# the GPL: no function that is exported needs them, so they are left out.
build_libiberty() {
	cd "$unpacked/libiberty/libiberty"
	printf '{ global: rust_demangle_callback; dlang_demangle; ada_demangle; local: *; };\n' >exports
	# shellcheck disable=SC2086 # $CC may have options
	$CC -O2 -fPIC -ffunction-sections -fvisibility=default -DHAVE_STDLIB_H -DHAVE_STRING_H \
		-DHAVE_LIMITS_H -I../include -shared -o libiberty.so.1 rust-demangle.c d-demangle.c \
		cplus-dem.c safe-ctype.c xmalloc.c xexit.c xstrdup.c -Wl,--gc-sections,-s \
		-Wl,--version-script=exports,-soname,libiberty.so.1
	mkdir -p "$prefix/include/libiberty"
	cp ../include/demangle.h ../include/libiberty.h ../include/ansidecl.h "$prefix/include/libiberty"
	cp libiberty.so.1 "$prefix/lib"
	ln -sf libiberty.so.1 "$prefix/lib/libiberty.so"
}

build_headers() {
	cp "$unpacked"/uthash/src/ut*.h "$prefix/include"
	cp -r "$unpacked/opencl-headers/usr/include/CL" "$prefix/include"
}

if [ $# = 4 ]; then
	"build_$4" "$3"
	exit
fi
# A process of its own for each: step runs it in a condition, where bash would ignore that a command
# of a function failed.
for name in zlib xz jansson elfutils libunwind libiberty headers; do
	step "package: building $name" "${BASH_SOURCE[0]}" "$unpacked" "$prefix" "$3" "$name"
done

mkdir -p "$prefix/lib/pkgconfig"
module() { # NAME VERSION LIBRARIES
	printf 'prefix=%s\nName: %s\nDescription: %s\nVersion: %s\nCflags: -I${prefix}/include\nLibs: -L${prefix}/lib %s\n' \
		"$prefix" "$1" "$1" "$2" "$3" >"$prefix/lib/pkgconfig/$1.pc"
}
module zlib 1.3.1 -lz
module jansson 2.14 -ljansson
module libelf 0.192 -lelf
module libdw 0.192 '-ldw -lelf'
module libiberty 20250315 -liberty
