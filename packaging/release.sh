#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The steps of a release, as .github/workflows/release.yml runs them. Each runs on any machine:
#
#   packaging/release.sh STEP
#     check TAG      TAG is this clean commit, and agrees with VERSION and NEWS
#     notes          prints this version's part of NEWS, in Markdown
#     build [MACHINE...]   makes the wheels, the Debian packages, the source archive, the bills of
#                    materials and SHA256SUMS in build-package/dist; x86_64 and aarch64 unless named
#     again          builds in a clone in another folder, and compares the bytes
#     verify [MACHINE...]   build-package/dist has all files of this version, and no other, as built
#     smoke DIR      installs them in minimal systems below DIR (root, debootstrap, network)
#     aarch64 DIR    the same of the files for aarch64, on an emulated processor
#     sdist          pip builds the source archive: the same wheel, which runs
#     publish        uploads wheels and source archive to PyPI, as a trusted publisher
#     github TAG     makes the release on GitHub, with all files and the notes
#     rehearse [MACHINE...]   tags a clone, and does check, build, again, verify and notes there
#
# Only publish and github change anything outside this checkout, and need the service.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dist=$PWD/build-package/dist
version=$(cat python/gpuleak/VERSION)
ROOTS='bookworm trixie focal jammy noble'
declare -A ARCHITECTURE=([x86_64]=amd64 [aarch64]=arm64) # Debian's names

fail() {
	printf 'release: %s\n' "$*" >&2
	exit 1
}

step_check() { # TAG
	local dirty

	[ "${1-}" = "v$version" ] || fail "the tag is '${1-}', but python/gpuleak/VERSION is $version"
	head -n 1 NEWS | grep -qxE "gpuleak ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)" ||
		fail "the first line of NEWS is '$(head -n 1 NEWS)', not 'gpuleak $version (YYYY-MM-DD)'"
	dirty=$(git status --porcelain)
	[ -z "$dirty" ] || fail "the tree is not clean: $(printf '%s\n' "$dirty" | head -n 1)"
	[ "$(git rev-parse -q --verify "refs/tags/$1^{commit}")" = "$(git rev-parse HEAD)" ] ||
		fail "$1 is no tag of this commit"
	printf 'release: %s is commit %s\n' "$1" "$(git rev-parse --short=12 HEAD)"
}

step_notes() {
	python3 packaging/notes.py "$version" <NEWS
}

# The bill of materials of each wheel, as a file beside it.
extract_bills() {
	python3 - "$dist" "$version" <<-'END'
	import pathlib, sys, zipfile
	dist, version = pathlib.Path(sys.argv[1]), sys.argv[2]
	for wheel in sorted(dist.glob("*.whl")):
	    machine = wheel.stem.partition("manylinux_2_28_")[2]
	    with zipfile.ZipFile(wheel) as archive:
	        name, = [n for n in archive.namelist() if n.endswith("/sboms/gpuleak.cdx.json")]
	        (dist / ("gpuleak-%s-%s.cdx.json" % (version, machine))).write_bytes(archive.read(name))
	END
}

