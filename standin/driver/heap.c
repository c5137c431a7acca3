/* SPDX-License-Identifier: MIT
 *
 * Device memory that is only addresses: which block is where. It has bytes only if work runs
 * (async.h). Each thread allocates from an arena of its own, so that threads share no lock or
 * counter. A block returns to the arena that it came from, whichever thread frees it, and is reused
 * first. Checks only if a context is alive, and makes no API call.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "standin/driver/standin.h"

/*
 * Addresses from 12.06 GiB to 16 TiB: no host mapping, heap or sanitizer allocator lies there on
 * x86-64 or aarch64. The calls with the ABI before CUDA 3.2 return addresses from 2 to 4 GiB.
 */
#define REGION_SHIFT 26 /* a chunk begins at a multiple of 64 MiB */
#define REGION ((CUdeviceptr)1 << REGION_SHIFT)
#define HIGH_BASE 0x304000000ull
#define HIGH_END (1ull << 44)
#define LOW_BASE 0x80000000ull
#define LOW_END 0xfc000000ull
#define LARGE_CHUNK ((CUdeviceptr)8 << 30)

enum {
	SMALL_SHIFT = 9, /* a block below 1 MiB takes multiples of 512 bytes */
	LARGE_SHIFT = 21,
	LARGE_FROM = 1 << 20,
	SMALL_CLASSES = 2048,
	/* sizes up to 64 large pages; larger ones have 8 classes for each doubling */
	EXACT_CLASSES = 64,
	CLASSES = SMALL_CLASSES + EXACT_CLASSES + 8 * 40,
	MAX_ARENAS = 256,
	POISONED = 1 << 20,
};

struct slot {
	CUdeviceptr address;
	size_t bytes; /* requested bytes; 0: no live block begins here */
	CUcontext context;
	struct slot *next;
	unsigned short class;
	unsigned char kind;
	unsigned char device;
	unsigned short pool;
	/* number of blocks that began here until now: see cuIpcGetMemHandle */
	unsigned short generation;
};

struct chunk {
	struct arena *arena;
	struct chunk *next;
	CUdeviceptr base;
	unsigned int shift;
	size_t size;
	_Atomic(char *) bytes; /* the bytes of the memory; NULL until they are accessed */
	uint32_t taken, total; /* slots */
	struct slot slots[];
};

struct arena {
	_Atomic int locked;
	_Atomic int in_use;
	_Atomic int begun;
	size_t used[MAX_DEVICES];    /* bytes of live blocks */
	size_t granted[MAX_DEVICES]; /* bytes taken from the device, at least `used` */
	/* first index: 1 if the host can access the memory (see is_mapped()); second index: 1 for
	 * large blocks */
	struct chunk *carving[2][2];
	struct chunk *chunks;
	struct slot *free[2][CLASSES];
} __attribute__((aligned(128)));

static struct arena arenas[MAX_ARENAS];
static struct arena low_arena = { .begun = 1 };
static _Atomic(struct chunk *) directory[HIGH_END >> REGION_SHIFT];
static _Atomic uint64_t next_high = HIGH_BASE, next_low = LOW_BASE;
static _Atomic size_t granted_total[MAX_DEVICES];
static _Atomic unsigned int shared_turn;
static pthread_key_t thread_end;

static void lock(struct arena *a)
{
	for (int spins = 0; atomic_exchange_explicit(&a->locked, 1, memory_order_acquire); spins++)
		if (spins > 100)
			sched_yield();
}

static void unlock(struct arena *a)
{
	atomic_store_explicit(&a->locked, 0, memory_order_release);
}

/* Makes the thread's arena, with its live blocks, available to the next thread that needs one. */
static void thread_ends(void *arena)
{
	struct arena *a = arena;

	standin_thread.arena = NULL;
	atomic_store_explicit(&a->in_use, 0, memory_order_release);
}

void heap_init(void)
{
	pthread_key_create(&thread_end, thread_ends);
}

static struct arena *arena_acquire(void)
{
	struct arena *a = NULL;

