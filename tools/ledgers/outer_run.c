/* SPDX-License-Identifier: MIT
 *
 * Recognizes the outer run by the ledger pattern that it set: a run's directory, whose name it
 * alone chose. Does not trust the contents of a roster.
 */
#include "tools/ledgers/outer_run.h"

#include "ledger/directory.h"
#include "ledger/shared.h"
#include "report/util/path.h"
#include "tools/launch/system.h"
#include "tools/ledgers/archive.h"
#include "tools/ledgers/lost.h"

#define PATTERN_END "/%p.gpuleak"

/* Stores the directory of PATTERN, in which each % is doubled. Returns false if PATTERN is not one
 * that `gpuleak run` sets. */
static bool directory_of(const char *pattern, char ret[PATH_MAX])
{
	const char *end = strstr(pattern, PATTERN_END), *slash;
	char *at = ret;
	int pid, length = 0;

	if (!end || strcmp(end, PATTERN_END) != 0 || end - pattern >= PATH_MAX)
		return false;
	for (const char *from = pattern; from < end; from++) {
		*at++ = *from;
		from += from[0] == '%' && from[1] == '%';
	}
	*at = '\0';
	slash = strrchr(ret, '/');
	return slash && sscanf(slash, "/run-%d-%*u-%*6[A-Za-z0-9]%n", &pid, &length) == 1 &&
	       length > 0 && slash[length] == '\0' && place_check(ret) == 0;
}

/* Removes NAME from the environment if it has the value that every run sets. */
static bool remove_if(const char *name, const char *value)
{
	const char *found = getenv(name);

	return found && strcmp(found, value) == 0 && unsetenv(name) == 0;
}

void outer_run_find(struct outer_run *outer)
{
	const char *pattern = getenv("GPULEAK_LEDGER");

	if (!pattern || !directory_of(pattern, outer->directory)) {
		outer->directory[0] = '\0';
		return;
	}
	unsetenv("GPULEAK_LEDGER");
	unsetenv("GPULEAK_REPORT_NOW");
	remove_if("GPULEAK_EXITCODE", "0");
	/* The format belongs to the outer run's report, which is a file or none. */
	if (remove_if("GPULEAK_REPORT", "none"))
		unsetenv("GPULEAK_FORMAT");
	outer->roster = roster_join(getenv("GPULEAK_ROSTER"));
	outer->slot = roster_enter(outer->roster, getpid(),
				   process_start_ticks(getpid()), "gpuleak run");
}

void outer_run_add(const struct outer_run *outer, const char *path)
{
	FREE_AT_END char *wanted = text_format("%s/%s", outer->directory, path_last(path));
	char got[PATH_MAX + 16];

	if (outer->directory[0])
		keep_ledger(path, wanted, KEEP_BY_LINK, got, sizeof(got));
}

void outer_run_finish(struct outer_run *outer, const struct roster *ours)
{
	if (!outer->roster)
		return;
	if (ours)
		lost_copy(ours, outer->roster);
	if (outer->slot)
		shared_publish(outer->slot->state, ROSTER_NO_LEDGER);
}
