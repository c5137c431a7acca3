/* SPDX-License-Identifier: MIT
 *
 * Gives a library another path without blanks and colons, at which LD_PRELOAD would split it.
 */
#pragma once

#include <stddef.h>

/* Writes a path for LIBRARY, an absolute path, that LD_PRELOAD can contain. Returns 0, or -errno
 * with one line in ERROR. */
int preload_link(const char *library, char *ret, size_t size, char *error, size_t error_size);

/* Makes the link of preload_link() again if it was removed, as cleaners of /tmp do with old
 * files. */
void preload_link_keep(void);
