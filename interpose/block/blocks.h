/* SPDX-License-Identifier: MIT
 *
 * The recording of allocations and frees, for the wrappers of every API. One table has the live
 * block of each address or handle, and the last blocks of freed addresses. The record_ functions
 * may be called by any thread, also from a signal handler. They keep errno, and they report no
 * failure to the caller: what could not be recorded is counted in the ledger.
 */
#ifndef GPULEAK_BLOCKS_H
#define GPULEAK_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/lock.h"
#include "interpose/stack/stacks.h"

struct recorder;

#define BLOCK_SHARDS 128
/* Freed addresses that the table keeps, per shard: 65,536 in total. A driver reuses addresses at
 * once, so this reaches far back in practice. A free of an address that the table forgot is
 * reported as "never allocated". */
#define BLOCK_PAST_MAX 512

struct entry;
struct mapped;
struct mapping;

struct shard {
	struct lock lock;
	unsigned int dead;      /* entries without a live block */
	struct entry *entries;
	struct entry *oldest;   /* of the entries without a live block, in the order of their end */
	struct entry *newest;
	struct entry *spare;
	struct mapped *mapped; /* these three: see mappings.c */
	struct mapped *spare_mapped;
	struct mapping *spare_mappings;
} __attribute__((aligned(64)));

struct blocks {
	struct shard shard[BLOCK_SHARDS];
};

/* What a driver's answer to a free means. */
enum outcome {
	OUTCOME_DONE,
	OUTCOME_INVALID, /* the driver does not know such a block */
	OUTCOME_LATE,    /* the driver is shut down, or the context is broken: the block is gone */
	OUTCOME_REFUSED, /* any other failure: the block is still live */
	OUTCOME_NO_CONTEXT, /* the current context is gone: the driver did not look at the block */
};

/* A free under way: filled before the driver's call, used after it. */
struct freeing {
	struct recorder *recorder; /* NULL: not recorded */
	struct ledger_block *block; /* taken out of the table, or NULL */
	uint64_t address;
	uint64_t key; /* in the table */
	uint64_t bytes;
	uint64_t span; /* bytes of address space */
	struct standing *standing; /* of a pooled block, or NULL */
	uint32_t stack;
	uint32_t error; /* ref of an error record that lacks the driver's answer; or 0 */
	bool counted_down; /* a handle lost one of several references */
	bool provisional;  /* the error is retracted if the driver knows the handle */
	unsigned char race; /* index in recorder->free_races plus 1; 0 = no race */
	bool watched;      /* the driver will report the block's end, see site.watched */
	uint32_t use;      /* of a watched block: how often its slot was used */
	uint32_t order;    /* of the release in the handle's history; 0 = not in it */
	uint64_t since_ns; /* of a watched block: when its last reference was released */
};

/* The spaces of addresses and handles. Numbers of different spaces may be equal. Four bits of a
 * key. An invalid free searches the spaces in this order. */
enum space {
	SPACE_MEMORY,     /* addresses that a driver allocates: one space for all calls */
	SPACE_REGISTERED, /* the application's own addresses that it registers */
	SPACE_OBJECTS,    /* handles: one space for each API, from here on */
	SPACE_VMM_HANDLE = SPACE_OBJECTS + API_COUNT,
	SPACE_VMM_MAPPING, /* an address may be a mapping and a reservation */
	SPACE_VMM_RESERVATION,
	SPACE_MULTICAST_BINDING, /* numbers that gpuleak assigns */
	SPACE_CL_USM, /* addresses of OpenCL's SVM and USM */
	SPACE_COUNT
};

/* Links a block of the pool with the table. The pool owns it and never reuses its memory for
 * anything else, so that it may be read without a lock. */
struct standing {
	struct entry *entry;   /* the table's entry for the address, perhaps outdated: entry_is() */
	_Atomic bool recorded; /* the live block is in the table: its free takes it out */
};

/* An intercepted call and its caller. */
struct site {
	struct hook *hook;
	const struct caller *caller; /* see stacks.h; NULL = unknown */
	enum space space;
	/* The driver will report the end of the block: record_destroyed() gets this number. 0: not.
	 * */
	uint64_t watched;
};

