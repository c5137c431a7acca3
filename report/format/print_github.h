/* SPDX-License-Identifier: MIT
 *
 * The report as workflow commands of GitHub Actions, which show annotations at source lines, and
 * as Markdown for the summary of a step.
 */
#ifndef GPULEAK_REPORT_PRINT_GITHUB_H
#define GPULEAK_REPORT_PRINT_GITHUB_H

#include <stdio.h>

struct judgement;
struct report;

/* Prints at most 10 lines of each type, because GitHub shows no more. See
 * docs/reference/formats.md, and formats.h for the result. */
int print_github(const struct report *report, const struct judgement *judgement, FILE *out);

/* Prints the Markdown; its length is not limited. */
int print_github_summary(const struct report *report, const struct judgement *judgement,
			 FILE *out);

#endif
