/* SPDX-License-Identifier: MIT
 *
 * Names each holder and adds up the holders of one name. There are at most a thousand holders.
 */
#include "report/describe/describe_holders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/describe/describe_stack.h"
#include "report/describe/holder_frames.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/util/escape.h"
#include "report/util/number.h"

/* ---- names ---- */

/* CALLER: the frame that holder_frames_choose() found for the holder, or NULL */
static void print_name_of_place(FILE *out, const struct report_holders *holders,
				const struct report_leak *holder, const struct report_frame *caller)
{
	const struct report_frame *frame = report_stack_culprit(holder->stack);
	const char *library = report_holder_library(holder);

	if (report_holder_is_unused(holders, holder)) {
		fputs("unused in the ", out);
		print_escaped(out, holder->cache);
	} else if (library && (!frame || frame->role != FRAME_APPLICATION)) {
		print_escaped(out, library);
	} else if (caller) {
		describe_frame(out, caller);
	} else {
		describe_place(out, holder->stack);
	}
}

static void print_name(FILE *out, const struct report_holders *holders,
		       const struct report_leak *holder, const struct report_frame *caller,
		       enum held_by by)
{
	const char *library;

	switch (by) {
	case HELD_BY_PLACE:
		print_name_of_place(out, holders, holder, caller);
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
static const char *name_of(struct report_arena *arena, const struct report_holders *holders,
			   const struct report_leak *holder,
			   const struct report_frame *caller, enum held_by by)
{
	const char *name = NULL;
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	print_name(out, holders, holder, caller, by);
	if (fclose(out) == 0)
		name = arena_text(arena, text, length);
	free(text);
	return name;
}

/* ---- sums ---- */

/* Parts of "function(parameters) (file:line)". For an inlined C++ function gcc gives the name
 * without parameters, and elsewhere with them. Both names are one place. */
struct place_name {
	size_t function; /* length without parameters */
	const char *source;
};

static struct place_name split(const char *name)
{
	const char *source = NULL, *end;
	size_t depth = 0;

	for (const char *at = strstr(name, " ("); at; at = strstr(at + 1, " ("))
		source = at;
	if (!source || source == name || source[-1] != ')')
		return (struct place_name){ source ? (size_t)(source - name) : strlen(name),
					    source ? source : "" };
	for (end = source; end > name;) {
		end--;
		depth += *end == ')';
		if (*end == '(' && --depth == 0)
			break;
	}
	return (struct place_name){ (size_t)(end - name), source };
}

static bool same_place(const char *a, const char *b)
{
	struct place_name left = split(a), right = split(b);

	return left.function == right.function && memcmp(a, b, left.function) == 0 &&
	       strcmp(left.source, right.source) == 0;
}

static void add_to(struct held_list *held, const char *name, const struct report_leak *holder,
		   bool is_unused)
{
	struct place_name parts = split(name);
	uint64_t hash = hash_bytes(parts.source, strlen(parts.source),
				   hash_bytes(name, parts.function, 0));
	struct held *to = held->list, *end = held->list + held->count;

	while (to < end && (to->hash != hash || !same_place(to->name, name)))
		to++;
	if (to == end) {
		*to = (struct held){ .name = name, .hash = hash, .is_unused = is_unused };
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

/* CALLERS: the result of holder_frames_choose() */
static int sum_up(const struct report_holders *holders, const struct report_frame **callers,
		  enum held_by by, struct held_list *ret)
{
	for (size_t i = 0; i < holders->count; i++) {
		const struct report_leak *holder = &holders->list[i];
		const char *name = name_of(&ret->arena, holders, holder, callers[i], by);

		if (!name)
			return -ENOMEM;
		if (*name)
			add_to(ret, name, holder, report_holder_is_unused(holders, holder));
	}
	if (ret->count)
		qsort(ret->list, ret->count, sizeof(*ret->list), compare_held);
	return 0;
}

int held_sum_up(const struct report_holders *holders, enum held_by by, struct held_list *ret)
{
	const struct report_frame **callers;
	int r = -ENOMEM;

	*ret = (struct held_list){ 0 };
	ret->list = calloc(holders->count + 1, sizeof(*ret->list));
	callers = calloc(holders->count + 1, sizeof(*callers));
	if (ret->list && callers)
		r = by == HELD_BY_PLACE ? holder_frames_choose(holders, callers) : 0;
	if (r == 0)
		r = sum_up(holders, callers, by, ret);
	free(callers);
	return r;
}

void held_finish(struct held_list *held)
{
	free(held->list);
	arena_finish(&held->arena);
	*held = (struct held_list){ 0 };
}

/* ---- one line ---- */

#define PLACES_IN_LINE 3

void describe_held_item(FILE *out, size_t *items, uint64_t bytes, const char *name)
{
	char size[NUMBER_MAX];

	if (bytes)
		fprintf(out, "%s%s %s", (*items)++ ? ", " : " ", format_size(bytes, size), name);
}

int describe_largest_places(FILE *out, size_t *items, const struct report_holders *holders)
{
	uint64_t others = holders->other_bytes;
	struct held_list held;
	int r = held_sum_up(holders, HELD_BY_PLACE, &held);

	for (size_t i = 0; r == 0 && i < held.count; i++) {
		if (i < PLACES_IN_LINE)
			describe_held_item(out, items, held.list[i].bytes, held.list[i].name);
		else
			others = add_bounded(others, held.list[i].bytes);
	}
	describe_held_item(out, items, others, "other places");
	held_finish(&held);
	return r;
}
