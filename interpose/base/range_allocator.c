/* SPDX-License-Identifier: MIT
 *
 * Allocates parts of a range; its data lies outside the range. A part, allocated or free, is a
 * node. Nodes are numbered, so that they take little room and their arrays can grow without
 * moving. Free parts are never adjacent: a free merges them. Must not walk more nodes than one
 * grain has.
 */
#include "interpose/base/range_allocator.h"

#include <string.h>
#include <sys/mman.h>

#define GRAIN 256u                 /* units; the fewer, the more memory is touched */
#define CHUNK_NODES 64u            /* of the first chunk */
#define MAPPED ((size_t)256 << 10) /* from here on memory is mapped, which costs what is touched */

struct offsets_node {
	uint32_t first, units;
	uint32_t before, after; /* adjacent parts, 0 = the range ends */
	union {
		struct {
			uint32_t previous, next; /* in the list of its size, or of unused nodes */
		};
		uint64_t note; /* of an allocated part */
	};
	bool taken;
	uint32_t reserved;
};
_Static_assert(sizeof(struct offsets_node) == 32, "chunks are powers of two");

/* ---- memory ---- */

static void *take_memory(struct offsets *offsets, size_t bytes)
{
	void *memory;

	if (bytes < MAPPED)
		return arena_take(offsets->arena, bytes);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static void give_memory(struct offsets *offsets, void *memory, size_t bytes)
{
	if (!memory)
		return;
	if (bytes < MAPPED)
		arena_give(offsets->arena, memory, bytes);
	else
		munmap(memory, bytes);
}

static uint32_t grains_of(const struct offsets *offsets)
{
	return (offsets->units - 1) / GRAIN + 1;
}

static size_t level_bytes(const struct offsets *offsets, uint32_t level)
{
	return (size_t)(((grains_of(offsets) - 1) >> (6 * level) >> 6) + 1) * sizeof(uint64_t);
}

static size_t begins_bytes(const struct offsets *offsets)
{
	return (size_t)grains_of(offsets) * sizeof(uint32_t);
}

static size_t chunk_bytes(uint32_t chunk)
{
	return ((size_t)CHUNK_NODES << chunk) * sizeof(struct offsets_node);
}

static struct offsets_node *node_of(const struct offsets *offsets, uint32_t node)
{
	uint64_t number = (uint64_t)(node - 1) + CHUNK_NODES;
	uint32_t chunk = 63 - (uint32_t)__builtin_clzll(number / CHUNK_NODES);

	return &offsets->chunk[chunk][number - ((uint64_t)CHUNK_NODES << chunk)];
}

/* Returns how many nodes the chunks can hold. */
static uint64_t node_room(const struct offsets *offsets)
{
	return ((uint64_t)CHUNK_NODES << offsets->chunks) - CHUNK_NODES;
}

/* Makes room for COUNT calls of new_node(). Returns false if memory is short. */
static bool have_nodes(struct offsets *offsets, uint32_t count)
{
	struct offsets_node *chunk;

	if (offsets->spares + (node_room(offsets) - offsets->used_nodes) >= count)
		return true;
	if (offsets->chunks == OFFSETS_CHUNKS)
		return false;
	chunk = take_memory(offsets, chunk_bytes(offsets->chunks));
	if (!chunk)
		return false;
	offsets->chunk[offsets->chunks++] = chunk;
	return true;
}

static uint32_t new_node(struct offsets *offsets)
{
	uint32_t node = offsets->spare;

	if (!node)
		return ++offsets->used_nodes;
	offsets->spare = node_of(offsets, node)->next;
	offsets->spares--;
	return node;
}

static void drop_node(struct offsets *offsets, uint32_t node)
{
	node_of(offsets, node)->next = offsets->spare;
	offsets->spare = node;
	offsets->spares++;
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

static void list(struct offsets *offsets, uint32_t node)
{
	struct offsets_node *it = node_of(offsets, node);
	uint32_t bin = bin_of(it->units);

	it->taken = false;
	it->previous = 0;
	it->next = offsets->first[bin];
	if (it->next)
		node_of(offsets, it->next)->previous = node;
	offsets->first[bin] = node;
	offsets->lists[bin / 8] |= (uint8_t)(1u << bin % 8);
	offsets->groups |= 1u << bin / 8;
}

static void unlist(struct offsets *offsets, const struct offsets_node *it)
{
	uint32_t bin = bin_of(it->units);

	if (it->next)
		node_of(offsets, it->next)->previous = it->previous;
	if (it->previous) {
		node_of(offsets, it->previous)->next = it->next;
		return;
	}
	offsets->first[bin] = it->next;
	if (it->next)
		return;
	offsets->lists[bin / 8] &= (uint8_t)~(1u << bin % 8);
	if (!offsets->lists[bin / 8])
		offsets->groups &= ~(1u << bin / 8);
}

/* Returns the first part of the first list at or after BIN that is not empty, or 0. */
static uint32_t first_from(const struct offsets *offsets, uint32_t bin)
{
	uint32_t group = bin / 8, lists, groups;

	if (group >= OFFSETS_GROUPS)
		return 0;
	lists = offsets->lists[group] & (0xffu << bin % 8 & 0xffu);
	if (!lists) {
		groups = offsets->groups & ~((2u << group) - 1);
		if (!groups)
			return 0;
		group = (uint32_t)__builtin_ctz(groups);
		lists = offsets->lists[group];
	}
	return offsets->first[group * 8 + (uint32_t)__builtin_ctz(lists)];
}

/* Returns the units before the first multiple of ALIGN in IT. */
static uint32_t lead_of(const struct offsets_node *it, uint32_t align)
{
	return -it->first & (align - 1);
}

static bool fits(const struct offsets *offsets, uint32_t node, uint32_t units, uint32_t align)
{
	const struct offsets_node *it;

	if (!node)
		return false;
	it = node_of(offsets, node);
	return it->units >= units && it->units - units >= lead_of(it, align);
}

/* Returns a free part with room for UNITS, or 0. In its own list and in the next the first part
 * may be large enough. In the lists where every part fits, the first part is used. */
static uint32_t find_room(const struct offsets *offsets, uint32_t units, uint32_t align)
{
	uint32_t bin = bin_of(units), node = offsets->first[bin];
	uint64_t enough = (uint64_t)units + align - 1;

	if (fits(offsets, node, units, align))
		return node;
	node = first_from(offsets, bin + 1);
	if (fits(offsets, node, units, align))
		return node;
	if (!node || enough > offsets->free_units)
		return 0;
	bin = bin_of((uint32_t)enough);
	node = offsets->first[bin];
	return fits(offsets, node, units, align) ? node : first_from(offsets, bin + 1);
}

/* ---- taken parts, by place ---- */

static void mark(struct offsets *offsets, uint32_t grain, uint32_t node)
{
	offsets->begins[grain] = node;
	for (uint32_t i = 0; i < offsets->levels; i++, grain /= 64) {
		uint64_t *word = &offsets->level[i][grain / 64], old = *word;

		*word |= (uint64_t)1 << grain % 64;
		if (old)
			return;
	}
}

static void unmark(struct offsets *offsets, uint32_t grain)
{
	for (uint32_t i = 0; i < offsets->levels; i++, grain /= 64) {
		uint64_t *word = &offsets->level[i][grain / 64];

		*word &= ~((uint64_t)1 << grain % 64);
		if (*word)
			return;
	}
}

/* Return the next allocated part after or before NODE, or 0. */
static uint32_t beside(const struct offsets *offsets, uint32_t node, bool behind)
{
	const struct offsets_node *it = node_of(offsets, node);

	node = behind ? it->after : it->before;
	if (!node)
		return 0;
	it = node_of(offsets, node);
	return it->taken ? node : behind ? it->after : it->before;
}

static bool begins_in(const struct offsets *offsets, uint32_t node, uint32_t grain)
{
	return node && node_of(offsets, node)->first / GRAIN == grain;
}

/* NODE is about to be freed. */
static void forget(struct offsets *offsets, uint32_t node)
{
	uint32_t grain = node_of(offsets, node)->first / GRAIN, other;

	if (offsets->begins[grain] != node)
		return;
	other = beside(offsets, node, true);
	if (!begins_in(offsets, other, grain))
		other = beside(offsets, node, false);
	if (begins_in(offsets, other, grain))
		offsets->begins[grain] = other;
	else
		unmark(offsets, grain);
}

/* Returns the last grain up to GRAIN in which an allocated part begins. */
static uint32_t grain_up_to(const struct offsets *offsets, uint32_t grain)
{
	for (uint32_t i = 0; i < offsets->levels; i++) {
		uint64_t word = offsets->level[i][grain / 64] & ~(uint64_t)0 >> (63 - grain % 64);

		if (word) {
			grain = grain / 64 * 64 + (63 - (uint32_t)__builtin_clzll(word));
			while (i-- > 0)
				grain = grain * 64 +
					(63 - (uint32_t)__builtin_clzll(offsets->level[i][grain]));
			return grain;
		}
		if (grain < 64)
			return OFFSETS_NONE;
		grain = grain / 64 - 1;
	}
	return OFFSETS_NONE;
}

bool offsets_find(const struct offsets *offsets, uint32_t unit, uint32_t *ret_first,
		  uint32_t *ret_units, uint32_t *ret_node)
{
	const struct offsets_node *it;
	uint32_t grain, node, next;

	if (unit >= offsets->units)
		return false;
	grain = grain_up_to(offsets, unit / GRAIN);
	if (grain == OFFSETS_NONE)
		return false;
	node = offsets->begins[grain];
	while (node && node_of(offsets, node)->first > unit)
		node = beside(offsets, node, false);
	while (node && (next = beside(offsets, node, true)) != 0 &&
	       node_of(offsets, next)->first <= unit)
		node = next;
	it = node ? node_of(offsets, node) : NULL;
	if (!it || unit - it->first >= it->units)
		return false;
	*ret_first = it->first;
	*ret_units = it->units;
	*ret_node = node;
	return true;
}

/* ---- take and give ---- */

/* Makes a free part of UNITS between two allocated parts. */
static void add_free(struct offsets *offsets, uint32_t first, uint32_t units, uint32_t before,
		     uint32_t after)
{
	uint32_t node = new_node(offsets);
	struct offsets_node *it = node_of(offsets, node);

	*it = (struct offsets_node){ .first = first, .units = units, .before = before,
				     .after = after };
	if (before)
		node_of(offsets, before)->after = node;
	if (after)
		node_of(offsets, after)->before = node;
	list(offsets, node);
}

/* Returns UNITS rounded up to a power of two, at most MOST, which is a power of two. */
static uint32_t power_up_to(uint32_t units, uint32_t most)
{
	if (units >= most)
		return most;
	return units <= 1 ? 1 : 1u << (32 - __builtin_clz(units - 1));
}

uint32_t offsets_take(struct offsets *offsets, uint32_t units, uint32_t align_units,
		      uint32_t *ret_node)
{
	struct offsets_node *it;
	uint32_t node, align, lead, rest;

	if (units == 0 || units > offsets->free_units)
		return OFFSETS_NONE;
	align = power_up_to(units, align_units ? align_units : 1);
	node = find_room(offsets, units, align);
	if (!node)
		return OFFSETS_NONE;
	it = node_of(offsets, node);
	lead = lead_of(it, align);
	rest = it->units - units - lead;
	if (!have_nodes(offsets, 2))
		return OFFSETS_NONE;
	unlist(offsets, it);
	it->first += lead;
	it->units = units;
	it->taken = true;
	it->note = 0;
	if (lead)
		add_free(offsets, it->first - lead, lead, it->before, node);
	if (rest)
		add_free(offsets, it->first + units, rest, node, it->after);
	mark(offsets, it->first / GRAIN, node);
	offsets->free_units -= units;
	*ret_node = node;
	return it->first;
}

/* Merges OTHER, the part after IT, into IT. */
static void merge_after(struct offsets *offsets, struct offsets_node *it, uint32_t node,
			uint32_t other)
{
	const struct offsets_node *gone = node_of(offsets, other);

	it->units += gone->units;
	it->after = gone->after;
	if (it->after)
		node_of(offsets, it->after)->before = node;
	drop_node(offsets, other);
}

void offsets_give(struct offsets *offsets, uint32_t node)
{
	struct offsets_node *it = node_of(offsets, node);
	uint32_t before = it->before, after = it->after;

	if (!it->taken)
		return;
	forget(offsets, node);
	it->taken = false;
	offsets->free_units += it->units;
	if (after && !node_of(offsets, after)->taken) {
		unlist(offsets, node_of(offsets, after));
		merge_after(offsets, it, node, after);
	}
	if (before && !node_of(offsets, before)->taken) {
		unlist(offsets, node_of(offsets, before));
		merge_after(offsets, node_of(offsets, before), before, node);
		node = before;
	}
	list(offsets, node);
}

bool offsets_cut(struct offsets *offsets, uint32_t node, uint32_t units)
{
	struct offsets_node *it = node_of(offsets, node), *after;
	uint32_t rest = it->units - units;

	after = it->after ? node_of(offsets, it->after) : NULL;
	if (after && !after->taken) {
		unlist(offsets, after);
		after->first -= rest;
		after->units += rest;
		list(offsets, it->after);
	} else if (have_nodes(offsets, 1)) {
		add_free(offsets, it->first + units, rest, node, it->after);
	} else {
		return false;
	}
	it->units = units;
	offsets->free_units += rest;
	return true;
}

uint64_t *offsets_note(struct offsets *offsets, uint32_t node)
{
	return &node_of(offsets, node)->note;
}

uint32_t offsets_largest(const struct offsets *offsets)
{
	uint32_t group;

	if (!offsets->groups)
		return 0;
	group = 31 - (uint32_t)__builtin_clz(offsets->groups);
	return node_of(offsets,
		       offsets->first[group * 8 + 31 -
				      (uint32_t)__builtin_clz(offsets->lists[group])])->units;
}

/* ---- begin and end ---- */

bool offsets_init(struct offsets *offsets, struct arena *arena, uint32_t units)
{
	bool done = units > 0;

	*offsets = (struct offsets){ .arena = arena, .units = units, .free_units = units };
	for (uint32_t left = grains_of(offsets); done; left = (left - 1) / 64 + 1) {
		uint64_t *level = take_memory(offsets, level_bytes(offsets, offsets->levels));

		done = level;
		offsets->level[offsets->levels] = level;
		offsets->levels += done;
		if (left <= 64)
			break;
	}
	if (done)
		offsets->begins = take_memory(offsets, begins_bytes(offsets));
	if (!done || !offsets->begins || !have_nodes(offsets, 1)) {
		offsets_finish(offsets);
		return false;
	}
	add_free(offsets, 0, units, 0, 0);
	return true;
}

void offsets_finish(struct offsets *offsets)
{
	for (uint32_t i = 0; i < offsets->levels; i++)
		give_memory(offsets, offsets->level[i], level_bytes(offsets, i));
	give_memory(offsets, offsets->begins, begins_bytes(offsets));
	for (uint32_t i = 0; i < offsets->chunks; i++)
		give_memory(offsets, offsets->chunk[i], chunk_bytes(i));
	memset(offsets, 0, sizeof(*offsets));
}
