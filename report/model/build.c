/* SPDX-License-Identifier: MIT
 *
 * Builds the model of one process from its ledger. build() calls a function for each part of the
 * model. This file reads two parts itself: the identity of the process, and its invalid frees. An
 * invalid reference in the ledger becomes the value "unknown", and the report gets a note. Each
 * part takes at most O(N log N) time for a ledger of N bytes.
 */
#include "report/model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/load/process_alive.h"
#include "report/model/builder.h"
#include "report/load/load.h"
#include "report/suppress/suppress.h"

const char build_unknown[] = "unknown";

static int read_event(struct builder *b, const struct ledger_event *event, uint64_t bytes,
		      struct report_event *ret)
{
	int r = build_text(b, event->api, &ret->api);

	ret->bytes = ret->api ? bytes : 0;
	return r < 0 ? r : build_stack(b, event->stack, &ret->stack);
}

static int read_error(struct builder *b, const struct ledger_error *record,
		      struct report_error *ret)
{
	int r = build_text(b, record->type, &ret->type);

	if (r == 0)
		r = build_text(b, record->api, &ret->api);
	if (r == 0)
		r = build_text(b, record->kind, &ret->kind);
	if (r == 0)
		r = build_stack(b, record->stack, &ret->stack);
	if (r == 0)
		r = read_event(b, &record->allocated, record->block_bytes, &ret->allocated);
	if (r == 0)
		r = read_event(b, &record->freed, 0, &ret->freed);
	if (r == 0)
		r = read_event(b, &record->earlier_allocated, record->earlier_bytes,
			       &ret->earlier_allocated);
	if (r == 0)
		r = read_event(b, &record->earlier_freed, 0, &ret->earlier_freed);
	if (!ret->type)
		ret->type = "unknown";
	if (!ret->api)
		ret->api = "unknown";
	ret->device = record->device;
	ret->result = record->result == LEDGER_NO_ANSWER ? REPORT_NO_ANSWER : record->result;
	ret->address = record->address;
	ret->block_address = record->block_address;
	ret->block_bytes = record->block_bytes;
	ret->other_range = (record->flags & LEDGER_ERROR_OTHER_RANGE) != 0;
	ret->asked_bytes = record->asked_bytes;
	return r;
}

static int read_errors(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_error *record;
	size_t count = 0;
	int r = 0;

	while (ledger_next(b->view, &walk, LEDGER_CHUNK_ERRORS, sizeof(*record)))
		count++;
	process->errors = arena_alloc(b->arena, count * sizeof(*process->errors));
	if (!process->errors)
		return -ENOMEM;
	walk = (struct ledger_walk){ 0 };
	while (r == 0 && process->error_count < count &&
	       (record = ledger_next(b->view, &walk, LEDGER_CHUNK_ERRORS, sizeof(*record))))
		if (record->type) /* 0: the writer withdrew the record */
			r = read_error(b, record, &process->errors[process->error_count++]);
	process->summary.errors = ledger_header(b->view)->errors;
	if (process->summary.errors < process->error_count)
		process->summary.errors = process->error_count;
	return r;
}

static int read_command(struct builder *b)
{
	uint32_t length = 0;
	const char *bytes = ledger_string(b->view, ledger_header(b->view)->command, &length);
	const char *end = bytes ? bytes + length : NULL;
	size_t count = 0;
	const char **words;

	words = arena_alloc(b->arena, (length + 1) * sizeof(*words));
	if (!words)
		return -ENOMEM;
	while (bytes && bytes < end) {
		size_t word = strnlen(bytes, (size_t)(end - bytes));

		words[count] = arena_text(b->arena, bytes, word);
		if (!words[count++])
			return -ENOMEM;
		bytes += word + 1;
	}
	b->process->command = words;
	b->process->command_count = count;
	return 0;
}

