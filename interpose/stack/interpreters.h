/* SPDX-License-Identifier: MIT
 *
 * Frames of the calling thread in Java, Ruby and PHP. An interpreter has the same native frames for
 * all functions that it runs, so only the interpreter itself can distinguish them. Each language
 * has one struct interpreter. Its functions call the interpreter, or read its memory, only in
 * states in which that is allowed. Python has its own reader (python.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"

struct recorder;

/* Modules were loaded since the last interpreters_look(). */
extern _Atomic bool interpreters_due __attribute__((visibility("hidden")));
/* Not 0: the process has an interpreter whose frames can be read. One bit for each. */
extern _Atomic unsigned int interpreters_there __attribute__((visibility("hidden")));

/* Searches this process for interpreters. Calls the loader. */
void interpreters_look(void);

/* No interpreter is called until the next search, because a module is about to be closed. */
static inline void interpreters_forget(void)
{
	atomic_store(&interpreters_there, 0);
	atomic_store(&interpreters_due, true);
}

/* Locking: the caller holds no lock and runs on the thread's own stack, because a JVM may let the
 * thread wait for a garbage collection. Returns the ref of the thread's innermost frames, at most
 * GPULEAK_STACK_DEPTH of them. Writes them into the ledger if they are new. Returns 0 if the thread
 * runs no code of an interpreter, or must not read its frames now. Keeps errno. */
uint32_t interpreters_frames(struct recorder *recorder);

/* ---- for the languages ---- */

struct chain {
	void *thread; /* for Java: the environment of the thread */
	uint64_t key; /* hash of the frames */
	unsigned int count;
	bool cut; /* outer frames are missing */
	struct chain_frame {
		uintptr_t code; /* the function: an address whose meaning the language knows */
		int64_t at;     /* the line, or a position from which the language finds it */
	} frames[LEDGER_FRAMES_MAX + 1];
};

/* Where a function is. Unknown strings are NULL. */
struct code_text {
	const char *file, *class, *function;
};

/* Adds a frame. TEXT belongs to CODE, whose address may be another function's later; NULL: it may
 * not. */
void chain_add(struct chain *chain, uintptr_t code, int64_t at, const struct code_text *text);

struct interpreter {
	unsigned int language; /* LEDGER_PYTHON_JAVA ... */
	const char *library;   /* the name of its library begins so */
	/* a function of it, if the program is the interpreter, or was started with its library */
	void *linked;
	/* Prepares to read frames of the interpreter in the library at PATH; "": in the program or
	 * in what it links. Returns false if that cannot be done. */
	bool (*find)(const char *path);
	/* Stores the thread's frames, innermost first, at most one more than the recorder wants.
	 * Returns false if the thread has no frames, or if the interpreter must not be asked
	 * now. */
	bool (*read)(const struct recorder *recorder, struct chain *ret);
	/* Returns the function of frame I of CHAIN as python_add_code() does. Stores its line. */
	uint32_t (*name)(struct recorder *recorder, const struct chain *chain, unsigned int i,
			 uint32_t *ret_line);
};

extern const struct interpreter interpreter_java __attribute__((visibility("hidden")));
extern const struct interpreter interpreter_ruby __attribute__((visibility("hidden")));
extern const struct interpreter interpreter_php __attribute__((visibility("hidden")));
