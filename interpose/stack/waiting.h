/* SPDX-License-Identifier: MIT
 *
 * Threads that started work on other threads and wait for it, as the thread that calls PyTorch's
 * backward() does. The working threads have no Python frames; the waiting thread has. While exactly
 * one thread waits, its frames are part of the workers' stacks. While several wait, it is not known
 * whose work a worker does, and no frames are added.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"

struct capture;

/* Locking: the caller holds no lock, because this may call the loader. The calling thread begins to
 * wait. It is not counted if there is no recorder, if it already waits, or if it is a worker
 * itself. Each call needs a waiting_end(), also if an exception leaves the wait. */
void waiting_begin(void);
void waiting_end(void);

/* Workers are the threads that run the function at START, which has BYTES. START may be NULL. */
void waiting_add_workers(void *start, size_t bytes);
/* Forgets functions whose library was unloaded. */
void waiting_forget_unloaded(void);
/* Returns true if CAPTURE is a stack of a worker. */
bool waiting_is_worker(const struct capture *capture);

/* If exactly one thread waits, returns the ref of its Python frames. Otherwise returns 0. */
static inline uint32_t waiting_frames(struct recorder *recorder)
{
	uint64_t word = atomic_load_explicit(&recorder->waiting, memory_order_acquire);

	return __builtin_expect(word / WAITING_ONE == 1, 0) ? (uint32_t)word : 0;
}
