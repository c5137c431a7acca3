/* SPDX-License-Identifier: MIT
 *
 * The types that the files of this folder share, and wrappers fill: a free under way, the shards
 * of the table. No functions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/lock.h"
#include "interpose/stack/stacks.h"

struct recorder;
struct call;

#define BLOCK_SHARDS 128
/* Number of dead entries (freed addresses and handles) that each shard keeps: 65,536 in total. A
 * driver reuses addresses at once, so this reaches far back in practice. A free of an address that
 * the table forgot is reported as "never allocated". */
#define BLOCK_PAST_MAX 512

struct entry;
struct mapped;

struct shard {
	struct lock lock;
	uint32_t buckets;       /* a power of two, or 0 */
	struct entry **bucket;  /* the first entry of each chain */
	uint32_t entries;
	uint32_t dead;          /* number of dead entries: see block_table.h */
	struct entry *oldest;   /* of the dead entries, in the order in which their blocks ended */
	struct entry *newest;
	struct entry *spare;
	struct mapped *mapped; /* see mappings.c, also for the next one */
	struct mapped *spare_mapped;
} __attribute__((aligned(64)));

struct blocks {
	struct shard shard[BLOCK_SHARDS];
};

/* What a driver's answer to a free means. */
enum outcome {
	OUTCOME_DONE,
	OUTCOME_LATE,    /* the driver is shut down: the block is gone */
	OUTCOME_BROKEN,  /* an earlier error has broken the context: the block is lost */
	OUTCOME_INVALID, /* the driver does not know such a block */
	OUTCOME_REFUSED, /* any other failure: the block is still live */
	OUTCOME_NO_CONTEXT, /* the current context is gone: the driver did not look at the block */
};

/* Returns true if a free with OUTCOME ends its block. */
static inline bool outcome_ends(enum outcome outcome)
{
	return outcome <= OUTCOME_BROKEN;
}

/* A free under way: filled before the driver's call, used after it. */
struct freeing {
	struct recorder *recorder; /* NULL: not recorded */
	struct ledger_block *block; /* taken out of the table, or NULL */
	uint64_t address;
	uint64_t key; /* in the table */
	uint64_t bytes;
	uint64_t span; /* bytes of address space */
	uint64_t began_ns; /* when the free or release began: call.now_ns */
	struct block_hint *hint; /* of a pooled block, or NULL */
	uint32_t stack;
	uint32_t error; /* ref of an error record that lacks the driver's answer; or 0 */
	bool counted_down; /* a handle lost one of several references */
	bool provisional;  /* the error is retracted if the driver knows the handle */
	/* If the free of another thread had already taken the block out of the table (free_race.h):
	 * index in recorder->free_races plus 1. Otherwise 0. */
	unsigned char race;
	unsigned char gone; /* of a watched block: enum gone */
	uint32_t order;    /* of the release in the handle's history; 0 = not in it */
	/* number with which the driver will report the block's end: see struct call; or 0 */
	uint64_t watched;
	/* If not 0, the block is unused and not watched: the driver may still be requested to
	 * report its end with this number, see record_watch_release(). */
	uint64_t unused;
};

/* In call.watched and in the table: the driver is requested to report the block's end, with the
 * number in the other bits, only when the block is used for the first time. */
#define WATCHED_LATER (UINT64_C(1) << 63)

/* A space is a set of addresses or handles in which a number means only one thing. Equal numbers of
 * two spaces are two things: a handle may have the value of an address. So the key of a block is
 * its address or handle and, in the upper byte, its space. After an invalid free, gpuleak searches
 * the spaces in this order. */
enum {
	KIND_COUNT = 0
#define KIND(...) + 1
#include "ledger/kinds.def"
};
enum space {
	SPACE_MEMORY,     /* addresses that a driver allocates: one space for all calls */
	SPACE_REGISTERED, /* addresses of the application's own memory that it registers */
#define SPACE(name, ...) SPACE_##name,
#include "interpose/dispatch/hooks.def"
	/* handles of objects without memory: one space for each API and kind of object, from here
	 * on: see space_of_object() */
	SPACE_OBJECT,
	SPACE_END = SPACE_OBJECT + API_COUNT * KIND_COUNT
};

/* What is special about the numbers of a space. */
struct space_traits {
	bool addresses; /* they are addresses, so a block has addresses inside it */
	bool linear;    /* addresses of memory: a call of any space may free one by mistake */
	bool assigned;  /* gpuleak assigned them, and no call passes them */
	bool contains;  /* an address inside a block's range is the block's memory */
	bool reads_any; /* the driver reads any number that a call passes as a handle */
};
/* Of the spaces before SPACE_OBJECT. */
extern const struct space_traits spaces[SPACE_OBJECT] __attribute__((visibility("hidden")));

/* Links a block of the pool with the table. The pool owns it and never reuses its memory for
 * anything else, so that it may be read without a lock. */
struct block_hint {
	/* the table's entry for the address; may be outdated: see entry_is() */
	struct entry *entry;
	_Atomic bool recorded; /* the live block is in the table: its free takes it out */
};

/* A live block because of which the driver refused a free: the free passed another address or
 * another size than the block has. */
struct misuse {
	enum space space;
	uint64_t number;
	/* the right call for the block, but for ASKED_BYTES instead of the block's size */
	bool other_range;
	uint64_t asked_bytes;
	/* the call freed a reservation, and so many bytes of it are mapped; the block is the first
	 * mapping */
	uint64_t mapped_bytes;
};
