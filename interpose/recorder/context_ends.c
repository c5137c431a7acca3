/* SPDX-License-Identifier: MIT
 *
 * Counts blocks that ended with their context in private memory, so that no shard's lock is held
 * while the ledger grows. What finds no room is in the counters of its call site only. Must not
 * call the driver.
 */
#include "interpose/recorder/context_ends.h"

#include "interpose/base/hash.h"

/* Blocks of one call site that the same place ended. */
struct context_end {
	uint64_t key;  /* ref of the call site << 32 | ref of the stack of the place */
	uint32_t site;
	uint32_t ref;  /* of the record; 0: not written yet */
	uint32_t flags;
	uint64_t blocks, bytes; /* in total */
	struct context_end *next_changed;
	bool changed;
	UT_hash_handle hh;
};

static struct context_end *end_for(struct recorder *recorder, const struct ledger_block *block,
				   uint32_t place)
{
	uint64_t key = (uint64_t)block->site << 32 | place;
	uint32_t flags = block->marked & LEDGER_BLOCK_IGNORED ? LEDGER_CONTEXT_END_IGNORED : 0;
	struct context_ends *ends = recorder->context_ends;
	struct context_end **list = &ends->ends[flags != 0], *end;

	TABLE_FIND(*list, &key, end);
	if (end || ends->count == LEDGER_CONTEXT_ENDS_MAX)
		return end;
	end = arena_take(&recorder->arena, sizeof(*end));
	if (!end)
		return NULL;
	end->key = key;
	end->site = block->site;
	end->flags = flags;
	TABLE_ADD(&recorder->arena, *list, key, end);
	ends->count++;
	return end;
}

void context_ends_add(struct recorder *recorder, const struct ledger_block *block, uint32_t api,
		      uint32_t stack)
{
	/* Without stacks, the call's name is the place: no string has the ref of a stack. */
	struct context_end *end = end_for(recorder, block, stack ? stack : api);

	if (!(block->marked & LEDGER_BLOCK_IGNORED)) {
		atomic_fetch_add(&recorder->context_ends->blocks, 1);
		atomic_fetch_add(&recorder->context_ends->bytes, block->bytes);
	}
	if (!end)
		return;
	end->blocks++;
	end->bytes += block->bytes;
	if (end->changed)
		return;
	end->changed = true;
	end->next_changed = recorder->context_ends->changed;
	recorder->context_ends->changed = end;
}

static void write_end(struct recorder *recorder, struct context_end *end, uint32_t api,
		      uint32_t stack)
{
	struct ledger_context_end *record, new = {
		.blocks = end->blocks, .bytes = end->bytes, .site = end->site, .flags = end->flags,
		.api = api, .stack = stack,
	};

	if (!end->ref) {
		end->ref = ledger_add_context_end(&recorder->writer, &new);
		return;
	}
	record = ledger_at(&recorder->writer, end->ref);
	shared_store(record->blocks, end->blocks);
	shared_store(record->bytes, end->bytes);
}

void context_ends_write(struct recorder *recorder, uint32_t api, uint32_t stack)
{
	struct context_ends *ends = recorder->context_ends;

	for (struct context_end *end; (end = ends->changed);) {
		ends->changed = end->next_changed;
		end->changed = false;
		write_end(recorder, end, api, stack);
	}
}
