/* SPDX-License-Identifier: MIT
 *
 * What stacks depend on aarch64 for. Included by arch.h only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The names of libunwind's functions. */
#define ARCH_LIBUNWIND_NAME(prefix, name) prefix "aarch64" name

/* The numbers of registers in unwind tables. */
#define ARCH_DWARF_FRAME_POINTER 29u
#define ARCH_DWARF_STACK_POINTER 31u
#define ARCH_DWARF_RETURN 30u
#define ARCH_IS_AARCH64 true

/* The caller of a wrapper. CALLER, used in a wrapper, is the address of such a struct. The frame
 * pointer and the return address that a wrapper has stored lie anywhere in its frame, so they do
 * not show where the frame ends. */
struct caller {
	uint64_t frame_pointer;
	uint64_t pc;
	const uint64_t *top;
};
#if defined(__clang__) /* its __builtin_dwarf_cfa() is not the end of the frame */
#define CALLER ((const struct caller *)NULL)
#else
#define CALLER                                                                              \
	(&(const struct caller){ .frame_pointer = *(const uint64_t *)__builtin_frame_address(0), \
				 .pc = (uint64_t)(uintptr_t)__builtin_return_address(0),    \
				 .top = __builtin_dwarf_cfa() })
#endif

/* Returns the caller's stack pointer after the call returns. */
static inline const uint64_t *caller_top(const struct caller *caller)
{
	return caller->top;
}

/* Returns the address in the stored return address STORED. A function may sign its return address:
 * then the upper bits have the signature. */
static inline uint64_t arch_code_address(uint64_t stored)
{
	register uint64_t address __asm__("x30") = stored;

	__asm__("hint #7" : "+r"(address)); /* xpaclri: older processors ignore it */
	return address;
}
