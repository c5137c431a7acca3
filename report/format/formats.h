/* SPDX-License-Identifier: MIT
 *
 * The formats of a report, one row each with its printer. The words of --format are those of
 * enum option_format. Must not know the contents of a format.
 */
#ifndef GPULEAK_REPORT_FORMATS_H
#define GPULEAK_REPORT_FORMATS_H

#include <stdio.h>

#include "ledger/options.h"

struct judgement;
struct report;

struct report_format {
	/* Writes all of REPORT to OUT. JUDGEMENT is NULL if no verdict was requested. Names in a
	 * report come from the traced program and may hold any bytes: each format escapes them for
	 * its readers. 0, -ENOMEM, or -EIO if OUT failed. */
	int (*print)(const struct report *report, const struct judgement *judgement, FILE *out);
	/* Writes the summary that is appended to the file named by summary_variable; or NULL. */
	int (*summary)(const struct report *report, const struct judgement *judgement, FILE *out);
	const char *summary_variable;
	size_t summary_bytes_max; /* of the whole file */
	int for_files; /* not for people: not written to a terminal */
	int all_sites; /* needs ledgers with all_sites */
	int only_memory; /* has no place for wrong frees and notes */
	int complete; /* has a place for what the devices hold, also where nothing is wrong */
};

const struct report_format *report_format(enum option_format format);

#endif
