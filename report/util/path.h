/* SPDX-License-Identifier: MIT
 *
 * Paths as text.
 */
#pragma once

#include <string.h>

/* Returns the last component of PATH; all of PATH if it ends with a slash. */
static inline const char *path_last(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}
