/* SPDX-License-Identifier: MIT
 *
 * Wraps torch::autograd::Engine::execute. PyTorch calls it to start a backward pass.
 */
#ifndef GPULEAK_BACKWARD_H
#define GPULEAK_BACKWARD_H

#include <stdbool.h>

#include "interpose/base/export.h"

/* std::vector<at::Tensor>, as a function returns it: the address of the caller's vector comes in
 * the register for the address of a returned struct. Empty if all members are NULL. */
struct torch_variables {
	void *first, *end, *end_of_room;
};

#define HAND(symbol, returns, parameters, ...) EXPORT returns symbol parameters;
#define ROWS_OF "interpose/pytorch/pytorch_rows.def"
#include "interpose/dispatch/hooks.def"

#endif
