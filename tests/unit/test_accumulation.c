/* SPDX-License-Identifier: MIT
 *
 * Suballocations that accumulate: the windows of a series against all events, and the rule on
 * small programs that allocate and free at a few call sites.
 * Links: test_accumulation.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/live_series.h"
#include "report/model/accumulation_rule.h"

#define SITES 8
#define BYTES 1024u
#define SECOND 1000000000u

/* A program: what its call sites have allocated, in the ledger's form. */
struct program {
	uint64_t suballocated;
	uint64_t now_ns;
	struct {
		uint64_t allocs, live;
		struct ledger_live_series series;
	} site[SITES];
};

static void begin_window(struct program *p, int site)
{
	const struct live_moment now = { p->suballocated, p->site[site].allocs, p->now_ns };

	if (live_series_is_due(&p->site[site].series, p->suballocated))
		live_series_begin(&p->site[site].series, &now);
}

static void keep_sized(struct program *p, int site, uint64_t bytes)
{
	begin_window(p, site);
	live_series_add(&p->site[site].series, live_amount(bytes));
	p->site[site].allocs++;
	p->site[site].live++;
	p->suballocated++;
}

static void drop_sized(struct program *p, int site, uint64_t bytes)
{
	begin_window(p, site);
	live_series_remove(&p->site[site].series, live_amount(bytes));
	p->site[site].live--;
}

static void keep(struct program *p, int site, int count)
{
	for (; count > 0; count--)
		keep_sized(p, site, BYTES);
}

static void drop(struct program *p, int site, int count)
{
	for (; count > 0; count--)
		drop_sized(p, site, BYTES);
}

/* Allocates and frees, as most lines do. */
static void use(struct program *p, int site, int count)
{
	for (; count > 0; count--) {
		keep(p, site, 1);
		drop(p, site, 1);
	}
}

/* A step of a training, without anything that is kept. Takes 10 ms. */
static void step(struct program *p)
{
	use(p, 6, 10);
	p->now_ns += SECOND / 100;
}

/* The interpreter's end. */
static void drop_all(struct program *p)
{
	for (int i = 0; i < SITES; i++)
		drop(p, i, (int)p->site[i].live);
}

static void read_windows(const struct program *p, struct live_windows ret[SITES],
			 struct process_windows *ret_process)
{
	unsigned int shift = live_shift(p->suballocated);
	struct ledger_live_series copy;

	*ret_process = (struct process_windows){ .window_allocs = (uint64_t)1 << shift };
	for (int i = 0; i < SITES; i++) {
		const struct live_moment end = { p->suballocated, p->site[i].allocs, 0 };

		assert_true(live_series_read(&p->site[i].series, &end, &copy));
		ret[i] = (struct live_windows){ .count = p->suballocated >> shift,
						.allocs = p->site[i].allocs };
		assert_int_equal(copy.current, ret[i].count);
		copy.window[copy.current].low = copy.low;
		copy.window[copy.current].high = copy.high;
		for (size_t n = 0; n <= ret[i].count; n++) {
			const struct ledger_window *w = &copy.window[n];

			ret[i].window[n] = (struct live_window){
				LEDGER_AMOUNT_BLOCKS(w->low), LEDGER_AMOUNT_BYTES(w->low),
				LEDGER_AMOUNT_BLOCKS(w->high), LEDGER_AMOUNT_BYTES(w->high),
				w->allocs, (uint64_t)w->time << LEDGER_WINDOW_TIME_BITS };
			if (n < ret[i].count) {
				ret_process->low_blocks[n] += LEDGER_AMOUNT_BLOCKS(w->low);
				ret_process->low_bytes[n] += LEDGER_AMOUNT_BYTES(w->low);
			}
		}
		ret_process->working_sites += live_windows_work(&ret[i]);
		ret_process->larger_sites += live_windows_work(&ret[i]) &&
					     live_windows_become_larger(&ret[i]);
	}
}

static struct accumulation judged(const struct program *p, int site)
{
	struct live_windows windows[SITES];
	struct process_windows process;

