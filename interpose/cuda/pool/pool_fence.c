/* SPDX-License-Identifier: MIT
 *
 * When a freed block is clean: tickets, each an event of its context that covers all work
 * submitted before, on any stream, destroyed ones too (cuCtxRecordEvent, measured on an H200).
 * They are done in the order in which they were made. Must make no call that spoils a
 * capture, and must not wait but where a free may.
 */
#include "ledger/nocancel.h"
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
#define CAPTURE_MODE_RELAXED 2
#define FIRST_DRIVER 12050 /* that has cuCtxRecordEvent */
#define PATIENCE_MAX 16 /* epochs whose frees share a ticket */
#define PATIENCE_FIRST 4 /* not 0: by a thread that slept a first event takes 10 us (H200) */
#define OWED_LEAST ((uint64_t)4 << 20) /* bytes whose ticket may be put off on any device */
#define UNHURRIED 256  /* frees that nobody missed */
#define LATE_NS 1000000000u

#ifdef GPULEAK_TEST_PATIENT /* tests/torture: every ticket is put off that may be */
#define PATIENCE(tickets) PATIENCE_MAX
#else
#define PATIENCE(tickets) (tickets)->patience
#endif

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- events ---- */

int pool_relax(void)
{
	int mode = CAPTURE_MODE_RELAXED;

	if (!resolve_used(USED_cuThreadExchangeStreamCaptureMode) ||
	    DRIVER_CALL(resolve_used(USED_cuThreadExchangeStreamCaptureMode), CUresult(*)(int *),
			(&mode)) != CUDA_SUCCESS)
		return CAPTURE_MODE_RELAXED;
	return mode;
}

void pool_unrelax(int mode)
{
	if (mode != CAPTURE_MODE_RELAXED)
		DRIVER_CALL(resolve_used(USED_cuThreadExchangeStreamCaptureMode),
			    CUresult(*)(int *), (&mode));
}

bool pool_push_context(struct pool_context *context, bool *ret_pushed)
{
	CUcontext current = NULL, owner = (CUcontext)(uintptr_t)atomic_load(&context->handle);

	*ret_pushed = false;
	if (DRIVER_CALL(resolve_used(USED_cuCtxGetCurrent), CUresult(*)(CUcontext *), (&current)) !=
	    CUDA_SUCCESS)
		return false;
	if (current == owner)
		return true;
	*ret_pushed = DRIVER_CALL(resolve_used(USED_cuCtxPushCurrent_v2), CUresult(*)(CUcontext),
				  (owner)) == CUDA_SUCCESS;
	return *ret_pushed;
}

void pool_pop_context(bool pushed)
{
	CUcontext current;

	if (pushed)
		DRIVER_CALL(resolve_used(USED_cuCtxPopCurrent_v2), CUresult(*)(CUcontext *),
			    (&current));
}

static void *event_new(struct pool_context *context)
{
	CUresult (*create)(CUevent *, unsigned int) =
		(CUresult(*)(CUevent *, unsigned int))pool_real(HOOK_cuEventCreate);
	CUevent event = NULL;
	bool pushed;

	if (!pool_push_context(context, &pushed))
		return NULL;
	if (!create || create(&event, EVENT_DISABLE_TIMING | context->event_flags) != CUDA_SUCCESS)
		event = NULL;
	pool_pop_context(pushed);
	return event;
}

bool pool_tickets_begin(struct pool_context *context)
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
	if (!resolve_used(USED_cuDriverGetVersion) ||
	    DRIVER_CALL(resolve_used(USED_cuDriverGetVersion), CUresult(*)(int *), (&version)) !=
		    CUDA_SUCCESS)
		version = 0;
	context->tickets.patience = PATIENCE_FIRST;
	context->tickets.unhurried = 0;
	atomic_store(&context->tickets.epoch, 1); /* in epoch 0 nothing was submitted by anybody */
	atomic_store(&context->tickets.idle_epoch, 1);
	context->by_sync = version < FIRST_DRIVER || !resolve_used(USED_cuCtxRecordEvent);
	if (resolve_used(USED_cuCtxGetFlags) &&
	    DRIVER_CALL(resolve_used(USED_cuCtxGetFlags), CUresult(*)(unsigned int *), (&flags)) ==
		    CUDA_SUCCESS &&
	    (flags & CTX_SCHED_MASK) == CTX_SCHED_BLOCKING_SYNC)
		context->event_flags = EVENT_BLOCKING_SYNC;
	return true;
}

