#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The proof that both commands of README.md work where nothing is installed: makes a minimal
# Debian 12 in DIR with debootstrap, puts a clone of this repository into root's home there, and
# runs tools/quickstart.sh, tools/test.sh, and the README's commands with its installation. On
# demand, no test depends on it.
#
#   tests/scripts/fresh-debian.sh DIR [ARGUMENTS-OF-TEST.SH]
#   tests/scripts/fresh-debian.sh DIR --install    only the commands that install, and their check
#
# Needs root, debootstrap, git and the network. DIR must not exist; it is left there, to be
# looked at and removed by hand. MIRROR in the environment is another mirror than
# http://deb.debian.org/debian. This machine's apt sources, proxies and certificates for
# Debian go along. Only what is committed is tested.
set -eu
dir=${1:?"usage: $0 DIR [ARGUMENTS-OF-TEST.SH]"}
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mirror=${MIRROR:-http://deb.debian.org/debian}

[ "$(id -u)" = 0 ] || { echo "$0: needs root" >&2; exit 1; }
[ ! -e "$dir" ] || { echo "$dir exists" >&2; exit 1; }

debootstrap --variant=minbase bookworm "$dir" "$mirror"
dir=$(cd "$dir" && pwd)
# Sources that name keys are only good together with these.
if [ -e /etc/apt/sources.list.d/debian.sources ]; then
	cp /etc/apt/sources.list.d/debian.sources "$dir/etc/apt/sources.list.d/"
	: >"$dir/etc/apt/sources.list"
fi
cp /etc/resolv.conf /etc/hosts "$dir/etc/"
apt-config dump | grep -i '^Acquire::.*proxy' >"$dir/etc/apt/apt.conf.d/99-proxy" || true

git clone -q --no-hardlinks "$root" "$dir/root/gpuleak"

# In a mount namespace: the mounts go with it, whatever happens. pivot_root, since a chroot
# can make no namespaces of its own, as some tests do.
inside() { # COMMAND...
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --propagation private bash -euc '
		dir=$1
		shift
		mount --bind "$dir" "$dir"
		cd "$dir"
		mount --rbind /proc proc
		mount --rbind /sys sys
		mount --rbind /dev dev
		mount -t tmpfs tmpfs tmp
		pivot_root . .
		umount -l .
		cd /
		exec env -i \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=true \
			${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} "$@"
	' inside "$dir" "$@" </dev/null
}

run() { # COMMAND...
	local start=$SECONDS status=0

	inside "$@" || status=$?
	printf '\n== %s: status %d, %d s ==\n' "$*" "$status" $((SECONDS - start))
	return "$status"
}

failed=0
if [ "${1-}" = --install ]; then
	# shellcheck disable=SC2016
	run sh -ec 'cd /root/gpuleak
		tools/setup.sh
		meson setup build
		ninja -C build
		meson install -C build' >"$dir/root/install.log" 2>&1 || { tail -n 30 "$dir/root/install.log"; exit 1; }
	run /root/gpuleak/tests/scripts/installed.sh
	exit
fi
run /root/gpuleak/tools/quickstart.sh || failed=1
run /root/gpuleak/tools/test.sh "$@" || failed=1
# Last, since some tests need a system without an installed gpuleak.
run /root/gpuleak/tests/scripts/readme_commands.sh --as-root || failed=1
run /root/gpuleak/tests/scripts/installed.sh || failed=1
exit "$failed"
