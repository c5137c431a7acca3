/* SPDX-License-Identifier: MIT
 *
 * Looks at the living processes of a run, again and again, from outside: reads their ledgers
 * and nothing else. One line a look, and a report's file written anew where that is wanted.
 */
#ifndef GPULEAK_TOOLS_WATCH_H
#define GPULEAK_TOOLS_WATCH_H

#include <stdint.h>

struct watched;

struct watch { /* starts as { 0 } but for what the caller says */
	const char *directory;    /* of the ledgers */
	const char *suppressions; /* path, "": none */
	const char *report;       /* file that is written anew each time; NULL: none */
	struct symbolizer *symbolizer;
	struct watched *first;
	uint64_t looks, bytes_before;
	long long every_ms;
	int failed; /* the report could not be written: said once */
};

/* One look. What can't be read is passed over: it may just have ended. */
void watch_look(struct watch *watch);
void watch_finish(struct watch *watch);

#endif
