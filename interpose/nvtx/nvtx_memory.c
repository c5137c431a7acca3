/* SPDX-License-Identifier: MIT
 *
 * NVTX's extension for memory (nvToolsExtMem.h). A program registers a heap, memory that its own
 * allocator divides, and regions in it: these are recorded as suballocations. It may also name
 * memory. Structs of the program are only read. If another tool is the injection, its functions are
 * called first, and its results are returned. Must not create a recorder.
 */
#include <string.h>

#include "interpose/block/queries.h"
#include "interpose/dispatch/observations.h"
#include "interpose/nvtx/nvtx.h"
#include "interpose/pytorch/suballocations.h"
#include "interpose/recorder/named_ranges.h"
#include "ledger/kind_table.h"

#define MODULE_MEMORY 1u
#define COMPATIBLE 0x0102u
#define SEGMENT_CORE 1u
#define TYPE_ADDRESSES 1u /* NVTX_MEM_TYPE_VIRTUAL_ADDRESS */
#define NO_HANDLE ((const void *)-1) /* NVTX_MEM_HEAP_HANDLE_NO_TOOL */
#define PROBES_MAX 64u

/* nvtxMemVirtualRangeDesc_t */
struct span {
	size_t bytes;
	uint64_t start;
};

/* nvtxMemHeapDesc_t */
struct heap {
	uint16_t compatible, size;
	uint32_t reserved, usage, type;
	size_t span_size;
	const struct span *span;
	uint32_t category, message_type;
	const void *message;
};

/* What nvtxMemRegionsRegisterBatch_t, ...ResizeBatch_t, ...UnregisterBatch_t and ...NameBatch_t
 * begin with, and the array of elements that follows. `type` is of the elements, or of refs. */
struct batch {
	uint16_t compatible, size;
	uint32_t type;
};
struct elements {
	size_t count, size;
	const uint8_t *first;
};
struct batch_in_heap {
	struct batch batch;
	const void *heap;
	struct elements elements;
	uint64_t *handles; /* of the regions, for the program; may be NULL */
};
struct batch_anywhere {
	struct batch batch;
	struct elements elements;
};

/* nvtxMemRegionNameDesc_t */
struct region_name {
	uint32_t ref_type, name_type;
	uint64_t region;
	const void *name;
	uint32_t category, reserved;
};

#define IS_KNOWN(what) \
	((what) && (what)->compatible == COMPATIBLE && (what)->size >= sizeof(*(what)))
#define IS_KNOWN_BATCH(what)                                                                 \
	((what) && (what)->batch.compatible == COMPATIBLE && (what)->batch.size >= sizeof(*(what)))

/* What a batch is about. */
struct batch_work {
	const struct caller *caller;
	const struct nvtx_heap *heap;
	uint64_t devices; /* see struct nvtx_heaps */
};

/* Calls EACH for the elements of a batch, which have BYTES or more. Counts as TROUBLE what it
 * returns false for. */
static void for_each(const struct elements *elements, size_t bytes, enum ledger_trouble trouble,
		     bool (*each)(const struct batch_work *work, const void *element),
		     const struct batch_work *work)
{
	bool readable = elements->first && elements->size >= bytes;

	for (size_t i = 0; i < elements->count; i++)
		if (!readable || !each(work, elements->first + i * elements->size))
			observe_trouble(trouble);
}

/* ---- the table of heaps; the caller holds its lock ---- */

/* Returns the entry of HANDLE or, if ADD, one for it. NULL: none, or no room */
static struct nvtx_heap *entry_of(struct nvtx_heaps *heaps, const void *handle, bool add)
{
	uint32_t hash = table_hash((uint64_t)(uintptr_t)handle);
	struct nvtx_heap *unused = NULL;

	for (uint32_t probe = 0; probe < PROBES_MAX; probe++) {
		struct nvtx_heap *heap = &heaps->heap[(hash + probe) % NVTX_HEAPS];

		if (heap->handle == handle && (heap->bytes || !unused))
			return heap->bytes || add ? heap : NULL;
		if (!heap->bytes && !unused)
			unused = heap;
		if (!heap->handle)
			break;
	}
	return add ? unused : NULL;
}

/* The names of hooks[HOOK_HEAPS ...]; the last one is for all names that have no room. They belong
 * to the process, as the names of ranges do. */
static struct { uint32_t name; char call[sizeof(LEDGER_HEAP_CALL) + RANGE_NAME_BYTES]; }
	calls[HEAP_NAMES];

