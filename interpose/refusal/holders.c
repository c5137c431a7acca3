/* SPDX-License-Identifier: MIT
 *
 * Reads all slots of blocks and of suballocations once. Call sites are counted in a hash table of
 * fixed size. If there are suballocations, the blocks' ranges are sorted, and each suballocation
 * takes its bytes from the blocks that it lies in. A slot that changes during the read belongs to a
 * block that was just made or freed, so it is left out.
 */
#include "interpose/refusal/holders.h"

#include <string.h>
#include <sys/mman.h>

#include "interpose/base/hash.h"
#include "interpose/dispatch/api.h"
#include "interpose/recorder/memories.h"
#include "interpose/recorder/recorder.h"
#include "ledger/kind_table.h"
#include "ledger/reader.h"
#include "ledger/shared.h"

#define SITES 16384u              /* slots of the table, a power of two */
#define SITES_MAX (SITES * 3 / 4) /* further call sites are counted together */
#define RANGES_MAX 131072u
#define SORT_BY_INSERTION 16
#define BAD_DIVISIONS_MAX 40

/* An element of the table: a call site, or unused (`ref` is 0). */
struct counted_site {
	uint32_t ref;
	bool holds;     /* its blocks have memory of the class and device of this count */
	bool is_linear; /* its blocks have addresses in which suballocations may lie */
	bool is_handle; /* its blocks are handles of physical memory */
	uint64_t blocks;
	uint64_t bytes;
	uint64_t divided_bytes; /* those of `bytes` that suballocations have taken */
};

/* The memory of a live block. */
struct held_range {
	uint64_t start, end; /* for a handle: `start` is the handle, `end` is 0 */
	uint64_t left;       /* bytes that no suballocation has taken yet */
	uint64_t parent;     /* of a mapping: the handle that may count its bytes */
	struct counted_site *site;
};

struct holders_scratch {
	struct counted_site sites[SITES];
	uint32_t used[SITES_MAX]; /* indexes of the slots in use */
	uint32_t used_count;
	/* mappings and other blocks from the start, handles from the end */
	struct held_range ranges[RANGES_MAX];
};

struct counting {
	struct holders_scratch *scratch;
	struct ledger_view view;
	enum ledger_memory class;
	int device;
	uint32_t range_count, handle_count;
	bool full; /* there are more ranges than RANGES_MAX */
	struct counted_site others; /* all call sites for which the table has no room */
	struct counted_site *last;  /* adjacent slots mostly have the same call site */
};

