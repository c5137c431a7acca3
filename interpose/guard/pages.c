/* SPDX-License-Identifier: MIT
 *
 * Places and ends guarded blocks. Owns a range of reserved addresses for each device. A block has a
 * part of that range: its memory, and one granule that is never mapped. A companion, a small block
 * of the driver's own, is allocated and freed with each guarded block. So captures, host functions,
 * destroyed contexts and the wait for the device have the effects that the driver's calls have.
 * Must not decide what a fault means (launches.c does). Calls no driver function under a lock.
 */
#include "interpose/guard/pages.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "interpose/base/child_memory.h"
#include "interpose/base/config.h"
#include "interpose/base/range_allocator.h"
#include "interpose/cuda/captures.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/patterns.h"

#define PAGES_DEVICES 16
#define RESERVED_TIMES 4u /* a device's range of addresses is so many times its memory */
#define RESERVED_MIN (UINT64_C(1) << 34)
#define FREED_MAX 65536u  /* freed blocks whose addresses are kept */
#define SMALL_BYTES 65536u
#define SMALL_SAMPLE 16u  /* by default one of so many smaller blocks is guarded */
#define EXTRA_SHARE 8u    /* guards take at most this part of a device */
#define SPARE_SHARE 16u   /* memory of freed blocks, for later ones: at most this part */
#define SPARES 1024u
#define ALIGN 256u        /* what CUDA promises of each block */
#define ATTRIBUTE_TEXTURE_ALIGNMENT 14
#define ATTRIBUTE_RDMA_WITH_VMM 110

enum page_state {
	PAGE_LIVE,
	PAGE_FREEING, /* claimed by a thread that may end it */
	PAGE_LEAVING, /* freed while work may still use it */
	PAGE_FREED,   /* without memory */
};

struct page_block {
	struct page_block *older, *newer; /* in the list of its state */
	struct page_place place;
	uint64_t context; /* that owns the memory */
	uint64_t number;  /* blocks in the list of live ones have increasing numbers */
	CUmemGenericAllocationHandle memory;
	uint32_t node;    /* of the range */
	int device;
	enum page_state state;
};

struct page_list {
	struct page_block *oldest, *newest;
	uint32_t count;
};

/* The addresses of a device. */
struct page_range {
	uint64_t base; /* 0: none */
	uint64_t granule, total;
	uint64_t extra; /* bytes that live blocks take beyond those requested */
	uint64_t align; /* of blocks: that of textures, if it is larger than that of blocks */
	uint64_t spare_bytes;
	uint32_t spares;
	struct page_spare {
		CUmemGenericAllocationHandle memory;
		uint64_t bytes;
		bool filled;
	} spare[SPARES]; /* memory of freed blocks, the oldest first */
	uint32_t companions;
	struct companion {
		uint64_t address, context;
	} companion[SPARES]; /* of freed blocks */
	uint64_t leaving; /* bytes of the blocks that leave */
	bool rdma;
	_Atomic bool known; /* addresses were reserved, or could not be */
	struct range_allocator parts; /* units are granules */
};

struct pages {
	struct lock lock;
	struct arena arena;
	_Atomic uint64_t low, high; /* the lowest and the highest address of the reserved ranges */
	_Atomic uint64_t allocations; /* for the sample */
	uint64_t numbers;
	_Atomic uint64_t granted; /* a bit for each device that may access all blocks */
	struct page_list live, leaving, freed;
	struct page_range device[PAGES_DEVICES];
};

static struct pages *_Atomic state; /* in memory that a fork wipes: a child has no driver */

static struct pages *pages_make(void)
{
	struct pages *none = NULL, *made;
	KEEP_ERRNO;

	made = child_memory_map(sizeof(*made));
	if (!made || atomic_compare_exchange_strong(&state, &none, made))
		return made;
	munmap(made, sizeof(*made));
	return none;
}

/* Takes the lock. Returns NULL if there are no guarded blocks, or in a signal handler that
 * interrupted gpuleak: the lock may be this thread's. */
static struct pages *pages_enter(void)
{
	struct pages *pages = atomic_load_explicit(&state, memory_order_acquire);