	read_windows(p, windows, &process);
	return accumulation_judge(&windows[site], &process);
}

#define TREND(trend_, program, site) assert_int_equal(judged(program, site).trend, TREND_##trend_)

/* ---- the windows ---- */

/* The same windows, computed from all events: the live blocks before and after each. */
struct event {
	uint64_t suballocated, before, after;
};

static void check_windows(const struct program *p, const struct event *events, size_t count)
{
	struct live_windows windows[SITES];
	struct process_windows process;
	size_t at = 0;
	uint64_t live = 0;

	read_windows(p, windows, &process);
	assert_true(windows[0].count < LEDGER_WINDOWS);
	assert_true(p->suballocated < LEDGER_WINDOWS || windows[0].count >= LEDGER_WINDOWS / 2);
	for (size_t n = 0; n <= windows[0].count; n++) {
		uint64_t low = live, high = live, end = (n + 1) * process.window_allocs;

		for (; at < count && events[at].suballocated < end; at++) {
			live = events[at].after;
			low = live < low ? live : low;
			high = live > high ? live : high;
		}
		assert_int_equal(windows[0].window[n].low_blocks, low);
		assert_int_equal(windows[0].window[n].low_bytes, low * BYTES);
		assert_int_equal(windows[0].window[n].high_blocks, high);
		assert_int_equal(windows[0].window[n].high_bytes, high * BYTES);
	}
}

/* Site 0 comes and goes at random, and pauses; the other sites let time pass. */
static void test_windows(void **state)
{
	static struct event events[60000];

	(void)state;
	for (unsigned int seed = 1; seed <= 40; seed++) {
		struct program p = { 0 };
		size_t count = 0, wanted = seed * 37 * (seed % 3 ? 1 : 40);
		uint32_t random = seed;

		while (count < wanted) {
			struct event event = { p.suballocated, p.site[0].live, 0 };

			random = random * 1664525 + 1013904223;
			if (random >> 28 < 4) {
				keep(&p, 1, (int)(random >> 8) % 50);
				continue;
			}
			if (random >> 28 < 11 || !p.site[0].live)
				keep(&p, 0, 1);
			else
				drop(&p, 0, 1);
			event.after = p.site[0].live;
			events[count++] = event;
			if (count % (wanted / 5 + 1) == 0)
				check_windows(&p, events, count);
		}
		check_windows(&p, events, count);
	}
}

/* What a reader finds is used only if it can be true. */
static void test_damaged(void **state)
{
	struct program p = { 0 };
	struct live_moment end = { 0 };
	struct ledger_live_series series, copy;

	(void)state;
	keep(&p, 0, 1000);
	end.suballocated = p.suballocated;
	series = p.site[0].series;
	assert_true(live_series_read(&series, &end, &copy));
	series.began++; /* the writer is changing it, or was killed */
	assert_false(live_series_read(&series, &end, &copy));
	series = p.site[0].series;
	series.current = LEDGER_WINDOWS;
	assert_false(live_series_read(&series, &end, &copy));
	series.current = 31; /* ahead of the process */
	series.shift = 6;
	assert_false(live_series_read(&series, &end, &copy));
	series.current = 0;
	series.shift = 40;
	assert_false(live_series_read(&series, &end, &copy));
	memset(&series, 0xff, sizeof(series));
	assert_false(live_series_read(&series, &end, &copy));
	end.suballocated = UINT64_MAX;
	memset(&series, 0, sizeof(series));
	assert_true(live_series_read(&series, &end, &copy));
}

/* A block that is larger than an amount can have takes no other block's place. */
static void test_amounts(void **state)
{
	(void)state;
	assert_int_equal(LEDGER_AMOUNT_BLOCKS(live_amount(UINT64_MAX)), 1);
	assert_int_equal(LEDGER_AMOUNT_BYTES(live_amount(1)), 512);
	assert_int_equal(LEDGER_AMOUNT_BYTES(live_amount(512)), 512);
	assert_int_equal(LEDGER_AMOUNT_BYTES(live_amount(0)), 0);
}

/* ---- what accumulates ---- */

