/* SPDX-License-Identifier: MIT
 *
 * Owns the records of refused allocations. A request that is repeated from the same place has one
 * record. Everything is written into records that the ledger already has, except for the first
 * few.
 */
#include "interpose/refusal/out_of_memory.h"

#include <errno.h>
#include <string.h>

#include "interpose/base/own_stack.h"
#include "interpose/dispatch/api.h"
#include "interpose/recorder/memories.h"
#include "interpose/recorder/trace.h"

/* One refusal that is being recorded. */
struct refusal {
	struct recorder *recorder;
	struct ledger_out_of_memory now; /* without holders */
	uint64_t number;
	enum ledger_memory class;
	uint32_t place;
	bool may_wait; /* the thread may wait for the lock of the records */
};

/* Returns the class of memory that HOOK's call needs. A call whose block has no memory of its own,
 * or that makes no block, needs device memory: for example one that creates a context or a memory
 * pool. */
static enum ledger_memory class_for(const struct hook *hook)
{
	enum ledger_memory class = memory_class(hook->api, hook->kind, strlen(hook->kind));

	if (class == LEDGER_MEMORY_NONE)
		class = apis[hook->api]->memory;
	return class;
}

static uint64_t number_of(const struct ledger_out_of_memory *record)
{
	return LEDGER_REFUSAL_NUMBER(shared_load(record->state));
}

/* Returns a ref that identifies the place in the program: that of the stack's Python frames or, in
 * a stack without Python frames, that of the whole stack. Frameworks repeat a request from another
 * place in their own native code, which the Python frames do not contain. */
static uint32_t place_of(const struct recorder *recorder, uint32_t stack_ref)
{
	const struct ledger_stack *stack =
		stack_ref ? ledger_at(&recorder->writer, stack_ref) : NULL;

	return stack && stack->python ? stack->python : stack_ref;
}

/* ---- the thread's last refused request ---- */

static struct refused_request *own_request(const struct recorder *recorder)
{
	struct refused_request *request = &thread_self.refused;

	return request->record && request->generation == recorder->generation ? request : NULL;
}

/* Sets and clears flags in the record of REQUEST, unless it was reused for another request. */
static bool change_flags(const struct refused_request *request, uint64_t set, uint64_t clear)
{
	_Atomic uint64_t *state = &SHARED(request->record->state);
	uint64_t seen = atomic_load_explicit(state, memory_order_relaxed);

	do {
		if (LEDGER_REFUSAL_NUMBER(seen) != request->number)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(state, &seen, (seen & ~clear) | set,
							memory_order_release,
							memory_order_relaxed));
	return true;
}

/* From now on the thread's allocations are compared with the refused request. */
static void watch(struct recorder *recorder, const struct refusal *refusal,
		  struct ledger_out_of_memory *record, const struct hook *hook)
{
	struct refused_request *request = &thread_self.refused;

	if (!own_request(recorder))
		atomic_fetch_add(&recorder->refusals->waiting, 1);
	*request = (struct refused_request){
		.record = record, .hook = hook, .number = refusal->number,
		.bytes = refusal->now.bytes, .generation = recorder->generation,
		.place = refusal->place, .device = refusal->now.device,
	};
	atomic_fetch_or(&alloc_checks, CHECK_REFUSED);
}

static void unwatch(struct recorder *recorder)
{
	_Atomic unsigned int *waiting = &recorder->refusals->waiting;

	thread_self.refused.record = NULL;
	if (atomic_fetch_sub(waiting, 1) != 1)
		return;
	atomic_fetch_and(&alloc_checks, ~(unsigned int)CHECK_REFUSED);
	if (atomic_load(waiting)) /* another thread was refused meanwhile */
		atomic_fetch_or(&alloc_checks, CHECK_REFUSED);
}

/* Returns true if the program may need more pieces of the size of REQUEST: physical memory comes in
 * handles of one size. If it is refused a later piece, the request has not recovered. */
