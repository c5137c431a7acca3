/* SPDX-License-Identifier: MIT
 *
 * Decides when a freed block is clean. A fence is an event that is recorded in its context. It
 * covers all work submitted earlier on any stream, even on destroyed streams (cuCtxRecordEvent,
 * measured on an H200). Fences complete in the order in which they were recorded. Must make no call
 * that invalidates a capture. Must wait only where a free may wait.
 */
#include "ledger/clock.h"
#include "ledger/nocancel.h"
#include "interpose/cuda/pool/pool_fence.h"
#include "interpose/cuda/pool/pool_internal.h"

#include "interpose/cuda/captures.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/submit_epoch.h"

#include <string.h>
#include <time.h>

#define NOT_READY 600
#define EVENT_BLOCKING_SYNC 1u
#define EVENT_DISABLE_TIMING 2u
#define CTX_SCHED_MASK 7u
#define CTX_SCHED_BLOCKING_SYNC 4u
#define FIRST_DRIVER 12050 /* the first driver that has cuCtxRecordEvent */
#define BATCH_LIMIT_MAX 16 /* maximum of epochs whose frees share a fence */
#define BATCH_LIMIT_FIRST 4 /* not 0: a thread's first event after a sleep costs 10 us (H200) */
#define POSTPONED_BYTES_MIN \
	((uint64_t)4 << 20) /* bytes whose fence may be postponed on any device */
/* frees without a miss (an allocation that finds no clean block) before the limit grows */
#define UNMISSED_FREES 256
#define LATER_WORK_WAIT_NS 1000000000u

#ifdef GPULEAK_TEST_LONG_BATCHES /* tests/torture: postpone every fence that may be postponed */
#define BATCH_LIMIT(fences) BATCH_LIMIT_MAX
#else
#define BATCH_LIMIT(fences) (fences)->batch_limit
#endif

/* ---- events ---- */

static void *fence_event_create(struct pool_context *context)
{
	__auto_type create = CUDA_REAL(cuEventCreate);
	CUevent event = NULL;
	bool pushed;

	if (!pool_push_context(context, &pushed))
		return NULL;
	if (!create || create(&event, EVENT_DISABLE_TIMING | context->event_flags) != CUDA_SUCCESS)
		event = NULL;
	pool_pop_context(pushed);
	return event;
}

bool pool_fences_init(struct pool_context *context)
{
	static const enum used_id needed[] = {
		USED_cuCtxPushCurrent_v2, USED_cuCtxPopCurrent_v2, USED_cuEventQuery,
		USED_cuEventSynchronize,
	};
	unsigned int flags = 0;
	int version = 0;

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!resolve_used(needed[i]))
			return false;
	if (!CUDA_USED(cuDriverGetVersion) ||
	    CUDA_USED(cuDriverGetVersion)(&version) != CUDA_SUCCESS)
		version = 0;
	context->fences.batch_limit = BATCH_LIMIT_FIRST;
	context->fences.unmissed_frees = 0;
	atomic_store(&context->fences.epoch, 1); /* nothing was submitted in epoch 0 */
	atomic_store(&context->fences.idle_epoch, 1);
	context->by_sync = version < FIRST_DRIVER || !resolve_used(USED_cuCtxRecordEvent);
	if (CUDA_USED(cuCtxGetFlags) && CUDA_USED(cuCtxGetFlags)(&flags) == CUDA_SUCCESS &&
	    (flags & CTX_SCHED_MASK) == CTX_SCHED_BLOCKING_SYNC)
		context->event_flags = EVENT_BLOCKING_SYNC;
	return true;
}

/* Locking: needs the fences' lock. Records that no block waits any more for a fence without an
 * event. */
static void fences_clear_pending(struct pool_fences *fences)
{
	atomic_store(&fences->pending_fence, false);
	atomic_store(&fences->pending_bytes, 0);
	fences->pending_epochs = 0;
}

void pool_fences_reset(struct pool_context *context)
{
	struct pool_fences *fences = &context->fences;

	HOLD(&fences->lock);
	fences->first = fences->count = fences->spares = 0;
	atomic_store(&fences->completed, atomic_load(&fences->last_issued));
	atomic_store(&fences->epoch, 0);
	atomic_store(&fences->idle_epoch, 0);
	fences_clear_pending(fences);
}

