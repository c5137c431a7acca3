/* SPDX-License-Identifier: MIT
 *
 * Returns the calling thread's stack as a ref into the ledger.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stack/arch.h"

uint32_t stack_find(struct recorder *recorder, const struct caller *caller, bool may_load);

/* Locking: takes the lock of the calling thread's state. Returns the ref of the calling thread's
 * stack, or 0 if the ledger is full or stacks are not recorded. CALLER is the value of the macro in
 * the wrapper that the application called, or NULL. */
static HOT uint32_t stack_here(struct recorder *recorder, const struct caller *caller)
{
	return recorder->stack_depth ? stack_find(recorder, caller, true) : 0;
}

/* The same, but does not read the loader's list of modules if it changed, and does not search for
 * an interpreter: the next stack_here() does. A new stack still calls dl_iterate_phdr(). For calls
 * under a lock of the application, which another thread may want inside the loader. */
static inline uint32_t stack_here_without_loader(struct recorder *recorder,
						 const struct caller *caller)
{
	return recorder->stack_depth ? stack_find(recorder, caller, false) : 0;
}
