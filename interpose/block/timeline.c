/* SPDX-License-Identifier: MIT
 *
 * Reads this process's ledger while other threads write it. Limits the time for that: after a pass
 * it pauses for a multiple of the pass's duration. If there are too many blocks, the pass is
 * abandoned.
 */
#include "interpose/block/timeline.h"

#include <string.h>

#include "ledger/reader.h"
#include "interpose/block/deferred_totals.h"
#include "interpose/recorder/recorder.h"
#include "ledger/shared.h"

/* pause, as a multiple of a pass's duration: so passes take 0.2 percent of one thread */
#define LOOK_REST 512
#define LOOK_SLOTS_MAX 262144u /* 16 MiB of slots, about a millisecond */
#define ROWS_KNOWN 64u

/* One pass over all blocks. Adjacent blocks mostly have the same call site, so the columns of
 * recent call sites are cached. */
struct look {
	struct ledger_view view;
	struct ledger_parts *parts;
	struct ledger_moment moment;
	struct { uint32_t site, column; } known[ROWS_KNOWN];
};

/* Returns true if the texts at A and B are equal. Several calls make the same kind of memory, and
 * each has its own ref to the kind's text. */
static bool same_text(const struct ledger_view *view, uint32_t a, uint32_t b)
{
	uint32_t length_a, length_b;
	const char *text_a, *text_b;

	if (a == b)
		return true;
	text_a = ledger_string(view, a, &length_a);
	text_b = ledger_string(view, b, &length_b);
	return text_a && text_b && length_a == length_b && memcmp(text_a, text_b, length_a) == 0;
}

static uint32_t find_column(struct look *look, const struct ledger_site *site)
{
	struct ledger_parts *parts = look->parts;
	uint32_t count = parts->columns;

	for (uint32_t i = 0; i < count && i < LEDGER_COLUMNS - 1; i++)
		if (parts->column[i].device == site->device &&
		    same_text(&look->view, parts->column[i].kind, site->kind))
			return i;
	if (count >= LEDGER_COLUMNS - 1) {
		parts->column[LEDGER_COLUMNS - 1].device = -1;
		atomic_store_explicit(&SHARED(parts->columns), LEDGER_COLUMNS,
				      memory_order_release);
		return LEDGER_COLUMNS - 1;
	}
	parts->column[count] = (struct ledger_column){ site->kind, site->device };
	atomic_store_explicit(&SHARED(parts->columns), count + 1, memory_order_release);
	return count;
}

static void add_block(struct look *look, uint32_t site_ref, uint64_t bytes)
{
	unsigned int slot = site_ref / (sizeof(struct ledger_site) / LEDGER_REF_UNIT) % ROWS_KNOWN;
	const struct ledger_site *site;

	if (site_ref == 0)
		return;
	if (look->known[slot].site != site_ref) {
		site = ledger_site(&look->view, site_ref);
		if (!site)
			return;
		look->known[slot].site = site_ref;
		look->known[slot].column = find_column(look, site);
	}
	look->moment.live_bytes[look->known[slot].column] += bytes;
}

/* Adds up all live blocks. Returns false if there are too many. Other threads change the slots
 * meanwhile: `state` shows if a slot changed during the read, and then the block is left out. This
 * is a deliberate data race, so the thread sanitizer is off. */
__attribute__((no_sanitize("thread"))) static bool look_at_blocks(struct look *look)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;
	uint32_t slots = 0;

	while ((block = ledger_next(&look->view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*block)))) {
		uint32_t state = atomic_load_explicit(&SHARED(block->state), memory_order_acquire);
		uint32_t site = block->site;
		uint64_t bytes = block->bytes;

		if (++slots > LOOK_SLOTS_MAX)
			return false;
		if (!ledger_block_is_live(state, block->marked))
			continue;
		atomic_thread_fence(memory_order_acquire);
		if (bytes &&
		    atomic_load_explicit(&SHARED(block->state), memory_order_relaxed) == state)
			add_block(look, site, bytes);
	}
	return true;
}

static void write_moment(struct recorder *recorder, uint64_t now_ns)
{
	struct ledger_header *header = recorder->header;
	struct look this = { .moment = { .time_ns = now_ns } };
	size_t bytes = (size_t)atomic_load_explicit(&SHARED(header->chunks), memory_order_acquire) *
		       LEDGER_CHUNK;

	this.parts = ledger_columns(&recorder->writer, recorder->parts);
	if (this.parts && ledger_view(header, bytes, &this.view) == LEDGER_OK &&
	    look_at_blocks(&this))
		ledger_add_moment(&recorder->writer, recorder->parts, &this.moment);
}

void timeline_look(struct recorder *recorder, uint64_t now_ns)
{
	struct ledger_timeline *parts = recorder->parts;
	uint64_t began, rest;

	if (now_ns < atomic_load_explicit(&parts->due_ns, memory_order_relaxed) ||
	    !lock_try(&parts->lock))
		return;
	/* the first pass is delayed: most processes end before they use a second kind */
	if (!parts->every_ns) {
		parts->every_ns = LEDGER_SAMPLE_EVERY_NS_MIN;
		rest = 0;
	} else {
		began = recorder_fine_time(recorder);
		write_moment(recorder, now_ns);
		rest = (recorder_fine_time(recorder) - began) * LOOK_REST;
	}
	if (rest < parts->every_ns)
		rest = parts->every_ns;
	atomic_store_explicit(&parts->due_ns, now_ns + rest, memory_order_relaxed);
	lock_give(&parts->lock);
}
