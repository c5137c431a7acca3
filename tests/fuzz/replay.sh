#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a fuzz target, built with -DFUZZ_REPLAY, over its corpus: replay.sh TARGET CORPUS
set -eu
set -- "$1" "$2"/*
if [ ! -e "$2" ]; then
	echo "$2: nothing to replay" >&2
	exit 1
fi
exec "$@"
