/* SPDX-License-Identifier: MIT
 *
 * Bounds-checked access to a ledger in memory. Each number from the file is checked here, and
 * only here, before it is used as an offset or a count. Callers receive pointers to complete
 * records. Must not allocate, print, lock, or call a function that does, because it also runs
 * inside the traced process.
 */
#include "ledger/reader.h"
#include "ledger/shared.h"

#include <string.h>

const char *ledger_why(enum ledger_why why)
{
	switch (why) {
	case LEDGER_OK:
		return "is a gpuleak ledger";
	case LEDGER_FOREIGN:
		return "is not a gpuleak ledger";
	case LEDGER_SHORT:
		return "is cut short: its header is incomplete";
	case LEDGER_NEWER:
		return "was written by a newer gpuleak than this one can read";
	case LEDGER_ORDER:
		return "was written on a machine of another byte order";
	case LEDGER_BROKEN:
		return "is damaged: its header has impossible values";
	}
	return "is of an unknown kind";
}

static enum ledger_why check_header(const struct ledger_header *header)
{
	if (header->byte_order == __builtin_bswap32(LEDGER_BYTE_ORDER))
		return LEDGER_ORDER;
	if (header->byte_order != LEDGER_BYTE_ORDER)
		return LEDGER_BROKEN;
	/* A running process may raise it. */
	if (shared_load(header->reader_min) > LEDGER_VERSION)
		return LEDGER_NEWER;
	/* A newer writer may have a larger header, but it fits in one chunk. */
	if (header->chunk_bytes != LEDGER_CHUNK || header->header_bytes < LEDGER_HEADER_BYTES_MIN ||
	    header->header_bytes > LEDGER_CHUNK)
		return LEDGER_BROKEN;
	return LEDGER_OK;
}

enum ledger_why ledger_view(const void *base, size_t bytes, struct ledger_view *ret)
{
	static const char magic[] = LEDGER_MAGIC;
	const struct ledger_header *header = base;
	size_t known = bytes < sizeof(header->magic) ? bytes : sizeof(header->magic);
	uint32_t chunks;
	enum ledger_why why;

	if (known && memcmp(base, magic, known) != 0)
		return LEDGER_FOREIGN;
	if (bytes < sizeof(*header))
		return LEDGER_SHORT;
	if ((uintptr_t)base % LEDGER_REF_UNIT)
		return LEDGER_BROKEN;
	why = check_header(header);
	if (why != LEDGER_OK)
		return why;
	chunks = shared_load_acquire(header->chunks);
	if (chunks < 1 || chunks > LEDGER_CHUNKS_MAX)
		return LEDGER_BROKEN;

	ret->base = base;
	ret->bytes = bytes;
	ret->chunks = chunks;
	ret->cut = 0;
	if (bytes / LEDGER_CHUNK < chunks) {
		/* A file with a complete header but an incomplete first chunk is readable. */
		ret->chunks = bytes < LEDGER_CHUNK ? 1 : (uint32_t)(bytes / LEDGER_CHUNK);
		ret->cut = ret->chunks < chunks;
	}
	return LEDGER_OK;
}

const struct ledger_header *ledger_header(const struct ledger_view *view)
{
	return (const struct ledger_header *)view->base;
}

/* Loads the chunk's published size once and stores it in *RET_USED, because a running writer
 * changes it. */
static const struct ledger_chunk *find_chunk(const struct ledger_view *view, uint32_t number,
					     uint32_t *ret_used)
{
	const struct ledger_chunk *chunk;
	uint32_t used;

	if (number < 1 || number >= view->chunks)
		return NULL;
	chunk = (const struct ledger_chunk *)(view->base + (size_t)number * LEDGER_CHUNK);
	used = shared_load_acquire(chunk->used);
	if (used < sizeof(*chunk) || used > LEDGER_CHUNK)
		return NULL;
	*ret_used = used;
	return chunk;
}

const struct ledger_chunk *ledger_chunk(const struct ledger_view *view, uint32_t number)
{
	uint32_t used;

	return find_chunk(view, number, &used);
}

