/* SPDX-License-Identifier: MIT
 *
 * CUDA's virtual memory management and multicast: which blocks each call makes and ends. physical.c
 * decides which block counts the bytes of physical memory. Does not query the driver: a thread
 * without a context may make these calls, and none of these blocks belongs to a context.
 */
#include "interpose/cuda/wrappers/cuda_calls.h"

#include "interpose/cuda/physical.h"

/* ---- handles ---- */

/* The call added a reference to HANDLE. If the handle was released before and PHYSICAL, its memory,
 * still exists, the handle gets a block again. PHYSICAL may be NULL. */
static void handle_retained(struct call *call, uint64_t handle, struct physical *physical)
{
	const struct made made = {
		handle, handle, physical_bytes(physical), 0, physical_device(physical), true, 0,
	};
	struct ledger_block *block;

	call->space = SPACE_VMM_HANDLE;
	if (record_retained(call, handle))
		return;
	block = record_block(call, &made);
	if (block && physical)
		physical_back(physical, block);
	else if (block)
		physical_made(handle, block, 0, made.device, true);
}

int vmm_device_of(const CUmemAllocationProp *prop)
{
	return prop && prop->location.type == LOCATION_DEVICE ? prop->location.id : -1;
}

/* A multicast object has no memory of its own, only the memory bound to it: 0 BYTES, without
 * PROP. */
void vmm_created(struct call *call, uint64_t handle, uint64_t bytes,
		 const CUmemAllocationProp *prop)
{
	int device = vmm_device_of(prop);
	const struct made made = { handle, handle, bytes, bytes, device, false, 0 };
	struct ledger_block *block;

	physical_forget(handle);
	call->space = SPACE_VMM_HANDLE;
	block = record_block(call, &made);
	if (block)
		physical_made(handle, block, bytes, device, false);
}

/* Records an imported handle; the memory is another process's. The driver may return a known
 * handle, with one more reference. It may also return the handle of memory that was released here
 * and is still mapped. */
void vmm_imported(struct call *call, uint64_t handle)
{
	struct physical *physical = physical_hold(handle);

	handle_retained(call, handle, physical_is_mapped(physical) ? physical : NULL);
	physical_let_go(physical);
}

void vmm_retained(struct call *call, uint64_t handle, const void *address)
{
	struct physical *physical = physical_hold_mapped((uintptr_t)address);

	if (!physical_is(physical, handle)) {
		physical_let_go(physical);
		physical = physical_hold(handle);
	}
	handle_retained(call, handle, physical);
	physical_let_go(physical);
}

/* ---- uses that end ---- */

static void take_blocks(struct call *call, struct use *taken)
{
	for (struct use *use = taken; use; use = use->taken) {
		call->space = use->object ? SPACE_MULTICAST_BINDING : SPACE_VMM_MAPPING;
		record_freeing(call, use->number, &use->freeing);
	}
}

static struct use *end_use(struct call *call, struct use *use, enum outcome outcome, int r)
{
	struct freeing freeing = use->freeing;
	uint64_t object = use->object && freeing.block ? freeing.block->address : 0;
	struct use *orphans = use_end(use, &freeing);

	if (object)
		freeing.address = object; /* report the object's handle, not our number */
	record_freed(call, &freeing, outcome, r);
	return orphans;
}

/* Ends bindings whose multicast object ended with them: no call can unbind them any more. */
static void end_orphans(struct call *call, struct use *orphans, enum outcome outcome, int r)
{
	struct use *after;

	for (struct use *use = orphans; use; use = after) {
		after = use->taken;
		call->space = SPACE_MULTICAST_BINDING;
		record_freeing(call, use->number, &use->freeing);
		end_use(call, use, outcome, r);
	}
}

static void end_uses(struct call *call, struct use *taken, enum outcome outcome, int r)
{
	struct use *after;

	for (struct use *use = taken; use; use = after) {
		after = use->taken;
		end_orphans(call, end_use(call, use, outcome, r), outcome, r);
	}
}

