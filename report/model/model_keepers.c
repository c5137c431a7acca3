/* SPDX-License-Identifier: MIT
 *
 * Reads what keeps the live blocks of call sites, and adds it to the leaks and suballocations of
 * these call sites. Must not trust the texts: the program wrote them.
 */
#include "report/model/builder.h"

#include <stdbool.h>
#include <string.h>

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
	struct report_keeper *list = arena_alloc(b->arena, LINES_MAX * sizeof(*list));
	const char *at = record->text, *end = at + record->length;

	*ret = (struct report_keepers){ .time_ns = record->time_ns, .list = list };
	while (at < end && ret->count < LINES_MAX) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((newline ? newline : end) - at);

		ret->count += read_line(b, at, length, &list[ret->count]);
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

void build_keepers(struct builder *b)
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
