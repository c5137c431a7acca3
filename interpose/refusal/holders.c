/* SPDX-License-Identifier: MIT
 *
 * Lists the largest of what the call sites have live. Which bytes of a block are in suballocations
 * is not counted here, so the report subtracts them from the blocks, as it does at a peak. Also
 * stores where all of it lies. Must not decide what is fragmented.
 */
#include "interpose/refusal/out_of_memory.h"

#include <string.h>

#include "interpose/recorder/memories.h"
#include "interpose/recorder/thread_state.h"
#include "ledger/totals.h"

static void add_other(struct holders *ret, const struct ledger_holder *holder)
{
	ret->other_sites++;
	ret->other_blocks += holder->blocks;
	ret->other_bytes += holder->bytes;
}

/* Inserts HOLDER, and drops the smallest one if there is no room for both. */
static void add_holder(struct holders *ret, const struct ledger_holder *holder)
{
	uint32_t low = 0, high = ret->count;

	while (low < high) { /* find the first one that is smaller */
		uint32_t middle = low + (high - low) / 2;

		if (ret->list[middle].bytes < holder->bytes)
			high = middle;
		else
			low = middle + 1;
	}
	if (low == ret->room) {
		add_other(ret, holder);
		return;
	}
	if (ret->count == ret->room)
		add_other(ret, &ret->list[--ret->count]);
	memmove(&ret->list[low + 1], &ret->list[low], (ret->count - low) * sizeof(*holder));
	ret->list[low] = *holder;
	ret->count++;
}

/* Returns true if the blocks of SITE lie in memory of CLASS on DEVICE. */
static bool site_holds(struct recorder *recorder, const struct ledger_view *view,
		       const struct ledger_site *site, enum ledger_memory class, int device)
{
	const struct ledger_balance *balance = ledger_balance_of(view, site);
	const struct memory_peak *memory =
		&recorder->thread_states->memories[balance ? balance->memory : 0];

	return memory->class == class &&
	       (device < 0 || memory->device < 0 || memory->device == device);
}

/* Adds the call sites of TYPE. Returns how many allocations they made. */
static uint64_t add_sites(struct recorder *recorder, const struct ledger_view *view,
			  enum ledger_chunk_type type, enum ledger_memory class, int device,
			  struct holders *ret)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;
	uint64_t allocs = 0;

	while ((site = ledger_next(view, &walk, type, sizeof(*site)))) {
		struct ledger_live live;

		allocs += shared_load(site->allocs);
		if (!site_holds(recorder, view, site, class, device))
			continue;
		live = ledger_site_live(view, site, LEDGER_COUNT_ALLOCATED);
		if (live.bytes)
			add_holder(ret, &(struct ledger_holder){
				.site = ledger_ref(&recorder->writer, site),
				.blocks = (uint32_t)live.blocks, .bytes = live.bytes,
			});
		if (type == LEDGER_CHUNK_SUBALLOCATION_SITES)
			ret->inside_bytes += live.bytes;
	}
	return allocs;
}

void holders_count(struct recorder *recorder, enum ledger_memory class, int device,
		   struct holders *ret)
{
	const struct ledger_view view = {
		.base = recorder->writer.base,
		.chunks = shared_load_acquire(recorder->header->chunks),
	};

	if (class == LEDGER_MEMORY_HOST)
		device = -1; /* host memory belongs to no device */
	ret->count = ret->other_sites = 0;
	ret->other_blocks = ret->other_bytes = ret->inside_bytes = 0;
	ret->allocs = add_sites(recorder, &view, LEDGER_CHUNK_SITES, class, device, ret);
	ret->suballocs = add_sites(recorder, &view, LEDGER_CHUNK_SUBALLOCATION_SITES, class,
				   device, ret);
}

/* ---- the layout ---- */

/* A layout that is being stored: over the records of the one before, then in new ones. */
struct layout {
	struct recorder *recorder;
	struct ledger_view view;
	struct ledger_walk walk; /* over the records that there are */
	uint32_t number, count;
	int device;
	bool reused; /* all of these have been overwritten */
};

/* Returns the next record, or NULL if there is no room. */
static struct ledger_extent *next_extent(struct layout *layout)
{
	const void *ret = NULL;
	uint32_t ref;

	if (!layout->reused)
		ret = ledger_next_extent(&layout->view, &layout->walk);
	layout->reused = !ret;
	if (ret || layout->count == LEDGER_EXTENTS_MAX)
		return (void *)ret;
	ref = ledger_add_extent(&layout->recorder->writer, NULL);
	return ref ? ledger_at(&layout->recorder->writer, ref) : NULL;
}

/* Stores the block in SLOT if it is on the device. Returns false if there is no room. */
static bool store_slot(struct layout *layout, const struct ledger_block *slot)
{
	const struct ledger_site *site;
	struct ledger_extent *extent;
	struct ledger_block block;

	if (!ledger_read_slot(slot, &block) || !ledger_block_is_live(block.state, block.marked))
		return true;
	site = ledger_at(&layout->recorder->writer, block.site);
	if ((site->device >= 0 && layout->device >= 0 && site->device != layout->device) ||
	    ledger_site_is_object(&layout->view, site))
		return true;
	extent = next_extent(layout);
	if (!extent)
		return false;
	layout->count++;
	shared_store(extent->layout, 0);
	atomic_thread_fence(memory_order_release);
	extent->address = block.address;
	extent->bytes = block.bytes;
	extent->parent = block.parent;
	extent->site = block.site;
	shared_publish(extent->layout, layout->number << 1 |
					       ((block.marked & LEDGER_BLOCK_CAPTURED) != 0));
	return true;
}

static bool store_slots(struct layout *layout, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *slot;

	while ((slot = ledger_next(&layout->view, &walk, type, sizeof(*slot))))
		if (!store_slot(layout, slot))
			return false;
	return true;
}

void layout_store(struct recorder *recorder, int device, struct ledger_out_of_memory *record)
{
	struct layout layout = {
		.recorder = recorder, .device = device,
		.number = ++recorder->refusals->layouts & (UINT32_MAX >> 1),
		.view = { .base = recorder->writer.base,
			  .chunks = shared_load_acquire(recorder->header->chunks) },
	};

	if (!store_slots(&layout, LEDGER_CHUNK_SUBALLOCATIONS) ||
	    !store_slots(&layout, LEDGER_CHUNK_BLOCKS))
		return;
	record->extents = layout.count;
	shared_publish(record->layout, layout.number);
}
