/* SPDX-License-Identifier: MIT
 *
 * The formats of a report, one row each: who renders it. The words of --format are those of
 * enum option_format. Owns the list, must not know what is in a format.
 */
#ifndef GPULEAK_REPORT_FORMATS_H
#define GPULEAK_REPORT_FORMATS_H

#include <stdio.h>

#include "ledger/options.h"

struct judgement;
struct report;

struct report_format {
	/* Writes REPORT to OUT, whole. JUDGEMENT is NULL where nobody asked for a verdict. Names
	 * in a report come from the traced program and may hold any bytes: each format makes
	 * them harmless for its own readers. 0, -ENOMEM, or -EIO if OUT took not all of it. */
	int (*print)(const struct report *report, const struct judgement *judgement, FILE *out);
	/* What is appended to the file that the variable names, if it is set; or NULL. */
	int (*summary)(const struct report *report, const struct judgement *judgement, FILE *out);
	const char *summary_variable;
	size_t summary_bytes_max; /* of the whole file */
	int for_files; /* not for people: not written to a terminal */
	int all_sites; /* wants ledgers with all_sites */
	int only_memory; /* has no place for wrong frees and notes */
	int complete; /* has a place for what the devices hold, also where nothing is wrong */
};

const struct report_format *report_format(enum option_format format);

#endif
