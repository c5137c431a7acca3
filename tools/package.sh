#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Makes the files of a release in build-package/dist.
#
#   tools/package.sh wheel [x86_64 | aarch64]   a wheel for pip; this machine's kind unless named
#   tools/package.sh deb [x86_64 | aarch64]     a package for Debian and Ubuntu
#   tools/package.sh image [x86_64 | aarch64]   the wheel, and the folder that container images are made of
#   tools/package.sh source                     the source archive of the last commit, which pip can build
#
# `tools/setup.sh --package` installs what they need. The first three need a network. They compile
# with the Zig compiler from PyPI, which links for glibc 2.28 on any Linux.
# Every archive and tool is checked against its SHA-256. The same commit makes the same bytes.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
work=$root/build-package
dist=$work/dist
GLIBC=2.28
# shellcheck source=tools/steps.sh
. tools/steps.sh

case $root in *[[:blank:]:]*) echo "package: $root: make needs a path without blanks" >&2; exit 1 ;; esac
export LC_ALL=C TZ=UTC
umask 022

fail() {
	printf 'package: %s\n' "$*" >&2
	exit 1
}

kind=${1-} machine=${2:-$(uname -m)}
case $kind in wheel | deb | image | source) ;; *) sed -n '4,15s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
case $machine in x86_64 | aarch64) ;; *) fail "$machine: not x86_64 or aarch64" ;; esac
missing=$(tools/setup.sh "--package=$kind" --missing | tr '\n' ' ')
[ -z "$missing" ] || fail "not installed: ${missing% } (tools/setup.sh --package installs it)"

# The time in archives: the last commit's.
if [ -z "${SOURCE_DATE_EPOCH-}" ]; then
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y meson.build)
fi
export SOURCE_DATE_EPOCH

# ---- the wheel ----

make_tools() {
	local python=$work/tools/bin/python

	if ! cmp -s packaging/requirements.txt "$work/tools/requirements.txt"; then
		rm -rf "$work/tools"
		python3 -m venv "$work/tools"
		step 'package: fetching the compiler and its tools from PyPI' "$python" -m pip install -q \
			--disable-pip-version-check --require-hashes --no-deps -r packaging/requirements.txt
		cp packaging/requirements.txt "$work/tools"
	fi
	zig=$("$python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
	PATH=$work/tools/bin:$PATH
}

# Writes scripts that run the compilers for MACHINE, because configure scripts and Meson expect
# commands of one word. Paths of this machine do not get into the binaries. packaging/fix_dynamic.py explains -Bsymbolic.
#
# clang must not find a gcc of this machine: if there is one for aarch64, clang calls functions of its
# library for atomic operations. Zig's library has them too, and then each binary exports all of it.
make_compilers() { # MACHINE
	local bin=$work/$1/compilers

	mkdir -p "$bin"
	cat >"$bin/cc" <<-END
		#!/bin/sh
		export ZIG_GLOBAL_CACHE_DIR='$work/zig-cache' ZIG_LOCAL_CACHE_DIR='$work/zig-cache'
		for word; do
			shift
			[ "\$word" != -Wl,-Bsymbolic-functions ] || word=-Wl,-Bsymbolic
			set -- "\$@" "\$word"
		done
		exec '$zig' cc -target $1-linux-gnu.$GLIBC -fno-sanitize=undefined --gcc-toolchain=/nonexistent \\
			-ffile-prefix-map='$work/$1'=. -ffile-prefix-map='$root'=. -g0 "\$@"
	END
	printf '#!/bin/sh\nexec %s ar "$@"\n' "'$zig'" >"$bin/ar"
	chmod +x "$bin/cc" "$bin/ar"
}

make_dependencies() { # MACHINE
	local stamp

	stamp=$(cat packaging/sources packaging/dependencies.sh "$work/$1/compilers/cc" | sha256sum)
	[ "$stamp" != "$(cat "$work/$1/prefix/.stamp" 2>/dev/null)" ] || return 0
	rm -rf "$work/$1/prefix" "$work/$1/unpacked"
	step 'package: fetching the sources of the bundled libraries' \
		python3 packaging/fetch.py "$work/downloads" "$work/$1/unpacked"
	CC=$work/$1/compilers/cc AR=$work/$1/compilers/ar \
		packaging/dependencies.sh "$work/$1/unpacked" "$work/$1/prefix" "$1"
	printf '%s\n' "$stamp" >"$work/$1/prefix/.stamp"
}

# A build makes manual pages and completions of what the command prints. So a build for another
# machine takes those of a build for this machine, which ninja brings up to date.
copy_pages() { # MACHINE KIND PREFIX LIBDIR
	local native from

	native=$(uname -m)
	[ "$1" != "$native" ] || return 0
	if [ -e "$work/$native/build-$2/build.ninja" ]; then
		step "package: making the manual pages" ninja -C "$work/$native/build-$2"
	else
		prepare "$native"
		build_gpuleak "$native" "$2" "$3" "lib/$native-linux-gnu"
	fi
	from=$work/$native/image$3/share
	rm -rf "$work/$native/image"
	DESTDIR=$work/$native/image meson install -C "$work/$native/build-$2" --no-rebuild \
		>"$work/$native/install.log"
	cp -r "$from"/{bash-completion,fish,man,zsh} "$work/$1/stage-$2/share"
	rm -rf "$work/$native/image"
}

# Installs into MACHINE/stage-KIND. In the wheel all places are relative, so the prefix names no real
# folder.
build_gpuleak() { # MACHINE KIND PREFIX LIBDIR
	local machine=$work/$1 build=$work/$1/build-$2 stage=$work/$1/stage-$2

	cat >"$machine/cross" <<-END
		[binaries]
		c = '$machine/compilers/cc'
		ar = '$machine/compilers/ar'
		pkg-config = 'pkg-config'
		[built-in options]
		c_args = ['-isystem', '$machine/prefix/include']
		c_link_args = ['-L$machine/prefix/lib', '-Wl,-S', '-Wl,--disable-new-dtags']
		[properties]
		pkg_config_libdir = '$machine/prefix/lib/pkgconfig'
		needs_exe_wrapper = $([ "$1" = "$(uname -m)" ] && echo false || echo true)
		[host_machine]
		system = 'linux'
		cpu_family = '$1'
		cpu = '$1'
		endian = 'little'
	END
	rm -rf "$build" "$stage" "$machine/image"
	step "package: setting up the build of gpuleak for the $2" \
		meson setup "$build" "$root" --cross-file "$machine/cross" --prefix="$3" \
		--libdir="$4" --buildtype=release -Dpython=disabled -Dtests=false -Dbundled=true -Db_lto=true -Db_pie=true
	step "package: building gpuleak for the $2" ninja -C "$build"
	DESTDIR=$machine/image meson install -C "$build" --no-rebuild >"$machine/install.log"
	mv "$machine/image$3" "$stage"
	copy_pages "$@"
	mkdir -p "$stage/$4/gpuleak"
	cp "$machine"/prefix/lib/lib{dw,elf,iberty}.so.1 "$machine/prefix/lib/libunwind.so.8" \
		"$stage/$4/gpuleak"
	python3 packaging/fix_dynamic.py "$stage/bin/gpuleak" "$stage/$4"/{libgpuleak.so,gpuleak/lib*.so*}
	# A preloaded library that exports memcpy would replace the program's.
	if readelf -W --dyn-syms "$stage/$4"/{libgpuleak.so,gpuleak/lib*.so*} | grep -E ' [0-9]+ memcpy$'; then
		fail "a library exports functions of the compiler"
	fi
}

# auditwheel reads every binary: the versions of the symbols that it needs, and its libraries.
check_wheel() { # WHEEL MACHINE
	local shown

	shown=$(python3 -m auditwheel show "$1" | tr '\n' ' ')
	case $shown in
	*"is consistent with the following platform tag: \"manylinux_2_28_$2\""*) ;;
	*"is consistent with the following platform tag: \"manylinux_2_"[0-9]*) ;;
	*) fail "auditwheel: $shown" ;;
	esac
}

