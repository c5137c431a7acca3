/* SPDX-License-Identifier: MIT
 *
 * Periodic status of a run: reads the ledgers of running processes, prints one line per
 * interval, and rewrites a report file if requested.
 */
#ifndef GPULEAK_TOOLS_WATCH_H
#define GPULEAK_TOOLS_WATCH_H

#include <stdint.h>

struct watched;

struct watch { /* starts as { 0 } except for the fields of the caller */
	const char *directory;    /* of the ledgers */
	const char *suppressions; /* path, "": none */
	const char *report;       /* file that is rewritten each time; NULL: none */
	struct symbolizer *symbolizer;
	struct watched *first;
	uint64_t looks, bytes_before;
	long long every_ms;
	int failed; /* the report could not be written: printed once */
};

/* Prints one status line. Skips unreadable ledgers, whose processes may just have ended. */
void watch_look(struct watch *watch);
void watch_finish(struct watch *watch);

#endif