static struct hook *hook_of(uint32_t name)
{
	const char *text = "other heaps";
	uint32_t i = 0, length = (uint32_t)strlen(text);
	struct hook *hook;

	while (i < HEAP_NAMES - 1 && calls[i].call[0] && calls[i].name != name)
		i++;
	hook = &hooks[HOOK_HEAPS + i];
	if (hook->name)
		return hook;
	if (i < HEAP_NAMES - 1 && name)
		text = range_name_text(name, &length);
	calls[i].name = name;
	memcpy(calls[i].call, LEDGER_HEAP_CALL, sizeof(LEDGER_HEAP_CALL) - 1);
	memcpy(calls[i].call + sizeof(LEDGER_HEAP_CALL) - 1, text, length);
	hook->kind = LEDGER_KIND_SUBALLOCATION;
	hook->api = API_PYTORCH; /* memory of CUDA's devices */
	hook->name = calls[i].call;
	return hook;
}

/* Counts that a block of the call site SITE has become a heap with NAME, a ref. */
static void count_block(struct recorder *recorder, uint32_t site, uint32_t name)
{
	struct nvtx_heaps *heaps = recorder->heaps;
	const struct ledger_heaps new = { .site = site, .name = name };
	uint32_t i = 0, ref;

	while (i < heaps->record_count &&
	       (heaps->record[i]->site != site || heaps->record[i]->name != name))
		i++;
	if (i == heaps->record_count) {
		ref = i < NVTX_HEAP_RECORDS ? ledger_add_heaps(&recorder->writer, &new) : 0;
		if (!ref)
			return;
		heaps->record[heaps->record_count++] = ledger_at(&recorder->writer, ref);
	}
	shared_store(heaps->record[i]->blocks, heaps->record[i]->blocks + 1);
}

/* ---- heaps ---- */

/* Finds the block of linear memory in which ADDRESS lies. */
static bool find_block(struct recorder *recorder, uint64_t address, struct ledger_block *ret)
{
	const struct ledger_site *site;
	const struct ledger_string *name;
	const struct kind *kind;
	uint64_t span;

	if (!query_block(recorder, address, false, ret, &span))
		return false;
	site = ledger_at(&recorder->writer, ret->site);
	name = ledger_at(&recorder->writer, site->kind);
	kind = kind_find(name->bytes, name->length);
	return kind && kind->address == KIND_ADDRESS_LINEAR;
}

/* Adds HEAP, which is called NAME and lies in BLOCK. Returns false if it has no room. Stores in
 * *RET_BEFORE the live heap that had its handle, or one of 0 bytes. */
static bool add_heap(struct recorder *recorder, const struct nvtx_heap *heap, uint32_t name,
		     const struct ledger_block *block, struct nvtx_heap *ret_before)
{
	struct nvtx_heaps *heaps = recorder->heaps;
	uint32_t ref = range_name_ref(recorder, name);
	struct nvtx_heap *entry;
	bool named;

	HOLD(&heaps->lock);
	entry = entry_of(heaps, heap->handle, true);
	if (!entry)
		return false;
	*ret_before = *entry;
	*entry = *heap;
	entry->hook = hook_of(name);
	shared_store(heaps->devices,
		     heaps->devices | (uint64_t)1 << ((unsigned int)heap->device % 64));
	if (ref && query_set_name(recorder, block->address, ref, &named) && !named)
		count_block(recorder, block->site, ref);
	return true;
}

/* Records that DESC of DOMAIN was registered and has HANDLE. */
static bool record_heap(const void *domain, const struct heap *desc, const void *handle)
{
	LEAVE_AT_END struct recorder *recorder = recorder_now() ? recorder_enter() : NULL;
	struct nvtx_heap heap = { .handle = handle, .start = desc->span->start,
				  .bytes = desc->span->bytes }, before = { 0 };
	uint32_t name = desc->message ? nvtx_message_name(desc->message_type, desc->message)
				      : nvtx_handle_name(domain);
	const struct ledger_site *site;
	struct ledger_block block;

	if (!recorder)
		return true; /* then there is no GPU memory that it could lie in */
	if (!heap.bytes || !find_block(recorder, heap.start, &block))
		return false;
	site = ledger_at(&recorder->writer, block.site);
	heap.device = site->device;
	if (!add_heap(recorder, &heap, name ? name : range_name("NVTX heap"), &block, &before))
		return false;
	if (before.bytes)
		suballocations_end(recorder, SUBALLOCATOR_NVTX, before.start, before.bytes,
				   before.device);
	return !before.bytes;
}

