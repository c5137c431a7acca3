/* SPDX-License-Identifier: MIT
 *
 * Holds more and more blocks, from a few hundred call paths, and frees all but the last: a
 * ledger that can't grow as far must do no harm.
 */
#include "cu.h"

enum { BLOCKS = 30000 };

static CUdeviceptr blocks[BLOCKS];

static void take(int i, int bits)
{
	if (bits == 0)
		must(cuMemAlloc_v2(&blocks[i], 64), "alloc"); /* @take */
	else if (i >> (bits - 1) & 1)
		take(i, bits - 1);
	else
		take(i, bits - 1); /* another way to the same place */
}

int main(void)
{
	begin();
	for (int i = 0; i < BLOCKS; i++)
		take(i, 8);
	for (int i = 0; i < BLOCKS - 1; i++)
		must(cuMemFree_v2(blocks[i]), "free");
	printf("held %d\n", BLOCKS);
	return 0;
}
