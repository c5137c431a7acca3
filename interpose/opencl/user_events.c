/* SPDX-License-Identifier: MIT
 *
 * Keeps the user events that are not set, and what each one blocks: events of commands, and
 * in-order queues. Also keeps a ledger record for each memory object that a blocked command uses.
 * An entry for a handle is valid only while the handle's block has the recorded name, since drivers
 * reuse handles. Memory is named by slot and use count of the slot, so nothing needs to be undone
 * when it ends.
 */
#include "interpose/opencl/user_events.h"

#include <utlist.h>

#include "interpose/block/block_table.h"
#include "interpose/opencl/kernel_args.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/dispatch/resolve.h"

_Atomic unsigned int user_events_open READ_BY_ALL;

/* A ledger record of memory that a command behind a user event uses. */
struct event_wait {
	struct ledger_event_wait *record;
	struct event_wait *next;
};

struct user_event {
	uint64_t handle;
	uint32_t api, stack; /* of the call that made it */
	struct waiter *waiters;
	struct event_wait *waits;
};

/* A handle that cannot complete before EVENT is set. It is the event itself, the event of a command
 * that waits for it, or an in-order queue that contains such a command. */
struct waiter {
	uint64_t handle;
	uint64_t name;
	struct user_event *event;
	struct waiter *next; /* next entry of the same user event */
	UT_hash_handle hh;
};

/* ---- Locking: recorder->user_events->lock ---- */

static struct waiter *waiter_find(struct recorder *recorder, uint64_t handle)
{
	struct waiter *waiter;

	TABLE_FIND(recorder->user_events->waiters, &handle, waiter);
	return waiter;
}

/* HANDLE is an event or a command queue. Returns the user event that the application must set
 * before the event, or a command in the queue, can complete. Returns NULL if there is no such user
 * event. */
static struct user_event *event_before(struct recorder *recorder, const void *handle)
{
	struct waiter *waiter =
		handle ? waiter_find(recorder, (uint64_t)(uintptr_t)handle) : NULL;

	return waiter && waiter->name == record_name_of(recorder, SPACE_CL_HANDLE, waiter->handle)
		       ? waiter->event : NULL;
}

static struct user_event *event_before_command(struct recorder *recorder,
					       const struct command *command)
{
	struct user_event *event = NULL;

	for (cl_uint i = 0; command->waits && i < command->wait_count && !event; i++)
		event = event_before(recorder, command->waits[i]);
	return event ? event : event_before(recorder, command->queue);
}

static void waiter_remove(struct recorder *recorder, struct waiter *waiter)
{
	TABLE_REMOVE(&recorder->arena, recorder->user_events->waiters, waiter);
	LL_DELETE(waiter->event->waiters, waiter);
	arena_give(&recorder->arena, waiter, sizeof(*waiter));
}

/* Removes EVENT, which was set or has ended, with its entries and records. */
static void end_event(struct recorder *recorder, struct user_event *event)
{
	struct user_events *events = recorder->user_events;
	struct event_wait *wait, *next;

	LL_FOREACH_SAFE(event->waits, wait, next) {
		shared_publish(wait->record->block, 0);
		LL_PREPEND(events->spare_waits, wait);
	}
	while (event->waiters)
		waiter_remove(recorder, event->waiters);
	arena_give(&recorder->arena, event, sizeof(*event));
	events->events--;
	atomic_fetch_sub(&user_events_open, 1);
}

/* Records that HANDLE waits for EVENT. An older entry of the same handle is removed if its block
 * has ended. */
static void waiter_add(struct recorder *recorder, struct user_event *event, const void *handle,
		       uint64_t name)
{
	struct arena *arena = &recorder->arena;
	struct waiter *waiter = waiter_find(recorder, (uint64_t)(uintptr_t)handle);

	if (!name || (waiter && waiter->name == name))
		return;
	if (waiter && waiter->event->handle == waiter->handle)
		end_event(recorder, waiter->event);
	else if (waiter)
		waiter_remove(recorder, waiter);
	waiter = arena_take(arena, sizeof(*waiter));
	if (!waiter)
		return;
	waiter->handle = (uint64_t)(uintptr_t)handle;
	waiter->name = name;
	waiter->event = event;
	if (TABLE_ADD(arena, recorder->user_events->waiters, handle, waiter))
		LL_PREPEND(event->waiters, waiter);
	else
		arena_give(arena, waiter, sizeof(*waiter));
}

static struct event_wait *take_wait(struct recorder *recorder)
{
	struct user_events *events = recorder->user_events;
	struct event_wait *wait = events->spare_waits;
	uint32_t ref;

	if (wait) {
		LL_DELETE(events->spare_waits, wait);
		return wait;
	}
	if (events->waits == EVENT_WAITS_MAX ||
	    !(ref = ledger_add_event_wait(&recorder->writer, NULL)))
		return NULL;
	wait = arena_take(&recorder->arena, sizeof(*wait));
	if (wait) {
		wait->record = ledger_at(&recorder->writer, ref);
		events->waits++;
	}
	return wait;
}

static bool has_wait(const struct user_event *event, uint64_t name)
{
	const struct event_wait *wait;

	LL_FOREACH(event->waits, wait)
		if (wait->record->block == name)
			return true;
	return false;
}