static bool needs_pieces(const struct refused_request *request)
{
	return hook_has(request->hook, TRAIT_PHYSICAL);
}

static bool is_enough(const struct refused_request *request, const struct hook *hook, int device,
		      uint64_t bytes)
{
	return request->bytes && bytes >= request->bytes &&
	       class_for(hook) == class_for(request->hook) &&
	       api_of_devices(hook->api) == api_of_devices(request->hook->api) &&
	       (device < 0 || request->device < 0 || device == request->device);
}

void out_of_memory_granted(struct recorder *recorder, const struct hook *hook, int device,
			   uint64_t bytes)
{
	struct refused_request *request = own_request(recorder);

	if (!request || request->recovered)
		return;
	if (!is_enough(request, hook, device, bytes)) {
		request->passed = true;
		return;
	}
	change_flags(request, LEDGER_REFUSAL_RECOVERED, 0);
	shared_add(recorder->header->recovered, 1);
	if (needs_pieces(request))
		request->recovered = true;
	else
		unwatch(recorder);
}

/* REQUEST was counted as recovered, but is refused again: takes that back. */
static void revoke_recovery(struct recorder *recorder, struct refused_request *request)
{
	request->recovered = false;
	change_flags(request, 0, LEDGER_REFUSAL_RECOVERED);
	atomic_fetch_sub_explicit(&SHARED(recorder->header->recovered), 1, memory_order_relaxed);
}

/* ---- records ---- */

/* Returns the record for refusal NUMBER, or NULL if the ledger has no room. */
static struct ledger_out_of_memory *record_for(struct recorder *recorder, uint64_t number)
{
	const uint64_t first = LEDGER_REFUSALS_FIRST, last = LEDGER_REFUSALS_LAST;
	uint64_t at = number <= first ? number - 1 : first + (number - first - 1) % last;
	struct ledger_out_of_memory **record = &recorder->refusals->records[at];
	uint32_t ref;

	if (!*record && (ref = ledger_add_out_of_memory(&recorder->writer, NULL)))
		*record = ledger_at(&recorder->writer, ref);
	return *record;
}

/* Counts the holders. Returns the flag that states it. */
static uint64_t count_holders(struct refusal *refusal, struct ledger_out_of_memory *record)
{
	struct recorder *recorder = refusal->recorder;
	struct holders holders = { .list = record->holder, .room = LEDGER_HOLDERS_MAX };

	record->holders_ns = recorder_fine_time(recorder);
	holders_count(recorder, refusal->class, refusal->now.device, &holders);
	record->holders = holders.count;
	record->other_sites = holders.other_sites;
	record->other_blocks = holders.other_blocks;
	record->other_bytes = holders.other_bytes;
	record->inside_bytes = holders.inside_bytes;
	record->allocs = holders.allocs;
	record->suballocs = holders.suballocs;
	shared_store(record->layout, 0);
	if (holders.suballocs && refusal->class == LEDGER_MEMORY_DEVICE)
		layout_store(recorder, refusal->now.device, record);
	return LEDGER_REFUSAL_HOLDERS;
}

/* Locking: the caller holds the lock of the records. Writes REFUSAL into RECORD. */
static void fill_in(struct refusal *refusal, struct ledger_out_of_memory *record)
{
	struct ledger_out_of_memory *now = &refusal->now;
	uint64_t flags = now->state;

	shared_store(record->state, 0);
	atomic_thread_fence(memory_order_release);
	memcpy((char *)record + sizeof(record->state), (const char *)now + sizeof(now->state),
	       offsetof(struct ledger_out_of_memory, holder) - sizeof(now->state));
	flags |= count_holders(refusal, record);
	shared_publish(record->state, refusal->number << 8 | flags);
}

