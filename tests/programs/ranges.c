/* SPDX-License-Identifier: MIT
 *
 * Allocates in ranges of NVTX. Does by itself what NVTX's inline code does: it loads the library
 * that NVTX_INJECTION64_PATH names, and passes it tables of function pointers. The arguments are
 * what the program does, in their order.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "cu.h"

#define KIB ((size_t)1 << 10)

typedef void function(void);

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};

/* The functions of two of NVTX's modules, by their numbers. */
static function *core[16], *core2[16];
static function **core_table[17], **core2_table[17];

static int get_table(int module, function ****ret_table, unsigned int *ret_size)
{
	if (module != 1 && module != 5)
		return 0;
	*ret_table = module == 1 ? core_table : core2_table;
	*ret_size = 15;
	return 1;
}

static const struct {
	size_t struct_size;
	int (*get_table)(int module, function ****ret_table, unsigned int *ret_size);
} callbacks = { sizeof(callbacks), get_table };

static const void *get_export_table(uint32_t id)
{
	return id == 1 ? &callbacks : NULL;
}

/* What the pointers lead to before a tool has replaced them. */
static void not_replaced(void)
{
}

static void start(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	int (*initialize)(const void *(*)(uint32_t)) = NULL;
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;

	for (int i = 0; i < 16; i++) {
		core[i] = core2[i] = not_replaced;
		core_table[i] = &core[i];
		core2_table[i] = &core2[i];
	}
	if (library)
		*(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
	if (!initialize || !initialize(get_export_table))
		puts("no tool");
	for (int i = 0; i < 16; i++) {
		core[i] = core[i] == not_replaced ? NULL : core[i];
		core2[i] = core2[i] == not_replaced ? NULL : core2[i];
	}
}

#define CALL(table, number, returns, parameters, arguments) \
	((table)[number] ? ((returns(*) parameters)(table)[number])arguments : (returns)-2)

static int push(const char *text)
{
	return CALL(core, 9, int, (const char *), (text));
}

static int pop(void)
{
	return CALL(core, 11, int, (void), ());
}

static int push_wide(const wchar_t *text)
{
	return CALL(core, 10, int, (const wchar_t *), (text));
}

static void *domain(const char *name)
{
	return CALL(core2, 12, void *, (const char *), (name));
}

static int push_in(void *domain, int type, const void *message)
{
	struct attributes attributes = { .version = 3, .size = sizeof(attributes),
					 .message_type = type, .message = message };

	return CALL(core2, 4, int, (void *, const struct attributes *), (domain, &attributes));
}

static int pop_in(void *domain)
{
	return CALL(core2, 5, int, (void *), (domain));
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2"); /* @allocate */
	return address;
}

static void release(CUdeviceptr address)
{
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

/* Three ranges, one inside another. Each allocates 1, 2 and 3 KiB; two of them free some. */
static void nested(void)
{
	CUdeviceptr first;

	push("serve");
	first = allocate(KIB);
	push("decode");
	release(allocate(2 * KIB));
	release(allocate(2 * KIB));
	allocate(2 * KIB);
	push("inner\033[31m\n");
	allocate(3 * KIB);
	pop();
	pop();
	release(first);
	pop();
	allocate(10 * KIB);
}

static void folded(void)
{
	char name[64];

	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "request %d of 1%d", i * 7, i);
		push(name);
		allocate(KIB);
		pop();
	}
}

/* Paths that look the same: of a name with a slash, and of two names. */
static void slashes(void)
{
	push("layer/attention");
	allocate(KIB);
	pop();
	push("layer");
	push("attention");
	release(allocate(2 * KIB));
	allocate(4 * KIB);
	pop();
	pop();
}

/* Two domains whose ranges overlap, registered and wide names. */
static void domains(void)
{
	void *library = domain("my library"), *other = domain("other");
	void *name = CALL(core2, 10, void *, (void *, const char *), (library, "registered"));

	push("step");
	push_in(library, 3, name);
	allocate(KIB);
	push_in(other, 2, L"gr\u00f6\u00dfe \u20ac \U0001f600");
	allocate(2 * KIB);
	pop_in(library); /* the outer one */
	allocate(4 * KIB);
	pop_in(other);
	pop();
	push_wide(L"wide");
	allocate(8 * KIB);
	pop();
	push_in(other, 0, NULL);
	allocate(16 * KIB);
	pop_in(other);
}

/* A range of RMM: its name is registered once, and its payload is the number of bytes. */
static void push_rmm(void *librmm, void *name, uint64_t bytes)
{
	struct attributes attributes = { .version = 3, .size = sizeof(attributes), .category = 7,
					 .color_type = 1, .color = 0xff7400ff, .payload_type = 1,
					 .payload = bytes, .message_type = 3, .message = name };

	CALL(core2, 4, int, (void *, const struct attributes *), (librmm, &attributes));
}

