/* SPDX-License-Identifier: MIT
 *
 * Loads libunwind at the first GPU call, and prevents its writes to file descriptors (see
 * unwinder.c).
 */
#pragma once

#include <stdbool.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

struct unwinder {
	int (*backtrace)(void **pcs, int size);
	void (*flush_cache)(unw_addr_space_t space, unw_word_t low, unw_word_t high);
	unw_addr_space_t *local_addr_space;
	int (*getcontext)(unw_tdep_context_t *context);
	int (*init_local)(unw_cursor_t *cursor, unw_context_t *context);
	int (*step)(unw_cursor_t *cursor);
	int (*get_reg)(unw_cursor_t *cursor, int reg, unw_word_t *value);
	bool can_walk; /* all functions after local_addr_space were found */
};

/* Locking: the caller holds no lock of gpuleak, because this calls the loader. Loads libunwind.
 * Returns 0 or -ENOENT. After success, later calls cost one load instruction. */
int unwinder_load(void);

/* Returns the loaded libunwind, or NULL. */
const struct unwinder *unwinder_get(void);

/* Returns true if the 8 bytes at ADDRESS can be read. May change errno. */
bool unwinder_can_read(const void *address);
