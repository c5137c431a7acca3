/* SPDX-License-Identifier: MIT
 *
 * CUDA's virtual memory management and multicast: which blocks each call makes and ends. physical.c
 * decides which block counts the bytes of physical memory. Does not query the driver: a thread
 * without a context may make these calls, and none of these blocks belongs to a context.
 */
#include "interpose/cuda/wrappers/cuda_vmm.h"

#include "interpose/block/blocks.h"
#include "interpose/block/driver_call.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/cuda/physical.h"
#include "interpose/dispatch/resolve.h"

static struct site in(const struct site *call, enum space space)
{
	return (struct site){ call->hook, call->caller, space };
}

static bool is_over(enum outcome outcome)
{
	return outcome == OUTCOME_DONE || outcome == OUTCOME_LATE;
}

/* ---- handles ---- */

static void handle_made(const struct site *call, uint64_t handle, uint64_t bytes, int device)
{
	const struct ledger_block facts = { .address = handle, .bytes = bytes };
	const struct site site = in(call, SPACE_VMM_HANDLE);
	struct ledger_block *block;

	physical_forget(handle);
	block = record_block(&site, handle, bytes, &facts, device, false);
	if (block)
		physical_made(handle, block, bytes, device);
}

/* The call added a reference to HANDLE. If the handle was released before and PHYSICAL, its memory,
 * still exists, the handle gets a block again. PHYSICAL may be NULL. */
static void handle_retained(const struct site *call, uint64_t handle, struct physical *physical)
{
	const struct ledger_block facts = { .address = handle };
	const struct site site = in(call, SPACE_VMM_HANDLE);
	int device = physical_device(physical);
	struct ledger_block *block;

	if (record_retained(&site, handle))
		return;
	block = record_block(&site, handle, physical_bytes(physical), &facts, device, true);
	if (block && physical)
		physical_back(physical, block);
	else if (block)
		physical_made(handle, block, 0, device);
}

int vmm_device_of(const CUmemAllocationProp *prop)
{
	return prop && prop->location.type == LOCATION_DEVICE ? prop->location.id : -1;
}

void vmm_created(const struct site *call, uint64_t handle, uint64_t bytes,
		 const CUmemAllocationProp *prop)
{
	handle_made(call, handle, bytes, vmm_device_of(prop));
}

/* A multicast object has no memory of its own, only the memory bound to it. */
void vmm_created_multicast(const struct site *call, uint64_t handle)
{
	handle_made(call, handle, 0, -1);
}

/* Records an imported handle; the memory is another process's. The driver may return a known
 * handle, with one more reference. It may also return the handle of memory that was released here
 * and is still mapped. */
void vmm_imported(const struct site *call, uint64_t handle)
{
	struct physical *physical = physical_hold(handle);

	handle_retained(call, handle, physical_is_mapped(physical) ? physical : NULL);
	physical_let_go(physical);
}

void vmm_retained(const struct site *call, uint64_t handle, const void *address)
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

static void take_blocks(const struct site *call, struct use *taken)
{
	const struct site mapping = in(call, SPACE_VMM_MAPPING);
	const struct site binding = in(call, SPACE_MULTICAST_BINDING);

	for (struct use *use = taken; use; use = use->taken)
		record_freeing(use->object ? &binding : &mapping, use->number, &use->freeing);
}

static struct use *end_use(const struct site *call, struct use *use, enum outcome outcome, int r)
{
	struct freeing freeing = use->freeing;
	uint64_t object = use->object && freeing.block ? freeing.block->address : 0;
	struct use *orphans = use_end(use, &freeing);

	if (object)
		freeing.address = object; /* report the object's handle, not our number */
	record_freed(call->hook, &freeing, outcome, r);
	return orphans;
}

/* Ends bindings whose multicast object ended with them: no call can unbind them any more. */
static void end_orphans(const struct site *call, struct use *orphans, enum outcome outcome, int r)
{
	const struct site binding = in(call, SPACE_MULTICAST_BINDING);
	struct use *after;

	for (struct use *use = orphans; use; use = after) {
		after = use->taken;
		record_freeing(&binding, use->number, &use->freeing);
		end_use(call, use, outcome, r);
	}
}

static void end_uses(const struct site *call, struct use *taken, enum outcome outcome, int r)
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

