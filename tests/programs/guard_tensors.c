/* SPDX-License-Identifier: MIT
 *
 * Copies between tensors of a cache like PyTorch's: a block of 2 MiB, and in it two tensors of
 * 64 KiB, the second of which is freed. Its argument says what is copied: freed, covered (by a new
 * tensor), inside (the live one), captured (freed, after a stream was captured).
 */
#include <string.h>

#include "cu.h"
#include "tensors.h"

enum { SEGMENT = 2 << 20, TENSOR = 64 << 10, DEVICE_CUDA = 1 };

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuGraphDestroy(void *graph);

static unsigned char host[TENSOR];

static void tensor(CUdeviceptr address, long bytes)
{
	torture_report((void *)address, bytes, DEVICE_CUDA); /* @tensor */
}

static void capture(void)
{
	void *stream, *graph;

	must(cuStreamCreate(&stream, 1), "stream");
	must(cuStreamBeginCapture_v2(stream, 0), "capture");
	must(cuStreamEndCapture(stream, &graph), "end");
	must(cuGraphDestroy(graph), "destroy");
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	CUdeviceptr segment;

	begin();
	must(cuMemAlloc_v2(&segment, SEGMENT), "segment");
	tensor(segment, TENSOR);
	tensor(segment + TENSOR, TENSOR);
	tensor(segment + TENSOR, -TENSOR);
	if (strcmp(word, "covered") == 0)
		tensor(segment + TENSOR, 4 * TENSOR);
	if (strcmp(word, "captured") == 0)
		capture();
	if (strcmp(word, "inside") == 0)
		segment -= TENSOR;
	printf("copy %d\n", cuMemcpyDtoH_v2(host, segment + TENSOR + 512, 1000)); /* @copy */
	return 0;
}