static void test_leaks(void **state)
{
	struct accumulation found;

	(void)state;
	for (int part = 1; part <= 20; part *= 2) { /* one of PART is kept */
		struct program p = { 0 };

		keep(&p, 5, 20); /* a model */
		for (int i = 0; i < 400; i++) {
			step(&p);
			if (i % part)
				use(&p, 0, 1);
			else
				keep(&p, 0, 1);
		}
		drop_all(&p);
		found = judged(&p, 0);
		assert_int_equal(found.trend, TREND_ACCUMULATING);
		assert_uint_in_range(found.kept_blocks, 400 / part - (part > 1), 400 / part);
		assert_true(found.kept_bytes >= (found.kept_blocks - 1) * BYTES);
		assert_true(found.kept_per_second > 95.0 / part &&
			    found.kept_per_second < 105.0 / part);
		TREND(FILLED, &p, 5);
		TREND(CONSTANT, &p, 6);
	}
}

/* A loop that ends within a few ticks of the clock: what it keeps is known, its rate is not. */
static void test_rate_unknown(void **state)
{
	(void)state;
	for (int ticks = 0; ticks < 10; ticks += 3) {
		struct program p = { .now_ns = SECOND };
		struct accumulation found;

		for (int i = 0; i < 400; i++) {
			use(&p, 6, 10);
			keep(&p, 0, 1);
			p.now_ns = SECOND + (uint64_t)(i * ticks / 400) * SECOND / 100;
		}
		found = judged(&p, 0);
		assert_int_equal(found.trend, TREND_ACCUMULATING);
		assert_int_equal(found.kept_blocks, 400);
		assert_true(found.kept_per_second == 0);
	}
}

/* The leak begins late, comes in epochs, or its loop ends before the process. */
static void test_phases(void **state)
{
	struct program late = { 0 }, epochs = { 0 }, early = { 0 };

	(void)state;
	for (int i = 0; i < 1000; i++) {
		step(&late);
		keep(&late, 0, i >= 600);
	}
	TREND(ACCUMULATING, &late, 0);
	for (int i = 0; i < 8 * 50; i++) {
		step(&epochs);
		keep(&epochs, 0, i % 50 > 40);
	}
	drop_all(&epochs);
	TREND(ACCUMULATING, &epochs, 0);
	for (int i = 0; i < 1000; i++) {
		step(&early);
		keep(&early, 0, i < 700);
	}
	TREND(ACCUMULATING, &early, 0);
	assert_int_equal(judged(&early, 0).kept_blocks, 700);
}

/* COUNT times: 100 steps, then BLOCKS are kept. */
static struct program in_bursts(int count, int blocks)
{
	struct program p = { 0 };

	for (int i = 0; i < count; i++) {
		for (int n = 0; n < 100; n++)
			step(&p);
		keep(&p, 0, blocks);
	}
	drop_all(&p);
	return p;
}

static void test_bursts(void **state)
{
	struct program p;

	(void)state;
	for (int count = 8; count < 40; count++) {
		p = in_bursts(count, 2);
		TREND(ACCUMULATING, &p, 0);
	}
	p = in_bursts(6, 8);
	TREND(ACCUMULATING, &p, 0);
	p = in_bursts(5, 4); /* a few models */
	assert_int_not_equal(judged(&p, 0).trend, TREND_ACCUMULATING);
	p = in_bursts(7, 1);
	assert_int_not_equal(judged(&p, 0).trend, TREND_ACCUMULATING);
	for (int count = 1; count <= 4; count++) /* the last one comes with the end */
		for (int blocks = 10; blocks <= 20; blocks += 5) {
			p = in_bursts(count, blocks);
			assert_int_not_equal(judged(&p, 0).trend, TREND_ACCUMULATING);
		}
}

