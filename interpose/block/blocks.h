/* SPDX-License-Identifier: MIT
 *
 * Who owns what: one table of addresses and handles for all APIs, sharded, with what is
 * live and, for addresses that were freed, what was there last. Wrappers call the
 * record_ functions; each keeps errno and never fails visibly.
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
/* Addresses that are remembered after their block is gone, per shard: 64 Ki in all. A
 * driver hands addresses out again at once, so this reaches far back in practice; a free
 * of an address that fell out of it reads "never allocated", and the report says how
 * far memory went. */
#define BLOCK_PAST_MAX 512

struct entry;
struct mapped;
struct mapping;

struct shard {
	struct lock lock;
	unsigned int dead;      /* entries without a live block */
	struct entry *entries;
	struct entry *oldest;   /* of the dead ones, in order of death */
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
	OUTCOME_INVALID, /* it does not know such a block */
	OUTCOME_LATE,    /* it is shut down, or the context is broken: memory went with it */
	OUTCOME_REFUSED, /* any other failure: the block is still there */
	OUTCOME_NO_CONTEXT, /* the current context is gone: it did not look at the block */
};

/* A free under way: filled by the first call, used by the second. */
struct freeing {
	struct recorder *recorder; /* NULL: not recorded */
	struct ledger_block *block; /* taken out of the table, or NULL */
	uint64_t address;
	uint64_t key; /* of the table */
	uint64_t bytes;
	uint64_t span; /* of the addresses that the block takes */
	struct standing *standing; /* that the block was made with */
	uint32_t stack;
	uint32_t error; /* ref of an error already written, whose result is still open */
	bool counted_down; /* a handle lost one of several references */
	bool provisional;  /* the error is none if the driver knows the handle */
	unsigned char rival; /* of recorder->rivals, plus 1; 0 = it is none */
	bool watched;      /* the block waits in the table until it is gone, see site.watched */
	uint32_t use;      /* of a watched block's slot */
	uint32_t order;    /* of the release in the history of the handle, 0 = not noted */
	uint64_t since_ns; /* of a watched block: when its last reference went */
};

/* Numbers of different sorts that may be equal and are never taken for one another; four bits
 * of a key. A wrong free looks for its number in this order. */
enum space {
	SPACE_MEMORY,     /* addresses that the driver hands out, one space for all of them */
	SPACE_REGISTERED, /* addresses that the application lends */
	SPACE_OBJECTS,    /* handles, of the API numbered 0 and so on */
	SPACE_VMM_HANDLE = SPACE_OBJECTS + API_COUNT,
	SPACE_VMM_MAPPING, /* addresses, and so is the next: one number may be both */
	SPACE_VMM_RESERVATION,
	SPACE_MULTICAST_BINDING, /* numbers of our own */
	SPACE_CL_USM, /* addresses of OpenCL's shared memory: SVM and USM */
	SPACE_COUNT
};

/* What the table knows of memory that comes and goes at one address: the pool's. Kept by who
 * owns that memory, in a place that is never anything else. */
struct standing {
	struct entry *entry;    /* the table's for that address, if it still is: see entry_is() */
	_Atomic bool recorded;  /* the live block is in the table: who takes it out frees it */
};

/* A call under way: which, and from where. */
struct site {
	struct hook *hook;
	const struct caller *caller; /* see stacks.h; NULL = not known */
	enum space space;
	/* Of record_made(): record_destroyed() will be called with this; 0 = it will not. */
	uint64_t watched;
};

/* ---- made ---- */

/* The driver made a block: BYTES at ADDRESS. CONTEXT 0 and DEVICE -1 if unknown. */
void record_made(const struct site *site, uint64_t address, uint64_t bytes, uint64_t context,
		 int device, uint64_t parent);
/* The same of a block that the pool gave out, which has just looked at the current context:
 * recorder_stayed() for it. */
void record_made_pooled(const struct site *site, uint64_t address, uint64_t bytes);

/* The same for what is more than an address with bytes: the block NUMBER, of FACTS, whose
 * addresses take SPAN bytes. Returns its record, which stays where it is until the block
 * ends; NULL if there is none. With SHARED a number that is live gets one more reference
 * instead, and nothing is made. */
struct ledger_block *record_block(const struct site *site, uint64_t number, uint64_t span,
				  const struct ledger_block *facts, int device, bool shared);

/* Where a call comes from, for a block that is made by a later one: a ref, 0 = unknown. */
uint32_t record_origin(const struct site *site);
/* As record_made(), of a block whose maker was called before, from STACK. */
void record_made_from(const struct site *site, uint32_t stack, uint64_t address, uint64_t bytes,
		      int device);

/* ---- freed (what is wrong with it: free_errors.c) ---- */

/* Before and after the driver's free: the block leaves the table first, since the driver
 * hands the address to another thread at once, and comes back if the free failed. */
void record_freeing(const struct site *site, uint64_t address, struct freeing *ret);
/* The same of a block that the pool may take: if thread_self.standing, which is what the block
 * that left the table was made with, is not NULL, then the recorder stays entered for the pool.
 * KNOWN: of the pool's block at ADDRESS, or NULL; it saves looking for the table's entry. */
void record_freeing_pooled(const struct site *site, uint64_t address,
			   const struct standing *known, struct freeing *ret);
void record_freed(struct hook *hook, struct freeing *freeing, enum outcome outcome, int result);

/* In place of record_freed(), of a block that was taken out. The driver left it where it was:
 * nothing is said, or that the call was wrong, and about which live block. */
struct misuse {
	enum space space;
	uint64_t number;
	bool other_range; /* the right call for it, given ASKED_BYTES that are not the block's */
	uint64_t asked_bytes;
};
void record_kept(struct freeing *freeing);
void record_misused(struct hook *hook, struct freeing *freeing, const struct misuse *misuse,
		    int result);

/* CONTEXT is gone, and every block in it. */
void record_context_gone(struct hook *hook, uint64_t context);

/* ---- references of handles: free.c ---- */

/* One more. Returns whether the handle is known. */
bool record_retained(const struct site *site, uint64_t handle);
/* Before and after the driver's call: one goes, and with the last one the block. */
void record_releasing(const struct site *site, uint64_t handle, struct freeing *ret);
void record_released(struct hook *hook, struct freeing *freeing, enum outcome outcome, int result);

/* The memory of the block that was made with WATCHED is gone, said by the driver on whatever
 * thread. Until then, or until its handle is another's, it stays in the table. */
void record_destroyed(enum api api, uint64_t handle, uint64_t watched);

/* ---- what is there ---- */

/* A live block begins at ADDRESS. */
bool record_is_live(const struct site *site, uint64_t address);
/* The device of the live linear block at ADDRESS, -1 if that is not known. */
int record_device_of(uint64_t address);
/* The ledger's name of the block behind HANDLE, also one that was released and is still there;
 * 0 if there is none. */
uint64_t record_name_of(struct recorder *recorder, enum api api, uint64_t handle);

/* ---- a call under way: see driver_call.h ---- */

/* A wrapper whose frame is FRAME begins while the thread is marked as inside a call. Settles
 * what is left of that call if it was left by longjmp, an exception or cancellation. */
void record_call_left(const uintptr_t *frame);
/* The same of a thread that ends. */
void record_calls_end(void);

#endif
