/* SPDX-License-Identifier: MIT
 *
 * Which kernel has which buffer as an argument. A kernel may keep a released buffer alive.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/lock.h"

struct kernel_args_entry;
struct recorder;

/* Maximal number of kernels whose arguments are recorded at a time. The arguments of further
 * kernels are not recorded. */
#define KERNEL_ARGS_MAX 4096

struct kernel_args {
	struct lock lock;
	unsigned int count;
	struct kernel_args_entry *entries; /* by the kernel's handle */
};

/* Records HANDLE as argument INDEX of KERNEL. If HANDLE is 0 or has no block, the
 * argument is cleared. Returns the number that record_use() stores for HANDLE, or 0. */
uint64_t kernel_args_set(uint64_t kernel, uint32_t index, uint64_t handle);

/* Copies the block names of the arguments of the kernel HANDLE; 0: the argument has no block.
 * Returns false if no arguments of the kernel are recorded. */
bool kernel_args_lookup(struct recorder *recorder, uint64_t handle,
			uint64_t ret[LEDGER_KERNEL_ARGS_MAX]);
