/* SPDX-License-Identifier: MIT
 *
 * Copies the names of a module's functions to the ledger, for a module whose file may be gone when
 * the report is made. Bounded in bytes and time.
 */
#ifndef GPULEAK_MODULE_SYMBOLS_H
#define GPULEAK_MODULE_SYMBOLS_H

#include <stdint.h>

struct recorder;

/* Copies the names of the module whose ledger record has the ref MODULE, once, when the first stack
 * with a frame in it is stored. DYNAMIC is the address of its dynamic section, or 0 without one.
 * *COPIED counts the bytes that all modules of the process took.
 *
 * Locking: the caller holds the lock of the modules, and calls on a stack of gpuleak's own. */
void module_symbols_copy(struct recorder *recorder, uint32_t module, uint64_t dynamic,
			 uint32_t *copied);

#endif