void holders_reserve(struct recorder *recorder)
{
	const uint64_t left = ledger_address_space_left();
	struct holders_scratch *scratch;
	void *memory;

	if (left < 64 * sizeof(*scratch))
		return;
	memory = mmap(NULL, sizeof(*scratch), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	recorder->holders->scratch = memory == MAP_FAILED ? NULL : memory;
}

/* ---- call sites ---- */

static void classify(struct counting *c, const struct ledger_site *record,
		     struct counted_site *site)
{
	uint32_t length = 0, api_length = 0;
	const char *kind = ledger_string(&c->view, record->kind, &length);
	const char *api = ledger_string(&c->view, record->api, &api_length);
	const struct kind *known = kind ? kind_find(kind, length) : NULL;

	if (!known || !api || api_length < 3)
		return;
	site->holds = c->class != LEDGER_MEMORY_NONE &&
		      memory_class(api_of(api), kind, length) == c->class &&
		      (c->device < 0 || record->device < 0 || record->device == c->device);
	site->is_linear = known->address == KIND_ADDRESS_LINEAR;
	site->is_handle = known->memory == KIND_MEMORY_DEVICE &&
			  strcmp(known->name, "vmm-handle") == 0;
}

/* Returns the entry of the call site at REF, whose record is of TYPE. */
static struct counted_site *site_at(struct counting *c, uint32_t ref, enum ledger_chunk_type type)
{
	struct holders_scratch *scratch = c->scratch;
	uint32_t at = (uint32_t)(TABLE_MIX(ref) >> 40) % SITES;
	const struct ledger_site *record;

	if (c->last && c->last->ref == ref)
		return c->last;
	for (; scratch->sites[at].ref; at = (at + 1) % SITES)
		if (scratch->sites[at].ref == ref)
			return c->last = &scratch->sites[at];
	record = type == LEDGER_CHUNK_SITES ? ledger_site(&c->view, ref)
					    : ledger_suballocation_site(&c->view, ref);
	if (!record)
		return NULL;
	if (scratch->used_count == SITES_MAX) {
		c->others = (struct counted_site){
			.blocks = c->others.blocks, .bytes = c->others.bytes,
			.divided_bytes = c->others.divided_bytes,
		};
		classify(c, record, &c->others);
		return &c->others;
	}
	scratch->used[scratch->used_count++] = at;
	scratch->sites[at] = (struct counted_site){ .ref = ref };
	classify(c, record, &scratch->sites[at]);
	return c->last = &scratch->sites[at];
}

/* ---- blocks ---- */

/* Copies what is needed of the block in a slot. Returns false if the slot has no block, or changed
 * during the read. A block whose deferred free is not done still has its memory. */
static bool read_slot(const struct ledger_block *slot, struct ledger_block *ret)
{
	uint32_t state = atomic_load_explicit(&SHARED(slot->state), memory_order_acquire);

	if (LEDGER_BLOCK_STATE(state) == LEDGER_BLOCK_UNUSED)
		return false;
	ret->site = atomic_load_explicit(&SHARED(slot->site), memory_order_relaxed);
	ret->address = atomic_load_explicit(&SHARED(slot->address), memory_order_relaxed);
	ret->bytes = atomic_load_explicit(&SHARED(slot->bytes), memory_order_relaxed);
	ret->parent = atomic_load_explicit(&SHARED(slot->parent), memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&SHARED(slot->state), memory_order_relaxed) >> 8 == state >> 8;
}

static uint64_t end_of(uint64_t start, uint64_t bytes)
{
	return start + bytes < start ? UINT64_MAX : start + bytes;
}

static void add_range(struct counting *c, const struct ledger_block *block,
		      struct counted_site *site)
{
	struct held_range range = {
		.start = block->address, .end = end_of(block->address, block->bytes),
		.left = block->bytes, .parent = block->parent, .site = site,
	};

	if ((!site->is_linear && !site->is_handle) || site == &c->others)
		return;
	if (c->range_count + c->handle_count == RANGES_MAX) {
		c->full = true;
	} else if (site->is_handle) {
		range.end = 0;
		c->scratch->ranges[RANGES_MAX - ++c->handle_count] = range;
	} else {
		c->scratch->ranges[c->range_count++] = range;
	}
}

static void count_blocks(struct counting *c, bool with_ranges)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *slot;
	struct ledger_block block;

	while ((slot = ledger_next(&c->view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*slot)))) {
		struct counted_site *site;

		if (!read_slot(slot, &block) ||
		    !(site = site_at(c, block.site, LEDGER_CHUNK_SITES)) || !site->holds)
			continue;
		site->blocks++;
		site->bytes += block.bytes;
		if (with_ranges)
			add_range(c, &block, site);
	}
}

/* ---- ranges ---- */

static void insert_sorted(struct held_range *list, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct held_range moved = list[i];
		size_t at = i;

		for (; at && list[at - 1].start > moved.start; at--)
			list[at] = list[at - 1];
		list[at] = moved;
	}
}

static void swap(struct held_range *a, struct held_range *b)
{
	struct held_range other = *a;

	*a = *b;
	*b = other;
}

static void sift_down(struct held_range *list, size_t at, size_t count)
{
	for (size_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && list[child + 1].start > list[child].start)
			child++;
		if (list[child].start <= list[at].start)
			return;
		swap(&list[at], &list[child]);
	}
}

static void sort_by_heap(struct held_range *list, size_t count)
{
	for (size_t i = count / 2; i--;)
		sift_down(list, i, count);
	while (count > 1) {
		swap(&list[0], &list[--count]);
		sift_down(list, 0, count);
	}
}

/* Moves elements that begin before the middle one to the front, and those that begin after it to
 * the back. Returns the number of elements in front. */
static size_t partition(struct held_range *list, size_t count)
{
	size_t front = 0, back = count - 1;
	uint64_t pivot = list[count / 2].start;

	for (;; front++, back--) {
		while (list[front].start < pivot)
			front++;
		while (list[back].start > pivot)
			back--;
		if (front >= back)
			return back + 1;
		swap(&list[front], &list[back]);
	}
}

