/* SPDX-License-Identifier: MIT
 *
 * Is linked to the driver and never calls it: what every tool of a build that has GPU
 * support compiled in looks like to a preload.
 */
#include "cu.h"

int main(int argc, char **argv)
{
	if (argc > 5)
		begin();
	printf("no GPU\n");
	return argc > 1 ? atoi(argv[1]) : 0;
}
