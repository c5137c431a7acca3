/* SPDX-License-Identifier: MIT
 *
 * The trace (GPULEAK_TRACE): adds events to the ring in the ledger, see struct ledger_trace_event.
 * Any thread may call these functions. A thread takes a slot of the ring by one atomic addition. It
 * takes no lock and makes no system call. Must not decide what an event means.
 */
#pragma once

#include <stdbool.h>

#include "interpose/recorder/recorder.h"

struct trace {
	struct ledger_chunk *ring; /* NULL: no trace */
	uint64_t mask; /* number of chunks of the ring, less one; they are a power of two */
};

/* Makes the ring if GPULEAK_TRACE is set. Called once, before other threads see RECORDER. */
void trace_start(struct recorder *recorder);

static HOT bool trace_is_on(void)
{
	return __builtin_expect(atomic_load_explicit(&alloc_checks, memory_order_relaxed) &
					CHECK_TRACE, 0);
}

/* Adds an event, see enum ledger_trace_kind. Does nothing if RECORDER has no ring. */
void trace_add(struct recorder *recorder, enum ledger_trace_kind kind, uint32_t ref,
	       uint64_t address, uint64_t bytes, uint64_t time_ns);
/* The same for BLOCK, or a suballocation, and BYTES of it. Leaves out objects that are not
 * memory. */
void trace_block(struct recorder *recorder, enum ledger_trace_kind kind,
		 const struct ledger_block *block, uint64_t bytes, uint64_t time_ns);
/* KIND is LEDGER_TRACE_RANGE_BEGAN or _ENDED. RANGE: its number. ID: that of a range which any
 * thread may end, else 0. DOMAIN: a number that stands for it. Adds nothing before the first GPU
 * call, or in a signal handler that has interrupted gpuleak. */
void trace_range(int kind, uint16_t range, uint64_t id, uint32_t domain);