/* No ticket is owed any more. */
static void settled(struct pool_tickets *tickets)
{
	atomic_store(&tickets->owed, false);
	atomic_store(&tickets->owed_bytes, 0);
	tickets->owed_epochs = 0;
}

void pool_tickets_forget(struct pool_context *context)
{
	struct pool_tickets *tickets = &context->tickets;

	lock_take(&tickets->lock);
	tickets->first = tickets->count = tickets->spares = 0;
	atomic_store(&tickets->done, atomic_load(&tickets->issued));
	atomic_store(&tickets->epoch, 0);
	atomic_store(&tickets->idle_epoch, 0);
	settled(tickets);
	lock_give(&tickets->lock);
}

/* ---- made; with the lock ---- */

/* Nothing was submitted between them. */
static bool same_epoch(uint64_t earlier, uint64_t now)
{
	return earlier == now && submits_certain();
}

static struct pool_ticket *oldest_of(struct pool_tickets *tickets)
{
	return tickets->count ? &tickets->ring[tickets->first] : NULL;
}

/* Their numbers follow each other. */
static struct pool_ticket *ticket_of(struct pool_tickets *tickets, uint64_t number)
{
	struct pool_ticket *oldest = oldest_of(tickets);
	uint64_t at;

	if (!oldest || number < oldest->number)
		return NULL;
	at = number - oldest->number;
	return at < tickets->count ? &tickets->ring[(tickets->first + at) % POOL_TICKETS] : NULL;
}

/* Tickets up to NUMBER are done; their events can be used again, but for those that
 * somebody still waits for. */
static void done_up_to(struct pool_tickets *tickets, uint64_t number)
{
	struct pool_ticket *oldest;

	if (number > atomic_load_explicit(&tickets->done, memory_order_relaxed))
		atomic_store_explicit(&tickets->done, number, memory_order_release);
	while ((oldest = oldest_of(tickets)) && oldest->number <= number && !oldest->waiters) {
		tickets->spare[tickets->spares++] = oldest->event;
		tickets->first = (tickets->first + 1) % POOL_TICKETS;
		tickets->count--;
	}
	if (number == atomic_load(&tickets->issued) && !atomic_load(&tickets->owed))
		atomic_store(&tickets->idle_epoch, atomic_load(&tickets->epoch));
}

/* False: an event failed, and nothing is known any more. */
static bool look(struct pool_tickets *tickets)
{
	CUresult r = CUDA_SUCCESS;
	int mode = pool_relax();

	for (unsigned int i = 0; i < tickets->count && r == CUDA_SUCCESS;) {
		struct pool_ticket *ticket =
			&tickets->ring[(tickets->first + i) % POOL_TICKETS];
		unsigned int before = tickets->count;

		r = ticket->number <= atomic_load_explicit(&tickets->done, memory_order_relaxed)
			    ? CUDA_SUCCESS
			    : DRIVER_CALL(resolve_used(USED_cuEventQuery), CUresult(*)(void *),
					  (ticket->event));
		if (r == CUDA_SUCCESS)
			done_up_to(tickets, ticket->number);
		if (tickets->count == before)
			i++; /* somebody waits for it */
	}
	pool_unrelax(mode);
	return r == CUDA_SUCCESS || r == NOT_READY;
}

/* Of the kinds that there are: a thread that has slept finds each of these cold. */
static void note_freed(const struct pool_context *context, const int64_t *owed,
		       int64_t ret[POOL_KINDS])
{
	uint32_t kinds = atomic_load(&context->tickets.kinds);

	for (; kinds; kinds &= kinds - 1) {
		int kind = __builtin_ctz(kinds);

		ret[kind] = owed ? owed[kind] : atomic_load(&context->space[kind].freed);
	}
}

