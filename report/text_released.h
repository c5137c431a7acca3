/* SPDX-License-Identifier: MIT
 *
 * What was released and not freed, in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_RELEASED_H
#define GPULEAK_REPORT_TEXT_RELEASED_H

#include <stdio.h>

struct report_process;

/* Nothing where nothing is held any more, unless waits are worth a line: VERBOSE, or there
 * is a report of more than one line anyhow. */
void text_released(FILE *out, const struct report_process *process, int verbose);

#endif
