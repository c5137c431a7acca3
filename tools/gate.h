/* SPDX-License-Identifier: MIT
 *
 * The files of the gate's options: loads them, and rewrites the baseline. Prints errors. Must
 * not decide the gate.
 */
#ifndef GPULEAK_TOOLS_GATE_H
#define GPULEAK_TOOLS_GATE_H

#include <stdbool.h>
#include <stddef.h>

struct judge_input;
struct report;

struct gate { /* starts as { 0 } */
	struct pattern_file *baseline;
	struct pattern_file *budgets;
	struct pattern_file *only_at;
};

/* Loads the files that opt_values names. Calls FAILED with a line for each missing or invalid file.
 * Returns the number of these files. */
int gate_load(struct gate *gate, void (*failed)(void *data, const char *error), void *data);

/* Stores the loaded files in *INPUT. GATE still owns them. */
void gate_input(const struct gate *gate, struct judge_input *input);

/* Returns true if an option or flag turns the gate on. */
bool gate_wanted(void);
/* Returns false if only --max-growth turns the gate on: then the process may end with leaks,
 * because it is a service. */
bool gate_judges_leaks(void);

/* Writes the leaks of REPORT to the file of --baseline, replaces the file only when it is complete,
 * and prints the changes. GATE uses the new baseline. Returns 0, or -errno with a line in ERROR. */
int gate_update_baseline(struct gate *gate, const struct report *report, char *error,
			 size_t error_size);

void gate_finish(struct gate *gate);

#endif
