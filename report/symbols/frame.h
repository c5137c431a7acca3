/* SPDX-License-Identifier: MIT
 *
 * Frames and stacks of calls: the structs that symbolizing, suppressing and printing share. Must
 * not include any of them.
 */
#ifndef GPULEAK_REPORT_FRAME_H
#define GPULEAK_REPORT_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum frame_language {
	FRAME_NATIVE = 0,
	FRAME_PYTHON, /* function, file and line of Python code; module NULL, offset 0 */
};

/* The origin of a frame's code. Without a matching rule it is the application's. */
enum frame_role {
	FRAME_APPLICATION = 0,
	FRAME_RUNTIME,     /* below the application: drivers, cudart, the C library, gpuleak */
	FRAME_FRAMEWORK,   /* code of PyTorch, CuPy, PyOpenCL ..., in any language */
	FRAME_INTERPRETER, /* native frames of the Python interpreter */
};

/* Unknown fields are NULL or 0, and are never guessed. Strings may hold any bytes but NUL: printers
 * must escape them. An inlined call is its own frame, with the module and offset of the code it was
 * inlined into. */
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
	/* The address of the last byte of the call instruction in the module's symbol table (return
	 * address - 1 - bias), as `addr2line -e module` expects. Without a module: the address in
	 * the process. */
	uint64_t offset;
};

/* A call stack, innermost frame first. Equal stacks of one process are one struct. */
struct report_stack {
	const struct report_frame *frames;
	size_t count;
	int cut; /* outer frames are missing: deeper than GPULEAK_STACK_DEPTH */
	/* The cache that allocates at this stack, "PyTorch caching allocator", or NULL. Owned by
	 * the symbolizer, like the frames. */
	const char *cache;
};

#endif
