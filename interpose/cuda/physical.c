/* SPDX-License-Identifier: MIT
 *
 * Physical memory lives while its handle is referenced, or while it is mapped, or bound to a
 * multicast object. The handle and each of these uses have a block. Exactly one of the blocks
 * counts the bytes of the memory: the handle's block, or, once the handle is released, the block of
 * the oldest use. This file decides which block it is. Its lock is never held during a driver call,
 * while unwinding, or while the table of blocks is used.
 */
#include "interpose/cuda/physical.h"

#include <string.h>
#include <utlist.h>

#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/live_counts.h"

struct physical {
	uint64_t handle;
	uint64_t bytes; /* 0: imported memory, or a multicast object */
	int device;
	bool imported; /* this process did not make it; no call showed a multicast object */
	bool indexed; /* by_handle has this entry */
	unsigned int held;
	struct ledger_block *block;  /* the handle's block; NULL: released, or about to be */
	struct ledger_block *keeper; /* the block that counts the bytes, or NULL */
	struct use *uses;            /* mappings and bindings of this memory */
	struct use *bound;           /* bindings to this multicast object */
	/* the call site that counts this memory as live, or NULL */
	const struct ledger_site *counted;
	UT_hash_handle hh;
};

/* ---- Locking: recorder->vmm->lock ---- */

static struct physical *physical_lookup(struct recorder *recorder, uint64_t handle)
{
	struct physical *p;

	TABLE_FIND(recorder->vmm->by_handle, &handle, p);
	return p;
}

static void unindex(struct recorder *recorder, struct physical *p)
{
	if (p && p->indexed)
		TABLE_REMOVE(&recorder->arena, recorder->vmm->by_handle, p);
	if (p)
		p->indexed = false;
}

static void make_index(struct recorder *recorder, struct physical *p)
{
	if (p->indexed)
		return;
	unindex(recorder, physical_lookup(recorder, p->handle));
	p->indexed = TABLE_ADD(&recorder->arena, recorder->vmm->by_handle, handle, p);
}

/* Moves the bytes to the block TO. */
static void pass_bytes(struct recorder *recorder, struct physical *p, struct ledger_block *to)
{
	struct ledger_block *from = p->keeper;

	if (from && from != to)
		live_bytes_move(recorder, from, to);
	p->keeper = to;
}

/* BLOCK ends. If another block of P remains, it counts the bytes from now on. */
static void physical_end_block(struct recorder *recorder, struct physical *p,
			       const struct ledger_block *block)
{
	struct use *heir = p->uses;

	if (!block || p->keeper != block)
		return;
	while (heir && (!heir->block || heir->block == block))
		heir = heir->next;
	if (p->block && p->block != block)
		pass_bytes(recorder, p, p->block);
	else if (heir)
		pass_bytes(recorder, p, heir->block);
	else
		p->keeper = NULL;
}

static void unlink_bound(struct use *use)
{
	struct use **link = &use->object->bound;

	while (*link && *link != use)
		link = &(*link)->bound;
	if (*link)
		*link = use->bound;
}

/* Adds the memory P to what the call site of BLOCK has live. That is the cuMemCreate call that
 * created P. collect() subtracts P when it ends. */
static void count_live(struct recorder *recorder, struct physical *p,
		       const struct ledger_block *block)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, block->site);
	struct thread_state *state = thread_self.state;

	if (!live_counts_physical(site))
		return;
	p->counted = site;
	thread_state_lock(state);
	live_counts_add(recorder, state, site, p->bytes);
	thread_state_unlock(state);
}

/* Removes P if it has no handle and no use, and if no caller of physical_hold() keeps it. If P is a
 * multicast object, the bindings to it end too: returns them, linked by `taken`. */
static struct use *collect(struct recorder *recorder, struct physical *p)
{
	struct use *bound, *taken = NULL;

	if (!p || p->block || p->uses || p->held)
		return NULL;
	while ((bound = p->bound)) {
		p->bound = bound->bound;
		bound->bound = NULL;
		bound->object = NULL;
		bound->taken = taken;
		taken = bound;
	}
	if (p->counted)
		live_counts_remove(recorder, p->counted, p->bytes);
	unindex(recorder, p);
	arena_give(&recorder->arena, p, sizeof(*p));
	return taken;
}

static void give_use(struct recorder *recorder, struct use *use)
{
	if (use->object)
		unlink_bound(use);
	if (use->of) {
		DL_DELETE2(use->of->uses, use, before, next);
		physical_end_block(recorder, use->of, use->block);
	}
	arena_give(&recorder->arena, use, sizeof(*use));
}

