/* SPDX-License-Identifier: MIT
 *
 * What must be remembered of CUDA contexts: how often one was attached, and which are
 * green, that is, parts of their device's primary one that own no memory.
 */
#ifndef GPULEAK_CUDA_CONTEXT_H
#define GPULEAK_CUDA_CONTEXT_H

#include <stdbool.h>

#include "ledger/lock.h"

struct attached;
struct green;

struct contexts {
	struct lock lock;
	struct attached *attached;
	struct green *green;
};

/* The current context may be one that has ended, or the driver itself: some context has, or the
 * process is at its exit. */
extern _Atomic bool cuda_context_doubtful __attribute__((visibility("hidden")));

/* The calling thread is inside libc's exit(). */
bool cuda_inside_exit(void);

#endif
