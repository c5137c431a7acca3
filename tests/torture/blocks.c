/* SPDX-License-Identifier: MIT
 *
 * A block's life: made, filled with a pattern of its own, used in any stream of its context
 * after its last use, handed to another thread, freed in one of many ways. Owns the ways.
 */
#include <string.h>

#include "torture.h"

enum { QUEUED = 128 };
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block queued[QUEUED];
static unsigned int queued_count;

/* Evenly over the powers of two. */
static size_t any_size(uint64_t random)
{
	unsigned int bits = 0;
	size_t bytes;

	while (options.max_bytes >> bits > 1)
		bits++;
	bits = (unsigned int)(random % (bits + 1));
	bytes = (size_t)1 << bits;
	return bytes + (random >> 8) % bytes <= options.max_bytes ? bytes + (random >> 8) % bytes
								  : options.max_bytes;
}

/* Where sizes of blocks change. */
static size_t edge_size(uint64_t random)
{
	size_t bytes = ((size_t)1024 << random % 13) + (random >> 8) % 1200 - 700;

	return bytes < options.max_bytes ? bytes : options.max_bytes;
}

/* Mostly of a few sizes that all threads share, so that blocks fit again. */
size_t draw_size(struct worker *w)
{
	struct worker palette = { .random = options.seed ^ below(w, PALETTE) };

	if (chance(w, 12))
		return edge_size(draw(w));
	return any_size(chance(w, 80) ? draw(&palette) : draw(w));
}

uint64_t draw_clocks(struct worker *w)
{
	unsigned int kind = below(w, 100);

	return kind < 50 ? 0 : kind < 85 ? below(w, 20000) : kind < 98 ? below(w, 300000)
								      : below(w, 3000000);
}

static uint64_t words_of(const struct block *b)
{
	return b->bytes / sizeof(uint32_t);
}

static void note_reuse(struct worker *w, CUdeviceptr address)
{
	for (unsigned int i = 0; i < GONE; i++)
		if (w->gone[i] == address) {
			w->counts[COUNT_reused]++;
			w->gone[i] = 0;
			return;
		}
}

static CUresult ask_for(struct worker *w, struct block *b, const struct stream *s)
{
	if (!b->ordered)
		return cuMemAlloc_v2(&b->address, b->bytes);
	(void)w;
	return cuMemAllocAsync(&b->address, b->bytes, s->handle);
}

/* False: there is no memory, and that was foreseen. */
bool block_make(struct worker *w, struct block *ret, int context, size_t bytes)
{
	struct block b = { .bytes = bytes, .context = context, .value = (uint32_t)draw(w) | 1 };
	const struct stream *s = pick_stream(w, context);
	uint64_t waits = call_begins();
	CUresult r;

	b.ordered = has(FEATURE_ordered) && chance(w, 4);
	enter(w, context);
	r = ask_for(w, &b, s);
	if (r == OUT_OF_MEMORY && options.may_fail) {
		count_refused(w);
		return false;
	}
	expect(w, r, SUCCESS, b.ordered ? "cuMemAllocAsync" : "cuMemAlloc_v2");
	no_wait_since(w, waits, "an allocation");
	if (!b.address)
		fail(w, "an allocation of %zu bytes succeeded without an address", bytes);
	w->counts[COUNT_allocated]++;
	note_reuse(w, b.address);
	if (b.ordered)
		block_used(w, &b, s);
	*ret = b;
	return true;
}

/* Stream S may use the block next. */
void block_use(struct worker *w, struct block *b, const struct stream *s)
{
	enter(w, b->context);
	if (b->used)
		MUST(w, cuStreamWaitEvent(s->handle, b->used, 0));
}

void block_used(struct worker *w, struct block *b, const struct stream *s)
{
	if (!b->used)
		b->used = event_take(w, b->context);
	MUST(w, cuEventRecord(b->used, s->handle));
}

void block_fill(struct worker *w, struct block *b, const struct stream *s, uint64_t clocks)
{
	const struct kernels *k = &contexts[b->context].kernels;

	block_use(w, b, s);
	if (chance(w, 10) && words_of(b)) {
		MUST(w, launch_spin(k, s->handle, clocks));
		MUST(w, cuMemsetD32Async(b->address, b->value, words_of(b), s->handle));
	} else {
		MUST(w, launch_fill(k, s->handle, b->address, words_of(b), b->value, clocks));
	}
	block_used(w, b, s);
}

void block_check(struct worker *w, struct block *b, const struct stream *s, uint64_t clocks)
{
	const struct kernels *k = &contexts[b->context].kernels;
	uint32_t *wrong = &w->rings[b->context].words[ring_slot(w, b)];

	block_use(w, b, s);
	MUST(w, launch_check(k, s->handle, b->address, words_of(b), b->value, wrong, clocks));
	block_used(w, b, s);
	w->counts[COUNT_checks]++;
	w->counts[COUNT_mebibytes] += b->bytes >> 20;
}

void block_copy(struct worker *w, struct block *to, struct block *from, const struct stream *s)
{
	block_use(w, from, s);
	block_use(w, to, s);
	MUST(w, cuMemcpyDtoDAsync_v2(to->address, from->address, from->bytes, s->handle));
	block_used(w, from, s);
	block_used(w, to, s);
	to->value = from->value;
	w->counts[COUNT_copies]++;
}

