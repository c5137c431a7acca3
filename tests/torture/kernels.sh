#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Makes kernels.h of kernels.cu (needs nvcc): PTX of sm_80, which every driver compiles for the
# GPU that it finds. The version line is set back so that drivers older than the toolkit take it.
#
#   tests/torture/kernels.sh
set -eu
cd "$(dirname "$0")"
{
	printf '/* SPDX-License-Identifier: MIT\n *\n * Made by kernels.sh of kernels.cu; do not edit.\n */\n'
	printf 'static const char kernels_image[] =\n'
	nvcc -ptx -arch=compute_80 -o /dev/stdout kernels.cu | grep -v '^//' | grep . |
		sed -e 's/^\.version .*/.version 7.0/' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/ /g' \
			-e 's/^/\t"/' -e 's/$/\\n"/'
	printf '\t;\n'
} >kernels.h.new
mv kernels.h.new kernels.h
