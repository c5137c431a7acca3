/* SPDX-License-Identifier: MIT
 *
 * State about CUDA contexts: how often each was attached, and which ones are green. A green context
 * is a part of its device's primary context and owns no memory.
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

/* True if the current context or the driver may have ended: a context ended, or the process is
 * exiting. */
extern _Atomic bool cuda_context_doubtful __attribute__((visibility("hidden")));

/* Returns true if the calling thread is inside libc's exit(). */
bool cuda_inside_exit(void);

#endif