static uint64_t heap_registered(const void *domain, const struct heap *desc, uint64_t r)
{
	bool known = IS_KNOWN(desc) && desc->type == TYPE_ADDRESSES && desc->span &&
		     desc->span_size >= sizeof(*desc->span);

	if (r == NVTX_NO_RESULT) /* the address of a heap is its handle, as that of a region is */
		r = known ? desc->span->start : (uint64_t)(uintptr_t)NO_HANDLE;
	if (!known || !record_heap(domain, desc, (const void *)(uintptr_t)r))
		observe_trouble(LEDGER_TROUBLE_BAD_HEAPS);
	return r;
}

/* Ends the regions of HANDLE's heap and, if IS_OVER, the heap. HANDLE NULL: the regions of all
 * heaps. */
static uint64_t heap_emptied(const void *handle, bool is_over, uint64_t r)
{
	ENTER_PART(heaps, recorder_now());
	struct nvtx_heap *heap = recorder ? entry_of(recorder->heaps, handle, false) : NULL;
	bool is_all = recorder && !handle && !is_over;

	for (int i = 0; is_all && i < 64 && recorder->heaps->devices >> i; i++)
		suballocations_end(recorder, SUBALLOCATOR_NVTX, 0, UINT64_MAX, i);
	if (heap) {
		suballocations_end(recorder, SUBALLOCATOR_NVTX, heap->start, heap->bytes,
				   heap->device);
		heap->bytes = is_over ? 0 : heap->bytes;
	} else if (recorder && !is_all) {
		observe_trouble(LEDGER_TROUBLE_BAD_HEAPS);
	}
	return r;
}

/* ---- regions ---- */

/* Ends the region at the address ELEMENT. Returns false if it is not known. */
static bool end_region(const struct batch_work *work, const void *element)
{
	uint64_t address = *(const uint64_t *)element;

	for (int device = 0; device < 64 && work->devices >> device; device++)
		if (work->devices >> device & 1 &&
		    record_region_freed(address, device))
			return true;
	return false;
}

/* Copies the heap of HANDLE to *RET or, if HANDLE is NULL, the heap that contains ADDRESS. If the
 * table has no such heap, the bytes of *RET are 0. Returns false if nothing is recorded. */
static bool find_heap(const void *handle, uint64_t address, struct nvtx_heap *ret)
{
	ENTER_PART(heaps, recorder_now());
	const struct nvtx_heap *heap = recorder && handle ? entry_of(recorder->heaps, handle, false)
							  : NULL;

	for (uint32_t i = 0; recorder && !handle && !heap && i < NVTX_HEAPS; i++)
		if (address - recorder->heaps->heap[i].start < recorder->heaps->heap[i].bytes)
			heap = &recorder->heaps->heap[i];
	*ret = heap ? *heap : (struct nvtx_heap){ 0 };
	return recorder != NULL;
}

static bool add_region(const struct batch_work *work, const void *element)
{
	const struct nvtx_heap *heap = work->heap;
	const struct span *region = element;
	struct call call = { .hook = heap->hook, .caller = work->caller };
	uint64_t offset = region->start - heap->start;

	if (!region->bytes || offset >= heap->bytes || region->bytes > heap->bytes - offset)
		return false;
	record_region(&call, region->start, region->bytes, heap->device);
	return true;
}

/* A region with a new size counts as freed and allocated by this call. */
static bool resize_region(const struct batch_work *work, const void *element)
{
	const struct span *region = element;
	struct nvtx_heap heap;
	struct batch_work work_in_heap = *work;

	work_in_heap.heap = &heap;
	return end_region(work, &region->start) && find_heap(NULL, region->start, &heap) &&
	       add_region(&work_in_heap, region);
}

static bool name_region(const struct batch_work *work, const void *element)
{
	const struct region_name *name = element;
	uint32_t number = nvtx_message_name(name->name_type, name->name), ref;
	LEAVE_AT_END struct recorder *recorder = recorder_enter();
	bool named;

	if (!recorder)
		return true;
	ref = range_name_ref(recorder, number);
	for (int device = 0; device < 64 && work->devices >> device; device++)
		if (work->devices >> device & 1 &&
		    suballocation_set_name(recorder, SUBALLOCATOR_NVTX, name->region, device, ref))
			return true;
	query_set_name(recorder, name->region, ref, &named);
	return true; /* an address that gpuleak does not know is no error: it may be host memory */
}