/* Sorts by start. Recurses into the smaller part only, so the stack stays small. After DEPTH
 * divisions it sorts the rest by a heap, so it never takes quadratic time. libc's qsort() may call
 * malloc(). */
static void sort_ranges(struct held_range *list, size_t count, unsigned int depth)
{
	while (count > SORT_BY_INSERTION && depth--) {
		size_t front = partition(list, count);

		if (front < count - front) {
			sort_ranges(list, front, depth);
			list += front;
			count -= front;
		} else {
			sort_ranges(list + front, count - front, depth);
			count = front;
		}
	}
	if (count > SORT_BY_INSERTION)
		sort_by_heap(list, count);
	else
		insert_sorted(list, count);
}

/* Returns the first of COUNT sorted ranges that begins after ADDRESS. */
static struct held_range *first_after(struct held_range *list, size_t count, uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].start > address)
			high = middle;
		else
			low = middle + 1;
	}
	return &list[low];
}

static struct held_range *handles(const struct counting *c)
{
	return &c->scratch->ranges[RANGES_MAX - c->handle_count];
}

/* Returns the handle that counts the bytes of RANGE, a mapping without bytes; or NULL. */
static struct held_range *handle_of(const struct counting *c, const struct held_range *range)
{
	struct held_range *handle;

	if (!range->parent || !c->handle_count)
		return NULL;
	handle = first_after(handles(c), c->handle_count, range->parent);
	return handle > handles(c) && handle[-1].start == range->parent ? &handle[-1] : NULL;
}

/* Sorts all ranges. If a mapping has no bytes because its handle counts them, the mapping gets a
 * range of the handle's size. Removes other ranges without bytes. */
static void sort_all(struct counting *c)
{
	struct held_range *list = c->scratch->ranges;
	uint32_t kept = 0;

	sort_ranges(handles(c), c->handle_count, BAD_DIVISIONS_MAX);
	for (uint32_t i = 0; i < c->range_count; i++) {
		const struct held_range *handle = list[i].left ? NULL : handle_of(c, &list[i]);

		if (handle)
			list[i].end = end_of(list[i].start, handle->left);
		if (list[i].end > list[i].start)
			list[kept++] = list[i];
	}
	c->range_count = kept;
	sort_ranges(list, c->range_count, BAD_DIVISIONS_MAX);
}

/* ---- suballocations ---- */

/* Takes up to BYTES of the bytes that RANGE's block has left. Returns how many it took. */
static uint64_t take(struct counting *c, struct held_range *range, uint64_t bytes)
{
	struct held_range *counts = range->left || !range->parent ? range : handle_of(c, range);
	uint64_t taken;

	if (!counts)
		return 0;
	taken = bytes < counts->left ? bytes : counts->left;
	counts->left -= taken;
	counts->site->divided_bytes += taken;
	return taken;
}

/* Moves the bytes of a suballocation of SITE, from START to END, from the blocks that it lies in to
 * SITE. *AT is the range in which the last suballocation began: the next one often begins in the
 * same range. */
static void divide(struct counting *c, uint64_t start, uint64_t end, struct held_range **at,
		   struct counted_site *site)
{
	struct held_range *list = c->scratch->ranges, *range = *at;

	if (!range || range->start > start || range->end <= start) {
		range = first_after(list, c->range_count, start);
		if (range > list && range[-1].end > start)
			range--;
		*at = range < list + c->range_count ? range : NULL;
	}
	for (; range < list + c->range_count && range->start < end; range++) {
		uint64_t from = range->start > start ? range->start : start;
		uint64_t to = range->end < end ? range->end : end;

		if (from < to)
			site->bytes += take(c, range, to - from);
	}
}

static void count_suballocations(struct counting *c)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *slot;
	struct ledger_block block;
	struct held_range *at = NULL;

	c->last = NULL;
	while ((slot = ledger_next(&c->view, &walk, LEDGER_CHUNK_SUBALLOCATIONS,
				   sizeof(*slot)))) {
		struct counted_site *site;

		if (!read_slot(slot, &block) ||
		    !(site = site_at(c, block.site, LEDGER_CHUNK_SUBALLOCATION_SITES)) ||
		    !site->holds)
			continue;
		site->blocks++;
		divide(c, block.address, end_of(block.address, block.bytes), &at, site);
	}
}

