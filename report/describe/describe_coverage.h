/* SPDX-License-Identifier: MIT
 *
 * Coverage as text: one line for the normal report, and a section for -v.
 */
#ifndef GPULEAK_REPORT_TEXT_COVERAGE_H
#define GPULEAK_REPORT_TEXT_COVERAGE_H

#include <stdio.h>

struct report_process;

/* Prints "coverage: CUDA intercepted via linked calls; not seen: libx.so (RTLD_DEEPBIND)". Prints
 * nothing if the ledger has no observations about coverage. */
void text_coverage(FILE *out, const struct report_process *process);

/* Prints every route, module and function. */
void text_coverage_all(FILE *out, const struct report_process *process);

#endif