static void keep_uses(const struct site *call, struct use *taken, const struct kept *kept,
		      enum outcome outcome, int r)
{
	const struct misuse misuse = {
		taken->object ? SPACE_MULTICAST_BINDING : SPACE_VMM_MAPPING, taken->number, true,
		kept->asked_bytes,
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
		record_freed(call->hook, &first, outcome, r);
}

CUresult vmm_release(const struct site *call, void *real, CUmemGenericAllocationHandle handle)
{
	const struct site site = in(call, SPACE_VMM_HANDLE);
	struct physical *physical;
	struct freeing freeing;
	enum outcome outcome;
	struct use *orphans;
	CUresult r;

	record_releasing(&site, handle, &freeing);
	physical = physical_releasing(handle, &freeing);
	record_call();
	r = DRIVER_CALL(real, CUresult(*)(CUmemGenericAllocationHandle), (handle));
	record_call_done();
	outcome = cuda_outcome(r);
	orphans = physical_released(physical, &freeing, is_over(outcome));
	end_orphans(call, orphans, outcome, r);
	record_released(call->hook, &freeing, outcome, r);
	return r;
}

/* ---- addresses ---- */

/* A reservation takes addresses, not memory. */
void vmm_reserved(const struct site *call, uint64_t address, uint64_t size)
{
	const struct site site = in(call, SPACE_VMM_RESERVATION);
	const struct ledger_block facts = { .address = address };

	record_block(&site, address, size, &facts, -1, false);
}

CUresult vmm_unreserve(const struct site *call, void *real, CUdeviceptr address, size_t size)
{
	const struct site site = in(call, SPACE_VMM_RESERVATION);
	struct freeing freeing;
	enum outcome outcome;
	struct misuse misuse = { 0 };
	CUresult r;

	record_freeing(&site, address, &freeing);
	record_call();
	r = DRIVER_CALL(real, CUresult(*)(CUdeviceptr, size_t), (address, size));
	record_call_done();
	outcome = cuda_outcome(r);
	if (outcome == OUTCOME_INVALID && freeing.block && size != freeing.span)
		misuse = (struct misuse){ SPACE_VMM_RESERVATION, address, true, size };
	else if (outcome == OUTCOME_INVALID && freeing.block)
		misuse = (struct misuse){ SPACE_VMM_MAPPING, use_in(address, size), false, 0 };
	if (misuse.number)
		record_misused(call->hook, &freeing, &misuse, r);
	else
		record_freed(call->hook, &freeing, outcome, r);
	return r;
}

void vmm_mapped(const struct site *call, uint64_t address, uint64_t size, uint64_t handle)
{
	const struct site site = in(call, SPACE_VMM_MAPPING);
	const struct ledger_block facts = { .address = address };
	struct use use = { .number = address, .bytes = size };

	use_forget_mapping(address);
	use.of = physical_hold(handle);
	use.block = record_block(&site, address, size, &facts, physical_device(use.of), false);
	if (use.block)
		use_add(&use);
	physical_let_go(use.of);
}

/* One unmap may cover several mappings with holes between them, or no mapping at all. The driver
 * returns success in all these cases (seen on an H200). */
CUresult vmm_unmap(const struct site *call, void *real, CUdeviceptr address, size_t size)
{
	const struct site site = in(call, SPACE_VMM_MAPPING);
	struct freeing freeing = { 0 };
	struct kept kept = { .asked_bytes = size };
	enum outcome outcome;
	struct use *taken;
	bool begins;
	CUresult r;

	taken = uses_take_mappings(address, size, &kept.exact);
	begins = taken && taken->number == address;
	take_blocks(call, taken);
	if (!begins)
		record_freeing(&site, address, &freeing);
	record_call();
	r = DRIVER_CALL(real, CUresult(*)(CUdeviceptr, size_t), (address, size));
	record_call_done();
	outcome = cuda_outcome(r);
	kept.silent = !begins && outcome == OUTCOME_INVALID;
	if (taken && is_over(outcome))
		end_uses(call, taken, outcome, r);
	else if (taken)
		keep_uses(call, taken, &kept, outcome, r);
	if (!begins && (freeing.block || !is_over(outcome)))
		record_freed(call->hook, &freeing, outcome, r);
	return r;
}

/* ---- multicast ---- */

/* Returns a number that identifies a place in a multicast object, the same for bind and unbind. */
static uint64_t binding_number(const struct vmm_place *place)
{
	uint64_t mixed = table_mix(place->object ^ table_mix(place->offset +
							     (uint64_t)(place->device + 1)));

	return mixed >> 4 | 1;
}

static void bound(const struct site *call, struct vmm_place *place, struct physical *memory)
{
	const struct ledger_block facts = { .address = place->object };
	const struct site site = in(call, SPACE_MULTICAST_BINDING);
	struct use use = { .bytes = place->bytes, .offset = place->offset, .of = memory };

	if (place->device < 0)
		place->device = physical_device(memory);
	use.number = binding_number(place);
	use.device = place->device;
	use.object = physical_hold(place->object);
	use_forget_binding(&use);
	/* Without the object's entry an unbind could not find this binding. */
	if (use.object)
		use.block = record_block(&site, use.number, place->bytes, &facts, place->device,
					 false);
	if (use.block)
		use_add(&use);
	physical_let_go(use.object);
	physical_let_go(memory);
}

void vmm_bound_mem(const struct site *call, struct vmm_place place, uint64_t memory)
{
	bound(call, &place, physical_hold(memory));
}

/* ADDRESS may also be stream-ordered memory, which has a block of its own that counts the bytes. */
void vmm_bound_address(const struct site *call, struct vmm_place place, uint64_t address)
{
	if (place.device < 0) /* bound() takes the device of mapped memory from PHYSICAL */
		place.device = record_device_of(address);
	bound(call, &place, physical_hold_mapped(address));
}

CUresult vmm_unbind(const struct site *call, void *real, CUmemGenericAllocationHandle object,
		    CUdevice device, size_t offset, size_t size)
{
	const struct vmm_place place = { object, offset, size, device };
	const struct site site = in(call, SPACE_MULTICAST_BINDING);
	struct kept kept = { .asked_bytes = size };
	struct freeing freeing = { 0 };
	enum outcome outcome;
	struct use *taken;
	CUresult r;

	taken = uses_take_bindings(object, device, offset, size);
	take_blocks(call, taken);
	if (!taken && object) {
		record_freeing(&site, binding_number(&place), &freeing);
		freeing.address = object;
	}
	record_call();
	r = DRIVER_CALL(real, CUresult(*)(CUmemGenericAllocationHandle, CUdevice, size_t, size_t),
			(object, device, offset, size));
	record_call_done();
	outcome = cuda_outcome(r);
	kept.exact = taken && taken->offset == offset && taken->bytes == size;
	if (taken && is_over(outcome))
		end_uses(call, taken, outcome, r);
	else if (taken)
		keep_uses(call, taken, &kept, outcome, r);
	else if (!is_over(outcome))
		record_freed(call->hook, &freeing, outcome, r);
	return r;
}
