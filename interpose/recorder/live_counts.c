/* SPDX-License-Identifier: MIT
 *
 * The rare part of counting live blocks.
 */
#include "interpose/recorder/live_counts.h"

void live_counts_begin_window(struct recorder *recorder, struct ledger_live_series *series,
			      uint64_t allocs, uint64_t suballocated)
{
	const struct live_moment moment = { suballocated, allocs, recorder_time(recorder) };

	live_series_begin(series, &moment);
}
