/* SPDX-License-Identifier: MIT
 *
 * Maps an address in a module's file to frames with function, file and line. For all processes
 * of a report, opens each module file once and looks up each address once. Must not use the
 * network, run programs, read files that are not regular, or depend on ledgers. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/symbols/frame.h"

struct jit_process;

/* The frames of one call instruction, innermost first. There is at least one, and several if calls
 * were inlined. Each (module, offset) has one struct, so callers may compare pointers. */
struct symbol_location {
	const struct report_frame *frames;
	size_t count;
};

#define SYMBOLIZER_NO_FILES 1u /* open no file: every function and line of native code is unknown */

/* Creates a symbolizer. Destroy it after everything that refers to its frames. */
struct symbolizer *symbolizer_create(unsigned int flags);
void symbolizer_destroy(struct symbolizer *symbolizer); /* SYMBOLIZER may be NULL */

/* Modules that are not found at their path are looked for in process PID: its program may have been
 * replaced while it runs, or may lie in a container. Call it before the first lookup of a location.
 */
void symbolizer_add_process(struct symbolizer *symbolizer, int pid);

/* symbolizer_rules() returns the rules for frames (see rules.h), at first those of the command.
 * symbolizer_set_rules() replaces them with RULES, which the symbolizer then owns. */
/* Returns the demangled form of NAME, a function's name as the linker has it. Interned; NULL: no
 * memory. */
const char *symbolizer_demangled(struct symbolizer *symbolizer, const char *name);
struct rules *symbolizer_rules(const struct symbolizer *symbolizer);
void symbolizer_set_rules(struct symbolizer *symbolizer, struct rules *rules);

/* Returns the module that had PATH and BUILD_ID when it was mapped (BUILD_ID_BYTES 0: unknown). The
 * first lookup of a location opens the file. Each run unpacks a temporary module to another path,
 * so those with one build id are one module. */
struct symbol_module *symbolizer_module(struct symbolizer *symbolizer, const char *path,
					const uint8_t *build_id, size_t build_id_bytes);

/* Returns what stands for the code outside of all modules of PROCESS, whose offsets are addresses.
 * Reads the names that the process's runtime wrote when it is first called for the process. */
struct symbol_module *symbolizer_jit(struct symbolizer *symbolizer,
				     const struct jit_process *process);

/* Adds a function of MODULE, for the case that its file cannot be read: its code has BYTES bytes
 * from START in the file's symbol table. Call it before the first lookup of a location. */
void symbol_module_add(struct symbolizer *symbolizer, struct symbol_module *module,
		       uint64_t start, uint64_t bytes, const char *name);

/* A place in a program's code. If MODULE is NULL, OFFSET is an address in memory. */
struct symbol_place {
	struct symbol_module *module;
	uint64_t offset;
};

/* Stores in RET the frames at each of COUNT PLACES of a stack (see struct report_frame). The
 * symbolizer owns the locations. NAMES_STARTS: the outermost frames that only start the program or
 * a thread get a name and no line, which saves reading the C library's debug information. */
void symbolizer_locations(struct symbolizer *symbolizer, const struct symbol_place *places,
			  size_t count, bool names_starts, const struct symbol_location **ret);

/* Returns true for a function that starts a program or a thread. In a C library without symbols
 * (FUNCTION NULL) returns true: it is one if the frames on both sides are known. */
bool symbol_is_start(const char *function, const char *module);

/* Returns true if MODULE, of symbolizer_jit(), has names. */
bool symbol_module_is_named(const struct symbol_module *module);

/* Returns why the module's file was not used, or NULL. Valid after the first lookup of a location.
 * Of symbolizer_jit(): why the names were not used, or which one is uncertain. */
const char *symbol_module_problem(const struct symbol_module *module);
