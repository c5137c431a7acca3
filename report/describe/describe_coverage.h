/* SPDX-License-Identifier: MIT
 *
 * Coverage as text: one line for the normal report, and a section for -v.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_COVERAGE_H
#define GPULEAK_REPORT_DESCRIBE_COVERAGE_H

#include <stdio.h>

struct report_process;

/* Prints "coverage: CUDA intercepted via linked calls; not seen: libx.so (RTLD_DEEPBIND)". Prints
 * nothing if the ledger has no observations about coverage. */
void describe_coverage(FILE *out, const struct report_process *process);

/* Prints every route, module and function. */
void describe_all_coverage(FILE *out, const struct report_process *process);

#endif