/* EPOCH was read before. */
static CUresult record(struct pool_context *context, uint64_t epoch)
{
	struct pool_tickets *tickets = &context->tickets;
	struct pool_ticket *ticket;
	CUresult r;
	void *event = tickets->spares ? tickets->spare[--tickets->spares] : event_new(context);

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = DRIVER_CALL(resolve_used(USED_cuCtxRecordEvent), CUresult(*)(CUcontext, void *),
			((CUcontext)(uintptr_t)atomic_load(&context->handle), event));
	if (r != CUDA_SUCCESS) {
		tickets->spare[tickets->spares++] = event;
		return r;
	}
	ticket = &tickets->ring[(tickets->first + tickets->count++) % POOL_TICKETS];
	ticket->number = atomic_load(&tickets->issued) + 1;
	ticket->event = event;
	ticket->waiters = 0;
	ticket->late = atomic_load(&tickets->owed) && !same_epoch(tickets->owed_first, epoch);
	note_freed(context, atomic_load(&tickets->owed) ? tickets->owed_freed : NULL,
		   ticket->freed);
	settled(tickets);
	atomic_store_explicit(&tickets->issued, ticket->number, memory_order_release);
	atomic_store_explicit(&tickets->epoch, epoch + 1, memory_order_release);
	__atomic_fetch_add(&context->space[POOL_DEVICE].record->tickets, 1, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

/* If that can be now. An event that fails ends the pool, whoever recorded it. */
static CUresult try_record(struct pool_context *context, uint64_t epoch)
{
	struct pool_tickets *tickets = &context->tickets;
	CUresult r = NOT_READY;

	if (!captures_enter())
		return NOT_READY;
	if (tickets->count == POOL_TICKETS && !look(tickets))
		r = CUDA_ERROR_INVALID_VALUE;
	else if (tickets->count < POOL_TICKETS)
		r = record(context, epoch);
	captures_leave();
	if (r != CUDA_SUCCESS && r != NOT_READY)
		atomic_store(&context->failed, true);
	return r;
}

/* ---- asked ---- */

/* Whether a free in EPOCH needs no other event than the last that is owed one. */
static bool joins(const struct pool_tickets *tickets, uint64_t epoch)
{
	return tickets->owed_epochs && same_epoch(tickets->owed_last, epoch);
}

static void owe(struct pool_context *context, const struct pool_block *block, uint64_t epoch)
{
	struct pool_tickets *tickets = &context->tickets;

	if (!atomic_load(&tickets->owed))
		note_freed(context, NULL, tickets->owed_freed);
	if (!tickets->owed_epochs)
		tickets->owed_first = epoch;
	tickets->owed_epochs += !joins(tickets, epoch);
	tickets->owed_last = epoch;
	atomic_fetch_add(&tickets->owed_bytes, (int64_t)block->capacity);
	atomic_store(&tickets->owed, true);
}

/* Whether the ticket of BLOCK can be made with that of a later free: a ticket costs 0.4 us, and the
 * first look at it after it is done 1.7 (on an H200), more than all the rest of a pair. Of little
 * memory only, as it becomes clean later. An allocation that misses it then costs much more, so
 * frees are put off the longer the fewer do. */
static bool put_off(struct pool_context *context, const struct pool_block *block, uint64_t epoch)
{
	struct pool_tickets *tickets = &context->tickets;
	uint64_t part = context->total / 256;

	if (++tickets->unhurried >= UNHURRIED) {
		tickets->unhurried = 0;
		tickets->patience += tickets->patience < PATIENCE_MAX;
	}
	return tickets->owed_epochs + !joins(tickets, epoch) <= PATIENCE(tickets) &&
	       (uint64_t)atomic_load(&tickets->owed_bytes) + block->capacity <=
		       (part > OWED_LEAST ? part : OWED_LEAST);
}

HOT_CALL uint64_t pool_ticket_made(const struct pool_block *block, bool at_once,
				   enum pool_ticket_how *ret_how)
{
	struct pool_context *context = block->space->context;
	struct pool_tickets *tickets = &context->tickets;
	uint64_t epoch, number;
	CUresult r = NOT_READY;

	lock_take(&tickets->lock);
	epoch = submits_epoch();
	*ret_how = POOL_TICKET_COVERED;
	if (pool_ticket_covers(tickets, epoch)) {
		number = atomic_load(&tickets->issued);
	} else {
		bool later = !at_once && !context->by_sync && put_off(context, block, epoch);

		*ret_how = !context->by_sync && atomic_load(&tickets->owed) ? POOL_TICKET_SHARED
									    : POOL_TICKET_NEW;
		if (!later && !context->by_sync && !atomic_load(&context->failed))
			r = try_record(context, epoch);
		number = atomic_load(&tickets->issued) + (r != CUDA_SUCCESS);
		if (r != CUDA_SUCCESS)
			owe(context, block, epoch);
		if (r == NOT_READY && !later && !context->by_sync)
			pool_reason(block->space, LEDGER_POOL_CAPTURE);
	}
	lock_give(&tickets->lock);
	return number;
}

void pool_tickets_missed(struct pool_context *context)
{
	struct pool_tickets *tickets = &context->tickets;
	uint64_t epoch;

	if (context->by_sync || atomic_load(&context->failed) || !atomic_load(&tickets->owed) ||
	    !lock_try(&tickets->lock))
		return;
	if (atomic_load(&tickets->owed)) {
		epoch = submits_epoch();
		/* Else an event that was made at the free would cover the same work. */
		if (!same_epoch(tickets->owed_first, epoch)) {
			tickets->patience /= 2;
			tickets->unhurried = 0;
		}
		try_record(context, epoch);
	}
	lock_give(&tickets->lock);
}

void pool_tickets_ask(struct pool_context *context, uint64_t number)
{
	struct pool_tickets *tickets = &context->tickets;
	struct pool_ticket *ticket;
	CUresult r;
	int mode;

	if (context->by_sync || atomic_load(&context->failed) || !lock_try(&tickets->lock))
		return;
	ticket = ticket_of(tickets, number);
	if (ticket) {
		mode = pool_relax();
		r = DRIVER_CALL(resolve_used(USED_cuEventQuery), CUresult(*)(void *),
				(ticket->event));
		pool_unrelax(mode);
		if (r == CUDA_SUCCESS)
			done_up_to(tickets, number);
		else if (r != NOT_READY)
			atomic_store(&context->failed, true);
	}
	lock_give(&tickets->lock);
}

void pool_tickets_poll(struct pool_context *context, bool for_good)
{
	struct pool_tickets *tickets = &context->tickets;

	if (context->by_sync || atomic_load(&context->failed) ||
	    (atomic_load(&tickets->done) == atomic_load(&tickets->issued) &&
	     !(for_good && atomic_load(&tickets->owed))))
		return;
	if (!lock_try(&tickets->lock)) /* somebody else is looking */
		return;
	if (for_good && atomic_load(&tickets->owed))
		try_record(context, submits_epoch());
	if (!look(tickets))
		atomic_store(&context->failed, true);
	lock_give(&tickets->lock);
}

/* A capture that begins meanwhile does not mind (measured on an H200). */
static CUresult wait_for(void *event)
{
	int mode = pool_relax();
	CUresult r =
		DRIVER_CALL(resolve_used(USED_cuEventSynchronize), CUresult(*)(void *), (event));

	pool_unrelax(mode);
	return r;
}

static bool wait_by_event(struct pool_context *context, uint64_t number)
{
	struct pool_tickets *tickets = &context->tickets;
	struct pool_ticket *ticket;
	CUresult r;

	lock_take(&tickets->lock);
	ticket = ticket_of(tickets, number);
	if (!ticket) {
		lock_give(&tickets->lock);
		return atomic_load(&tickets->done) >= number;
	}
	ticket->waiters++;
	lock_give(&tickets->lock);
	r = wait_for(ticket->event);
	lock_take(&tickets->lock);
	ticket->waiters--;
	if (r == CUDA_SUCCESS)
		done_up_to(tickets, number);
	else
		atomic_store(&context->failed, true);
	lock_give(&tickets->lock);
	return r == CUDA_SUCCESS;
}

/* A driver before 12.5: waits for all there is. */
static bool wait_by_sync(struct pool_context *context, uint64_t number)
{
	struct pool_tickets *tickets = &context->tickets;
	uint64_t epoch, issued;
	CUresult r = CUDA_ERROR_INVALID_CONTEXT;
	bool pushed;

	if (!captures_enter())
		return false;
	lock_take(&tickets->lock);
	epoch = submits_epoch();
	if (atomic_load(&tickets->owed)) { /* who frees from here on needs another one */
		atomic_fetch_add(&tickets->issued, 1);
		atomic_store(&tickets->epoch, epoch + 1);
		settled(tickets);
	}
	issued = atomic_load(&tickets->issued);
	lock_give(&tickets->lock);
	if (pool_push_context(context, &pushed)) {
		r = ((CUresult(*)(void))pool_real(HOOK_cuCtxSynchronize))();
		pool_pop_context(pushed);
	}
	captures_leave();
	lock_take(&tickets->lock);
	if (r == CUDA_SUCCESS)
		done_up_to(tickets, issued);
	else
		atomic_store(&context->failed, true);
	lock_give(&tickets->lock);
	return r == CUDA_SUCCESS && atomic_load(&tickets->done) >= number;
}

bool pool_tickets_wait(struct pool_context *context, uint64_t number)
{
	struct pool_tickets *tickets = &context->tickets;
	uint64_t began;
	bool done;

	if (atomic_load_explicit(&tickets->done, memory_order_acquire) >= number)
		return true;
	if (atomic_load(&context->failed))
		return false;
	began = clock_ns();
	done = context->by_sync ? wait_by_sync(context, number) : wait_by_event(context, number);
	if (done) {
		struct ledger_pool *record = context->space[POOL_DEVICE].record;

		__atomic_fetch_add(&record->waits, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&record->wait_ns, clock_ns() - began, __ATOMIC_RELAXED);
	}
	return done;
}

static bool is_late(struct pool_tickets *tickets, uint64_t number)
{
	struct pool_ticket *ticket;
	bool late;

	lock_take(&tickets->lock);
	ticket = ticket_of(tickets, number);
	late = ticket && ticket->late;
	lock_give(&tickets->lock);
	return late;
}

/* A kernel that a late ticket covers may be waiting for what the host does after this call. */
bool pool_tickets_wait_for_memory(struct pool_context *context, uint64_t number)
{
	static const struct timespec nap = { 0, 100000 };
	struct pool_tickets *tickets = &context->tickets;
	uint64_t until = clock_ns() + LATE_NS;

	if (!is_late(tickets, number))
		return pool_tickets_wait(context, number);
	while (atomic_load(&tickets->done) < number && clock_ns() < until &&
	       !atomic_load(&context->failed)) {
		nocancel_nanosleep(&nap);
		pool_tickets_ask(context, number);
	}
	return atomic_load(&tickets->done) >= number;
}

bool pool_is_idle(struct pool_context *context)
{
	return submits_certain() &&
	       atomic_load_explicit(&context->tickets.idle_epoch, memory_order_acquire) ==
		       submits_epoch() + 1;
}

/* With the lock. */
static const struct pool_ticket *oldest_pending(const struct pool_tickets *tickets)
{
	uint64_t done = atomic_load(&tickets->done);

	for (unsigned int i = 0; i < tickets->count; i++) {
		const struct pool_ticket *ticket =
			&tickets->ring[(tickets->first + i) % POOL_TICKETS];

		if (ticket->number > done)
			return ticket;
	}
	return NULL;
}

uint64_t pool_tickets_oldest(struct pool_context *context)
{
	struct pool_tickets *tickets = &context->tickets;
	const struct pool_ticket *oldest;
	uint64_t number;

	lock_take(&tickets->lock);
	oldest = oldest_pending(tickets);
	number = oldest ? oldest->number : 0;
	lock_give(&tickets->lock);
	return number;
}

uint64_t pool_pending(struct pool_space *space)
{
	struct pool_tickets *tickets = &space->context->tickets;
	uint64_t most = pool_or_zero(atomic_load(&space->kept)), pending = 0, owed;
	const struct pool_ticket *oldest;

	lock_take(&tickets->lock);
	oldest = oldest_pending(tickets);
	owed = pool_or_zero(atomic_load(&tickets->owed_bytes));
	if (oldest || atomic_load(&tickets->owed))
		pending = pool_or_zero(atomic_load(&space->freed) -
				       (oldest ? oldest->freed : tickets->owed_freed)[space->kind]);
	lock_give(&tickets->lock);
	if (!oldest && owed < most)
		most = owed;
	return pending < most ? pending : most;
}

/* Work that was submitted meanwhile is in later epochs, or was not yet when the blocks of a
 * ticket of this one were freed. */
void pool_tickets_synced(struct pool_context *context, uint64_t epoch)
{
	struct pool_tickets *tickets = &context->tickets;

	if (!submits_certain()) /* epochs say nothing */
		return;
	lock_take(&tickets->lock);
	if (atomic_load(&tickets->epoch) <= epoch + 1)
		done_up_to(tickets, atomic_load(&tickets->issued));
	/* What is owed was freed before, too: it needs no event any more. */
	if (atomic_load(&tickets->owed) && tickets->owed_last <= epoch && !tickets->count) {
		settled(tickets);
		atomic_store(&tickets->epoch, epoch + 1);
		done_up_to(tickets, atomic_fetch_add(&tickets->issued, 1) + 1);
	}
	lock_give(&tickets->lock);
}
