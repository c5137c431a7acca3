/* SPDX-License-Identifier: MIT
 *
 * Reads the Python frames of the calling thread from CPython's chain of frames. While a thread
 * runs C code, its own chain does not change, with or without the GIL. Nothing here takes the GIL
 * or calls CPython functions that may allocate or lock. An interpreter of an unsupported version
 * is not read, one that is newer only after a check.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"
#include "interpose/base/ref_table.h"

struct recorder;

enum python_table {
	PYTHON_LNOTAB,    /* 3.8, 3.9 */
	PYTHON_LINES,     /* 3.10 */
	PYTHON_LOCATIONS, /* 3.11 on */
};

/* Offsets in CPython's structures, see python_offsets.def. */
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
/* These offsets are the same in all versions. */
#define PYTHON_TYPE 8 /* in an object: its type */
#define PYTHON_SIZE 16 /* in a string or bytes object: its length */
#define PYTHON_HASH 24 /* in a string: its hash, or -1 if CPython has not computed it */
#define PYTHON_STATE 32 /* in a string: bits 2-4 bytes per character, bit 5 compact, bit 6 ASCII */
#define PYTHON_BYTES 32 /* in a bytes object: its content */
#define PYTHON_OWNER_SHIM 3

/* A CPython interpreter of a supported version that was found in this process. */
struct python {
	struct python_offsets at;
	const char *(*this_thread)(void); /* returns the thread's state, or NULL */
	int (*finalizing)(void);
	void *(*first_interpreter)(void);
	void *(*next_interpreter)(void *interpreter);
	/* From 3.12 on: returns the offset of the instruction of a frame. Only reads. */
	int (*instruction)(void *frame);
	const void *code_type, *text_type, *bytes_type;
	char version[32];
};

/* The interpreter, or NULL if there is none or it is not supported. */
extern _Atomic(const struct python *) python_now __attribute__((visibility("hidden")));
/* python_wanted counts how often modules were loaded or closed. python_looked is the value of
 * python_wanted that the latest python_look() handled. If they differ, each thread calls
 * python_look() itself. It does not wait for another thread's search, because its own stack would
 * then lack Python frames. */
extern _Atomic uint32_t python_wanted __attribute__((visibility("hidden")));
extern _Atomic uint32_t python_looked __attribute__((visibility("hidden")));

/* A function of CPython. gpuleak does not call it by this name. The reference is weak: the loader
 * sets it to NULL if the process has no interpreter when gpuleak is loaded. A dlsym() that fails
 * would make each process without Python start later. */
extern const char *PyGILState_GetThisThreadState(void) __attribute__((weak));

/* Returns true if the program is the interpreter, or was started with its library. Then it cannot
 * be unloaded, and one search is enough. A search waits for the loader's lock. Another thread may
 * hold that lock while its constructor waits for a lock that the application holds in a GPU
 * call. */
static inline bool python_is_permanent(void)
{
	return PyGILState_GetThisThreadState != NULL;
}

/* Requests a new search, because modules were loaded or closed. */
static inline void python_want(void)
{
	if (!python_is_permanent() ||
	    !atomic_load_explicit(&python_looked, memory_order_relaxed))
		atomic_fetch_add_explicit(&python_wanted, 1, memory_order_relaxed);
}

/* Stops reading Python frames until the next search, because a module is about to be closed and may
 * be the interpreter. */
static inline void python_forget(void)
{
	if (python_is_permanent())
		return;
	atomic_store_explicit(&python_now, NULL, memory_order_release);
	python_want();
}

static inline bool python_is_due(void)
{
	return atomic_load_explicit(&python_wanted, memory_order_relaxed) !=
	       atomic_load_explicit(&python_looked, memory_order_relaxed);
}

/* Searches this process for an interpreter. The caller checks python_is_due() first. Calls the
 * loader. */
void python_look(struct recorder *recorder);

enum python_layout {
	PYTHON_LAYOUT_UNKNOWN, /* the thread runs no Python now */
	PYTHON_LAYOUT_HOLDS,
	PYTHON_LAYOUT_WRONG,
};

/* Checks PYTHON's offsets on the frames of the calling thread, whose state is THREAD. Makes system
 * calls. (python_check.c) */