/* ---- allocations ---- */

/* After the driver's call: it allocated BYTES at ADDRESS. CONTEXT 0 and DEVICE -1 mean unknown. */
void record_made(const struct site *site, uint64_t address, uint64_t bytes, uint64_t context,
		 int device, uint64_t parent);
/* The same for a block that the pool allocated, if recorder_stayed(). The pool has just read the
 * current context. */
void record_made_pooled(const struct site *site, uint64_t address, uint64_t bytes);

/* The same for other kinds of blocks: NUMBER is an address or a handle, FACTS is copied into the
 * ledger, SPAN is the size of the block's address space. Returns the block's record, which does not
 * move until the block ends; NULL if it was not recorded. SHARED: a live block with that number
 * gets one more reference instead; returns NULL. */
struct ledger_block *record_block(const struct site *site, uint64_t number, uint64_t span,
				  const struct ledger_block *facts, int device, bool shared);

/* Returns the stack of a call, for a block that a later call allocates: a ref, 0 if unknown. */
uint32_t record_origin(const struct site *site);
/* As record_made(), with the STACK that record_origin() returned earlier. */
void record_made_from(const struct site *site, uint32_t stack, uint64_t address, uint64_t bytes,
		      int device);

/* ---- frees ---- */

/* Before and after the driver's call. The block leaves the table before the call, because the
 * driver may give the address to another thread at once. It is put back if the free fails. */
void record_freeing(const struct site *site, uint64_t address, struct freeing *ret);
/* The same for a block that the pool may cache. If thread_self.standing is not NULL afterwards, the
 * block is the pool's and the recorder stays entered. KNOWN: the pool's link for ADDRESS, or NULL;
 * it saves a look-up in the table. */
void record_freeing_pooled(const struct site *site, uint64_t address,
			   const struct standing *known, struct freeing *ret);
void record_freed(struct hook *hook, struct freeing *freeing, enum outcome outcome, int result);

/* Instead of record_freed(), when the driver freed nothing: the block is put back.
 * record_misused() also records that the call was for the live block that MISUSE names. */
struct misuse {
	enum space space;
	uint64_t number;
	bool other_range; /* the right call, but with ASKED_BYTES instead of the block's size */
	uint64_t asked_bytes;
};
void record_kept(struct freeing *freeing);
void record_misused(struct hook *hook, struct freeing *freeing, const struct misuse *misuse,
		    int result);

/* CONTEXT was destroyed or reset: ends every block in it. */
void record_context_gone(struct hook *hook, uint64_t context);

/* ---- references of handles: free.c ---- */

/* After the driver's call: adds a reference. Returns true if the handle is known. */
bool record_retained(const struct site *site, uint64_t handle);
/* Before and after the driver's call: removes a reference; the last one ends the block. */
void record_releasing(const struct site *site, uint64_t handle, struct freeing *ret);
void record_released(struct hook *hook, struct freeing *freeing, enum outcome outcome, int result);

/* The driver reports, on any thread, that the memory of the block made with WATCHED is gone. Until
 * then, or until another block gets the handle, the block stays in the table. */
void record_destroyed(enum api api, uint64_t handle, uint64_t watched);

/* ---- queries ---- */

/* Returns true if a live block begins at ADDRESS. */
bool record_is_live(const struct site *site, uint64_t address);
/* Returns the device of the live linear block at ADDRESS; -1 if unknown. */
int record_device_of(uint64_t address);
/* Returns the ledger's name of HANDLE's block, which may be live or deferred; 0 if there is none.
 * */
uint64_t record_name_of(struct recorder *recorder, enum api api, uint64_t handle);

/* ---- driver calls that were left: see driver_call.h ---- */

/* A wrapper whose frame is FRAME begins while the thread is marked as inside a driver's call. If
 * that call was left by longjmp, an exception or cancellation, puts the block that it was freeing
 * back. */
void record_call_left(const uintptr_t *frame);
/* The same for a thread that ends. */
void record_calls_end(void);

#endif
