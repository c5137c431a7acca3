/* SPDX-License-Identifier: MIT
 *
 * The ledger records of memory that ended with its context: one for each call site and each place
 * that ended a context. Must not change blocks; block_state.c does.
 */
#pragma once

#include "interpose/recorder/recorder.h"

struct context_end;

/* Part of the recorder. */
struct context_ends {
	struct lock lock; /* guards all other fields; taken before the lock of a shard */
	/* by call site and place; [1]: of blocks with LEDGER_BLOCK_IGNORED */
	struct context_end *ends[2];
	struct context_end *changed; /* to be written by context_ends_write() */
	unsigned int count;
	_Atomic uint64_t blocks, bytes; /* of all places, without ignored blocks; read unlocked */
};

/* Locking: the caller holds the lock of `context_ends`, for both functions. The call API (the ref
 * of its name) with STACK ends a context. context_ends_add() counts BLOCK, which ends with it; the
 * caller holds the lock of its shard, too. context_ends_write() writes what was counted since its
 * last call into the ledger, which may have to grow; the caller holds no shard's lock. */
void context_ends_add(struct recorder *recorder, const struct ledger_block *block, uint32_t api,
		      uint32_t stack);
void context_ends_write(struct recorder *recorder, uint32_t api, uint32_t stack);
