/* SPDX-License-Identifier: MIT
 *
 * Finds the path of this library among the loaded modules, and follows symbolic links. Stores the
 * result: later calls only read it.
 */
#include "interpose/base/library_directory.h"

#include "interpose/base/at_end.h"

#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char directory[PATH_MAX];

static int find_own_path(struct dl_phdr_info *info, size_t size, void *ret)
{
	(void)size;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type != PT_LOAD || (uintptr_t)directory < start ||
		    (uintptr_t)directory >= start + phdr->p_memsz)
			continue;
		*(const char **)ret = info->dlpi_name;
		return 1;
	}
	return 0;
}

const char *library_directory(void)
{
	KEEP_ERRNO;
	const char *path = NULL;
	char *slash;

	if (*directory)
		return directory;
	dl_iterate_phdr(find_own_path, &path);
	if (path && !realpath(path, directory))
		strcpy(directory, *path == '/' && strlen(path) < sizeof(directory) ? path : "");
	slash = strrchr(directory, '/');
	if (slash)
		slash[1] = '\0';
	return directory;
}