/* How to report uses that the call did not end. One call is reported once, for the first use. */
struct kept {
	bool silent; /* the caller reports the failure */
	bool exact;  /* the call's range is exactly the range of the uses */
	uint64_t asked_bytes;
};

static void keep_uses(struct call *call, struct use *taken, const struct kept *kept,
		      enum outcome outcome, int r)
{
	const struct misuse misuse = {
		taken->object ? SPACE_MULTICAST_BINDING : SPACE_VMM_MAPPING, taken->number, true,
		kept->asked_bytes, 0,
	};
	struct freeing first = taken->freeing;

	if (taken->object)
		first.address = first.block ? first.block->address : 0;
	for (struct use *use = taken->taken; use; use = use->taken)
		record_kept(&use->freeing);
	uses_put_back(taken);
	if (kept->silent)
		record_kept(&first);
	else if (outcome == OUTCOME_INVALID && !kept->exact)
		record_misused(call->hook, &first, &misuse, r);
	else
		record_freed(call, &first, outcome, r);
}

CUresult vmm_release(struct call *call, void *real, CUmemGenericAllocationHandle handle)
{
	struct physical *physical;
	struct freeing freeing;
	enum outcome outcome;
	struct use *orphans;
	CUresult r;

	call->space = SPACE_VMM_HANDLE;
	record_releasing(call, handle, &freeing);
	physical = physical_releasing(handle, &freeing);
	WRAP_CALL(r, DRIVER(cuMemRelease, real)(handle));
	outcome = cuda_outcome(r);
	orphans = physical_released(physical, &freeing, outcome_ends(outcome));
	end_orphans(call, orphans, outcome, r);
	record_released(call, &freeing, outcome, r);
	return r;
}

/* ---- addresses ---- */

/* A reservation takes addresses, not memory. */
void vmm_reserved(struct call *call, uint64_t address, uint64_t size)
{
	const struct made made = { address, address, size, 0, -1, false, 0 };

	call->space = SPACE_VMM_RESERVATION;
	record_block(call, &made);
}

CUresult vmm_unreserve(struct call *call, void *real, CUdeviceptr address, size_t size)
{
	struct freeing freeing;
	enum outcome outcome;
	struct misuse misuse = { .space = SPACE_VMM_MAPPING };
	CUresult r;

	call->space = SPACE_VMM_RESERVATION;
	record_freeing(call, address, &freeing);
	WRAP_CALL(r, DRIVER(cuMemAddressFree, real)(address, size));
	outcome = cuda_outcome(r);
	if (outcome == OUTCOME_INVALID && freeing.block && size != freeing.span)
		misuse = (struct misuse){ SPACE_VMM_RESERVATION, address, true, size, 0 };
	else if (outcome == OUTCOME_INVALID && freeing.block)
		misuse.number = uses_in(address, size, &misuse.mapped_bytes);
	if (misuse.number)
		record_misused(call->hook, &freeing, &misuse, r);
	else
		record_freed(call, &freeing, outcome, r);
	return r;
}

void vmm_mapped(struct call *call, uint64_t address, uint64_t size, uint64_t handle)
{
	struct use use = { .number = address, .bytes = size };
	struct made made = { address, address, size, 0, -1, false, 0 };

	use_forget_mapping(address);
	use.of = physical_hold(handle);
	made.device = physical_device(use.of);
	if (physical_bytes(use.of) == size) /* all of the memory, so a reader knows the range */
		made.parent = handle;
	call->space = SPACE_VMM_MAPPING;
	use.block = record_block(call, &made);
	if (use.block)
		use_add(&use);
	if (use.block && physical_is_import(use.of)) {
		cuda_record_import(SPACE_VMM_HANDLE, handle, handle, size);
		cuda_record_import(SPACE_VMM_MAPPING, address, handle, size);
	}
	physical_let_go(use.of);
}

