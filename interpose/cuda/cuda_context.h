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

struct recorder;

/* Enters the recorder and takes the lock of its contexts; contexts_leave() undoes both. Returns
 * NULL, with neither done, if nothing is recorded. */
struct recorder *contexts_enter(void);
void contexts_leave(struct recorder *recorder);

/* True if the current context or the driver may have ended: a context ended, or the process is
 * exiting. */
extern _Atomic bool cuda_context_doubtful __attribute__((visibility("hidden")));

/* Returns true if the calling thread is inside libc's exit(). */
bool cuda_inside_exit(void);

#endif
