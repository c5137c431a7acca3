/* SPDX-License-Identifier: MIT
 *
 * The files of a gate, as options name them: loads them, and rewrites the baseline. Prints
 * errors. Must not judge.
 */
#ifndef GPULEAK_TOOLS_GATE_H
#define GPULEAK_TOOLS_GATE_H

#include <stddef.h>

struct judge_input;
struct report;

struct gate { /* starts as { 0 } */
	struct baseline *baseline;
	struct budgets *budgets;
	struct only_at *only_at;
};

/* Loads what opt_values names. FAILED is called with a line for each file that is missing or
 * can't be understood. How many those were. */
int gate_load(struct gate *gate, void (*failed)(void *data, const char *error), void *data);

/* Sets in *INPUT what was loaded. */
void gate_input(const struct gate *gate, struct judge_input *input);

/* Returns true if an option or flag requests a verdict. */
int gate_wanted(void);
/* Returns false if only --max-growth requests a verdict: a service may end with leaks. */
int gate_judges_leaks(void);

/* Writes the leaks of REPORT to the file of --baseline, completely or not at all, prints the
 * changes, and uses it as GATE's baseline. 0, or -errno with a line in ERROR. */
int gate_update_baseline(struct gate *gate, const struct report *report, char *error,
			 size_t error_size);

void gate_finish(struct gate *gate);

#endif