const void *ledger_next(const struct ledger_view *view, struct ledger_walk *walk,
			enum ledger_chunk_type type, size_t size)
{
	const struct ledger_chunk *chunk;

	if (size == 0 || size > LEDGER_CHUNK)
		return NULL;
	if (walk->chunk == 0)
		*walk = (struct ledger_walk){ 1, sizeof(*chunk) };
	for (; walk->chunk < view->chunks; walk->chunk++, walk->offset = sizeof(*chunk)) {
		uint32_t used;
		uint32_t offset = walk->offset;

		chunk = find_chunk(view, walk->chunk, &used);
		if (!chunk || chunk->type != (uint32_t)type || offset + size > used)
			continue;
		walk->offset += (uint32_t)size;
		return (const uint8_t *)chunk + offset;
	}
	return NULL;
}

const struct ledger_block *ledger_next_live(const struct ledger_view *view,
					    struct ledger_walk *walk)
{
	const struct ledger_block *block;

	do
		block = ledger_next_block_slot(view, walk);
	while (block && !ledger_block_is_live(block->state, block->marked));
	return block;
}

const struct ledger_block *ledger_next_suballocation(const struct ledger_view *view,
						     struct ledger_walk *walk)
{
	const struct ledger_block *block;

	do
		block = ledger_next_suballocation_slot(view, walk);
	while (block && LEDGER_BLOCK_STATE(block->state) != LEDGER_BLOCK_LIVE);
	return block;
}

#define SLOT_TRIES 4 /* a slot that is reused this often has a block that was just made or freed */

bool ledger_read_slot(const struct ledger_block *slot, struct ledger_block *ret)
{
	uint32_t state = shared_load_acquire(slot->state);

	for (int i = 0; i < SLOT_TRIES && LEDGER_BLOCK_STATE(state); i++) {
		uint32_t before = state;

		ret->site = shared_load(slot->site);
		ret->address = shared_load(slot->address);
		ret->bytes = shared_load(slot->bytes);
		ret->parent = shared_load(slot->parent);
		ret->thread = shared_load(slot->thread);
		ret->marked = shared_load(slot->marked);
		atomic_thread_fence(memory_order_acquire);
		ret->state = state = shared_load_acquire(slot->state);
		if (state >> 8 == before >> 8 && LEDGER_BLOCK_STATE(state))
			return true;
	}
	return false;
}

/* Returns the address of the record that REF refers to, and stores in *RET_LEFT the number of
 * published bytes from there. Returns NULL if there are fewer than AT_LEAST. */
static const uint8_t *resolve(const struct ledger_view *view, uint32_t ref,
			      enum ledger_chunk_type type, size_t at_least, size_t *ret_left)
{
	uint64_t at = (uint64_t)ref * LEDGER_REF_UNIT;
	uint32_t offset = (uint32_t)(at % LEDGER_CHUNK);
	uint32_t used;
	const struct ledger_chunk *chunk = find_chunk(view, (uint32_t)(at / LEDGER_CHUNK), &used);

	if (!chunk || chunk->type != (uint32_t)type)
		return NULL;
	if (offset < sizeof(*chunk) || offset + at_least > used)
		return NULL;
	*ret_left = used - offset;
	return (const uint8_t *)chunk + offset;
}

const void *ledger_record(const struct ledger_view *view, uint32_t ref,
			  enum ledger_chunk_type type, size_t size)
{
	size_t offset = (uint64_t)ref * LEDGER_REF_UNIT % LEDGER_CHUNK, left;

	/* The records of a chunk are an array, so a ref into the middle of one is invalid. */
	if ((offset - sizeof(struct ledger_chunk)) % size)
		return NULL;
	return resolve(view, ref, type, size, &left);
}

const struct ledger_site *ledger_any_site(const struct ledger_view *view, uint32_t ref)
{
	return ledger_site(view, ref) ?: ledger_suballocation_site(view, ref);
}