	for (int i = 0; i < standin_arena_limit; i++) {
		int unused = 0;

		if (atomic_compare_exchange_strong(&arenas[i].in_use, &unused, 1)) {
			a = &arenas[i];
			pthread_setspecific(thread_end, a);
			break;
		}
	}
	if (!a)
		a = &arenas[atomic_fetch_add(&shared_turn, 1) % (unsigned int)standin_arena_limit];
	atomic_store(&a->begun, 1);
	standin_thread.arena = a;
	return a;
}

/* Returns the class of a block of BYTES, and stores in *UNITS the size that all blocks of the class
 * have. */
static unsigned int class_of(size_t bytes, size_t *units)
{
	size_t n;
	unsigned int shift;

	if (bytes < LARGE_FROM) {
		*units = (bytes + (1 << SMALL_SHIFT) - 1) >> SMALL_SHIFT;
		return (unsigned int)*units - 1;
	}
	n = (bytes + ((size_t)1 << LARGE_SHIFT) - 1) >> LARGE_SHIFT;
	*units = n;
	if (n <= EXACT_CLASSES)
		return SMALL_CLASSES + (unsigned int)n - 1;
	shift = 63 - (unsigned int)__builtin_clzll(n) - 3;
	n = (n + ((size_t)1 << shift) - 1) >> shift; /* 8 to 16 */
	*units = n << shift;
	return SMALL_CLASSES + EXACT_CLASSES + (shift - 3) * 8 + (unsigned int)n - 8;
}

/* Returns the bytes that a block takes of its device. Managed memory may exceed the device, so it
 * takes none. Neither does memory that another process shares. */
static size_t cost_of(enum block_kind kind, size_t bytes)
{
	size_t grain = bytes < LARGE_FROM ? (size_t)1 << SMALL_SHIFT : (size_t)1 << LARGE_SHIFT;

	if (kind == BLOCK_MANAGED || kind == BLOCK_IPC || kind == BLOCK_IMPORTED ||
	    kind == BLOCK_EXTERNAL ||
	    kind == BLOCK_GRAPH)
		return 0;
	return (bytes + grain - 1) & ~(grain - 1);
}

/* Returns true if the host can access blocks of KIND at their addresses: managed memory with
 * STANDIN_FAKE_GPU. */
static bool is_mapped(enum block_kind kind)
{
	return unlikely(standin_fake) && kind == BLOCK_MANAGED;
}

