# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# For tools/setup.sh, tools/quickstart.sh and tools/package.sh, which source it: runs a long command
# with one line about it and its progress, instead of its output. Shows the output if the command
# fails. Writes to stderr.
#
# STEP_EVERY: seconds between two lines of progress if stderr is not a terminal (15 if unset).

# Prints how far the command of a log is, if the log is apt-get's, ninja's or make's.
step_progress() { # LOG
	awk '
		/^[0-9]+ upgraded, [0-9]+ newly installed/ { of = $1 + $3 }
		/^Get:/ { fetched++ }
		/^Unpacking / { unpacked++ }
		/^Setting up / { set_up++ }
		/^ +CC  | -c / { compiled++ }
		/^\[[0-9]+\/[0-9]+\]/ { split(substr($1, 2), ninja, /[\/\]]/) }
		END {
			if (ninja[2]) printf "%d of %d files", ninja[1], ninja[2]
			else if (!of && compiled) printf "compiled %d files", compiled
			else if (!of) exit
			else if (set_up) printf "set up %d of %d packages", set_up, of
			else if (unpacked) printf "unpacked %d of %d packages", unpacked, of
			else if (fetched) printf "fetched %d of %d packages", fetched, of
		}' "$1" 2>/dev/null
}

# Shows the progress until its standard input ends.
step_watch() { # WHAT LOG
	local seconds=0 every=${STEP_EVERY:-15} progress status

	[ ! -t 2 ] || every=1
	while :; do
		status=0
		read -r -t 1 || status=$?
		[ "$status" -gt 128 ] || return 0 # not a timeout: the input ended
		seconds=$((seconds + 1))
		[ $((seconds % every)) = 0 ] || continue
		progress=$(step_progress "$2")
		if [ -t 2 ]; then
			printf '\r%s ... %s, %d s\033[K' "$1" "${progress:-working}" "$seconds" >&2
		else
			printf '  %s, %d s\n' "${progress:-working}" "$seconds" >&2
		fi
	done
}

# Runs COMMAND, and prints WHAT, the progress, and the time. Returns COMMAND's status. If it is not
# 0, the whole output was shown.
step() { # WHAT COMMAND...
	local what=$1 log status=0 start=$SECONDS watcher input

	shift
	log=$(mktemp)
	printf '%s ...' "$what" >&2
	[ -t 2 ] || printf '\n' >&2
	# The watcher's input ends when this script closes it, or when the script is killed. A kill
	# could reach the watcher before it has left this script's traps.
	exec {input}> >(step_watch "$what" "$log" >&2)
	watcher=$!
	"$@" >"$log" 2>&1 </dev/null {input}>&- || status=$?
	exec {input}>&-
	wait "$watcher" || true
	if [ "$status" = 0 ]; then
		if [ -t 2 ]; then
			printf '\r%s ... done, %d s\033[K\n' "$what" $((SECONDS - start)) >&2
		else
			printf '  done, %d s\n' $((SECONDS - start)) >&2
		fi
	else
		[ ! -t 2 ] || printf '\n' >&2
		cat "$log" >&2
		printf '%s: failed with status %d after %d s: %s\n' "$what" "$status" \
			$((SECONDS - start)) "$*" >&2
	fi
	rm -f "$log"
	return "$status"
}
