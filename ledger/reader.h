/* SPDX-License-Identifier: MIT
 *
 * Reads a ledger in memory through bounds-checked views. Does not trust the bytes. No
 * allocation, no stdio, no locks: the fallback report inside a traced process uses it, and the
 * fuzzer tests it. report/load/load.c reads the file.
 */
#ifndef GPULEAK_LEDGER_READER_H
#define GPULEAK_LEDGER_READER_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"

struct ledger_view {
	const uint8_t *base; /* borrowed, 8-byte aligned */
	size_t bytes;
	uint32_t chunks;     /* whole chunks that are there: min(header's, what BYTES holds) */
	int cut;             /* 1: the header counts more chunks than there are bytes */
};

/* Why a ledger cannot be read; ledger_why() returns the words ("is not a gpuleak ledger"). */
enum ledger_why {
	LEDGER_OK = 0,
	LEDGER_FOREIGN,   /* no magic */
	LEDGER_SHORT,     /* not even a whole header */
	LEDGER_NEWER,     /* reader_min above ours */
	LEDGER_ORDER,     /* written on a machine of another byte order */
	LEDGER_BROKEN,    /* a header field can't be */
};
const char *ledger_why(enum ledger_why why);

/* Checks BYTES bytes at BASE. On LEDGER_OK fills *RET, which is valid as long as the bytes are;
 * otherwise leaves it unchanged. */
enum ledger_why ledger_view(const void *base, size_t bytes, struct ledger_view *ret);

const struct ledger_header *ledger_header(const struct ledger_view *view);

/* Returns the chunk of that number (1 .. chunks-1), or NULL if its `used` is impossible. */
const struct ledger_chunk *ledger_chunk(const struct ledger_view *view, uint32_t number);

/* Walks all records of one fixed-size type in file order. Start with a zeroed walk;
 * returns NULL at the end. Records are SIZE bytes each (sizeof of the struct). */
struct ledger_walk {
	uint32_t chunk;
	uint32_t offset;
};
const void *ledger_next(const struct ledger_view *view, struct ledger_walk *walk,
			enum ledger_chunk_type type, size_t size);

/* Each of these returns the record of a ref, or NULL if the ref is 0, out of bounds, misaligned or
 * not inside the published part of a chunk of the right type. */
const struct ledger_row *ledger_row(const struct ledger_view *view, uint32_t ref);
const struct ledger_block *ledger_block(const struct ledger_view *view, uint32_t ref);
const struct ledger_stack *ledger_stack(const struct ledger_view *view, uint32_t ref);
/* The bits of LEDGER_STACK_LOOPS of the stack at REF; NULL: it has none. */
const uint64_t *ledger_stack_loops(const struct ledger_view *view, uint32_t ref);
const struct ledger_python *ledger_python(const struct ledger_view *view, uint32_t ref);
const struct ledger_code *ledger_code(const struct ledger_view *view, uint32_t ref);
/* Callers must compare its `block` with the block that led there. */
const struct ledger_history *ledger_history(const struct ledger_view *view, uint32_t ref);
/* Returns a string's bytes with their length in *RET_LENGTH; NULL as above. */
const char *ledger_string(const struct ledger_view *view, uint32_t ref, uint32_t *ret_length);

/* Returns true if the kind of ROW is not memory but an object that may keep memory allocated. */
int ledger_row_is_object(const struct ledger_view *view, const struct ledger_row *row);

#endif