/* Records that COMMAND, a copy of its ledger fields, uses the memory with the block name NAME. */
static void add_wait(struct recorder *recorder, struct user_event *event, uint64_t name,
		     const struct ledger_event_wait *command)
{
	struct event_wait *wait = name && !has_wait(event, name) ? take_wait(recorder) : NULL;

	if (!wait)
		return;
	*wait->record = *command;
	wait->record->event_api = event->api;
	wait->record->event_stack = event->stack;
	shared_publish(wait->record->block, name);
	LL_PREPEND(event->waits, wait);
}

/* Records that COMMAND uses HANDLE and, if HANDLE is a sub-object, its parent's memory. */
static void add_waits_of(struct recorder *recorder, struct user_event *event, uint64_t handle,
			 const struct ledger_event_wait *command)
{
	struct ledger_block block;

	add_wait(recorder, event, record_name_of(recorder, SPACE_CL_HANDLE, handle), command);
	if (handle && block_live(recorder, key_in(SPACE_CL_HANDLE, handle), &block))
		add_wait(recorder, event, record_name_of(recorder, SPACE_CL_HANDLE, block.parent),
			 command);
}

static void add_waits(struct recorder *recorder, struct user_event *event,
		      const struct command *command, const struct ledger_event_wait *wait)
{
	uint64_t names[LEDGER_KERNEL_ARGS_MAX];

	for (cl_uint i = 0; command->memory && i < command->memory_count; i++)
		add_waits_of(recorder, event, (uint64_t)(uintptr_t)command->memory[i], wait);
	if (!command->kernel ||
	    !kernel_args_lookup(recorder, (uint64_t)(uintptr_t)command->kernel, names))
		return;
	for (unsigned int i = 0; i < LEDGER_KERNEL_ARGS_MAX; i++)
		add_wait(recorder, event, names[i], wait);
}

/* ---- functions that take the lock ---- */

void user_event_made(const struct call *call, cl_event handle)
{
	struct recorder *recorder = recorder_enter();
	struct user_event *event = NULL;
	uint64_t name;

	if (!recorder)
		return;
	name = record_name_of(recorder, SPACE_CL_HANDLE, (uint64_t)(uintptr_t)handle);
	if (name)
		event = arena_take(&recorder->arena, sizeof(*event));
	if (event) {
		event->handle = (uint64_t)(uintptr_t)handle;
		event->api = recorder_name_ref(recorder, call->hook);
		event->stack = stack_here(recorder, call->caller);
		lock_take(&recorder->user_events->lock);
		recorder->user_events->events++;
		atomic_fetch_add(&user_events_open, 1);
		waiter_add(recorder, event, handle, name);
		if (!event->waiters || recorder->user_events->events > USER_EVENTS_MAX)
			end_event(recorder, event);
		lock_give(&recorder->user_events->lock);
	}
	recorder_leave();
}

void user_event_set(cl_event handle)
{
	ENTER_PART(user_events, user_events_are_open());
	struct waiter *waiter =
		recorder ? waiter_find(recorder, (uint64_t)(uintptr_t)handle) : NULL;

	if (waiter && waiter->event->handle == waiter->handle)
		end_event(recorder, waiter->event);
}

/* Returns true if QUEUE runs its commands in order. Calls the driver. */
static bool is_in_order(cl_command_queue queue)
{
	used_clGetCommandQueueInfo *ask = OPENCL_USED(clGetCommandQueueInfo);
	cl_command_queue_properties properties = 0;

	return ask && ask(queue, CL_QUEUE_PROPERTIES, sizeof(properties), &properties, NULL) ==
			      CL_SUCCESS &&
	       !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

static bool is_behind(struct recorder *recorder, const struct command *command)
{
	bool ret;

	lock_take(&recorder->user_events->lock);
	ret = event_before_command(recorder, command) != NULL;
	lock_give(&recorder->user_events->lock);
	return ret;
}

static void record_behind(struct recorder *recorder, const struct call *call,
			  const struct command *command, bool in_order)
{
	const struct ledger_event_wait wait = {
		.time_ns = recorder_time(recorder),
		.api = recorder_name_ref(recorder, call->hook),
		.stack = stack_here(recorder, call->caller),
	};
	struct user_event *event;

	lock_take(&recorder->user_events->lock);
	event = event_before_command(recorder, command); /* may have been set meanwhile */
	if (event) {
		add_waits(recorder, event, command, &wait);
		if (command->made)
			waiter_add(recorder, event, command->made,
				   record_name_of(recorder, SPACE_CL_HANDLE,
						  (uint64_t)(uintptr_t)command->made));
		if (in_order)
			waiter_add(recorder, event, command->queue,
				   record_name_of(recorder, SPACE_CL_HANDLE,
						  (uint64_t)(uintptr_t)command->queue));
	}
	lock_give(&recorder->user_events->lock);
}

void user_events_enqueued(const struct call *call, const struct command *command)
{
	struct recorder *recorder = recorder_enter();
	bool behind, in_order;

	if (!recorder)
		return;
	behind = is_behind(recorder, command);
	recorder_leave();
	if (!behind)
		return;
	in_order = is_in_order(command->queue);
	recorder = recorder_enter();
	if (!recorder)
		return;
	record_behind(recorder, call, command, in_order);
	recorder_leave();
}
