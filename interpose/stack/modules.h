/* SPDX-License-Identifier: MIT
 *
 * The ledger's module table: which file was mapped at which addresses, and when. A module keeps
 * its record after it is unloaded. A new epoch begins if recorded stacks have frames in an
 * unloaded module, or if another file is mapped at its addresses. Stacks of different epochs are
 * never treated as equal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;
struct capture;

/* PyTorch loads about 300. Frames in modules beyond this limit have no module. */
#define MODULES_MAX 4096

struct module {
	uint64_t start, end;
	uint32_t ref;  /* of its ledger record */
	bool loaded;   /* found by the latest modules_refresh() */
	bool used;     /* a stack in the ledger has a frame in it */
	bool allocates_tensors;
	bool temporary; /* its file may be gone when the report is made */
	uint64_t dynamic; /* address of its dynamic section, or 0 without one */
};

struct modules {
	struct lock lock;
	uint32_t epoch;  /* written only with the lock held */
	int stale;       /* dlclose() was called since the latest modules_refresh() */
	/* the loader's count of loads and unloads at the latest modules_refresh() */
	uint64_t loads;
	unsigned int count;
	uint32_t copied_symbols; /* bytes, see module_symbols_copy() */
	/* two different modules were mapped at the same addresses, one after the other */
	bool taken_over;
	struct module module[MODULES_MAX];
};

/* Updates the table from the loader's list of modules. */
void modules_refresh(struct recorder *recorder);

/* Returns true if the stack with the ref STACK has a frame in a library with which a framework
 * allocates its tensors or arrays. */
bool modules_allocate_tensors(struct recorder *recorder, uint32_t stack);

/* Makes sure that the table has the module of each frame in CAPTURE. Frames outside all modules are
 * ignored. */
void modules_cover(struct recorder *recorder, const struct capture *capture);

/* ---- module_symbols.c ---- */

/* Copies the names of the functions of the module whose ledger record has the ref MODULE, once,
 * when the first stack with a frame in it is stored: its file may be gone when the report is made.
 * Bounded in bytes and time. DYNAMIC is the address of its dynamic section, or 0 without one.
 * *COPIED counts the bytes that all modules of the process took.
 *
 * Locking: the caller holds the lock of the modules, and calls on a stack of gpuleak's own. */
void module_symbols_copy(struct recorder *recorder, uint32_t module, uint64_t dynamic,
			 uint32_t *copied);