static CUdeviceptr allocate_rmm(void *librmm, size_t bytes)
{
	static void *name;
	CUdeviceptr address;

	if (!name)
		name = CALL(core2, 10, void *, (void *, const char *),
			    (librmm, "cuda_async_memory_resource::allocate"));
	push_rmm(librmm, name, bytes);
	must(cuMemAllocAsync(&address, bytes, NULL), "cuMemAllocAsync");
	pop_in(librmm);
	return address;
}

/* As RAPIDS does: RMM's domain has its own ranges, inside those of the program. Its buffers are
 * freed in other ranges, and in none. */
static void rmm(void)
{
	void *librmm = domain("librmm");
	CUdeviceptr first, second, third;
	void *name = CALL(core2, 10, void *, (void *, const char *),
			  (librmm, "cuda_async_memory_resource::deallocate"));

	push("query 5");
	first = allocate_rmm(librmm, 4 * KIB);
	second = allocate_rmm(librmm, 8 * KIB);
	allocate(KIB);
	push_rmm(librmm, name, 4 * KIB);
	must(cuMemFreeAsync(first, NULL), "cuMemFreeAsync");
	pop_in(librmm);
	pop();
	third = allocate_rmm(librmm, 16 * KIB);
	push("query 6");
	allocate_rmm(librmm, 2 * KIB);
	must(cuMemFreeAsync(second, NULL), "cuMemFreeAsync");
	pop();
	must(cuMemFreeAsync(third, NULL), "cuMemFreeAsync");
}

static CUcontext context;

static uint64_t start_range(const char *text)
{
	return CALL(core, 5, uint64_t, (const char *), (text));
}

static void end_range(uint64_t id)
{
	if (core[7])
		((void (*)(uint64_t))core[7])(id);
}

static void *end_of_thread(void *id)
{
	end_range(*(uint64_t *)id);
	return NULL;
}

/* Ranges that are started and ended: outside those that are pushed, by any thread. */
static void started(void)
{
	uint64_t job, other;
	pthread_t thread;

	push("part");
	job = start_range("job 1");
	other = start_range("other");
	allocate(KIB);
	pthread_create(&thread, NULL, end_of_thread, &job);
	pthread_join(thread, NULL);
	allocate(2 * KIB);
	pop();
	allocate(4 * KIB);
	end_range(other);
	end_range(other); /* a second time */
	allocate(8 * KIB);
	for (int i = 0; i < 5000; i++)
		end_range(start_range("again"));
	for (int i = 0; i < 5000; i++)
		start_range("not ended");
	allocate(16 * KIB);
}

static void *of_thread(void *name)
{
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	pop(); /* not this thread's */
	allocate(KIB);
	push(name);
	allocate(KIB);
	release(allocate(8 * KIB));
	return NULL; /* not popped */
}

static void threads(void)
{
	pthread_t thread[4];

	push("main");
	for (int i = 0; i < 4; i++) {
		pthread_create(&thread[i], NULL, of_thread, i % 2 ? "odd" : "even");
		pthread_join(thread[i], NULL);
	}
	allocate(KIB);
	pop();
	pop();
}

/* A range that is begun again and again and never ended. */
static void deep(void)
{
	for (int i = 0; i < 100; i++)
		push("again");
	allocate(KIB);
	for (int i = 0; i < 100; i++)
		pop();
	push("after");
	allocate(2 * KIB);
	pop();
}

static void many(void)
{
	char name[300];

	for (int i = 0; i < 1000000; i++) {
		memset(name, 'x', sizeof(name));
		for (int bit = 0; bit < 20; bit++)
			name[bit] = i >> bit & 1 ? 'a' : 'b';
		name[20 + i % 200] = '\0';
		push(name);
		if (i % 1000 == 0)
			release(allocate(KIB));
		pop();
	}
	push("last");
	allocate(KIB);
	pop();
}

static void reset(void)
{
	push("before");
	allocate(KIB);
	must(cuDevicePrimaryCtxReset_v2(0), "cuDevicePrimaryCtxReset_v2");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	allocate(2 * KIB);
	pop();
}

/* Waits for a line. */
static void wait_here(void)
{
	puts("ready");
	fflush(stdout);
	while (getchar() != '\n')
		;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } stories[] = {
		{ "nested", nested }, { "slashes", slashes },
		{ "folded", folded }, { "domains", domains },
		{ "threads", threads }, { "started", started }, { "deep", deep },
		{ "many", many }, { "reset", reset }, { "rmm", rmm },
		{ "wait", wait_here },
	};
	start();
	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (int i = 1; i < argc; i++)
		for (size_t j = 0; j < sizeof(stories) / sizeof(stories[0]); j++)
			if (strcmp(argv[i], stories[j].name) == 0)
				stories[j].run();
	return 0;
}
