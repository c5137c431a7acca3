/* SPDX-License-Identifier: MIT
 *
 * The accumulation rule. Works on the level of a call site: the level of a window is the smallest
 * number of live blocks from this window until a last window. So a level never falls, and what is
 * dropped in between does not count.
 */
#include "report/model/accumulation_rule.h"
#include "report/util/memory.h"

#include <stdbool.h>
#include <stdlib.h>

/* Growth by fewer blocks is no accumulation: a program keeps a few of everything. */
#define GROWTH_MIN 8.0
/* Growth must be seen in at least GROWN_WINDOWS_MIN windows. If it is seen in fewer than
 * FEW_WINDOWS, it must be at least FEW_WINDOWS_GROWTH_MIN blocks. */
#define GROWN_WINDOWS_MIN 4u
#define FEW_WINDOWS 6u
#define FEW_WINDOWS_GROWTH_MIN 24.0
/* The growth must have lasted for at least this part of the process's windows. */
#define SPAN_MIN 0.25
/* If the time of the growth is divided into quarters, each must have at least this part of an
 * average quarter's growth. */
#define QUARTER_MIN 0.5
/* The site may drop at most this part of its growth at one time. */
#define DROPPED_MAX 0.5
/* A process that keeps more than this part of what it allocates is loading, for example a model.
 * Then no call site accumulates. */
#define LOADED_MAX 0.8
/* The process must have grown by at least this part of the site's growth. If not, other sites
 * shrank instead: for example, the entries of a full buffer are replaced by blocks that another
 * line allocates. */
#define PROCESS_GROWTH_MIN 0.5
/* The growth may end before the process does, but not before this part of the windows: a program
 * often does something else last. */
#define END_MIN 0.75
/* If the growth ended earlier, but not before EARLY_END_MIN, stricter rules apply: the site must
 * still keep all blocks, the growth must have lasted for EARLY_SPAN_MIN of the windows, and
 * EARLY_LOADED_MAX applies instead of LOADED_MAX. */
#define EARLY_END_MIN 0.6
#define EARLY_SPAN_MIN 0.5
#define EARLY_LOADED_MAX 0.4

/* A tensor that is replaced by a larger one each time: it must have grown by SIZE_GROWTH_MIN bytes,
 * in SIZE_GROWN_WINDOWS_MIN of at least SIZE_SPAN_MIN windows, and to SIZE_TIMES_MIN times its
 * first size. */
#define SIZE_GROWTH_MIN 16384.0
#define SIZE_GROWN_WINDOWS_MIN 0.9
#define SIZE_SPAN_MIN 12u
#define SIZE_TIMES_MIN 2.0
/* The blocks of a site become larger if the last ones are this many times as large as the first
 * ones. */
#define LARGER_MIN 1.25

/* A rate is computed only over at least this time, because the ledger's clock has ticks of up to 10
 * ms. */
#define RATE_SPAN_MIN_NS 100000000u

/* A site, and the level of each window up to `last`: the fewest blocks (or bytes) that were live in
 * this window or in a later one up to `last`. */
struct levels {
	const struct live_windows *site;
	const struct process_windows *process;
	bool of_bytes;
	size_t last;
	double level[LEDGER_WINDOWS];
};

bool live_windows_work(const struct live_windows *site)
{
	size_t with_calls = 0;

	for (size_t i = 0; i < site->count; i++)
		with_calls += site->window[i].time_ns != 0;
	return with_calls * 2 >= site->count;
}

bool live_windows_become_larger(const struct live_windows *site)
{
	double first = 0, last = 0;

	EACH_ITEM(site->window, site->count, window) {
		if (!window->high_blocks)
			continue;
		last = (double)window->high_bytes / (double)window->high_blocks;
		first = first > 0 ? first : last;
	}
	return last >= LARGER_MIN * first;
}

static void set_levels(struct levels *l, size_t last)
{
	const struct live_window *window = l->site->window;

	l->last = last;
	for (size_t i = last + 1; i--;) {
		l->level[i] = (double)(l->of_bytes ? window[i].low_bytes : window[i].low_blocks);
		if (i < last && l->level[i] > l->level[i + 1])
			l->level[i] = l->level[i + 1];
	}
}

/* Returns the level at PLACE, a window index with a fraction: between two windows it is
 * interpolated. */
static double level_at(const struct levels *l, double place)
{
	size_t i = (size_t)place;

	if (i >= l->last)
		return l->level[l->last];
	return l->level[i] + (place - (double)i) * (l->level[i + 1] - l->level[i]);
}

/* Returns true if the growth from window FIRST on is about the same in all quarters. */
static bool is_even(const struct levels *l, size_t first)
{
	double growth = l->level[l->last] - l->level[first], quarter;
	double step = (double)(l->last - first) / 4;

	for (int i = 0; i < 4; i++) {
		quarter = level_at(l, (double)first + step * (i + 1)) -
			  level_at(l, (double)first + step * i);
		if (quarter < QUARTER_MIN * growth / 4)
			return false;
	}
	return true;
}

