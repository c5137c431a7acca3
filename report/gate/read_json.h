/* SPDX-License-Identifier: MIT
 *
 * Reads a JSON report back for comparison: processes, leaks, number of errors. Does not trust
 * the file.
 */
#ifndef GPULEAK_REPORT_READ_JSON_H
#define GPULEAK_REPORT_READ_JSON_H

#include <stddef.h>

struct report;

/* Adds the processes of the report in the file at PATH to REPORT. 0, or -errno with a line in
 * ERROR. */
int report_read_json(const char *path, struct report *report, char *error, size_t error_size);

/* The same for LENGTH bytes of TEXT, which errors call NAME. */
int report_parse_json(const char *text, size_t length, const char *name, struct report *report,
		      char *error, size_t error_size);

#endif
