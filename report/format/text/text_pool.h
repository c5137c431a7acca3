/* SPDX-License-Identifier: MIT
 *
 * The pools in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_POOL_H
#define GPULEAK_REPORT_TEXT_POOL_H

#include <stdbool.h>
#include <stdio.h>

struct report_pool;
struct report_process;

/* If ALL is set, prints a section about each pool. Otherwise prints one line, and more lines only
 * about problems. Prints nothing if no pool was on and no allocation was refused. */
void text_pool(FILE *out, const struct report_process *process, bool all);

/* Prints "device 0, device memory" or "OpenCL buffers". */
void text_pool_name(FILE *out, const struct report_pool *pool);

#endif
