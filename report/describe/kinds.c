/* SPDX-License-Identifier: MIT
 *
 * One row per kind. Kinds with a slash are objects that are not memory.
 */
#include "report/describe/kinds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "report/util/lines.h"

static const struct {
	const char *name, *words;
} kinds[] = {
	{ "device", "device memory" },
	{ "managed", "managed memory" },
	{ "pinned", "pinned host memory" },
	{ "registered", "registered host memory" },
	{ "stream-ordered", "stream-ordered memory" },
	{ "mempool", "memory pool" },
	{ "array", "array" },
	{ "vmm-handle", "vmm-handle" },
	{ "vmm-reservation", "vmm-reservation" },
	{ "vmm-mapping", "vmm-mapping" },
	{ "ipc", "memory of another process" },
	{ "external", "external memory" },
	{ "graph", "graph memory" },
	{ "cl-buffer", "OpenCL buffer" },
	{ "cl-sub-buffer", "OpenCL sub-buffer" },
	{ "cl-image", "OpenCL image" },
	{ "cl-pipe", "OpenCL pipe" },
	{ "cl-svm", "OpenCL shared virtual memory" },
	{ "cl-usm", "OpenCL unified shared memory" },
	{ "object/cl-context", "OpenCL context" },
	{ "object/cl-event", "OpenCL event" },
	{ "object/cl-kernel", "OpenCL kernel" },
	{ "object/cl-program", "OpenCL program" },
	{ "object/cl-queue", "OpenCL command queue" },
	{ "object/cl-sampler", "OpenCL sampler" },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *kind_words(const char *kind)
{
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(kind, kinds[i].name) == 0)
			return kinds[i].words;
	return kind;
}

static bool is_memory(size_t i)
{
	return strchr(kinds[i].name, '/') == NULL;
}

int kind_check(const struct lines *file, struct line_part name)
{
	char known[512], shown[LINES_QUOTE];
	size_t used = 0;

	for (size_t i = 0; i < KINDS; i++) {
		if (!is_memory(i))
			continue;
		if (word_is(name, kinds[i].name))
			return 0;
		if (used < sizeof(known))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
						 used ? ", " : "", kinds[i].name);
	}
	return lines_fail(file, -EINVAL, "'%s' is not a kind of memory; known are %s",
			  lines_quote(name, shown), known);
}
