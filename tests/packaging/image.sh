#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds the images of packaging/container with buildah, checks what they hold, and does the steps of
# packaging/kubernetes/pod.yaml with them. On demand, no test depends on it.
#
#   tests/packaging/image.sh FOLDER BUILD
#
# FOLDER is what `tools/package.sh image` made, BUILD a build folder. Needs root, buildah and a static
# busybox (Debian: busybox-static), and no registry: busybox is the base of the second image.
# NODE_EXPORTER in the environment is that program (Debian: prometheus-node-exporter).
set -eu
[ $# = 2 ] || { sed -n '4,12s/^# \{0,1\}//p' "$0"; exit 2; }
tree=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
recipe=$here/../../packaging/container/Containerfile
work=$(mktemp -d)
export BUILDAH_ISOLATION=chroot TMPDIR=$work
store() { buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
trap 'store rm --all >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

fail() {
	printf 'image: %s\n' "$*" >&2
	exit 1
}

# The base of the init image: busybox under the names that it has in busybox's own image.
base=$(store from scratch)
at=$(store mount "$base")
mkdir -p "$at/bin"
cp "${BUSYBOX:-/bin/busybox}" "$at/bin/busybox"
for name in sh cp ls; do ln -s busybox "$at/bin/$name"; done
chroot "$at" /bin/cp --help >/dev/null 2>&1 || fail "${BUSYBOX:-/bin/busybox} is not static"
store commit -q "$base" localhost/busybox >/dev/null

store build -q -f "$recipe" -t gpuleak "$tree" >/dev/null
store build -q -f "$recipe" --target init --build-arg BASE=localhost/busybox -t gpuleak:init "$tree" >/dev/null

image=$(store mount "$(store from --pull-never gpuleak)")

init=$(store mount "$(store from --pull-never gpuleak:init)")
command=$(store inspect --type image gpuleak:init |
	/usr/bin/python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["OCIv1"]["config"]["Cmd"]))')

diff -r --no-dereference "$tree" "$image" || fail 'the image does not hold what the folder holds'
[ -x "$image/bin/gpuleak" ] || fail 'the command is not executable in the image'
diff -r --no-dereference "$tree" "$init/gpuleak" || fail 'the init image lacks something'
printf 'images: gpuleak has %s bytes in %s files; the command of gpuleak:init is %s\n' \
	"$(du -sb "$image" | cut -f1)" "$(find "$image" -type f | wc -l)" "$command"

/usr/bin/python3 "$here/pod.py" "$build" --tree "$image" --init "$init" --command "$command" \
	${NODE_EXPORTER:+--node-exporter "$NODE_EXPORTER"}