/* ---- records; Locking: need the fences' lock ---- */

/* Returns true if nothing was submitted between EARLIER and NOW. */
static bool same_epoch(uint64_t earlier, uint64_t now)
{
	return earlier == now && submits_certain();
}

static struct pool_fence *fence_oldest(struct pool_fences *fences)
{
	return fences->count ? &fences->ring[fences->first] : NULL;
}

/* Returns the pending fence NUMBER, or NULL. Numbers have no gaps. */
static struct pool_fence *fence_by_number(struct pool_fences *fences, uint64_t number)
{
	struct pool_fence *oldest = fence_oldest(fences);
	uint64_t at;

	if (!oldest || number < oldest->number)
		return NULL;
	at = number - oldest->number;
	return at < fences->count ? &fences->ring[(fences->first + at) % POOL_FENCES] : NULL;
}

/* Marks all fences up to NUMBER as complete. Their events can be used again, except events that
 * a thread still waits for. */
static void fences_complete_up_to(struct pool_fences *fences, uint64_t number)
{
	struct pool_fence *oldest;

	if (number > atomic_load_explicit(&fences->completed, memory_order_relaxed))
		atomic_store_explicit(&fences->completed, number, memory_order_release);
	while ((oldest = fence_oldest(fences)) && oldest->number <= number && !oldest->waiters) {
		fences->spare[fences->spares++] = oldest->event;
		fences->first = (fences->first + 1) % POOL_FENCES;
		fences->count--;
	}
	if (number == atomic_load(&fences->last_issued) && !atomic_load(&fences->pending_fence))
		atomic_store(&fences->idle_epoch, atomic_load(&fences->epoch));
}

/* Queries all fences. Returns false if an event failed: then the state of the fences is unknown. */
static bool fences_query_all(struct pool_fences *fences)
{
	CUresult r = CUDA_SUCCESS;
	int mode = pool_relax();

	for (unsigned int i = 0; i < fences->count && r == CUDA_SUCCESS;) {
		struct pool_fence *fence = &fences->ring[(fences->first + i) % POOL_FENCES];
		unsigned int before = fences->count;

		r = fence->number <= atomic_load_explicit(&fences->completed, memory_order_relaxed)
			    ? CUDA_SUCCESS
			    : CUDA_USED(cuEventQuery)(fence->event);
		if (r == CUDA_SUCCESS)
			fences_complete_up_to(fences, fence->number);
		if (fences->count == before)
			i++; /* a thread waits for it */
	}
	pool_unrelax(mode);
	return r == CUDA_SUCCESS || r == NOT_READY;
}

/* Stores the freed bytes of each kind of memory in use. Other kinds are skipped, since each read
 * may miss the processor's caches. */
static void fence_note_freed(const struct pool_context *context, const int64_t *pending,
			     int64_t ret[POOL_KINDS])
{
	uint32_t kinds = atomic_load(&context->fences.kinds);

	for (; kinds; kinds &= kinds - 1) {
		int kind = __builtin_ctz(kinds);

		ret[kind] = pending ? pending[kind] : atomic_load(&context->space[kind].freed);
	}
}

/* Records an event for the next fence. EPOCH was read before this call. */
static CUresult fence_record(struct pool_context *context, uint64_t epoch)
{
	struct pool_fences *fences = &context->fences;
	struct pool_fence *fence;
	CUresult r;
	void *event =
		fences->spares ? fences->spare[--fences->spares] : fence_event_create(context);

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = CUDA_USED(cuCtxRecordEvent)((CUcontext)(uintptr_t)atomic_load(&context->handle), event);
	if (r != CUDA_SUCCESS) {
		fences->spare[fences->spares++] = event;
		return r;
	}
	fence = &fences->ring[(fences->first + fences->count++) % POOL_FENCES];
	fence->number = atomic_load(&fences->last_issued) + 1;
	fence->event = event;
	fence->waiters = 0;
	fence->covers_later_work = atomic_load(&fences->pending_fence) &&
				   !same_epoch(fences->pending_first_epoch, epoch);
	fence_note_freed(context,
			 atomic_load(&fences->pending_fence) ? fences->pending_freed : NULL,
			 fence->freed);
	fences_clear_pending(fences);
	atomic_store_explicit(&fences->last_issued, fence->number, memory_order_release);
	atomic_store_explicit(&fences->epoch, epoch + 1, memory_order_release);
	pools_count(&context->space[POOL_DEVICE].record->fences, 1);
	return CUDA_SUCCESS;
}

