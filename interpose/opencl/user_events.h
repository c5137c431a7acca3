/* SPDX-License-Identifier: MIT
 *
 * User events that the application has not set, and the memory that commands behind them use. A
 * command is behind a user event if it waits for the event, or for another command that is behind
 * the event. Such a command cannot complete before the application sets the event. Until then the
 * driver keeps the memory that the command uses, even after its release.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/blocks.h"
#include "interpose/opencl/opencl_types.h"

struct waiter;
struct event_wait;

/* Maximal numbers of user events, and of records of memory behind them. Further ones are not
 * recorded. */
#define USER_EVENTS_MAX 1024
#define EVENT_WAITS_MAX 4096

struct user_events {
	struct lock lock;
	struct waiter *waiters; /* by handle: events and queues behind a user event */
	struct event_wait *spare_waits;
	unsigned int events, waits;
};

/* Number of user events of the process that are not set. If it is 0, nothing needs to be
 * recorded. */
extern _Atomic unsigned int user_events_open __attribute__((visibility("hidden")));

static inline bool user_events_are_open(void)
{
	return __builtin_expect(atomic_load_explicit(&user_events_open, memory_order_relaxed) != 0,
				0);
}

/* A command that was put into a queue. */
struct command {
	cl_command_queue queue;
	cl_uint wait_count;       /* number of events that it waits for */
	const cl_event *waits;
	cl_event made;            /* its event, if the application requested one; or NULL */
	cl_uint memory_count;     /* the memory objects that it uses: these ... */
	const cl_mem *memory;
	cl_kernel kernel;         /* ... and the arguments of this kernel, or NULL */
};

/* Called after the driver's call, once EVENT is recorded as an object. */
void user_event_made(const struct call *call, cl_event event);
/* Called after the application set EVENT. */
void user_event_set(cl_event event);
/* Called after the driver's call. Records the memory that COMMAND uses if it is behind a user
 * event. */
void user_events_enqueued(const struct call *call, const struct command *command);
