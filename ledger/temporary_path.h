/* SPDX-License-Identifier: MIT
 *
 * Decides whether a module's file is likely to be gone when its process has ended: a JNI library, a
 * plug-in or an interpreter that a program unpacked for one run.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* PATH has LENGTH bytes. A file in memory has a path below /proc or /memfd:, or none. PyInstaller
 * unpacks programs to folders that begin with _MEI. */
static inline bool path_is_temporary(const char *path, size_t length)
{
	static const char *const folders[] = { "/tmp/", "/var/tmp/", "/dev/shm/", "/memfd:",
					       "/proc/" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (length >= strlen(folders[i]) &&
		    memcmp(path, folders[i], strlen(folders[i])) == 0)
			return true;
	return length == 0 || memmem(path, length, "/_MEI", 5);
}
