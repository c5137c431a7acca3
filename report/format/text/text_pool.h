/* SPDX-License-Identifier: MIT
 *
 * The pool in the words of the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_POOL_H
#define GPULEAK_REPORT_TEXT_POOL_H

#include <stdio.h>

struct report_pool;
struct report_process;

/* With ALL a section, pool by pool; else a line, and lines for what the user must know.
 * Nothing where no pool was on and nothing was refused. */
void text_pool(FILE *out, const struct report_process *process, int all);

/* "device 0, device memory"; "OpenCL buffers" */
void text_pool_name(FILE *out, const struct report_pool *pool);

#endif
