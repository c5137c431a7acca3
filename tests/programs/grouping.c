/* SPDX-License-Identifier: MIT
 *
 * Many blocks and few causes: blocks from one line, two calls in one line, the same allocator
 * reached by two ways, and recursion deeper than any stack that is kept.
 */
#include <string.h>

#include "cu.h"

static void allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @allocate */
}

static void load_weights(void)
{
	allocate(3000); /* @weights */
}

static void load_inputs(void)
{
	allocate(2000); /* @inputs */
}

static void recurse(int levels)
{
	if (levels > 0)
		recurse(levels - 1); /* @recurse */
	else
		allocate(1000); /* @bottom */
}

int main(int argc, char **argv)
{
	begin();
	if (argc > 1 && strcmp(argv[1], "many") == 0) {
		for (int i = 0; i < 1000; i++)
			allocate(1 + i); /* @many */
	} else if (argc > 1 && strcmp(argv[1], "paths") == 0) {
		for (int i = 0; i < 3; i++) {
			load_weights(); /* @main_weights */
			load_inputs(); /* @main_inputs */
		}
	} else if (argc > 1 && strcmp(argv[1], "line") == 0) {
		allocate(100), allocate(200); /* @one_line */
	} else if (argc > 1) {
		recurse(atoi(argv[1])); /* @deep */
		recurse(atoi(argv[1]) + 1); /* @deeper */
	}
	return 0;
}
