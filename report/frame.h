/* SPDX-License-Identifier: MIT
 *
 * One line of a call stack as people see it. Owns the struct that symbolizing, suppressing
 * and printing share, so that none of them needs the others; must include none of them.
 */
#ifndef GPULEAK_REPORT_FRAME_H
#define GPULEAK_REPORT_FRAME_H

#include <stdint.h>

/* What is unknown is NULL or 0; an unknown is never guessed. Strings may hold any bytes
 * but NUL: whoever prints them makes them harmless. A call that the compiler inlined is a
 * frame of its own, with the module and offset of the code it was inlined into. */
struct report_frame {
	const char *function; /* demangled where that is possible */
	const char *file;     /* absolute and without dots where the debug information allows */
	const char *module;   /* path as the traced process saw it */
	unsigned int line;    /* of the call, not of what comes after it */
	/* The address of the last byte of the call instruction as the module's own symbol
	 * table counts (return address - 1 - bias): what `addr2line -e module` wants. Without
	 * a module: that address in the memory of the process. */
	uint64_t offset;
};

#endif
