/* SPDX-License-Identifier: MIT
 *
 * Builds the model of one process from its ledger. build() calls a function for each part of the
 * model. This file reads two parts itself: the identity of the process, and its invalid frees. An
 * invalid reference in the ledger becomes the value "unknown", and the report gets a note. Each
 * part takes at most O(N log N) time for a ledger of N bytes.
 */
#include "report/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "report/load/process_alive.h"
#include "report/model/builder.h"
#include "report/load/load.h"
#include "report/suppress/suppress.h"

const char build_unknown[] = "unknown";

static struct report_event read_event(struct builder *b, const struct ledger_event *event,
				      uint64_t bytes)
{
	return build_event(b, event->api, event->stack, bytes);
}

static struct report_error read_error(struct builder *b, const struct ledger_error *record)
{
	return (struct report_error){
		.type = build_name(b, record->type),
		.api = build_name(b, record->api),
		.kind = build_text(b, record->kind),
		.device = record->device,
		.result = record->result == LEDGER_NO_ANSWER ? REPORT_NO_ANSWER : record->result,
		.address = record->address,
		.block_address = record->block_address,
		.block_bytes = record->block_bytes,
		.other_range = (record->flags & LEDGER_ERROR_OTHER_RANGE) != 0,
		.asked_bytes = record->asked_bytes,
		.stack = build_stack(b, record->stack),
		.allocated = read_event(b, &record->allocated, record->block_bytes),
		.freed = read_event(b, &record->freed, 0),
		.earlier_allocated =
			read_event(b, &record->earlier_allocated, record->earlier_bytes),
		.earlier_freed = read_event(b, &record->earlier_freed, 0),
	};
}

static void read_errors(struct builder *b)
{
	size_t count = COUNT_RECORDS(b, ledger_next_error);
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_error *record;

	process->errors = arena_alloc(b->arena, count * sizeof(*process->errors));
	while (process->error_count < count && (record = ledger_next_error(b->view, &walk)))
		if (record->type) /* 0: the writer withdrew the record */
			process->errors[process->error_count++] = read_error(b, record);
	process->summary.errors = ledger_header(b->view)->errors;
	if (process->summary.errors < process->error_count)
		process->summary.errors = process->error_count;
}

static void read_command(struct builder *b)
{
	uint32_t length = 0;
	const char *bytes = ledger_string(b->view, ledger_header(b->view)->command, &length);
	const char *end = bytes ? bytes + length : NULL;
	size_t count = 0;
	const char **words;

	words = arena_alloc(b->arena, (length + 1) * sizeof(*words));
	while (bytes && bytes < end) {
		size_t word = strnlen(bytes, (size_t)(end - bytes));

		words[count++] = arena_text(b->arena, bytes, word);
		bytes += word + 1;
	}
	b->process->command = words;
	b->process->command_count = count;
}

void build_identity(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_process *process = b->process;
	const char *path, *slash;

	read_command(b);
	process->exe = build_text(b, header->exe);
	process->host = build_text(b, header->host);
	process->pid = header->pid;
	process->start_real_ns = header->start_real_ns;
	process->no_gpu = header->no_gpu;
	path = process->exe ? process->exe : process->command_count ? process->command[0] : "?";
	slash = strrchr(path, '/');
	process->program = slash && slash[1] ? slash + 1 : path;
	process->ledger = arena_printf(b->arena, "%s", b->ledger->name);
}

void build_ended(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_process *process = b->process;

	switch (header->ended) {
	case LEDGER_EXIT:
		report_process_set_ended(process, REPORT_EXIT, header->status);
		break;
	case LEDGER__EXIT:
		report_process_set_ended(process, REPORT__EXIT, header->status);
		break;
	case LEDGER_EXEC:
		report_process_set_ended(process, REPORT_EXEC, 0);
		break;
	case LEDGER_RUNNING:
		report_process_set_ended(process,
					 process_alive(header->pid, header->start_ticks,
						       process->host)
						 ? REPORT_RUNNING
						 : REPORT_UNKNOWN, 0);
		break;
	default:
		report_process_set_ended(process, REPORT_UNKNOWN, 0);
	}
}

/* ---- steps ---- */

/* STEP(function, needs): the steps that fill in a process. NEEDS are the steps that must run before
 * it; N(function) is one of them. */
