/* SPDX-License-Identifier: MIT
 *
 * No pool: what pool.h promises while there is none.
 */
#include "pool.h"

_Atomic bool pool_on;

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
