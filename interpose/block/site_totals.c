/* SPDX-License-Identifier: MIT
 *
 * Reads all slots of blocks once. If a slot is reused while it is read, it is read again.
 */
#include "interpose/block/site_totals.h"
#include "ledger/shared.h"

#include <errno.h>
#include <sys/mman.h>

#define TRIES 4 /* a slot that changes this often belongs to a block that was just made or freed */

/* Stores the call site and size of the live block in the slot. Returns false if there is no live
 * block or the program ignores it. */
static bool read_block(const struct ledger_block *block, uint32_t *ret_site, uint64_t *ret_bytes)
{
	for (int i = 0; i < TRIES; i++) {
		uint32_t word = atomic_load_explicit(&SHARED(block->state), memory_order_acquire);
		uint32_t marked =
			atomic_load_explicit(&SHARED(block->marked), memory_order_relaxed);

		if (!ledger_block_is_live(word, marked))
			return false;
		*ret_site = atomic_load_explicit(&SHARED(block->site), memory_order_relaxed);
		*ret_bytes = atomic_load_explicit(&SHARED(block->bytes), memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&SHARED(block->state), memory_order_relaxed) >> 8 ==
		    word >> 8)
			return !(marked & LEDGER_BLOCK_IGNORED);
	}
	return false;
}

static void count_blocks(const struct ledger_view *view, const struct tallies *tallies)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_block *block;

	while ((block = ledger_next(view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*block)))) {
		const struct ledger_site *site;
		uint64_t bytes;
		uint32_t ref;

		if (!read_block(block, &ref, &bytes) || !(site = ledger_site(view, ref)))
			continue;
		tally_of(tallies, view, site)->blocks++;
		tally_of(tallies, view, site)->bytes += bytes;
	}
}

int tallies_count(const struct ledger_view *view, struct tallies *ret)
{
	const struct ledger_site *site;
	void *memory;

	ret->size = (view->bytes / sizeof(*site) + 1) * sizeof(*ret->of);
	memory = mmap(NULL, ret->size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	ret->of = memory;
	count_blocks(view, ret);
	return 0;
}

void tallies_drop_objects(const struct ledger_view *view, const struct tallies *tallies)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_site *site;

	while ((site = ledger_next(view, &walk, LEDGER_CHUNK_SITES, sizeof(*site))))
		if (tally_of(tallies, view, site)->blocks && ledger_site_is_object(view, site))
			*tally_of(tallies, view, site) = (struct tally){ 0, 0 };
}

void tallies_finish(struct tallies *tallies)
{
	munmap(tallies->of, tallies->size);
}
