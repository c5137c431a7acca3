/* SPDX-License-Identifier: MIT
 *
 * Kinds of memory, by device: what was allocated, freed and is live. Only metrics have them.
 */
#include "report/subjects/common.h"

#include "report/subjects/figures.h"

struct kind_sums {
	struct site_entry entry;
	struct report_kind sums;
};

/* Returns the sums of KIND and DEVICE. Until build() lists the kinds, freed_blocks count the blocks
 * that ended, but not by a free. */
static struct report_kind *sums_of(struct site_list *kinds, const char *kind, int device)
{
	struct kind_sums *ret = site_list_get(kinds, intern_kind(kinds->b, kind, device));

	return &ret->sums;
}

static void add_sites(struct builder *b, struct site_list *kinds)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = build_next_site(b, &walk))) {
		struct report_kind *kind =
			sums_of(kinds, build_name(b, site->kind), site->device);
		uint64_t ended = add_bounded(site->with_context, site->unseen);

		kind->allocated_blocks = add_bounded(kind->allocated_blocks, site->allocs);
		kind->allocated_bytes = add_bounded(kind->allocated_bytes, site->bytes);
		kind->freed_blocks = add_bounded(kind->freed_blocks, ended);
	}
}

static void add_leaks(struct site_list *kinds, const struct report_leak *leaks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct report_kind *kind =
			sums_of(kinds, leaks[i].site->kind, leaks[i].site->device);

		kind->live_blocks = add_bounded(kind->live_blocks, leaks[i].blocks);
		kind->live_bytes = add_bounded(kind->live_bytes, leaks[i].bytes);
	}
}

static void add_deferred(struct builder *b, struct site_list *kinds)
{
	for (size_t i = 0; i < b->deferred_count; i++) {
		const struct ledger_site *site = ledger_site(b->view, b->deferred[i]->site);
		struct report_kind *kind;

		if (!site || ledger_site_is_object(b->view, site))
			continue;
		kind = sums_of(kinds, build_name(b, site->kind), site->device);
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
	struct site_list kinds = site_list(b, sizeof(struct kind_sums));
	struct kind_sums *node;

	add_sites(b, &kinds);
	add_leaks(&kinds, process->leaks, process->leak_count);
	add_leaks(&kinds, process->suppressed, process->suppressed_count);
	add_leaks(&kinds, process->cached, process->cached_count);
	add_leaks(&kinds, process->kept, process->kept_count);
	add_deferred(b, &kinds);
	EACH_SITE(&kinds, node) {
		struct report_kind *kind =
			ARENA_ADD(b->arena, process->kinds, process->kind_count);
		uint64_t ended = add_bounded(node->sums.freed_blocks, node->sums.live_blocks);

		*kind = node->sums;
		kind->kind = node->entry.site->site.kind;
		kind->device = node->entry.site->site.device;
		kind->freed_blocks =
			kind->allocated_blocks > ended ? kind->allocated_blocks - ended : 0;
	}
	SORT(process->kinds, process->kind_count, compare_kinds);
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
	const struct report_kind *kind;

	if (i >= process->kind_count || i >= METRIC_ITEMS_MAX)
		return NULL;
	kind = &process->kinds[i];
	if (labels) {
		metric_device(labels, kind->device);
		metric_label(labels, "kind", kind->kind);
	}
	return kind;
}

static const struct figures figures = { .prefix = "gpuleak_", FIGURES(rows), .item = item };

const struct subject subject_kinds = { .build = build, .figures = &figures };