show() { # FILE
	printf '%s  %s  %s bytes\n' "$(sha256sum "$1" | cut -d' ' -f1)" "$1" "$(stat -c %s "$1")"
}

prepare() { # MACHINE
	mkdir -p "$work/$1" "$dist"
	make_tools
	make_compilers "$1"
	make_dependencies "$1"
}

make_wheel() { # MACHINE
	local wheel

	prepare "$1"
	build_gpuleak "$1" wheel /nonexistent/gpuleak lib
	wheel=$(python3 packaging/wheel.py --machine "$1" --stage "$work/$1/stage-wheel" \
		--unpacked "$work/$1/unpacked" --out "$dist")
	check_wheel "$wheel" "$1"
	show "$wheel"
}

# packaging/container/Containerfile describes the images.
make_image() { # MACHINE
	make_wheel "$1"
	python3 packaging/container/tree.py \
		"$dist/gpuleak-$(cat python/gpuleak/VERSION)-py3-none-manylinux_2_28_$1.whl" "$work/$1/container"
	printf 'docker build -t gpuleak -f packaging/container/Containerfile %s\n' "build-package/$1/container"
}

# One package for all releases of Debian and Ubuntu from glibc 2.28 on: the wheel's libraries in a
# private folder.
make_deb() { # MACHINE
	local name tree=$work/$1/tree

	prepare "$1"
	build_gpuleak "$1" deb /usr "lib/$1-linux-gnu"
	name=$(python3 packaging/deb.py --machine "$1" --stage "$work/$1/stage-deb" \
		--unpacked "$work/$1/unpacked" --tree "$tree")
	# xz, because dpkg of Ubuntu 20.04 and Debian 11 reads no zstd.
	dpkg-deb --root-owner-group -Zxz --build "$tree" "$dist/$name" >/dev/null
	if command -v lintian >/dev/null; then
		lintian --fail-on error --tag-display-limit 0 --allow-root "$dist/$name" || fail 'lintian has errors'
	else
		echo 'package: lintian is not installed: the package is not checked' >&2
	fi
	show "$dist/$name"
}

# The files of the last commit, packed the same way on every machine.
make_source() {
	local name

	name=gpuleak-$(cat python/gpuleak/VERSION)
	mkdir -p "$dist"
	git rev-parse --short=12 HEAD >"$work/COMMIT" # for gpuleak --version
	{
		sed "s/@VERSION@/${name#gpuleak-}/" python/METADATA.in
		printf 'Description-Content-Type: text/markdown\n\n'
		cat python/README.md
	} >"$work/PKG-INFO" # for PyPI
	git archive --format=tar --prefix="$name/" --add-file="$work/COMMIT" --add-file="$work/PKG-INFO" HEAD |
		gzip -9n >"$dist/$name.tar.gz"
	show "$dist/$name.tar.gz"
}

"make_$kind" "$machine"
