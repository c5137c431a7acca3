/* SPDX-License-Identifier: MIT
 *
 * The suppressions that a program brings along for LeakSanitizer.
 */
#ifndef GPULEAK_LSAN_H
#define GPULEAK_LSAN_H

struct recorder;

/* Asks the program's __lsan_default_suppressions(), if it has one: its text, or NULL. Asks the
 * loader and calls the program: with no lock held. */
const char *lsan_ask(void);

/* Notes TEXT (may be NULL) in a new ledger. */
void lsan_write(struct recorder *recorder, const char *text);

#endif
