/* SPDX-License-Identifier: MIT
 *
 * What the guard checked, and which blocks it did not guard, by reason. What it found are errors,
 * in errors.c. The numbers of a ledger are not trusted, so every sum is bounded.
 */
#include "report/subjects/subject.h"

#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/model/builder.h"
#include "report/model/model.h"
#include "report/subjects/subject_words.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"

static const char *const levels[] = { "copies", "patterns", "pages" };
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static const char *const reasons[] = {
#define X(name, words) words,
	LEDGER_GUARD_REASONS(X)
#undef X
};
#define REASONS (sizeof(reasons) / sizeof(reasons[0]))

static void build(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_guard *record = ledger_next_guard(b->view, &walk);
	struct ledger_guard *copy;

	if (!record)
		return;
	copy = arena_alloc(b->arena, sizeof(*copy));
	*copy = *record; /* the ledger's memory goes before the report */
	b->process->guard = copy;
}

static void print_unguarded(FILE *out, const struct ledger_guard *guard)
{
	const char *before = "\n    not guarded: ";

	for (size_t i = 0; i < REASONS; i++) {
		if (!guard->unguarded[i])
			continue;
		fprintf(out, "%s%s (%s)", before, COUNT(guard->unguarded[i], "block"), reasons[i]);
		before = ", ";
	}
}

/* Prints "Guard (copies, patterns): 1,200 checks, 40 blocks guarded (12.0 MiB)". */
static void print_details(FILE *out, const struct subject_view *view)
{
	const struct ledger_guard *guard = view->process->guard;
	const char *before = "Guard (";

	for (size_t i = 0; i < LEVELS; i++) {
		if (!(guard->levels & 1u << i))
			continue;
		fprintf(out, "%s%s", before, levels[i]);
		before = ", ";
	}
	fprintf(out, "): %s", COUNT(guard->checks, "check"));
	if (guard->check_ns)
		fprintf(out, " in %s", TIME(guard->check_ns));
	if (guard->guarded_blocks)
		fprintf(out, ", %s guarded (%s)", COUNT(guard->guarded_blocks, "block"),
			SIZE(guard->guarded_bytes));
	print_unguarded(out, guard);
	if (guard->unknown_launches)
		fprintf(out, "\n    %s with unknown parameters",
			COUNT(guard->unknown_launches, "launch"));
	fputc('\n', out);
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct ledger_guard *guard = view->process->guard;
	json_t *on = json_array(), *unguarded = json_array();

	for (size_t i = 0; i < LEVELS; i++)
		if (guard->levels & 1u << i)
			json_array_append_new(on, json_string(levels[i]));
	for (size_t i = 0; i < REASONS; i++)
		if (guard->unguarded[i])
			json_array_append_new(unguarded, JSON_OBJECT(
				{ "reason", json_string(reasons[i]) },
				{ "blocks", json_number(guard->unguarded[i]) }));
	json_set(object, "guard", JSON_OBJECT(
		{ "levels", on },
		{ "guarded_blocks", json_number(guard->guarded_blocks) },
		{ "guarded_bytes", json_number(guard->guarded_bytes) },
		{ "unguarded", unguarded },
		{ "unknown_launches", json_number(guard->unknown_launches) },
		{ "checks", json_number(guard->checks) },
		{ "seconds", json_real((double)guard->check_ns / 1e9) }));
}

const struct subject subject_guard = {
	.build = build, .chunks = CHUNK_BIT(GUARD), .only_if = PART(guard),
	.details = print_details, .json = add_json,
};
