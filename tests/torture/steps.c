/* SPDX-License-Identifier: MIT
 *
 * What a worker may do next, how likely that is, and whether it may happen beside a capture in
 * global mode.
 */
#include <string.h>

#include "torture.h"

enum { BUFFER = 64 << 10 };
static __thread uint32_t buffer[BUFFER / 4];

static void drop_one(struct worker *w)
{
	struct block b = take_live(w, below(w, w->live_count));

	block_free(w, &b);
}

static int any_context(struct worker *w)
{
	return (int)below(w, (unsigned int)context_count);
}

/* A new block, filled and mostly checked; false: none. */
static bool fresh(struct worker *w, struct block *b, int context, size_t bytes)
{
	if (!block_make(w, b, context, bytes))
		return false;
	block_fill(w, b, pick_stream(w, context), draw_clocks(w));
	if (chance(w, 60))
		block_check(w, b, pick_stream(w, context), chance(w, 50) ? draw_clocks(w) : 0);
	return true;
}

static void step_make(struct worker *w)
{
	struct block b;

	if (w->live_count == MAX_LIVE)
		drop_one(w);
	if (fresh(w, &b, any_context(w), draw_size(w)))
		keep(w, &b);
}

static void step_free(struct worker *w)
{
	if (w->live_count)
		drop_one(w);
}

static void step_check(struct worker *w)
{
	const struct stream *s;
	struct block *b;

	if (!w->live_count)
		return;
	b = &w->live[below(w, w->live_count)];
	s = pick_calm_stream(w, b->context);
	if (s)
		block_check(w, b, s, draw_clocks(w));
}

/* Temporary blocks of one size, freed while their work is pending: who hands one out too
 * early mixes up their patterns. */
static void step_burst(struct worker *w)
{
	unsigned int times = 2 + below(w, 16);
	int context = any_context(w);
	size_t bytes = draw_size(w);
	bool slow = chance(w, 20);

	while (times--) {
		struct block b;

		if (!block_make(w, &b, context, bytes))
			return;
		block_fill(w, &b, pick_stream(w, context),
			   slow ? below(w, 200000) : draw_clocks(w));
		block_check(w, &b, pick_stream(w, context), below(w, 20000));
		block_free(w, &b);
	}
}

static void step_copy(struct worker *w)
{
	struct block to, *from;

	if (!w->live_count || w->live_count == MAX_LIVE)
		return;
	from = &w->live[below(w, w->live_count)];
	if (!block_make(w, &to, from->context, from->bytes))
		return;
	block_copy(w, &to, from, pick_stream(w, from->context));
	block_check(w, &to, pick_stream(w, to.context), 0);
	if (chance(w, 50))
		keep(w, &to);
	else
		block_free(w, &to);
}

static void fill_host(uint32_t *words, size_t bytes, uint32_t value)
{
	for (size_t i = 0; i < bytes / 4; i++)
		words[i] = value;
}

static void check_host(const struct worker *w, const uint32_t *words, const struct block *b,
		       const char *where)
{
	for (size_t i = 0; i < b->bytes / 4; i++)
		if (words[i] != b->value)
			fail(w,
			     "WRONG BYTES: word %zu of the %zu bytes at %#llx, %s, is %#x, not %#x",
			     i, b->bytes, b->address, where, words[i], b->value);
}

/* From pinned memory, which is freed while the copy is pending. */
static void pinned_to_device(struct worker *w, struct block *b, const struct stream *s)
{
	void *p;

	enter(w, b->context);
	if (!pinned_alloc(w, &p, b->bytes))
		return;
	b->value = (uint32_t)draw(w) | 1;
	fill_host(p, b->bytes, b->value);
	MUST(w, launch_spin(&contexts[b->context].kernels, s->handle, draw_clocks(w)));
	block_use(w, b, s);
	MUST(w, cuMemcpyHtoDAsync_v2(b->address, p, b->bytes, s->handle));
	block_used(w, b, s);
	pinned_free(w, p);
	block_check(w, b, pick_stream(w, b->context), 0);
}

/* To pinned memory, where a kernel or the host looks. */
static void device_to_pinned(struct worker *w, struct block *b, const struct stream *s)
{
	void *p;

	enter(w, b->context);
	if (!pinned_alloc(w, &p, b->bytes))
		return;
	block_use(w, b, s);
	MUST(w, cuMemcpyDtoHAsync_v2(p, b->address, b->bytes, s->handle));
	block_used(w, b, s);
	if (chance(w, 50)) {
		MUST(w, launch_check(&contexts[b->context].kernels, s->handle, (uintptr_t)p,
				     b->bytes / 4, b->value,
				     &w->rings[b->context].words[ring_slot(w, b)], draw_clocks(w)));
		w->counts[COUNT_checks]++;
	} else {
		MUST(w, cuEventSynchronize(b->used));
		check_host(w, p, b, "copied to pinned memory");
	}
	pinned_free(w, p);
}

static void step_pinned(struct worker *w)
{
	const struct stream *s;
	struct block *b;

	if (!w->live_count)
		return;
	b = &w->live[below(w, w->live_count)];
	s = pick_stream(w, b->context);
	w->counts[COUNT_pinned]++;
	if (chance(w, 50))
		pinned_to_device(w, b, s);
	else
		device_to_pinned(w, b, s);
}