/* The list of a function that returns: something else is done last, for a short time. */
static void test_dropped(void **state)
{
	struct program once = { 0 }, again = { 0 };

	(void)state;
	for (int i = 0; i < 1000; i++) {
		step(&once);
		keep(&once, 0, i < 880);
		if (i == 880)
			drop_all(&once);
		step(&again);
		keep(&again, 0, 1);
		if (i == 880)
			drop_all(&again);
	}
	TREND(ACCUMULATING, &once, 0);
	assert_int_equal(judged(&once, 0).kept_blocks, 880);
	TREND(CONSTANT, &again, 0); /* the next list is dropped, too */
}

/* A tensor that is replaced in each of 500 steps. After each TIMES of them it is larger by MORE
 * bytes, from step AFTER on. The work stays the same or GROWS. LOADS: two other lines have tensors
 * at the beginning only. */
struct larger {
	uint64_t first, more;
	unsigned int times;
	bool grows;
	unsigned int after;
	bool loads;
};

static struct program with_larger(struct larger how)
{
	struct program p = { 0 };
	uint64_t before = how.first;

	keep_sized(&p, 0, how.first);
	keep(&p, 6, how.loads ? 20 : 0);
	keep(&p, 7, how.loads ? 20 : 0);
	for (unsigned int i = 1; i <= 500; i++) {
		unsigned int growing = i > how.after ? i - how.after : 0;
		uint64_t size = how.first + how.more * (growing / how.times);

		for (int n = 0; n < 5; n++) {
			uint64_t bytes = how.grows && n < 3 ? BYTES * i : BYTES;

			keep_sized(&p, n + 1, bytes);
			drop_sized(&p, n + 1, bytes);
		}
		keep_sized(&p, 0, size);
		drop_sized(&p, 0, before);
		before = size;
	}
	return p;
}

static void test_larger(void **state)
{
	static const struct larger others[] = {
		{ BYTES, BYTES, 1, true, 0, false }, /* all tensors become larger */
		{ BYTES, BYTES, 1, true, 0, true }, /* those of a load do not count */
		{ BYTES, 10 * BYTES, 50, false, 0, false }, /* ten sizes, one after the other */
		{ BYTES, 512, 17, false, 0, false }, /* little */
		{ 1000 * BYTES, BYTES, 1, false, 0, false }, /* less than it had at first */
		{ BYTES, BYTES, 1, false, 330, false }, /* a text that is written at the end */
	};
	struct program p = with_larger((struct larger){ BYTES, BYTES, 1, false, 0, false });
	struct accumulation found = judged(&p, 0);

	(void)state;
	assert_int_equal(found.trend, TREND_ACCUMULATING);
	assert_int_equal(found.kept_blocks, 1);
	assert_uint_in_range(found.kept_bytes, 460 * BYTES, 501 * BYTES);
	TREND(CONSTANT, &p, 1);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		p = with_larger(others[i]);
		TREND(CONSTANT, &p, 0);
	}
}

/* ---- what does not ---- */

/* A few weights are as many as their line ever allocated. A line that keeps as few of many does
 * not fill. */
static void test_few_weights(void **state)
{
	struct program p = { 0 };

	(void)state;
	keep(&p, 0, 4);
	keep(&p, 1, 4);
	for (int i = 0; i < 400; i++) {
		step(&p);
		use(&p, 1, 1);
	}
	TREND(FILLED, &p, 0);
	TREND(CONSTANT, &p, 1);
	TREND(CONSTANT, &p, 6);
}

/* Outputs of one evaluation at the end; a loop in the middle that keeps; a load that takes long. */
static void test_short_growth(void **state)
{
	struct program last = { 0 }, middle = { 0 }, dropped = { 0 }, load = { 0 };

	(void)state;
	for (int i = 0; i < 1600; i++) {
		step(&last);
		keep(&last, 0, i >= 1312);
	}
	assert_int_not_equal(judged(&last, 0).trend, TREND_ACCUMULATING);
	for (int i = 0; i < 1000; i++) {
		step(&middle);
		keep(&middle, 0, i >= 250 && i < 630);
		step(&dropped);
		keep(&dropped, 0, i < 680);
		if (i == 680)
			drop(&dropped, 0, 680);
	}
	TREND(FILLED, &middle, 0);
	TREND(CONSTANT, &dropped, 0);
	for (int i = 0; i < 680; i++) {
		use(&load, 6, 1);
		keep(&load, 0, 1);
	}
	for (int i = 0; i < 80; i++)
		step(&load);
	TREND(FILLED, &load, 0);
}

