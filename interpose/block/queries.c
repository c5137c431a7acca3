/* SPDX-License-Identifier: MIT
 *
 * Marks, and queries about live blocks. The order of marks and blocks is exact. A mark is a
 * number, and each block stores the number that was current when it was made. Totals are read from
 * the ledger, addresses from the table of blocks under its locks.
 */
#include "interpose/block/queries.h"

#include <string.h>

#include "interpose/block/block_table.h"
#include "interpose/recorder/live_bytes.h"
#include "ledger/reader.h"

_Atomic uint32_t query_marks READ_BY_ALL = 1;

uint32_t query_set_mark(void)
{
	uint32_t last = atomic_load(&query_marks);

	/* At its maximum the number stays the same. Then later marks cannot be distinguished, but
	 * none is lost. */
	while (LEDGER_BLOCK_MARK(last + 1) &&
	       !atomic_compare_exchange_weak(&query_marks, &last, last + 1))
		;
	return LEDGER_BLOCK_MARK(LEDGER_BLOCK_MARK(last + 1) ? last + 1 : last);
}

void query_capturing(bool on)
{
	if (on)
		atomic_fetch_or(&query_marks, LEDGER_BLOCK_CAPTURED);
	else
		atomic_fetch_and(&query_marks, ~LEDGER_BLOCK_CAPTURED);
}

void query_ignoring(bool on)
{
	struct thread *self = &thread_self;

	if (on)
		self->ignoring++;
	else if (self->ignoring)
		self->ignoring--;
	self->ignored = self->ignoring ? LEDGER_BLOCK_IGNORED : 0;
}

/* ---- sums ---- */

static bool site_is_kind(const struct ledger_view *view, const struct ledger_site *site,
			 const char *kind)
{
	uint32_t length;
	const char *bytes = ledger_string(view, site->kind, &length);

	return bytes && strlen(kind) == length && memcmp(bytes, kind, length) == 0;
}

/* The latest call site that matches() checked, and the result. Adjacent blocks often have the same
 * call site. */
struct site_matches {
	uint32_t site;
	bool matches;
};

static bool is_chosen(const struct ledger_block *block, const struct query_filter *filter)
{
	return LEDGER_BLOCK_MARK(block->marked) >= filter->mark &&
	       (!filter->thread || block->thread == filter->thread);
}

static bool matches(const struct ledger_view *view, const struct ledger_block *block,
		    const struct query_filter *filter, struct site_matches *last)
{
	const struct ledger_site *site;

	if (block->site != last->site) {
		site = ledger_site(view, block->site);
		last->site = block->site;
		last->matches = site && !ledger_site_is_object(view, site) &&
				(!filter->kind || site_is_kind(view, site, filter->kind));
	}
	return last->matches;
}

void query_total(struct recorder *recorder, enum ledger_chunk_type type,
		 const struct query_filter *filter, struct query_total *ret)
{
	const struct ledger_header *header = recorder->header;
	struct ledger_walk walk = { 0 };
	const struct ledger_block *slot;
	struct ledger_block block;
	struct site_matches last = { 0 };
	/* The writer increases `chunks` after it has mapped them. */
	const struct ledger_view view = {
		.base = recorder->writer.base, .chunks = shared_load_acquire(header->chunks),
	};

	*ret = (struct query_total){ 0 };
	while ((slot = ledger_next(&view, &walk, type, sizeof(*slot)))) {
		if (!ledger_read_slot(slot, &block) ||
		    !ledger_block_is_live(block.state, block.marked) ||
		    !is_chosen(&block, filter) ||
		    (type == LEDGER_CHUNK_BLOCKS && !matches(&view, &block, filter, &last)))
			continue;
		if (block.marked & LEDGER_BLOCK_IGNORED) {
			ret->ignored_blocks++;
			ret->ignored_bytes += block.bytes;
		} else {
			ret->blocks++;
			ret->bytes += block.bytes;
		}
	}
}

#define DOUBLING_FIRST 3 /* the exponent of 8 blocks */

uint64_t query_doublings(struct recorder *recorder)
{
	const struct ledger_view view = {
		.base = recorder->writer.base,
		.chunks = shared_load_acquire(recorder->header->chunks),
	};
	uint64_t ret = 0;

	LEDGER_EACH(live_series, series, &view) {
		uint64_t high = shared_load(series->high);
		uint64_t blocks = LEDGER_AMOUNT_BLOCKS(high);

		if (blocks >> DOUBLING_FIRST)
			ret += 64 - DOUBLING_FIRST - (unsigned int)__builtin_clzll(blocks);
	}
	return ret;
}