/* ---- handles ---- */

void physical_forget(uint64_t handle)
{
	ENTER_PART(vmm, true);
	struct physical *p = recorder ? physical_lookup(recorder, handle) : NULL;
	struct ledger_block *block;

	if (!p)
		return;
	block = p->block;
	unindex(recorder, p);
	p->block = NULL;
	physical_end_block(recorder, p, block);
	collect(recorder, p);
}

void physical_made(uint64_t handle, struct ledger_block *block, uint64_t bytes, int device,
		   bool imported)
{
	ENTER_PART(vmm, true);
	struct physical *p = recorder ? arena_take(&recorder->arena, sizeof(*p)) : NULL;

	if (!p)
		return;
	*p = (struct physical){
		.handle = handle, .bytes = bytes, .device = device, .block = block,
		.keeper = block, .imported = imported,
	};
	make_index(recorder, p);
	if (p->indexed)
		count_live(recorder, p, block);
	else
		arena_give(&recorder->arena, p, sizeof(*p));
}

struct physical *physical_hold(uint64_t handle)
{
	ENTER_PART(vmm, true);
	struct physical *p = recorder ? physical_lookup(recorder, handle) : NULL;

	if (p)
		p->held++;
	return p;
}

static struct use *mapping_around(struct recorder *recorder, uint64_t address)
{
	struct use *use;

	TABLE_FIND(recorder->vmm->mappings, &address, use);
	if (use)
		return use;
	for (use = recorder->vmm->mappings; use; use = use->hh.next)
		if (address > use->number && address - use->number < use->bytes)
			return use;
	return NULL;
}

struct physical *physical_hold_mapped(uint64_t address)
{
	ENTER_PART(vmm, true);
	struct use *use = recorder ? mapping_around(recorder, address) : NULL;

	if (!use || !use->of)
		return NULL;
	use->of->held++;
	return use->of;
}

void physical_let_go(struct physical *p)
{
	ENTER_PART(vmm, p);

	if (!recorder)
		return;
	p->held--;
	collect(recorder, p);
}

uint64_t physical_bytes(const struct physical *p)
{
	return p ? p->bytes : 0;
}

bool physical_is_import(const struct physical *p)
{
	return p && p->imported;
}

int physical_device(const struct physical *p)
{
	return p ? p->device : -1;
}

bool physical_is(const struct physical *p, uint64_t handle)
{
	return p && p->handle == handle;
}

bool physical_is_mapped(const struct physical *p)
{
	ENTER_PART(vmm, p);
	const struct use *use = recorder ? p->uses : NULL;

	while (use && use->object)
		use = use->next;
	return use != NULL;
}

void physical_back(struct physical *p, struct ledger_block *block)
{
	ENTER_PART(vmm, true);

	if (!recorder)
		return;
	p->block = block;
	pass_bytes(recorder, p, block);
	make_index(recorder, p);
}

struct physical *physical_releasing(uint64_t handle, const struct freeing *freeing)
{
	ENTER_PART(vmm, freeing->block);
	struct physical *p = recorder ? physical_lookup(recorder, handle) : NULL;

	if (!p || p->block != freeing->block)
		return NULL; /* another thread has referenced the handle again */
	p->block = NULL;
	p->held++;
	return p;
}

struct use *physical_released(struct physical *p, struct freeing *freeing, bool done)
{
	ENTER_PART(vmm, freeing->block);
	struct use *orphans = NULL;

	if (!recorder)
		return NULL;
	if (p) {
		if (!done && !p->block)
			p->block = freeing->block;
		else
			physical_end_block(recorder, p, freeing->block);
		p->held--;
		orphans = collect(recorder, p);
	}
	freeing->bytes = freeing->block->bytes;
	return orphans;
}

/* ---- uses ---- */

static bool index_mapping(struct recorder *recorder, struct use *use)
{
	return TABLE_ADD(&recorder->arena, recorder->vmm->mappings, number, use);
}

static void unindex_mapping(struct recorder *recorder, struct use *use)
{
	TABLE_REMOVE(&recorder->arena, recorder->vmm->mappings, use);
	memset(&use->hh, 0, sizeof(use->hh));
}

void use_add(const struct use *new)
{
	ENTER_PART(vmm, true);
	struct use *use;

	if (!recorder)
		return;
	use = arena_take(&recorder->arena, sizeof(*use));
	if (use)
		*use = *new;
	if (use && !use->object && !index_mapping(recorder, use)) {
		arena_give(&recorder->arena, use, sizeof(*use));
		use = NULL;
	}
	if (use && use->of)
		DL_APPEND2(use->of->uses, use, before, next);
	if (use && use->object) {
		use->bound = use->object->bound;
		use->object->bound = use;
		use->object->imported = false;
	}
}

