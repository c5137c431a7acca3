/* SPDX-License-Identifier: MIT
 *
 * What Python runs in the calling thread, read from the thread's own chain of frames: those
 * stand still while the thread is in C, with or without the GIL. Nothing here takes the GIL
 * or calls what may allocate or lock in CPython; an interpreter that is not known is left alone.
 */
#ifndef GPULEAK_PYTHON_H
#define GPULEAK_PYTHON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"
#include "interpose/base/ref_table.h"

struct recorder;

enum python_table {
	PYTHON_LNOTAB,    /* 3.9 */
	PYTHON_LINES,     /* 3.10 */
	PYTHON_LOCATIONS, /* 3.11 on */
};

/* See python_offsets.def. */
#define PYTHON_NONE (-1)
struct python_offsets {
	int minor;
	int frame, inner;
	int previous, code, at, owner, entry;
	enum python_table table;
	int first_line, filename, name, lines, bytecode, version;
	int ascii, compact;
	bool interpreters;
};
/* The same in all of them. */
#define PYTHON_TYPE 8 /* in an object */
#define PYTHON_SIZE 16 /* in a string or bytes: how long */
#define PYTHON_HASH 24 /* in a string: -1 until asked for */
#define PYTHON_STATE 32 /* in a string: bits 2-4 width, 5 in one piece, 6 ASCII */
#define PYTHON_BYTES 32 /* in bytes: where they begin */
#define PYTHON_OWNER_SHIM 3

/* An interpreter that was found and is known. */
struct python {
	struct python_offsets at;
	const char *(*this_thread)(void); /* its state, NULL: none */
	int (*finalizing)(void);
	void *(*first_interpreter)(void);
	void *(*next_interpreter)(void *interpreter);
	const void *code_type, *text_type, *bytes_type;
};

/* NULL: there is none, or it is left alone. */
extern _Atomic(const struct python *) python_now __attribute__((visibility("hidden")));
/* How often modules were loaded or closed, and how many of those times were looked after. Who
 * finds them apart looks for himself: he would miss his frames while another one does. */
extern _Atomic uint32_t python_wanted __attribute__((visibility("hidden")));
extern _Atomic uint32_t python_looked __attribute__((visibility("hidden")));

/* Modules came or went: there may be an interpreter now. */
static inline void python_want(void)
{
	atomic_fetch_add_explicit(&python_wanted, 1, memory_order_relaxed);
}

/* Some module is about to go: it may be the interpreter. */
static inline void python_forget(void)
{
	atomic_store_explicit(&python_now, NULL, memory_order_release);
	python_want();
}

static inline bool python_is_due(void)
{
	return atomic_load_explicit(&python_wanted, memory_order_relaxed) !=
	       atomic_load_explicit(&python_looked, memory_order_relaxed);
}

/* Looks for an interpreter in this process, if that is due. Asks the loader. */
void python_look(struct recorder *recorder);

struct python_frame {
	uintptr_t code; /* the code object; | 1: an entry, see LEDGER_PYTHON_ENTRY */
	uintptr_t at;   /* instruction, as the frame has it */
};
struct python_chain {
	unsigned int frames;
	bool cut;
	struct python_frame frame[LEDGER_FRAMES_MAX];
};

/* The DEPTH innermost frames of the calling thread. */
void python_read(const struct python *python, unsigned int depth, struct python_chain *ret);

/* Where on the thread's own stack the calls of the evaluation loop that ran those frames keep
 * something, innermost first: it tells which native frames they are. RET has room for
 * LEDGER_FRAMES_MAX; returns how many, 0 where that is not known (before 3.11). */
unsigned int python_calls(unsigned int depth, uintptr_t *ret);

/* A number for them, which other frames don't have; 0: there are none. What is hashed is in
 * python.c. */
uint64_t python_key_of(const struct python *python, unsigned int depth);

static inline uint64_t python_key(unsigned int depth)
{
	const struct python *python = atomic_load_explicit(&python_now, memory_order_acquire);

	return __builtin_expect(python != NULL, 0) ? python_key_of(python, depth) : 0;
}

/* Tells a code object from one that is or was at the same address. */
uint64_t python_identity(const struct python *python, uintptr_t code);

/* Looks at an address before it is followed: CPython's objects and frames are aligned, and lie
 * where a program's memory does. */
static inline bool python_plausible(uintptr_t address)
{
	return address - 4096 < ((uintptr_t)1 << 47) - 8192 && (address & 7) == 0;
}

static inline uintptr_t python_word(uintptr_t at)
{
	return *(const uintptr_t *)at;
}

/* ---- names (python_names.c) ---- */

#define PYTHON_CODES_MAX (1u << 18) /* different functions that get a name in one ledger */
#define PYTHON_RECENT 1024

/* What the present ledger has of Python; in the recorder. */
struct python_names {
	struct lock lock;
	struct ref_table texts, codes, chains; /* by content: each once in the ledger */
	unsigned int code_count;
	struct { uint64_t key; uint32_t ref; } recent[PYTHON_RECENT]; /* code objects met before */
	char text[LEDGER_STRING_MAX];
};

/* The ref of the calling thread's Python frames, up to DEPTH; 0: none, or no room. */
uint32_t python_intern(struct recorder *recorder, unsigned int depth);

#endif
