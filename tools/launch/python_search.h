/* SPDX-License-Identifier: MIT
 *
 * `gpuleak run --keepers`: Python programs search what keeps their device memory. The search itself
 * is in python/gpuleak/_recorded_keepers.py. Not thread-safe.
 */
#pragma once

#include <limits.h>

struct report;

struct python_search {
	char module[PATH_MAX]; /* directory of sitecustomize.py; "": there is none */
};

/* Finds the Python module. Prints a line if there is none. */
void python_search_start(struct python_search *search);

/* Sets the environment of the program. The child calls it before exec. */
void python_search_prepare(const struct python_search *search);

/* Adds a remark to REPORT for each process in which memory accumulates, but nothing was
 * found. */
void python_search_report(const struct python_search *search, struct report *report);