/* Records an event if that is possible now. If an event fails, the context fails. */
static CUresult fence_try_record(struct pool_context *context, uint64_t epoch)
{
	struct pool_fences *fences = &context->fences;
	CUresult r = NOT_READY;

	if (!captures_enter())
		return NOT_READY;
	if (fences->count == POOL_FENCES && !fences_query_all(fences))
		r = CUDA_ERROR_INVALID_VALUE;
	else if (fences->count < POOL_FENCES)
		r = fence_record(context, epoch);
	captures_leave();
	if (r != CUDA_SUCCESS && r != NOT_READY)
		atomic_store(&context->failed, true);
	return r;
}

/* ---- requests and waits ---- */

/* Returns true if a free in EPOCH can share the pending fence of the previous free. */
static bool fence_shares_epoch(const struct pool_fences *fences, uint64_t epoch)
{
	return fences->pending_epochs && same_epoch(fences->pending_last_epoch, epoch);
}

static void fence_postpone(struct pool_context *context, const struct pool_block *block,
			   uint64_t epoch)
{
	struct pool_fences *fences = &context->fences;

	if (!atomic_load(&fences->pending_fence))
		fence_note_freed(context, NULL, fences->pending_freed);
	if (!fences->pending_epochs)
		fences->pending_first_epoch = epoch;
	fences->pending_epochs += !fence_shares_epoch(fences, epoch);
	fences->pending_last_epoch = epoch;
	atomic_fetch_add(&fences->pending_bytes, (int64_t)block->capacity);
	atomic_store(&fences->pending_fence, true);
}

/* Returns true if the fence of BLOCK can be recorded with a later free's. A fence costs 0.4 us, and
 * its first query after completion 1.7 us (on an H200): more than the rest of an allocation and its
 * free. Only small amounts are postponed, because postponed memory becomes clean later. An
 * allocation that finds no clean block for that reason costs much more, so the limit grows only
 * while there are no misses. */
static bool fence_may_postpone(struct pool_context *context, const struct pool_block *block,
			       uint64_t epoch)
{
	struct pool_fences *fences = &context->fences;
	uint64_t part = context->total / 256;

	if (++fences->unmissed_frees >= UNMISSED_FREES) {
		fences->unmissed_frees = 0;
		fences->batch_limit += fences->batch_limit < BATCH_LIMIT_MAX;
	}
	return fences->pending_epochs + !fence_shares_epoch(fences, epoch) <= BATCH_LIMIT(fences) &&
	       (uint64_t)atomic_load(&fences->pending_bytes) + block->capacity <=
		       (part > POSTPONED_BYTES_MIN ? part : POSTPONED_BYTES_MIN);
}

HOT_CALL uint64_t pool_fence_for_free_slow(const struct pool_block *block, bool at_once,
					   enum pool_fence_origin *ret_origin)
{
	struct pool_context *context = block->space->context;
	struct pool_fences *fences = &context->fences;
	uint64_t epoch, number;
	CUresult r = NOT_READY;

	HOLD(&fences->lock);
	*ret_origin = POOL_FENCE_COVERED;
	if (pool_fence_covers(fences, &epoch)) {
		number = atomic_load(&fences->last_issued);
	} else {
		bool later =
			!at_once && !context->by_sync && fence_may_postpone(context, block, epoch);

		*ret_origin = !context->by_sync && atomic_load(&fences->pending_fence)
				      ? POOL_FENCE_SHARED
				      : POOL_FENCE_NEW;
		if (!later && !context->by_sync && !atomic_load(&context->failed))
			r = fence_try_record(context, epoch);
		number = atomic_load(&fences->last_issued) + (r != CUDA_SUCCESS);
		if (r != CUDA_SUCCESS)
			fence_postpone(context, block, epoch);
		if (r == NOT_READY && !later && !context->by_sync)
			pools_count_reason(block->space->record, LEDGER_POOL_CAPTURE);
	}
	return number;
}

