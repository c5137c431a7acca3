/* SPDX-License-Identifier: MIT
 *
 * Switches the caches of frameworks off for a program that is about to start, and reports which
 * ones, by the rows of bypass.def. Not thread-safe.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "report/model/model.h"

struct symbolizer;

enum {
	BYPASS_COUNT = 0
#define BYPASS(framework, setting, cache, memory, import, changes) +1
#include "tools/launch/bypass.def"
#undef BYPASS
};

struct bypass {
	struct report_bypass rows[BYPASS_COUNT];
	/* directory of sitecustomize.py; "": there is none, so Python calls cannot be made */
	char module[PATH_MAX];
};

/* Decides for each row whether its cache is switched off. Prints a line for each that is not. Drops
 * the rules of SYMBOLIZER that would take memory in use for that of such a cache. */
void bypass_start(struct bypass *bypass, struct symbolizer *symbolizer);

/* Sets the environment of the program. The child calls it before exec. The Python module writes
 * notes for bypass_report() to DIRECTORY ("": nowhere). */
void bypass_prepare(const struct bypass *bypass, const char *directory);

/* Adds to REPORT what was switched off, what that changes, and which caches the program uses by its
 * own choice. Calls FAILED with DATA and a sentence for each other cache that was in use all the
 * same. BYPASS must live as long as REPORT. */
typedef void bypass_failed_fn(void *data, const char *sentence);
void bypass_report(struct bypass *bypass, struct report *report, const char *directory,
		   bypass_failed_fn *failed, void *data);

/* Returns true if a note of the Python module can have this name. */
bool bypass_is_note(const char *name);

void bypass_finish(struct bypass *bypass);
