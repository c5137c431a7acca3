#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What packaging/release.sh refuses, and what it prints, in a small repository: release_test.sh ROOT.
# TAP. Builds nothing: `packaging/release.sh rehearse` does, on demand.
set -u
root=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/tap.sh
. "$root/tests/tap.sh"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null LC_ALL=C
command -v git >/dev/null || {
	[ -z "${GPULEAK_MUST_RUN-}" ] || { echo 'Bail out! no git'; exit 1; }
	echo '1..0 # SKIP no git'
	exit 0
}

# Runs a step. It must end with STATUS and print a line that matches PATTERN.
step() { # NAME STATUS PATTERN WORD...
	local name=$1 status=0 wanted=$2 pattern=$3

	shift 3
	packaging/release.sh "$@" >"$work/out" 2>&1 || status=$?
	[ "$status" = "$wanted" ] && grep -qE -- "$pattern" "$work/out"
	result "$name" $? "$work/out"
}

commit() { git -c user.name=a -c user.email=a@localhost commit -qam "$1"; }

mkdir -p "$work/tree/python/gpuleak" "$work/tree/packaging"
cd "$work/tree" || exit 1
cp "$root/packaging/release.sh" "$root/packaging/notes.py" packaging
echo 1.2.3 >python/gpuleak/VERSION
cat >NEWS <<'END_OF_NEWS'
gpuleak 1.2.3 (2026-11-28)

It finds *more*:

    gpuleak run --gate -- ./a_b

What it finds
- Leaks of x86_64, `as_code` and @pytest.mark,
  <all> of them.
- gpuleak 1.2.2 (or older) is no heading.

gpuleak 1.2.2 (2026-10-01)

Older
- Not of this version.
END_OF_NEWS
echo build-package >.gitignore
git init -q . && git add . && commit first && git tag v1.2.3

step 'a tag that agrees passes' 0 '^release: v1\.2\.3 is commit [0-9a-f]{12}$' check v1.2.3
step 'no tag' 1 'check needs one word more' check
step 'a tag of another version' 1 "tag is 'v1\.2\.4', but .*VERSION is 1\.2\.3" check v1.2.4
step 'a tag without v' 1 "tag is '1\.2\.3'" check 1.2.3
echo change >>NEWS
step 'a changed file' 1 'tree is not clean: .*NEWS' check v1.2.3
git checkout -q NEWS
echo new >unknown
step 'a file that git does not know' 1 'tree is not clean: .*unknown' check v1.2.3
rm unknown
sed -i '1s/(.*/(not released)/' NEWS && commit second
step 'NEWS without a date' 1 'first line of NEWS is .gpuleak 1\.2\.3 \(not released\)' check v1.2.3
sed -i '1s/.*/gpuleak 1.2.30 (2026-11-28)/' NEWS && commit third
step 'NEWS of another version' 1 'first line of NEWS is' check v1.2.3
git checkout -q v1.2.3 -- NEWS && commit fourth
step 'a commit behind the tag' 1 'v1\.2\.3 is no tag of this commit' check v1.2.3
git tag -d v1.2.3 >/dev/null
step 'a tag that does not exist' 1 'v1\.2\.3 is no tag of this commit' check v1.2.3

packaging/release.sh notes >"$work/out" 2>&1
cat >"$work/wanted" <<'END_OF_NOTES'
It finds \*more\*:

    gpuleak run --gate -- ./a_b

### What it finds

- Leaks of x86\_64, `as_code` and &#64;pytest.mark,
  \<all\> of them.
- gpuleak 1.2.2 (or older) is no heading.
END_OF_NOTES
diff "$work/wanted" "$work/out" >"$work/diff"
result 'the notes are the part of this version, without markup' $? "$work/diff"
echo 9.9.9 >python/gpuleak/VERSION
step 'a version without a part has no notes' 1 'NEWS has nothing on 9\.9\.9' notes
echo 1.2.3 >python/gpuleak/VERSION

# The same steps with a stand-in of what makes the files.
mkdir tools
cat >tools/package.sh <<'END_OF_STAND_IN'
#!/usr/bin/env bash
cd "$(dirname "$0")/.." || exit 1
version=$(cat python/gpuleak/VERSION)
dist=build-package/dist
mkdir -p $dist
case $1 in
wheel)
	python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr(zipfile.ZipInfo("a.dist-info/sboms/gpuleak.cdx.json"), "bill")' \
		"$dist/gpuleak-$version-py3-none-manylinux_2_28_$2.whl"
	;;
deb)
	case $2 in x86_64) name=amd64 ;; aarch64) name=arm64 ;; esac
	echo "${DIFFER:+$PWD}" >"$dist/gpuleak_${version}_$name.deb"
	;;
source) cp NEWS "$dist/gpuleak-$version.tar.gz" ;;
esac
END_OF_STAND_IN
chmod +x tools/package.sh
sed -i '1s/(.*/(not released)/' NEWS
git add . && commit fifth
step 'a rehearsal does all steps that need no service' 0 'release: rehearsed v1\.2\.3' rehearse
step 'and leaves this checkout as it is' 1 'not released' check v1.2.3
DIFFER=1 step 'two builds that differ fail it' 1 'two builds differ' rehearse
rm -rf build-package

dist=build-package/dist
sums() { (cd $dist && rm -f SHA256SUMS && sha256sum -- * >../sums && mv ../sums SHA256SUMS); }
fill() {
	rm -rf build-package
	mkdir -p "$dist"
	for name in gpuleak-1.2.3{-{aarch64,x86_64}.cdx.json,.tar.gz} gpuleak_1.2.3_{amd64,arm64}.deb \
		gpuleak-1.2.3-py3-none-manylinux_2_28_{aarch64,x86_64}.whl; do
		echo "$name" >"$dist/$name"
	done
	sums
}
fill
step 'the files of a release' 0 '^release: all files of version 1\.2\.3 for x86_64 aarch64$' verify
echo more >>$dist/gpuleak_1.2.3_amd64.deb
step 'a changed file of a release' 1 'not what was built' verify
fill
rm $dist/gpuleak_1.2.3_amd64.deb
step 'a missing one' 1 'not what was built' verify
fill
rm $dist/*_arm64.deb
sums
step 'a machine without a package' 1 'does not have the files of version 1\.2\.3' verify
fill
rm $dist/*aarch64.whl
sums
step 'a machine without a wheel' 1 'does not have the files of version 1\.2\.3' verify
fill
echo more >$dist/gpuleak-1.2.3.zip
step 'one without a checksum' 1 'other files than SHA256SUMS' verify
fill
mv $dist/gpuleak_1.2.3_amd64.deb $dist/gpuleak_1.2.30_amd64.deb
sums
step 'one of another version' 1 'does not have the files of version 1\.2\.3' verify
rm -rf build-package
step 'nothing was built' 1 'not what was built' verify
step 'a second build without a first one' 1 'build comes first' again
step 'an unknown step' 2 'packaging/release\.sh STEP' upload
for name in publish 'github v1.2.3'; do
	# shellcheck disable=SC2086 # words
	step "$name does nothing without files" 1 'release: ' $name
done
finish
