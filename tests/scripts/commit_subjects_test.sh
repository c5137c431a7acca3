#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which subjects commit_subjects.sh takes and which it refuses: commit_subjects_test.sh SCRIPT. TAP.
set -eu
script=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init -q .
mkdir ledger
git commit -q --allow-empty -m 'base'
base=$(git rev-parse HEAD)
number=0 failed=0

try() { # EXPECTED-STATUS SUBJECT
	local status=0 said

	number=$((number + 1))
	git reset -q --hard "$base"
	mkdir -p ledger
	echo "$number" >ledger/writer.c
	echo "$number" >README.md
	git add .
	git commit -q -m "$2"
	said=$("$script" "$base" 2>&1) || status=$?
	if [ "$status" = "$1" ]; then
		echo "ok $number - status $1: $2"
	else
		echo "not ok $number - status $1: $2"
		printf '%s\n' "$said" | sed 's/^/# /'
		failed=1
	fi
}

try 0 'ledger: put the block back when the free fails'
try 0 'ledger: pass the size, return the count'
try 0 'README: name the exit statuses'
try 0 "$(printf 'ledger: embed %058d' 0)" # 72 columns
try 1 "$(printf 'ledger: embed %059d' 0)"
try 1 'put the block back'
try 1 'report: print the block' # changes nothing there
try 1 'ledger: Put the block back'
try 1 'ledger: puts the block back'
try 1 'ledger: fixed a leak'
try 1 'ledger: the block goes back'
try 1 'ledger: put the block back.'

number=$((number + 1))
git reset -q --hard "$base"
if "$script" "$base" >/dev/null; then
	echo "ok $number - no commit since the base"
else
	echo "not ok $number - no commit since the base"
	failed=1
fi
echo "1..$number"
exit $failed