int build_identity(struct builder *b, const char *name)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_process *process = b->process;
	const char *path, *slash;
	int r = read_command(b);

	if (r == 0)
		r = build_text(b, header->exe, &process->exe);
	if (r == 0)
		r = build_text(b, header->host, &process->host);
	if (r < 0)
		return r;
	process->pid = header->pid;
	process->start_real_ns = header->start_real_ns;
	process->no_gpu = header->no_gpu;
	path = process->exe ? process->exe : process->command_count ? process->command[0] : "?";
	slash = strrchr(path, '/');
	process->program = slash && slash[1] ? slash + 1 : path;
	process->ledger = arena_printf(b->arena, "%s", name);
	return process->ledger ? 0 : -ENOMEM;
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

static int build(struct builder *b, const struct loaded_ledger *ledger,
		 struct pattern_file *suppressions)
{
	int r = build_identity(b, ledger->name);

	if (r == 0)
		r = build_program(b, ledger->program_suppressions);
	if (r == 0)
		r = build_modules(b);
	build_age(b, ledger->older_ns);
	if (r == 0)
		r = build_reasons(b);
	if (r == 0)
		r = build_groups(b);
	if (r == 0)
		r = build_division(b);
	if (r == 0)
		r = build_objects(b);
	if (r == 0)
		r = build_group_histories(b);
	if (r == 0)
		r = build_deferred(b);
	if (r == 0)
		r = build_late(b);
	if (r == 0)
		r = build_timeline(b);
	if (r == 0)
		r = read_errors(b);
	if (r == 0)
		r = build_driver_memory(b);
	if (r == 0)
		r = build_driver_costs(b);
	if (r == 0)
		r = build_pools(b);
	if (r == 0)
		r = build_out_of_memory(b);
	if (r == 0)
		r = build_peaks(b);
	if (r < 0)
		return r;
	build_ended(b);
	build_sums(b);
	r = classify_groups(b, suppressions);
	if (r == 0)
		r = classify_deferred(b, suppressions);
	if (r == 0)
		r = build_ipc(b);
	if (r == 0)
		r = build_growth(b, suppressions);
	if (r == 0)
		r = build_named_steps(b);
	if (r == 0)
		r = build_kinds(b);
	if (r == 0)
		r = build_suballocations(b);
	if (r == 0)
		r = classify_suballocations(b, suppressions);
	if (r == 0)
		r = build_keepers(b);
	if (r == 0 && ledger->all_sites)
		r = build_sites(b);
	if (r == 0)
		r = build_coverage(b);
	return r < 0 ? r : build_notes(b, ledger);
}

int build_start(struct builder *b, const struct loaded_ledger *ledger,
		struct symbolizer *symbolizer)
{
	*b = (struct builder){ .view = &ledger->view, .choice = &ledger->choice,
			       .symbolizer = symbolizer,
			       .frames_left = ledger->view.bytes / sizeof(uint64_t),
			       .letters_left = ledger->view.bytes };
	b->process = calloc(1, sizeof(*b->process));
	b->arena = calloc(1, sizeof(*b->arena));
	if (!b->process || !b->arena) {
		free(b->process);
		free(b->arena);
		return -ENOMEM;
	}
	b->process->arena = b->arena;
	return 0;
}

void build_finish(struct builder *b)
{
	table_finish(&b->texts);
	table_finish(&b->stacks);
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
	table_finish(&b->ignored_site_refs);
	table_finish(&b->mapped_refs);
	table_finish(&b->wait_refs);
	table_finish(&b->mappings);
}

int report_process_build(const struct loaded_ledger *ledger, struct symbolizer *symbolizer,
			 struct pattern_file *suppressions, struct report_process **ret)
{
	struct builder b;
	int r = build_start(&b, ledger, symbolizer);

	if (r < 0)
		return r;
	r = build(&b, ledger, suppressions);
	build_finish(&b);
	if (r < 0)
		report_process_destroy(b.process);
	else
		*ret = b.process;
	return r;
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
