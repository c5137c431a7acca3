#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs what gpuleak needs and this machine lacks; if nothing is lacking, it does nothing.
# Debian 12, 13, testing and unstable, and Ubuntu 24.04; elsewhere it prints one line that
# installs what is lacking, and goes on if the build can do without. For the tests it also
# fetches packages from PyPI, everywhere.
#
#   tools/setup.sh [--demo | --tests]    for the build; with tools/quickstart.sh; with all tests
#   tools/setup.sh --package[=KIND]      for tools/package.sh, for one KIND of its files or for all
#   --list              print the packages for all of it, lacking or not, and install nothing
#   --missing           print the packages that are lacking, and install nothing
#   --os-release FILE   take FILE for /etc/os-release
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/steps.sh
. "$here/steps.sh"

# group  how to know that it is there  package; a package with another name on another
# distribution is a row in package_here.
NEEDS='
build program:cc                              gcc
build header:stdio.h                          libc6-dev
build program:pkg-config                      pkgconf
build program:python3                         python3
build meson:1.0                               meson
build program:ninja                           ninja-build
build header:libunwind.h                      libunwind-dev
build header:uthash.h                         uthash-dev
build header:CL/cl.h                          opencl-c-headers
build header:elfutils/libdwfl.h               libdw-dev
build header:libelf.h                         libelf-dev
build header:jansson.h                        libjansson-dev
build header:zlib.h                           zlib1g-dev
demo  header:libiberty/demangle.h             libiberty-dev
demo  file:/etc/OpenCL/vendors/pocl.icd       pocl-opencl-icd
demo  library:OpenCL                          ocl-icd-opencl-dev
demo  module:pyopencl                         python3-pyopencl
tests shared:libOpenCL.so.1                   ocl-icd-libopencl1
tests header:cmocka.h                         libcmocka-dev
tests program:c++                             g++
tests program:clang                           clang
tests fuzzer:clang                            libclang-rt-dev
tests program:clang-tidy                      clang-tidy
tests program:musl-gcc                        musl-tools
tests module:pytest                           python3-pytest
tests module:xdist                            python3-pytest-xdist
tests shared:libjemalloc.so.2                 libjemalloc2
tests shared:libtcmalloc_minimal.so.4         libtcmalloc-minimal4
tests program:git                             git
tests program:sim_c                           similarity-tester
tests program:xmllint                         libxml2-utils
tests module:junitparser                      python3-junitparser
tests module:jsonschema                       python3-jsonschema
tests module:prometheus_client                python3-prometheus-client
tests program:promtool                        prometheus
tests program:go                              golang-go
tests program:ruby                            ruby
tests program:php                             php-cli
tests program:java                            default-jdk-headless
tests program:javac                           default-jdk-headless
tests program:mcs                             mono-mcs
tests program:mono                            mono-runtime
tests program:gfortran                        gfortran
tests program:node                            nodejs
tests header:node/node_api.h                  libnode-dev
tests program:rustc                           rustc
tests file:/usr/share/perl5/Devel/NYTProf/flamegraph.pl libdevel-nytprof-perl
tests program:chromium                        chromium
tests module:ensurepip                        python3-venv
tests module:pip                              python3-pip
tests module:IPython                          python3-ipython
tests module:setuptools                       python3-setuptools
tests module:yaml                             python3-yaml
tests module:wheel                            python3-wheel
tests pkgconfig:python3                       python3-dev
tests program:mandoc                          mandoc
tests program:cmake                           cmake
tests program:make                            make
tests program:zsh                             zsh
tests program:fish                            fish
tests program:bwrap                           bubblewrap
tests program:valgrind                        valgrind
package program:gcc                           gcc
package header:stdio.h                        libc6-dev
package program:make                          make
package program:m4                            m4
package program:pkg-config                    pkgconf
package program:python3                       python3
package module:ensurepip                      python3-venv
deb   program:dpkg-deb                        dpkg
source program:git                            git
source program:gzip                           gzip
'