/* One unmap may cover several mappings with holes between them, or no mapping at all. The driver
 * returns success in all these cases (seen on an H200). */
CUresult vmm_unmap(struct call *call, void *real, CUdeviceptr address, size_t size)
{
	struct freeing freeing = { 0 };
	struct kept kept = { .asked_bytes = size };
	enum outcome outcome;
	struct use *taken;
	bool begins;
	CUresult r;

	taken = uses_take_mappings(address, size, &kept.exact);
	begins = taken && taken->number == address;
	take_blocks(call, taken);
	call->space = SPACE_VMM_MAPPING;
	if (!begins)
		record_freeing(call, address, &freeing);
	WRAP_CALL(r, DRIVER(cuMemUnmap, real)(address, size));
	outcome = cuda_outcome(r);
	kept.silent = !begins && outcome == OUTCOME_INVALID;
	if (taken && outcome_ends(outcome))
		end_uses(call, taken, outcome, r);
	else if (taken)
		keep_uses(call, taken, &kept, outcome, r);
	if (!begins && (freeing.block || !outcome_ends(outcome)))
		record_freed(call, &freeing, outcome, r);
	return r;
}

/* ---- multicast ---- */

/* Returns a number that identifies a place in a multicast object, the same for bind and unbind. */
static uint64_t binding_number(const struct vmm_place *place)
{
	uint64_t mixed = TABLE_MIX(place->object ^ TABLE_MIX(place->offset +
							     (uint64_t)(place->device + 1)));

	return mixed >> 8 | 1; /* the upper byte of a key is the space */
}

static void bound(struct call *call, struct vmm_place *place, struct physical *memory)
{
	struct made made = { .address = place->object, .span = place->bytes };
	struct use use = { .bytes = place->bytes, .offset = place->offset, .of = memory };

	if (place->device < 0)
		place->device = physical_device(memory);
	use.number = binding_number(place);
	use.device = place->device;
	use.object = physical_hold(place->object);
	use_forget_binding(&use);
	made.number = use.number;
	made.device = place->device;
	call->space = SPACE_MULTICAST_BINDING;
	if (use.object) /* without its entry an unbind could not find this binding */
		use.block = record_block(call, &made);
	if (use.block)
		use_add(&use);
	physical_let_go(use.object);
	physical_let_go(memory);
}

void vmm_bound_mem(struct call *call, struct vmm_place place, uint64_t memory)
{
	bound(call, &place, physical_hold(memory));
}

/* ADDRESS may also be stream-ordered memory, which has a block of its own that counts the bytes. */
void vmm_bound_address(struct call *call, struct vmm_place place, uint64_t address)
{
	if (place.device < 0) /* bound() takes the device of mapped memory from PHYSICAL */
		place.device = record_device_of(address);
	bound(call, &place, physical_hold_mapped(address));
}

CUresult vmm_unbind(struct call *call, void *real, CUmemGenericAllocationHandle object,
		    CUdevice device, size_t offset, size_t size)
{
	const struct vmm_place place = { object, offset, size, device };
	struct kept kept = { .asked_bytes = size };
	struct freeing freeing = { 0 };
	enum outcome outcome;
	struct use *taken;
	CUresult r;

	taken = uses_take_bindings(object, device, offset, size);
	take_blocks(call, taken);
	call->space = SPACE_MULTICAST_BINDING;
	if (!taken && object) {
		record_freeing(call, binding_number(&place), &freeing);
		freeing.address = object;
	}
	WRAP_CALL(r, DRIVER(cuMulticastUnbind, real)(object, device, offset, size));
	outcome = cuda_outcome(r);
	kept.exact = taken && taken->offset == offset && taken->bytes == size;
	if (taken && outcome_ends(outcome))
		end_uses(call, taken, outcome, r);
	else if (taken)
		keep_uses(call, taken, &kept, outcome, r);
	else if (!outcome_ends(outcome))
		record_freed(call, &freeing, outcome, r);
	return r;
}
