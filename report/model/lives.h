/* SPDX-License-Identifier: MIT
 *
 * The trace of a ledger as lives: each block and suballocation with the time from which and the
 * time until which it was allocated. Must not print.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"

struct builder;
struct report_process;

#define LIFE_GOES_ON UINT64_MAX

struct life {
	uint64_t address, bytes;
	uint64_t from_ns; /* 0: before the trace */
	uint64_t to_ns;   /* LIFE_GOES_ON: it is still allocated */
	uint64_t from, to; /* numbers of the events; 0: the trace lacks the event */
	const struct ledger_site *site;
	const struct report_site *where; /* only after lives_look_up() */
	bool inside; /* it is a suballocation */
	/* the block counted other bytes before and after: then it was not allocated or freed */
	bool is_continued, continues;
	/* only for lives_build(): a live block has it; index of the next open life of the block,
	 * plus 1 */
	bool is_live;
	size_t next;
};

/* A step, or a request that ran out of memory. */
struct life_mark {
	enum ledger_trace_kind kind;
	uint64_t number, time_ns, bytes;
	uint64_t value; /* number of the step, or ref of the call's name */
	uint32_t stack_ref;
	const char *api; /* these two only after lives_look_up() */
	const struct report_stack *stack;
};

/* A range of the program (NVTX). */
struct life_range {
	uint64_t from_ns, to_ns; /* as those of a life */
	uint64_t from, to;
	uint32_t thread;
	uint32_t number; /* of the struct ledger_range */
	bool is_started; /* any thread may end it */
	size_t track; /* number, plus 1, of the first range of its thread and domain */
	size_t outer; /* only for lives_build(): number, plus 1, of the range around it */
	const char *name, *domain; /* only after lives_look_up() */
};

struct lives {
	struct life *list; /* in no particular order */
	size_t count;
	struct life_mark *marks; /* in their order */
	size_t mark_count;
	struct life_range *ranges; /* in the order of their first events */
	size_t range_count;
	uint64_t begin_ns; /* the lives are complete from here on; UINT64_MAX: never */
	uint64_t end_ns;   /* of the process, or the time of the last event if that is unknown */
	uint64_t events;   /* so many were read, */
	uint64_t dropped;  /* so many older ones had been overwritten, */
	uint64_t torn;     /* so many are incomplete or damaged */
};

/* Reads the trace. Without one, only the live blocks have lives. */
struct lives *lives_build(struct builder *b);
/* Looks up the symbols of all call sites. The lives are then valid as long as the process. */
const struct lives *lives_look_up(struct builder *b);

/* Returns the lives of PROCESS; none if loaded_ledger.whole_trace was not set. */
const struct lives *lives_of(const struct report_process *process);

/* An allocation, a free, a mark, or the begin or end of a range: one pointer is not NULL. */
struct life_event {
	uint64_t number;
	const struct life *life;
	const struct life_mark *mark;
	const struct life_range *range;
	bool ends; /* LIFE or RANGE ends */
};
/* Returns when the event happened. */
uint64_t life_event_ns(const struct life_event *event);
/* Returns the events in their order. The caller frees the list. */
struct life_event *lives_events(const struct lives *lives, size_t *ret_count);
