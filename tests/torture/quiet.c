/* SPDX-License-Identifier: MIT
 *
 * Between rounds, when one thread alone is left: frees that must fail, figures that must be
 * exact, and ends of contexts with blocks in them.
 */
#include "torture.h"

enum { MEBIBYTE = 1 << 20 };

static void expect_nothing_at(const struct worker *w, CUdeviceptr address)
{
	CUdeviceptr base;
	size_t bytes;
	unsigned int type;

	if (!cuMemGetAddressRange_v2(&base, &bytes, address))
		fail(w, "%#llx was freed and has a range", address);
	if (!cuPointerGetAttribute(&type, ATTRIBUTE_MEMORY_TYPE, address))
		fail(w, "%#llx was freed and has attributes", address);
}

/* Nobody else can have been given the address: no other thread runs. */
static void double_frees(struct worker *w, int context)
{
	struct block b, beside;
	CUdeviceptr address;
	const struct stream *s = pick_stream(w, context);
	size_t bytes = draw_size(w);

	w->op = "double frees";
	if (!block_make(w, &beside, context, bytes))
		return;
	block_fill(w, &beside, s, draw_clocks(w));
	if (block_make(w, &b, context, bytes)) {
		bool ordered = b.ordered;

		address = b.address;
		block_fill(w, &b, s, draw_clocks(w));
		block_free_plainly(w, &b);
		if (!ordered) {
			wrong_free(w, address);
			expect_nothing_at(w, address);
		}
		if (!ordered && chance(w, 50))
			wrong_free(w, address);
	}
	block_check(w, &beside, s, 0);
	if (!beside.ordered && bytes > 1)
		wrong_free(w, beside.address + bytes / 2);
	block_free_plainly(w, &beside);
	wrong_free(w, 0x1234);
	MUST(w, cuMemFree_v2(0));
}

/* A driver of its own accord is wrecked by the second one. */
static void double_free_in_stream(struct worker *w, int context)
{
	const struct stream *s = pick_stream(w, context);
	struct block b;

	w->op = "double free in a stream";
	if (!block_make(w, &b, context, draw_size(w)))
		return;
	if (!b.ordered) {
		MUST(w, cuMemFreeAsync(b.address, s->handle));
		expect(w, cuMemFreeAsync(b.address, s->handle), INVALID_VALUE,
		       "a second cuMemFreeAsync");
		w->counts[COUNT_errors]++;
		w->counts[COUNT_freed]++;
	} else {
		block_free_plainly(w, &b);
	}
}

static void double_pinned_free(struct worker *w)
{
	void *p;

	w->op = "double pinned free";
	if (!pinned_alloc(w, &p, 1 + draw_size(w) % MEBIBYTE))
		return;
	pinned_free(w, p);
	expect(w, cuMemFreeHost(p), INVALID_VALUE, "a second cuMemFreeHost");
	w->counts[COUNT_errors]++;
}

/* What is cached is free; an eighth more than was asked for may be gone. */
static void exact_info(struct worker *w, int context)
{
	size_t bytes = (size_t)(1 + below(w, 64)) * 2 * MEBIBYTE, before, after, total, gone;
	const size_t slack = on_standin ? 0 : 8 * MEBIBYTE; /* page tables and the like */
	struct block b = { .bytes = bytes, .context = context };
	CUresult r;

	w->op = "info";
	for (int c = 0; c < context_count; c++) { /* what is freed in streams is free, too */
		enter(w, c);
		MUST(w, cuCtxSynchronize());
	}
	enter(w, context);
	MUST(w, cuMemGetInfo_v2(&before, &total));
	r = cuMemAlloc_v2(&b.address, bytes);
	if (r == OUT_OF_MEMORY && options.may_fail) {
		count_refused(w);
		return;
	}
	expect(w, r, SUCCESS, "cuMemAlloc_v2");
	w->counts[COUNT_allocated]++;
	MUST(w, cuMemGetInfo_v2(&after, &total));
	gone = before - after;
	if (before < after || gone + slack < bytes ||
	    gone > bytes + bytes / 8 + 4 * MEBIBYTE + slack)
		fail(w, "%zu bytes were allocated, and of %zu free bytes %zu are left", bytes,
		     before,
		     after);
	block_free_plainly(w, &b);
	MUST(w, cuMemGetInfo_v2(&after, &total));
	if (after > before + slack || after + slack < before)
		fail(w, "%zu bytes were free, and are %zu after a pair of %zu bytes", before, after,
		     bytes);
}

void quiet(struct worker *w)
{
	w->op = "quiet";
	forget_current();
	balances_check_quiet(w);
	if (chance(w, 50))
		for (unsigned int i = 0; i < options.threads; i++)
			verify(&workers[i], false);
	for (int c = 0; c < context_count && has(FEATURE_wrong); c++)
		double_frees(w, c);
	enter(w, 0);
	if (has(FEATURE_wrong) && has(FEATURE_async) && options.mode != MODE_OFF)
		double_free_in_stream(w, 0);
	if (has(FEATURE_wrong) && has(FEATURE_pinned))
		double_pinned_free(w);
	if (has(FEATURE_info))
		exact_info(w, (int)below(w, (unsigned int)context_count));
	verify(w, false);
	balances_check_quiet(w);
}

static void lose_blocks(struct worker *keeper, struct worker *w, int context)
{
	for (unsigned int i = 0; i < w->live_count;) {
		struct block b;

		if (w->live[i].context != context) {
			i++;
			continue;
		}
		b = take_live(w, i);
		if (b.ordered || chance(keeper, 30))
			block_free_plainly(w, &b);
		else
			w->counts[COUNT_lost]++;
	}
}

/* A reset or a destruction, with blocks left. */
static void end_context(struct worker *w, int context)
{
	struct context *c = &contexts[context];

	w->op = c->primary ? "reset" : "destroy";
	for (unsigned int i = 0; i <= options.threads; i++) {
		verify(&workers[i], false);
		lose_blocks(w, &workers[i], context);
	}
	queue_drop(w, context);
	enter(w, context);
	MUST(w, cuCtxSynchronize());
	for (unsigned int i = 0; i <= options.threads; i++)
		worker_close(&workers[i], context);
	if (c->primary)
		MUST(w, cuDevicePrimaryCtxReset_v2(c->device));
	else
		MUST(w, cuCtxDestroy_v2(c->handle));
	w->counts[COUNT_endings]++;
	forget_current();
	context_open(w, context);
}

void endings(struct worker *w)
{
	for (int c = 0; c < context_count; c++)
		if (has(contexts[c].primary ? FEATURE_resets : FEATURE_contexts) && chance(w, 30))
			end_context(w, c);
}
