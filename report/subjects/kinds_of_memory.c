/* SPDX-License-Identifier: MIT
 *
 * Kinds of memory, by device: what was allocated, freed and is live. Only metrics have them.
 */
#include "report/subjects/subject.h"

#include <stdlib.h>
#include <string.h>

#include "report/model/builder.h"
#include "report/model/model.h"
#include "report/subjects/figures.h"
#include "report/util/number.h"

static bool same_kind(const void *value, const void *key)
{
	const struct report_kind *a = value, *b = key;

	return a->kind == b->kind && a->device == b->device; /* strings are interned */
}

/* Returns the element of KIND and DEVICE in KINDS, which may be new. Until build() lists the kinds,
 * its freed_blocks count the blocks that ended, but not by a free. */
static struct report_kind *intern_kind(struct builder *b, struct table *kinds, const char *kind,
				       int device)
{
	const struct report_kind key = { .kind = kind, .device = device };
	uint64_t hash = hash_number((uint64_t)device, hash_number((uintptr_t)kind, 0));
	struct report_kind *known = table_find(kinds, hash, same_kind, &key);

	if (known)
		return known;
	known = arena_alloc(b->arena, sizeof(*known));
	*known = key;
	table_add(kinds, hash, known);
	return known;
}

static void add_sites(struct builder *b, struct table *kinds)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = build_next_site(b, &walk))) {
		struct report_kind *kind =
			intern_kind(b, kinds, build_name(b, site->kind), site->device);
		uint64_t ended = add_bounded(site->with_context, site->unseen);

		kind->allocated_blocks = add_bounded(kind->allocated_blocks, site->allocs);
		kind->allocated_bytes = add_bounded(kind->allocated_bytes, site->bytes);
		kind->freed_blocks = add_bounded(kind->freed_blocks, ended);
	}
}

static void add_leaks(struct builder *b, struct table *kinds, const struct report_leak *leaks,
		      size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct report_kind *kind =
			intern_kind(b, kinds, leaks[i].site->kind, leaks[i].site->device);

		kind->live_blocks = add_bounded(kind->live_blocks, leaks[i].blocks);
		kind->live_bytes = add_bounded(kind->live_bytes, leaks[i].bytes);
	}
}

static void add_deferred(struct builder *b, struct table *kinds)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while ((block = ledger_next_deferred(b->view, &walk))) {
		const struct ledger_site *site = ledger_site(b->view, block->site);
		struct report_kind *kind;

		if (!site || ledger_site_is_object(b->view, site))
			continue;
		kind = intern_kind(b, kinds, build_name(b, site->kind), site->device);
		kind->freed_blocks = add_bounded(kind->freed_blocks, 1);
	}
}

static int compare_kinds(const void *left, const void *right)
{
	const struct report_kind *a = left, *b = right;

	return strcmp(a->kind, b->kind) ?: compare_ints(a->device, b->device);
}

static void build(struct builder *b)
{
	struct report_process *process = b->process;
	struct table kinds = { 0 };

	add_sites(b, &kinds);
	add_leaks(b, &kinds, process->leaks, process->leak_count);
	add_leaks(b, &kinds, process->suppressed, process->suppressed_count);
	add_leaks(b, &kinds, process->cached, process->cached_count);
	add_deferred(b, &kinds);
	process->kinds = arena_alloc(b->arena, kinds.count * sizeof(*process->kinds));
	for (size_t i = 0; i < kinds.size; i++) {
		struct report_kind *kind = kinds.slots[i].value;
		uint64_t ended;

		if (!kind)
			continue;
		ended = add_bounded(kind->freed_blocks, kind->live_blocks);
		kind->freed_blocks =
			kind->allocated_blocks > ended ? kind->allocated_blocks - ended : 0;
		process->kinds[process->kind_count++] = *kind;
	}
	SORT(process->kinds, process->kind_count, compare_kinds);
	table_finish(&kinds);
}

static const struct figure rows[] = {
	{ FIGURE(report_kind, live_bytes), .metric = "live_bytes",
	  .help = "Bytes that are allocated now." },
	{ FIGURE(report_kind, live_blocks), .metric = "live_blocks",
	  .help = "Blocks that are allocated now." },
	{ FIGURE(report_kind, allocated_bytes), .metric = "allocated_bytes_total",
	  .help = "Bytes that were ever allocated." },
	{ FIGURE(report_kind, allocated_blocks), .metric = "allocated_blocks_total",
	  .help = "Blocks that were ever allocated." },
	{ FIGURE(report_kind, freed_blocks), .metric = "freed_blocks_total",
	  .help = "Blocks that were freed." },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct report_kind *kind = process->kinds + i;

	if (i >= process->kind_count || i >= METRIC_ITEMS_MAX)
		return NULL;
	if (labels) {
		metric_device(labels, kind->device);
		metric_label(labels, "kind", kind->kind);
	}
	return kind;
}

static const struct figures figures = { .prefix = "gpuleak_", FIGURES(rows), .item = item };

const struct subject subject_kinds = { .build = build, .figures = &figures };
