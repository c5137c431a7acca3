/* SPDX-License-Identifier: MIT
 *
 * What stacks depend on x86-64 for. Included by arch.h only.
 */
#pragma once

#include <stdint.h>

/* The names of libunwind's functions. */
#define ARCH_LIBUNWIND_NAME(prefix, name) prefix "x86_64" name

/* The numbers of registers in unwind tables. */
#define ARCH_DWARF_FRAME_POINTER 6u
#define ARCH_DWARF_STACK_POINTER 7u
#define ARCH_DWARF_RETURN 16u
#define ARCH_IS_AARCH64 false

/* The frame pointer and return address that a wrapper has stored on entry, in the order that the
 * ABI prescribes. CALLER, used in a wrapper, is the address of this pair. */
struct caller {
	uint64_t frame_pointer;
	uint64_t pc;
};
#define CALLER ((const struct caller *)__builtin_frame_address(0))

/* Returns the caller's stack pointer after the call returns. */
static inline const uint64_t *caller_top(const struct caller *caller)
{
	return (const uint64_t *)(caller + 1);
}

/* Returns the address in the stored return address STORED. */
static inline uint64_t arch_code_address(uint64_t stored)
{
	return stored;
}
