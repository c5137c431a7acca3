/* SPDX-License-Identifier: MIT
 *
 * What the pool will define: until then it is off.
 */
#include "pool.h"

_Atomic bool pool_on;

void pool_context_idle(uint64_t context, uint64_t epoch)
{
	(void)context;
	(void)epoch;
}

bool pool_find(uint64_t address, struct pool_place *ret)
{
	(void)address;
	(void)ret;
	return false;
}

void pool_never_reuse(uint64_t address, enum ledger_pool_reason why)
{
	(void)address;
	(void)why;
}

void pool_no_slabs(void)
{
}

uint64_t pool_unused_bytes(int device)
{
	(void)device;
	return 0;
}
