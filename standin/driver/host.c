/* SPDX-License-Identifier: MIT
 *
 * Pinned host memory, which is real memory here, and registered host memory, which is the
 * application's own. Both are rare: one table and one lock. Never touches their bytes.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "standin/driver/async.h"

enum { BUCKETS = 4096, DEVICEMAP = 2 }; /* flags: PORTABLE 1, WRITECOMBINED 4 */

struct host_block {
	struct host_block *next;
	uintptr_t address;
	size_t bytes, mapped;
	CUcontext context;
	bool registered;
	unsigned int flags;
};

static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_block *buckets[BUCKETS];

static struct host_block **bucket_of(uintptr_t address)
{
	return &buckets[(address >> 12) % BUCKETS];
}

/* Returns the link to the block that begins at ADDRESS. */
static struct host_block **find_base(uintptr_t address)
{
	struct host_block **link = bucket_of(address);

	while (*link && (*link)->address != address)
		link = &(*link)->next;
	return link;
}

static struct host_block *find_overlap(uintptr_t address, size_t bytes)
{
	for (int i = 0; i < BUCKETS; i++)
		for (struct host_block *b = buckets[i]; b; b = b->next)
			if (address < b->address + b->bytes && b->address < address + bytes)
				return b;
	return NULL;
}

static bool add(uintptr_t address, size_t bytes, size_t mapped, bool registered,
		unsigned int flags)
{
	struct host_block *b = malloc(sizeof(*b)), **bucket = bucket_of(address);

	if (!b)
		return false;
	*b = (struct host_block){ *bucket,   address, bytes, mapped, memory_context(),
				  registered, flags };
	*bucket = b;
	return true;
}

static void drop(struct host_block **link)
{
	struct host_block *b = *link;

	*link = b->next;
	if (!b->registered)
		munmap((void *)b->address, b->mapped);
	free(b);
}

bool host_find(CUdeviceptr inside, struct block *found)
{
	struct host_block *b;

	pthread_mutex_lock(&host_lock);
	b = find_overlap((uintptr_t)inside, 1);
	if (b)
		*found = (struct block){ .address = b->address, .bytes = b->bytes,
					 .context = b->context,
					 .device = b->context->device };
	pthread_mutex_unlock(&host_lock);
	return b;
}

bool host_lock_range(uintptr_t address, size_t bytes)
{
	struct host_block *b;

	pthread_mutex_lock(&host_lock);
	b = find_overlap(address, 1);
	if (b && bytes <= b->bytes - (address - b->address))
		return true;
	pthread_mutex_unlock(&host_lock);
	return false;
}

void host_unlock(void)
{
	pthread_mutex_unlock(&host_lock);
}

void host_drop_context(CUcontext context)
{
	pthread_mutex_lock(&host_lock);
	for (int i = 0; i < BUCKETS; i++) {
		struct host_block **link = &buckets[i];

		while (*link) {
			if ((*link)->context == context)
				drop(link);
			else
				link = &(*link)->next;
		}
	}
	pthread_mutex_unlock(&host_lock);
}

static CUresult allocate(const char *name, void **pp, size_t bytes, unsigned int flags)
{
	CUresult r = gate(name);
	size_t mapped = (bytes + 4095) & ~(size_t)4095;
	void *p;

	if (!r)
		r = context_usable(standin_thread.current);
	if (!r)
		r = capture_check();
	if (r)
		return r;
	if (!pp || flags >= 8)
		return CUDA_ERROR_INVALID_VALUE;
	*pp = NULL;
	if (!bytes)
		return CUDA_SUCCESS;
	if (bytes > (size_t)1 << 40)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (unlikely(standin_async))
		async_pass_frees(memory_context());
	p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&host_lock);
	if (!add((uintptr_t)p, bytes, mapped, false, flags | DEVICEMAP)) {
		munmap(p, mapped);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		*pp = p;
	}
	pthread_mutex_unlock(&host_lock);
	return r;
}

static CUresult allocated(const char *name, void **pp, size_t bytes, CUresult r)
{
	return logged(name, r ? 0 : (uintptr_t)*pp, bytes, r);
}

STANDIN(cuMemAllocHost)(void **pp, unsigned int bytesize)
{
	return allocated("cuMemAllocHost", pp, bytesize,
			 allocate("cuMemAllocHost", pp, bytesize, 0));
}

