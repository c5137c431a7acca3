/* SPDX-License-Identifier: MIT
 *
 * Captured stacks in the ledger, each distinct one once.
 */
#ifndef GPULEAK_INTERN_H
#define GPULEAK_INTERN_H

#include <stdint.h>

#include "interpose/base/ref_table.h"
#include "ledger/lock.h"

struct capture;
struct recorder;
struct stripe;

#define STACK_SHARDS 64

/* In the recorder: the refs of all stacks, by hash. */
struct stacks {
	struct {
		struct lock lock;
		struct ref_table refs;
	} __attribute__((aligned(64))) shard[STACK_SHARDS];
	struct stack_cache *cache; /* one for each stripe, see stack_cache.h */
};

/* Locking: the caller holds STRIPE's lock. Returns the ref of CAPTURE with the Python frames of the
 * calling thread, written if need be; 0 if there is no room. KEY is python_key()'s. */
uint32_t stack_intern(struct recorder *recorder, struct stripe *stripe,
		      const struct capture *capture, uint64_t key);

#endif
