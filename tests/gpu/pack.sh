# SPDX-License-Identifier: MIT
#
# For the scripts beside it, which source it: what of a build goes to a machine that may lack its
# libraries. Knows nothing of what runs there.

# FOLDER BUILD FILE...: without debug information; libraries that may be lacking in lib; the modules of
# --keepers and --bypass-pools in python
pack_files() {
	local to=$1 build=$2 file

	shift 2
	for file in "$@"; do
		[ -e "$build/$file" ] || { echo "not in $build: $file"; continue; }
		mkdir -p "$to/$(dirname "$file")"
		strip --strip-debug -o "$to/$file" "$build/$file"
	done
	mkdir -p "$to/lib" "$to/python"
	cp -rL "$build/python/bypass" "$build/python/gpuleak" "$to/python/"
	for file in $({ ldd "$build/tools/gpuleak"; ldconfig -p | grep 'libunwind\.so\.8 .*x86-64'; } |
		grep -oE '/[^ ]*/lib(dw|elf|jansson|lzma|bz2|unwind)\.so[^ ]*' | sort -u); do
		cp -L "$file" "$to/lib/"
	done
}
