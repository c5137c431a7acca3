/* SPDX-License-Identifier: MIT
 *
 * Wrong frees in the words of the text report: each one a story with its stacks.
 */
#ifndef GPULEAK_REPORT_TEXT_ERROR_H
#define GPULEAK_REPORT_TEXT_ERROR_H

#include <stdio.h>

struct report_error;
struct report_process;

/* All errors of PROCESS; those with the same stacks once, with their number. 0 or -ENOMEM. */
int text_errors(FILE *out, const struct report_process *process);

/* "double free of 0x... at cleanup (/abs/app.c:40)", for a first line. */
void text_error_brief(FILE *out, const struct report_error *error);

/* "cuMemFree_v2 was given a block that had been freed already (the driver answered 1)" */
void text_error_deed(FILE *out, const struct report_error *error);

#endif
