/* SPDX-License-Identifier: MIT
 *
 * Two subjects: frees that the driver refused although their block was live, and frees after the
 * driver had begun to shut down. If the block of a refused free was never freed, its leak names the
 * refused free, too.
 */
#include "report/subjects/common.h"

#include <inttypes.h>
#include <stdio.h>

#include "report/describe/kinds.h"

#define SHOWN_MAX 20 /* JSON has all */

/* ---- build ---- */

static bool is_same(const struct report_refused_free *a, const struct report_refused_free *b)
{
	return a->api == b->api && a->result == b->result && a->stack == b->stack &&
	       a->allocated.api == b->allocated.api && a->allocated.stack == b->allocated.stack &&
	       a->after_shutdown == b->after_shutdown && a->broken == b->broken;
}

/* Returns the entry of the process that is like NEW, which it adds if needed. */
static struct report_refused_free *intern_entry(struct report_process *process,
						const struct report_refused_free *new)
{
	struct report_refused_free *list = process->refused_frees;

	for (size_t i = 0; i < process->refused_free_count; i++)
		if (is_same(&list[i], new))
			return &list[i];
	list[process->refused_free_count] = *new;
	return &list[process->refused_free_count++];
}

/* Names ENTRY in the leak of the blocks of SITE. */
static void name_in_leak(struct report_process *process, const struct report_site *site,
			 const struct report_refused_free *entry)
{
	for (size_t i = 0; i < process->leak_count; i++)
		if (process->leaks[i].site == site && !process->leaks[i].refused)
			process->leaks[i].refused = entry;
}

/* Returns true if one of the blocks that RECORD names was never freed. */
static bool has_block(const struct builder *b, const struct ledger_refused_free *record)
{
	for (unsigned int i = 0; i < LEDGER_REFUSED_FREE_BLOCKS; i++) {
		const struct ledger_block *block = build_named_block(b, record->block[i]);

		if (block && ledger_block_is_live(block->state, block->marked))
			return true;
	}
	return false;
}

static void read_record(struct builder *b, const struct ledger_refused_free *record)
{
	const struct ledger_site *site = ledger_site(b->view, record->site);
	const struct report_refused_free new = {
		.api = build_name(b, record->api),
		.result = record->result,
		.address = record->address,
		.stack = build_stack(b, record->stack),
		.allocated = build_event(b, site ? site->api : 0, site ? site->stack : 0,
					 record->bytes),
		.freed_later = !record->flags,
		.after_shutdown = record->flags == LEDGER_REFUSED_FREE_LATE,
		.broken = record->flags == LEDGER_REFUSED_FREE_BROKEN,
	};
	struct report_refused_free *entry = intern_entry(b->process, &new);

	entry->count = add_bounded(entry->count, record->count);
	b->process->summary.refused_frees =
		add_bounded(b->process->summary.refused_frees, record->count);
	if (has_block(b, record)) {
		entry->freed_later = false;
		name_in_leak(b->process, &intern_site(b, site)->site, entry);
	}
}

static void build(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_refused_free *record;
	size_t read = 0;

	process->refused_frees = arena_alloc(b->arena, LEDGER_REFUSED_FREES_MAX *
							       sizeof(*process->refused_frees));
	while (read++ < LEDGER_REFUSED_FREES_MAX &&
	       (record = ledger_next_refused_free(b->view, &walk)))
		read_record(b, record);
}

/* ---- text ---- */

/* Prints the name of the result, or its number. */
static void print_result(FILE *out, const struct report_refused_free *refused)
{
	const char *name = result_name(refused->api, refused->result);

	if (name)
		fputs(name, out);
	else
		fprintf(out, "%d", refused->result);
}

void describe_refused_free(FILE *out, const char *before, const struct report_refused_free *refused,
			   const char *after, bool whole)
{
	if (!refused)
		return;
	fprintf(out, "%s refused free at ", before);
	describe_place_and_caller(out, refused->stack, whole);
	fputs(": ", out);
	print_result(out, refused);
	fputs(after, out);
}

bool describe_late_frees(FILE *out, const char *before, const struct report_process *process,
			 bool whole)
{
	const struct report_refused_free *first = NULL;
	uint64_t count = 0;

	EACH_ITEM(process->refused_frees, process->refused_free_count, refused) {
		if (!refused->after_shutdown)
			continue;
		count = add_bounded(count, refused->count);
		first = first ? first : refused;
	}
	if (!first)
		return false;
	fprintf(out, "%s%s came too late, when the driver had shut down (", before,
		COUNT(count, "free"));
	print_result(out, first);
	fprintf(out, "), %sat ", count == first->count ? "" : "the first ");
	describe_place_and_caller(out, first->stack, whole);
	return true;
}

