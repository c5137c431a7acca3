/* SPDX-License-Identifier: MIT
 *
 * Allocates as its arguments say and prints each answer: `alloc:N`, `pitch:W:H`, `managed:N`,
 * `async:N`, `pinned:N`, `array:N`, `free` of the last one that has an address, `device:N`,
 * `reset`, `stream`, `left`; `fork` first: in a child, then again here.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

static struct {
	const char *word;
	CUdeviceptr address;
} held[64];
static int count;

static int is(const char *word, const char *what)
{
	return strncmp(word, what, strlen(what)) == 0;
}

static void tell(const char *word, CUresult r, CUdeviceptr address)
{
	printf("%s %d%s\n", word, r, r && address ? " and an address" : "");
	fflush(stdout);
}

static void keep(const char *word, CUresult r, CUdeviceptr address)
{
	tell(word, r, address);
	if (r)
		return;
	held[count].word = word;
	held[count++].address = address;
}

static CUresult let_go(void)
{
	CUdeviceptr address = held[--count].address;
	const char *word = held[count].word;

	if (is(word, "async:"))
		return cuMemFreeAsync(address, NULL);
	if (is(word, "pinned:"))
		return cuMemFreeHost((void *)(size_t)address);
	if (is(word, "array:"))
		return cuArrayDestroy((void *)(size_t)address);
	return cuMemFree_v2(address);
}

static void on_device(int device)
{
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static CUresult host(CUdeviceptr *address, size_t bytes)
{
	void *pointer = address; /* of anything */
	CUresult r = cuMemHostAlloc(&pointer, bytes, 0);

	*address = (CUdeviceptr)(size_t)pointer;
	return r;
}

static CUresult array(CUdeviceptr *address, size_t bytes)
{
	const struct array_descriptor flat = { bytes / 4, 1, CU_AD_FORMAT_FLOAT, 1 };
	void *handle = NULL;
	CUresult r = cuArrayCreate_v2(&handle, &flat);

	*address = (CUdeviceptr)(size_t)handle;
	return r;
}

static void allocate(const char *word)
{
	CUdeviceptr address = 5;
	size_t bytes = 0, height = 1, pitch;
	CUresult r = 0;

	sscanf(word, "%*[a-z]:%zu:%zu", &bytes, &height);
	if (is(word, "alloc:"))
		r = cuMemAlloc_v2(&address, bytes);
	else if (is(word, "pitch:"))
		r = cuMemAllocPitch_v2(&address, &pitch, bytes, height, 4);
	else if (is(word, "managed:"))
		r = cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL);
	else if (is(word, "async:"))
		r = cuMemAllocAsync(&address, bytes, NULL);
	else if (is(word, "pinned:"))
		r = host(&address, bytes);
	else if (is(word, "array:"))
		r = array(&address, bytes);
	else
		must(2, word);
	keep(word, r, address);
}

int main(int argc, char **argv)
{
	size_t left, total;
	void *stream;

	if (argc > 1 && is(argv[1], "fork")) {
		if (fork() != 0)
			wait(NULL);
		argc--, argv++;
	}
	begin();
	for (int i = 1; i < argc; i++) {
		if (is(argv[i], "free")) {
			tell("free", let_go(), 0);
		} else if (is(argv[i], "reset")) {
			tell("reset", cuDevicePrimaryCtxReset_v2(0), 0);
			on_device(0);
			count = 0;
		} else if (is(argv[i], "stream")) {
			tell("stream", cuStreamCreate(&stream, 0), 0);
		} else if (is(argv[i], "left")) {
			must(cuMemGetInfo_v2(&left, &total), "cuMemGetInfo");
			printf("left %zu of %zu\n", left, total);
			fflush(stdout);
		} else if (is(argv[i], "device:")) {
			on_device(atoi(argv[i] + 7));
		} else {
			allocate(argv[i]);
		}
	}
	while (count)
		must(let_go(), "free");
	return 0;
}
