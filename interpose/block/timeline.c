/* SPDX-License-Identifier: MIT
 *
 * Adds up this process's call sites while other threads allocate and free. Limits the time for
 * that: after a pass it pauses for a multiple of the pass's duration.
 */
#include "interpose/block/steps.h"

#include <string.h>

#include "interpose/recorder/recorder.h"
#include "ledger/shared.h"
#include "ledger/totals.h"

/* pause, as a multiple of a pass's duration: so passes take 0.2 percent of one thread */
#define LOOK_REST 512

/* One pass over all call sites. */
struct look {
	struct ledger_view view;
	struct ledger_parts *parts;
	struct ledger_moment moment;
};

/* Returns true if the texts at A and B are equal. Several calls make the same kind of memory, and
 * each has its own ref to the kind's text. */
static bool same_text(const struct ledger_view *view, uint32_t a, uint32_t b)
{
	uint32_t length_a, length_b;
	const char *text_a, *text_b;

	if (a == b)
		return true;
	text_a = ledger_string(view, a, &length_a);
	text_b = ledger_string(view, b, &length_b);
	return text_a && text_b && length_a == length_b && memcmp(text_a, text_b, length_a) == 0;
}

static uint32_t find_column(struct look *look, const struct ledger_site *site)
{
	struct ledger_parts *parts = look->parts;
	uint32_t count = parts->columns;

	for (uint32_t i = 0; i < count && i < LEDGER_COLUMNS - 1; i++)
		if (parts->column[i].device == site->device &&
		    same_text(&look->view, parts->column[i].kind, site->kind))
			return i;
	if (count >= LEDGER_COLUMNS - 1) {
		parts->column[LEDGER_COLUMNS - 1].device = -1;
		shared_publish(parts->columns, LEDGER_COLUMNS);
		return LEDGER_COLUMNS - 1;
	}
	parts->column[count] = (struct ledger_column){ site->kind, site->device };
	shared_publish(parts->columns, count + 1);
	return count;
}

static void look_at_sites(struct look *look)
{
	LEDGER_EACH(site, site, &look->view) {
		uint64_t bytes = ledger_site_live(&look->view, site, LEDGER_COUNT_LIVE).bytes;

		if (bytes)
			look->moment.live_bytes[find_column(look, site)] += bytes;
	}
}

static void write_moment(struct recorder *recorder, uint64_t now_ns)
{
	struct ledger_header *header = recorder->header;
	struct look this = { .moment = { .time_ns = now_ns } };
	size_t bytes = (size_t)shared_load_acquire(header->chunks) * LEDGER_CHUNK;

	this.parts = ledger_columns(&recorder->writer, recorder->parts);
	if (!this.parts || ledger_view(header, bytes, &this.view) != LEDGER_OK)
		return;
	look_at_sites(&this);
	ledger_add_moment(&recorder->writer, recorder->parts, &this.moment);
}

void timeline_look(struct recorder *recorder, uint64_t now_ns)
{
	struct ledger_timeline *parts = recorder->parts;
	uint64_t began, rest;

	if (now_ns < atomic_load_explicit(&parts->due_ns, memory_order_relaxed) ||
	    !lock_try(&parts->lock))
		return;
	/* the first pass is delayed: most processes end before they use a second kind */
	if (!parts->every_ns) {
		parts->every_ns = LEDGER_SAMPLE_EVERY_NS_MIN;
		rest = 0;
	} else {
		began = recorder_fine_time(recorder);
		write_moment(recorder, now_ns);
		rest = (recorder_fine_time(recorder) - began) * LOOK_REST;
	}
	if (rest < parts->every_ns)
		rest = parts->every_ns;
	atomic_store_explicit(&parts->due_ns, now_ns + rest, memory_order_relaxed);
	lock_give(&parts->lock);
}
