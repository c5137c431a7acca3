#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds gpuleak for aarch64 with a cross compiler, warnings being errors, and runs test suites on
# an emulated machine with signed return addresses (PAC). Prints what failed; status 0 if nothing.
#
#   tests/scripts/aarch64.sh [--compile] [--slower N] [--test NAME]... [SUITE...]
#     SUITE      suites of meson; all of SUITES below if none is named
#     --test     instead of suites, this test; more may be named
#     --compile  only build: all targets, or those of the named suites and tests
#     --slower N multiply the tests' limits of time by N, 20 if not given
#
# The machine is qemu-system-aarch64 with Debian's kernel. qemu's user emulation cannot run these
# tests: it refuses clone() without SIGCHLD, by which the report at exit and the sampler start, and
# ignores MADV_WIPEONFORK. No figure of time from an emulated machine means anything.
#
# Everything lies in build-aarch64: an arm64 Debian 12 (root), the build, the disks. Debian 12 on
# x86-64 and root; installs the packages that are missing. MIRROR in the environment is another
# mirror than http://deb.debian.org/debian. A test that is skipped fails, except those in MAY_SKIP.
set -eu
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
base=$source/build-aarch64
root=$base/root
build=$base/build
mirror=${MIRROR:-http://deb.debian.org/debian}

SUITES=(unit routes programs python frameworks standin api fake-gpu third-api)
# On this machine.
HOST_PACKAGES='cpio debootstrap e2fsprogs g++-aarch64-linux-gnu gcc-aarch64-linux-gnu meson ninja-build
	pkgconf qemu-system-arm qemu-user-static'
# In the arm64 root: what the build and the tests need, and a kernel.
PACKAGES='busybox-static,cpio,g++,gcc,git,heaptrack,libc6-dbg,libc6-dev,libcmocka-dev,libdw-dev,
	libelf-dev,libiberty-dev,libjansson-dev,libjemalloc2,libmimalloc2.0,libtcmalloc-minimal4,
	libunwind-dev,linux-image-cloud-arm64,meson,musl-tools,ninja-build,ocl-icd-libopencl1,
	ocl-icd-opencl-dev,opencl-c-headers,pkgconf,pocl-opencl-icd,procps,python3,python3-dev,
	python3-ipython,python3-pyopencl,python3-pytest,python3-pytest-xdist,uthash-dev,
	zlib1g-dev'
# Reasons of tests that are skipped there, regular expressions.
MAY_SKIP=(
	# NVIDIA's header is in no free package. It is the same for every processor.
	'no cuda\.h'
	# A cross build has one compiler. gcc's sanitizers are tested.
	'p_sanitized_clang_[a-z_]+ was not built here'
	'no clang'
	'no cc'
	# The machine has no network: PyCUDA and nvcc come from PyPI.
	'PyCUDA was not built: .*'
	'no nvcc: .*'
	'no go: .*'
	# It has one Python, and no JAX.
	'only /usr/bin/python3 is there'
	'no JAX with a GPU: .*'
)

compile='' slower=20 suites=() tests=()
while [ $# -gt 0 ]; do
	case $1 in
	--compile) compile=1 ;;
	--slower) slower=${2:?--slower needs a number}; shift ;;
	--test) tests+=("${2:?--test needs a name}"); shift ;;
	-*) sed -n '4,22s/^# \{0,1\}//p' "$0"; exit 2 ;;
	*) suites+=("$1") ;;
	esac
	shift