uint64_t ledger_trace_oldest(const struct ledger_view *view)
{
	const struct ledger_header *header = ledger_header(view);
	uint64_t chunks = header->trace_chunks, room = chunks * LEDGER_TRACE_EVENTS;

	if (!header->trace_first || !chunks || (chunks & (chunks - 1)) || !header->traced ||
	    header->trace_first + chunks > view->chunks)
		return 0;
	return header->traced > room ? header->traced - room + 1 : 1;
}

bool ledger_trace_read(const struct ledger_view *view, uint64_t number,
		       struct ledger_trace_event *ret)
{
	const struct ledger_header *header = ledger_header(view);
	uint64_t i = number - 1, turn = i / LEDGER_TRACE_EVENTS % header->trace_chunks;
	const uint8_t *chunk = view->base + (header->trace_first + turn) * LEDGER_CHUNK;
	uint64_t record = sizeof(struct ledger_chunk) + i % LEDGER_TRACE_EVENTS * sizeof(*ret);

	memcpy(ret, chunk + record, sizeof(*ret));
	return ret->number == (uint32_t)number && ret->check == ledger_trace_check(ret);
}

/* Returns the ref of the record with the index of SITE in the chunk that is BACK chunks before. */
static uint32_t ref_before(const struct ledger_view *view, const struct ledger_site *site,
			   uint32_t back)
{
	uint64_t at = (uint64_t)((const uint8_t *)site - view->base);
	uint64_t before = (uint64_t)back * LEDGER_CHUNK;

	return at < before ? 0 : (uint32_t)((at - before) / LEDGER_REF_UNIT);
}

const struct ledger_balance *ledger_balance_of(const struct ledger_view *view,
					       const struct ledger_site *site)
{
	return ledger_balance(view, ref_before(view, site, 1));
}

const struct ledger_balance *ledger_others_balance_of(const struct ledger_view *view,
						      const struct ledger_site *site)
{
	return ledger_others_balance(view, ref_before(view, site, 2));
}

const struct ledger_stack *ledger_stack(const struct ledger_view *view, uint32_t ref)
{
	size_t left;
	const struct ledger_stack *stack = (const struct ledger_stack *)resolve(
		view, ref, LEDGER_CHUNK_STACKS, sizeof(*stack), &left);

	if (!stack || stack->frames > LEDGER_FRAMES_MAX ||
	    stack->frames > (left - sizeof(*stack)) / sizeof(stack->pc[0]))
		return NULL;
	return stack;
}

const uint64_t *ledger_stack_loops(const struct ledger_view *view, uint32_t ref)
{
	const struct ledger_stack *stack = ledger_stack(view, ref);
	size_t words, left;

	if (!stack || !(stack->flags & LEDGER_STACK_LOOPS))
		return NULL;
	words = stack->frames + LEDGER_STACK_LOOP_WORDS(stack->frames);
	if (!resolve(view, ref, LEDGER_CHUNK_STACKS, sizeof(*stack) + words * 8, &left))
		return NULL;
	return stack->pc + stack->frames;
}

const struct ledger_python *ledger_python(const struct ledger_view *view, uint32_t ref)
{
	size_t left;
	const struct ledger_python *python = (const struct ledger_python *)resolve(
		view, ref, LEDGER_CHUNK_PYTHON, sizeof(*python), &left);

	if (!python || python->frames > LEDGER_FRAMES_MAX ||
	    python->frames > (left - sizeof(*python)) / sizeof(python->frame[0]))
		return NULL;
	return python;
}

const char *ledger_string(const struct ledger_view *view, uint32_t ref, uint32_t *ret_length)
{
	size_t left;
	const struct ledger_string *string = (const struct ledger_string *)resolve(
		view, ref, LEDGER_CHUNK_STRINGS, sizeof(*string), &left);

	if (!string || string->length > left - sizeof(*string))
		return NULL;
	*ret_length = string->length;
	return string->bytes;
}

bool ledger_site_is_object(const struct ledger_view *view, const struct ledger_site *site)
{
	static const char prefix[] = LEDGER_KIND_OBJECT;
	uint32_t length;
	const char *kind = ledger_string(view, site->kind, &length);

	return kind && length >= sizeof(prefix) - 1 &&
	       memcmp(kind, prefix, sizeof(prefix) - 1) == 0;
}
