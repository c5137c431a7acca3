/* SPDX-License-Identifier: MIT
 *
 * libunwind, loaded at the first GPU call and kept from doing harm (unwinder.c says how).
 */
#ifndef GPULEAK_UNWINDER_H
#define GPULEAK_UNWINDER_H

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
	int (*get_save_loc)(unw_cursor_t *cursor, int reg, unw_save_loc_t *loc);
	int (*is_signal_frame)(unw_cursor_t *cursor);
	bool can_walk; /* all but the first three were found */
};

/* Loads it; 0 or -ENOENT. Asks the loader: not with a lock of ours. Once it succeeded it
 * costs one load. */
int unwinder_load(void);

/* The loaded one, or NULL. */
const struct unwinder *unwinder_get(void);

/* Returns true if the 8 bytes at ADDRESS can be read. May change errno. */
bool unwinder_can_read(const void *address);

#endif
