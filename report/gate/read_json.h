/* SPDX-License-Identifier: MIT
 *
 * Reads processes, leaks and the number of errors from a JSON report, for comparison. Does not
 * trust the file.
 */
#pragma once

#include <stddef.h>

struct report;

/* Adds the processes of the JSON report at PATH to REPORT. Suppresses what REPORT's suppressions
 * match. Returns 0, or -errno with a line in ERROR. */
int report_read_json(const char *path, struct report *report, char *error, size_t error_size);

/* Does the same for a report in memory, the LENGTH bytes of TEXT. NAME describes the text in error
 * messages. */
int report_parse_json(const char *text, size_t length, const char *name, struct report *report,
		      char *error, size_t error_size);
