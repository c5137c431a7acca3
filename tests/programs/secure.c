/* SPDX-License-Identifier: MIT
 *
 * Leaks a block in a process that seems to be a set-user-ID program: its getauxval() is in front
 * of libc's, and returns 1 for AT_SECURE if the only argument is "set-id". It must change nothing
 * else.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "cu.h"

static int is_set_id(void)
{
	char text[4096];
	int n = 0;
	FILE *file = fopen("/proc/self/cmdline", "r"); /* before main() has its arguments */

	if (file) {
		n = (int)fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[n] = '\0';
	return n > 7 && strcmp(text + n - 7, "set-id") == 0;
}

unsigned long getauxval(unsigned long type)
{
	unsigned long (*next)(unsigned long) = dlsym(RTLD_NEXT, "getauxval");

	return type == AT_SECURE ? (unsigned long)is_set_id() : next(type);
}

int main(void)
{
	CUdeviceptr address;

	begin();
	must(cuMemAlloc_v2(&address, 100), "alloc"); /* @leak */
	puts("secure");
	return 0;
}
