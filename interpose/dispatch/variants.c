/* SPDX-License-Identifier: MIT
 *
 * Assigns slots. A slot belongs to the first pointer that needs it, until the library of that
 * pointer is unloaded.
 */
#include "interpose/dispatch/variants.h"

#include "interpose/dispatch/find_module.h"
#include "interpose/dispatch/observations.h"

__thread struct slot *slots_taken;

struct slot slots[SLOT_HOOKS][SLOTS] __attribute__((visibility("hidden")));

/* Defined in variants_ARCH.S: one entry for each slot, in the order of `slots`. */
extern const char slots_entries[] __attribute__((visibility("hidden")));
#define ENTRY_BYTES 16

static void *entry_of(const struct slot *slot)
{
	return (void *)(uintptr_t)(slots_entries + ENTRY_BYTES * (slot - slots[0]));
}

static bool slot_insert(struct slot *slot, struct hook *hook, void *now, void *real,
			const void *below)
{
	slot->wrapper = hook->wrapper; /* every thread would store the same value */
	if (!atomic_compare_exchange_strong(&slot->real, &now, real))
		return now == real;
	/* stored before any caller gets the entry, because one layer requests it only once */
	slot->below = below;
	return true;
}

/* Returns the number of HOOK among the rows of VARIANTS of all APIs. */
static ptrdiff_t row_of(const struct hook *hook)
{
	ptrdiff_t row = 0;

#define GROUP_BEGIN(api, group)                                                             \
	if (GROUP_##group == GROUP_VARIANTS && hook >= &hooks[HOOK_FIRST_##api##_##group])  \
		row += (hook < &hooks[HOOK_END_##api##_##group]                             \
				? hook : &hooks[HOOK_END_##api##_##group]) -                \
		       &hooks[HOOK_FIRST_##api##_##group];
#include "interpose/dispatch/hooks.def"
	return row;
}

void *slots_wrapper(struct hook *hook, void *real, const void *below)
{
	struct slot *row = slots[row_of(hook)];

	if (!below && atomic_load(&hook->driver) == real)
		return hook->wrapper;
	for (int i = 0; i < SLOTS; i++) {
		void *now = atomic_load(&row[i].real);

		if (now == real || (!now && slot_insert(&row[i], hook, NULL, real, below)))
			return entry_of(&row[i]);
	}
	for (int i = 0; i < SLOTS; i++) {
		void *now = atomic_load(&row[i].real);

		if (!module_of(now) && slot_insert(&row[i], hook, now, real, below))
			return entry_of(&row[i]);
	}
	return NULL;
}

void slots_wrap_again(struct hook *hook)
{
	struct slot *row = slots[row_of(hook)];

	for (int i = 0; i < SLOTS; i++)
		if (row[i].wrapper)
			row[i].wrapper = hook->wrapper;
}

void *slots_give(struct hook *hook, void *real)
{
	void *wrapper = slots_wrapper(hook, real, NULL);

	if (!wrapper)
		observe_trouble(LEDGER_TROUBLE_UNKNOWN_VARIANTS);
	return wrapper ? wrapper : real;
}