static void freed(struct worker *w, struct block *b)
{
	w->gone[w->gone_next++ % GONE] = b->address;
	w->counts[COUNT_freed]++;
	event_give(w, b->context, b->used);
	b->used = NULL;
}

static void free_in_stream(struct worker *w, struct block *b)
{
	const struct stream *s = pick_stream(w, b->context);
	uint64_t waits;

	block_use(w, b, s);
	waits = call_begins();
	MUST(w, cuMemFreeAsync(b->address, s->handle));
	no_wait_since(w, waits, "cuMemFreeAsync");
	w->counts[COUNT_freed_async]++;
	freed(w, b);
}

/* Stream-ordered memory: for it the driver need not wait, so we do. Where waits are counted it
 * is freed in a stream, since the driver's cuMemFree holds up every other thread. */
void block_free_plainly(struct worker *w, struct block *b)
{
	uint64_t waits;

	if (b->ordered && options.mode != MODE_OFF) {
		free_in_stream(w, b);
		return;
	}
	if (b->ordered && b->used) {
		enter(w, b->context);
		MUST(w, cuEventSynchronize(b->used));
	}
	waits = call_begins();
	MUST(w, cuMemFree_v2(b->address));
	if (options.mode == MODE_FAST)
		no_wait_since(w, waits, "cuMemFree_v2");
	freed(w, b);
}

/* At once after its last use was submitted. */
void block_free(struct worker *w, struct block *b)
{
	if (chance(w, 10) && hand_over(b))
		return;
	if (has(FEATURE_async) && chance(w, b->ordered ? 80 : 15)) {
		free_in_stream(w, b);
		return;
	}
	/* Any context may be current. */
	if (has(FEATURE_cross) && chance(w, 20))
		enter(w, (int)below(w, (unsigned int)context_count));
	block_free_plainly(w, b);
}

void block_query(struct worker *w, const struct block *b)
{
	CUdeviceptr inside = b->address + draw(w) % b->bytes, base = 0, start = 0;
	CUcontext context = NULL;
	unsigned int type = 0;
	size_t bytes = 0, size = 0;
	int device = -1;

	enter(w, b->context);
	MUST(w, cuMemGetAddressRange_v2(&base, &bytes, inside));
	if (base != b->address || bytes != b->bytes)
		fail(w, "the range of %#llx is %#llx, %zu bytes, not %#llx, %zu", inside, base,
		     bytes,
		     b->address, b->bytes);
	MUST(w, cuPointerGetAttribute(&type, ATTRIBUTE_MEMORY_TYPE, inside));
	MUST(w, cuPointerGetAttribute(&device, ATTRIBUTE_DEVICE_ORDINAL, inside));
	MUST(w, cuPointerGetAttribute(&start, ATTRIBUTE_RANGE_START, inside));
	MUST(w, cuPointerGetAttribute(&size, ATTRIBUTE_RANGE_SIZE, inside));
	if (type != 2 || device != contexts[b->context].device || start != b->address ||
	    size != b->bytes)
		fail(w,
		     "attributes of %#llx are type %u device %d start %#llx size %zu, not 2 %d "
		     "%#llx"
		     " %zu", inside, type, device, start, size, contexts[b->context].device,
		     b->address, b->bytes);
	if (!b->ordered) {
		MUST(w, cuPointerGetAttribute(&context, ATTRIBUTE_CONTEXT, inside));
		if (context != contexts[b->context].handle)
			fail(w, "%#llx is said to be of another context", inside);
	}
	w->counts[COUNT_queries]++;
}

void wrong_free(struct worker *w, CUdeviceptr address)
{
	expect(w, cuMemFree_v2(address), INVALID_VALUE, "a wrong cuMemFree_v2");
	w->counts[COUNT_errors]++;
}

void keep(struct worker *w, const struct block *b)
{
	w->live[w->live_count++] = *b;
}

struct block take_live(struct worker *w, unsigned int i)
{
	struct block b = w->live[i];

	w->live[i] = w->live[--w->live_count];
	return b;
}

bool hand_over(const struct block *b)
{
	bool room;

	pthread_mutex_lock(&queue_lock);
	room = queued_count < QUEUED;
	if (room)
		queued[queued_count++] = *b;
	pthread_mutex_unlock(&queue_lock);
	return room;
}

bool take_over(struct worker *w, struct block *ret)
{
	bool some;

	pthread_mutex_lock(&queue_lock);
	some = queued_count;
	if (some) {
		unsigned int i = below(w, queued_count);

		*ret = queued[i];
		queued[i] = queued[--queued_count];
	}
	pthread_mutex_unlock(&queue_lock);
	return some;
}

/* What ends with CONTEXT. */
void queue_drop(struct worker *w, int context)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < queued_count; i++) {
		if (queued[i].context != context) {
			queued[kept++] = queued[i];
		} else if (queued[i].ordered) {
			block_free_plainly(w, &queued[i]);
		} else {
			w->counts[COUNT_lost]++;
		}
	}
	queued_count = kept;
}
