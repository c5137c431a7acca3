/* SPDX-License-Identifier: MIT
 *
 * The windows of a series of live suballocations. A call site begins a window at its first call in
 * it. So a window costs something only where there are calls, and no thread walks over call sites.
 */
#include "ledger/live_series.h"

unsigned int live_shift(uint64_t suballocated)
{
	unsigned int shift = 0;

	while (suballocated >> shift >= LEDGER_WINDOWS)
		shift++;
	return shift;
}

/* Adds the window LATER to the window *INTO, which precedes it. */
static void join(struct ledger_window *into, const struct ledger_window *later)
{
	if (later->low < into->low)
		into->low = later->low;
	if (later->high > into->high)
		into->high = later->high;
	if (!into->time)
		into->time = later->time;
}

/* Makes one window of each two. The last one, `current`, may have no partner yet. */
static void thin(struct ledger_live_series *series)
{
	for (uint32_t i = 0; i <= series->current; i += 2) {
		series->window[i / 2] = series->window[i];
		if (i < series->current)
			join(&series->window[i / 2], &series->window[i + 1]);
	}
	series->current /= 2;
	series->shift++;
}

/* Ends the current window and begins the one that MOMENT belongs to. In the windows between them
 * the site made no call. Other threads may use `allocated`, `freed` and the limits at the same
 * time. */
static void advance(struct ledger_live_series *series, const struct live_moment *moment)
{
	unsigned int shift = live_shift(moment->suballocated);
	uint32_t current = (uint32_t)(moment->suballocated >> shift);
	uint64_t live = shared_load(series->allocated) - shared_load(series->freed);

	series->window[series->current].low = shared_load(series->low);
	series->window[series->current].high = shared_load(series->high);
	while (series->shift < shift)
		thin(series);
	for (uint32_t i = series->current + 1; i <= current; i++)
		series->window[i] = (struct ledger_window){ .low = live, .high = live,
							    .allocs = (uint32_t)moment->allocs };
	if (current > series->current)
		series->current = current;
	shared_store(series->low, series->window[series->current].low);
	shared_store(series->high, series->window[series->current].high);
	shared_store(series->until, (uint64_t)(series->current + 1) << series->shift);
}

static uint32_t stored_time(uint64_t time_ns)
{
	uint64_t ret = (time_ns >> LEDGER_WINDOW_TIME_BITS) + 1;

	return ret < UINT32_MAX ? (uint32_t)ret : UINT32_MAX;
}

void live_series_begin(struct ledger_live_series *series, const struct live_moment *moment)
{
	uint32_t done = shared_load(series->done);

	if (!atomic_compare_exchange_strong(&SHARED(series->began), &done, done + 1))
		return;
	atomic_thread_fence(memory_order_release);
	advance(series, moment);
	if (!series->window[series->current].time)
		series->window[series->current].time = stored_time(moment->time_ns);
	shared_publish(series->done, done + 1);
}

bool live_series_read(const struct ledger_live_series *series, const struct live_moment *end,
		      struct ledger_live_series *ret)
{
	*ret = *series;
	if (ret->done != ret->began || ret->shift > live_shift(end->suballocated) ||
	    ret->current >= LEDGER_WINDOWS || ret->current > end->suballocated >> ret->shift)
		return false;
	advance(ret, end);
	return true;
}