step_build() { # [MACHINE...]
	local machine

	[ $# -gt 0 ] || set -- x86_64 aarch64
	rm -rf "$dist"
	for machine; do
		tools/package.sh wheel "$machine"
		tools/package.sh deb "$machine"
	done
	tools/package.sh source
	extract_bills
	(cd "$dist" && LC_ALL=C && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
	cat "$dist/SHA256SUMS"
}

# The machines that `build` made wheels for.
machines() {
	sed -n 's/.*-manylinux_2_28_\(.*\)\.whl$/\1/p' "$dist/SHA256SUMS"
}

step_again() {
	local place

	[ -e "$dist/SHA256SUMS" ] || fail 'nothing to compare with: build comes first'
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	place=$work/another/place
	mkdir -p "${place%/*}"
	git clone -q . "$place"
	git -C "$place" checkout -q --detach "$(git rev-parse HEAD)"
	# The archives are the same by their hashes.
	mkdir -p build-package/downloads "$place/build-package"
	ln -s "$PWD/build-package/downloads" "$place/build-package/downloads"
	# shellcheck disable=SC2046 # words
	"$place/packaging/release.sh" build $(machines)
	diff "$dist/SHA256SUMS" "$place/build-package/dist/SHA256SUMS" || fail 'two builds differ'
	echo 'release: twice the same bytes'
}

# The files of a release with wheels for these machines.
names_of() { # MACHINE...
	local machine

	for machine; do
		printf '%s\n' "gpuleak-$version-$machine.cdx.json" \
			"gpuleak-$version-py3-none-manylinux_2_28_$machine.whl" \
			"gpuleak_${version}_${ARCHITECTURE[$machine]}.deb"
	done
	echo "gpuleak-$version.tar.gz"
}

step_verify() { # [MACHINE...]
	local names

	[ $# -gt 0 ] || set -- x86_64 aarch64
	names=$(names_of "$@" | LC_ALL=C sort)
	(cd "$dist" && sha256sum --quiet --strict -c SHA256SUMS) || fail 'a file is not what was built'
	diff <(echo "$names") <(sed 's/^[0-9a-f]*  //' "$dist/SHA256SUMS") ||
		fail "SHA256SUMS does not have the files of version $version"
	diff <(printf 'SHA256SUMS\n%s\n' "$names") <(cd "$dist" && LC_ALL=C ls -A) ||
		fail "$dist has other files than SHA256SUMS"
	printf 'release: all files of version %s for %s\n' "$version" "$*"
}

step_smoke() { # DIR
	# shellcheck disable=SC2086 # words
	tests/packaging/roots.sh "$1" "$dist"/gpuleak-*x86_64.whl "$dist"/gpuleak_*_amd64.deb $ROOTS
}

step_aarch64() { # DIR
	tests/packaging/aarch64.sh "$1" "$dist"/gpuleak-*aarch64.whl "$dist"/gpuleak_*_arm64.deb
}

step_sdist() {
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	python3 -m venv "$work/venv"
	"$work/venv/bin/pip" wheel -q --no-deps -w "$work" "$dist/gpuleak-$version.tar.gz"
	cmp "$work"/gpuleak-*.whl "$dist/$(basename "$work"/gpuleak-*.whl)" ||
		fail 'the wheel from the source archive is another one'
	"$work/venv/bin/pip" install -q --no-deps --no-index "$work"/gpuleak-*.whl
	"$work/venv/bin/gpuleak" --version
	echo 'release: the source archive makes the same wheel'
}

# uv exchanges the token that the service gives the job for one of PyPI. No secret is stored.
step_publish() {
	step_verify
	python3 -m venv build-package/uv
	build-package/uv/bin/python -m pip install -q --require-hashes --no-deps \
		-r packaging/publish-requirements.txt
	build-package/uv/bin/uv publish --trusted-publishing always "$dist"/*.whl "$dist"/*.tar.gz
}

step_github() { # TAG
	step_check "$1"
	step_verify
	step_notes >build-package/notes.md
	gh release create "$1" --verify-tag --title "gpuleak $version" --notes-file build-package/notes.md \
		"$dist"/*
}

step_rehearse() { # [MACHINE...]
	local place=$PWD/build-package/rehearsal

	rm -rf "$place"
	git clone -q . "$place"
	mkdir -p build-package/downloads "$place/build-package"
	ln -s "$PWD/build-package/downloads" "$place/build-package/downloads"
	cd "$place"
	sed -i "1s/ (not released)/ ($(git log -1 --format=%cs))/" NEWS
	GIT_AUTHOR_DATE=$(git log -1 --format=%cI) GIT_COMMITTER_DATE=$(git log -1 --format=%cI) \
		git -c user.name=rehearsal -c user.email=rehearsal@localhost commit -qam 'NEWS: rehearse'
	git tag "v$version"
	packaging/release.sh check "v$version"
	packaging/release.sh build "$@"
	packaging/release.sh again
	packaging/release.sh verify "$@"
	packaging/release.sh notes >build-package/notes.md
	printf 'release: rehearsed %s in %s: %s lines of notes\n' "v$version" "$place" \
		"$(wc -l <build-package/notes.md)"
}

step=${1-}
case $step in
check | notes | build | again | verify | smoke | aarch64 | sdist | publish | github | rehearse) ;;
*) sed -n '4,21s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
case $step:${2-} in check: | smoke: | aarch64: | github:) fail "$step needs one word more" ;; esac
shift
"step_$step" "$@"