void pool_fences_note_miss(struct pool_context *context)
{
	struct pool_fences *fences = &context->fences;
	uint64_t epoch;

	if (context->by_sync || atomic_load(&context->failed) ||
	    !atomic_load(&fences->pending_fence) || !lock_try(&fences->lock))
		return;
	if (atomic_load(&fences->pending_fence)) {
		epoch = submits_epoch();
		/* In the same epoch an event at the free would cover the same work. */
		if (!same_epoch(fences->pending_first_epoch, epoch)) {
			fences->batch_limit /= 2;
			fences->unmissed_frees = 0;
		}
		fence_try_record(context, epoch);
	}
	lock_give(&fences->lock);
}

void pool_fence_query(struct pool_context *context, uint64_t number)
{
	struct pool_fences *fences = &context->fences;
	struct pool_fence *fence;
	CUresult r;
	int mode;

	if (context->by_sync || atomic_load(&context->failed) || !lock_try(&fences->lock))
		return;
	fence = fence_by_number(fences, number);
	if (fence) {
		mode = pool_relax();
		r = CUDA_USED(cuEventQuery)(fence->event);
		pool_unrelax(mode);
		if (r == CUDA_SUCCESS)
			fences_complete_up_to(fences, number);
		else if (r != NOT_READY)
			atomic_store(&context->failed, true);
	}
	lock_give(&fences->lock);
}

void pool_fences_poll(struct pool_context *context, bool record_pending)
{
	struct pool_fences *fences = &context->fences;

	if (context->by_sync || atomic_load(&context->failed) ||
	    (atomic_load(&fences->completed) == atomic_load(&fences->last_issued) &&
	     !(record_pending && atomic_load(&fences->pending_fence))))
		return;
	if (!lock_try(&fences->lock)) /* another thread is polling */
		return;
	if (record_pending && atomic_load(&fences->pending_fence))
		fence_try_record(context, submits_epoch());
	if (!fences_query_all(fences))
		atomic_store(&context->failed, true);
	lock_give(&fences->lock);
}

/* A capture that begins during the wait stays valid (measured on an H200). */
static CUresult fence_wait_for_event(void *event)
{
	int mode = pool_relax();
	CUresult r = CUDA_USED(cuEventSynchronize)(event);

	pool_unrelax(mode);
	return r;
}

static bool fence_wait_by_event(struct pool_context *context, uint64_t number)
{
	struct pool_fences *fences = &context->fences;
	struct pool_fence *fence;
	CUresult r;

	lock_take(&fences->lock);
	fence = fence_by_number(fences, number);
	if (fence)
		fence->waiters++;
	lock_give(&fences->lock);
	if (!fence)
		return atomic_load(&fences->completed) >= number;
	r = fence_wait_for_event(fence->event);
	HOLD(&fences->lock);
	fence->waiters--;
	if (r == CUDA_SUCCESS)
		fences_complete_up_to(fences, number);
	else
		atomic_store(&context->failed, true);
	return r == CUDA_SUCCESS;
}

/* For a driver before 12.5: waits for all work. */
static bool fence_wait_by_sync(struct pool_context *context, uint64_t number)
{
	struct pool_fences *fences = &context->fences;
	uint64_t epoch, issued;
	CUresult r = CUDA_ERROR_INVALID_CONTEXT;
	bool pushed;

	if (!captures_enter())
		return false;
	lock_take(&fences->lock);
	epoch = submits_epoch();
	if (atomic_load(&fences->pending_fence)) { /* frees from here on need the next fence */
		atomic_fetch_add(&fences->last_issued, 1);
		atomic_store(&fences->epoch, epoch + 1);
		fences_clear_pending(fences);
	}
	issued = atomic_load(&fences->last_issued);
	lock_give(&fences->lock);
	if (pool_push_context(context, &pushed)) {
		r = CUDA_REAL(cuCtxSynchronize)();
		pool_pop_context(pushed);
	}
	captures_leave();
	lock_take(&fences->lock);
	if (r == CUDA_SUCCESS)
		fences_complete_up_to(fences, issued);
	else
		atomic_store(&context->failed, true);
	lock_give(&fences->lock);
	return r == CUDA_SUCCESS && atomic_load(&fences->completed) >= number;
}

