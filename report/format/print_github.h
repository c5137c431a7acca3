/* SPDX-License-Identifier: MIT
 *
 * The report as workflow commands of GitHub Actions, which make annotations of the lines, and
 * as Markdown for the summary of the step.
 */
#ifndef GPULEAK_REPORT_PRINT_GITHUB_H
#define GPULEAK_REPORT_PRINT_GITHUB_H

#include <stdio.h>

struct judgement;
struct report;

/* At most 10 lines of each kind, as many as GitHub shows; see docs/reference/formats.md. */
int print_github(const struct report *report, const struct judgement *judgement, FILE *out);

/* The Markdown, of any length. */
int print_github_summary(const struct report *report, const struct judgement *judgement,
			 FILE *out);

#endif
