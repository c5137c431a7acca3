/* SPDX-License-Identifier: MIT
 *
 * Creates the ledger's record of pools and limits, and assigns its rows. The counters belong to
 * the callers.
 */
#include "interpose/block/pool_counters.h"

#include "interpose/base/config.h"
#include "interpose/recorder/recorder.h"

_Atomic bool pool_on READ_BY_ALL;
_Atomic bool pool_wants_trim READ_BY_ALL;

void pools_record_make(struct recorder *recorder)
{
	uint32_t ref = 0;

	if (config.pool != OPTION_POOL_OFF || config.limit != OPTION_UNSET || config.fail_at)
		ref = ledger_add_pools(&recorder->writer, NULL);
	recorder->pools_record->pools = ref ? ledger_at(&recorder->writer, ref) : NULL;
	if (!ref)
		return;
	recorder->pools_record->pools->mode = (uint32_t)config.pool;
	recorder->pools_record->pools->backend = (uint32_t)config.pool_backend;
}

struct ledger_pools *pools_record(void)
{
	struct recorder *recorder = recorder_now();

	return recorder ? recorder->pools_record->pools : NULL;
}

/* Locking: the caller holds the lock of pools_record. Sets `api` last, because a reader uses a row
 * as soon as it is set. */
static struct ledger_pool *find_or_take(struct recorder *recorder, const char *api,
					const char *kind, int device)
{
	struct ledger_pool *row = recorder->pools_record->pools->pool;
	struct ledger_pool *end = row + LEDGER_POOLS_MAX;
	uint32_t ref;

	for (; row < end && row->api; row++)
		if (row->device == device && recorder_text_is(recorder, row->api, api) &&
		    recorder_text_is(recorder, row->kind, kind))
			return row;
	if (row == end || !(row->kind = recorder_add_text(recorder, kind)) ||
	    !(ref = recorder_add_text(recorder, api)))
		return NULL;
	row->device = device;
	row->mode = (uint32_t)config.pool;
	row->backend = (uint32_t)config.pool_backend;
	shared_publish(row->api, ref);
	return row;
}

struct ledger_pool *pools_record_row(const char *api, const char *kind, int device)
{
	struct recorder *recorder = recorder_now();

	if (!recorder || !recorder->pools_record->pools)
		return NULL;
	HOLD(&recorder->pools_record->lock);
	return find_or_take(recorder, api, kind, device);
}
