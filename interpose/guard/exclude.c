/* SPDX-License-Identifier: MIT
 *
 * Finds out if a call comes from an excluded library, by the files of all frames of its stack:
 * mostly the caller itself is the CUDA runtime. Owns a cache by stack.
 */
#include "interpose/guard/guard.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "interpose/base/config.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/stack/stacks.h"

#define CACHED 256u
/* a stack's ref, in the upper half the recorder's generation and whether the stack is excluded */
static _Atomic uint64_t cache[CACHED];

/* Returns true if FILE, without its folder, begins with an element of the option. */
static bool is_listed(const char *file)
{
	const char *name = strrchr(file, '/');
	size_t length;

	name = name ? name + 1 : file;
	for (const char *at = config.guard_exclude; at && *at; at += length + (at[length] == ',')) {
		length = strcspn(at, ",");
		if (length && strncmp(name, at, length) == 0)
			return true;
	}
	return false;
}

static bool stack_is_excluded(const struct ledger_stack *stack)
{
	for (unsigned int i = 0; i < stack->frames; i++) {
		const struct link_map *map =
			module_of((const void *)(uintptr_t)(stack->pc[i] - 1));

		if (map && map->l_name && is_listed(map->l_name))
			return true;
	}
	return false;
}

bool guard_is_excluded(const struct call *call)
{
	LEAVE_AT_END struct recorder *recorder =
		config.guard_exclude && *config.guard_exclude ? recorder_enter() : NULL;
	uint32_t ref = recorder ? stack_here(recorder, call->caller) : 0;
	uint64_t key, known;
	bool excluded;

	if (!ref)
		return false;
	key = (uint64_t)recorder->generation << 33 | ref;
	known = atomic_load_explicit(&cache[ref / 8 % CACHED], memory_order_relaxed);
	if ((known & ~(UINT64_C(1) << 32)) == key)
		return known != key;
	excluded = stack_is_excluded(ledger_at(&recorder->writer, ref));
	atomic_store_explicit(&cache[ref / 8 % CACHED], key | (uint64_t)excluded << 32,
			      memory_order_relaxed);
	return excluded;
}
