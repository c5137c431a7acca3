/* SPDX-License-Identifier: MIT
 *
 * What work needs: contexts, streams, events, and rings of words in which checks count what is
 * wrong. Owns the moments at which those words are looked at, and what is left of a worker when
 * a context ends.
 */
#include <string.h>

#include "torture.h"

struct context contexts[MAX_CONTEXTS];
int context_count;

static __thread int current = -1;

void forget_current(void)
{
	current = -1;
}

void enter(const struct worker *w, int context)
{
	if (current == context)
		return;
	MUST(w, cuCtxSetCurrent(contexts[context].handle));
	current = context;
}

void context_open(const struct worker *w, int context)
{
	struct context *c = &contexts[context];

	if (c->primary)
		MUST(w, cuDevicePrimaryCtxRetain(&c->handle, c->device));
	else
		MUST(w, cuCtxCreate_v2(&c->handle, 0, c->device));
	forget_current();
	enter(w, context);
	MUST(w, kernels_load(&c->kernels));
}

static void stream_open(struct worker *w, struct stream *s)
{
	unsigned int kind = below(w, 100);

	enter(w, s->context);
	s->created = false;
	s->open = true;
	if (kind < 15 && has(FEATURE_legacy)) {
		s->handle = kind < 8 ? NULL : STREAM_LEGACY;
	} else if (kind < 30) {
		s->handle = STREAM_PER_THREAD;
	} else {
		MUST(w, cuStreamCreate(&s->handle,
				       kind < 55 ? STREAM_BLOCKING : STREAM_NON_BLOCKING));
		s->created = true;
	}
}

struct stream *pick_stream(struct worker *w, int context)
{
	unsigned int i = below(w, options.streams);

	while (w->streams[i].context != context)
		i = (i + 1) % options.streams;
	return &w->streams[i];
}

static bool is_legacy(const struct stream *s)
{
	return !s->handle || s->handle == STREAM_LEGACY;
}

/* One that a capture in global mode does not mind, or NULL. */
struct stream *pick_calm_stream(struct worker *w, int context)
{
	struct stream *s = pick_stream(w, context);

	for (unsigned int i = 0; is_legacy(s) && i < options.streams; i++)
		if (w->streams[i].context == context)
			s = &w->streams[i];
	return is_legacy(s) ? NULL : s;
}

/* What was submitted to a stream that goes away is known by an event. */
static void part(struct worker *w, const struct stream *s)
{
	CUevent event = event_take(w, s->context);

	MUST(w, cuEventRecord(event, s->handle));
	w->partings[w->parting_count].event = event;
	w->partings[w->parting_count++].context = s->context;
}

void stream_replace(struct worker *w)
{
	struct stream *s = &w->streams[below(w, options.streams)];

	if (w->parting_count == MAX_PARTINGS)
		return;
	enter(w, s->context);
	part(w, s);
	if (s->created)
		MUST(w, cuStreamDestroy_v2(s->handle));
	stream_open(w, s);
	w->counts[COUNT_streams]++;
}

CUevent event_take(struct worker *w, int context)
{
	CUevent event;

	if (w->spare_count[context])
		return w->spare[context][--w->spare_count[context]];
	enter(w, context);
	MUST(w, cuEventCreate(&event, EVENT_DISABLE_TIMING));
	return event;
}

void event_give(struct worker *w, int context, CUevent event)
{
	if (!event)
		return;
	if (w->spare_count[context] < MAX_SPARE)
		w->spare[context][w->spare_count[context]++] = event;
	else
		MUST(w, cuEventDestroy_v2(event));
}

/* The driver's own calls wait for each other: who frees holds up who allocates. Where memory runs
 * out it may be waited for. */
void no_wait_since(const struct worker *w, uint64_t waits, const char *call)
{
	if (waits_so_far() != waits && options.mode != MODE_OFF && !options.may_fail &&
	    !options.may_wait)
		fail(w, "%s waited for the device in %s", call, last_wait());
}

bool pinned_alloc(struct worker *w, void **ret, size_t bytes)
{
	uint64_t waits = call_begins();
	CUresult r = chance(w, 50) ? cuMemHostAlloc(ret, bytes, 0) : cuMemAllocHost_v2(ret, bytes);

	if (r == OUT_OF_MEMORY && options.may_fail) {
		count_refused(w);
		return false;
	}
	expect(w, r, SUCCESS, "cuMemHostAlloc or cuMemAllocHost_v2");
	no_wait_since(w, waits, "an allocation of pinned memory");
	w->counts[COUNT_allocated]++;
	return true;
}

void pinned_free(struct worker *w, void *p)
{
	uint64_t waits = call_begins();

	MUST(w, cuMemFreeHost(p));
	if (options.mode == MODE_FAST)
		no_wait_since(w, waits, "cuMemFreeHost");
	w->counts[COUNT_freed]++;
}

