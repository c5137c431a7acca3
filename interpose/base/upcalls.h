/* SPDX-License-Identifier: MIT
 *
 * Calls from a lower floor to a higher one. A floor is a folder of interpose/: a file includes only
 * files of its own floor and of lower ones (docs/developers/architecture.md). So a lower floor
 * calls a higher one through this table. process/start.c, on the top floor, defines the table. The
 * linker connects the two, so no pointer is ever unset.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hook;
struct recorder;
struct thread_state;

struct upcalls {
	/* Stores the recorder in *RET (a struct recorder **), making one if needed, or NULL on
	 * failure. Runs on a stack of gpuleak's own: see aside(). */
	void (*make_recorder)(void *ret);
	/* See stack_is_nested() in stack/capture.h. */
	bool (*stack_is_nested)(void);
	/* Called when a thread begins to use STATE. */
	void (*thread_joins)(struct recorder *recorder, struct thread_state *state);
	/* See site_counts_live() in pytorch/suballocations.h. */
	bool (*counts_live)(struct recorder *recorder, const struct hook *hook, uint32_t stack);
	/* See trace_range() in recorder/trace.h. */
	void (*trace_range)(int kind, uint16_t range, uint64_t id, uint32_t domain);
	/* See nvtx_found() in nvtx/nvtx.h. */
	void *(*nvtx_found)(const char *name, void *found);
	/* Called when the calling thread ends inside a driver call. */
	void (*thread_ends_in_call)(void);
};
extern const struct upcalls upcalls __attribute__((visibility("hidden")));
