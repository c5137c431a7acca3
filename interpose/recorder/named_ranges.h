/* SPDX-License-Identifier: MIT
 *
 * Named ranges: the parts of a program that it names itself, by NVTX or by gpuleak.h. Owns the
 * table of names, the table of paths ("serve/decode"), and the range in which each thread is. A
 * call site has counters of its own for each range in which it allocates (struct ledger_range).
 *
 * Beginning and ending a range needs no recorder, and writes into the ledger only if there is a
 * trace. The tables have a fixed size, take no lock and are never emptied. So all of this is safe
 * in any thread, in signal handlers and after a fork.
 */
#pragma once

#include "interpose/recorder/recorder.h"

/* A name while it is put together. Digits are folded to '#', unless GPULEAK_RANGES_AS_NAMED is
 * 1. */
#define RANGE_NAME_BYTES 120u
struct range_name {
	uint32_t length;
	bool after_digit;
	char text[RANGE_NAME_BYTES]; /* without a final NUL; a longer name is cut */
};
/* Appends CHARACTER (Unicode) to NAME as UTF-8. Returns false if there is no room for more. */
bool range_name_add(struct range_name *name, uint32_t character);
/* Returns the number of TEXT, from 1; 0 if the table has no room. TEXT may be NULL. */
uint32_t range_name(const char *text);
/* The same for a name that was put together. */
uint32_t range_name_number(const struct range_name *name);
/* Returns the text of the name NUMBER, without a final NUL, and its length. NUMBER is not 0. */
const char *range_name_text(uint32_t number, uint32_t *ret_length);
/* Returns the ref of the name NUMBER in the ledger; 0 for 0, or if the ledger has no room. */
uint32_t range_name_ref(struct recorder *recorder, uint32_t number);

/* The calling thread begins the range NAME of DOMAIN, numbers of names (DOMAIN 0: the default),
 * inside the ranges in which it is. */
void range_push(uint32_t domain, uint32_t name);
/* Ends the innermost range of DOMAIN that the calling thread has begun. */
void range_pop(uint32_t domain);

/* The calling thread starts a range, outside the ranges that it pushed. Any thread may end it by
 * the returned number, which is ID, or a new one if ID is 0. The upper half of a new number is
 * RANGE_NEW_ID, so that it is no other tool's. */
#define RANGE_NEW_ID UINT64_C(0x67706c6b)
uint64_t range_start(uint32_t domain, uint32_t name, uint64_t id);
void range_end(uint64_t id);
/* Counts the ranges that other threads have ended. */
extern _Atomic uint32_t range_ends __attribute__((visibility("hidden")));
/* Leaves those of them that the calling thread started. */
COLD void range_notice_ends(void);

/* Returns the range in which the calling thread is. */
static HOT uint32_t range_now(void)
{
	if (__builtin_expect(thread_self.range != 0, 0) &&
	    thread_self.range_ends_seen != atomic_load_explicit(&range_ends, memory_order_relaxed))
		range_notice_ends();
	return thread_self.range;
}

struct named_ranges { /* all zero: none was written yet */
	struct lock lock;
	/* the records in the ledger, by number */
	struct ledger_range *records[LEDGER_RANGE_OTHER + 1];
	uint32_t names[LEDGER_RANGE_OTHER + 1]; /* refs, by number; 0: not written yet */
};

/* Locking: takes the lock of the ranges; the caller is inside the recorder. OWNER: the number of
 * its thread's state. Returns RANGE after writing it and the ranges that enclose it into the
 * ledger; 0 if the ledger has no room. */
COLD uint16_t named_range_write(struct recorder *recorder, uint32_t owner, uint16_t range);

/* Locking: the caller holds the lock of the thread state whose number is THREAD_STATE. Adds BYTES,
 * which may be negative, to the live bytes of RANGE. */
HOT_CALL void named_range_change(struct recorder *recorder, uint16_t range,
				 enum ledger_range_memory memory, uint32_t thread_state,
				 int64_t bytes);