bool pool_fence_wait(struct pool_context *context, uint64_t number)
{
	struct pool_fences *fences = &context->fences;
	uint64_t began;
	bool done;

	if (atomic_load_explicit(&fences->completed, memory_order_acquire) >= number)
		return true;
	if (atomic_load(&context->failed))
		return false;
	began = clock_ns(CLOCK_MONOTONIC);
	done = context->by_sync ? fence_wait_by_sync(context, number)
				: fence_wait_by_event(context, number);
	if (done) {
		struct ledger_pool *fence_record = context->space[POOL_DEVICE].record;

		pools_count(&fence_record->waits, 1);
		pools_count(&fence_record->wait_ns, clock_ns(CLOCK_MONOTONIC) - began);
	}
	return done;
}

static bool fence_covers_later_work(struct pool_fences *fences, uint64_t number)
{
	struct pool_fence *fence;

	HOLD(&fences->lock);
	fence = fence_by_number(fences, number);
	return fence && fence->covers_later_work;
}

/* A fence may cover work submitted after the block was freed. A kernel of that work may wait for
 * what the host does after this call, so the wait is bounded. */
bool pool_fence_wait_for_memory(struct pool_context *context, uint64_t number)
{
	static const struct timespec nap = { 0, 100000 };
	struct pool_fences *fences = &context->fences;
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + LATER_WORK_WAIT_NS;

	if (!fence_covers_later_work(fences, number))
		return pool_fence_wait(context, number);
	while (atomic_load(&fences->completed) < number && clock_ns(CLOCK_MONOTONIC) < until &&
	       !atomic_load(&context->failed)) {
		nocancel_nanosleep(&nap);
		pool_fence_query(context, number);
	}
	return atomic_load(&fences->completed) >= number;
}

bool pool_is_idle(struct pool_context *context)
{
	return submits_certain() &&
	       atomic_load_explicit(&context->fences.idle_epoch, memory_order_acquire) ==
		       submits_epoch() + 1;
}

/* Locking: needs the fences' lock. */
static const struct pool_fence *fence_oldest_pending(const struct pool_fences *fences)
{
	uint64_t done = atomic_load(&fences->completed);

	for (unsigned int i = 0; i < fences->count; i++) {
		const struct pool_fence *fence = &fences->ring[(fences->first + i) % POOL_FENCES];

		if (fence->number > done)
			return fence;
	}
	return NULL;
}

uint64_t pool_fences_oldest(struct pool_context *context)
{
	struct pool_fences *fences = &context->fences;
	const struct pool_fence *oldest;

	HOLD(&fences->lock);
	oldest = fence_oldest_pending(fences);
	return oldest ? oldest->number : 0;
}

uint64_t pool_pending_bytes(struct pool_space *space)
{
	struct pool_fences *fences = &space->context->fences;
	uint64_t most = pool_or_zero(atomic_load(&space->cached)), pending = 0, unrecorded;
	const struct pool_fence *oldest;

	lock_take(&fences->lock);
	oldest = fence_oldest_pending(fences);
	unrecorded = pool_or_zero(atomic_load(&fences->pending_bytes));
	if (oldest || atomic_load(&fences->pending_fence))
		pending =
			pool_or_zero(atomic_load(&space->freed) -
				     (oldest ? oldest->freed : fences->pending_freed)[space->kind]);
	lock_give(&fences->lock);
	if (!oldest && unrecorded < most)
		most = unrecorded;
	return pending < most ? pending : most;
}

/* Work that was submitted during the wait belongs to later epochs, or it was submitted after the
 * blocks that wait for this epoch's fences were freed. So it does not use these blocks. */
void pool_fences_note_sync(struct pool_context *context, uint64_t epoch)
{
	struct pool_fences *fences = &context->fences;

	if (!submits_certain()) /* epochs are not reliable */
		return;
	HOLD(&fences->lock);
	if (atomic_load(&fences->epoch) <= epoch + 1)
		fences_complete_up_to(fences, atomic_load(&fences->last_issued));
	/* The blocks of the pending fence were freed before the wait, too: it needs no event. */
	if (atomic_load(&fences->pending_fence) && fences->pending_last_epoch <= epoch &&
	    !fences->count) {
		fences_clear_pending(fences);
		atomic_store(&fences->epoch, epoch + 1);
		fences_complete_up_to(fences, atomic_fetch_add(&fences->last_issued, 1) + 1);
	}
}
