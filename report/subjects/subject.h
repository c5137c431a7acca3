/* SPDX-License-Identifier: MIT
 *
 * The table of subjects. A subject is one thing that a report can say, for example that a pool was
 * on. It is one file of this folder, with all that the formats write about it, and one row of
 * subjects.def. The formats are loops over the rows. Must not depend on a format.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct builder;
struct findings;
struct judge_input;
struct judgement;
struct loaded_ledger;
struct pattern_file;
struct report;
struct symbolizer;

/* The process that a format writes, and how. */
struct subject_view {
	const struct report_process *process;
	/* text: those of all processes */
	const struct findings *findings;
	/* the parallel job that the process belongs to, or NULL */
	const struct ranks *ranks;
	bool verbose;
	bool is_wrong; /* subjects_are_wrong(): the text report has more than one line */
	/* JSON: add words of the text report, for the HTML page */
	bool has_words;
};

/* Members are NULL or 0 if the subject has no such part. */
struct subject {
	/* Reads the subject from the ledger (report/model/builder.h), after the shared steps and
	 * after NEEDS. */
	void (*build)(struct builder *b);
	const struct subject *needs;
	/* build() is only called if the ledger has one of these: a set of CHUNK_BIT(). 0: always */
	uint64_t chunks;
	/* PART() of the member that is 0 or NULL if the process has nothing of the subject. The
	 * formats then skip the subject. 0: they never skip it */
	size_t only_if;
	bool has_keys_always; /* json() is called in any case */
	/* Prints what is wrong, with its stacks. */
	void (*finding)(FILE *out, const struct subject_view *view);
	/* Prints the rest, below the findings of all subjects. */
	void (*details)(FILE *out, const struct subject_view *view);
	/* PART() of the member that is not 0 if a report needs more than one line. 0: is_wrong(),
	 * if it is not NULL, returns that */
	size_t wrong_if;
	bool (*is_wrong)(const struct report_process *process);
	/* The first key of the subject in JSON, if it is a list: see LIST(). */
	struct subject_list {
		const char *key;
		size_t items, count; /* PART() of two members of the process */
		size_t item_bytes;
		/* one of them makes the value of an item */
		json_t *(*of)(const void *item);
		json_t *(*of_view)(const void *item, const struct subject_view *view);
	} list;
	/* Sets the other keys in OBJECT, which is the JSON of the process. */
	void (*json)(json_t *object, const struct subject_view *view);
	/* Metrics, and other numbers that several formats write. */
	const struct figures *figures;
	/* Prints metrics that are not numbers of a struct. */
	void (*metrics)(FILE *out, const struct report *report, const struct findings *findings);
	/* Adds a reason for each thing of PROCESS for which the gate fails. */
	void (*judge)(struct judgement *judgement, const struct judge_input *input,
		      const struct report_process *process);
};

/* 1 + the offset of MEMBER, which has the size of a pointer. */
#define PART(member) (1 + offsetof(struct report_process, member))
/* Initializes the list with KEY from two members of the process, and .of or .of_view. */
#define LIST(key, items, count, ...)                                                      \
	.list = { key, PART(items), PART(count),                                          \
		  sizeof(*((struct report_process *)NULL)->items), __VA_ARGS__ }
#define CHUNK_BIT(name) ((uint64_t)1 << LEDGER_CHUNK_##name)

#define SUBJECT(name, finding, details, metrics, judge) extern const struct subject subject_##name;
#include "report/subjects/subjects.def"
#undef SUBJECT

/* Returns the report on LEDGER; report_process_destroy() destroys it. Counts matches in
 * SUPPRESSIONS, which may be NULL. If the ledger does not record an end, checks in /proc if the
 * process still runs. */
struct report_process *report_process_build(const struct loaded_ledger *ledger,
					    struct symbolizer *symbolizer,
					    struct pattern_file *suppressions);

/* Returns true unless the member that SUBJECT->only_if names is 0 or NULL in PROCESS. */
bool subject_is_there(const struct subject *subject, const struct report_process *process);
/* Builds SUBJECT and what it needs, unless B has it. */
void subject_build(const struct subject *subject, struct builder *b);

void subjects_print_findings(FILE *out, const struct subject_view *view);
void subjects_print_details(FILE *out, const struct subject_view *view);
bool subjects_are_wrong(const struct report_process *process);
void subjects_add_json(json_t *object, const struct subject_view *view);
/* Returns figures_page_json() of each subject that has figures, by the subject's name. */
json_t *subjects_page_figures(void);
void subjects_print_metrics(FILE *out, const struct report *report,
			    const struct findings *findings);
void subjects_judge(struct judgement *judgement, const struct judge_input *input,
		    const struct report_process *process);
