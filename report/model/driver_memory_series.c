/* SPDX-License-Identifier: MIT
 *
 * Sums up live memory per device, and decides which samples are stored. Does not trust the
 * ledger; allocates nothing.
 */
#include "report/model/driver_memory_series.h"

#include <stdbool.h>
#include <string.h>

#include "ledger/kind_table.h"
#include "report/util/number.h"
#include "ledger/totals.h"

/* Returns which memory blocks of KIND use. Physical memory is counted once: its bytes are in the
 * block of its handle or of one mapping. */
static enum kind_memory memory_of(const struct ledger_view *view, uint32_t kind)
{
	uint32_t length;
	const char *bytes = ledger_string(view, kind, &length);
	const struct kind *known = bytes ? kind_find(bytes, length) : NULL;

	return known ? known->memory : KIND_MEMORY_OTHER;
}

void track_memory(const struct ledger_view *view, struct tracked_memory *ret)
{
	memset(ret, 0, sizeof(*ret));
	LEDGER_EACH(site, site, view) {
		int device = site->device;
		enum kind_memory memory;
		uint64_t bytes;

		if (device < 0 || device >= DRIVER_MEMORY_DEVICES)
			continue;
		memory = memory_of(view, site->kind);
		bytes = ledger_site_live(view, site, LEDGER_COUNT_LIVE).bytes;
		if (memory != KIND_MEMORY_OTHER)
			ret->bytes[device] = add_bounded(ret->bytes[device], bytes);
		if (memory == KIND_MEMORY_MANAGED)
			ret->managed[device] = add_bounded(ret->managed[device], bytes);
	}
}

static void look_for_growth(struct driver_memory_series *series,
			    const struct driver_memory_sample *sample)
{
	uint64_t before = driver_part(&series->steady), now = driver_part(sample);

	if (now > before && now - before > series->growth.bytes)
		series->growth = (struct driver_memory_growth){ series->steady.at_ns, sample->at_ns,
								now - before };
	series->steady = *sample;
}

static void series_keep(struct driver_memory_series *series,
			const struct driver_memory_sample *sample)
{
	uint32_t kept = 0;

	if (series->every == 0)
		series->every = 1;
	if (series->taken % series->every)
		return;
	if (series->count == DRIVER_MEMORY_SAMPLES) {
		for (uint32_t i = 0; i < DRIVER_MEMORY_SAMPLES; i += 2)
			series->samples[kept++] = series->samples[i];
		series->count = kept;
		series->every *= 2;
	}
	series->samples[series->count++] = *sample;
}

/* A smaller difference is no sign of an allocation whose call has not returned: the driver's own
 * memory changes by that much. */
#define SLACK ((uint64_t)32 << 20)

/* Returns true if the driver's own part is much larger in A than in B. */
static bool is_above(const struct driver_memory_sample *a, const struct driver_memory_sample *b)
{
	return driver_part(a) > add_bounded(driver_part(b), SLACK);
}

static void accept(struct driver_memory_series *series, const struct driver_memory_sample *steady)
{
	/* the first steady sample replaces samples that were not steady */
	if (series->steady_taken++ == 0 || steady->reported >= series->highest.reported)
		series->highest = *steady;
	look_for_growth(series, steady);
}

void driver_memory_series_add(struct driver_memory_series *series,
			      const struct driver_memory_sample *sample, bool steady)
{
	if (sample->reported > series->peak_reported)
		series->peak_reported = sample->reported;
	if (steady) {
		if (series->has_newest && !is_above(&series->newest, sample))
			accept(series, &series->newest);
		series->newest = *sample;
		series->has_newest = true;
	} else if (!series->steady_taken && sample->reported >= series->highest.reported) {
		series->highest = *sample;
	}
	series_keep(series, sample);
	series->last = *sample;
	series->taken++;
}

void driver_memory_series_end(struct driver_memory_series *series)
{
	if (series->has_newest &&
	    (!series->steady_taken || !is_above(&series->newest, &series->steady)))
		accept(series, &series->newest);
	series->has_newest = false;
}

void driver_memory_series_near(struct driver_memory_series *series,
			       const struct driver_memory_sample *sample, uint64_t refused)
{
	const uint32_t half = DRIVER_MEMORY_NEAR / 2;
	uint32_t at = series->near_count;

	if (refused == series->refused)
		return;
	series->refused = refused;
	if (at >= DRIVER_MEMORY_NEAR)
		at = half + (at - half) % half;
	series->near[at] = *sample;
	series->near_count++;
}

/* ---- what single calls took ---- */

/* Returns true if CALL, which has number I, was on device ORDINAL, ended before SAMPLE, and has no
 * verdict. */
static bool is_due(const struct ledger_view *view, const struct ledger_cost_call *call, size_t i,
		   int ordinal, const struct cost_sample *sample,
		   const struct cost_verdicts *verdicts)
{
	const struct ledger_driver_cost *cost = ledger_driver_cost(view, call->cost);

	return cost && cost->device == ordinal && call->ended_ns <= sample->began_ns &&
	       verdicts->call[i].verdict == COST_PENDING;
}

static const struct ledger_cost_call *next_call(const struct ledger_view *view,
						struct ledger_walk *walk, size_t *i)
{
	const struct ledger_cost_call *call = ledger_next_cost_call(view, walk);

	return call && (*i)++ < LEDGER_COST_CALLS_MAX ? call : NULL;
}

static size_t count_due(const struct ledger_view *view, int ordinal,
			const struct cost_sample *sample, const struct cost_verdicts *verdicts)
{
	const struct ledger_cost_call *call;
	struct ledger_walk walk = { 0 };
	size_t count = 0, i = 0;

	while ((call = next_call(view, &walk, &i)))
		count += is_due(view, call, i - 1, ordinal, sample, verdicts);
	return count;
}

/* Returns the verdict of CALL, one of COUNT calls between the last sample and SAMPLE. */
static enum cost_verdict verdict_of(const struct cost_judge *judge,
				    const struct ledger_cost_call *call, size_t count,
				    const struct cost_sample *sample)
{
	const struct cost_sample *last = &judge->last;

	if (!sample->known || !last->known)
		return COST_DISTURBED;
	if (sample->others == last->others && judge->since_ns <= call->began_ns)
		return COST_ALONE;
	return count == 1 && last->ended_ns <= call->began_ns && last->steady && sample->steady &&
			       sample->part >= last->part
		       ? COST_OF_PROCESS
		       : COST_DISTURBED;
}

void cost_judge_sample(struct cost_judge *judge, const struct ledger_view *view, int ordinal,
		       const struct cost_sample *sample, struct cost_verdicts *verdicts)
{
	size_t count = count_due(view, ordinal, sample, verdicts), i = 0;
	bool same = sample->known && judge->last.known && sample->others == judge->last.others;
	const struct ledger_cost_call *call;
	struct ledger_walk walk = { 0 };

	while (count && (call = next_call(view, &walk, &i))) {
		if (!is_due(view, call, i - 1, ordinal, sample, verdicts))
			continue;
		verdicts->call[i - 1].verdict = verdict_of(judge, call, count, sample);
		verdicts->call[i - 1].bytes = sample->part - judge->last.part;
	}
	verdicts->disturbed = verdicts->disturbed || !same;
	if (!same)
		judge->since_ns = sample->ended_ns;
	judge->last = *sample;
}
