/* SPDX-License-Identifier: MIT
 *
 * One line of a call stack as people see it. Owns the struct that symbolizing, suppressing
 * and printing share, so that none of them needs the others; must include none of them.
 */
#ifndef GPULEAK_REPORT_FRAME_H
#define GPULEAK_REPORT_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum frame_language {
	FRAME_NATIVE = 0,
	FRAME_PYTHON, /* function, file and line of Python code; module NULL, offset 0 */
};

/* Whose code it is. What no rule knows is the application's. */
enum frame_role {
	FRAME_APPLICATION = 0,
	FRAME_RUNTIME,     /* below the application: drivers, cudart, the C library, gpuleak */
	FRAME_FRAMEWORK,   /* PyTorch, CuPy, PyOpenCL ...: their own code, in any language */
	FRAME_INTERPRETER, /* the Python interpreter's own native frames */
};

/* What is unknown is NULL or 0; an unknown is never guessed. Strings may hold any bytes
 * but NUL: whoever prints them makes them harmless. A call that the compiler inlined is a
 * frame of its own, with the module and offset of the code it was inlined into. */
struct report_frame {
	const char *function; /* demangled where that is possible */
	const char *file;     /* absolute and without dots where the debug information allows */
	const char *module;   /* path as the traced process saw it */
	const char *build_id; /* of the module, in hexadecimal digits; NULL: it has none */
	unsigned int line;    /* of the call, not of what comes after it */
	int no_debuginfo;     /* the module's file was read and has no debug information */
	int no_unwind_table;  /* its module's file was read and has none for this address */
	enum frame_language language;
	enum frame_role role;
	/* The address of the last byte of the call instruction as the module's own symbol
	 * table counts (return address - 1 - bias): what `addr2line -e module` wants. Without
	 * a module: that address in the memory of the process. */
	uint64_t offset;
};

/* A call stack, innermost frame first. Equal stacks of one process are one struct. */
struct report_stack {
	const struct report_frame *frames;
	size_t count;
	int cut; /* outer frames are missing: deeper than GPULEAK_STACK_DEPTH */
	/* Whose cache takes memory at this stack, "PyTorch caching allocator"; NULL: nobody's.
	 * The symbolizer's, like the frames. */
	const char *cache;
};

#endif
