/* SPDX-License-Identifier: MIT
 *
 * Writes captured stacks into the ledger, each distinct stack once.
 */
#pragma once

#include <stdint.h>

#include "interpose/base/ref_table.h"
#include "ledger/lock.h"

struct capture;
struct recorder;
struct thread_state;

#define STACK_SHARDS 64

/* Part of the recorder: the refs of all stacks, by hash. */
struct stacks {
	struct {
		struct lock lock;
		struct ref_table refs;
	} __attribute__((aligned(64))) shard[STACK_SHARDS];
	struct stack_cache *cache; /* one for each per-thread state, see stack_cache.h */
};

/* Locking: the caller holds STATE's lock. Returns the ref of the stack that consists of CAPTURE
 * and the calling thread's Python frames. Writes the stack into the ledger if it is new. KEY is the
 * result of python_key(). WAITING is the ref of the frames of the thread that waits for the calling
 * thread, which has no Python frames then; or 0. Returns 0 if the ledger is full. */
uint32_t stack_intern(struct recorder *recorder, struct thread_state *state,
		      const struct capture *capture, uint64_t key, uint32_t waiting);

/* Locking: the caller holds STATE's lock. Returns the ref of the stack of FRAMES native frames at
 * PC, with frames_hash_on() HASH, and the Python frames with KEY if STATE's thread had it recently,
 * or 0. */
uint32_t stack_recent(struct recorder *recorder, const struct thread_state *state,
		      const uint64_t *pc, unsigned int frames, uint64_t hash, uint64_t key);
