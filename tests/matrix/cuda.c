/* SPDX-License-Identifier: MIT
 *
 * Every family of CUDA memory by one route and with one fate; the cells are generated.
 * Built as a program without the driver, as one linked to it, and as a plugin linked to it.
 *
 * cuda ROUTE FATE FAMILY...      cuda handle export: two IPC handles, in hexadecimal
 */
#include <dlfcn.h>

#include "standin/driver/families.h"
#include "matrix.h"

struct alloc_node { /* CUDA_MEM_ALLOC_NODE_PARAMS */
	CUmemPoolProps pool;
	const void *access;
	size_t access_count, bytes;
	CUdeviceptr address;
};

struct any_node { /* CUgraphNodeParams */
	int type, reserved0[3];
	union {
		long long reserved1[29];
		struct alloc_node alloc;
	};
	long long reserved2;
};

enum { ALLOC_NODE = 10, RELAXED = 2, NON_BLOCKING = 1 };

struct block {
	CUdeviceptr address;
	CUdeviceptr_v1 low;
	size_t pitch;
	unsigned int low_pitch;
	void *pointer;
	CUmemoryPool pool;
	CUarray array;
	CUmipmappedArray mipmapped;
	CUexternalMemory external;
	CUmemGenericAllocationHandle handle;
	void *graph, *node;
	struct any_node any;
};

#define GRAIN ((size_t)2 << 20)

static char lent[2][8192] __attribute__((aligned(4096)));
static CUipcMemHandle shared[2];
static CUmemoryPool own_pool, shared_pool, foreign_pool;
static char pool_data[64];
static CUexternalMemory outside;
static CUmemGenericAllocationHandle physical, exported, multicast;
static CUdeviceptr reserved, range, ordered, pool_block;
static int descriptor, pool_descriptor;
static CUstream stream;

enum { FLOATS = 0x20 };

static const CUmemPoolProps device_pool = { 1, 0, { LOCATION_DEVICE, 0 } };
static const CUmemAllocationProp device_memory = { 1, 0, { LOCATION_DEVICE, 0 } };
static const CUmemAllocationProp exportable = { 1, 1, { LOCATION_DEVICE, 0 } };
static const struct team { /* CUmulticastObjectProp */
	unsigned int devices;
	size_t bytes;
	unsigned long long handle_types, flags;
} team = { 1, 4 * GRAIN, 0, 0 };
static const CUDA_ARRAY_DESCRIPTOR_v1 flat_32 = { 40, 10, FLOATS, 1 };
static const CUDA_ARRAY_DESCRIPTOR flat = { 41, 10, FLOATS, 1 }, no_array = { 0, 0, FLOATS, 1 };
static const CUDA_ARRAY3D_DESCRIPTOR_v1 deep_32 = { 42, 10, 3, FLOATS, 1, 0 };
static const CUDA_ARRAY3D_DESCRIPTOR deep = { 43, 10, 3, FLOATS, 1, 0 },
				     wide = { 32, 16, 0, FLOATS, 1, 0 };
static const CUDA_EXTERNAL_MEMORY_HANDLE_DESC outside_memory = { .type = 1, .size = 1 << 20 };
static const CUDA_EXTERNAL_MEMORY_BUFFER_DESC outside_buffer = { .size = 65536 };
static const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC outside_mipmapped = {
	.arrayDesc = { 32, 16, 0, FLOATS, 1, 0 }, .numLevels = 2
};

static int capture(struct block *b);
static int end_capture(struct block *b, int answer);
static int new_graph(struct block *b, size_t bytes);
static int take_address(struct block *b, int answer);
static int launch(struct block *b);

#include "cuda_cells.h"

/* What goes before and after the call that makes a node. */
static int capture(struct block *b)
{
	(void)b;
	if (!stream && C(cuStreamCreate)(&stream, NON_BLOCKING))
		return -1;
	return C(cuStreamBeginCapture_v2)(stream, RELAXED);
}

static int end_capture(struct block *b, int answer)
{
	int r = C(cuStreamEndCapture)(stream, &b->graph);

	return answer ? answer : r;
}

static int new_graph(struct block *b, size_t bytes)
{
	memset(&b->any, 0, sizeof(b->any));
	b->any.type = ALLOC_NODE;
	b->any.alloc.pool = device_pool;
	b->any.alloc.bytes = bytes;
	return C(cuGraphCreate)(&b->graph, 0);
}

static int take_address(struct block *b, int answer)
{
	b->address = b->any.alloc.address;
	return answer;
}

static int launch(struct block *b)
{
	void *ready;
	int r = C(cuGraphInstantiateWithFlags)(&ready, b->graph, 0);

	return r ? r : C(cuGraphLaunch)(ready, NULL);
}

