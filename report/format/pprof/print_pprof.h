/* SPDX-License-Identifier: MIT
 *
 * The report as a profile for pprof: a gzipped protocol buffer.
 */
#ifndef GPULEAK_REPORT_PRINT_PPROF_H
#define GPULEAK_REPORT_PRINT_PPROF_H

#include <stdio.h>

struct judgement;
struct report;

/* Writes one sample per call site, including sites whose blocks were all freed, so the ledgers must
 * have all_sites set. See docs/reference/formats.md, and formats.h for the result. */
int print_pprof(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
