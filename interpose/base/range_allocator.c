/* SPDX-License-Identifier: MIT
 *
 * Allocates parts of a range; its data lies outside the range. Each part, allocated or free, has a
 * node. Nodes are numbered, so that they take little room and their arrays can grow without moving.
 * Free parts are never adjacent: a free merges them. A grain is a piece of the range of GRAIN
 * units. No function visits more nodes than one grain has.
 */
#include "interpose/base/range_allocator.h"

#include <string.h>
#include <sys/mman.h>

#define GRAIN 256u                 /* units of one grain; smaller grains need more memory */
#define CHUNK_NODES 64u            /* number of nodes in the first chunk */
/* bytes; larger arrays are mapped, so that only touched pages use memory */
#define MAPPED ((size_t)256 << 10)

struct range_node {
	uint32_t first, units;
	uint32_t before, after; /* nodes of the adjacent parts; 0: the range ends here */
	union {
		struct {
			/* in the list of free parts of its size, or of unused nodes */
			uint32_t previous, next;
		};
		uint64_t note; /* of an allocated part: see range_note() */
	};
	bool taken; /* the part is allocated */
	uint32_t reserved;
};
_Static_assert(sizeof(struct range_node) == 32,
	       "a node has 32 bytes, so that chunks of nodes are powers of two");

/* ---- memory ---- */