typedef CUresult resolve4(const char *, void **, int, uint64_t);
typedef CUresult resolve5(const char *, void **, int, uint64_t, int *);

static void need(const void *pointer, const char *what)
{
	if (pointer)
		return;
	printf("%s: not there\n", what);
	exit(1);
}

static void *driver(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	need(handle, "libcuda.so.1");
	return handle;
}

static void by_link(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		calls[i].found = calls[i].linked;
}

static void by_dlsym(void *handle)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		calls[i].found = dlsym(handle, calls[i].symbol);
}

/* Exactly one of the two. */
struct resolver {
	resolve4 *four;
	resolve5 *five;
};

static void *ask(const struct resolver *resolver, const char *name, int version, uint64_t flags)
{
	void *found = NULL;
	int status = 77;
	CUresult r;

	r = resolver->four ? resolver->four(name, &found, version, flags)
			   : resolver->five(name, &found, version, flags, &status);
	if (r || (resolver->five && status)) {
		printf("%s at %d, flags %d: %d, status %d\n", name, version, (int)flags, r, status);
		exit(1);
	}
	return found;
}

/* EVEN: also for those calls that are not the per-thread ones by their symbol. */
static void by_resolver(const struct resolver *resolver, int even)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		calls[i].found = ask(resolver, calls[i].base, calls[i].since,
				     calls[i].per_thread || even ? 2 : 0);
}

static struct resolver resolver_by_dlsym(int arguments)
{
	struct resolver ret = { NULL, NULL };

	if (arguments == 4)
		*(void **)&ret.four = dlsym(driver(), "cuGetProcAddress");
	else
		*(void **)&ret.five = dlsym(driver(), "cuGetProcAddress_v2");
	return ret;
}

/* As cudart 11 and 12 do it: the resolver hands out the resolver that is then used. */
static struct resolver resolver_by_resolver(int arguments)
{
	struct resolver first = resolver_by_dlsym(arguments), ret = { NULL, NULL };

	if (arguments == 4)
		*(void **)&ret.four = ask(&first, "cuGetProcAddress", 11030, 0);
	else
		*(void **)&ret.five = ask(&first, "cuGetProcAddress", 12000, 0);
	return ret;
}

static void reach(const char *route)
{
	struct resolver resolver;

	if (strcmp(route, "linked") == 0 || strcmp(route, "plugin") == 0) {
		by_link();
	} else if (strcmp(route, "handle") == 0) {
		by_dlsym(driver());
	} else if (strcmp(route, "default") == 0) {
		by_dlsym(RTLD_DEFAULT);
	} else if (strcmp(route, "next") == 0) {
		by_dlsym(RTLD_NEXT);
	} else {
		int arguments = strstr(route, "4") ? 4 : 5;

		resolver = strncmp(route, "self", 4) == 0 ? resolver_by_resolver(arguments)
							  : resolver_by_dlsym(arguments);
		by_resolver(&resolver, strcmp(route, "per-thread-5") == 0);
	}
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		need(calls[i].found, calls[i].symbol);
}

static void must(CUresult r, const char *what)
{
	if (!r)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

static void start(void)
{
	CUcontext context;

	must(C(cuInit)(0), "cuInit");
	must(C(cuDevicePrimaryCtxRetain)(&context, 0), "cuDevicePrimaryCtxRetain");
	must(C(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
}

/* For the IPC families of another process; this one may be gone by then. */
static int export_handles(void)
{
	start();
	for (int i = 0; i < 2; i++) {
		CUdeviceptr address;

		must(C(cuMemAlloc_v2)(&address, 65536), "cuMemAlloc_v2");
		must(C(cuIpcGetMemHandle)(&shared[i], address), "cuIpcGetMemHandle");
	}
	for (size_t i = 0; i < sizeof(shared); i++)
		printf("%02x", ((unsigned char *)shared)[i]);
	return 0;
}

static void import_handles(void)
{
	const char *text = getenv("MATRIX_IPC");

	for (size_t i = 0; text && i < sizeof(shared) && text[2 * i] && text[2 * i + 1]; i++) {
		unsigned int byte = 0;

		if (sscanf(&text[2 * i], "%2x", &byte) == 1)
			((unsigned char *)shared)[i] = (unsigned char)byte;
	}
}

#ifdef PLUGIN
int matrix_main(int argc, char **argv);
int matrix_main(int argc, char **argv)
#else
int main(int argc, char **argv)
#endif
{
	struct block b = { 0 };

	if (argc < 3)
		return 2;
	reach(argv[1]);
	if (strcmp(argv[2], "export") == 0)
		return export_handles();
	import_handles();
	start();
	run_cells(needs, families, sizeof(families) / sizeof(families[0]), fate_named(argv[2]),
		  argv + 3, &b, sizeof(b));
	return 0;
}