/* Returns true if the site had nearly its last level earlier than END_MIN allows. */
static bool ends_early(const struct levels *l, size_t first)
{
	double nearly = l->level[l->last] - (l->level[l->last] - l->level[first]) / 50;
	size_t end = first;

	while (end < l->last && l->level[end] < nearly)
		end++;
	return (double)end < END_MIN * (double)l->site->count;
}

static size_t grown_windows(const struct levels *l, size_t first)
{
	size_t ret = 0;

	for (size_t i = first; i < l->last; i++)
		ret += l->level[i + 1] > l->level[i];
	return ret;
}

/* Returns true if the site dropped more than ALLOWED blocks at one time: from a high point before
 * FIRST to the level of FIRST, or from a later high point to the low point of a later window. */
static bool drops(const struct levels *l, size_t first, double allowed)
{
	const struct live_window *window = l->site->window;
	double high = 0;

	for (size_t i = 0; i < first; i++)
		if ((double)window[i].high_blocks > l->level[first] + allowed)
			return true;
	for (size_t i = first; i < l->last; i++) {
		if ((double)window[i].high_blocks > high)
			high = (double)window[i].high_blocks;
		if (high - (double)window[i + 1].low_blocks > allowed)
			return true;
	}
	return false;
}

/* Returns true if the whole process also kept blocks from window FIRST on, at least
 * PROCESS_GROWTH_MIN of GROWTH, but at most PART_MAX of its allocations. */
static bool grows_and_churns(const struct levels *l, size_t first, double growth, double part_max)
{
	double kept = (double)l->process->low_blocks[l->last] -
		      (double)l->process->low_blocks[first];
	double allocs = (double)l->process->window_allocs * (double)(l->last - first);

	return kept >= PROCESS_GROWTH_MIN * growth && kept <= part_max * allocs;
}

/* Returns true if the site still allocates after window `last`, in which its growth ended: a cache
 * that is full, or a list that is dropped now and then. */
static bool goes_on(const struct levels *l)
{
	const struct live_windows *site = l->site;

	return l->last + 2 < site->count && site->window[l->last + 2].allocs != site->allocs;
}

/* Returns true if the site keeps its blocks after window `last`. */
static bool keeps(const struct levels *l)
{
	const struct live_windows *site = l->site;

	for (size_t i = l->last + 1; i < site->count; i++)
		if ((double)site->window[i].low_blocks < l->level[l->last])
			return false;
	return true;
}

/* Returns true if the site has the same number of blocks from window FIRST on, which become larger
 * all the time. At least half of the other working sites must not become larger: otherwise the
 * program's work grows. */
static bool grows_in_size(const struct levels *l, size_t first)
{
	const struct process_windows *process = l->process;
	double growth = l->level[l->last] - l->level[first];
	size_t span = l->last - first;
	size_t others = process->working_sites, larger = process->larger_sites;

	if (live_windows_work(l->site)) {
		others--;
		larger -= live_windows_become_larger(l->site);
	}
	for (size_t i = first + 1; i < l->last; i++)
		if (l->site->window[i].low_blocks != l->site->window[l->last].low_blocks)
			return false;
	return growth >= SIZE_GROWTH_MIN && span >= SIZE_SPAN_MIN &&
	       (double)span >= SPAN_MIN * (double)l->site->count &&
	       !ends_early(l, first) &&
	       (double)grown_windows(l, first) >= SIZE_GROWN_WINDOWS_MIN * (double)span &&
	       l->level[l->last] >= SIZE_TIMES_MIN * l->level[first + 1] && is_even(l, first) &&
	       !goes_on(l) &&
	       (double)process->low_bytes[l->last] - (double)process->low_bytes[first] >=
		       PROCESS_GROWTH_MIN * growth &&
	       others && larger * 2 <= others;
}

/* Returns true if GROWTH from window FIRST on is enough, and came in enough windows. */
static bool is_enough(const struct levels *l, size_t first, double growth)
{
	size_t windows = grown_windows(l, first);

	return windows >= GROWN_WINDOWS_MIN &&
	       growth >= (windows < FEW_WINDOWS ? FEW_WINDOWS_GROWTH_MIN : GROWTH_MIN);
}

/* Returns true if the site accumulates from window FIRST on. */
static bool accumulates_from(const struct levels *l, size_t first)
{
	double growth = l->level[l->last] - l->level[first];
	double count = (double)l->site->count, span = (double)(l->last - first);
	bool early = ends_early(l, first);

	return is_enough(l, first, growth) &&
	       span >= (early ? EARLY_SPAN_MIN : SPAN_MIN) * count && is_even(l, first) &&
	       !drops(l, first, DROPPED_MAX * growth) && !goes_on(l) &&
	       grows_and_churns(l, first, growth, early ? EARLY_LOADED_MAX : LOADED_MAX) &&
	       (!early || keeps(l));
}

