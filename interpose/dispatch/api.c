/* SPDX-License-Identifier: MIT
 *
 * Calls the operations of every API, and finds the API that a function name belongs to.
 */
#include "interpose/dispatch/api.h"

#include <link.h>
#include <string.h>

#include "interpose/base/fork_guard.h"

const struct api_ops *const apis[API_COUNT] = {
#define API_BEGIN(api) [API_##api] = &api_ops_##api,
#include "interpose/dispatch/hooks.def"
};

enum api api_of(const char *name)
{
	for (int i = 0; i < API_COUNT; i++) {
		size_t length = strlen(apis[i]->prefix);

		if (strncmp(name, apis[i]->prefix, length) == 0 && name[length] >= 'A' &&
		    name[length] <= 'Z')
			return (enum api)i;
	}
	return API_COUNT;
}

uint64_t apis_give_back(void)
{
	uint64_t bytes = 0;

	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->give_back)
			bytes += apis[i]->give_back();
	return bytes;
}

void apis_publish_pool(void)
{
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->publish_pool)
			apis[i]->publish_pool();
}

void apis_read_pools(enum ledger_parked_when when, uint64_t refusal)
{
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->read_pools)
			apis[i]->read_pools(when, refusal);
}

void apis_after_dlclose(void)
{
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->after_dlclose)
			apis[i]->after_dlclose();
}

void apis_saw_unknown(const char *name)
{
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->saw_unknown)
			apis[i]->saw_unknown(name);
}

_Atomic(void (*)(void)) apis_attached_hook;

static int count_changes(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

void apis_libraries_changed(void)
{
	static _Atomic uint64_t seen;
	void (*hook)(void) = atomic_load_explicit(&apis_attached_hook, memory_order_acquire);
	uint64_t changes = 0;

	if (hook)
		hook();
	fork_guard_iterate(count_changes, &changes);
	if (atomic_load_explicit(&seen, memory_order_acquire) == changes)
		return;
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->libraries_changed)
			apis[i]->libraries_changed();
	/* Only now: a thread that comes earlier must not skip the calls that are still running
	 * here. */
	atomic_store_explicit(&seen, changes, memory_order_release);
}
