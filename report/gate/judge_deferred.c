/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to deferred frees. Memory that waits for a user event that was never set
 * makes the gate fail. Memory without a known reason does so only on request, because the driver
 * may free it later. If a sub-buffer keeps the memory allocated, the sub-buffer itself is a
 * leak.
 */
#include <inttypes.h>

#include "report/gate/judge_internal.h"
#include "report/model/model.h"

static void add_stuck(struct bench *bench, const struct report_process *p,
		      const struct report_deferred *deferred)
{
	char size[FORMAT_SIZE_MAX], event[FORMAT_PLACE_MAX], who[FORMAT_PLACE_MAX];

	judge_reason(bench,
		     "%" PRIu64 " block%s, %s of %s released, but held by a command that waits "
		     "for a user event that was never set, created at %s",
		     deferred->blocks, plural(deferred->blocks),
		     format_exact_size(deferred->bytes, size), format_process(p, who),
		     format_place(deferred->event.stack, event));
}

void judge_deferred(struct bench *bench, const struct judge_input *input,
		    const struct report_process *p)
{
	char size[FORMAT_SIZE_MAX], who[FORMAT_PLACE_MAX];
	uint64_t blocks = 0, bytes = 0;
	size_t stuck = 0;

	for (size_t i = 0; i < p->deferred.group_count; i++) {
		const struct report_deferred *deferred = &p->deferred.groups[i];

		if (report_deferred_fails(deferred)) {
			if (stuck++ < JUDGE_PLACES_MAX)
				add_stuck(bench, p, deferred);
		} else if (deferred->reason == REPORT_DEFERRED_UNKNOWN && !deferred->pattern) {
			blocks = add_bounded(blocks, deferred->blocks);
			bytes = add_bounded(bytes, deferred->bytes);
		}
	}
	if (stuck > JUDGE_PLACES_MAX)
		judge_reason(
			bench,
			"memory released at %zu more places is held by a command that waits for a "
			"user event that was never set",
			stuck - JUDGE_PLACES_MAX);
	if (blocks && input->count_deferred)
		judge_reason(bench,
			     "%" PRIu64 " block%s, %s of %s released, but not freed for an "
			     "unknown reason",
			     blocks, plural(blocks), format_exact_size(bytes, size),
			     format_process(p, who));
}
