/* SPDX-License-Identifier: MIT
 *
 * Cuts /proc/self/maps into lines. The kernel makes the text while it is read, so the mappings may
 * change between two reads. Must not use more of the stack than one buffer.
 */
#include "interpose/base/memory_map.h"

#include <string.h>

#include "ledger/nocancel.h"

#define BUFFER_BYTES 4096u

/* Written here because strtoull() takes ten times as many instructions. */
static uint64_t hexadecimal(const char **at)
{
	uint64_t value = 0;

	for (;; ++*at) {
		if (**at >= '0' && **at <= '9')
			value = value << 4 | (uint64_t)(**at - '0');
		else if (**at >= 'a' && **at <= 'f')
			value = value << 4 | (uint64_t)(**at - 'a' + 10);
		else
			return value;
	}
}

/* A line is "START-END rwxp OFFSET MAJOR:MINOR INODE   PATH". */
static bool read_line(const char *line, memory_mapping_found *found, void *data)
{
	struct memory_mapping mapping = { .start = hexadecimal(&line) };
	const char *bracket;

	line += *line == '-';
	mapping.end = hexadecimal(&line);
	line += *line == ' ';
	if (!mapping.end || strnlen(line, 5) < 5)
		return true;
	mapping.rights = line;
	mapping.path = strchrnul(line, '/');
	bracket = memchr(line, '[', (size_t)(mapping.path - line));
	mapping.path = bracket ? bracket : mapping.path;
	return found(&mapping, data);
}

bool memory_map_each(memory_mapping_found *found, void *data)
{
	int fd = nocancel_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	char text[BUFFER_BYTES + 1], *line, *end;
	size_t kept = 0;
	bool more = fd >= 0;
	ssize_t n = 0;

	while (more && (n = nocancel_read(fd, text + kept, BUFFER_BYTES - kept)) > 0) {
		text[kept + (size_t)n] = '\0';
		for (line = text; more && (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			more = read_line(line, found, data);
		}
		kept = strlen(line);
		if (kept == BUFFER_BYTES)
			kept = 0; /* longer than any line can be */
		memmove(text, line, kept);
	}
	if (fd >= 0)
		nocancel_close(fd);
	return fd >= 0 && n >= 0;
}
