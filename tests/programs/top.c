/* SPDX-License-Identifier: MIT
 *
 * Holds some blocks and does what it is told, line by line: "more" allocates one more block,
 * "end" frees all and ends. Answers each line, and "ready" at first.
 */
#include <string.h>

#include "cu.h"

#define MIB ((size_t)1 << 20)
#define MESHES 3

static CUdeviceptr mesh(size_t bytes)
{
	CUdeviceptr ret;

	must(cuMemAlloc_v2(&ret, bytes), "cuMemAlloc_v2"); /* @mesh */
	return ret;
}

static void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

int main(void)
{
	CUdeviceptr meshes[MESHES], more[8];
	size_t count = 0;
	CUcontext context;
	char line[64];
	void *pinned;

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	for (int i = 0; i < MESHES; i++)
		meshes[i] = mesh(4 * MIB); /* @meshes */
	must(cuMemAllocHost_v2(&pinned, 512), "cuMemAllocHost_v2"); /* @pinned */
	say("ready");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		if (count < 8)
			must(cuMemAlloc_v2(&more[count++], 2 * MIB), "cuMemAlloc_v2"); /* @more */
		say("done");
	}
	while (count)
		must(cuMemFree_v2(more[--count]), "cuMemFree_v2");
	must(cuMemFreeHost(pinned), "cuMemFreeHost");
	for (int i = 0; i < MESHES; i++)
		must(cuMemFree_v2(meshes[i]), "cuMemFree_v2");
	return 7;
}
