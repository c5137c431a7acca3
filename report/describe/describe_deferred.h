/* SPDX-License-Identifier: MIT
 *
 * Deferred frees in the text report.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_DEFERRED_H
#define GPULEAK_REPORT_DESCRIBE_DEFERRED_H

#include <stdbool.h>
#include <stdio.h>

struct report_leak;
struct report_process;

/* Prints the deferred frees. Prints their waiting times only if VERBOSE is set, or if the report
 * has more than one line in any case. */
void describe_deferred(FILE *out, const struct report_process *process, bool verbose);

/* Prints "released, but never unmapped: mapped at make_buffer (/abs/app.c:12)" for a LEAK with a
 * mapping. */
void describe_mapped(FILE *out, const struct report_leak *leak);
/* Prints the stacks of the mapping and of the release. */
void describe_mapping(FILE *out, const struct report_leak *leak);

/* Prints "12 released blocks, 1,024 bytes (1.0 KiB), held by a user event that was never set,
 * created at main (a.c:3)" for the deferred frees that make the gate fail
 * (report_deferred_fails()), and returns true. Prints nothing and returns false if PROCESS has no
 * such frees. */
bool describe_stuck(FILE *out, const struct report_process *process);

#endif
