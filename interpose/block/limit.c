/* SPDX-License-Identifier: MIT
 *
 * Refuses allocations: the Nth call, and those that exceed the limit of their device. Owns the
 * number of bytes that count against each limit: the bytes of live blocks in device memory, and
 * those of calls in progress that will make such a block. A released block whose deferred free is
 * pending does not count: the application does not hold it.
 *
 * Takes no lock: a call reserves its bytes by one atomic exchange, only if they fit. So two
 * threads never both pass where only one fits, and bytes that do not fit never make another
 * thread's call fail.
 */
#include "interpose/block/limit.h"

#include <string.h>

#include "interpose/base/config.h"
#include "interpose/block/blocks.h"
#include "interpose/block/pool_counters.h"
#include "interpose/dispatch/api.h"
#include "ledger/kind_table.h"
#include "interpose/base/message.h"

void limits_start(void)
{
	if (config.limit != OPTION_UNSET || config.fail_at)
		atomic_fetch_or(&alloc_checks, CHECK_LIMITS);
}

/* ---- which calls, which blocks ---- */

static enum kind_limit limit_of_kind(const char *kind, size_t length)
{
	const struct kind *known = kind_find(kind, length);

	return known ? known->limit : KIND_LIMIT_COUNTS;
}

static bool kind_counts(const char *kind, size_t length)
{
	return limit_of_kind(kind, length) == KIND_LIMIT_COUNTS;
}

/* Returns true if HOOK opens memory that exists already, or adds a reference to it. Such a call
 * uses no new memory. */
static bool opens_existing(const struct hook *hook)
{
	return hook_has(hook, TRAIT_OPENS) ||
	       limit_of_kind(hook->kind, strlen(hook->kind)) == KIND_LIMIT_OPENS;
}

static bool is_counted(int device, uint64_t bytes)
{
	return config.limit != OPTION_UNSET && bytes && device >= 0 && device < LIMITS_DEVICES;
}

/* ---- a device's limit ---- */

static void say_limit(enum api api, int device, const char *what, uint64_t bytes)
{
	char line[256];
	struct text text = { line, sizeof(line) - 1 };

	text_add(&text, "gpuleak: GPULEAK_LIMIT: ");
	text_add(&text, apis[api]->title);
	text_add(&text, " device ");
	text_add_number(&text, (uint64_t)device);
	text_add(&text, what);
	if (bytes) {
		text_add_number(&text, bytes);
		text_add(&text, " bytes");
	}
	text_end_line(&text);
	write_without_hanging(2, line, (size_t)(text.at - line));
}

/* Stores LIMIT in the ledger. The record has one field for all devices: it is 0 if they have
 * different limits, or if LIMIT is "no limit". */
static void note_limit(struct recorder *recorder, uint64_t limit)
{
	struct ledger_pools *pools = recorder->pools_record->pools;
	bool same = true;

	for (int api = 0; api < API_COUNT; api++)
		for (int i = 0; i < LIMITS_DEVICES; i++) {
			uint64_t other = atomic_load(&recorder->limits->limit[api][i]);

			same = same && (!other || other == limit);
		}
	if (pools)
		shared_store(pools->limit, same && limit != UINT64_MAX ? limit : 0);
}

static uint64_t find_limit(struct recorder *recorder, enum api api, int device)
{
	uint64_t total = apis[api]->device_total(device);
	uint64_t limit = option_amount(config.limit, total), unknown = 0;
	const char *instead = NULL;
	KEEP_ERRNO;

	if (config.limit < 0 && !total) {
		instead = " does not report its size, so no percentage of it can be computed; "
			  "the device has no limit";
		limit = UINT64_MAX;
	} else if (total && limit > total) {
		instead = " has less memory than this limit; the limit is all of its ";
		limit = total;
	} else if (!limit) {
		limit = 1; /* a percentage that rounds to 0 */
	}
	if (atomic_compare_exchange_strong(&recorder->limits->limit[api][device], &unknown,
					   limit)) {
		if (instead)
			say_limit(api, device, instead, limit == UINT64_MAX ? 0 : limit);
		note_limit(recorder, limit);
	} else {
		limit = unknown;
	}
	return limit;
}

static uint64_t limit_of(struct recorder *recorder, enum api api, int device)
{
	uint64_t limit = atomic_load_explicit(&recorder->limits->limit[api][device],
					      memory_order_relaxed);

	return limit ? limit : find_limit(recorder, api, device);
}

uint64_t limits_of(enum api api, int device)
{
	struct recorder *recorder = recorder_now();

	if (config.limit == OPTION_UNSET || !recorder || device < 0 || device >= LIMITS_DEVICES)
		return UINT64_MAX;
	return limit_of(recorder, api, device);
}

uint64_t limits_left(enum api api, int device)
{
	uint64_t limit = limits_of(api, device);
	int64_t held;

	if (limit == UINT64_MAX)
		return limit;
	held = atomic_load(&recorder_now()->limits->held[api][device]);
	if (held < 0)
		held = 0;
	return (uint64_t)held < limit ? limit - (uint64_t)held : 0;
}

/* ---- refusing ---- */

static bool is_nth(struct recorder *recorder)
{
	uint64_t call = atomic_fetch_add_explicit(&recorder->limits->calls, 1,
						  memory_order_relaxed) + 1;

	return config.fail_at < 0 ? call >= (uint64_t)-config.fail_at
				  : call == (uint64_t)config.fail_at;
}