	if (!pages || thread_self.busy)
		return NULL;
	thread_self.busy = recorder_stack_pointer();
	lock_take(&pages->lock);
	return pages;
}

static void pages_leave(struct pages *const *pages)
{
	if (!*pages)
		return;
	lock_give(&(*pages)->lock);
	thread_self.busy = 0;
}
#define ENTER_PAGES struct pages *pages __attribute__((cleanup(pages_leave))) = pages_enter()

/* ---- lists and look-ups; Locking: need the lock ---- */

static void list_add(struct page_list *list, struct page_block *block, enum page_state now)
{
	block->state = now;
	block->older = list->newest;
	block->newer = NULL;
	*(list->newest ? &list->newest->newer : &list->oldest) = block;
	list->newest = block;
	list->count++;
}

static void list_remove(struct page_list *list, struct page_block *block)
{
	*(block->older ? &block->older->newer : &list->oldest) = block->newer;
	*(block->newer ? &block->newer->older : &list->newest) = block->older;
	list->count--;
}

/* Returns the block whose part contains ADDRESS, or NULL. */
static struct page_block *block_around(struct pages *pages, uint64_t address)
{
	for (int i = 0; i < PAGES_DEVICES; i++) {
		struct page_range *range = &pages->device[i];
		uint32_t first, units, node;

		if (!range->base || address < range->base ||
		    (address - range->base) / range->granule >= range->parts.units)
			continue;
		if (!range_lookup(&range->parts,
				  (uint32_t)((address - range->base) / range->granule), &first,
				  &units, &node))
			return NULL;
		return (struct page_block *)(uintptr_t)*range_note(&range->parts, node);
	}
	return NULL;
}

static void block_forget(struct pages *pages, struct page_block *block)
{
	range_free(&pages->device[block->device].parts, block->node);
	arena_give(&pages->arena, block, sizeof(*block));
}

static bool forget_oldest(struct pages *pages)
{
	struct page_block *oldest = pages->freed.oldest;

	if (!oldest)
		return false;
	list_remove(&pages->freed, oldest);
	block_forget(pages, oldest);
	return true;
}

bool pages_may_have(uint64_t address)
{
	struct pages *pages = atomic_load_explicit(&state, memory_order_acquire);

	return pages && address < atomic_load_explicit(&pages->high, memory_order_relaxed) &&
	       address >= atomic_load_explicit(&pages->low, memory_order_relaxed);
}

bool pages_any(void)
{
	struct pages *pages = atomic_load_explicit(&state, memory_order_acquire);

	return pages && atomic_load_explicit(&pages->high, memory_order_relaxed);
}

bool pages_lookup(uint64_t address, struct page_place *ret)
{
	struct page_block *block;

	if (!pages_may_have(address))
		return false;
	ENTER_PAGES;
	block = pages ? block_around(pages, address) : NULL;
	if (!block)
		return false;
	*ret = block->place;
	ret->live = block->state <= PAGE_FREEING;
	return true;
}

uint64_t pages_unseen(int device)
{
	ENTER_PAGES;

	return pages && device >= 0 && device < PAGES_DEVICES
		       ? pages->device[device].extra + pages->device[device].spare_bytes +
				 pages->device[device].leaving
		       : 0;
}

/* ---- memory of freed blocks: to create memory takes as long as all other steps together ---- */

/* Locking: needs the lock. */
static struct page_spare spare_remove(struct page_range *range, uint32_t index)
{
	struct page_spare ret = range->spare[index];

	range->spare_bytes -= ret.bytes;
	memmove(&range->spare[index], &range->spare[index + 1],
		(--range->spares - index) * sizeof(ret));
	return ret;
}

/* Takes memory of BYTES of the newest freed block that had so much. Its handle is 0 if no block
 * did. */
static struct page_spare spare_take(int device, uint64_t bytes)
{
	struct page_range *range;
	ENTER_PAGES;

	range = pages ? &pages->device[device] : NULL;
	for (uint32_t i = range ? range->spares : 0; i-- > 0;)
		if (range->spare[i].bytes == bytes)
			return spare_remove(range, i);
	return (struct page_spare){ .memory = 0 };
}

