#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs the aarch64 wheel in a minimal arm64 Debian 12, unpacks the package there, and finds a leak
# with each and the stand-in driver, on a processor that qemu emulates. On demand, no test depends on it.
#
#   tests/packaging/aarch64.sh DIR WHEEL PACKAGE
#
# DIR keeps the system. Needs root, debootstrap, qemu-user-static, the network, and a kernel that lets
# a namespace register binaries (6.7). Nothing of this machine changes. qemu's user emulation cannot
# run everything: tests/scripts/aarch64.sh runs the suites on a whole emulated machine.
set -eu
[ $# = 3 ] || { sed -n '4,11s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
files=("$(realpath "$2")" "$(realpath "$3")")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$dir/arm64
emulator=$(command -v qemu-aarch64-static) || { echo 'aarch64: no qemu-aarch64-static' >&2; exit 1; }
mirror=${DEBIAN:-http://deb.debian.org/debian}
[ "$(id -u)" = 0 ] || { echo "$0: needs root" >&2; exit 1; }

# Unpacks the packages without running their scripts, which needs no emulation.
if [ ! -d "$root" ]; then
	rm -rf "$root.making"
	debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,python3-pip bookworm \
		"$root.making" "$mirror" >"$dir/arm64.log" 2>&1 || { tail "$dir/arm64.log"; exit 1; }
	for package in "$root.making"/var/cache/apt/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root.making"
	done
	[ ! -L "$root.making/proc" ] || rm "$root.making/proc"
	mkdir -p "$root.making"/{proc,dev,tmp,given}
	mv "$root.making" "$root"
fi
rm -rf "$root"/given/*
cp "${files[@]}" "$here/standin_leak.py" "$root/given/"

cat >"$root/given/check" <<-'END'
	set -eu
	python3 -m pip install -q --no-index --no-deps --root-user-action=ignore --target /tmp/gpuleak /given/*.whl
	[ "$(dpkg-deb -f /given/*.deb Architecture)" = arm64 ]
	dpkg-deb -x /given/*.deb /tmp/package
	for gpuleak in /tmp/gpuleak/gpuleak/_native/bin/gpuleak /tmp/package/usr/bin/gpuleak; do
		echo "$(uname -m): $gpuleak: $($gpuleak --version | head -n 1)"
		for blocks in 0 2; do
			status=0
			$gpuleak run --fake-gpu --gate -- python3 /given/standin_leak.py "$blocks" >/tmp/out 2>&1 || status=$?
			grep '^gpuleak: ' /tmp/out
			[ "$status" = $((blocks > 0 ? 23 : 0)) ] || { cat /tmp/out; echo "status $status"; exit 1; }
		done
		grep -q '/given/standin_leak\.py:[0-9]' /tmp/out || { cat /tmp/out; echo 'no line of the script'; exit 1; }
	done
END
# The emulator, for programs of aarch64 in the namespace alone. F: it is opened now, outside the root.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
# shellcheck disable=SC2016 # for the inner shell
unshare --user --map-root-user --mount --propagation private bash -euc '
	mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
	printf "%s" ":gpuleak-aarch64:M::$2:$3:$4:F" >/proc/sys/fs/binfmt_misc/register
	mount --rbind /proc "$1/proc"
	mount --rbind /dev "$1/dev"
	mount -t tmpfs tmpfs "$1/tmp"
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \
		chroot "$1" /bin/bash /given/check
' aarch64 "$root" "$magic" "$mask" "$emulator" </dev/null