static uint64_t regions_registered(const struct caller *caller, const struct batch_in_heap *batch,
				   uint64_t r)
{
	const void *handle = IS_KNOWN_BATCH(batch) && batch->heap &&
			     batch->batch.type == TYPE_ADDRESSES ? batch->heap : NO_HANDLE;
	struct nvtx_heap heap;
	const struct batch_work work = { .caller = caller, .heap = &heap };

	if (!IS_KNOWN_BATCH(batch))
		observe_trouble(LEDGER_TROUBLE_BAD_REGIONS);
	else if (find_heap(handle, 0, &heap))
		for_each(&batch->elements, sizeof(struct span), LEDGER_TROUBLE_BAD_REGIONS,
			 add_region, &work);
	if (r != NVTX_NO_RESULT || !IS_KNOWN_BATCH(batch) || !batch->handles ||
	    batch->elements.size < sizeof(struct span))
		return r;
	for (size_t i = 0; batch->elements.first && i < batch->elements.count; i++)
		batch->handles[i] = ((const struct span *)(batch->elements.first +
							   i * batch->elements.size))->start;
	return r;
}

/* For the other batches: regions end, are resized, or get a name. */
static uint64_t regions_changed(const struct caller *caller, const struct batch_anywhere *batch,
				size_t bytes, bool (*each)(const struct batch_work *, const void *),
				uint64_t r)
{
	const struct recorder *recorder = recorder_now();
	struct batch_work work = { .caller = caller };

	if (!recorder || !IS_KNOWN_BATCH(batch))
		return r;
	work.devices = shared_load(recorder->heaps->devices);
	for_each(&batch->elements, bytes, LEDGER_TROUBLE_UNKNOWN_SUBALLOCATION_FREES, each, &work);
	return r;
}

/* ---- NVTX's functions ---- */

/* X(number in the module, name, parameters, arguments, result): as in nvtx.c. */
#define MEMORY_FUNCTIONS(X)                                                                  \
	X(0, heap_register, (const void *domain, const struct heap *heap), (domain, heap),   \
	  heap_registered(domain, heap, r))                                                  \
	X(1, heap_unregister, (const void *domain, const void *heap), (domain, heap),        \
	  heap_emptied(heap, true, r))                                                       \
	X(2, heap_reset, (const void *domain, const void *heap), (domain, heap),             \
	  heap_emptied(heap, false, r))                                                      \
	X(3, regions_register, (const void *domain, const struct batch_in_heap *batch),      \
	  (domain, batch), regions_registered(CALLER, batch, r))                             \
	X(4, regions_resize, (const void *domain, const struct batch_anywhere *batch),       \
	  (domain, batch), regions_changed(CALLER, batch, sizeof(struct span),               \
				    resize_region, r))                                       \
	X(5, regions_unregister, (const void *domain, const struct batch_anywhere *batch),   \
	  (domain, batch), regions_changed(CALLER, batch, sizeof(uint64_t), end_region, r))  \
	X(6, regions_name, (const void *domain, const struct batch_anywhere *batch),         \
	  (domain, batch), regions_changed(CALLER, batch, sizeof(struct region_name),        \
				    name_region, r))

enum memory_function {
#define X(number, name, ...) FUNCTION_##name,
	MEMORY_FUNCTIONS(X)
#undef X
	FUNCTION_COUNT
};
static _Atomic(void *) next[FUNCTION_COUNT];

#define X(number, name, parameters, arguments, result)                                       \
	NVTX_FUNCTION(next[FUNCTION_##name], name, parameters, arguments, result)
MEMORY_FUNCTIONS(X)
#undef X

/* Their numbers in the module are 0, 1, 2 ... */
static void *const functions[FUNCTION_COUNT] = {
#define X(number, name, ...) [number] = (void *)name,
	MEMORY_FUNCTIONS(X)
#undef X
};

#define IS_FUNCTION(slot) ((uintptr_t)(slot) > 1) /* 0: unused, 1: no tool has the function */

bool nvtx_memory_start(struct nvtx_extension *extension, bool others)
{
	const struct nvtx_segment *segment = extension->segments;

	if (extension->module != MODULE_MEMORY || extension->compatible != COMPATIBLE ||
	    extension->segment_count < 1 || segment->id != SEGMENT_CORE)
		return false;
	for (size_t i = 0; i < FUNCTION_COUNT && i < segment->count; i++) {
		void **slot = &segment->functions[i];

		if (others && IS_FUNCTION(*slot) && *slot != functions[i])
			atomic_store(&next[i], *slot);
		*slot = functions[i];
	}
	return true;
}
