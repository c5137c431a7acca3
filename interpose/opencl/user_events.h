/* SPDX-License-Identifier: MIT
 *
 * User events that the application has not set, and the memory that commands behind them use.
 * Such a command never ends, and what it uses stays with the driver, also after its release.
 */
#ifndef GPULEAK_USER_EVENTS_H
#define GPULEAK_USER_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/blocks.h"
#include "interpose/opencl/opencl_types.h"

struct behind;
struct event_wait;

/* User events at a time, and records of memory behind them. Further ones are not known, and
 * explain nothing. */
#define USER_EVENTS_MAX 1024
#define EVENT_WAITS_MAX 4096

struct user_events {
	struct lock lock;
	struct behind *behind; /* by handle: what ends only once a user event is set */
	struct event_wait *spare_waits;
	unsigned int events, waits;
};

/* How many user events of the process are not set: with 0 nothing needs to be recorded. */
extern _Atomic unsigned int user_events_open __attribute__((visibility("hidden")));

static inline bool user_events_are_open(void)
{
	return __builtin_expect(atomic_load_explicit(&user_events_open, memory_order_relaxed) != 0,
				0);
}

/* A command that was put into a queue. */
struct command {
	cl_command_queue queue;
	cl_uint wait_count;       /* events that it waits for */
	const cl_event *waits;
	cl_event made;            /* its own event, if the application asked for it; or NULL */
	cl_uint memory_count;     /* memory objects that it uses: these ... */
	const cl_mem *memory;
	cl_kernel kernel;         /* ... and the arguments of this kernel, or NULL */
};

/* After the driver's call, once EVENT is recorded as an object. */
void user_event_made(const struct site *site, cl_event event);
/* The application has set EVENT. */
void user_event_set(cl_event event);
/* After the driver's call. Records what COMMAND uses if it is behind a user event. */
void user_events_enqueued(const struct site *site, const struct command *command);

#endif
