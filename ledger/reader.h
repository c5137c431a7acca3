/* SPDX-License-Identifier: MIT
 *
 * Reads a ledger in memory through bounds-checked views, and does not trust its bytes. No
 * allocation, no stdio, no locks: the fallback report inside a traced process uses it. Any
 * thread and signal handlers may call it. A fuzzer tests it. report/load/load.c reads the file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"

struct ledger_view {
	const uint8_t *base; /* owned by the caller, 8-byte aligned */
	size_t bytes;
	/* number of complete chunks: the smaller of the header's count and what BYTES contains */
	uint32_t chunks;
	int cut;             /* 1: the header counts more chunks than BYTES contains */
};

/* Why a ledger cannot be read. ledger_why() returns the text ("is not a gpuleak ledger"). */
enum ledger_why {
	LEDGER_OK = 0,
	LEDGER_FOREIGN,   /* the magic bytes are missing */
	LEDGER_SHORT,     /* shorter than a header */
	LEDGER_NEWER,     /* its reader_min is above this reader's version */
	LEDGER_ORDER,     /* written on a machine of another byte order */
	LEDGER_BROKEN,    /* a header field has an invalid value */
};
const char *ledger_why(enum ledger_why why);

/* Checks the BYTES bytes at BASE. On LEDGER_OK fills in *RET, which refers to these bytes.
 * Otherwise leaves *RET unchanged. */
enum ledger_why ledger_view(const void *base, size_t bytes, struct ledger_view *ret);

/* Returns the header. Fields that its writer did not have are 0. */
const struct ledger_header *ledger_header(const struct ledger_view *view);

/* Returns chunk NUMBER (1 .. chunks - 1), or NULL if its `used` is invalid. */
const struct ledger_chunk *ledger_chunk(const struct ledger_view *view, uint32_t number);

/* Returns the next record of TYPE in file order, or NULL after the last one. Start with a zeroed
 * *WALK. SIZE is the sizeof of the record's struct. */
struct ledger_walk {
	uint32_t chunk;
	uint32_t offset;
};
const void *ledger_next(const struct ledger_view *view, struct ledger_walk *walk,
			enum ledger_chunk_type type, size_t size);
/* Returns the record of TYPE and SIZE that REF refers to. Returns NULL if REF is 0, out of bounds,
 * misaligned, or not in the published part of a chunk of TYPE. */
const void *ledger_record(const struct ledger_view *view, uint32_t ref,
			  enum ledger_chunk_type type, size_t size);
/* For each row of chunks.def: ledger_next_name(view, walk) returns the next record of that type,
 * and ledger_name(view, ref) the one that REF refers to, or NULL. */
#define CHUNK(NAME, number, name, type, bytes)                                              \
	static inline const type *ledger_next_##name(const struct ledger_view *view,        \
						     struct ledger_walk *walk)              \
	{                                                                                   \
		return (const type *)ledger_next(view, walk, LEDGER_CHUNK_##NAME, bytes);   \
	}                                                                                   \
	static inline const type *ledger_##name(const struct ledger_view *view, uint32_t ref) \
	{                                                                                   \
		return (const type *)ledger_record(view, ref, LEDGER_CHUNK_##NAME, bytes);  \
	}
#define CHUNK_OWN CHUNK
#define CHUNK_MIXED(NAME, number)
#include "ledger/chunks.def"
/* Runs the statement that follows for each record of NAME, a row of chunks.def, in file order.
 * Declares RECORD, the pointer to it. */
#define LEDGER_EACH(name, record, view)                                                     \
	for (struct ledger_walk record##_walk = { 0 }, *record##_once = &record##_walk;     \
	     record##_once; record##_once = NULL)                                           \
		for (__typeof__(ledger_next_##name(view, record##_once)) record;            \
		     (record = ledger_next_##name(view, record##_once));)

/* The caller must check the content of a ledger_live_series() with live_series_read(), and that the
 * `block` of a ledger_history() is the block that referred to the history. */

/* Returns the next block that is live. The ledger must not be written meanwhile: load.c makes a
 * copy of the ledger of a running process. */
const struct ledger_block *ledger_next_live(const struct ledger_view *view,
					    struct ledger_walk *walk);
/* Returns the next live suballocation. */
const struct ledger_block *ledger_next_suballocation(const struct ledger_view *view,
						     struct ledger_walk *walk);

/* Copies site, address, bytes, parent, thread and marked of the block in SLOT to *RET, as they are
 * at one moment, and its state. Another thread may change the slot meanwhile. Returns false if the
 * slot has no block, or if it is reused again and again. */
bool ledger_read_slot(const struct ledger_block *slot, struct ledger_block *ret);

/* The trace, see struct ledger_trace_event. The first returns the number of the oldest event that
 * the ring may still have, 0: there is no trace or no event. The newest is the header's `traced`.
 * The second copies event NUMBER to *RET, or returns false: it was overwritten, is incomplete or
 * damaged. */
uint64_t ledger_trace_oldest(const struct ledger_view *view);
bool ledger_trace_read(const struct ledger_view *view, uint64_t number,
		       struct ledger_trace_event *ret);

/* Each function returns what REF refers to, or NULL as ledger_record() does. */
/* REF belongs to a call site of blocks or of suballocations. */
const struct ledger_site *ledger_any_site(const struct ledger_view *view, uint32_t ref);
/* Return the two balances of SITE, a record in VIEW: that of the thread that owns the call site,
 * and that of all other threads. Return NULL if the writer was too old to write them. */
const struct ledger_balance *ledger_balance_of(const struct ledger_view *view,
					       const struct ledger_site *site);
const struct ledger_balance *ledger_others_balance_of(const struct ledger_view *view,
						      const struct ledger_site *site);
const struct ledger_stack *ledger_stack(const struct ledger_view *view, uint32_t ref);
/* Returns the LEDGER_STACK_LOOPS bit mask of the stack at REF; NULL if the stack has none. */
const uint64_t *ledger_stack_loops(const struct ledger_view *view, uint32_t ref);
const struct ledger_python *ledger_python(const struct ledger_view *view, uint32_t ref);
/* Returns the bytes of a string and stores their number in *RET_LENGTH, or returns NULL as above.
 * The string has no final NUL. */
const char *ledger_string(const struct ledger_view *view, uint32_t ref, uint32_t *ret_length);

/* Returns true if the kind of SITE is an object that is not memory, such as an OpenCL kernel. Such
 * an object may keep memory allocated. */
bool ledger_site_is_object(const struct ledger_view *view, const struct ledger_site *site);