/* Takes the newest companion of a freed block of CONTEXT. Returns 0 if none is left. */
static uint64_t companion_take(int device, uint64_t context)
{
	struct page_range *range;
	uint64_t ret;
	ENTER_PAGES;

	range = pages ? &pages->device[device] : NULL;
	for (uint32_t i = range ? range->companions : 0; i-- > 0;)
		if (range->companion[i].context == context) {
			ret = range->companion[i].address;
			range->companion[i] = range->companion[--range->companions];
			return ret;
		}
	return 0;
}

/* Keeps the companion ADDRESS. Returns false if there is no room. */
static bool companion_keep(int device, uint64_t address, uint64_t context)
{
	struct page_range *range;
	ENTER_PAGES;

	range = pages ? &pages->device[device] : NULL;
	if (!range || range->companions == SPARES)
		return false;
	range->companion[range->companions++] = (struct companion){ address, context };
	return true;
}

/* Takes the oldest memory if more than KEPT bytes are kept, or as many as possible. */
static CUmemGenericAllocationHandle spare_oldest(int device, uint64_t kept)
{
	struct page_range *range;
	ENTER_PAGES;

	range = pages ? &pages->device[device] : NULL;
	if (!range || !range->spares || (range->spare_bytes <= kept && range->spares < SPARES))
		return 0;
	return spare_remove(range, 0).memory;
}

/* Returns memory of freed blocks to the driver, until at most KEPT bytes are kept. */
static bool spares_release(int device, uint64_t kept)
{
	CUmemGenericAllocationHandle memory;
	bool ret = false;

	while ((memory = spare_oldest(device, kept)) != 0)
		ret |= CUDA_REAL(cuMemRelease)(memory) == CUDA_SUCCESS;
	return ret;
}

bool pages_relieve(void)
{
	bool ret = false;

	for (int device = 0; pages_any() && device < PAGES_DEVICES; device++)
		ret |= spares_release(device, 0);
	return ret;
}

/* ---- a device's range of addresses ---- */

