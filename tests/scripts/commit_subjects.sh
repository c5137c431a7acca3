#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Checks the subjects of the commits since BASE, merges left out:
# "FOLDER: imperative", at most 72 columns. FOLDER is a folder or a file that the commit changes.
#
#   tests/scripts/commit_subjects.sh BASE
set -eu
base=${1:?"usage: $0 BASE"}
COLUMNS_MAX=72

# Prints what is wrong with a subject; nothing if it is good.
fault() { # COMMIT SUBJECT
	local commit=$1 subject=$2 folder=${2%%: *} rest=${2#*: } word

	word=${rest%% *}
	if [ ${#subject} -gt $COLUMNS_MAX ]; then
		echo "longer than $COLUMNS_MAX columns: ${#subject}"
	elif [ "$folder" = "$subject" ] || ! [[ $folder =~ ^[A-Za-z0-9._/-]+$ ]]; then
		echo 'does not begin with "FOLDER: "'
	elif ! changes "$commit" "$folder"; then
		echo "changes nothing in '$folder'"
	elif ! [[ $word =~ ^[a-z][a-z-]+,?$ ]]; then
		echo "'$word' is not a verb in lower case"
	elif ! is_imperative "${word%,}"; then
		echo "'$word' is not an imperative: write \"add\", not \"added\", \"adds\" or \"the\""
	elif [[ $subject == *. ]]; then
		echo 'ends with a full stop'
	fi
}

# FOLDER/..., or a file at the top such as README for README.md.
changes() { # COMMIT FOLDER
	git diff-tree --root --no-commit-id --name-only --no-renames -r "$1" |
		awk -v folder="$2" '
			index($0, folder "/") == 1 || $0 == folder { found = 1 }
			!/\// { name = $0; sub(/\.[a-z]+$/, "", name); if (name == folder) found = 1 }
			END { exit !found }'
}

# By the word's form, which is right for all but a few verbs: these are listed.
is_imperative() { # WORD
	case $1 in
	embed | feed | need | seed | speed | shed | bring | ping | string | focus) ;;
	a | an | the | its | each | every | one | two | what | where | which | who | how | why | no | not | new)
		return 1 ;;
	*ss) ;;
	*ed | *ing | *s) return 1 ;;
	esac
}

list=$(git log --reverse --no-merges --format='%h %s' "$base..HEAD")
status=0 count=0
while read -r commit subject; do
	[ "$commit" ] || continue
	count=$((count + 1))
	case $subject in 'Revert "'*) continue ;; esac
	why=$(fault "$commit" "$subject")
	[ -z "$why" ] || {
		printf '%s %s\n    %s\n' "$commit" "$subject" "$why"
		status=1
	}
done <<<"$list"
[ $status != 0 ] || echo "$count commits since $base: all subjects are as CONTRIBUTING.md asks"
exit $status