/* ---- blocks by address ---- */

static bool copy_block_of_key(struct recorder *recorder, uint64_t key, bool ignore,
			      struct ledger_block *ret, uint64_t *ret_span)
{
	struct shard *shard = shard_of(recorder, key);
	enum ledger_hidden hidden;
	struct entry *entry;

	HOLD(&shard->lock);
	entry = entry_find(shard, key);
	if (!entry || !entry->block)
		return false;
	if (ignore) {
		hidden = live_bytes_hidden(entry->block);
		atomic_fetch_or_explicit(&SHARED(entry->block->marked), LEDGER_BLOCK_IGNORED,
					 memory_order_relaxed);
		live_bytes_rehide(recorder, entry->block, (int64_t)entry->block->bytes, hidden,
				  live_bytes_hidden(entry->block));
	}
	*ret = *entry->block;
	*ret_span = entry->span;
	return true;
}

/* Returns the space of ENTRY if ENTRY's block contains ADDRESS. Otherwise returns SPACE_OBJECT. */
static unsigned int space_around(const struct entry *entry, uint64_t address)
{
	unsigned int space = 0;

	if (!entry->block || address - entry->block->address >= entry->span)
		return SPACE_OBJECT;
	while (space < SPACE_OBJECT && (!spaces[space].addresses ||
					entry->key != key_in(space, entry->block->address)))
		space++;
	return space;
}

/* Returns the key of the block that contains ADDRESS, or 0. Of several it takes the one whose space
 * comes first: a mapping, not the reservation that contains it. Checks every block. */
static uint64_t key_around(struct recorder *recorder, uint64_t address)
{
	unsigned int best = SPACE_OBJECT;
	uint64_t key = 0;

	for (unsigned int i = 0; i < BLOCK_SHARDS; i++) {
		struct shard *shard = &recorder->blocks->shard[i];

		HOLD(&shard->lock);
		FOR_ENTRIES(shard, e) {
			unsigned int space = space_around(e, address);

			if (space < best) {
				best = space;
				key = e->key;
			}
		}
	}
	return key;
}

/* Small numbers are no handles: they are devices, textures and surfaces. */
#define HANDLE_MIN 4096

/* Finds an object without memory whose handle is ADDRESS. */
static bool copy_object(struct recorder *recorder, uint64_t address, bool ignore,
			struct ledger_block *ret, uint64_t *ret_span)
{
	for (unsigned int space = SPACE_OBJECT; address >= HANDLE_MIN && space < SPACE_END; space++)
		if (copy_block_of_key(recorder, key_in(space, address), ignore, ret, ret_span))
			return true;
	return false;
}

bool query_block(struct recorder *recorder, uint64_t address, bool ignore, struct ledger_block *ret,
		 uint64_t *ret_span)
{
	uint64_t key;

	for (unsigned int space = 0; address && space < SPACE_OBJECT; space++)
		if (copy_block_of_key(recorder, key_in(space, address), ignore, ret, ret_span))
			return true;
	if (copy_object(recorder, address, ignore, ret, ret_span))
		return true;
	key = address ? key_around(recorder, address) : 0;
	return key && copy_block_of_key(recorder, key, ignore, ret, ret_span);
}

/* Returns true if no block of the kind of BLOCK ever has a history. */
static bool has_room_for_name(struct recorder *recorder, const struct ledger_block *block)
{
	static const char *const named[] = { "device", "managed", "stream-ordered" };
	const struct ledger_site *site = ledger_at(&recorder->writer, block->site);
	const struct ledger_string *kind = ledger_at(&recorder->writer, site->kind);

	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		if (strlen(named[i]) == kind->length &&
		    memcmp(named[i], kind->bytes, kind->length) == 0)
			return true;
	return false;
}

bool query_set_name(struct recorder *recorder, uint64_t address, uint32_t name, bool *ret_named)
{
	uint64_t key = key_in(SPACE_MEMORY, address);
	struct shard *shard = shard_of(recorder, key);
	const struct entry *entry;

	HOLD(&shard->lock);
	entry = address ? entry_find(shard, key) : NULL;
	if (!entry || !entry->block || !has_room_for_name(recorder, entry->block))
		return false;
	*ret_named = entry->block->history != 0;
	shared_store(entry->block->history, name);
	return true;
}
