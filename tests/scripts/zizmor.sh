#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Checks the workflows, action.yml and dependabot.yml for security faults with zizmor, which pip
# fetches by its hash. Fails for any finding. Needs x86_64 and the network, so no test runs it; the
# test `workflows` has the rules that need neither.
#
#   tests/scripts/zizmor.sh
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work"
"$work/bin/pip" install -q --require-hashes --no-deps -r packaging/zizmor-requirements.txt
"$work/bin/zizmor" --offline --no-progress .