/* Copies that block the caller, through the legacy stream, from and to pageable memory. */
static void step_host(struct worker *w)
{
	const struct stream legacy = { .handle = NULL };
	struct block *b;

	if (!w->live_count || !no_captures())
		return;
	b = &w->live[below(w, w->live_count)];
	enter(w, b->context);
	if (b->bytes <= BUFFER) {
		if (b->used)
			MUST(w, cuEventSynchronize(b->used));
		if (chance(w, 50)) {
			MUST(w, cuMemcpyDtoH_v2(buffer, b->address, b->bytes));
			check_host(w, buffer, b, "copied to the host");
		} else {
			b->value = (uint32_t)draw(w) | 1;
			fill_host(buffer, b->bytes, b->value);
			MUST(w, cuMemcpyHtoD_v2(b->address, buffer, b->bytes));
			block_used(w, b, &legacy);
		}
		w->counts[COUNT_copies]++;
	}
	captures_may_go_on();
	if (chance(w, 50))
		block_check(w, b, pick_stream(w, b->context), 0);
}

static void step_wait(struct worker *w)
{
	struct stream *s = &w->streams[below(w, options.streams)];

	enter(w, s->context);
	w->counts[COUNT_waits]++;
	if (chance(w, 60)) {
		MUST(w, cuStreamSynchronize(s->handle));
	} else if (no_captures()) {
		MUST(w, cuCtxSynchronize());
		captures_may_go_on();
	}
}

static void step_hand_over(struct worker *w)
{
	if (w->live_count && hand_over(&w->live[w->live_count - 1]))
		w->live_count--;
}

static void step_take_over(struct worker *w)
{
	struct block b;

	if (w->live_count == MAX_LIVE || !take_over(w, &b))
		return;
	if (chance(w, 50))
		block_check(w, &b, pick_stream(w, b.context), draw_clocks(w));
	if (chance(w, 30)) {
		keep(w, &b);
	} else {
		w->counts[COUNT_freed_elsewhere]++;
		enter(w, b.context);
		block_free_plainly(w, &b);
	}
}

static void step_query(struct worker *w)
{
	size_t unused, total;

	if (has(FEATURE_queries) && w->live_count)
		block_query(w, &w->live[below(w, w->live_count)]);
	enter(w, any_context(w));
	MUST(w, cuMemGetInfo_v2(&unused, &total));
	if (unused > total || !total)
		fail(w, "%zu bytes of %zu are free", unused, total);
}

static void step_wrong(struct worker *w)
{
	const struct block *b;

	wrong_free(w, chance(w, 50) ? 0x1234 : (uintptr_t)&b);
	if (!w->live_count)
		return;
	b = &w->live[below(w, w->live_count)];
	if (b->bytes > 1 && !b->ordered)
		wrong_free(w, b->address + 1 + draw(w) % (b->bytes - 1));
}

static const struct step {
	const char *name;
	unsigned int weight, feature;
	bool disturbs; /* a capture in global mode */
	void (*run)(struct worker *w);
} table[] = {
	{ "make", 20, 0, true, step_make },
	{ "free", 16, 0, true, step_free },
	{ "check", 15, 0, false, step_check },
	{ "burst", 16, 0, true, step_burst },
	{ "copy", 8, FEATURE_copies, true, step_copy },
	{ "pinned", 8, FEATURE_pinned, true, step_pinned },
	{ "host", 4, FEATURE_blocking, true, step_host },
	{ "wait", 3, 0, true, step_wait },
	{ "hand over", 6, FEATURE_cross, true, step_hand_over },
	{ "take over", 8, FEATURE_cross, true, step_take_over },
	{ "stream", 4, FEATURE_streams, true, stream_replace },
	{ "query", 5, FEATURE_queries, false, step_query },
	{ "wrong free", 2, FEATURE_wrong, true, step_wrong },
	{ "capture", 4, FEATURE_captures, false, step_capture },
};

static const struct step *pick_step(struct worker *w)
{
	for (;;) {
		unsigned int at = below(w, 120);

		for (unsigned int i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			if (at >= table[i].weight) {
				at -= table[i].weight;
				continue;
			}
			if (!table[i].feature || has(table[i].feature))
				return &table[i];
			break;
		}
	}
}

/* Blocks that are freed with work pending by a thread that ends. Not in its per-thread stream,
 * for which nobody else can wait. */
static void last_words(struct worker *w)
{
	w->op = "last words";
	disturb_in_turn(w);
	for (int i = 0; i < 4; i++) {
		int context = any_context(w);
		const struct stream *s = pick_stream(w, context);
		struct block b;

		if (!s->created || !block_make(w, &b, context, draw_size(w)))
			continue;
		block_fill(w, &b, s, below(w, 300000));
		block_check(w, &b, s, 0);
		block_free_plainly(w, &b);
	}
	disturbing_ends(w);
}

void steps(struct worker *w)
{
	for (w->step = 1; w->step <= options.ops && !over(); w->step++) {
		const struct step *s = pick_step(w);

		if (!ring_has_room(w))
			verify(w, true);
		alive();
		tensors_step(w);
		w->op = s->name;
		w->counts[COUNT_steps]++;
		if (!s->disturbs) {
			s->run(w);
		} else if (may_disturb(w)) {
			s->run(w);
			disturbing_ends(w);
		} else {
			w->counts[COUNT_held_back]++;
			step_check(w);
		}
	}
	tensors_thread_ends(w);
	verify(w, true);
	last_words(w);
}
