/* SPDX-License-Identifier: MIT
 *
 * Names each holder and adds up those of one name. There are at most a thousand holders.
 */
#include "report/describe/describe_out_of_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/describe/describe_stack.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"
#include "report/model/model_out_of_memory.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define BRIEF_MAX 3 /* holders by name in one line */

bool out_of_memory_is_unused(const struct report_out_of_memory *entry,
			     const struct report_leak *holder)
{
	if (!entry->divided || !holder->cache || strcmp(holder->kind, "suballocation") == 0)
		return false;
	for (size_t i = 0; i < entry->holder_count; i++)
		if (entry->holders[i].cache &&
		    strcmp(entry->holders[i].kind, "suballocation") == 0 &&
		    strcmp(entry->holders[i].cache, holder->cache) == 0)
			return true;
	return false;
}

/* ---- names ---- */

static void print_name_of_place(FILE *out, const struct report_out_of_memory *entry,
				const struct report_leak *holder)
{
	const struct report_frame *frame = report_stack_culprit(holder->stack);
	const char *library = report_holder_library(holder);

	if (out_of_memory_is_unused(entry, holder)) {
		fputs("unused in the ", out);
		print_escaped(out, holder->cache);
	} else if (library && (!frame || frame->role != FRAME_APPLICATION)) {
		print_escaped(out, library);
	} else {
		describe_place(out, holder->stack);
	}
}

static void print_name(FILE *out, const struct report_out_of_memory *entry,
		       const struct report_leak *holder, enum held_by by)
{
	const char *library;

	switch (by) {
	case HELD_BY_PLACE:
		print_name_of_place(out, entry, holder);
		break;
	case HELD_BY_CACHE:
		if (holder->cache)
			print_escaped(out, holder->cache);
		break;
	case HELD_BY_LIBRARY:
		library = report_holder_library(holder);
		print_escaped(out, library ? library : "unknown");
		break;
	}
}

/* Returns the name of HOLDER in ARENA, or NULL if memory ran out. */
static const char *name_of(struct report_arena *arena, const struct report_out_of_memory *entry,
			   const struct report_leak *holder, enum held_by by)
{
	const char *name = NULL;
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	print_name(out, entry, holder, by);
	if (fclose(out) == 0)
		name = arena_text(arena, text, length);
	free(text);
	return name;
}

/* ---- sums ---- */

static void add_to(struct held_list *held, const char *name, const struct report_leak *holder)
{
	uint64_t hash = hash_bytes(name, strlen(name), 0);
	struct held *to = held->list, *end = held->list + held->count;

	while (to < end && (to->hash != hash || strcmp(to->name, name) != 0))
		to++;
	if (to == end) {
		*to = (struct held){ .name = name, .hash = hash };
		held->count++;
	}
	to->bytes = add_bounded(to->bytes, holder->bytes);
	to->blocks = add_bounded(to->blocks, holder->blocks);
}

static int compare_held(const void *left, const void *right)
{
	const struct held *a = left, *b = right;
	int r = compare_numbers(b->bytes, a->bytes);

	return r ? r : strcmp(a->name, b->name);
}

int held_sum_up(const struct report_out_of_memory *entry, enum held_by by, struct held_list *ret)
{
	*ret = (struct held_list){ 0 };
	ret->list = calloc(entry->holder_count + 1, sizeof(*ret->list));
	if (!ret->list)
		return -ENOMEM;
	for (size_t i = 0; i < entry->holder_count; i++) {
		const char *name = name_of(&ret->arena, entry, &entry->holders[i], by);

		if (!name)
			return -ENOMEM;
		if (*name)
			add_to(ret, name, &entry->holders[i]);
	}
	if (ret->count)
		qsort(ret->list, ret->count, sizeof(*ret->list), compare_held);
	return 0;
}

void held_finish(struct held_list *held)
{
	free(held->list);
	arena_finish(&held->arena);
	*held = (struct held_list){ 0 };
}

/* ---- lines ---- */

const char *out_of_memory_refuser(const struct report_out_of_memory *entry)
{
	switch (entry->refuser) {
	case LEDGER_REFUSER_LIMIT:
		return "GPULEAK_LIMIT";
	case LEDGER_REFUSER_FAIL_AT:
		return "GPULEAK_FAIL_AT";
	case LEDGER_REFUSER_FRAMEWORK:
		return entry->framework ? entry->framework : "framework";
	default:
		return "driver";
	}
}

uint64_t out_of_memory_wanted(const struct report_out_of_memory *entry)
{
	return entry->gave_up && entry->framework_bytes ? entry->framework_bytes : entry->bytes;
}

bool out_of_memory_rest(const struct report_out_of_memory *entry, uint64_t *ret)
{
	uint64_t known = add_bounded(entry->free_bytes, entry->tracked_bytes);

	if (!entry->has_free || !entry->has_holders || known > entry->total_bytes)
		return false;
	*ret = entry->total_bytes - known;
	return true;
}

static void print_item(FILE *out, size_t *items, uint64_t bytes, const char *name)
{
	char size[NUMBER_MAX];

	if (bytes)
		fprintf(out, "%s%s %s", (*items)++ ? ", " : " ", format_size(bytes, size), name);
}

/* Prints the parts of the device that no holder has. The limit of a process does not include
 * them. */
static void print_rest(FILE *out, size_t *items, const struct report_process *process,
		       const struct report_out_of_memory *entry)
{
	const struct driver_memory_sample *sample = report_sample_near(process, entry);
	uint64_t rest;

	if (entry->refuser == LEDGER_REFUSER_LIMIT || entry->refuser == LEDGER_REFUSER_FAIL_AT)
		return;
	if (sample) {
		print_item(out, items, driver_part(sample), "driver");
		print_item(out, items, others_part(sample), "other processes");
	} else if (out_of_memory_rest(entry, &rest)) {
		print_item(out, items, rest, "driver and other processes");
	}
}

static int print_holders(FILE *out, const struct report_process *process,
			 const struct report_out_of_memory *entry)
{
	uint64_t bytes = entry->other_bytes;
	struct held_list held;
	size_t items = 0;
	int r = held_sum_up(entry, HELD_BY_PLACE, &held);

	fputs("; held:", out);
	for (size_t i = 0; r == 0 && i < held.count; i++) {
		if (i < BRIEF_MAX)
			print_item(out, &items, held.list[i].bytes, held.list[i].name);
		else
			bytes = add_bounded(bytes, held.list[i].bytes);
	}
	print_item(out, &items, bytes, "other places");
	print_rest(out, &items, process, entry);
	if (!items)
		fputs(" nothing by this process", out);
	held_finish(&held);
	return r;
}

int describe_out_of_memory(FILE *out, const struct report_process *process,
			   const struct report_out_of_memory *entry)
{
	uint64_t wanted = out_of_memory_wanted(entry);
	char size[NUMBER_MAX];

	fprintf(out, "%s wanted at ", wanted ? format_size(wanted, size) : "memory");
	describe_place(out, entry->stack);
	if (entry->refuser != LEDGER_REFUSER_DRIVER)
		fprintf(out, ", refused by %s", out_of_memory_refuser(entry));
	if (entry->limit_bytes)
		fprintf(out, " (%s)", format_size(entry->limit_bytes, size));
	if (entry->has_holders)
		return print_holders(out, process, entry);
	fputs("; who held the memory was not counted", out);
	return 0;
}