static int attribute_of(int attribute, int device)
{
	used_cuDeviceGetAttribute *get = CUDA_USED(cuDeviceGetAttribute);
	int value = 0;

	return get && get(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

static CUmemAllocationProp memory_of(int device, bool rdma)
{
	return (CUmemAllocationProp){ .type = 1, .location = { LOCATION_DEVICE, device },
				      .allocFlags.gpuDirectRDMACapable = rdma };
}

/* Reserves addresses for RANGE, fewer if so many are not free. */
static bool addresses_reserve(struct page_range *range, int device)
{
	const CUmemAllocationProp prop = memory_of(device, false);
	used_cuMemGetAllocationGranularity *granularity =
		CUDA_USED(cuMemGetAllocationGranularity);
	__auto_type reserve = CUDA_REAL(cuMemAddressReserve);
	uint64_t bytes, textures = (uint64_t)attribute_of(ATTRIBUTE_TEXTURE_ALIGNMENT, device);
	CUdeviceptr base = 0;
	size_t granule = 0;

	range->total = cuda_device_total(device);
	if (!reserve || !granularity || !CUDA_REAL(cuMemCreate) || !CUDA_REAL(cuMemMap) ||
	    !CUDA_REAL(cuMemUnmap) || !CUDA_USED(cuMemSetAccess) ||
	    granularity(&granule, &prop, 0) != CUDA_SUCCESS || !granule)
		return false;
	bytes = RESERVED_TIMES * range->total;
	bytes = (bytes > RESERVED_MIN ? bytes : RESERVED_MIN) / granule * granule;
	while (reserve(&base, bytes, 0, 0, 0) != CUDA_SUCCESS) {
		bytes = bytes / 2 / granule * granule;
		if (bytes < range->total / EXTRA_SHARE || !bytes)
			return false;
	}
	range->base = base;
	range->granule = granule;
	range->parts.units = (uint32_t)(bytes / granule);
	range->rdma = attribute_of(ATTRIBUTE_RDMA_WITH_VMM, device);
	range->align = textures > ALIGN && !(textures & (textures - 1)) ? textures : ALIGN;
	return true;
}

/* Makes DEVICE's range unless it exists. If another thread does so at the same time, the addresses
 * of one of them stay reserved and unused. */
static bool ensure_range(int device)
{
	struct page_range range = { 0 }, *to = &atomic_load(&state)->device[device];
	bool reserved = !atomic_load_explicit(&to->known, memory_order_acquire) &&
			addresses_reserve(&range, device);
	ENTER_PAGES;

	if (!pages || to->known)
		return pages && to->base;
	*to = range;
	if (!reserved || !range_init(&to->parts, &pages->arena, range.parts.units))
		to->base = 0;
	atomic_store_explicit(&to->known, true, memory_order_release);
	if (!to->base)
		return false;
	if (!pages->low || to->base < pages->low)
		atomic_store(&pages->low, to->base);
	if (to->base + to->parts.units * to->granule > pages->high)
		atomic_store(&pages->high, to->base + to->parts.units * to->granule);
	return true;
}

/* ---- which blocks are guarded ---- */

static bool sampled(struct pages *pages, uint64_t bytes)
{
	uint64_t every = config.guard_sample;

	if (!every)
		every = bytes >= SMALL_BYTES ? 1 : SMALL_SAMPLE;
	return every == 1 || atomic_fetch_add(&pages->allocations, 1) % every == 0;
}

/* Fills in LIST with the devices that may access memory of DEVICE: those that the process uses.
 * Returns their number; 0: one of them cannot. */
static size_t access_list(int device, uint64_t devices, CUmemAccessDesc list[PAGES_DEVICES])
{
	used_cuDeviceCanAccessPeer *can = CUDA_USED(cuDeviceCanAccessPeer);
	size_t count = 1;
	int able;

	list[0] = (CUmemAccessDesc){ { LOCATION_DEVICE, device }, ACCESS_READ_WRITE };
	for (int other = 0; other < PAGES_DEVICES; other++) {
		if (other == device || !(devices >> other & 1))
			continue;
		if (!can || can(&able, other, device) != CUDA_SUCCESS || !able)
			return 0;
		list[count++] = (CUmemAccessDesc){ { LOCATION_DEVICE, other }, ACCESS_READ_WRITE };
	}
	return count;
}

static uint64_t used_devices(void)
{
	struct recorder *recorder = recorder_now();

	return recorder ? atomic_load_explicit(&recorder->devices_met, memory_order_relaxed) : 0;
}

/* ---- allocation ---- */

/* Returns GPULEAK_GUARD_ALIGN, or the next power of two; by default that of RANGE. */
static uint64_t alignment(const struct page_range *range)
{
	uint64_t align = 16;

	while (align < (uint64_t)config.guard_align)
		align *= 2;
	return config.guard_align ? align : range->align;
}

/* Takes a part of the range for BLOCK, whose size is known, and decides where the block lies. With
 * patterns, there is room for one on its other side. Returns why not, or GUARD_NOT_COUNT. */
static enum guard_not place_block(struct page_block *block, uint64_t align)
{
	struct page_place *place = &block->place;
	struct page_range *range;
	uint64_t rounded, extra, room = guard_has(GUARD_PATTERNS) ? PATTERN_ROOM : 0;
	uint32_t first;
	ENTER_PAGES;

	if (!pages)
		return GUARD_NOT_REFUSED;
	range = &pages->device[block->device];
	align = align ? align : alignment(range);
	rounded = (place->bytes + align - 1) & ~(align - 1);
	place->mapped = (rounded + room + range->granule - 1) / range->granule * range->granule;
	extra = place->mapped - place->bytes;
	if (place->mapped > range->total ||
	    range->extra + extra > range->total / EXTRA_SHARE)
		return GUARD_NOT_FULL;
	if (pages->freed.count >= FREED_MAX)
		forget_oldest(pages);
	do
		first = range_allocate(&range->parts,
				       (uint32_t)(place->mapped / range->granule) + 1, 1,
				       &block->node);
	while (first == RANGE_NONE && forget_oldest(pages));
	if (first == RANGE_NONE)
		return GUARD_NOT_ADDRESSES;
	range->extra += extra;
	place->start = range->base + first * range->granule;
	place->address = place->start + place->mapped - rounded;
	if (config.guard_side == OPTION_SIDE_BEFORE)
		place->address = place->start += range->granule;
	return GUARD_NOT_COUNT;
}

/* Gives BLOCK memory and a companion. Nothing uses the memory yet, so undoing this waits for no
 * work. */
static CUresult memory_make(struct page_block *block, const CUmemAccessDesc *access, size_t count)
{
	struct page_place *place = &block->place;
	struct pages *pages = atomic_load(&state);
	const CUmemAllocationProp prop = memory_of(block->device,
						   pages->device[block->device].rdma);
	const struct page_spare spare = spare_take(block->device, place->mapped);
	CUdeviceptr companion = companion_take(block->device, block->context);
	CUresult r = CUDA_SUCCESS;

	block->memory = spare.memory;
	place->filled = spare.filled;
	if (!block->memory)
		r = CUDA_REAL(cuMemCreate)(&block->memory, place->mapped, &prop, 0);
	if (r != CUDA_SUCCESS) {
		companion_keep(block->device, companion, block->context);
		return r;
	}
	r = CUDA_REAL(cuMemMap)(place->start, place->mapped, 0, block->memory, 0);
	if (r == CUDA_SUCCESS) {
		r = CUDA_USED(cuMemSetAccess)(place->start, place->mapped, access, count);
		if (r == CUDA_SUCCESS && !companion)
			r = CUDA_REAL(cuMemAlloc_v2)(&companion, 1);
		if (r != CUDA_SUCCESS)
			CUDA_REAL(cuMemUnmap)(place->start, place->mapped);
	}
	if (r != CUDA_SUCCESS)
		CUDA_REAL(cuMemRelease)(block->memory);
	place->companion = companion;
	return r;
}

/* Allocates BLOCK, which has its size, device and context. Returns why not, or
 * GUARD_NOT_COUNT. */
static enum guard_not block_make(struct page_block *block, uint64_t align)
{
	CUmemAccessDesc access[PAGES_DEVICES];
	size_t count = access_list(block->device, used_devices(), access);
	enum guard_not why = count ? place_block(block, align) : GUARD_NOT_PEER;
	struct page_block *made = NULL;
	CUresult r;

	if (why != GUARD_NOT_COUNT)
		return why;
	r = memory_make(block, access, count);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && pages_relieve())
		r = memory_make(block, access, count);
	ENTER_PAGES;
	if (r == CUDA_SUCCESS)
		made = arena_take(&pages->arena, sizeof(*made));
	if (made) {
		*made = *block;
		made->number = ++pages->numbers;
		*range_note(&pages->device[block->device].parts, block->node) = (uintptr_t)made;
		list_add(&pages->live, made, PAGE_LIVE);
		return GUARD_NOT_COUNT;
	}
	if (r == CUDA_SUCCESS) /* no memory for the record: the part stays taken */
		return GUARD_NOT_REFUSED;
	pages->device[block->device].extra -= block->place.mapped - block->place.bytes;
	range_free(&pages->device[block->device].parts, block->node);
	return r == CUDA_ERROR_OUT_OF_MEMORY ? GUARD_NOT_FULL : GUARD_NOT_REFUSED;
}

/* Takes the block at ADDRESS, whose state is WANTED, for the caller's free, or for its end. Returns
 * NULL if no such block begins there, or if another thread frees it. */
static struct page_block *claim_in(uint64_t address, enum page_state wanted)
{
	struct page_block *block;

	if (!pages_may_have(address))
		return NULL;
	ENTER_PAGES;
	block = pages ? block_around(pages, address) : NULL;
	if (!block || block->place.address != address || block->state != wanted)
		return NULL;
	block->state = PAGE_FREEING;
	return block;
}

/* BLOCK, which the caller has claimed, keeps its memory until pages_end(), or until its context
 * ends. */
static void leave(struct page_block *block)
{
	ENTER_PAGES;

	if (!pages || !block)
		return;
	block->place.last = launches_now();
	list_remove(&pages->live, block);
	list_add(&pages->leaving, block, PAGE_LEAVING);
	pages->device[block->device].leaving += block->place.bytes;
}

static bool serve(struct call *call, uint64_t bytes, uint64_t align, CUdeviceptr *ret)
{
	struct page_block block = { .place.bytes = bytes };
	struct pages *pages = atomic_load_explicit(&state, memory_order_acquire);
	enum guard_not why = GUARD_NOT_CAPTURE;

	if (!pages)
		pages = pages_make();
	cuda_current_context(&block.context, &block.device);
	if (!pages || !block.context || block.device < 0 || block.device >= PAGES_DEVICES ||
	    thread_self.busy)
		return false;
	if (!sampled(pages, bytes))
		why = GUARD_NOT_SAMPLED;
	else if (guard_is_excluded(call))
		why = GUARD_NOT_EXCLUDED;
	else if (captures_enter()) {
		why = ensure_range(block.device) ? block_make(&block, align)
							: GUARD_NOT_ADDRESSES;
		captures_leave();
	}
	if (why == GUARD_NOT_COUNT &&
	    !patterns_around(&block.place, block.context, block.device)) {
		leave(claim_in(block.place.address, PAGE_LIVE)); /* the fill may still come */
		why = GUARD_NOT_BUSY;
	}
	if (why != GUARD_NOT_COUNT) {
		guard_count_unguarded(why);
		return false;
	}
	guard_count_block(bytes);
	*ret = block.place.address;
	return true;
}

bool pages_alloc(struct call *call, CUdeviceptr *address, size_t bytes)
{
	KEEP_ERRNO;

	return address && bytes && bytes <= UINT64_MAX / 4 && serve(call, bytes, 0, address);
}

/* The driver's pitch is a multiple of the alignment of textures, so that each row may be one. */
bool pages_alloc_pitch(struct call *call, CUdeviceptr *address, size_t *pitch, size_t width,
		       size_t height, unsigned int element)
{
	uint64_t context, row, align;
	int device;
	KEEP_ERRNO;

	cuda_current_context(&context, &device);
	align = device < 0 ? 0 : (uint64_t)attribute_of(ATTRIBUTE_TEXTURE_ALIGNMENT, device);
	if (!address || !pitch || !width || !height || (element != 4 && element != 8 &&
	    element != 16) || align < 256 || align & (align - 1) || width > UINT32_MAX)
		return false;
	row = (width + align - 1) & ~(align - 1);
	if (height > UINT64_MAX / 4 / row || !serve(call, row * height, align, address))
		return false;
	*pitch = row;
	return true;
}

/* ---- free ---- */

/* BLOCK has ended and leaves the list FROM. Returns true if its memory is kept. */
static bool block_ended(struct page_block *block, struct page_list *from, bool unmapped,
			bool filled)
{
	struct page_range *range;
	ENTER_PAGES;

	if (!pages)
		return false;
	range = &pages->device[block->device];
	list_remove(from, block);
	if (from == &pages->leaving)
		range->leaving -= block->place.bytes;
	range->extra -= block->place.mapped - block->place.bytes;
	if (!unmapped) {
		block->state = PAGE_FREED;
		return false;
	}
	list_add(&pages->freed, block, PAGE_FREED);
	if (range->spares == SPARES)
		return false;
	range->spare[range->spares++] = (struct page_spare){ block->memory, block->place.mapped,
							    filled };
	range->spare_bytes += block->place.mapped;
	return true;
}

/* Takes BLOCK's memory away. No work uses it any more. If the driver refuses, its addresses are
 * never used again. */
static void block_end(struct page_block *block, struct page_list *from, bool filled)
{
	const int device = block->device;
	const CUmemGenericAllocationHandle memory = block->memory;
	CUresult r = CUDA_REAL(cuMemUnmap)(block->place.start, block->place.mapped);

	if (!block_ended(block, from, r == CUDA_SUCCESS, filled))
		CUDA_REAL(cuMemRelease)(memory);
	spares_release(device, atomic_load(&state)->device[device].total / SPARE_SHARE);
}

/* Ends a claim: BLOCK is in state NOW. */
static void unclaim(struct page_block *block, enum page_state now)
{
	ENTER_PAGES;

	if (pages)
		block->state = now;
}

/* Waits for CONTEXT as the driver's free does, unless a stream is captured: this call would
 * invalidate the capture. */
static void wait_for_context(uint64_t context)
{
	if (!captures_enter())
		return;
	captures_leave();
	if (!cuda_push_context((CUcontext)(uintptr_t)context))
		return;
	CUDA_REAL(cuCtxSynchronize)();
	cuda_pop_context();
}

/* A STREAM is not captured: the driver refuses to free such memory in a graph. */
bool pages_free(void *real, CUdeviceptr address, const CUstream *stream, bool leaves,
		CUresult *ret)
{
	struct page_block *block = claim_in(address, PAGE_LIVE);
	uint64_t launched = launches_now();
	KEEP_ERRNO;

	if (!block)
		return false;
	*ret = stream ? DRIVER(cuMemFreeAsync, real)(block->place.companion, *stream)
		      : DRIVER(cuMemFree_v2, real)(block->place.companion);
	if (*ret != CUDA_SUCCESS) {
		unclaim(block, PAGE_LIVE);
		return true;
	}
	if (stream && leaves) {
		block->place.companion = 0;
		leave(block);
		return true;
	}
	wait_for_context(block->context);
	launches_done_until(block->context, launched);
	block->place.last = launched;
	block_end(block, &atomic_load(&state)->live, false);
	return true;
}

void pages_freed(uint64_t address, uint64_t last)
{
	struct page_block *block = claim_in(address, PAGE_LIVE);

	if (!block)
		return;
	leave(block);
	block->place.last = last;
}

void pages_end(uint64_t address, bool filled)
{
	struct page_block *block = claim_in(address, PAGE_LEAVING);

	if (!block)
		return;
	if (block->place.companion &&
	    !companion_keep(block->device, block->place.companion, block->context))
		CUDA_REAL(cuMemFree_v2)(block->place.companion);
	block_end(block, &atomic_load(&state)->leaving, filled);
}

/* ---- contexts and devices ---- */

/* Takes a block of CONTEXT out of LIST. */
static struct page_block *claim_of(struct page_list *list, uint64_t context)
{
	struct page_block *block;
	ENTER_PAGES;

	block = pages ? list->oldest : NULL;
	while (block && (block->context != context || block->state == PAGE_FREEING))
		block = block->newer;
	if (block)
		block->state = PAGE_FREEING;
	return block;
}

void pages_context_gone(uint64_t context)
{
	struct pages *pages = atomic_load_explicit(&state, memory_order_acquire);
	struct page_block *block;
	KEEP_ERRNO;

	if (!pages)
		return;
	launches_context_gone(context);
	while ((block = claim_of(&pages->live, context)) != NULL)
		block_end(block, &pages->live, false);
	while ((block = claim_of(&pages->leaving, context)) != NULL)
		block_end(block, &pages->leaving, false);
	for (int device = 0; device < PAGES_DEVICES; device++)
		while (companion_take(device, context))
			;
	pages_relieve();
}

/* Stores the next live block after NUMBER. A block that ends meanwhile only lets the driver
 * refuse. */
static bool next_live(struct page_block *ret)
{
	struct page_block *block;
	ENTER_PAGES;

	block = pages ? pages->live.oldest : NULL;
	while (block && block->number <= ret->number)
		block = block->newer;
	if (block)
		*ret = *block;
	return block;
}

void pages_grant_new_devices(void)
{
	struct pages *all = atomic_load_explicit(&state, memory_order_acquire);
	uint64_t devices = used_devices(), before;
	struct page_block block = { .number = 0 };
	CUmemAccessDesc access[PAGES_DEVICES];
	size_t count;

	if (!all || !(devices & ~atomic_load_explicit(&all->granted, memory_order_relaxed)))
		return;
	before = atomic_fetch_or(&all->granted, devices);
	while (devices & ~before && next_live(&block)) {
		count = access_list(block.device, devices, access);
		if (count)
			CUDA_USED(cuMemSetAccess)(block.place.start, block.place.mapped, access,
						  count);
	}
}
