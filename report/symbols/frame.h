/* SPDX-License-Identifier: MIT
 *
 * Frames and stacks of calls: the structs that the code for symbols, suppressions and output
 * shares. Must not include headers of that code.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_language {
	FRAME_NATIVE = 0,
	FRAME_PYTHON, /* a Python frame with function, file and line; module is NULL, offset 0 */
	FRAME_JAVA,   /* the same of Java; a native method has no line */
	FRAME_RUBY,
	FRAME_PHP,
};

/* The origin of a frame's code. A frame that no rule matches belongs to the application. */
enum frame_role {
	FRAME_APPLICATION = 0,
	/* code that the application calls: drivers, cudart, the C library, gpuleak */
	FRAME_RUNTIME,
	FRAME_FRAMEWORK,   /* code of PyTorch, CuPy, PyOpenCL ..., in any language */
	FRAME_INTERPRETER, /* native frames of the Python interpreter */
};

/* Which of the application's frames its author can change. The headline names a frame of
 * FRAME_OWN if the stack has one. */
enum frame_code {
	FRAME_OWN = 0,
	FRAME_PACKAGE, /* a package, a library of the system, or the glue of a binding */
	FRAME_WRAPPER, /* a function that allocates for others: see holder_frames.c */
};

/* One frame. Unknown fields are NULL or 0. Strings may have any bytes except NUL, so printers must
 * escape them. An inlined call has its own frame, with module and offset of the code that contains
 * it. */
struct report_frame {
	const char *function; /* demangled if possible, without Rust's hash */
	/* the name by which fingerprints of version 1 and older suppressions know the function;
	 * NULL if it equals `function` */
	const char *old_function;
	/* absolute and without "." or ".." if the debug information allows it */
	const char *file;
	const char *module;   /* path in the traced process */
	const char *build_id; /* of the module, hexadecimal digits; NULL: the module has none */
	unsigned int line;    /* line of the call, not of the return address */
	bool is_jit; /* code that was compiled at run time, with a name from the runtime */
	bool no_debuginfo;     /* the module's file was read and has no debug information */
	/* the module's file was read and has no unwind table for this address */
	bool no_unwind_table;
	/* no_unwind_table is set, and the next frame of the stack is not the caller of this frame,
	 * which is missing */
	bool no_frame_record;
	enum frame_language language;
	enum frame_role role;
	enum frame_code code; /* FRAME_OWN unless the role is FRAME_APPLICATION */
	/* If this frame is the function that runs a thread of a framework, a rule's name for the
	 * thread: "PyTorch's autograd engine". Else NULL. The symbolizer owns it. */
	const char *thread;
	/* The frame is the interpreter of a managed language, which has the same frame for all
	 * functions that it runs. What a rule says about their names; else NULL. The symbolizer
	 * owns it. */
	const char *interprets;
	/* The frame belongs to another thread, which started the stack's work and waits for it. */
	bool waiting;
	/* Address of the call instruction's last byte in the module's symbol table (return address
	 * - 1 - bias), as `addr2line -e module` expects it. Without a module: the address in the
	 * process. */
	uint64_t offset;
};

/* A call stack, innermost frame first. Equal stacks of one process share one struct. */
struct report_stack {
	const struct report_frame *frames;
	size_t count;
	/* outer frames are missing, because the stack was deeper than GPULEAK_STACK_DEPTH */
	bool cut;
	/* The cache that allocates at this stack, "PyTorch caching allocator", or NULL. The
	 * symbolizer owns it, like the frames. */
	const char *cache;
	/* Functions of a managed language are missing or have no names, so the stacks of several
	 * can be equal, or differ by addresses only. What a rule says about their names; else
	 * NULL. */
	const char *partial;
	/* file name of the script that the process's interpreter ran; NULL unknown */
	const char *script;
	/* The rule for a list of pending frees that may contain blocks of this stack, or NULL. */
	const struct rule *pending;
};
