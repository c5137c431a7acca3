#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Perfetto's trace_processor_shell 25.0 for formats-perfetto: trace_processor.sh FOLDER. No
# package has it, but Debian's source of Qt WebEngine has Perfetto's source (416 MB to download, two
# processors: about ten minutes). Needs curl, g++, gn (generate-ninja), ninja, protoc, libprotoc-dev,
# libsqlite3-dev and zlib1g-dev. Leaves FOLDER/trace_processor_shell.
set -eu
url=http://deb.debian.org/debian/pool/main/q/qt6-webengine/qt6-webengine_6.4.2-final+dfsg.orig.tar.xz
sha256=49d655620cf295db88bd60d73218950fb28a964cd7fe283daf52832bbcfd635f
inside=qtwebengine-everywhere-src-6.4.2/src/3rdparty/chromium/third_party
mkdir -p "$1"
cd "$1"
echo "$sha256  source.tar.xz" | sha256sum --check --status 2>/dev/null || curl -fsS -o source.tar.xz "$url"
echo "$sha256  source.tar.xz" | sha256sum --check --quiet
tar xf source.tar.xz $inside/perfetto $inside/sqlite/src/ext/misc/percentile.c
cd $inside/perfetto

# The system's SQLite in place of a copy.
mkdir -p buildtools/sqlite buildtools/sqlite_src/ext/misc
cp /usr/include/sqlite3.h /usr/include/sqlite3ext.h buildtools/sqlite
cp ../sqlite/src/ext/misc/percentile.c buildtools/sqlite_src/ext/misc
sed -i -e '/^    "sqlite\/sqlite3.c",$/d' \
	-e '/^  public_configs = \[ ":sqlite_config" \]$/i \  libs = [ "sqlite3" ]' buildtools/BUILD.gn
gn gen out --args='is_debug=false use_custom_libcxx=false is_hermetic_clang=false
    is_system_compiler=true is_clang=false skip_buildtools_check=true
    enable_perfetto_integration_tests=false enable_perfetto_unittests=false enable_perfetto_ui=false
    perfetto_use_system_protobuf=true perfetto_use_system_zlib=true
    perfetto_enable_git_rev_version_header=false enable_perfetto_trace_processor_json=false
    enable_perfetto_trace_processor_percentile=false enable_perfetto_llvm_demangle=false
    enable_perfetto_trace_processor_linenoise=false cc="gcc" cxx="g++"
    extra_cflags="-O0 -g0 -w" extra_cxxflags="-O0 -g0 -w"'
ninja -C out trace_processor_shell
cd - >/dev/null
cp $inside/perfetto/out/trace_processor_shell .
