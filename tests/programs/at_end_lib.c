/* SPDX-License-Identifier: MIT
 *
 * A library that takes two blocks and gives one back in its destructor. Built twice: once
 * to be linked, once to be opened.
 */
#include "at_end.h"
#include "cu.h"

static CUdeviceptr held;

void at_end_start(void)
{
	CUdeviceptr lost;

	must(cuMemAlloc_v2(&held, 4000), "library"); /* @held */
	must(cuMemAlloc_v2(&lost, LOST_BYTES), "library"); /* @library */
}

__attribute__((destructor)) static void at_end_stop(void)
{
	cuMemFree_v2(held); /* @free_held */
}