#define STEPS                                                                                     \
	STEP(build_identity, 0)                                                                   \
	STEP(build_program, 0)                                                                    \
	STEP(build_modules, 0) /* of the stacks */                                                \
	STEP(build_age, N(build_identity))                                                        \
	STEP(build_reasons, 0)                                                                    \
	STEP(build_groups, N(build_modules) | N(build_age) | N(build_reasons))                    \
	STEP(build_division, N(build_groups))                                                     \
	STEP(build_objects, N(build_groups))                                                      \
	STEP(build_group_histories, N(build_groups))                                              \
	STEP(build_deferred, N(build_modules) | N(build_reasons))                                 \
	STEP(build_late, N(build_modules))                                                        \
	STEP(build_timeline, 0)                                                                   \
	STEP(read_errors, N(build_modules))                                                       \
	STEP(build_driver_memory, N(build_modules))                                               \
	STEP(build_driver_costs, N(build_modules))                                                \
	STEP(build_pools, N(build_modules))                                                       \
	STEP(build_out_of_memory, N(build_modules))                                               \
	STEP(build_peaks, N(build_modules))                                                       \
	STEP(build_ended, N(build_identity))                                                      \
	STEP(build_sums, N(build_groups) | N(build_deferred))                                     \
	STEP(classify_groups, N(build_division) | N(build_objects) | N(build_group_histories) |   \
				      N(build_program))                                           \
	STEP(classify_deferred, N(build_deferred) | N(build_program))                             \
	STEP(build_ipc, N(classify_groups))                                                       \
	STEP(build_growth, N(build_modules))                                                      \
	STEP(build_named_steps, 0)                                                                \
	STEP(build_kinds, N(classify_groups))                                                     \
	STEP(build_suballocations, N(build_division))                                             \
	STEP(classify_suballocations, N(build_suballocations) | N(build_program))                 \
	STEP(build_keepers, N(classify_groups) | N(build_suballocations))                         \
	STEP(build_sites, N(classify_groups))                                                     \
	STEP(build_coverage, 0)                                                                   \
	STEP(build_notes, N(build_notes) - 1) /* all above: it has what they could not read */

enum {
#define STEP(function, needs) STEP_##function,
	STEPS
#undef STEP
	STEP_COUNT,
};

static const struct {
	void (*build)(struct builder *b);
	uint64_t needs; /* bit n: step n */
} steps[STEP_COUNT] = {
#define N(function) ((uint64_t)1 << STEP_##function)
#define STEP(function, needs) { function, needs },
	STEPS
#undef STEP
#undef N
};

/* Runs step NUMBER and what it needs, each step once. Bit n of *DONE: step n has begun. */
static void run_step(struct builder *b, unsigned int number, uint64_t *done)
{
	if (*done >> number & 1)
		return;
	*done |= (uint64_t)1 << number;
	for (unsigned int i = 0; i < STEP_COUNT; i++)
		if (steps[number].needs >> i & 1)
			run_step(b, i, done);
	steps[number].build(b);
}

static void build(struct builder *b)
{
	uint64_t done = 0;

	for (unsigned int i = 0; i < STEP_COUNT; i++)
		run_step(b, i, &done);
}

void build_start(struct builder *b, const struct loaded_ledger *ledger,
		 struct symbolizer *symbolizer)
{
	*b = (struct builder){ .ledger = ledger, .view = &ledger->view, .choice = &ledger->choice,
			       .symbolizer = symbolizer,
			       .process = calloc(1, sizeof(*b->process)),
			       .arena = calloc(1, sizeof(*b->arena)),
			       .frames_left = ledger->view.bytes / sizeof(uint64_t),
			       .letters_left = ledger->view.bytes };
	b->process->arena = b->arena;
}

void build_finish(struct builder *b)
{
	table_finish(&b->texts);
	table_finish(&b->stacks);
	table_finish(&b->sites);
	table_finish(&b->groups);
	table_finish(&b->text_refs);
	table_finish(&b->stack_refs);
	table_finish(&b->site_refs);
	table_finish(&b->known_frames);
	table_finish(&b->code_refs);
	table_finish(&b->stack_code_refs);
	table_finish(&b->stack_codes);
	table_finish(&b->python_locations);
	table_finish(&b->places_refs);
	table_finish(&b->mapped_refs);
	table_finish(&b->wait_refs);
	table_finish(&b->mappings);
	free(b->notes);
}

struct report_process *report_process_build(const struct loaded_ledger *ledger,
					    struct symbolizer *symbolizer,
					    struct pattern_file *suppressions)
{
	struct builder b;

	build_start(&b, ledger, symbolizer);
	b.suppressions = suppressions;
	build(&b);
	build_finish(&b);
	return b.process;
}

void report_process_destroy(struct report_process *process)
{
	if (!process)
		return;
	pattern_file_destroy(process->program_suppressions);
	arena_finish(process->arena);
	free(process->arena);
	free(process);
}
