/* SPDX-License-Identifier: MIT
 *
 * The words of the process that hold addresses of driver functions. Callers reach the driver
 * through such words: slots of the loader, tables of runtimes and frameworks, results of
 * cuGetProcAddress. An attachment replaces them by the addresses of gpuleak's wrappers, and a
 * detachment puts them back. Only one thread at a time may call these functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/dispatch/hooks.h"

/* ---- words.c: which address replaces which ---- */

enum words_direction { WORDS_ATTACH, WORDS_DETACH };

/* How many parts of the memory could not be read or changed. Callers reset it. */
extern unsigned int words_unchanged;

/* Finds the drivers' functions and their wrappers, and chooses the addresses that the functions
 * below replace. WORDS_DETACH also replaces those of gpuleak's exports in a process that was
 * started with GPULEAK_RECORD=off. Calls the loader. Returns false if there is no memory. A second
 * call adds what was loaded since. */
bool words_prepare(enum words_direction direction);

/* Returns the address that replaces WORD, or 0 if WORD stays. */
uint64_t words_other(uint64_t word);

/* Returns the address for a slot of the loader for NAME, which is not bound yet, or 0. */
uint64_t words_for_unbound(const char *name);
/* The same, of MODULE, for a function that has no driver, for example PyTorch's: the callers'
 * library decides what it reaches, so slots are chosen by NAME. VALUE is what the slot holds. */
uint64_t words_by_name(const char *name, uint64_t value, const void *module);

/* A word to change. */
struct word {
	uint64_t *at;
	uint64_t from, to;
};

typedef void words_found(const struct word *word, void *data);

/* Calls FOUND for each word from AT to END that words_other() would change. Reads only pages that
 * are in memory, and a page that is unmapped meanwhile is skipped. */
void words_search(uint64_t at, uint64_t end, words_found *found, void *data);

/* Changes WORD with one compare-and-exchange. Does nothing if it holds another value now. */
void word_change(const struct word *word);

/* Returns true if the memory at AT, of BYTES bytes, overlaps gpuleak's own tables. */
bool words_are_ours(uint64_t at, size_t bytes);

/* ---- modules.c: memory of loaded libraries ---- */

/* Changes the words in the writable memory of the modules and in their read-only relocated part.
 * With ONLY_NEW: only of modules that were loaded since the last call. */
void modules_change(bool only_new);

/* ---- memory.c: anonymous memory ---- */

/* Runs inside aside(). Changes the words in anonymous memory, while the other threads run. */
void memory_change(void);

/* ---- attach.c ---- */

/* Of a process that was started with GPULEAK_RECORD=off: makes the words of modules lead past
 * gpuleak's exports. Does nothing if another thread changes words. */
void attach_turn_off_words(void);
