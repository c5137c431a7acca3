/* SPDX-License-Identifier: MIT
 *
 * Another preload that hooks dlsym: answers cuDriverGetVersion itself and hands on the
 * rest to the next dlsym in line, at the end libc's.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int lookups;

static int version_777(int *version)
{
	*version = 777;
	return 0;
}

void *dlsym(void *restrict handle, const char *restrict name)
{
	static void *(*next)(void *, const char *);
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	void *(*libc)(void *, const char *) = NULL;

	for (int i = 0; !next && !libc && i < 3; i++)
		*(void **)&libc = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	if (!next)
		*(void **)&next = libc(RTLD_NEXT, "dlsym");
	lookups++;
	if (strcmp(name, "cuDriverGetVersion") == 0)
		return (void *)version_777;
	return next(handle, name);
}

int hook_lookups(void);
int hook_lookups(void)
{
	return lookups;
}
