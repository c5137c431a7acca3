/* SPDX-License-Identifier: MIT
 *
 * The files that a gate is judged by, as options name them: loads them, and writes the
 * baseline anew. Says on stderr what is wrong with them; judges nothing.
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

/* Whether an option or flag asks for a verdict. */
int gate_wanted(void);
/* Not if --max-growth alone asks: a service may end with what it holds. */
int gate_judges_leaks(void);

/* Writes what REPORT leaks to the file of --baseline, whole or not at all, says how it
 * differs from before, and takes it for GATE's baseline. 0, or -errno with a line in ERROR. */
int gate_update_baseline(struct gate *gate, const struct report *report, char *error,
			 size_t error_size);

void gate_finish(struct gate *gate);

#endif
