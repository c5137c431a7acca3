/* SPDX-License-Identifier: MIT
 *
 * Periodic status of `gpuleak run --every`: reads the ledgers of running processes, prints one
 * line per interval and, if requested, rewrites a report file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct watched;

struct watch { /* starts as { 0 } except for the fields that the caller sets */
	const char *directory;    /* directory of the ledgers */
	const char *suppressions; /* path; "": no suppressions */
	const char *report;       /* file that is rewritten each time; NULL: no file */
	struct symbolizer *symbolizer;
	struct watched *first;
	uint64_t reads, bytes_before;
	long long every_ms;
	bool failed; /* the report could not be written; the error is printed once */
};

/* Prints one status line; with --every-quiet only if there is news. Skips ledgers that cannot be
 * read, because their processes may just have ended. */
void watch_read(struct watch *watch);
void watch_finish(struct watch *watch);