groups=build
os_release=/etc/os-release
list='' missing=''
while [ $# -gt 0 ]; do
	case $1 in
	--demo) groups='build demo' ;;
	--tests) groups='build demo tests' ;;
	--package) groups='package deb source' ;;
	--package=deb) groups='package deb' ;;
	--package=source) groups=source ;;
	--package=wheel | --package=image) groups=package ;;
	--list) list=1 ;;
	--missing) missing=1 ;;
	--os-release) os_release=${2:?--os-release needs a file}; shift ;;
	*) sed -n '3,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; [ "$1" = --help ]; exit ;;
	esac
	shift
done

say() { printf 'setup: %s\n' "$*" >&2; }

# Prints FIELD of the os-release.
os_release() { # FIELD
	(
		unset ID VERSION_ID ID_LIKE PRETTY_NAME
		# shellcheck disable=SC1090
		[ ! -r "$os_release" ] || . "$os_release"
		printf '%s' "${!1-}"
	)
}

# debian-12, ubuntu-24.04, ...; debian- is testing or unstable.
distribution=$(os_release ID)-$(os_release VERSION_ID)

# "-": the distribution has none.
package_here() { # PACKAGE
	case $distribution:$1 in
	debian-12:libclang-rt-dev) echo libclang-rt-14-dev ;;
	ubuntu-24.04:libclang-rt-dev) echo libclang-rt-18-dev ;;
	ubuntu-24.04:libtcmalloc-minimal4 | debian-13:libtcmalloc-minimal4 | debian-:libtcmalloc-minimal4)
		echo libtcmalloc-minimal4t64
		;;
	debian-12:similarity-tester) echo similarity-tester ;; # later releases do not have it
	*:similarity-tester) echo - ;;
	ubuntu-24.04:chromium) echo - ;; # a note to install the snap, which no container can
	*) echo "$1" ;;
	esac
}

program() { command -v "$1" >/dev/null 2>&1; }