/* Locking: as fill_in(). The record already has the request of this thread. */
static void fill_in_again(struct refusal *refusal, struct ledger_out_of_memory *record)
{
	refusal->now.first_ns = record->first_ns;
	refusal->now.times = shared_load(record->times) + 1;
	fill_in(refusal, record);
}

static bool lock_records(struct refusal *refusal)
{
	struct lock *lock = &refusal->recorder->refusals->lock;

	if (!refusal->may_wait)
		return lock_try(lock);
	lock_take(lock);
	return true;
}

static void unlock_records(struct refusal *refusal)
{
	lock_give(&refusal->recorder->refusals->lock);
}

/* Adds a record. Returns it, or NULL if the refusal was only counted. */
static struct ledger_out_of_memory *add_record(struct refusal *refusal)
{
	struct recorder *recorder = refusal->recorder;
	struct ledger_out_of_memory *record = NULL;

	refusal->number = shared_add(recorder->header->refused, 1) + 1;
	if (lock_records(refusal)) {
		record = record_for(recorder, refusal->number);
		if (record && number_of(record) < refusal->number)
			fill_in(refusal, record);
		unlock_records(refusal);
	}
	if (!record)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_REFUSALS, 1);
	return record;
}

/* If REFUSAL repeats the thread's last refused request, updates the record of that request and
 * returns true. Returns false if this is another request. */
static bool repeat_record(struct refusal *refusal, const struct hook *hook)
{
	struct refused_request *request = own_request(refusal->recorder);

	if (!request || request->hook != hook || request->bytes != refusal->now.bytes ||
	    request->place != refusal->place || request->device != refusal->now.device ||
	    number_of(request->record) != request->number)
		return false;
	refusal->number = request->number;
	request->passed = false;
	if (request->recovered)
		revoke_recovery(refusal->recorder, request);
	lock_records(refusal);
	if (number_of(request->record) == refusal->number)
		fill_in_again(refusal, request->record);
	unlock_records(refusal);
	return true;
}

/* ---- what the wrappers call ---- */

static void trace_refusal(struct recorder *recorder, const struct ledger_out_of_memory *now)
{
	trace_add(recorder, LEDGER_TRACE_OUT_OF_MEMORY, now->stack, now->api, now->bytes,
		  recorder_time(recorder));
}

struct recording {
	struct refusal *refusal;
	const struct hook *hook;
};

static void write_refusal(void *data)
{
	struct recording *recording = data;
	struct refusal *refusal = recording->refusal;
	struct ledger_out_of_memory *record;

	if (repeat_record(refusal, recording->hook))
		return;
	record = add_record(refusal);
	if (record)
		watch(refusal->recorder, refusal, record, recording->hook);
}

/* Gets from the driver how much memory is free on the request's device. Does not call the driver in
 * a signal handler that interrupted gpuleak. */
static void ask_driver(struct refusal *refusal, enum api api)
{
	struct ledger_out_of_memory *now = &refusal->now;

	if (thread_self.busy || !apis[api]->memory_left || refusal->class != LEDGER_MEMORY_DEVICE)
		return;
	if (apis[api]->memory_left(now->device, &now->free_bytes, &now->total_bytes))
		now->state |= LEDGER_REFUSAL_FREE;
}

void out_of_memory_record(const struct refused *what)
{
	struct refusal refusal = { .class = class_for(what->hook), .may_wait = true };
	struct recording recording = { &refusal, what->hook };
	struct ledger_out_of_memory *now = &refusal.now;
	int saved = errno;

	recorder_touch();
	refusal.recorder = recorder_now();
	/* If the driver called its own exported function, the outer call is recorded. */
	if (!refusal.recorder || thread_self.call_frame)
		return;
	now->device = what->device;
	now->bytes = what->bytes;
	now->refuser = what->refuser;
	now->limit_bytes = what->limit;
	now->times = 1;
	ask_driver(&refusal, what->hook->api);
	errno = saved;
	refusal.recorder = recorder_enter();
	if (!refusal.recorder)
		return;
	now->thread = thread_self.thread;
	now->api = recorder_name_ref(refusal.recorder, what->hook);
	now->stack = stack_here(refusal.recorder, what->caller);
	now->time_ns = now->first_ns = recorder_fine_time(refusal.recorder);
	refusal.place = place_of(refusal.recorder, now->stack);
	trace_refusal(refusal.recorder, now);
	aside(write_refusal, &recording);
	recorder_leave();
	if (refusal.class == LEDGER_MEMORY_DEVICE)
		apis_read_pools(LEDGER_PARKED_REFUSAL, refusal.number);
}