static void *memory_allocate(struct range_allocator *range, size_t bytes)
{
	void *memory;

	if (bytes < MAPPED)
		return arena_take(range->arena, bytes);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static void memory_return(struct range_allocator *range, void *memory, size_t bytes)
{
	if (!memory)
		return;
	if (bytes < MAPPED)
		arena_give(range->arena, memory, bytes);
	else
		munmap(memory, bytes);
}

static uint32_t grains_of(const struct range_allocator *range)
{
	return (range->units - 1) / GRAIN + 1;
}

static size_t level_bytes(const struct range_allocator *range, uint32_t level)
{
	return (size_t)(((grains_of(range) - 1) >> (6 * level) >> 6) + 1) * sizeof(uint64_t);
}

static size_t begins_bytes(const struct range_allocator *range)
{
	return (size_t)grains_of(range) * sizeof(uint32_t);
}

static size_t chunk_bytes(uint32_t chunk)
{
	return ((size_t)CHUNK_NODES << chunk) * sizeof(struct range_node);
}

static struct range_node *node_of(const struct range_allocator *range, uint32_t node)
{
	uint64_t number = (uint64_t)(node - 1) + CHUNK_NODES;
	uint32_t chunk = 63 - (uint32_t)__builtin_clzll(number / CHUNK_NODES);

	return &range->chunk[chunk][number - ((uint64_t)CHUNK_NODES << chunk)];
}

/* Returns how many nodes the chunks can hold. */
static uint64_t node_room(const struct range_allocator *range)
{
	return ((uint64_t)CHUNK_NODES << range->chunks) - CHUNK_NODES;
}

/* Makes room for COUNT calls of node_allocate(). Returns false if memory is short. */
static bool ensure_nodes(struct range_allocator *range, uint32_t count)
{
	struct range_node *chunk;

	if (range->spares + (node_room(range) - range->used_nodes) >= count)
		return true;
	if (range->chunks == RANGE_CHUNKS)
		return false;
	chunk = memory_allocate(range, chunk_bytes(range->chunks));
	if (!chunk)
		return false;
	range->chunk[range->chunks++] = chunk;
	return true;
}

static uint32_t node_allocate(struct range_allocator *range)
{
	uint32_t node = range->spare;

	if (!node)
		return ++range->used_nodes;
	range->spare = node_of(range, node)->next;
	range->spares--;
	return node;
}

static void node_return(struct range_allocator *range, uint32_t node)
{
	node_of(range, node)->next = range->spare;
	range->spare = node;
	range->spares++;
}

/* ---- free parts, by size ---- */

/* Returns the list for parts of UNITS units: 8 lists for each doubling, one for each size below
 * 8. */
static uint32_t bin_of(uint32_t units)
{
	uint32_t log;

	if (units < 8)
		return units;
	log = 31 - (uint32_t)__builtin_clz(units);
	return (log - 2) * 8 + (units >> (log - 3) & 7);
}

static void list_insert(struct range_allocator *range, uint32_t node)
{
	struct range_node *it = node_of(range, node);
	uint32_t bin = bin_of(it->units);

	it->taken = false;
	it->previous = 0;
	it->next = range->first[bin];
	if (it->next)
		node_of(range, it->next)->previous = node;
	range->first[bin] = node;
	range->lists[bin / 8] |= (uint8_t)(1u << bin % 8);
	range->groups |= 1u << bin / 8;
}

static void list_remove(struct range_allocator *range, const struct range_node *it)
{
	uint32_t bin = bin_of(it->units);

	if (it->next)
		node_of(range, it->next)->previous = it->previous;
	if (it->previous) {
		node_of(range, it->previous)->next = it->next;
		return;
	}
	range->first[bin] = it->next;
	if (it->next)
		return;
	range->lists[bin / 8] &= (uint8_t)~(1u << bin % 8);
	if (!range->lists[bin / 8])
		range->groups &= ~(1u << bin / 8);
}

/* Returns the first part of the first list at or after BIN that is not empty, or 0. */
static uint32_t first_from(const struct range_allocator *range, uint32_t bin)
{
	uint32_t group = bin / 8, lists, groups;

	if (group >= RANGE_GROUPS)
		return 0;
	lists = range->lists[group] & (0xffu << bin % 8 & 0xffu);
	if (!lists) {
		groups = range->groups & ~((2u << group) - 1);
		if (!groups)
			return 0;
		group = (uint32_t)__builtin_ctz(groups);
		lists = range->lists[group];
	}
	return range->first[group * 8 + (uint32_t)__builtin_ctz(lists)];
}

/* Returns the units before the first multiple of ALIGN in IT. */
static uint32_t lead_of(const struct range_node *it, uint32_t align)
{
	return -it->first & (align - 1);
}

static bool fits(const struct range_allocator *range, uint32_t node, uint32_t units, uint32_t align)
{
	const struct range_node *it;

	if (!node)
		return false;
	it = node_of(range, node);
	return it->units >= units && it->units - units >= lead_of(it, align);
}

/* Returns a free part with room for UNITS after alignment, or 0. First tries one part of the list
 * for UNITS, and one of the next list that is not empty: they may be too small. Then takes the
 * first part of the lists in which every part is large enough, wherever it begins. */
static uint32_t find_room(const struct range_allocator *range, uint32_t units, uint32_t align)
{
	uint32_t bin = bin_of(units), node = range->first[bin];
	uint64_t enough = (uint64_t)units + align - 1;

	if (fits(range, node, units, align))
		return node;
	node = first_from(range, bin + 1);
	if (fits(range, node, units, align))
		return node;
	if (!node || enough > range->free_units)
		return 0;
	bin = bin_of((uint32_t)enough);
	node = range->first[bin];
	return fits(range, node, units, align) ? node : first_from(range, bin + 1);
}

/* ---- allocated parts, by place ---- */

static void set_begin(struct range_allocator *range, uint32_t grain, uint32_t node)
{
	range->begins[grain] = node;
	for (uint32_t i = 0; i < range->levels; i++, grain /= 64) {
		uint64_t *word = &range->level[i][grain / 64], old = *word;

		*word |= (uint64_t)1 << grain % 64;
		if (old)
			return;
	}
}

static void unmark(struct range_allocator *range, uint32_t grain)
{
	for (uint32_t i = 0; i < range->levels; i++, grain /= 64) {
		uint64_t *word = &range->level[i][grain / 64];

		*word &= ~((uint64_t)1 << grain % 64);
		if (*word)
			return;
	}
}

/* Returns the nearest allocated part after NODE (BEHIND) or before NODE, or 0. Free parts are never
 * adjacent, so at most one lies between. */
static uint32_t beside(const struct range_allocator *range, uint32_t node, bool behind)
{
	const struct range_node *it = node_of(range, node);

	node = behind ? it->after : it->before;
	if (!node)
		return 0;
	it = node_of(range, node);
	return it->taken ? node : behind ? it->after : it->before;
}

static bool begins_in(const struct range_allocator *range, uint32_t node, uint32_t grain)
{
	return node && node_of(range, node)->first / GRAIN == grain;
}

/* NODE is about to be freed: makes `begins` name another part of the same grain, or none. */
static void clear_begin(struct range_allocator *range, uint32_t node)
{
	uint32_t grain = node_of(range, node)->first / GRAIN, other;

	if (range->begins[grain] != node)
		return;
	other = beside(range, node, true);
	if (!begins_in(range, other, grain))
		other = beside(range, node, false);
	if (begins_in(range, other, grain))
		range->begins[grain] = other;
	else
		unmark(range, grain);
}

/* Returns the last grain up to GRAIN in which an allocated part begins, or RANGE_NONE. */
static uint32_t grain_up_to(const struct range_allocator *range, uint32_t grain)
{
	for (uint32_t i = 0; i < range->levels; i++) {
		uint64_t word = range->level[i][grain / 64] & ~(uint64_t)0 >> (63 - grain % 64);

		if (word) {
			grain = grain / 64 * 64 + (63 - (uint32_t)__builtin_clzll(word));
			while (i-- > 0)
				grain = grain * 64 +
					(63 - (uint32_t)__builtin_clzll(range->level[i][grain]));
			return grain;
		}
		if (grain < 64)
			return RANGE_NONE;
		grain = grain / 64 - 1;
	}
	return RANGE_NONE;
}

bool range_lookup(const struct range_allocator *range, uint32_t unit, uint32_t *ret_first,
		  uint32_t *ret_units, uint32_t *ret_node)
{
	const struct range_node *it;
	uint32_t grain, node, next;

	if (unit >= range->units)
		return false;
	grain = grain_up_to(range, unit / GRAIN);
	if (grain == RANGE_NONE)
		return false;
	node = range->begins[grain];
	while (node && node_of(range, node)->first > unit)
		node = beside(range, node, false);
	while (node && (next = beside(range, node, true)) != 0 &&
	       node_of(range, next)->first <= unit)
		node = next;
	it = node ? node_of(range, node) : NULL;
	if (!it || unit - it->first >= it->units)
		return false;
	*ret_first = it->first;
	*ret_units = it->units;
	*ret_node = node;
	return true;
}

/* ---- allocate and free ---- */

/* Makes a free part of UNITS between the allocated parts BEFORE and AFTER. 0: the range ends
 * there. */
static void insert_free_part(struct range_allocator *range, uint32_t first, uint32_t units,
			     uint32_t before, uint32_t after)
{
	uint32_t node = node_allocate(range);
	struct range_node *it = node_of(range, node);

	*it = (struct range_node){ .first = first, .units = units, .before = before,
				     .after = after };
	if (before)
		node_of(range, before)->after = node;
	if (after)
		node_of(range, after)->before = node;
	list_insert(range, node);
}

/* Returns UNITS rounded up to a power of two, at most MOST, which is a power of two. */
static uint32_t power_up_to(uint32_t units, uint32_t most)
{
	if (units >= most)
		return most;
	return units <= 1 ? 1 : 1u << (32 - __builtin_clz(units - 1));
}

uint32_t range_allocate(struct range_allocator *range, uint32_t units, uint32_t align_units,
			uint32_t *ret_node)
{
	struct range_node *it;
	uint32_t node, align, lead, rest;

	if (units == 0 || units > range->free_units)
		return RANGE_NONE;
	align = power_up_to(units, align_units ? align_units : 1);
	node = find_room(range, units, align);
	if (!node)
		return RANGE_NONE;
	it = node_of(range, node);
	lead = lead_of(it, align);
	rest = it->units - units - lead;
	if (!ensure_nodes(range, 2))
		return RANGE_NONE;
	list_remove(range, it);
	it->first += lead;
	it->units = units;
	it->taken = true;
	it->note = 0;
	if (lead)
		insert_free_part(range, it->first - lead, lead, it->before, node);
	if (rest)
		insert_free_part(range, it->first + units, rest, node, it->after);
	set_begin(range, it->first / GRAIN, node);
	range->free_units -= units;
	*ret_node = node;
	return it->first;
}

/* Merges OTHER, the part after IT, into IT, whose node is NODE. */
static void merge_after(struct range_allocator *range, struct range_node *it, uint32_t node,
			uint32_t other)
{
	const struct range_node *gone = node_of(range, other);

	it->units += gone->units;
	it->after = gone->after;
	if (it->after)
		node_of(range, it->after)->before = node;
	node_return(range, other);
}

void range_free(struct range_allocator *range, uint32_t node)
{
	struct range_node *it = node_of(range, node);
	uint32_t before = it->before, after = it->after;

	if (!it->taken)
		return;
	clear_begin(range, node);
	it->taken = false;
	range->free_units += it->units;
	if (after && !node_of(range, after)->taken) {
		list_remove(range, node_of(range, after));
		merge_after(range, it, node, after);
	}
	if (before && !node_of(range, before)->taken) {
		list_remove(range, node_of(range, before));
		merge_after(range, node_of(range, before), before, node);
		node = before;
	}
	list_insert(range, node);
}

bool range_shrink(struct range_allocator *range, uint32_t node, uint32_t units)
{
	struct range_node *it = node_of(range, node), *after;
	uint32_t rest = it->units - units;

	after = it->after ? node_of(range, it->after) : NULL;
	if (after && !after->taken) {
		list_remove(range, after);
		after->first -= rest;
		after->units += rest;
		list_insert(range, it->after);
	} else if (ensure_nodes(range, 1)) {
		insert_free_part(range, it->first + units, rest, node, it->after);
	} else {
		return false;
	}
	it->units = units;
	range->free_units += rest;
	return true;
}

uint64_t *range_note(struct range_allocator *range, uint32_t node)
{
	return &node_of(range, node)->note;
}

uint32_t range_largest(const struct range_allocator *range)
{
	uint32_t group;

	if (!range->groups)
		return 0;
	group = 31 - (uint32_t)__builtin_clz(range->groups);
	return node_of(range,
		       range->first[group * 8 + 31 - (uint32_t)__builtin_clz(range->lists[group])])
		->units;
}

/* ---- begin and end ---- */

bool range_init(struct range_allocator *range, struct arena *arena, uint32_t units)
{
	bool done = units > 0;

	*range = (struct range_allocator){ .arena = arena, .units = units, .free_units = units };
	for (uint32_t left = grains_of(range); done; left = (left - 1) / 64 + 1) {
		uint64_t *level = memory_allocate(range, level_bytes(range, range->levels));

		done = level;
		range->level[range->levels] = level;
		range->levels += done;
		if (left <= 64)
			break;
	}
	if (done)
		range->begins = memory_allocate(range, begins_bytes(range));
	if (!done || !range->begins || !ensure_nodes(range, 1)) {
		range_finish(range);
		return false;
	}
	insert_free_part(range, 0, units, 0, 0);
	return true;
}

void range_finish(struct range_allocator *range)
{
	for (uint32_t i = 0; i < range->levels; i++)
		memory_return(range, range->level[i], level_bytes(range, i));
	memory_return(range, range->begins, begins_bytes(range));
	for (uint32_t i = 0; i < range->chunks; i++)
		memory_return(range, range->chunk[i], chunk_bytes(i));
	memset(range, 0, sizeof(*range));
}
