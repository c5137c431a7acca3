#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the fuzz targets as OSS-Fuzz wants them: in $OUT, with their corpora as archives and with the
# libraries that its runner lacks. OSS-Fuzz sets CC, CFLAGS and LIB_FUZZING_ENGINE; local.sh beside
# this file does so without it. Runs in the root of the source.
set -eu
build=$WORK/gpuleak-build
# shellcheck disable=SC2016 # for the dynamic linker
link='-Wl,-rpath,$ORIGIN/lib'
case " ${CXXFLAGS-} " in *' -stdlib=libc++ '*) link="$link -stdlib=libc++" ;; esac
rm -rf "$build"
mkdir -p "$OUT/lib"
# The flags of the sanitizers are in CFLAGS, which Meson reads.
meson setup "$build" . -Dfuzz=true -Dpython=disabled -Db_lundef=false \
	"-Dfuzz_engine=$LIB_FUZZING_ENGINE" "-Dc_link_args=$link"
for source in tests/fuzz/fuzz_*.c; do
	target=${source#tests/fuzz/fuzz_}
	target=${target%.c}
	ninja -C "$build" "tests/fuzz/fuzz-$target"
	cp "$build/tests/fuzz/fuzz-$target" "$OUT"
	rm -f "$OUT/fuzz-${target}_seed_corpus.zip"
	(cd "tests/fuzz/corpus-$target" && python3 -m zipfile -c "$OUT/fuzz-${target}_seed_corpus.zip" ./*)
	# All but the C and C++ runtimes, which the runner has.
	ldd "$build/tests/fuzz/fuzz-$target" | sed -n 's,.*=> \(/[^ ]*\) .*,\1,p' |
		grep -E '/lib(dw|elf|jansson|z|lzma|bz2|zstd|iberty|unwind)[-.]' | xargs -r cp -Lt "$OUT/lib"
done