done
everything=
[ ${#suites[@]} -gt 0 ] || [ ${#tests[@]} -gt 0 ] || { everything=$compile; suites=("${SUITES[@]}"); }

say() { printf 'aarch64: %s\n' "$*" >&2; }

install_packages() {
	local missing=() package

	for package in $HOST_PACKAGES; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
			missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "installing: ${missing[*]}"
	apt-get update -q || say 'apt-get update failed; going on'
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# Unpacks the packages without running their scripts: that takes a minute and needs no emulation.
make_root() {
	local new=$base/root.new package

	[ "$(cat "$root/packages" 2>/dev/null)" != "$PACKAGES" ] || return 0
	say 'unpacking an arm64 Debian 12'
	rm -rf "$new"
	debootstrap --foreign --arch=arm64 --variant=minbase \
		--include="$(printf %s "$PACKAGES" | tr -d '[:space:]')" bookworm "$new" "$mirror" >"$base/debootstrap.log"
	for package in "$new"/var/cache/apt/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$new"
		rm "$package"
	done
	[ ! -L "$new/proc" ] || rm "$new/proc"
	mkdir -p "$new/proc" "$new/mnt"
	cp "$new/usr/share/base-passwd/passwd.master" "$new/etc/passwd"
	cp "$new/usr/share/base-passwd/group.master" "$new/etc/group"
	printf '127.0.0.1 localhost\n' >"$new/etc/hosts"
	# As the packages' scripts choose between alternatives.
	printf '/usr/lib/aarch64-linux-gnu/%s\n' blas lapack >"$new/etc/ld.so.conf.d/numpy.conf"
	/sbin/ldconfig -r "$new" 2>/dev/null || true
	printf '%s\n' "$PACKAGES" >"$new/packages"
	rm -rf "$root" "$build"
	mv "$new" "$root"
}

write_cross_file() {
	sed "s:/usr/\(lib\|include\)/aarch64:$root&:g" "$root/usr/lib/aarch64-linux-musl/musl-gcc.specs" \
		>"$base/musl-gcc.specs"
	cat >"$base/cross.new" <<-END
	[binaries]
	c = [$(command -v ccache >/dev/null && echo "'ccache', ")'aarch64-linux-gnu-gcc']
	cpp = [$(command -v ccache >/dev/null && echo "'ccache', ")'aarch64-linux-gnu-g++']
	ar = 'aarch64-linux-gnu-gcc-ar'
	strip = 'aarch64-linux-gnu-strip'
	pkgconfig = 'pkg-config'
	musl-gcc = ['aarch64-linux-gnu-gcc', '-specs=$base/musl-gcc.specs']
	exe_wrapper = ['/usr/bin/qemu-aarch64-static', '-L', '$root']

	[built-in options]
	c_args = ['--sysroot=$root']
	cpp_args = ['--sysroot=$root']
	c_link_args = ['--sysroot=$root']
	cpp_link_args = ['--sysroot=$root']

	[properties]
	sys_root = '$root'
	pkg_config_libdir = '$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig'
	needs_exe_wrapper = true

	[host_machine]
	system = 'linux'
	cpu_family = 'aarch64'
	cpu = 'aarch64'
	endian = 'little'
	END
	# Meson reads it only when it makes the build.
	cmp -s "$base/cross.new" "$base/cross.ini" || rm -rf "$build"
	mv "$base/cross.new" "$base/cross.ini"
}

build_all() {
	write_cross_file
	if [ ! -e "$build/build.ninja" ]; then
		rm -rf "$build"
		meson setup "$build" "$source" --cross-file "$base/cross.ini" -Dwerror=true >"$base/setup.log" ||
			{ tail -n 20 "$base/setup.log"; return 1; }
	fi
	if [ "$everything" ]; then
		ninja -C "$build" all tests
	else
		# shellcheck disable=SC2046 # a list of words
		ninja -C "$build" $("$source/tests/scripts/targets.py" "$build" "${suites[@]}" "${tests[@]}")
	fi
}

# ---- the machine ----

# Its kernel has its disks' drivers as modules.
make_initrd() {
	local modules name new=$base/initrd

	modules=$(echo "$root"/lib/modules/*/kernel/drivers)
	rm -rf "$new"
	mkdir -p "$new"/{bin,modules,proc,sys,dev,root}
	cp "$root/bin/busybox" "$new/bin"
	for name in virtio/virtio_ring virtio/virtio virtio/virtio_pci_legacy_dev \
		virtio/virtio_pci_modern_dev virtio/virtio_pci block/virtio_blk; do
		cp "$modules/$name.ko" "$new/modules"
	done
	cat >"$new/init" <<-'END'
	#!/bin/busybox sh
	/bin/busybox mount -t proc proc /proc
	/bin/busybox mount -t sysfs sysfs /sys
	/bin/busybox mount -t devtmpfs dev /dev
	for name in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk; do
		/bin/busybox insmod /modules/$name.ko
	done
	until [ -e /dev/vdb ]; do /bin/busybox sleep 0.1; done
	/bin/busybox mount -t ext4 /dev/vda /root
	for name in proc sys dev; do /bin/busybox mount -o move /$name /root/$name; done
	exec /bin/busybox switch_root /root /bin/sh /init-tests
	END
	chmod +x "$new/init"
	(cd "$new" && find . | cpio -o -H newc --quiet | gzip -1) >"$base/initrd.gz"
	rm -rf "$new"
}

# The first process of the machine. The tree is where it is here: paths are in debug information.
write_init() {
	# Meson's commands start programs by the emulator, and the compiler by ccache if this machine has
	# it. On the emulated machine both names only start the program.
	printf '#!/bin/sh\nshift 2\nexec "$@"\n' >"$root/usr/bin/qemu-aarch64-static"
	printf '#!/bin/sh\nexec "$@"\n' >"$root/usr/bin/ccache"
	chmod +x "$root/usr/bin/qemu-aarch64-static" "$root/usr/bin/ccache"
	cat >"$root/init-tests" <<-END
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TERM=dumb
	export GPULEAK_TEST_SLOWER=$slower
	mount -t tmpfs tmpfs /tmp
	mount -t tmpfs tmpfs /run
	mkdir -p /dev/shm /dev/pts '$source'
	mount -t tmpfs tmpfs /dev/shm
	mount -t devpts devpts /dev/pts
	ln -s /proc/self/fd /dev/fd
	ln -s fd/0 /dev/stdin
	ln -s fd/1 /dev/stdout
	ln -s fd/2 /dev/stderr
	/bin/busybox ip link set lo up
	/bin/busybox hostname arm64
	ldconfig
	mount -t ext4 /dev/vdb '$source'
	cd '$source'
	grep -m1 Features /proc/cpuinfo
	meson test -C '$build' --no-rebuild --no-stdsplit --num-processes 2 \
		--timeout-multiplier $slower ${suites[*]/#/--suite=} ${tests[*]} </dev/null
	echo "STATUS \$?"
	grep -a -A 25 '^not ok' '$build/meson-logs/testlog.txt'
	grep -a '# SKIP' '$build/meson-logs/testlog.txt' | sed -E 's/^(ok|1\.\.0)/SKIPPED/'
	cd /
	sync
	umount '$source'
	echo o >/proc/sysrq-trigger
	sleep 60
	END
}

make_disks() {
	local tree=$base/tree

	rm -rf "$tree"
	mkdir "$tree"
	git -C "$source" ls-files -z --cached --others --exclude-standard |
		tar -c -C "$source" --null --ignore-failed-read -T - 2>/dev/null | tar -x -C "$tree"
	tar -c -C "$source" --exclude='*.o' --exclude='*.a' "build-aarch64/build" | tar -x -C "$tree"
	rm -f "$base"/*.img
	mke2fs -q -t ext4 -d "$tree" "$base/tree.img" 2G
	mke2fs -q -t ext4 -d "$root" "$base/root.img" 4G
	rm -rf "$tree"
}

run_machine() {
	qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -smp 2 -m 4096 -accel tcg,thread=multi \
		-nographic -nodefaults -serial stdio -no-reboot \
		-kernel "$(echo "$root"/boot/vmlinuz-*)" -initrd "$base/initrd.gz" \
		-append 'console=ttyAMA0 quiet panic=-1' \
		-drive "if=none,id=root,file=$base/root.img,format=raw" -device virtio-blk-pci,drive=root \
		-drive "if=none,id=tree,file=$base/tree.img,format=raw" -device virtio-blk-pci,drive=tree \
		</dev/null | tr -d '\r' | tee "$base/console.log"
}

# Prints the skipped tests that should have run. Returns 1 if there is one.
judge_skips() {
	local may

	may=$(IFS='|' && printf %s "${MAY_SKIP[*]}")
	! grep -a '^SKIPPED ' "$base/console.log" | grep -avE "# SKIP ($may)\$"
}

[ "$(id -u)" = 0 ] || { say 'needs root'; exit 1; }
mkdir -p "$base"
install_packages
make_root
build_all
[ ! "$compile" ] || exit 0
make_initrd
write_init
make_disks
run_machine
grep -q '^Features.* paca' "$base/console.log" || { say 'the machine signs no return addresses'; exit 1; }
# A run in which every test is skipped proves nothing.
grep -qE '^Ok: +[1-9]' "$base/console.log" && grep -qx 'STATUS 0' "$base/console.log" &&
	judge_skips
