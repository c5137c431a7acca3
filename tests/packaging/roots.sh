#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs the files of tools/package.sh in minimal systems without a compiler, and checks there that
# gpuleak names the leak of a PyOpenCL script by line. On demand, no test depends on it.
#
#   tests/packaging/roots.sh DIR WHEEL DEB SUITE...
#
# SUITE: bookworm, trixie, focal (Ubuntu 20.04), jammy (22.04), noble (24.04). DIR keeps the systems, one for
# each suite, made by debootstrap if they do not exist. "-" instead of WHEEL or DEB skips its checks.
# Two more, for the wheel only:
#   slim   Debian 12 as in python's slim images: no documentation, and Pythons compiled from source,
#          those of the folder PYENV (~/.pyenv/versions)
#   glibc  Ubuntu 20.04 with another C library, for example 2.34, which Red Hat 9 has. GLIBC is the
#          folder that `make install install_root=$GLIBC` of glibc (configure --prefix=/usr) wrote
#
# Needs root, debootstrap and the network. DEBIAN and UBUNTU in the environment are other mirrors.
# This machine's proxies, certificates and pip settings go along. Signatures are checked if the
# keyring of the distribution is installed.
set -eu
[ $# -ge 4 ] || { sed -n '4,19s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
wheel=$2 deb=$3
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
debian=${DEBIAN:-http://deb.debian.org/debian}
ubuntu=${UBUNTU:-http://archive.ubuntu.com/ubuntu}
results=''
failed=0

[ "$(id -u)" = 0 ] || { echo "$0: needs root" >&2; exit 1; }

make_root() { # SUITE
	local mirror=$ubuntu keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg script=gutsy check=()
	local packages=ca-certificates,python3,python3-venv

	case $1 in
	bookworm | trixie) mirror=$debian keyring=/usr/share/keyrings/debian-archive-keyring.gpg script=sid ;;
	esac
	if [ -e "$keyring" ]; then check=(--keyring="$keyring"); else check=(--no-check-gpg); fi
	rm -rf "$dir/$1.making"
	debootstrap --variant=minbase --components=main,universe --include="$packages" "${check[@]}" \
		"$1" "$dir/$1.making" "$mirror" "/usr/share/debootstrap/scripts/$script" >"$dir/$1.log" 2>&1 || {
		tail "$dir/$1.log"
		return 1
	}
	apt-config dump | grep -i '^Acquire::.*proxy' >"$dir/$1.making/etc/apt/apt.conf.d/99-proxy" || true
	[ "${check[0]}" != --no-check-gpg ] ||
		printf 'deb [trusted=yes] %s %s main universe\n' "$mirror" "$1" "$mirror" "$1-updates" \
			>"$dir/$1.making/etc/apt/sources.list"
	mv "$dir/$1.making" "$dir/$1"
	[ "$1" != focal ] || inside "$1" sh -c 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
		--no-install-recommends python3.9 python3.9-venv python3-pip' >>"$dir/$1.log" 2>&1
}

# Moves the C library of $GLIBC into a copy of focal, whose programs need 2.31 at most. libcrypt and
# libnsl are those of other projects there.
make_glibc() {
	local root=$dir/glibc.making file name

	[ -d "$dir/focal" ] || make_root focal
	rm -rf "$root"
	cp -a "$dir/focal" "$root"
	rm -rf "$root/var/packaging"
	for file in "${GLIBC:?the folder of another C library}"/lib/x86_64-linux-gnu/*.so* "$GLIBC"/lib64/ld-linux-x86-64.so.2; do
		name=${file##*/}
		case $name in
		libcrypt.* | libnsl.*) ;;
		ld-*) cp --remove-destination "$file" "$root/lib64/$name" ;;
		*) cp --remove-destination "$file" "$root/lib/x86_64-linux-gnu/$name" ;;
		esac
	done
	rm -f "$root"/lib/x86_64-linux-gnu/*-2.31.so
	cp "$GLIBC/sbin/ldconfig" "$root/sbin/ldconfig.real"
	chroot "$root" /sbin/ldconfig
	mv "$root" "$dir/glibc"
}

# What Debian's rule for images leaves out is removed. A Python finds its library by its own path.
make_slim() {
	local root=$dir/slim.making python name

	rm -rf "$root"
	debootstrap --variant=minbase --include=ca-certificates,netbase,tzdata,libffi8,libsqlite3-0,libreadline8,libexpat1,libbz2-1.0 \
		bookworm "$root" "$debian" >"$dir/slim.log" 2>&1 || { tail "$dir/slim.log"; return 1; }
	rm -rf "$root"/usr/share/{doc,man,locale,info,groff,lintian}
	for python in "${PYENV:-$HOME/.pyenv/versions}"/3.*; do
		name=python$(basename "$python" | cut -d. -f1-2)
		case $name in python3.[67]) continue ;; esac
		mkdir -p "$root${python%/*}"
		cp -a "$python" "$root$python"
		ln -s "$python/bin/$name" "$root/usr/local/bin/$name"
	done
	mv "$root" "$dir/slim"
}

pythons_of() { # SUITE
	case $1 in
	focal | glibc) echo python3 python3.9 ;;
	slim) ls "$dir/slim/usr/local/bin" | grep '^python' ;;
	*) echo python3 ;;
	esac
}

# Runs a command in the system SUITE. The mounts end with the command.
inside() { # SUITE COMMAND...
	local root=$dir/$1 certificates=/etc/ssl/certs/ca-certificates.crt

	shift
	cp /etc/resolv.conf /etc/hosts "$root/etc/"
	mkdir -p "$root/given"
	cp "$certificates" "$root/given/certificates.crt"
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --propagation private bash -euc '
		root=$1
		shift
		mount --rbind /proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/tmp"
		exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
			PIP_CERT=/given/certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1 \
			${PIP_INDEX_URL:+"PIP_INDEX_URL=$PIP_INDEX_URL"} PIP_DEFAULT_TIMEOUT=180 \
			${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
			chroot "$root" "$@"
	' inside "$root" "$@" </dev/null
}

check() { # SUITE NAME COMMAND...
	local status=0

	inside "$1" "${@:3}" >"$dir/$1-$2.log" 2>&1 || status=$?
	if [ "$status" = 0 ]; then
		results="$results
ok     $1 $2"
		sed "s/^/$1 $2: /" "$dir/$1-$2.log"
	else
		results="$results
FAILED $1 $2"
		failed=1
		tail -n 25 "$dir/$1-$2.log"
	fi
}

for suite; do
	case $suite in slim | glibc) make=make_$suite ;; *) make=make_root ;; esac
	[ -d "$dir/$suite" ] || $make "$suite" || { failed=1; continue; }
	mkdir -p "$dir/$suite/given"
	cp "$here/in_root.sh" "$source/docs/examples/frames_pyopencl.py" "$dir/$suite/given/"
	if [ "$wheel" != - ]; then
		rm -f "$dir/$suite"/given/*.whl
		cp "$wheel" "$dir/$suite/given/"
		for python in $(pythons_of "$suite"); do
			check "$suite" "wheel-$python" /given/in_root.sh wheel "$python"
		done
	fi
	if [ "$deb" != - ]; then
		cp "$deb" "$dir/$suite/given/gpuleak.deb"
		check "$suite" deb /given/in_root.sh deb python3
	fi
done
printf '%s\n' "$results"
exit "$failed"
