/* SPDX-License-Identifier: MIT
 *
 * Sums up deferred frees. Each thread counts in its own state, so a release that frees at once
 * touches no shared word. Totals are computed only if a release returned before the driver had
 * freed the memory. Must not know why the driver keeps the memory.
 */
#include "interpose/block/deferred_totals.h"

#include <time.h>

#include "interpose/block/error_record.h"
#include "ledger/nocancel.h"

static int64_t total(struct recorder *recorder)
{
	struct thread_states *states = recorder->thread_states;
	unsigned int highest = atomic_load_explicit(&states->highest, memory_order_relaxed);
	int64_t sum = 0;

	for (unsigned int i = 0; i < highest || i == 0; i++)
		sum += atomic_load_explicit(&states->state[i].deferred_bytes, memory_order_relaxed);
	return sum > 0 ? sum : 0;
}

void deferred_sample(struct recorder *recorder)
{
	struct ledger_header *header = recorder->header;
	uint64_t now = recorder_fine_time(recorder), bytes;

	lock_take(&recorder->deferred->lock);
	bytes = (uint64_t)total(recorder);
	if (bytes > header->released_peak_bytes) {
		header->released_peak_ns = now;
		shared_publish(header->released_peak_bytes, bytes);
	}
	lock_give(&recorder->deferred->lock);
	ledger_add_sample(&recorder->writer, &recorder->deferred->timeline, now, bytes);
}

/* NVIDIA's driver reports a buffer's end from its own thread, after the release has returned. */
#define WAIT_STEP_NS 500000
#define WAIT_STEPS 40

void deferred_wait(struct recorder *recorder)
{
	const struct timespec step = { .tv_nsec = WAIT_STEP_NS };

	for (int i = 0; i < WAIT_STEPS && total(recorder) > 0; i++)
		nocancel_nanosleep(&step);
}

void deferred_settle(struct recorder *recorder)
{
	if (!recorder->header->released_peak_bytes)
		return;
	atomic_store(&recorder->deferred->timeline.due_ns, 0);
	deferred_sample(recorder);
}

/* Records that the block that ENDING describes waited WAIT_NS, if that is the longest wait so
 * far. */
static void note_wait(struct recorder *recorder, const struct past *ending, uint64_t wait_ns)
{
	struct ledger_header *header = recorder->header;
	uint32_t next;

	HOLD(&recorder->deferred->lock);
	/* not the record that longest_wait names: readers use it now */
	next = header->longest_wait == 1 ? 2 : 1;
	if (!header->longest_wait || wait_ns > header->waits[header->longest_wait - 1].ns) {
		header->waits[next - 1] = (struct ledger_wait){
			.ns = wait_ns,
			.bytes = ending->bytes,
			.site = ending->site,
			.api = ending->freed_api,
			.stack = ending->freed_stack,
		};
		shared_publish(header->longest_wait, next);
	}
}

void deferred_end(struct recorder *recorder, const struct past *ending, uint64_t now_ns,
		  bool was_deferred)
{
	uint64_t wait_ns = now_ns > ending->freed_ns ? now_ns - ending->freed_ns : 0;
	bool waited = was_deferred || wait_ns >= DEFERRED_WAIT_NS;

	if (waited && !was_deferred)
		/* the release itself took that long: count the bytes meanwhile */
		deferred_sample(recorder);
	deferred_add(-(int64_t)ending->bytes);
	if (waited) {
		deferred_sample(recorder);
		note_wait(recorder, ending, wait_ns);
	}
}
