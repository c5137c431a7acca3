/* SPDX-License-Identifier: MIT
 *
 * Memory pools: each device's own, which cannot be destroyed, and those that are created. Owns the
 * counts of a pool; heap.c owns the blocks. A destroyed pool lives on, without a handle, until its
 * last block is freed. No pool belongs to a context.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin/driver/standin.h"

/* A pool reserves memory in steps of this many bytes. */
#define RESERVE_STEP ((uint64_t)32 << 20)

enum { MAX_POOLS = 4096 };

struct CUmemPoolHandle_st {
	enum { POOL_UNUSED, POOL_ALIVE, POOL_ENDING } state;
	int device;
	bool imported; /* a pool of another process: nothing can be allocated from it */
	int reuse[3]; /* attributes 1 to 3: stored, without an effect */
	size_t blocks;
	uint64_t limit; /* 0: none */
	uint64_t threshold;
	uint64_t used, used_high;
	uint64_t reserved, reserved_high;
};

_Atomic bool standin_pool_slack; /* true if a pool may have reserved more than its threshold */

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUmemPoolHandle_st pools[MAX_POOLS]; /* the default pools of the devices come first */
static int pools_begun;
static CUmemoryPool current[MAX_DEVICES];

static void begin(CUmemoryPool pool, int device, uint64_t limit)
{
	*pool = (struct CUmemPoolHandle_st){ .state = POOL_ALIVE, .device = device,
					     .reuse = { 1, 1, 1 }, .limit = limit };
}

void pool_init(void)
{
	for (int i = 0; i < standin_devices; i++) {
		begin(&pools[i], i, 0);
		current[i] = &pools[i];
	}
	pools_begun = standin_devices;
}

static bool usable(CUmemoryPool pool)
{
	uintptr_t offset = (uintptr_t)pool - (uintptr_t)pools;

	return offset < sizeof(pools) && offset % sizeof(pools[0]) == 0 &&
	       pool->state == POOL_ALIVE;
}

static uint64_t in_steps(uint64_t bytes)
{
	return (bytes + RESERVE_STEP - 1) & ~(RESERVE_STEP - 1);
}

static void trim(CUmemoryPool pool, uint64_t keep)
{
	uint64_t least = in_steps(pool->used);

	if (keep < pool->reserved)
		pool->reserved = least > keep || keep > UINT64_MAX - RESERVE_STEP ? least :
										   in_steps(keep);
}

void pool_trim_all(void)
{
	pthread_mutex_lock(&pool_lock);
	atomic_store(&standin_pool_slack, false);
	for (int i = 0; i < pools_begun; i++)
		trim(&pools[i], pools[i].threshold);
	pthread_mutex_unlock(&pool_lock);
}

static void count(CUmemoryPool pool, uint64_t cost)
{
	pool->blocks++;
	pool->used += cost;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->used > pool->reserved)
		pool->reserved = in_steps(pool->used);
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
}

/* Allocates BYTES from POOL. For 0 bytes it succeeds, with address 0. */
CUresult pool_alloc(CUmemoryPool pool, CUdeviceptr *address, size_t bytes, CUcontext context)
{
	struct block b = { .bytes = bytes, .context = context, .kind = BLOCK_ASYNC };
	uint64_t cost = bytes > standin_memory ? standin_memory : bytes;
	CUresult r;

	pthread_mutex_lock(&pool_lock);
	if (pool == POOL_CURRENT)
		pool = current[context->device];
	if (!usable(pool) || pool->imported) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (!bytes) {
		r = CUDA_SUCCESS;
	} else if (pool->limit && pool->used + cost > in_steps(pool->limit)) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		b.device = pool->device;
		b.pool = (unsigned short)(pool - pools + 1);
		r = heap_take(&b);
		if (!r)
			count(pool, cost);
	}
	pthread_mutex_unlock(&pool_lock);
	if (!r)
		*address = b.address;
	return r;
}

