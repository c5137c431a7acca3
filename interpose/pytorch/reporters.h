/* SPDX-License-Identifier: MIT
 *
 * The libraries that call PyTorch's report functions ("reporters"), and for each the functions that
 * it would reach without gpuleak. A process may have several copies of libc10; the caller decides
 * which one is called.
 */
#pragma once

#include <stdbool.h>

#include "interpose/dispatch/hooks.h"
#include "interpose/base/export.h"

/* Returns the function that a call of HOOK from the code at CALLER reaches without gpuleak, or NULL
 * if it is not known. Takes no lock and does not call the loader. */
void *reporters_real(const struct hook *hook, const void *caller);

/* Finds the reporters that were loaded since the last call, and forgets those that were unloaded.
 * Calls the loader, and waits for no other lock. */
void reporters_look(void);

/* ---- backward.c: wraps torch::autograd::Engine::execute, which starts a backward pass ---- */

/* std::vector<at::Tensor>, as a function returns it: the address of the caller's vector comes in
 * the register for the address of a returned struct. Empty if all members are NULL. */
struct torch_variables {
	void *first, *end, *end_of_room;
};

#define HAND(symbol, returns, parameters, ...) EXPORT returns symbol parameters;
#define ROWS_OF "interpose/pytorch/pytorch_rows.def"
#include "interpose/dispatch/hooks.def"