# Without a compiler, searches headers only in the usual folders.
header_present() {
	local place

	if program cc; then
		printf '#include <stddef.h>\n#include <stdio.h>\n#include <stdarg.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$1" |
			cc -E -o /dev/null - >/dev/null 2>&1
		return
	fi
	for place in /usr/include /usr/include/*-linux-gnu /usr/local/include; do
		[ ! -e "$place/$1" ] || return 0
	done
	return 1
}

linkable() {
	program cc && echo 'int main(void){return 0;}' |
		cc -x c - -o /dev/null "-l$1" >/dev/null 2>&1
}

# Compiles for libFuzzer and ASan: needs clang's own runtime.
fuzzer_present() {
	program "$1" && echo 'int LLVMFuzzerTestOneInput(const char*d,long n){return d&&n<0;}' |
		"$1" -x c - -o /dev/null -fsanitize=fuzzer,address >/dev/null 2>&1
}

meson_at_least() {
	program meson && [ "$(printf '%s\n' "$1" "$(meson --version)" | sort -V | head -n 1)" = "$1" ]
}

present() { # KIND:WHAT
	local what=${1#*:}

	case $1 in
	program:*) program "$what" ;;
	meson:*) meson_at_least "$what" ;;
	header:*) header_present "$what" ;;
	library:*) linkable "$what" ;;
	shared:*) PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q "^[[:space:]]$what " ;;
	file:*) [ -e "$what" ] ;;
	module:*) /usr/bin/python3 -c "import $what" >/dev/null 2>&1 ;;
	pkgconfig:*) program pkg-config && pkg-config --exists "$what" ;;
	fuzzer:*) fuzzer_present "$what" ;;
	esac
}

# Fills the array lacking with "probe package", for the groups named.
lacking=()
look() { # GROUP...
	local group probe package

	lacking=()
	while read -r group probe package; do
		case " $* " in
		*" $group "*)
			package=$(package_here "$package")
			[ "$package" = - ] || present "$probe" || lacking+=("$probe $package")
			;;
		esac
	done < <(printf '%s' "$NEEDS" | grep .)
}

INSTALL='apt-get install -y --no-install-recommends'

install_packages() { # PACKAGE...
	local root=() words

	read -ra words <<<"$INSTALL $*"

	if [ "$(id -u)" != 0 ]; then
		if ! program sudo || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
			say "not root; as root, run: ${words[*]}"
			return 1
		fi
		root=(sudo)
		sudo -n true 2>/dev/null || sudo -v # asks for the password before a step begins
	fi
	# promtool is in the package of the server prometheus, which must not run.
	case " $* " in *' prometheus '*)
		if [ -d /run/systemd/system ]; then
			say 'prometheus is for its promtool: its server is masked (systemctl unmask prometheus)'
			"${root[@]}" systemctl mask prometheus.service >&2 || true
		fi ;;
	esac
	say "this machine lacks $#: $*"
	# One of many sources may be out of reach: apt-get install knows if it was needed.
	step 'setup: reading the package lists' "${root[@]}" apt-get update -q ||
		say 'apt-get update failed; going on'
	step 'setup: installing the missing packages' \
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive "${words[@]}" -q \
		-o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300
}

if [ "$list" ]; then
	while read -r group _ package; do
		case " $groups " in *" $group "*) package_here "$package" ;; esac
	done < <(printf '%s' "$NEEDS" | grep .) | grep -vx -e -
	exit
fi

# What to do on a system that this script does not know.
advise() { # PACKAGE...
	local name

	name=$(os_release PRETTY_NAME)
	name=${name:-this system}
	case " $(os_release ID) $(os_release ID_LIKE) " in
	*' debian '* | *' ubuntu '*) say "$name: nothing is installed; as root, run: $INSTALL $*" ;;
	*) say "$name: nothing is installed; it lacks what Debian calls: $*" ;;
	esac
}

if [ "$missing" ]; then
	# shellcheck disable=SC2086 # a list of words
	look $groups
	[ ${#lacking[@]} = 0 ] || printf '%s\n' "${lacking[@]##* }"
	exit
fi

if [ ! -e /proc/self/exe ]; then
	say '/proc is not mounted, and gpuleak needs it; as root: mount -t proc proc /proc'
	exit 1
fi
case " $groups " in *' tests '*)
	if [ ! -d /sys/devices/system ]; then
		say '/sys is not mounted, and PoCL aborts without it; as root: mount -t sysfs sysfs /sys'
		exit 1
	fi ;;
esac

# shellcheck disable=SC2086 # a list of words
look $groups
[ ${#lacking[@]} -gt 0 ] || distribution=complete
case $distribution in
complete) ;;
debian-12 | debian-13 | debian- | ubuntu-24.04)
	install_packages "${lacking[@]##* }" || exit 1
	# shellcheck disable=SC2086
	look $groups
	for lack in "${lacking[@]}"; do
		say "${lack% *} is still not found though ${lack##* } was installed"
	done
	[ ${#lacking[@]} = 0 ] || exit 1
	;;
*)
	advise "${lacking[@]##* }"
	look "${groups%% *}"
	[ ${#lacking[@]} = 0 ] || exit 1
	say 'going on without: all that the build needs is there'
	;;
esac

case " $groups " in *' tests '*)
	if ! "$here/../tests/scripts/pypi.sh" --folder >/dev/null 2>&1 &&
		! step 'setup: fetching what the tests need from PyPI' "$here/../tests/scripts/pypi.sh"; then
		say 'what the tests need from PyPI could not be fetched: is the network there?'
		exit 1
	fi
	"$here/../tests/formats/fetch.py" --folder >/dev/null 2>&1 ||
		step 'setup: fetching the viewers of traces' "$here/../tests/formats/fetch.py" ||
		say 'the viewers of traces could not be fetched: their tests are skipped' ;;
esac
