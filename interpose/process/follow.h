/* SPDX-License-Identifier: MIT
 *
 * Puts what `gpuleak run` has set back into the environment of a program that this process starts.
 * Without `gpuleak run`, and with GPULEAK_FOLLOW=off, every environment stays as it is. The
 * environment of this process is only read.
 */
#pragma once

#include <alloca.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- program_file.c: the file of a program that this process is about to start. Only reads files.
 * Safe in a vfork child and in signal handlers; keeps errno. ---- */

/* Where the file is: at its path, in PATH as execvp searches it, or not known by name. */
enum program_search { PROGRAM_AT_PATH, PROGRAM_IN_PATH, PROGRAM_UNKNOWN };

/* Returns true if FILE, which may be NULL, can be executed, or if it is not known. */
bool program_file_runs(const char *file, enum program_search search);

/* Returns true if the program FILE does not start with gpuleak preloaded, or reports an error: it
 * is for another C library (musl) or another processor. */
bool program_file_refuses(const char *file, enum program_search search);

/* ---- follow.c ---- */

/* Stores what GPULEAK_RUN names. Called by the constructor, before the program can change its
 * environment. */
void follow_start(void);

struct follow_size {
	size_t pointers;
	size_t text;
	size_t bytes; /* of both together; 0: the environment stays as it is */
};

/* Returns what FOLLOW() needs for ENVP, which may be NULL. */
struct follow_size follow_measure(char *const envp[]);

/* Writes the environment to MEMORY, of size.bytes. Returns it, or NULL if another thread has
 * changed ENVP since follow_measure(). */
char **follow_write(char *const envp[], struct follow_size size, void *memory);

/* Returns the environment to hand on to the program FILE instead of ENVP, or NULL if that is ENVP
 * itself. A program that would not start with gpuleak gets ENVP. The memory is in the caller's
 * frame: a vfork child uses the memory of its parent, and must neither allocate nor change any of
 * it. Safe in signal handlers. */
#define FOLLOW(envp, file, search)                                        \
	({                                                                \
		struct follow_size size_ = follow_measure(envp);          \
		size_.bytes && !program_file_refuses(file, search)        \
			? follow_write(envp, size_, alloca(size_.bytes))  \
			: NULL;                                           \
	})
