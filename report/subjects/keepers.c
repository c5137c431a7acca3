/* SPDX-License-Identifier: MIT
 *
 * What keeps the live blocks of call sites, in the words of the program. Adds it to the leaks and
 * suballocations of these call sites. Must not trust the words, nor print them without
 * print_escaped().
 */
#include "report/subjects/common.h"

#include "report/model/model_suballocations.h"

#define LINES_MAX 64

/* Returns the next record that is complete, or NULL. */
static const struct ledger_keepers *next_record(const struct builder *b, struct ledger_walk *walk)
{
	const struct ledger_keepers *record;

	do
		record = ledger_next_keepers(b->view, walk);
	while (record && (record->done != record->began || !record->length ||
			  record->length > sizeof(record->text)));
	return record;
}

/* Reads the line of LENGTH bytes at LINE. Returns false if it does not begin with a number and a
 * space. */
static bool read_line(struct builder *b, const char *line, size_t length, struct report_keeper *ret)
{
	uint64_t blocks = 0;
	size_t digits = 0;

	for (; digits < length && digits < 18 && line[digits] >= '0' && line[digits] <= '9';
	     digits++)
		blocks = 10 * blocks + (uint64_t)(line[digits] - '0');
	if (!digits || digits + 1 >= length || line[digits] != ' ')
		return false;
	ret->blocks = blocks;
	ret->text = arena_text(b->arena, line + digits + 1, length - digits - 1);
	return true;
}

/* Returns the keepers of RECORD, or NULL if there are none. */
static struct report_keepers *read_record(struct builder *b, const struct ledger_keepers *record)
{
	struct report_keepers *ret = arena_alloc(b->arena, sizeof(*ret));
	const char *at = record->text, *end = at + record->length;

	ret->time_ns = record->time_ns;
	while (at < end && ret->count < LINES_MAX) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((newline ? newline : end) - at);
		struct report_keeper keeper;

		if (read_line(b, at, length, &keeper))
			*ARENA_ADD(b->arena, ret->list, ret->count) = keeper;
		at += length + 1;
	}
	return ret->count ? ret : NULL;
}

static void add_to(struct report_leak *leak, const struct report_site *site,
		   const struct report_keepers *keepers)
{
	if (leak->site == site)
		leak->keepers = keepers;
}

static void add(struct report_process *process, const struct report_site *site,
		const struct report_keepers *keepers)
{
	for (size_t i = 0; i < process->leak_count; i++)
		add_to(&process->leaks[i], site, keepers);
	for (size_t i = 0; i < process->suppressed_count; i++)
		add_to(&process->suppressed[i], site, keepers);
	for (size_t i = 0; i < process->suballocation_count; i++)
		add_to(&process->suballocations[i].live, site, keepers);
}

static void build(struct builder *b)
{
	const struct ledger_keepers *record;
	struct ledger_walk walk = { 0 };

	while ((record = next_record(b, &walk))) {
		const struct ledger_site *site = ledger_any_site(b->view, record->site);
		const struct report_keepers *keepers = site ? read_record(b, record) : NULL;

		if (keepers)
			add(b->process, &intern_site(b, site)->site, keepers);
	}
}

void describe_keepers(FILE *out, const struct report_keepers *keepers)
{
	fprintf(out, "  Kept after %s by:\n", TIME(keepers->time_ns));
	EACH_ITEM(keepers->list, keepers->count, keeper) {
		if (keeper->blocks)
			eprintf(out, "    %s: %s\n", NUMBER(keeper->blocks), keeper->text);
		else
			eprintf(out, "    (%s)\n", keeper->text);
	}
}

size_t keeper_variable_length(const char *text)
{
	const char *items = strstr(text, ", `");

	return items ? (size_t)(items - text) : strlen(text);
}

void describe_first_keeper(FILE *out, const struct report_keepers *keepers)
{
	for (size_t i = 0; keepers && i < keepers->count; i++) {
		const char *text = keepers->list[i].text;

		if (!keepers->list[i].blocks)
			continue;
		eprintf(out, ", kept by %.*s", (int)keeper_variable_length(text), text);
		return;
	}
}

static json_t *keeper_json(const void *item)
{
	const struct report_keeper *keeper = item;

	return JSON_OBJECT(
		{ "blocks", json_number(keeper->blocks) },
		{ "text", json_text(keeper->text) });
}

json_t *json_keepers(const struct report_keepers *keepers)
{
	return JSON_LIST(keepers->list, keepers->count, keeper_json);
}

json_t *json_keepers_time(const struct report_keepers *keepers)
{
	return json_real((double)keepers->time_ns / 1e9);
}

/* Suballocations are among the call sites that have keepers. */
const struct subject subject_keepers = { .build = build, .chunks = CHUNK_BIT(KEEPERS),
					 .needs = &subject_suballocations };