void use_forget_mapping(uint64_t address)
{
	ENTER_PART(vmm, true);
	struct use *use;

	if (!recorder)
		return;
	TABLE_FIND(recorder->vmm->mappings, &address, use);
	if (!use)
		return;
	unindex_mapping(recorder, use);
	give_use(recorder, use);
}

void use_forget_binding(const struct use *new)
{
	ENTER_PART(vmm, new->object);
	struct use *use;

	if (!recorder)
		return;
	for (use = new->object->bound; use && use->number != new->number;)
		use = use->bound;
	if (use)
		give_use(recorder, use);
}

/* Removes USE from the table and appends it to the list that *END terminates. */
static struct use **remove_mapping(struct recorder *recorder, struct use *use, struct use **end)
{
	unindex_mapping(recorder, use);
	use->taken = NULL;
	*end = use;
	return &use->taken;
}

struct use *uses_take_mappings(uint64_t address, uint64_t bytes, bool *ret_exact)
{
	ENTER_PART(vmm, true);
	struct use *taken = NULL, **end = &taken, *use, *after;
	uint64_t at = address;

	*ret_exact = false;
	if (!recorder)
		return NULL;
	TABLE_FIND(recorder->vmm->mappings, &at, use);
	while (use && (at == address || use->bytes <= bytes - (at - address))) {
		end = remove_mapping(recorder, use, end);
		at += use->bytes;
		if (at - address >= bytes)
			break;
		TABLE_FIND(recorder->vmm->mappings, &at, use);
	}
	*ret_exact = taken && at - address == bytes;
	/* The range has a hole or does not start with a mapping. That is rare, so search all
	 * mappings. */
	for (use = at - address < bytes ? recorder->vmm->mappings : NULL; use; use = after) {
		after = use->hh.next;
		if (use->number >= address && use->number - address < bytes &&
		    use->bytes <= bytes - (use->number - address))
			end = remove_mapping(recorder, use, end);
	}
	return taken;
}

struct use *uses_take_bindings(uint64_t object, int device, uint64_t offset, uint64_t bytes)
{
	ENTER_PART(vmm, true);
	struct use *taken = NULL, **link;
	struct physical *p;

	if (!recorder)
		return NULL;
	p = physical_lookup(recorder, object);
	for (link = p ? &p->bound : NULL; link && *link;) {
		struct use *use = *link;

		if ((use->device >= 0 && use->device != device) || use->offset < offset ||
		    (use->offset > offset && (use->offset - offset >= bytes ||
					      use->bytes > bytes - (use->offset - offset)))) {
			link = &use->bound;
			continue;
		}
		*link = use->bound;
		use->taken = taken;
		taken = use;
		p->held++;
	}
	return taken;
}

/* Reverts uses_take_mappings() or uses_take_bindings(). If another thread has mapped an address
 * meanwhile, the old mapping is dropped. */
void uses_put_back(struct use *taken)
{
	ENTER_PART(vmm, taken);
	struct use *there, *after;

	for (struct use *use = recorder ? taken : NULL; use; use = after) {
		after = use->taken;
		if (use->object) {
			use->bound = use->object->bound;
			use->object->bound = use;
			use->object->held--;
			continue;
		}
		TABLE_FIND(recorder->vmm->mappings, &use->number, there);
		if (there || !index_mapping(recorder, use))
			give_use(recorder, use);
	}
}

struct use *use_end(struct use *use, struct freeing *freeing)
{
	ENTER_PART(vmm, true);
	struct physical *of = use->of, *object = use->object;
	struct use *orphans;

	if (!recorder)
		return NULL;
	give_use(recorder, use);
	if (freeing->block)
		freeing->bytes = freeing->block->bytes;
	orphans = collect(recorder, of);
	if (object && --object->held == 0)
		collect(recorder, object);
	return orphans;
}

uint64_t uses_in(uint64_t address, uint64_t bytes, uint64_t *ret_bytes)
{
	ENTER_PART(vmm, true);
	uint64_t end = address + bytes, first = 0;

	*ret_bytes = 0;
	if (!recorder)
		return 0;
	for (struct use *use = recorder->vmm->mappings; use; use = use->hh.next) {
		uint64_t from = use->number > address ? use->number : address;
		uint64_t to = use->number + use->bytes < end ? use->number + use->bytes : end;

		if (from >= to)
			continue;
		*ret_bytes += to - from;
		first = !first || use->number < first ? use->number : first;
	}
	return first;
}
