/* SPDX-License-Identifier: MIT
 *
 * A program of another C library: prints a line and ends with the status that its argument names.
 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	puts("musl");
	return argc > 1 ? atoi(argv[1]) : 0;
}
