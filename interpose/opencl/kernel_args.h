/* SPDX-License-Identifier: MIT
 *
 * Which kernel has which buffer as an argument: what may hold a buffer that was released.
 */
#ifndef GPULEAK_HOLDS_H
#define GPULEAK_HOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/lock.h"

struct holds_entry;
struct recorder;

/* Kernels whose arguments are remembered at a time; further ones explain nothing. */
#define HOLDS_MAX 4096

struct holds {
	struct lock lock;
	unsigned int count;
	struct holds_entry *entries; /* by the kernel's handle */
};

/* Argument INDEX of the object HOLDER is now HANDLE (0 or unknown: no block of ours). */
void holds_set(enum api api, uint64_t holder, uint32_t index, uint64_t handle);

/* Copies the names of the arguments of the kernel HANDLE; 0: no block of ours. False: nothing is
 * known of the kernel. */
bool holds_names(struct recorder *recorder, uint64_t handle, uint64_t ret[LEDGER_HOLDS_ARGUMENTS]);

#endif
