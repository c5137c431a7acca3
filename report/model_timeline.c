/* SPDX-License-Identifier: MIT
 *
 * Live bytes over time, as the ledger sampled them: in sum, and by kind of memory and device.
 * Fills in no gaps; who draws them decides what lies between two samples.
 */
#include <errno.h>
#include <string.h>

#include "build.h"

int build_samples(struct builder *b, enum ledger_chunk_type type, struct report_sample **ret,
		  size_t *ret_count)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_sample *sample;
	size_t count = 0, at = 0;

	while (ledger_next(b->view, &walk, type, sizeof(*sample)))
		count++;
	*ret = pool_alloc(b->pool, count * sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	walk = (struct ledger_walk){ 0 };
	while (at < count && (sample = ledger_next(b->view, &walk, type, sizeof(*sample))))
		(*ret)[at++] = (struct report_sample){ sample->time_ns, sample->live_bytes };
	*ret_count = at;
	return 0;
}

int build_timeline(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_timeline *timeline = &b->process->timeline;

	timeline->end_ns = header->ended == LEDGER_RUNNING ? 0 : header->end_mono_ns;
	timeline->peak_ns = header->peak_mono_ns;
	timeline->total.device = -1;
	return build_samples(b, LEDGER_CHUNK_TIMELINE, &timeline->total.samples,
			     &timeline->total.count);
}