static bool in_use_reserve(struct recorder *recorder, const struct limits_due *due)
{
	_Atomic int64_t *held = &recorder->limits->held[due->api][due->device];
	uint64_t limit = limit_of(recorder, due->api, due->device);
	int64_t seen = atomic_load(held);

	do {
		uint64_t now = seen > 0 ? (uint64_t)seen : 0;

		if (limit != UINT64_MAX && (now > limit || due->bytes > limit - now))
			return false;
		/* The sum would overflow: the driver will refuse so many bytes. */
		if (due->bytes > INT64_MAX - now)
			return true;
	} while (!atomic_compare_exchange_weak(held, &seen, seen + (int64_t)due->bytes));
	thread_self.due = *due;
	return true;
}

/* Counts CALL as refused: by GPULEAK_FAIL_AT if INJECTED, otherwise by GPULEAK_LIMIT. Records call
 * and stack of the first one only. */
static void count_refused(struct recorder *recorder, const struct call *call, bool injected)
{
	struct ledger_pools *pools = recorder->pools_record->pools;
	struct ledger_refusal *first;

	if (!pools)
		return;
	first = injected ? &pools->first_injected : &pools->first_refused;
	if (pools_count(injected ? &pools->injected : &pools->refused, 1))
		return;
	first->stack = record_origin(call);
	shared_publish(first->api, recorder_name_ref(recorder, call->hook));
}

/* Returns the recorder, or NULL if the call comes from inside the driver or interrupts gpuleak in a
 * signal handler. Such a call is not the application's own. */
static struct recorder *recorder_outside_call(void)
{
	if (thread_self.call_frame || thread_self.busy)
		return NULL;
	recorder_touch();
	return recorder_now();
}

static void record_refused(const struct call *call, int device, uint64_t bytes,
			   enum ledger_refuser refuser, uint64_t limit)
{
	const struct api_ops *api = apis[call->hook->api];

	if (device == LIMITS_CURRENT)
		device = api->current_device ? api->current_device() : -1;
	out_of_memory_record(&(struct refused){ call->hook, call->caller, bytes, device, refuser,
						limit });
}

void limits_record_refusal(const struct call *call, int device, uint64_t bytes)
{
	record_refused(call, device, bytes, LEDGER_REFUSER_DRIVER, 0);
}

static bool exceeds(struct recorder *recorder, const struct call *call, int device,
		    uint64_t bytes)
{
	struct limits_due due = { bytes, call->hook->api, device };

	/* A signal handler made this call inside another call that has reserved bytes. This call
	 * reserves nothing: its block counts when it is made. */
	if (thread_self.due.bytes)
		return false;
	if (config.limit == OPTION_UNSET || !bytes || device == LIMITS_NO_DEVICE ||
	    !kind_counts(call->hook->kind, strlen(call->hook->kind)))
		return false;
	if (device == LIMITS_CURRENT)
		due.device = apis[due.api]->current_device();
	if (!is_counted(due.device, bytes) || in_use_reserve(recorder, &due))
		return false;
	count_refused(recorder, call, false);
	record_refused(call, due.device, bytes, LEDGER_REFUSER_LIMIT,
		       limit_of(recorder, due.api, due.device));
	return true;
}

bool limits_exceed(const struct call *call, int device, uint64_t bytes)
{
	struct recorder *recorder = recorder_outside_call();

	return recorder && exceeds(recorder, call, device, bytes);
}

bool limits_refuse(const struct call *call, int device, uint64_t bytes)
{
	struct recorder *recorder = opens_existing(call->hook) ? NULL : recorder_outside_call();

	if (!recorder)
		return false;
	if (config.fail_at && is_nth(recorder)) {
		count_refused(recorder, call, true);
		record_refused(call, device, bytes, LEDGER_REFUSER_FAIL_AT, 0);
		return true;
	}
	return exceeds(recorder, call, device, bytes);
}

/* ---- what counts ---- */

static void in_use_add(struct recorder *recorder, enum api api, int device, int64_t bytes)
{
	atomic_fetch_add(&recorder->limits->held[api][device], bytes);
}

void limits_done_slowly(void)
{
	struct limits_due *due = &thread_self.due;
	struct recorder *recorder = recorder_now();

	if (due->bytes && recorder && !thread_self.call_frame)
		in_use_add(recorder, due->api, due->device, -(int64_t)due->bytes);
	if (thread_self.call_frame)
		return;
	due->bytes = 0;
	if (!(atomic_load(&alloc_checks) & CHECK_PEAK))
		return;
	atomic_fetch_and(&alloc_checks, ~(unsigned int)CHECK_PEAK);
	apis_read_pools(LEDGER_PARKED_PEAK, 0);
}

void limits_block_made(struct recorder *recorder, const struct hook *hook, int device,
		       uint64_t bytes)
{
	struct limits_due *due = &thread_self.due;
	uint64_t counted = 0;

	if (thread_self.refused.record)
		out_of_memory_granted(recorder, hook, device, bytes);
	if (!is_counted(device, bytes) || !kind_counts(hook->kind, strlen(hook->kind)))
		return;
	if (due->api == hook->api && due->device == device)
		counted = due->bytes < bytes ? due->bytes : bytes;
	due->bytes -= counted;
	if (bytes != counted)
		in_use_add(recorder, hook->api, device, (int64_t)(bytes - counted));
}

void limits_block_changed(struct recorder *recorder, uint32_t site_ref, int64_t bytes)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, site_ref);
	const struct ledger_string *kind = ledger_at(&recorder->writer, site->kind);
	const struct ledger_string *call = ledger_at(&recorder->writer, site->api);

	if (site->kind && site->api && is_counted(site->device, bytes != 0) &&
	    kind_counts(kind->bytes, kind->length))
		in_use_add(recorder, api_of(call->bytes), site->device, bytes);
}
