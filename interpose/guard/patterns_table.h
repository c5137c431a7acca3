/* SPDX-License-Identifier: MIT
 *
 * The blocks that have patterns, and what the patterns are, for the files of CUDA and OpenCL. No
 * function here calls a driver. Each takes the table's lock itself, unless its comment states
 * otherwise.
 */
#pragma once

#include "interpose/guard/guard.h"
#include "interpose/guard/patterns.h"
#include "ledger/lock.h"

/* A NaN as float16, bfloat16, float and double, and an index far beyond any array. */
#define PATTERN 0x7ffbu

enum guarded_state {
	GUARDED_LIVE,
	GUARDED_FREEING, /* a thread decides what becomes of the block */
	GUARDED_LEAVING, /* freed by the application; work may still use it: see leaving.h */
	GUARDED_HELD,    /* freed by the application, and not yet by gpuleak */
	GUARDED_CACHED,  /* was held, and may serve an allocation */
	GUARDED_DROPPED, /* no longer in the table. A thread still has it */
};

/* Offsets count from the beginning of the driver's block. */
struct guarded {
	uint64_t base;          /* the driver's block: an address, or a handle */
	uint64_t front, bytes, total; /* bytes before the application's block, of it, of all */
	uint64_t span;          /* of its addresses: TOTAL, or 1 for a handle */
	uint64_t companion;     /* a block of pages: see struct page_place; otherwise 0 */
	uint64_t context;
	enum space space; /* SPACE_MEMORY: CUDA's */
	int device;
	enum guarded_state state;
	uint32_t references;    /* OpenCL: the application's */
	uint32_t pins;          /* threads that read the block: it must not be freed */
	bool unholdable;        /* the application waits for its destruction */
	bool reported;          /* an error was reported: it is not checked again */
	/* Launches up to this number were done before the last check without an error: see
	 * launches_finished(). */
	uint64_t done;
	uint64_t last;          /* GUARDED_LEAVING: number of the last launch before the free */
	bool filled;            /* GUARDED_HELD: all of it holds the pattern */
	const struct pattern_calls *calls; /* OpenCL: the functions of its driver */
	void *svm_free;         /* SVM: its driver's clSVMFree. SVM has no patterns */
	/* GUARDED_HELD: the allocation and the free, see struct ledger_error */
	struct ledger_event allocated, freed;
	uint32_t kind;
	struct guarded *next;   /* in the list of its state: freed later */
};

struct pattern_calls;

#define GUARDED_DEVICES 16
#define GUARDED_BINS 64u

struct guarded_table {
	struct lock lock;
	struct guarded **blocks; /* sorted by base */
	uint32_t count, room;
	struct guarded *oldest, *newest; /* held back */
	_Atomic uint64_t held;  /* bytes */
	struct guarded *cached[GUARDED_BINS]; /* by size */
	uint64_t cached_bytes;
	uint8_t missed[GUARDED_BINS]; /* allocations that found no cached block */
	_Atomic uint32_t leaving; /* blocks */
	/* by device: bytes of the driver beyond those of the application's live blocks */
	_Atomic uint64_t unseen[GUARDED_DEVICES];
	uint64_t lowest, highest; /* of all addresses that were ever in the table */
	uint64_t cursor;        /* base of the block that the next check begins at */
};

/* Adds a copy of WHAT, a block that is live, cached or held back. Removes blocks that overlap it:
 * gpuleak has not seen the calls that ended them. Returns false if memory is short. */
bool guarded_insert(struct guarded_table *table, const struct guarded *what);
/* Copies the block to *RET whose driver's block contains ADDRESS. Returns false if none does. */
bool guarded_copy(struct guarded_table *table, uint64_t address, struct guarded *ret);
/* Returns the live block that begins at ADDRESS of the application, or NULL. The block is now
 * GUARDED_FREEING, and no thread reads it. *RET_WRONG: the address is in a block of the table, but
 * it is not where a live block begins. */
struct guarded *guarded_take(struct guarded_table *table, uint64_t address, bool *ret_wrong);
/* Stores in BLOCK, which is GUARDED_FREEING, that CALL frees it. The wrapper is inside the driver's
 * call. */
void guarded_freed_by(struct guarded *block, struct call *call);
/* Give BLOCK, which is GUARDED_FREEING or GUARDED_LEAVING, another state. A block that was dropped
 * meanwhile ends. */
void guarded_put_back(struct guarded_table *table, struct guarded *block);
void guarded_leave(struct guarded_table *table, struct guarded *block);
void guarded_hold(struct guarded_table *table, struct guarded *block);
void guarded_cache(struct guarded_table *table, struct guarded *block);
/* Removes BLOCK, which the caller has as above or by guarded_pop(), from the table. */
void guarded_remove(struct guarded_table *table, struct guarded *block);
/* Takes the oldest held blocks of one context while more than LIMIT bytes are held back. They stay
 * GUARDED_HELD. Returns their number. */
#define GUARDED_GROUP 32u
unsigned int guarded_pop(struct guarded_table *table, uint64_t limit,
			 struct guarded *ret[GUARDED_GROUP]);
/* Makes a cached block the live block WHAT, which has the same context and total size, and stores
 * its base in WHAT. Returns false if no such block is cached. */
bool guarded_reuse(struct guarded_table *table, struct guarded *what);
/* After that: returns how many blocks of TOTAL bytes to make at once, more each time. */
#define GUARDED_STOCK 32u
unsigned int guarded_missed(struct guarded_table *table, uint64_t total);
/* Takes a cached block, which is now GUARDED_FREEING, if more than LIMIT bytes are cached. */
struct guarded *guarded_uncache(struct guarded_table *table, uint64_t limit);
/* Returns true if ADDRESS is in a block that is GUARDED_LEAVING. */
bool guarded_is_leaving(struct guarded_table *table, uint64_t address);
/* Removes all blocks of CONTEXT. */
void guarded_drop(struct guarded_table *table, uint64_t context);
/* Calls CHECK for blocks that are live or held back, in groups of one context, which is CONTEXT if
 * that is not 0. None of them is freed meanwhile. ALL: of all blocks; otherwise of the next group
 * only. */
typedef void guarded_checker(const struct call *call, struct guarded **blocks, unsigned int count);
void guarded_check(struct guarded_table *table, const struct call *call, uint64_t context, bool all,
		   guarded_checker *check);

/* Parts of blocks that are read together: from OFFSET of the driver's block to AT of a buffer. */
struct pieces {
	uint64_t done; /* as in struct guarded, for this check */
	unsigned int count;
	uint64_t bytes;
	struct piece {
		struct guarded *block;
		uint64_t offset, bytes, at;
	} piece[2 * GUARDED_GROUP];
};
void pieces_add(struct pieces *pieces, struct guarded *block, uint64_t offset, uint64_t bytes);
/* Adds what is around BLOCK. */
void pieces_add_around(struct pieces *pieces, struct guarded *block);
/* MEMORY has what was read of the first COUNT of PIECES. Judges each of them. */
void pieces_judge(struct guarded_table *table, const struct call *call,
		  const struct pieces *pieces, unsigned int count, const unsigned char *memory);

/* Fills BYTES at MEMORY, which begins at OFFSET of the driver's block. */
void pattern_fill(unsigned char *memory, uint64_t offset, uint64_t bytes);

/* The time for checks at synchronizations, which is a hundredth of all time. */
bool check_time_left(void);
void check_time_used(uint64_t ns);
