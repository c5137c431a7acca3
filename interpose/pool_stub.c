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
