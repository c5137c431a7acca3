/* SPDX-License-Identifier: MIT
 *
 * Bytes of blocks whose last reference is gone while a driver still holds their memory:
 * how many at most, over time, and who waited longest.
 */
#ifndef GPULEAK_RELEASED_H
#define GPULEAK_RELEASED_H

#include <stdint.h>

#include "ledger/writer.h"

struct past;
struct recorder;

/* Below this a wait is what the call itself takes, and not told of. */
#define RELEASED_WAIT_NS 1000000u

struct released {
	struct lock lock;
	struct ledger_timeline timeline;
};

/* BYTES more (or less) are released and not freed. Not shared between threads. */
void released_add(struct recorder *recorder, int64_t bytes);

/* Looks at the total: peak and timeline. */
void released_look(struct recorder *recorder);

/* At the process's end: a driver that is about to say that memory is gone gets a moment. */
void released_wait(struct recorder *recorder);

/* Before a report: the timeline ends with what is true now. */
void released_settle(struct recorder *recorder);

/* The block that ENDING tells of was freed only now. */
void released_waited(struct recorder *recorder, const struct past *ending, uint64_t wait_ns);

/* CLOCK_MONOTONIC in ns since the ledger's start: a wait may be shorter than a tick. */
uint64_t released_now(const struct recorder *recorder);

#endif