/* ---- frameworks ---- */

/* Counts the holders again for a request that needs pieces. When it was refused a piece, the
 * program had earlier pieces of the same request. It has given them back since. */
static void count_again(void *data)
{
	struct refusal *refusal = data;
	struct refused_request *request = &thread_self.refused;
	struct ledger_out_of_memory *record = request->record;
	uint64_t flags;

	if (!lock_records(refusal))
		return;
	if (number_of(record) == request->number) {
		flags = record->state & 0xff;
		shared_store(record->state, 0);
		atomic_thread_fence(memory_order_release);
		flags |= count_holders(refusal, record);
		shared_publish(record->state, request->number << 8 | flags);
	}
	unlock_records(refusal);
}

static void write_new(void *refusal)
{
	add_record(refusal);
}

static void record_given_up(const struct gave_up *what, struct recorder *recorder, uint32_t api)
{
	struct refusal refusal = { .recorder = recorder, .class = LEDGER_MEMORY_DEVICE };
	struct ledger_out_of_memory *now = &refusal.now;

	now->state = LEDGER_REFUSAL_GAVE_UP;
	now->device = what->device;
	now->bytes = now->framework_bytes = what->bytes;
	now->framework_allocated = what->allocated;
	now->framework_reserved = what->reserved;
	now->api = now->framework_api = api;
	now->refuser = LEDGER_REFUSER_FRAMEWORK;
	now->times = 1;
	now->thread = thread_self.thread;
	now->stack = stack_here_without_loader(recorder, what->caller);
	now->time_ns = now->first_ns = recorder_fine_time(recorder);
	trace_refusal(recorder, now);
	aside(write_new, &refusal);
}

/* Stores what the framework reports in the record of the thread's last request. If another thread
 * changes a record at this moment, stores only that the framework gave up. */
static void give_up_request(struct refusal *refusal, const struct gave_up *what, uint32_t api)
{
	struct refused_request *request = &thread_self.refused;
	struct ledger_out_of_memory *record = request->record;

	if (needs_pieces(request))
		aside(count_again, refusal);
	if (lock_records(refusal)) {
		if (number_of(record) == request->number) {
			record->framework_bytes = what->bytes;
			record->framework_allocated = what->allocated;
			record->framework_reserved = what->reserved;
			record->framework_api = api;
		}
		unlock_records(refusal);
	}
	change_flags(request, LEDGER_REFUSAL_GAVE_UP, 0);
	unwatch(refusal->recorder);
}

void out_of_memory_gave_up(const struct gave_up *what)
{
	LEAVE_AT_END struct recorder *recorder = recorder_now() ? recorder_enter() : NULL;
	const struct refused_request *request = recorder ? own_request(recorder) : NULL;
	struct refusal refusal = { .recorder = recorder, .class = LEDGER_MEMORY_DEVICE,
				   .now = { .device = what->device } };
	uint32_t api;

	if (!recorder)
		return;
	api = recorder_text_ref(recorder, &what->hook->name_ref, what->api);
	if (request && !request->recovered && !request->passed &&
	    (request->device < 0 || request->device == what->device) &&
	    number_of(request->record) == request->number)
		give_up_request(&refusal, what, api);
	else
		record_given_up(what, recorder, api);
}