/* Records that the heap freed a block of BYTES of pool NUMBER. */
void pool_take_back(unsigned short number, size_t bytes)
{
	CUmemoryPool pool = &pools[number - 1];

	pthread_mutex_lock(&pool_lock);
	pool->used -= bytes;
	pool->blocks--;
	if (pool->state == POOL_ENDING && !pool->blocks)
		pool->state = POOL_UNUSED;
	else
		atomic_store(&standin_pool_slack, true);
	pthread_mutex_unlock(&pool_lock);
}

static CUresult check_properties(const CUmemPoolProps *props)
{
	if (!props || (props->allocType != ALLOCATION_PINNED &&
		       props->allocType != ALLOCATION_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	if (props->allocType == ALLOCATION_MANAGED || props->location.type == LOCATION_HOST ||
	    props->location.type == LOCATION_HOST_NUMA)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (props->location.type != LOCATION_DEVICE || bad_device(props->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Returns an unused pool. It takes the one after the last, so that a handle is reused as late as
 * possible. */
static CUmemoryPool find_unused(void)
{
	static int last;

	for (int i = 1; i <= MAX_POOLS; i++) {
		int at = (last + i) % MAX_POOLS;

		if (pools[at].state == POOL_UNUSED) {
			if (at >= pools_begun)
				pools_begun = at + 1;
			last = at;
			return &pools[at];
		}
	}
	return NULL;
}

STANDIN(cuMemPoolCreate)(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	CUresult r = gate("cuMemPoolCreate");
	CUmemoryPool made = NULL;

	if (!r)
		r = pool ? check_properties(poolProps) : CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		pthread_mutex_lock(&pool_lock);
		made = find_unused();
		if (made)
			begin(made, poolProps->location.id, poolProps->maxSize);
		else
			r = CUDA_ERROR_OUT_OF_MEMORY;
		pthread_mutex_unlock(&pool_lock);
	}
	if (!r)
		*pool = made;
	return logged("cuMemPoolCreate", (uintptr_t)made, made ? poolProps->maxSize : 0, r);
}

static CUresult destroy(CUmemoryPool pool)
{
	if (!usable(pool) || pool == &pools[pool->device])
		return CUDA_ERROR_INVALID_VALUE;
	if (current[pool->device] == pool)
		current[pool->device] = &pools[pool->device];
	pool->state = pool->blocks ? POOL_ENDING : POOL_UNUSED;
	return CUDA_SUCCESS;
}

STANDIN(cuMemPoolDestroy)(CUmemoryPool pool)
{
	CUresult r = gate("cuMemPoolDestroy");

	if (!r) {
		pthread_mutex_lock(&pool_lock);
		r = destroy(pool);
		pthread_mutex_unlock(&pool_lock);
	}
	return logged("cuMemPoolDestroy", (uintptr_t)pool, 0, r);
}

STANDIN(cuMemPoolTrimTo)(CUmemoryPool pool, size_t minBytesToKeep)
{
	CUresult r = gate("cuMemPoolTrimTo");

	if (!r) {
		pthread_mutex_lock(&pool_lock);
		if (usable(pool))
			trim(pool, minBytesToKeep);
		else
			r = CUDA_ERROR_INVALID_VALUE;
		pthread_mutex_unlock(&pool_lock);
	}
	return logged("cuMemPoolTrimTo", (uintptr_t)pool, minBytesToKeep, r);
}

enum {
	ATTRIBUTE_REUSE_FIRST = 1,
	ATTRIBUTE_REUSE_LAST = 3,
	ATTRIBUTE_THRESHOLD,
	ATTRIBUTE_RESERVED,
	ATTRIBUTE_RESERVED_HIGH,
	ATTRIBUTE_USED,
	ATTRIBUTE_USED_HIGH,
};

static bool is_reuse(int attribute)
{
	return attribute >= ATTRIBUTE_REUSE_FIRST && attribute <= ATTRIBUTE_REUSE_LAST;
}

static uint64_t *number_of(CUmemoryPool pool, int attribute)
{
	switch (attribute) {
	case ATTRIBUTE_THRESHOLD:
		return &pool->threshold;
	case ATTRIBUTE_RESERVED:
		return &pool->reserved;
	case ATTRIBUTE_RESERVED_HIGH:
		return &pool->reserved_high;
	case ATTRIBUTE_USED:
		return &pool->used;
	case ATTRIBUTE_USED_HIGH:
		return &pool->used_high;
	default:
		return NULL;
	}
}

static CUresult get_attribute(CUmemoryPool pool, int attribute, void *value)
{
	uint64_t *number;

	if (!usable(pool) || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_reuse(attribute)) {
		*(int *)value = pool->reuse[attribute - ATTRIBUTE_REUSE_FIRST];
		return CUDA_SUCCESS;
	}
	number = number_of(pool, attribute);
	if (!number)
		return CUDA_ERROR_INVALID_VALUE;
	*(cuuint64_t *)value = *number;
	return CUDA_SUCCESS;
}

/* Sets an attribute. A high-water mark is set to the present value. */
static CUresult set_attribute(CUmemoryPool pool, int attribute, const void *value)
{
	if (!usable(pool) || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_reuse(attribute)) {
		pool->reuse[attribute - ATTRIBUTE_REUSE_FIRST] = *(const int *)value != 0;
		return CUDA_SUCCESS;
	}
	if (attribute == ATTRIBUTE_THRESHOLD) {
		pool->threshold = *(const cuuint64_t *)value;
		return CUDA_SUCCESS;
	}
	if ((attribute != ATTRIBUTE_RESERVED_HIGH && attribute != ATTRIBUTE_USED_HIGH) ||
	    *(const cuuint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE;
	*number_of(pool, attribute) = *number_of(pool, attribute - 1);
	return CUDA_SUCCESS;
}

STANDIN(cuMemPoolGetAttribute)(CUmemoryPool pool, int attr, void *value)
{
	CUresult r = gate("cuMemPoolGetAttribute") ?: capture_check();

	if (!r) {
		pthread_mutex_lock(&pool_lock);
		r = get_attribute(pool, attr, value);
		pthread_mutex_unlock(&pool_lock);
	}
	return r;
}

STANDIN(cuMemPoolSetAttribute)(CUmemoryPool pool, int attr, void *value)
{
	CUresult r = gate("cuMemPoolSetAttribute") ?: capture_check();

	if (!r) {
		pthread_mutex_lock(&pool_lock);
		r = set_attribute(pool, attr, value);
		pthread_mutex_unlock(&pool_lock);
	}
	return r;
}

/* Checks its arguments and stores nothing, because the stand-in never accesses a pool's memory. */
STANDIN(cuMemPoolSetAccess)(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	CUresult r = gate("cuMemPoolSetAccess");

	if (r)
		return r;
	pthread_mutex_lock(&pool_lock);
	if (!usable(pool) || !count || !map)
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !r && i < count; i++)
		if (map[i].location.type != LOCATION_DEVICE || bad_device(map[i].location.id) ||
		    (map[i].location.id == pool->device && !map[i].flags))
			/* also if it would take the access from the pool's own device */
			r = ERROR_INVALID_DEVICE;
	pthread_mutex_unlock(&pool_lock);
	return r;
}

STANDIN(cuDeviceGetDefaultMemPool)(CUmemoryPool *pool_out, CUdevice dev)
{
	CUresult r = device_call("cuDeviceGetDefaultMemPool", pool_out, dev);

	if (!r)
		*pool_out = &pools[dev];
	return r;
}

STANDIN(cuDeviceGetMemPool)(CUmemoryPool *pool, CUdevice dev)
{
	CUresult r = device_call("cuDeviceGetMemPool", pool, dev);

	if (!r) {
		pthread_mutex_lock(&pool_lock);
		*pool = current[dev];
		pthread_mutex_unlock(&pool_lock);
	}
	return r;
}

STANDIN(cuDeviceSetMemPool)(CUdevice dev, CUmemoryPool pool)
{
	CUresult r = gate("cuDeviceSetMemPool");

	if (!r && bad_device(dev))
		r = ERROR_INVALID_DEVICE;
	if (r)
		return r;
	pthread_mutex_lock(&pool_lock);
	if (usable(pool) && pool->device == dev)
		current[dev] = pool;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&pool_lock);
	return r;
}

/* ---- shared with other processes ---- */

#define SHARED_MAGIC 0x6c6f6f702d646e74ull

/* The content of the file that stands for a shared pool, and the first words of the 64 bytes that
 * stand for a shared block. */
struct shared {
	uint64_t magic;
	uint64_t address, bytes; /* 0: a pool */
	int32_t device;
};

STANDIN(cuMemPoolExportToShareableHandle)
(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
 unsigned long long flags)
{
	CUresult r = gate("cuMemPoolExportToShareableHandle");
	struct shared what = { .magic = SHARED_MAGIC };
	int fd;

	if (!r && (!handle_out || !usable(pool) || pool->imported || handleType != 1 || flags))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	what.device = pool->device;
	fd = memfd_create("standin-pool", MFD_CLOEXEC);
	if (fd < 0 || write(fd, &what, sizeof(what)) != sizeof(what))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)handle_out = fd;
	return CUDA_SUCCESS;
}

STANDIN(cuMemPoolImportFromShareableHandle)
(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType,
 unsigned long long flags)
{
	CUresult r = gate("cuMemPoolImportFromShareableHandle");
	struct shared what = { .magic = 0 };
	CUmemoryPool made = NULL;

	if (!r && (!pool_out || handleType != 1 || flags ||
		   pread((int)(intptr_t)handle, &what, sizeof(what), 0) != sizeof(what) ||
		   what.magic != SHARED_MAGIC || what.bytes || bad_device(what.device)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		pthread_mutex_lock(&pool_lock);
		made = find_unused();
		if (made) {
			begin(made, what.device, 0);
			made->imported = true;
		}
		pthread_mutex_unlock(&pool_lock);
		r = made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r)
		*pool_out = made;
	return logged("cuMemPoolImportFromShareableHandle", (uintptr_t)made, 0, r);
}

STANDIN(cuMemPoolExportPointer)(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	CUresult r = gate("cuMemPoolExportPointer");
	struct block b = { .bytes = 0 };
	struct shared what = { .magic = SHARED_MAGIC };

	if (!r && (!shareData_out || !heap_find(ptr, &b) || b.kind != BLOCK_ASYNC ||
		   b.address != ptr))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	what.address = b.address;
	what.bytes = b.bytes;
	memset(shareData_out, 0, 64);
	memcpy(shareData_out, &what, sizeof(what));
	return CUDA_SUCCESS;
}

/* The blocks that were imported. While one lives, another import of it returns the same address. */
#define IMPORTED_MAX 256
static struct imported {
	uint64_t of;
	CUmemoryPool pool;
	CUdeviceptr address;
} imported[IMPORTED_MAX];

/* Locking: needs pool_lock. */
static CUresult import_block(CUmemoryPool pool, const struct shared *what, CUdeviceptr *address)
{
	struct imported *at = NULL;
	struct block b;

	for (int i = 0; i < IMPORTED_MAX; i++) {
		bool live = imported[i].address && heap_find(imported[i].address, &b) &&
			    b.kind == BLOCK_IMPORTED;

		if (live && imported[i].of == what->address && imported[i].pool == pool) {
			*address = imported[i].address;
			return CUDA_SUCCESS;
		}
		if (!live && !at)
			at = &imported[i];
	}
	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*at = (struct imported){ what->address, pool, 0 };
	return heap_alloc(&at->address, what->bytes, BLOCK_IMPORTED, standin_thread.current) ?
		       CUDA_ERROR_OUT_OF_MEMORY :
		       (*address = at->address, CUDA_SUCCESS);
}

STANDIN(cuMemPoolImportPointer)
(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	CUresult r = gate("cuMemPoolImportPointer");
	CUdeviceptr address = 0;
	struct shared what = { .magic = 0 };

	if (shareData)
		memcpy(&what, shareData, sizeof(what));
	if (!r && (!ptr_out || !usable(pool) || !pool->imported || what.magic != SHARED_MAGIC ||
		   !what.bytes))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		pthread_mutex_lock(&pool_lock);
		r = import_block(pool, &what, &address);
		pthread_mutex_unlock(&pool_lock);
	}
	if (!r)
		*ptr_out = address;
	return logged("cuMemPoolImportPointer", address, r ? 0 : what.bytes, r);
}
