/* SPDX-License-Identifier: MIT
 *
 * Records the suppressions for LeakSanitizer that the program contains.
 */
#ifndef GPULEAK_LSAN_H
#define GPULEAK_LSAN_H

struct recorder;

/* Locking: the caller holds no lock, because this calls the loader and the program. Returns the
 * text of the program's __lsan_default_suppressions(), or NULL if it has no such function. */
const char *lsan_ask(void);

/* Writes TEXT into a new ledger. TEXT may be NULL. */
void lsan_write(struct recorder *recorder, const char *text);

#endif
