/* SPDX-License-Identifier: MIT
 *
 * The report as a profile for pprof: a gzipped protocol buffer.
 */
#ifndef GPULEAK_REPORT_PRINT_PPROF_H
#define GPULEAK_REPORT_PRINT_PPROF_H

#include <stdio.h>

struct judgement;
struct report;

/* Writes one sample per call site, including sites that freed everything: needs ledgers with
 * all_sites. See docs/reference/formats.md and formats.h. */
int print_pprof(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
