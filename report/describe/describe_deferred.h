/* SPDX-License-Identifier: MIT
 *
 * What was released and not freed, in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_DEFERRED_H
#define GPULEAK_REPORT_TEXT_DEFERRED_H

#include <stdio.h>

struct report_leak;
struct report_process;

/* Nothing where nothing is held any more, unless waits are worth a line: VERBOSE, or there
 * is a report of more than one line anyhow. */
void text_deferred(FILE *out, const struct report_process *process, int verbose);

/* "released, but never unmapped: mapped at make_buffer (/abs/app.c:12)", of a LEAK with a
 * mapping. */
void text_mapped(FILE *out, const struct report_leak *leak);
/* Where it was mapped and released, with stacks. */
void text_mapping(FILE *out, const struct report_leak *leak);

/* "12 blocks, 1,024 bytes (1.0 KiB) behind a user event that was never set, made at main (a.c:3)";
 * nothing and 0 if PROCESS has none. */
int text_stuck(FILE *out, const struct report_process *process);

#endif