static void print_broken(FILE *out, const struct report_refused_free *refused)
{
	fprintf(out, "%s failed with ", COUNT(refused->count, "free"));
	print_result(out, refused);
	fputs(", an error after which each call in the context fails: the blocks count as freed\n",
	      out);
}

static void print_entry(FILE *out, const struct report_refused_free *refused, bool whole)
{
	fputs(refused->after_shutdown ? "Freed too late: " : "Refused free: ", out);
	print_escaped(out, refused->api);
	fputs(" at ", out);
	describe_place(out, refused->stack, whole);
	fputs(": ", out);
	print_result(out, refused);
	if (refused->count > 1)
		fprintf(out, ", %s times", NUMBER(refused->count));
	fprintf(out, "; %s of ", SIZE(refused->allocated.bytes));
	describe_place(out, refused->allocated.stack, whole);
	fputs(refused->after_shutdown ? ", when the driver had shut down: no leak\n"
	      : refused->freed_later  ? ", freed later\n"
				      : ", never freed\n", out);
}

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	size_t shown = 0, more = 0;

	EACH_ITEM(process->refused_frees, process->refused_free_count, refused) {
		if (refused->after_shutdown && !view->verbose)
			continue;
		if (shown++ >= SHOWN_MAX)
			more++;
		else if (refused->broken)
			print_broken(out, refused);
		else
			print_entry(out, refused, view->verbose);
	}
	if (more)
		fprintf(out, "And %s; --format json lists all\n",
			COUNT(more, "more place"));
}

/* ---- JSON ---- */

static json_t *refused_json(const void *item)
{
	const struct report_refused_free *refused = item;

	return JSON_OBJECT(
		{ "api", json_text(refused->api) },
		{ "result", json_text(result_name(refused->api, refused->result)) },
		{ "result_number", json_integer(refused->result) },
		{ "count", json_number(refused->count) },
		{ "address", json_address(refused->address) },
		{ "stack", json_stack(refused->stack) },
		{ "allocated", json_allocation(&refused->allocated) },
		{ "freed_later", json_boolean(refused->freed_later) },
		{ "after_shutdown", json_boolean(refused->after_shutdown) },
		{ "broken_context", JSON_IF(refused->broken, json_true()) });
}

const struct subject subject_refused_frees = {
	.build = build, .chunks = CHUNK_BIT(REFUSED_FREES), .only_if = PART(refused_free_count),
	.details = print_details,
	LIST("refused_frees", refused_frees, refused_free_count, .of = refused_json),
};

/* ---- blocks that were freed after the driver had begun to shut down, by call site ---- */

struct late_site {
	struct site_entry entry;
	uint64_t blocks;
};

static void build_late(struct builder *b)
{
	struct site_list sites = site_list(b, sizeof(struct late_site));
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_site *record;
	struct late_site *site;

	while ((record = build_next_site(b, &walk))) {
		if (!record->late)
			continue;
		site = site_list_get(&sites, intern_site(b, record));
		site->blocks = add_bounded(site->blocks, record->late);
	}
	process->late_count = sites.count;
	process->late = arena_alloc(b->arena, sites.count * sizeof(*process->late));
	EACH_SITE(&sites, site)
		process->late[--sites.count] =
			(struct report_late){ &site->entry.site->site, site->blocks };
}

#define LATE_MAX 1000

static void print_late(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	for (size_t i = 0; view->verbose && i < process->late_count && i < LATE_MAX; i++) {
		const struct report_late *late = &process->late[i];

		fprintf(out, "\nFreed after the driver had begun to shut down: %s block%s (",
			NUMBER(late->blocks), plural(late->blocks));
		eprintf(out, "%s, %s), allocated at:\n", kind_words(late->site->kind),
			late->site->api);
		describe_stack(out, late->site->stack, view->verbose);
	}
}

static json_t *late_json(const void *item)
{
	const struct report_late *late = item;

	return JSON_OBJECT(
		{ "count", json_number(late->blocks) },
		{ "kind", json_text(late->site->kind) },
		{ "device", json_integer(late->site->device) },
		{ "allocated", JSON_OBJECT(
			{ "api", json_text(late->site->api) },
			{ "stack", json_stack(late->site->stack) }) });
}

const struct subject subject_late = {
	.build = build_late, .only_if = PART(late_count), .details = print_late,
	LIST("after_shutdown", late, late_count, .of = late_json),
};
