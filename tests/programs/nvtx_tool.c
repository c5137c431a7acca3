/* SPDX-License-Identifier: MIT
 *
 * Another tool that is NVTX's injection. Prints what it is called with, and returns results of its
 * own. With TOOL_FAILS in the environment it does not start.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void function(void);

struct callbacks {
	size_t struct_size;
	int (*get_table)(int module, function ****ret_table, unsigned int *ret_size);
};

static int depth;
static char handle;

static int push(const char *text)
{
	printf("tool: push %s\n", text);
	return 100 + depth++;
}

static int pop(void)
{
	printf("tool: pop\n");
	return 100 + --depth;
}

/* It does not track such ranges. */
static uint64_t start(const char *text)
{
	printf("tool: start %s\n", text);
	return 0;
}

static int end(uint64_t id)
{
	printf("tool: end %llu\n", (unsigned long long)id);
	return 0;
}

static void *create(const char *name)
{
	printf("tool: domain %s\n", name);
	return &handle;
}

static int push_in(void *domain, const void *attributes)
{
	(void)attributes;
	printf("tool: push in %s\n", domain == &handle ? "its domain" : "another domain");
	return 7;
}

static void *register_heap(void)
{
	printf("tool: heap\n");
	return &handle;
}

struct module {
	uint16_t version, size, id, compatible;
	size_t count;
	struct { size_t id, count; void **functions; } *segments;
};

int InitializeInjectionNvtxExtension(struct module *module);
int InitializeInjectionNvtxExtension(struct module *module)
{
	if (module->id != 1)
		return 0;
	module->segments->functions[0] = (void *)register_heap;
	module->segments->functions[3] = (void *)1; /* it has no such function */
	return 1;
}

int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t));
int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t))
{
	const struct callbacks *callbacks = get_export_table(1);
	function ***core, ***core2;
	unsigned int size;

	if (getenv("TOOL_FAILS") || !callbacks->get_table(1, &core, &size) ||
	    !callbacks->get_table(5, &core2, &size))
		return 0;
	*core[5] = (function *)start;
	*core[7] = (function *)end;
	*core[9] = (function *)push;
	*core[11] = (function *)pop;
	*core2[12] = (function *)create;
	*core2[4] = (function *)push_in;
	return 1;
}
