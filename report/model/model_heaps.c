/* SPDX-License-Identifier: MIT
 *
 * Heaps that the program registered by NVTX: which call sites allocate them, so that these blocks
 * count as a cache. Must not change what counts as a leak. Also the names that the program gave to
 * blocks.
 */
#include "ledger/kind_table.h"
#include "report/model/builder.h"
#include "report/util/number.h"

/* If a call site has other blocks, too, its blocks and the regions in some of them would count
 * twice. Then no call site gets a heap. */
void build_heaps(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_heaps *heaps;
	const struct ledger_site *site;
	struct build_site *of;

	while ((heaps = ledger_next_heaps(b->view, &walk)) &&
	       (site = ledger_site(b->view, heaps->site))) {
		of = intern_site(b, site);
		of->site.heap = build_name(b, heaps->name);
		of->heap_blocks = add_bounded(of->heap_blocks, heaps->blocks);
		b->has_heaps = true;
	}
	walk = (struct ledger_walk){ 0 };
	while (b->has_heaps && (site = build_next_site(b, &walk))) {
		of = intern_site(b, site);
		b->heaps_mixed |= of->site.heap && of->heap_blocks < site->allocs;
		of->heap_blocks = less(of->heap_blocks, site->allocs);
	}
	walk = (struct ledger_walk){ 0 };
	while (b->heaps_mixed && (heaps = ledger_next_heaps(b->view, &walk)))
		if ((site = ledger_site(b->view, heaps->site)))
			intern_site(b, site)->site.heap = NULL;
}

void build_add_name(struct builder *b, struct report_leak *leak, const struct ledger_block *block)
{
	const char *name = block->history && !ledger_history(b->view, block->history)
				   ? build_text(b, block->history) : NULL;

	for (size_t i = 0; name && i < leak->name_count; i++)
		if (leak->names[i] == name)
			return;
	if (name && leak->name_count < LEAK_NAMES_MAX)
		*ARENA_ADD(b->arena, leak->names, leak->name_count) = name;
}