static void test_caches(void **state)
{
	(void)state;
	for (int size = 8; size <= 660; size += size < 512 ? size : 138) {
		struct program p = { 0 };

		for (int i = 0; i < 1000; i++) {
			step(&p);
			keep(&p, 0, 1);
			drop(&p, 0, p.site[0].live > (uint64_t)size);
		}
		drop_all(&p);
		if (size <= 256)
			TREND(FILLED, &p, 0);
		assert_int_not_equal(judged(&p, 0).trend, TREND_ACCUMULATING);
	}
}

/* A buffer that one line fills, and whose entries another one replaces at random. */
static void test_replaced(void **state)
{
	for (int size = 50; size <= 400; size += 50) {
		struct program p = { 0 };
		uint32_t random = 1;

		(void)state;
		for (int i = 0; i < 1000; i++) {
			step(&p);
			if (i < size) {
				keep(&p, 0, 1);
				continue;
			}
			random = random * 1664525 + 1013904223;
			drop(&p, (int)((random >> 8) % (uint32_t)size >= p.site[0].live), 1);
			keep(&p, 1, 1);
		}
		assert_int_not_equal(judged(&p, 0).trend, TREND_ACCUMULATING);
		assert_int_not_equal(judged(&p, 1).trend, TREND_ACCUMULATING);
	}
}

/* Keys that come at random from a limited number: the cache fills ever more slowly. */
static void test_fading(void **state)
{
	struct program p = { 0 };
	char known[100] = { 0 };
	uint32_t random = 7;

	(void)state;
	for (int i = 0; i < 400; i++) {
		step(&p);
		random = random * 1664525 + 1013904223;
		keep(&p, 0, !known[(random >> 8) % 100]);
		known[(random >> 8) % 100] = 1;
	}
	TREND(FILLED, &p, 0);
}

/* Outputs of an evaluation, gradients of a step, a cache of one prompt, Python's collector. */
static void test_teeth(void **state)
{
	(void)state;
	for (int period = 2; period <= 300; period += 7) {
		struct program p = { 0 };

		for (int i = 0; i < 900; i++) {
			step(&p);
			keep(&p, 0, 3);
			if (i % period == period - 1)
				drop(&p, 0, (int)p.site[0].live);
		}
		drop_all(&p);
		TREND(CONSTANT, &p, 0);
	}
}

/* A cache that grows with each prompt and is dropped after it. Each prompt is longer than the one
 * before, so the last rise is the longest. */
static void test_growing_teeth(void **state)
{
	struct program p = { 0 };

	(void)state;
	for (int prompt = 4; prompt < 30; prompt++) {
		for (int token = 0; token < prompt; token++) {
			use(&p, 6, 5);
			keep(&p, 0, 8);
		}
		drop(&p, 0, 8 * prompt);
	}
	TREND(CONSTANT, &p, 0);
}

/* A program that loads and ends, or that does little. */
static void test_loads(void **state)
{
	struct program load = { 0 }, small = { 0 }, data = { 0 };

	(void)state;
	keep(&load, 0, 500);
	drop_all(&load);
	TREND(FILLED, &load, 0);
	keep(&small, 0, 20);
	use(&small, 6, 20);
	TREND(UNKNOWN, &small, 0);
	for (int i = 0; i < 300; i++) { /* a dataset, each part from a raw one */
		use(&data, 6, 1);
		keep(&data, 0, 1);
	}
	for (int i = 0; i < 100; i++)
		step(&data);
	TREND(FILLED, &data, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_leaks),
		cmocka_unit_test(test_rate_unknown),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_larger),
		cmocka_unit_test(test_few_weights),
		cmocka_unit_test(test_short_growth),
		cmocka_unit_test(test_caches),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_fading),
		cmocka_unit_test(test_teeth),
		cmocka_unit_test(test_growing_teeth),
		cmocka_unit_test(test_loads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