STANDIN(cuMemAllocHost_v2)(void **pp, size_t bytesize)
{
	return allocated("cuMemAllocHost_v2", pp, bytesize,
			 allocate("cuMemAllocHost_v2", pp, bytesize, 0));
}

STANDIN(cuMemHostAlloc)(void **pp, size_t bytesize, unsigned int Flags)
{
	return allocated("cuMemHostAlloc", pp, bytesize,
			 allocate("cuMemHostAlloc", pp, bytesize, Flags));
}

static CUresult let_go(const char *name)
{
	CUresult r = gate(name);

	if (!r && standin_thread.current)
		r = context_usable(standin_thread.current);
	return r ? r : capture_check();
}

/* Waits, as cuMemFree does, for all work of the context that owns the block at ADDRESS. */
static void wait_for_users(uintptr_t address)
{
	struct host_block *b;
	CUcontext context;

	pthread_mutex_lock(&host_lock);
	b = *find_base(address);
	context = b && !b->registered ? b->context : NULL;
	pthread_mutex_unlock(&host_lock);
	if (context)
		async_wait_to_free("cuMemFreeHost", context);
}

STANDIN(cuMemFreeHost)(void *p)
{
	CUresult r = let_go("cuMemFreeHost");
	struct host_block **link;

	if (unlikely(standin_async) && !r && p)
		wait_for_users((uintptr_t)p);
	if (!r && p) {
		pthread_mutex_lock(&host_lock);
		link = find_base((uintptr_t)p);
		if (!*link || (*link)->registered)
			r = CUDA_ERROR_INVALID_VALUE;
		else
			drop(link);
		pthread_mutex_unlock(&host_lock);
	}
	return logged("cuMemFreeHost", (uintptr_t)p, 0, r);
}

static CUresult attach(const char *name, void *p, size_t bytes)
{
	CUresult r = gate(name);
	struct host_block *other;

	if (!r)
		r = context_usable(standin_thread.current);
	if (!r)
		r = capture_check();
	if (r)
		return r;
	if (!p || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&host_lock);
	other = find_overlap((uintptr_t)p, bytes);
	if (other)
		r = other->registered ? ERROR_ALREADY_REGISTERED : CUDA_ERROR_INVALID_VALUE;
	else if (!add((uintptr_t)p, bytes, 0, true, 0))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&host_lock);
	return r;
}

STANDIN(cuMemHostRegister)(void *p, size_t bytesize, unsigned int Flags)
{
	(void)Flags;
	return logged("cuMemHostRegister", (uintptr_t)p, bytesize,
		      attach("cuMemHostRegister", p, bytesize));
}

STANDIN(cuMemHostRegister_v2)(void *p, size_t bytesize, unsigned int Flags)
{
	(void)Flags;
	return logged("cuMemHostRegister_v2", (uintptr_t)p, bytesize,
		      attach("cuMemHostRegister_v2", p, bytesize));
}

STANDIN(cuMemHostUnregister)(void *p)
{
	CUresult r = let_go("cuMemHostUnregister");
	struct host_block **link;

	if (!r && !p)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		pthread_mutex_lock(&host_lock);
		link = find_base((uintptr_t)p);
		if (*link && (*link)->registered)
			drop(link);
		else if (find_overlap((uintptr_t)p, 1))
			r = CUDA_ERROR_INVALID_VALUE; /* inside a registered range, or pinned */
		else
			r = ERROR_NOT_REGISTERED;
		pthread_mutex_unlock(&host_lock);
	}
	return logged("cuMemHostUnregister", (uintptr_t)p, 0, r);
}

/* The flags always have DEVICEMAP, because all memory is mapped, whether that was requested or
 * not. */
STANDIN(cuMemHostGetFlags)(unsigned int *pFlags, void *p)
{
	CUresult r = gate("cuMemHostGetFlags");
	struct host_block *b;

	if (r)
		return r;
	if (!pFlags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&host_lock);
	b = find_overlap((uintptr_t)p, 1);
	if (b && !b->registered)
		*pFlags = b->flags;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&host_lock);
	return r;
}

/* One address space: the device sees host memory where the host does. */
STANDIN(cuMemHostGetDevicePointer_v2)(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	CUresult r = gate("cuMemHostGetDevicePointer_v2");
	struct block found;

	if (r)
		return r;
	if (!pdptr || Flags || !host_find((uintptr_t)p, &found))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}