/* Returns the last window whose level is still nearly the level of window FROM. */
static size_t end_of_rest(const struct levels *l, size_t from)
{
	double growth = l->level[l->last] - l->level[from];
	size_t ret = from;

	while (ret < l->last && l->level[ret + 1] <= l->level[from] + growth / 10)
		ret++;
	return ret;
}

/* Stores in *RET_FIRST the window from which the site accumulates until window `last`, and returns
 * true. Returns false if it does not accumulate. What it allocates in the first eighth may be a
 * load phase. */
static bool find_first(const struct levels *l, size_t *ret_first)
{
	const size_t starts[] = { 0, l->last / 8, end_of_rest(l, 0), end_of_rest(l, l->last / 8) };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		*ret_first = starts[i];
		if (l->of_bytes ? grows_in_size(l, starts[i]) : accumulates_from(l, starts[i]))
			return true;
	}
	return false;
}

static bool find_growth(struct levels *l, size_t *ret_first)
{
	for (size_t last = l->site->count; last-- > 1;) {
		if ((double)(last + 1) < EARLY_END_MIN * (double)l->site->count)
			break;
		set_levels(l, last);
		if (find_first(l, ret_first))
			return true;
	}
	return false;
}

/* ---- amounts ---- */

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

/* Returns how many of the live blocks at a high point are usually freed soon: for each window, its
 * high point minus the level of the next window; of these numbers the median. */
static double passing(const struct levels *l, size_t first)
{
	double above[LEDGER_WINDOWS];
	size_t count = 0;

	for (size_t i = first; i < l->last; i++) {
		above[count] = (double)l->site->window[i].high_blocks - l->level[i + 1];
		above[count] = above[count] > 0 ? above[count] : 0;
		count++;
	}
	SORT(above, count, compare);
	return count ? above[count / 2] : 0;
}

/* Stores what the site kept. At its highest point from window `last` on, the live blocks are those
 * that it kept and those that it was about to free. */
static void set_kept(const struct levels *l, size_t first, struct accumulation *ret)
{
	const struct live_window *highest = &l->site->window[l->last];
	double part;

	if (l->of_bytes) {
		ret->kept_blocks = highest->low_blocks;
		ret->kept_bytes = highest->low_bytes;
		return;
	}
	for (size_t i = l->last + 1; i <= l->site->count && i < LEDGER_WINDOWS; i++)
		if (l->site->window[i].high_blocks > highest->high_blocks)
			highest = &l->site->window[i];
	if (!highest->high_blocks)
		return;
	part = 1 - passing(l, first) / (double)highest->high_blocks;
	ret->kept_blocks = (uint64_t)((double)highest->high_blocks * part + 0.5);
	ret->kept_bytes = part == 1 ? highest->high_bytes
				    : (uint64_t)((double)highest->high_bytes * part);
}

/* Returns the growth in blocks per second. Returns 0 if the windows have no times, or times that
 * are too near to each other. */
static double per_second(const struct levels *l, size_t first)
{
	const struct live_window *window = l->site->window;
	size_t last = l->last;

	while (first < last && !window[first].time_ns)
		first++;
	while (first < last && !window[last].time_ns)
		last--;
	if (window[last].time_ns < window[first].time_ns + RATE_SPAN_MIN_NS)
		return 0;
	return (l->level[last] - l->level[first]) * 1e9 /
	       (double)(window[last].time_ns - window[first].time_ns);
}

/* Returns true if the site kept at least half of its highest number of blocks during the last
 * quarter of its life, and these are not only a few blocks. */
static bool is_filled(const struct levels *l)
{
	const struct live_window *window = l->site->window;
	double high = 0, kept;
	size_t first = 0;

	while (first < l->last && !window[first].high_blocks)
		first++;
	kept = l->level[first + (l->last - first) * 3 / 4];
	for (size_t i = first; i <= l->last; i++)
		if ((double)window[i].high_blocks > high)
			high = (double)window[i].high_blocks;
	return kept >= high / 2 &&
	       (kept >= GROWTH_MIN || kept >= (double)l->site->allocs / 10);
}

struct accumulation accumulation_judge(const struct live_windows *site,
				       const struct process_windows *process)
{
	struct levels l = { .site = site, .process = process };
	struct accumulation ret = { .trend = TREND_UNKNOWN };
	size_t first;

	if (site->count < 2 || site->count >= LEDGER_WINDOWS ||
	    process->window_allocs * site->count < ACCUMULATION_ALLOCS_MIN)
		return ret;
	l.of_bytes = !find_growth(&l, &first);
	if (!l.of_bytes || find_growth(&l, &first)) {
		ret.trend = TREND_ACCUMULATING;
		set_kept(&l, first, &ret);
		ret.kept_per_second = l.of_bytes ? 0 : per_second(&l, first);
		return ret;
	}
	l.of_bytes = false;
	set_levels(&l, site->count - 1);
	ret.trend = is_filled(&l) ? TREND_FILLED : TREND_CONSTANT;
	if (ret.trend == TREND_FILLED) {
		ret.kept_blocks = site->window[l.last].low_blocks;
		ret.kept_bytes = site->window[l.last].low_bytes;
	}
	return ret;
}
