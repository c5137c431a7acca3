/* SPDX-License-Identifier: MIT
 *
 * Asks for driver functions as libcudart does, and says which file each answer is in.
 * Arguments: base name, version and flags of each, with colons between them.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "cu.h"

typedef CUresult resolve(const char *, void **, int, uint64_t, int *);

static const char *file_of(const void *address)
{
	const char *slash;
	Dl_info info;

	if (!address || !dladdr(address, &info))
		return "none";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

int main(int argc, char **argv)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW), *own = NULL, *found;
	char name[80];
	int version;
	unsigned int flags;
	resolve *first, *second;

	*(void **)&first = handle ? dlsym(handle, "cuGetProcAddress_v2") : NULL;
	if (!first || first("cuGetProcAddress", &own, 12000, 0, NULL))
		return 1;
	*(void **)&second = own;
	for (int i = 1; i < argc; i++) {
		if (sscanf(argv[i], "%79[^:]:%d:%u", name, &version, &flags) != 3)
			return 1;
		found = NULL;
		if (second(name, &found, version, flags, NULL))
			return 1;
		printf("%s %s\n", argv[i], file_of(found));
	}
	return 0;
}
