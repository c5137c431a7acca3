/* SPDX-License-Identifier: MIT
 *
 * The table of report formats with their printers. enum option_format has the words of --format.
 * Must not depend on the contents of a format.
 */
#ifndef GPULEAK_REPORT_FORMATS_H
#define GPULEAK_REPORT_FORMATS_H

#include <stdbool.h>
#include <stdio.h>

#include "ledger/options.h"

struct judgement;
struct report;

struct report_format {
	/* Writes all of REPORT to OUT. JUDGEMENT is NULL if no gate was requested. Names in a
	 * report come from the traced program and may have any bytes, so each format escapes them.
	 * Returns 0, or -EIO if writing to OUT failed. */
	int (*print)(const struct report *report, const struct judgement *judgement, FILE *out);
	/* NULL, or a function that writes a summary. The command appends the summary to the file
	 * that the environment variable `summary_variable` names. */
	int (*summary)(const struct report *report, const struct judgement *judgement, FILE *out);
	const char *summary_variable;
	size_t summary_bytes_max; /* limit of the size of the whole file */
	bool for_files; /* not readable for people, so it is not written to a terminal */
	bool all_sites; /* loaded_ledger.all_sites must be set */
	bool only_memory; /* the format cannot contain invalid frees and notes */
	/* the format contains the memory of devices even if the report has no findings */
	bool complete;
};

const struct report_format *report_format(enum option_format format);

#endif
