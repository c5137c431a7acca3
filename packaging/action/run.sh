#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Second step of action.yml: runs the script INPUT_RUN under the gate, prints annotations and writes
# the step's summary, and stores reports below RUNNER_TEMP, whose paths are outputs of the step.
# Ends with the status of `gpuleak run`: the script's own, or 23 (leaks) or 24 (no GPU call), never
# with 0 if a report is missing. action.yml describes the other inputs.
set -eu
fail() {
	printf '::error title=gpuleak::%s\n' "$*"
	exit "${status:-1}"
}

[ -n "${INPUT_RUN//[[:space:]]/}" ] || fail "the input 'run' is empty: no command was run"
command -v gpuleak >/dev/null || fail 'gpuleak is not in PATH: the step that installs it is missing'
baseline=()
case ${INPUT_UPDATE_BASELINE:-false} in
true) [ -n "${INPUT_BASELINE-}" ] || fail 'update-baseline needs the input baseline: a path' ;;
false) ;;
*) fail "update-baseline is '$INPUT_UPDATE_BASELINE', not true or false" ;;
esac
[ -z "${INPUT_BASELINE-}" ] || baseline=(--baseline "$INPUT_BASELINE")
update=()
[ "${INPUT_UPDATE_BASELINE:-false}" = false ] || update=(--update-baseline)
IFS=$' \t\n' read -r -d '' -a options <<<"${INPUT_OPTIONS-}" || true

# What changes the verdict, for example --suppressions FILE, has to count in the reports, too.
known=$(gpuleak report --help-all | grep -oE -- '--[a-z0-9-]+' | sort -u)
judging=()
takes=''
for word in "${options[@]}"; do
	case ${word%%=*} in
	--format | --report | --ledger | --baseline | --update-baseline)
		fail "options: the action sets ${word%%=*} itself" ;;
	-*) takes=$(grep -xF -e "${word%%=*}" <<<"$known" || true) ;;
	esac
	[ -z "$takes" ] || judging+=("$word")
done

work=$(mktemp -d "$RUNNER_TEMP/gpuleak-run.XXXXXX")
status=0
gpuleak run --gate --format github --ledger "$work/ledgers/%e-%p" "${baseline[@]}" "${update[@]}" \
	"${options[@]}" -- bash --noprofile --norc -eo pipefail -c "$INPUT_RUN" || status=$?
printf 'status=%s\n' "$status" >>"$GITHUB_OUTPUT"

# Nothing was recorded: without a report nothing is uploaded, so code scanning closes no alert.
case $status in 24 | 125) exit "$status" ;; esac
if ! compgen -G "$work/ledgers/*" >/dev/null; then
	[ "$status" != 0 ] || status=1
	fail "no process was recorded; the command ended with status $status"
fi
for format in sarif html; do
	said=$(gpuleak report --format "$format" --report "$work/gpuleak.$format" "${baseline[@]}" \
		"${judging[@]}" "$work/ledgers" 2>&1) || {
		[ "$status" != 0 ] || status=1
		fail "the $format report could not be written: ${said//$'\n'/ }"
	}
	printf '%s=%s\n' "$format" "$work/gpuleak.$format" >>"$GITHUB_OUTPUT"
done
[ ${#update[@]} = 0 ] || printf 'baseline=%s\n' "$(realpath "$INPUT_BASELINE")" >>"$GITHUB_OUTPUT"
exit "$status"
