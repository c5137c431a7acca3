#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Checks that both commands of README.md work where nothing is installed: makes a minimal Debian
# of SUITE (bookworm, trixie, sid) with debootstrap, puts a clone of this repository into root's
# home there, and runs tools/quickstart.sh, tools/test.sh, and the README's commands with its
# installation. tools/test.sh --long runs this for each suite.
#
#   tests/scripts/fresh-debian.sh SUITE [ARGUMENTS-OF-TEST.SH]
#   tests/scripts/fresh-debian.sh SUITE --user       tools/test.sh as a user without root: first
#                                                    without the packages, then with them
#   tests/scripts/fresh-debian.sh SUITE --install    only the commands that install, and their check
#
# Needs root, debootstrap, git and the network. The new system is a folder in /var/tmp (FOLDER in
# the environment: there), of some 5 GB; it is removed if all passed. MIRROR in the environment is
# another mirror than http://deb.debian.org/debian. This machine's apt sources, proxies and
# certificates go along. Only what is committed is tested.
set -eu -o pipefail
suite=${1-}
case $suite in bookworm | trixie | sid) shift ;; *) sed -n '4,18s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mirror=${MIRROR:-http://deb.debian.org/debian}
user=gpuleak # in the new system

[ "$(id -u)" = 0 ] || { echo "$0: needs root" >&2; exit 1; }
dir=$(mktemp -d "${FOLDER:-/var/tmp}/gpuleak-$suite-XXXXXX")
chmod 755 "$dir"

# Copies what this machine reads to reach packages: FILES that are there.
hand_on() { # FILES...
	local file

	for file; do
		[ -e "$file" ] || continue
		mkdir -p "$dir${file%/*}"
		cp -r "$file" "$dir${file%/*}/"
	done
}

make_system() {
	debootstrap --variant=minbase "$suite" "$dir" "$mirror" >"$dir.log" 2>&1 || { tail -n 30 "$dir.log"; exit 1; }
	mv "$dir.log" "$dir/root/debootstrap.log"
	# Sources that name keys are only good together with these.
	if grep -q "^Suites:.*\<$suite\>" /etc/apt/sources.list.d/debian.sources 2>/dev/null; then
		hand_on /etc/apt/sources.list.d/debian.sources
		: >"$dir/etc/apt/sources.list"
	fi
	hand_on /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt \
		/usr/local/share/ca-certificates
	apt-config dump | grep -i '^Acquire::.*proxy' >"$dir/etc/apt/apt.conf.d/99-proxy" || true
	git clone -q --no-hardlinks "$root" "$dir/root/gpuleak"
	git -C "$dir/root/gpuleak" log -1 --format='== Debian %%s: gpuleak %h' | sed "s/%s/$suite/"
}

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

failed=0
run() { # COMMAND...
	local start=$SECONDS status=0

	inside "$@" 2>&1 | tee "$dir/root/last.log" || status=$?
	printf '\n== Debian %s: %s: status %d, %d s ==\n' "$suite" "$*" "$status" $((SECONDS - start))
	[ "$status" = 0 ] || failed=1
}

# Runs tools/test.sh, whose last line is the sum.
run_tests() { # COMMAND...
	run "$@"
	sum=$(tail -n 1 "$dir/root/last.log")
}

as_user() { # COMMAND...
	printf '%s\n' setpriv --reuid="$user" --regid="$user" --init-groups env "HOME=/home/$user" "$@"
}

# A user who may install nothing gets one line to copy, and nothing else is tried.
told_once() {
	local log=$dir/root/last.log lines

	inside "${words[@]}" >"$log" 2>&1 && { echo 'told_once: status 0 without the packages'; failed=1; }
	lines=$(grep -c 'apt-get install' "$log" || true)
	cat "$log"
	if [ "$lines" != 1 ] || grep -q 'not found' "$log" || [ "$(tail -n 1 "$log")" != '0 passed, 1 failed' ]; then
		echo "told_once: $lines lines to copy, not 1, or it went on"
		failed=1
	fi
}

user_tests() {
	inside useradd -m -s /bin/bash "$user"
	mv "$dir/root/gpuleak" "$dir/home/$user/gpuleak"
	inside chown -R "$user:$user" "/home/$user"
	mapfile -t words < <(as_user "/home/$user/gpuleak/tools/test.sh")
	told_once
	run "/home/$user/gpuleak/tools/setup.sh" --tests
	run_tests "${words[@]}"
}

install_tests() {
	# shellcheck disable=SC2016
	run sh -ec 'cd /root/gpuleak
		tools/setup.sh
		meson setup build
		ninja -C build
		meson install -C build' >"$dir/root/install.log" 2>&1
	[ "$failed" = 0 ] || tail -n 30 "$dir/root/install.log"
	run /root/gpuleak/tests/scripts/installed.sh
}

sum=''
make_system
case ${1-} in
--user) user_tests ;;
--install) install_tests ;;
*)
	run /root/gpuleak/tools/quickstart.sh
	run_tests /root/gpuleak/tools/test.sh "$@"
	# Last, since some tests need a system without an installed gpuleak.
	run /root/gpuleak/tests/scripts/readme_commands.sh --as-root
	run /root/gpuleak/tests/scripts/installed.sh
	;;
esac
if [ "$failed" = 0 ]; then
	rm -rf --one-file-system "$dir"
else
	echo "fresh-debian: something failed; the system stays in $dir"
fi
[ -z "$sum" ] || echo "$sum"
exit "$failed"