/* ---- the result ---- */

/* Replaces the smallest holder, which is the first one of the heap, and restores the heap. */
static void replace_smallest(struct holders *ret, const struct ledger_holder *by)
{
	struct ledger_holder *heap = ret->list;
	uint32_t at = 0;

	for (uint32_t child; (child = 2 * at + 1) < ret->count; at = child) {
		if (child + 1 < ret->count && heap[child + 1].bytes < heap[child].bytes)
			child++;
		if (heap[child].bytes >= by->bytes)
			break;
		heap[at] = heap[child];
	}
	heap[at] = *by;
}

static void add_to_heap(struct holders *ret, const struct ledger_holder *holder)
{
	struct ledger_holder *heap = ret->list;
	uint32_t at = ret->count++;

	for (; at && heap[(at - 1) / 2].bytes > holder->bytes; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = *holder;
}

static void add_other(struct holders *ret, uint64_t blocks, uint64_t bytes)
{
	ret->other_sites++;
	ret->other_blocks += blocks;
	ret->other_bytes += bytes;
}

static void add_holder(struct holders *ret, const struct counted_site *site)
{
	struct ledger_holder holder = {
		.site = site->ref,
		.blocks = site->blocks < UINT32_MAX ? (uint32_t)site->blocks : UINT32_MAX,
		.bytes = site->bytes > site->divided_bytes ? site->bytes - site->divided_bytes : 0,
	};

	if (!holder.bytes)
		return;
	if (ret->count < ret->room) {
		add_to_heap(ret, &holder);
	} else if (holder.bytes > ret->list[0].bytes) {
		add_other(ret, ret->list[0].blocks, ret->list[0].bytes);
		replace_smallest(ret, &holder);
	} else {
		add_other(ret, holder.blocks, holder.bytes);
	}
}

/* Sorts the heap, largest first. */
static void sort_holders(struct holders *ret)
{
	uint32_t count = ret->count;

	while (ret->count > 1) {
		struct ledger_holder smallest = ret->list[0], last = ret->list[--ret->count];

		replace_smallest(ret, &last);
		ret->list[ret->count] = smallest;
	}
	ret->count = count;
}

/* Lists the sites, and clears the table for the next count. */
static void list_sites(struct counting *c, struct holders *ret)
{
	struct holders_scratch *scratch = c->scratch;

	while (scratch->used_count) {
		struct counted_site *site = &scratch->sites[scratch->used[--scratch->used_count]];

		add_holder(ret, site);
		*site = (struct counted_site){ 0 };
	}
	if (c->others.bytes > c->others.divided_bytes)
		add_other(ret, c->others.blocks, c->others.bytes - c->others.divided_bytes);
	sort_holders(ret);
}

static uint64_t count_allocs(const struct ledger_view *view, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;
	uint64_t allocs = 0;

	while ((site = ledger_next(view, &walk, type, sizeof(*site))))
		allocs += atomic_load_explicit(&SHARED(site->allocs), memory_order_relaxed);
	return allocs;
}

bool holders_count(struct recorder *recorder, enum ledger_memory class, int device,
		   struct holders *ret)
{
	struct counting c = { .scratch = recorder->holders->scratch, .class = class,
			      .device = device };
	struct ledger_header *header = recorder->header;
	size_t bytes = (size_t)atomic_load_explicit(&SHARED(header->chunks), memory_order_acquire) *
		       LEDGER_CHUNK;
	bool divides;

	if (class == LEDGER_MEMORY_HOST)
		c.device = -1; /* host memory belongs to no device */
	if (!c.scratch || ledger_view(header, bytes, &c.view) != LEDGER_OK)
		return false;
	ret->allocs = count_allocs(&c.view, LEDGER_CHUNK_SITES);
	ret->suballocs = count_allocs(&c.view, LEDGER_CHUNK_SUBALLOCATION_SITES);
	divides = ret->suballocs && class == LEDGER_MEMORY_DEVICE;
	count_blocks(&c, divides);
	ret->divided = !c.full;
	if (divides && !c.full) {
		sort_all(&c);
		count_suballocations(&c);
	}
	ret->count = ret->other_sites = 0;
	ret->other_blocks = ret->other_bytes = 0;
	list_sites(&c, ret);
	return true;
}