/* Maps the chunk's bytes at the chunk's own address. */
static bool map_bytes(struct chunk *c)
{
	void *wanted = (void *)(uintptr_t)c->base;
	void *got = mmap(wanted, c->size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (got != MAP_FAILED && got != wanted)
		munmap(got, c->size); /* a kernel before 4.17 may map elsewhere */
	if (got != wanted)
		return false;
	atomic_store(&c->bytes, got);
	return true;
}

static struct chunk *chunk_new(struct arena *a, bool large, bool mapped, size_t units)
{
	bool low = a == &low_arena;
	unsigned int shift = large ? LARGE_SHIFT : SMALL_SHIFT;
	CUdeviceptr size = large && !low ? LARGE_CHUNK : REGION, end = low ? LOW_END : HIGH_END;
	CUdeviceptr need = ((CUdeviceptr)units << shift) + REGION - 1;
	_Atomic uint64_t *next = low ? &next_low : &next_high;
	struct chunk *c;
	uint64_t base = atomic_load(next);

	if ((need & ~(REGION - 1)) > size)
		size = need & ~(REGION - 1);
	do {
		if (size > end - base)
			return NULL;
	} while (!atomic_compare_exchange_weak(next, &base, base + size));
	c = mmap(NULL, sizeof(*c) + (size >> shift) * sizeof(c->slots[0]), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c == MAP_FAILED)
		return NULL;
	c->arena = a;
	c->base = base;
	c->shift = shift;
	c->size = size;
	c->total = (uint32_t)(size >> shift);
	if (mapped && !map_bytes(c)) {
		munmap(c, sizeof(*c) + (size >> shift) * sizeof(c->slots[0]));
		return NULL;
	}
	c->next = a->chunks;
	a->chunks = c;
	for (CUdeviceptr at = base; at < base + size; at += REGION)
		atomic_store_explicit(&directory[at >> REGION_SHIFT], c, memory_order_release);
	return c;
}

static struct slot *carve(struct arena *a, bool large, bool mapped, size_t units)
{
	struct chunk *c = a->carving[mapped][large];
	struct slot *s;

	if (!c || c->total - c->taken < units) {
		c = chunk_new(a, large, mapped, units);
		if (!c)
			return NULL;
		a->carving[mapped][large] = c;
	}
	s = &c->slots[c->taken];
	s->address = c->base + ((CUdeviceptr)c->taken << c->shift);
	c->taken += (uint32_t)units;
	return s;
}

/* Returns all bytes to DEVICE that arenas were granted and do not use. */
static void reclaim(int device)
{
	for (int i = 0; i <= MAX_ARENAS; i++) {
		struct arena *a = i < MAX_ARENAS ? &arenas[i] : &low_arena;

		if (!atomic_load(&a->begun))
			continue;
		lock(a);
		atomic_fetch_sub(&granted_total[device], a->granted[device] - a->used[device]);
		a->granted[device] = a->used[device];
		unlock(a);
	}
}

/* Returns how many bytes the device grants: 0, or at least MISSING. reclaim() also takes the unused
 * bytes of the arena itself. After that, at least COST is granted. */
static size_t grant(int device, size_t missing, size_t cost)
{
	size_t generous = standin_memory / 256, now = atomic_load(&granted_total[device]);

	for (int reclaimed = 0;; reclaimed++) {
		do {
			size_t left = standin_memory - now,
			       want = missing > generous ? missing : generous;

			if (want > left)
				want = missing;
			if (want > left)
				break;
			if (atomic_compare_exchange_weak(&granted_total[device], &now, now + want))
				return want;
		} while (true);
		if (reclaimed)
			return 0;
		reclaim(device);
		missing = cost;
		now = atomic_load(&granted_total[device]);
	}
}

/* Returns true with the arena locked if it has COST bytes of DEVICE, false without a lock
 * otherwise. */
static bool lock_with_room(struct arena *a, int device, size_t cost)
{
	lock(a);
	while (unlikely(a->used[device] + cost > a->granted[device])) {
		size_t missing = a->used[device] + cost - a->granted[device];

		unlock(a);
		missing = grant(device, missing, cost);
		if (!missing)
			return false;
		lock(a);
		a->granted[device] += missing;
	}
	return true;
}

static inline CUresult alloc_from(struct arena *a, struct block *b)
{
	size_t units, cost = cost_of(b->kind, b->bytes);
	unsigned int class = class_of(b->bytes, &units);
	bool mapped = is_mapped(b->kind);
	struct slot *s;
	CUresult r;

	if (!lock_with_room(a, b->device, cost))
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* under the lock: see heap_drop_context */
	r = b->context ? context_usable(b->context) : CUDA_SUCCESS;
	s = r ? NULL : a->free[mapped][class];
	if (likely(s != NULL))
		a->free[mapped][class] = s->next;
	else if (!r)
		s = carve(a, b->bytes >= LARGE_FROM, mapped, units);
	if (likely(s != NULL)) {
		s->bytes = b->bytes;
		s->context = b->context;
		s->class = (unsigned short)class;
		s->kind = (unsigned char)b->kind;
		s->device = (unsigned char)b->device;
		s->pool = b->pool;
		s->generation++;
		a->used[b->device] += cost;
		b->address = s->address;
	} else if (!r) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	unlock(a);
	return r;
}

static inline CUresult take(struct block *b)
{
	struct arena *a = standin_thread.arena;

	if (unlikely(b->bytes > standin_memory &&
		     (cost_of(b->kind, b->bytes) || b->bytes / 8 > standin_memory)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (unlikely(!a))
		a = arena_acquire();
	return alloc_from(a, b);
}

/* Allocates B, and sets its address. A block without a context outlives all contexts. */
CUresult heap_take(struct block *b)
{
	return take(b);
}

CUresult heap_alloc(CUdeviceptr *address, size_t bytes, enum block_kind kind, CUcontext context)
{
	struct block b = { .bytes = bytes, .context = context, .kind = kind,
			   .device = context->device };
	CUresult r = take(&b);

	if (likely(!r))
		*address = b.address;
	return r;
}

CUresult heap_alloc_low(CUdeviceptr *address, size_t bytes, CUcontext context)
{
	struct block b = { .bytes = bytes, .context = context, .kind = BLOCK_DEVICE,
			   .device = context->device };
	CUresult r;

	if (bytes > standin_memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = alloc_from(&low_arena, &b);
	if (!r)
		*address = b.address;
	return r;
}

static struct chunk *chunk_of(CUdeviceptr address)
{
	if (address >= HIGH_END)
		return NULL;
	return atomic_load_explicit(&directory[address >> REGION_SHIFT], memory_order_acquire);
}

/* Overwrites freed memory, so that work that still reads it gets wrong values. The rest of a large
 * block is returned to the kernel. */
static __attribute__((noinline, cold)) void poison(const struct slot *s)
{
	struct chunk *c = chunk_of(s->address);
	char *bytes = atomic_load(&c->bytes);
	size_t head = s->bytes < POISONED ? s->bytes : POISONED;

	if (!bytes)
		return;
	bytes += s->address - c->base;
	memset(bytes, 0xdb, head);
	if (s->bytes > head)
		madvise(bytes + head, s->bytes - head, MADV_DONTNEED);
}

static void slot_free(struct arena *a, struct slot *s)
{
	bool mapped = is_mapped((enum block_kind)s->kind);

	if (unlikely(standin_async))
		poison(s);
	a->used[s->device] -= cost_of((enum block_kind)s->kind, s->bytes);
	s->bytes = 0;
	s->next = a->free[mapped][s->class];
	a->free[mapped][s->class] = s;
}

static bool is_hidden(const struct slot *s)
{
	return s->kind == BLOCK_ARRAY || s->kind == BLOCK_PHYSICAL || s->kind == BLOCK_GRAPH ||
	       s->kind == BLOCK_LEAVING;
}

static CUresult may_free(const struct slot *s, enum free_by by)
{
	if (by == FREE_BY_OWNER)
		return CUDA_SUCCESS;
	if (is_hidden(s) || s->kind == BLOCK_IPC || s->kind == BLOCK_MODULE)
		return CUDA_ERROR_INVALID_VALUE;
	if (by == FREE_IN_STREAM && s->kind == BLOCK_MANAGED)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (by == FREE_IN_STREAM && s->kind == BLOCK_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult heap_free(CUdeviceptr address, enum free_by by)
{
	struct chunk *c = chunk_of(address);
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	unsigned short pool = 0;
	CUdeviceptr offset;
	struct slot *s;
	size_t bytes;

	if (unlikely(!c))
		return r;
	offset = address - c->base;
	if (unlikely(offset & (((CUdeviceptr)1 << c->shift) - 1)))
		return r;
	s = &c->slots[offset >> c->shift];
	lock(c->arena);
	bytes = s->bytes;
	if (likely(bytes)) {
		r = likely(s->kind == BLOCK_DEVICE) ? CUDA_SUCCESS : may_free(s, by);
		if (likely(!r)) {
			pool = s->pool;
			slot_free(c->arena, s);
		}
	}
	unlock(c->arena);
	if (unlikely(pool))
		pool_take_back(pool, bytes);
	return r;
}

/* Stores the live block that contains INSIDE. Returns false if there is none. */
bool heap_find(CUdeviceptr inside, struct block *found)
{
	struct chunk *c = chunk_of(inside);
	struct slot *s;
	bool hit = false;

	if (!c)
		return false;
	s = &c->slots[(inside - c->base) >> c->shift];
	lock(c->arena);
	while (s > c->slots && !s->address)
		s--;
	if (s->bytes && inside - s->address < s->bytes && !is_hidden(s)) {
		*found = (struct block){ s->address, s->bytes, s->context, (enum block_kind)s->kind,
					 s->device,  s->pool,  s->generation };
		hit = true;
	}
	unlock(c->arena);
	return hit;
}

/* From now on queries and the pool see the block as freed. Its memory is reused only after
 * heap_left(). */
CUresult heap_leave(CUdeviceptr address, unsigned short *generation)
{
	struct chunk *c = chunk_of(address);
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	unsigned short pool = 0;
	struct slot *s;
	size_t bytes;

	if (!c || (address - c->base) & (((CUdeviceptr)1 << c->shift) - 1))
		return r;
	s = &c->slots[(address - c->base) >> c->shift];
	lock(c->arena);
	bytes = s->bytes;
	if (bytes)
		r = may_free(s, FREE_IN_STREAM);
	if (!r && !cost_of((enum block_kind)s->kind, s->bytes))
		r = CUDA_ERROR_NOT_SUPPORTED; /* memory of another process has nothing to keep */
	if (!r) {
		s->kind = BLOCK_LEAVING;
		*generation = s->generation;
		pool = s->pool;
		s->pool = 0;
	}
	unlock(c->arena);
	if (pool)
		pool_take_back(pool, bytes);
	return r;
}

void heap_left(CUdeviceptr address, unsigned short generation)
{
	struct chunk *c = chunk_of(address);
	struct slot *s = &c->slots[(address - c->base) >> c->shift];

	lock(c->arena);
	if (s->bytes && s->kind == BLOCK_LEAVING && s->generation == generation)
		slot_free(c->arena, s);
	unlock(c->arena);
}

static char *bytes_of(struct chunk *c)
{
	char *bytes = atomic_load(&c->bytes), *others = NULL;

	if (bytes)
		return bytes;
	bytes = mmap(NULL, c->size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED)
		return NULL;
	if (atomic_compare_exchange_strong(&c->bytes, &others, bytes))
		return bytes;
	munmap(bytes, c->size);
	return others;
}

/* Returns the bytes at INSIDE, or NULL if they are not all in one block that has memory. */
char *heap_bytes(CUdeviceptr inside, size_t bytes, unsigned short *generation)
{
	struct chunk *c = chunk_of(inside);
	char *found = NULL;
	struct slot *s;

	if (!c)
		return NULL;
	s = &c->slots[(inside - c->base) >> c->shift];
	lock(c->arena);
	while (s > c->slots && !s->address)
		s--;
	if (s->bytes && inside - s->address < s->bytes &&
	    bytes <= s->bytes - (inside - s->address)) {
		*generation = s->generation;
		found = bytes_of(c);
	}
	unlock(c->arena);
	return found ? found + (inside - c->base) : NULL;
}

/* Returns true if ADDRESS is in the range of a chunk, whether a block is live there or not. */
bool heap_is_heap(CUdeviceptr address)
{
	return chunk_of(address);
}

size_t heap_used(int device)
{
	size_t sum = 0;

	for (int i = 0; i <= MAX_ARENAS; i++) {
		struct arena *a = i < MAX_ARENAS ? &arenas[i] : &low_arena;

		if (!atomic_load(&a->begun))
			continue;
		lock(a);
		sum += a->used[device];
		unlock(a);
	}
	return sum;
}

/*
 * Drops the blocks of CONTEXT, which is not alive any more. An allocation checks that under its
 * arena's lock, so each one is either complete and found here, or refused. Memory of a pool
 * outlives its context.
 */
void heap_drop_context(CUcontext context)
{
	for (int i = 0; i <= MAX_ARENAS; i++) {
		struct arena *a = i < MAX_ARENAS ? &arenas[i] : &low_arena;

		if (!atomic_load(&a->begun))
			continue;
		lock(a);
		for (struct chunk *c = a->chunks; c; c = c->next)
			for (uint32_t n = 0; n < c->taken; n++) {
				struct slot *s = &c->slots[n];

				if (s->bytes && s->context == context && s->kind != BLOCK_ASYNC)
					slot_free(a, s);
			}
		unlock(a);
	}
}
