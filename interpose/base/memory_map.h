/* SPDX-License-Identifier: MIT
 *
 * Reads /proc/self/maps without libc's streams: takes no lock and allocates nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct memory_mapping {
	uint64_t start, end;
	const char *rights; /* begins with four letters, as "r-xp" */
	const char *path;   /* from its first / or [; "": no path */
};
typedef bool memory_mapping_found(const struct memory_mapping *mapping, void *data);

/* Calls FOUND for each mapping of this process, until it returns false. Returns false if the
 * mappings cannot be read. */
bool memory_map_each(memory_mapping_found *found, void *data);
