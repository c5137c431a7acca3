/* SPDX-License-Identifier: MIT
 *
 * Reads what a process shares with others from its ledger: its exports, and what it has open.
 */
#include "report/model/model_ipc.h"

#include <string.h>

#include "ledger/shared.h"
#include "report/model/builder.h"
#include "report/util/number.h"

/* Copies RECORD to *RET. Returns false if it is unused or was changed meanwhile. */
static bool copy_record(const struct ledger_ipc *record, struct ledger_ipc *ret)
{
	uint64_t block = atomic_load_explicit(&SHARED(record->block), memory_order_acquire);
	uint32_t flags = atomic_load_explicit(&SHARED(record->flags), memory_order_acquire);

	memcpy(ret, record, sizeof(*ret));
	atomic_thread_fence(memory_order_acquire);
	return block && ret->block == block && ret->flags == flags &&
	       atomic_load_explicit(&SHARED(record->block), memory_order_relaxed) == block &&
	       atomic_load_explicit(&SHARED(record->flags), memory_order_relaxed) == flags;
}

/* Returns the live block with NAME (see ledger_block_name()), or NULL. */
static const struct ledger_block *live_block(const struct builder *b, uint64_t name)
{
	const struct ledger_block *block = ledger_block(b->view, (uint32_t)name);

	return block && ledger_block_name(block->state, (uint32_t)name) == name &&
			       ledger_block_is_live(block->state, block->marked)
		       ? block
		       : NULL;
}

/* Returns the call that made the block, from its call site. */
static struct report_event read_site(struct builder *b, uint32_t ref, uint64_t bytes,
				     int *ret_device)
{
	const struct ledger_site *site = ledger_site(b->view, ref);
	struct report_event ret =
		build_event(b, site ? site->api : 0, site ? site->stack : 0, 0);

	*ret_device = site ? site->device : -1;
	ret.bytes = bytes;
	return ret;
}

static struct report_export read_export(struct builder *b, const struct ledger_ipc *record)
{
	uint64_t start_ns = ledger_header(b->view)->start_mono_ns;
	bool known = record->flags & LEDGER_IPC_FREED;
	struct report_export ret = {
		.time_ns = add_bounded(start_ns, record->time_ns),
		.freed_ns = known ? add_bounded(start_ns, record->freed_ns) : 0,
		.bytes = record->bytes,
		.freed = known || !live_block(b, record->block),
		.exported = build_event(b, record->api, record->stack, 0),
		.ended = build_event(b, known ? record->freed_api : 0,
				     known ? record->freed_stack : 0, 0),
	};

	ret.allocated = read_site(b, record->site, record->bytes, &ret.device);
	memcpy(ret.handle, record->handle, sizeof(ret.handle));
	return ret;
}

static struct report_opened read_opened(struct builder *b, const struct ledger_ipc *record,
					const struct ledger_block *block)
{
	const struct report_leak *leak = build_group_of(b, block);
	struct report_opened ret = {
		.time_ns = add_bounded(ledger_header(b->view)->start_mono_ns, record->time_ns),
		.references = block->references,
		.is_leak = !leak->pattern && !leak->cache,
	};

	ret.opened = read_site(b, record->site, 0, &ret.device);
	memcpy(ret.handle, record->handle, sizeof(ret.handle));
	return ret;
}

static void read_record(struct builder *b, struct report_ipc *ipc, const struct ledger_ipc *record)
{
	const struct ledger_block *block = live_block(b, record->block);

	if (!(record->flags & LEDGER_IPC_OPENED))
		ipc->exports[ipc->export_count++] = read_export(b, record);
	else if (block && build_is_selected(b, block))
		ipc->opened[ipc->opened_count++] = read_opened(b, record, block);
}

void build_ipc(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	size_t count = COUNT_RECORDS(b, ledger_next_ipc), read = 0;
	struct ledger_walk walk = { 0 };
	const struct ledger_ipc *record;
	struct ledger_ipc copy;
	struct report_ipc *ipc;

	if (!count)
		return;
	ipc = arena_alloc(b->arena, sizeof(*ipc));
	ipc->exports = arena_alloc(b->arena, count * sizeof(*ipc->exports));
	ipc->opened = arena_alloc(b->arena, count * sizeof(*ipc->opened));
	ipc->exports_dropped = header->exports_dropped;
	ipc->ended_ns = header->end_mono_ns;
	while (read++ < count && (record = ledger_next_ipc(b->view, &walk)))
		if (copy_record(record, &copy))
			read_record(b, ipc, &copy);
	b->process->ipc = ipc;
}
