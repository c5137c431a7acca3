/* SPDX-License-Identifier: MIT
 *
 * Records allocations that were refused for want of memory, and the holders: the call sites that
 * had the memory then. The number of records is bounded: it keeps the first and the last ones. All
 * functions keep errno. No function waits for another thread longer than a count of the holders
 * takes; out_of_memory_gave_up() never waits.
 */
#pragma once

#include "interpose/recorder/recorder.h"
#include "interpose/stack/stacks.h"

/* Part of the recorder. */
struct refusals {
	struct lock lock;
	struct ledger_out_of_memory *records[LEDGER_REFUSALS_FIRST + LEDGER_REFUSALS_LAST];
	uint32_t layouts; /* number of layouts that were begun */
	_Atomic unsigned int waiting; /* number of threads whose last request was refused */
};

/* A request that fails for want of memory. */
struct refused {
	struct hook *hook;
	const struct caller *caller; /* see stacks.h; NULL = unknown */
	uint64_t bytes; /* 0 unknown */
	int device;     /* -1 unknown */
	enum ledger_refuser refuser;
	uint64_t limit; /* limit in bytes, if a limit is the reason; otherwise 0 */
};

/* Records WHAT. May call the driver. */
COLD void out_of_memory_record(const struct refused *what);

/* The calling thread got a block of BYTES on DEVICE by HOOK. If the thread's last refused request
 * did not want more bytes than that, of the same class of memory, the request has recovered. Called
 * only while CHECK_REFUSED is set. */
void out_of_memory_granted(struct recorder *recorder, const struct hook *hook, int device,
			   uint64_t bytes);

/* What a framework reports if it gives up an allocation. */
struct gave_up {
	struct hook *hook;
	const struct caller *caller;
	const char *api;    /* name of the call in a report */
	uint64_t bytes;     /* that the framework wanted */
	uint64_t allocated; /* bytes of its suballocations on the device */
	uint64_t reserved;  /* bytes of its blocks on the device */
	int device;
};

/* A framework gave up the request that this thread was refused last; or it refused a request of its
 * own without a driver call. The caller may hold any lock: calls neither the driver nor the loader
 * for a known stack, and waits for no thread. Does not make the recorder. */
COLD void out_of_memory_gave_up(const struct gave_up *what);

/* ---- holders.c: which call sites hold memory at this moment. Only reads the ledger, and other
 * threads continue meanwhile. Takes no lock and allocates nothing. Its time depends on the
 * number of call sites, not on that of blocks. ---- */

struct holders {
	struct ledger_holder *list; /* the caller's array of `room` elements, largest first */
	uint32_t room, count;
	uint32_t other_sites; /* number of further call sites, for which `list` has no room */
	uint64_t other_blocks, other_bytes;
	uint64_t inside_bytes; /* of all suballocations, also of those in `other_bytes` */
	uint64_t allocs, suballocs; /* number of allocations since the start */
};

/* Fills in *RET, whose `list` and `room` are set, with the call sites that hold memory of CLASS on
 * DEVICE (-1: on any). */
void holders_count(struct recorder *recorder, enum ledger_memory class, int device,
		   struct holders *ret);

/* Locking: the caller holds the lock of the records. Stores in RECORD, whose `layout` is 0, and in
 * the ledger where blocks and suballocations lie on DEVICE. Stores no number if there is no room
 * for all. Takes as long as it takes to read all slots of blocks. */
void layout_store(struct recorder *recorder, int device, struct ledger_out_of_memory *record);
