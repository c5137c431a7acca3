/* SPDX-License-Identifier: MIT
 *
 * Decides for which call sites the number of live blocks is counted: for all with
 * GPULEAK_ACCUMULATION=on, else for those at which a framework allocates tensors. Most of these are
 * inside the framework's cache. Then the blocks are the cache's, and the report leaves them out.
 */
#include "interpose/pytorch/suballocations.h"

#include <string.h>

#include "interpose/base/config.h"
#include "interpose/stack/modules.h"

/* Returns true if HOOK takes memory. Of virtual memory only PHYSICAL rows do: mappings, addresses
 * and imported handles take no memory of their own. */
static bool takes_memory(const struct hook *hook)
{
	return !hook->object && (strncmp(hook->kind, LEDGER_KIND_VIRTUAL,
					 sizeof(LEDGER_KIND_VIRTUAL) - 1) != 0 ||
				 hook_has(hook, TRAIT_PHYSICAL));
}

/* Returns true if HOOK takes memory that frameworks use for tensors. */
static bool is_for_tensors(const struct hook *hook)
{
	return strcmp(hook->kind, "device") == 0 || strcmp(hook->kind, "managed") == 0 ||
	       strcmp(hook->kind, "stream-ordered") == 0 || hook_has(hook, TRAIT_PHYSICAL);
}

bool site_counts_live(struct recorder *recorder, const struct hook *hook, uint32_t stack)
{
	bool ret = config.accumulation == OPTION_ACCUMULATION_ON
			   ? takes_memory(hook)
			   : config.accumulation == OPTION_ACCUMULATION_AUTO &&
				     is_for_tensors(hook) &&
				     modules_allocate_tensors(recorder, stack);

	if (!ret)
		return false;
	shared_store(recorder->header->reader_min, LEDGER_READER_MIN_SERIES);
	atomic_fetch_or(&alloc_checks, CHECK_ACCUMULATION);
	return true;
}