static bool ring_open(struct worker *w, int context)
{
	struct ring *ring = &w->rings[context];
	void *p;

	enter(w, context);
	for (int tries = 0; !ring->words && tries < 8; tries++)
		if (pinned_alloc(w, &p, RING * sizeof(*ring->words))) {
			memset(p, 0, RING * sizeof(*ring->words));
			ring->words = p;
		}
	ring->used = 0;
	return ring->words;
}

bool worker_prepare(struct worker *w)
{
	int relaxed = CAPTURE_RELAXED;

	w->op = "prepare";
	if (w->exchanged && w->index != options.threads)
		MUST(w, cuThreadExchangeStreamCaptureMode(&relaxed));
	for (int c = 0; c < context_count; c++)
		if (!w->rings[c].words) {
			disturb_in_turn(w);
			if (!ring_open(w, c))
				atomic_store(&starved, true);
			disturbing_ends(w);
		}
	for (unsigned int i = 0; i < options.streams; i++)
		if (!w->streams[i].open) {
			w->streams[i].context = (int)i % context_count;
			disturb_in_turn(w);
			stream_open(w, &w->streams[i]);
			disturbing_ends(w);
		}
	return !atomic_load(&starved);
}

unsigned int ring_slot(struct worker *w, const struct block *b)
{
	struct ring *ring = &w->rings[b->context];

	if (ring->used == RING)
		fail(w, "torture's own mistake: a ring is full");
	ring->of[ring->used].block = *b;
	ring->of[ring->used].round = w->round;
	ring->of[ring->used].step = w->step;
	ring->of[ring->used].op = w->op;
	return ring->used++;
}

bool ring_has_room(const struct worker *w)
{
	for (int c = 0; c < context_count; c++)
		if (w->rings[c].used + RING_ROOM > RING)
			return false;
	return true;
}

static void look_at(struct worker *w, struct ring *ring)
{
	for (unsigned int i = 0; i < ring->used; i++) {
		const struct block *b = &ring->of[i].block;
		uint32_t count = ((volatile uint32_t *)ring->words)[i];

		if (count)
			fail(w,
			     "WRONG BYTES: %u words of the %zu bytes at %#llx (context %d) were not"
			     " %#x, checked in round %u step %u (%s)", count, b->bytes, b->address,
			     b->context, b->value, ring->of[i].round, ring->of[i].step,
			     ring->of[i].op);
	}
	ring->used = 0;
}

/* Waits for all that the worker submitted. A per-thread stream is its own thread's alone; the
 * last worker's calls are all the main thread's. */
void verify(struct worker *w, bool by_itself)
{
	bool own_thread = by_itself || w->index == options.threads;
	const char *op = w->op;

	w->op = "verify";
	disturb_in_turn(w);
	for (unsigned int i = 0; i < options.streams; i++) {
		struct stream *s = &w->streams[i];

		if (!s->open || (!own_thread && s->handle == STREAM_PER_THREAD))
			continue;
		enter(w, s->context);
		MUST(w, cuStreamSynchronize(s->handle));
	}
	while (w->parting_count) {
		unsigned int last = --w->parting_count;

		enter(w, w->partings[last].context);
		MUST(w, cuEventSynchronize(w->partings[last].event));
		event_give(w, w->partings[last].context, w->partings[last].event);
	}
	for (int c = 0; c < context_count; c++)
		look_at(w, &w->rings[c]);
	disturbing_ends(w);
	w->op = op;
}

/* CONTEXT is about to end, and all that the worker submitted is done: its ring, its events and
 * mostly its streams end with the context. */
void worker_close(struct worker *w, int context)
{
	for (unsigned int i = 0; i < options.streams; i++) {
		struct stream *s = &w->streams[i];

		if (s->context != context || !s->open)
			continue;
		if (s->created && chance(w, 30))
			MUST(w, cuStreamDestroy_v2(s->handle));
		s->open = false;
	}
	if (w->rings[context].words)
		w->counts[COUNT_lost]++;
	w->rings[context].words = NULL;
	w->rings[context].used = 0;
	w->spare_count[context] = 0;
}

/* The program's end: everything is freed, so that nothing leaks. */
void world_close(struct worker *keeper)
{
	struct block b;

	keeper->op = "close";
	forget_current();
	while (take_over(keeper, &b)) {
		enter(keeper, b.context);
		block_free_plainly(keeper, &b);
	}
	for (unsigned int i = 0; i <= options.threads; i++) {
		struct worker *w = &workers[i];

		verify(w, false);
		while (w->live_count) {
			b = take_live(w, 0);
			block_free_plainly(w, &b);
		}
		for (int c = 0; c < context_count; c++)
			if (w->rings[c].words) {
				enter(w, c);
				pinned_free(w, w->rings[c].words);
			}
	}
	for (int c = 0; c < context_count; c++) {
		enter(keeper, c);
		MUST(keeper, cuCtxSynchronize());
	}
	for (int c = 0; c < context_count; c++)
		if (!contexts[c].primary)
			MUST(keeper, cuCtxDestroy_v2(contexts[c].handle));
	for (int c = 0; c < context_count; c++)
		if (contexts[c].primary)
			MUST(keeper, cuDevicePrimaryCtxRelease_v2(contexts[c].device));
}
