/* SPDX-License-Identifier: MIT
 *
 * What would come back if a leak were freed, where that is not the size of its blocks: a sub-buffer
 * or an image of OpenCL keeps the released buffer that it is a part of, and an import keeps memory
 * of another process. Each memory counts once, at a leak before what is suppressed.
 */

#include "report/model/builder.h"

/* A live block that keeps the memory OF: an import, or a parent, of which the block has BYTES. */
struct keeper {
	const struct ledger_block *block;
	struct report_leak *group;
	uint64_t of, bytes;
	bool is_import;
};

/* A block of OpenCL, by its handle; or imported memory, by the handle of that. */
struct kept_memory {
	uint64_t number;
	const struct ledger_block *block;
	bool counted;
	bool mapped; /* by CUDA's virtual memory management */
};

struct keeping {
	struct builder *b;
	struct table memories;
	struct keeper *keepers;
	size_t count;
	const struct ledger_block **handles; /* live ones, of physical memory */
	size_t handle_count;
	bool partly; /* a mapping of an unknown handle, or of a part of its memory, is live */
};

static bool has_kind(const struct builder *b, const struct ledger_site *site,
		     const char *beginning)
{
	uint32_t length = 0;
	const char *kind = site ? ledger_string(b->view, site->kind, &length) : NULL;

	return kind && length >= strlen(beginning) &&
	       memcmp(kind, beginning, strlen(beginning)) == 0;
}

static bool is_leak(const struct report_leak *group)
{
	return !group->pattern && !group->cache;
}

/* Returns true if BLOCK, which is live, is a part of a leak. */
static bool is_listed(struct builder *b, const struct ledger_block *block)
{
	return build_is_selected(b, block) && is_leak(build_group_of(b, block));
}

static struct kept_memory *memory_of(struct keeping *k, uint64_t number)
{
	return table_intern(k->b->arena, &k->memories, &number, sizeof(number),
			    sizeof(struct kept_memory));
}

static void add_mapping(struct keeping *k, const struct ledger_block *block)
{
	const struct ledger_site *site = ledger_site(k->b->view, block->site);

	if (has_kind(k->b, site, "vmm-handle") && build_is_selected(k->b, block))
		*LIST_ADD(k->handles, k->handle_count) = block;
	if (!has_kind(k->b, site, "vmm-mapping"))
		return;
	k->partly |= !block->parent;
	memory_of(k, block->parent)->mapped = true;
}

static void add_block(struct keeping *k, const struct ledger_block *block)
{
	const struct ledger_ipc *import = build_reason(k->b, &k->b->import_refs, block);
	const struct ledger_site *site = ledger_site(k->b->view, block->site);
	bool is_opencl = has_kind(k->b, site, "cl-");
	bool is_live = ledger_block_is_live(block->state, block->marked);

	if (is_live && !is_opencl)
		add_mapping(k, block);
	if (is_opencl)
		memory_of(k, block->address)->block = block;
	if ((import || (is_opencl && block->parent)) && build_is_selected(k->b, block) && is_live)
		*LIST_ADD(k->keepers, k->count) = (struct keeper){
			block, build_group_of(k->b, block),
			import ? import->address : block->parent,
			import ? import->bytes : block->bytes, import != NULL };
}

/* Orders leaks first; then the handles of imported memory, before its mappings; then by address. */
static int compare_keepers(const void *left, const void *right)
{
	const struct keeper *a = left, *b = right;

	return is_leak(b->group) - is_leak(a->group)
	       ?: (a->of != a->block->address) - (b->of != b->block->address)
	       ?: compare_numbers(a->block->address, b->block->address);
}

/* Marks the leaks of handles whose memory is not mapped, if the process mapped any. */
static void mark_unmapped(struct keeping *k)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;
	bool maps = false;

	while (k->handle_count && !k->partly && (site = build_next_site(k->b, &walk)))
		maps |= strcmp(build_name(k->b, site->kind), "vmm-mapping") == 0;
	for (size_t i = 0; i < k->handle_count && maps; i++)
		build_group_of(k->b, k->handles[i])->unmapped = true;
	for (size_t i = 0; i < k->handle_count; i++)
		if (memory_of(k, k->handles[i]->address)->mapped)
			build_group_of(k->b, k->handles[i])->unmapped = false;
}

/* Returns the bytes of the import, or of the largest released buffer that the block is a part of;
 * 0 if they count already. If the block is a part of a live buffer that is a leak, they count
 * there. */
static uint64_t bytes_kept(struct keeping *k, const struct keeper *keeper)
{
	uint64_t bytes = keeper->bytes;

	for (uint64_t of = keeper->of; of;) {
		struct kept_memory *memory = memory_of(k, of);
		const struct ledger_block *block = memory->block;

		if (!block && !keeper->is_import)
			break;
		if (block && ledger_block_is_live(block->state, block->marked))
			return is_listed(k->b, block) ? 0 : bytes;
		if (memory->counted)
			return 0;
		memory->counted = true;
		if (block && !keeper->group->parent)
			keeper->group->parent = &intern_site_of_block(k->b, block->site)->site;
		bytes = block ? block->bytes : bytes;
		of = block ? block->parent : 0;
	}
	return bytes;
}

void build_keeps(struct builder *b)
{
	struct keeping k = { .b = b };
	struct ledger_walk walk = { 0 }, sites = { 0 };
	bool has_parts = b->import_refs.count != 0;
	const struct ledger_block *block;
	const struct ledger_site *site;

	while (!has_parts && (site = ledger_next_site(b->view, &sites)))
		has_parts = has_kind(b, site, "cl-") || has_kind(b, site, "vmm-");
	while (has_parts && (block = ledger_next_block_slot(b->view, &walk)))
		if (LEDGER_BLOCK_STATE(block->state) != LEDGER_BLOCK_UNUSED)
			add_block(&k, block);
	SORT(k.keepers, k.count, compare_keepers);
	for (size_t i = 0; i < k.count; i++) {
		uint64_t *keeps = &k.keepers[i].group->keeps_bytes;
		uint64_t own = k.keepers[i].block->bytes;

		*keeps = add_bounded(*keeps > own ? *keeps - own : 0,
				     bytes_kept(&k, &k.keepers[i]));
	}
	mark_unmapped(&k);
	free(k.handles);
	free(k.keepers);
}
