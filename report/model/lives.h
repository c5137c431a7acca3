/* SPDX-License-Identifier: MIT
 *
 * The trace of a ledger as lives: each block and suballocation with the time from which and the
 * time until which it was allocated. Must not print.
 */
#ifndef GPULEAK_REPORT_LIVES_H
#define GPULEAK_REPORT_LIVES_H

#include "report/model/builder.h"

#define LIFE_GOES_ON UINT64_MAX

struct life {
	uint64_t address, bytes;
	uint64_t from_ns; /* 0: before the trace */
	uint64_t to_ns;   /* LIFE_GOES_ON: it is still allocated */
	const struct ledger_site *site;
	bool inside; /* it is a suballocation */
	/* the block counted other bytes before and after: then it was not allocated or freed */
	bool is_continued, continues;
	/* only for trace_build(): a live block has it; index of the next open life of the block,
	 * plus 1 */
	bool is_live;
	size_t next;
};

struct report_trace {
	struct life *lives; /* in no particular order */
	size_t count;
	uint64_t begin_ns; /* the lives are complete from here on */
	uint64_t end_ns;   /* of the process, or the time of the last event if that is unknown */
	uint64_t events;   /* so many were read, */
	uint64_t dropped;  /* so many older ones had been overwritten, */
	uint64_t torn;     /* so many are incomplete or damaged */
	/* other events, in their order: struct ledger_trace_event, without allocations and frees */
	struct ledger_trace_event *others;
	size_t other_count;
};

/* Reads the trace. Returns NULL if the ledger has none. */
const struct report_trace *trace_build(struct builder *b);

#endif