enum python_layout python_check(const struct python *python, uintptr_t thread);

struct python_frame {
	uintptr_t code; /* address of the code object; bit 0 set: see LEDGER_PYTHON_ENTRY */
	uintptr_t at;   /* the instruction, in the form that the frame stores */
};
struct python_chain {
	unsigned int frames;
	bool cut;
	struct python_frame frame[LEDGER_FRAMES_MAX];
};

/* Stores the innermost Python frames of the calling thread in RET, at most DEPTH of them. Sets
 * RET->cut if the thread has more frames. */
void python_read(const struct python *python, unsigned int depth, struct python_chain *ret);

/* Stores one address in RET for each call of CPython's evaluation loop that runs the DEPTH
 * innermost Python frames, innermost first. Each address is that of a local variable of the call,
 * so it identifies the call's native frame. RET has room for LEDGER_FRAMES_MAX. Returns the number
 * of addresses, or 0 if they are not known (before 3.11). */
unsigned int python_calls(unsigned int depth, uintptr_t *ret);

/* Returns a hash of the DEPTH innermost Python frames of the calling thread, or 0 if there are
 * none. See "chain keys" in python.c for what is hashed and when two chains get the same key. */
uint64_t python_key_of(const struct python *python, unsigned int depth);

static inline uint64_t python_key(unsigned int depth)
{
	const struct python *python = atomic_load_explicit(&python_now, memory_order_acquire);

	return __builtin_expect(python != NULL, 0) ? python_key_of(python, depth) : 0;
}

/* Returns a number that differs between code objects that are at the same address at different
 * times. */
uint64_t python_identity(const struct python *python, uintptr_t code);

/* Linux gives a process addresses of 47 bits on x86-64, and of 48 on aarch64. */
#if defined(__x86_64__)
#define ADDRESS_BITS 47
#else
#define ADDRESS_BITS 48
#endif

/* Returns true if ADDRESS can be that of a CPython object or frame: it is aligned and in the user
 * address range. Call this before dereferencing it. (The rotation makes an address that is not
 * aligned too large, so that one comparison is enough.) */
static inline bool python_plausible(uintptr_t address)
{
	uintptr_t words = address >> 3 | address << 61;

	return words - 512 < ((uintptr_t)1 << (ADDRESS_BITS - 3)) - 1024;
}

static inline uintptr_t python_word(uintptr_t at)
{
	return *(const uintptr_t *)at;
}

/* ---- names (python_names.c) ---- */

#define PYTHON_CODES_MAX (1u << 18) /* different functions that one ledger can name */
#define PYTHON_RECENT 1024

/* Part of the recorder: the Python texts, code objects and chains that the current ledger has. */
struct python_names {
	struct lock lock;
	/* hash of the content to ref; each is once in the ledger */
	struct ref_table texts, codes, chains;
	struct ref_table keys; /* chains of other languages, by their key */
	unsigned int code_count;
	/* code objects that were looked up recently */
	struct { uint64_t key; uint32_t ref; } recent[PYTHON_RECENT];
	char text[LEDGER_STRING_MAX];
};

/* Returns the ref of the DEPTH innermost Python frames of the calling thread. Writes them into the
 * ledger, with FLAGS, if they are new. Returns 0 if the thread runs no Python or the ledger is
 * full. */
uint32_t python_intern(struct recorder *recorder, unsigned int depth, unsigned int flags);

/* Frames of another language that are recorded like Python's. Locking: each takes the lock of
 * python_names. The first returns the ref of a function, the others that of a chain: the one that
 * was added with KEY, or 0; and CHAIN with its FRAMES, which is added. */
uint32_t python_add_code(struct recorder *recorder, const char *function, const char *file);
uint32_t python_find_chain(struct recorder *recorder, uint64_t key);
uint32_t python_add_chain(struct recorder *recorder, const struct ledger_python *chain,
			  const struct ledger_python_frame *frames, uint64_t key);

/* ---- python_lines.c ---- */

/* Returns the line of the instruction at byte OFFSET, or 0 without a line. TABLE has SIZE bytes;
 * its function begins at line FIRST. A negative OFFSET is before the first instruction. */
uint32_t python_line(enum python_table kind, const uint8_t *table, size_t size, int first,
		     int64_t offset);
