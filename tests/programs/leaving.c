/* SPDX-License-Identifier: MIT
 *
 * How a process or a thread leaves GPU code: to another directory or another program.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cu.h"

static void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @leak */
}

/* Becomes the program ARGV long enough after the start for files to be dated later than it. */
static void become(char **argv)
{
	const struct timespec later = { .tv_nsec = 100000000 };

	leak(1234); /* @before_exec */
	nanosleep(&later, NULL);
	execv(argv[0], argv);
	perror("exec");
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (strcmp(how, "directory") == 0) {
		begin();
		leak(100);
		return chdir(argv[2]);
	}
	if (strcmp(how, "exec") == 0) {
		begin();
		become(argv + 2); /* @exec */
	}
	return 2;
}
