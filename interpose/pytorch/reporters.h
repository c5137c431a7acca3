/* SPDX-License-Identifier: MIT
 *
 * The libraries that call PyTorch's report functions ("reporters"), and for each the functions that
 * it would reach without gpuleak. A process may have several copies of libc10; the caller decides
 * which one is called.
 */
#ifndef GPULEAK_REPORTERS_H
#define GPULEAK_REPORTERS_H

#include "interpose/dispatch/hooks.h"

/* Returns the function that a call of HOOK from the code at CALLER reaches without gpuleak, or NULL
 * if it is not known. Takes no lock and does not call the loader. */
void *reporters_real(const struct hook *hook, const void *caller);

/* Finds the reporters that were loaded since the last call, and forgets those that were unloaded.
 * Calls the loader, and waits for no other lock. */
void reporters_look(void);

#endif
