/* SPDX-License-Identifier: MIT
 *
 * Decides if a range that a call copies or sets lies inside one block. Says so only if the blocks
 * that gpuleak has seen prove it: memory that nobody recorded is never an error. Must not change a
 * call, and makes no driver call that a capture forbids.
 */
#include "interpose/guard/copies.h"

#include "interpose/block/block_ranges.h"
#include "interpose/cuda/captures.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/guard/guarded.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/patterns.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/pytorch/suballocations.h"
#include "interpose/stack/unwinder.h"

/* CUDA's allocations begin at multiples of this, so no other block lies in the rest of the last
 * one. */
#define ALLOCATION_GRAIN 256u

enum { NODE_COPY = 1, NODE_SET = 2 }; /* CUgraphNodeType */

struct access {
	struct copy_call copying;
	uint64_t address, bytes, end;
	bool reads;
	bool guarded; /* `around` is a block of patterns or pages around the address */
	struct guard_place around;
};

/* VERDICT_FREED_PART: freed by a framework, in a live block of the driver. */
enum verdict { VERDICT_FINE, VERDICT_OUT, VERDICT_FREED, VERDICT_FREED_PART };

/* ---- one range ---- */

static bool kind_is(const struct recorder *recorder, const struct ledger_error *error,
		    const char *kind)
{
	return recorder_text_is(recorder, error->kind, kind);
}

/* Returns true if the addresses of ERROR's block are also those of the host, which may use them for
 * other memory after the free. */
static bool is_on_host(const struct recorder *recorder, const struct ledger_error *error)
{
	return kind_is(recorder, error, "pinned") || kind_is(recorder, error, "managed") ||
	       kind_is(recorder, error, "cl-svm") || kind_is(recorder, error, "cl-usm");
}

/* Returns the last block of the memory that FOUND begins, with the bytes of all of it. Mappings of
 * virtual memory side by side are one range for the program. */
static struct ledger_block memory_from(struct recorder *recorder, const struct range_found *found,
				       uint64_t wanted)
{
	struct ledger_block ret = found->live;
	struct range_found next;

	ret.address = found->begin;
	while (ret.address + ret.bytes < wanted && found->space == SPACE_VMM_MAPPING) {
		ranges_find(recorder, ret.address + ret.bytes, &next);
		if (next.state != RANGE_LIVE || next.begin != ret.address + ret.bytes ||
		    next.space != SPACE_VMM_MAPPING)
			break;
		next.live.bytes += ret.bytes;
		next.live.address = ret.address;
		ret = next.live;
	}
	return ret;
}

/* Stores the driver's block around ADDRESS, or returns false. */
static bool driver_has(uint64_t address, CUdeviceptr *ret_base)
{
	CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr) =
		(__typeof__(range))resolve_driver(&hooks[HOOK_cuMemGetAddressRange_v2]).real;
	size_t bytes;

	return range && range(ret_base, &bytes, address) == CUDA_SUCCESS;
}

static bool is_in_graph(const struct copy_call *copying)
{
	return copying->is_node ||
	       (copying->stream && cuda_is_captured(copying->call->hook, *copying->stream));
}

/* The range of ACCESS lies in FOUND, a live block of the driver: checks what a framework has
 * allocated in it. A captured graph may use memory that the framework counts as free. */
static enum verdict look_inside(struct recorder *recorder, const struct access *access,
				const struct range_found *found, struct ledger_error *error)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, found->live.site);
	struct ledger_block part;
	enum suballocation_state state;

	if (site->device < 0)
		return VERDICT_FINE;
	state = suballocation_around(recorder, site->device, access->address, found->begin, &part);
	if (state == SUBALLOCATION_UNKNOWN ||
	    (state == SUBALLOCATION_FREED && (captures_last() || access->copying.is_node)) ||
	    (state == SUBALLOCATION_LIVE && access->end <= part.address + part.bytes))
		return VERDICT_FINE;
	error_tell_live(recorder, &part, error);
	return state == SUBALLOCATION_LIVE ? VERDICT_OUT : VERDICT_FREED_PART;
}

/* Returns true if ACCESS begins behind FOUND, the last block before it, where no other block is: in
 * the rest of its last 256 bytes, or at its end if the driver has no memory there. */
static bool begins_behind(const struct access *access, const struct range_found *found)
{
	uint64_t end = found->begin + found->live.bytes;
	CUdeviceptr base;

	if (found->state != RANGE_LIVE || found->space != SPACE_MEMORY || !found->live.bytes)
		return false;
	if (end % ALLOCATION_GRAIN)
		return access->address < (end | (ALLOCATION_GRAIN - 1)) + 1;
	return access->address == end && access->copying.call->hook->api == API_CUDA &&
	       !is_in_graph(&access->copying) && !driver_has(end, &base);
}

/* The range of ACCESS does not begin inside a live block; FOUND is the last block before. It may
 * begin beside a block of patterns or pages, or right behind FOUND, or reach into the next block:
 * the nearer one counts. */
static enum verdict look_outside(struct recorder *recorder, const struct access *access,
				 const struct range_found *found, struct ledger_error *error)
{
	const uint64_t behind = access->address - (found->begin + found->live.bytes);
	const bool is_behind = begins_behind(access, found);
	struct range_found block = { 0 };

	if (access->guarded)
		ranges_find(recorder, access->around.address, &block);
	else if (found->next < access->end && access->end != UINT64_MAX)
		ranges_find(recorder, found->next, &block);
	if (is_behind &&
	    (block.state != RANGE_LIVE || behind <= block.begin - access->address))
		block = *found;
	if (block.state != RANGE_LIVE || block.space != SPACE_MEMORY)
		return VERDICT_FINE;
	error_tell_live(recorder, &block.live, error);
	error->flags |= access->address < block.begin ? LEDGER_ERROR_BEFORE : 0;
	return is_on_host(recorder, error) ? VERDICT_FINE : VERDICT_OUT;
}

static enum verdict look(struct recorder *recorder, const struct access *access,
			 struct ledger_error *error)
{
	struct range_found found;

	ranges_find(recorder, access->address, &found);
	if (found.state == RANGE_LIVE && access->address - found.begin < found.live.bytes) {
		struct ledger_block memory = memory_from(recorder, &found, access->end);

		if (access->end <= memory.address + memory.bytes)
			return look_inside(recorder, access, &found, error);
		error_tell_live(recorder, &memory, error);
		return VERDICT_OUT;
	}
	if (found.state == RANGE_ENDED && access->address - found.begin < found.span) {
		error_tell_past(recorder, found.begin, &found.past, error);
		return VERDICT_FREED;
	}
	if (found.state != RANGE_LIVE)
		found.live.bytes = 0;
	return look_outside(recorder, access, &found, error);
}

/* Returns true if memory that gpuleak has not seen may lie at ACCESS's address, where ERROR's block
 * was: that of a graph that allocates, a variable of a module, or other memory of the host. It
 * cannot if the guard holds the block back or keeps its address unmapped. If the driver has a block
 * with the same begin, it may be ERROR's, unless cuMemFree has returned: other frees may wait. */
static bool may_be_other_memory(const struct recorder *recorder, const struct access *access,
				const struct ledger_error *error)
{
	CUdeviceptr base = 0;

	if (is_in_graph(&access->copying))
		return true;
	if (is_on_host(recorder, error))
		return !patterns_hold_svm(access->address) &&
		       unwinder_can_read((const void *)(uintptr_t)access->address);
	return !access->guarded && access->copying.call->hook->api == API_CUDA &&
	       driver_has(access->address, &base) &&
	       (base != error->block_address || (kind_is(recorder, error, "device") &&
		       recorder_text_is(recorder, error->freed.api, "cuMemFree_v2")));
}

static uint32_t record(struct recorder *recorder, const struct access *access,
		       enum verdict verdict, struct ledger_error *error)
{
	struct call *call = access->copying.call;

	error->address = access->address;
	error->asked_bytes = access->bytes;
	error->flags |= access->reads ? LEDGER_ERROR_READ : 0;
	error->result = LEDGER_NO_ANSWER;
	error->stack = stack_here(recorder, call->caller);
	return guard_error(recorder,
			   verdict == VERDICT_OUT ? ERROR_COPY_OUT : ERROR_COPY_FREED, call->hook,
			   error);
}

static struct access access_of(struct copy_call copying, uint64_t address, uint64_t bytes,
			       bool reads)
{
	return (struct access){ .copying = copying, .address = address, .bytes = bytes,
				.end = copy_plus(address, 1, bytes), .reads = reads };
}

static uint32_t check(struct copy_call copying, const struct copy_end *end, bool reads)
{
	struct access access = access_of(copying, end->address, copy_extent(end), reads);
	struct ledger_error error = { 0 };
	enum verdict verdict;

	access.guarded = guard_has(GUARD_BLOCKS) && guard_find(access.address, &access.around);
	LEAVE_AT_END struct recorder *recorder = recorder_now() ? recorder_enter() : NULL;
	if (!recorder || !access.address || !access.bytes)
		return 0;
	GUARD_COUNT(checks, 1);
	verdict = look(recorder, &access, &error);
	if (__builtin_expect(verdict == VERDICT_FINE, 1) ||
	    (verdict == VERDICT_FREED && may_be_other_memory(recorder, &access, &error)))
		return 0;
	return record(recorder, &access, verdict, &error);
}

/* ---- each end ---- */

uint32_t copies_check(struct copy_call copying, struct copy_end to, struct copy_end from)
{
	if (!copying.is_node &&
	    (patterns_is_leaving(to.address) || patterns_is_leaving(from.address)))
		patterns_settle();
	if (guard_has(GUARD_PATTERNS) && !copying.is_node)
		launches_note_copy(copying.call, copying.stream, to.address);
	if (!guard_has(GUARD_COPIES))
		return 0;
	return copies_either(check(copying, &from, true), check(copying, &to, false));
}

uint32_t copies_check_2d(struct copy_call copying, const CUDA_MEMCPY2D *copy)
{
	return copy ? copies_check(copying, COPY_SIDE_2D(copy, dst), COPY_SIDE_2D(copy, src)) : 0;
}

uint32_t copies_check_3d(struct copy_call copying, const CUDA_MEMCPY3D *copy)
{
	return copy ? copies_check(copying, COPY_SIDE_3D(copy, dst), COPY_SIDE_3D(copy, src)) : 0;
}

uint32_t copies_check_node(struct copy_call copying, const CUgraphNodeParams *params)
{
	if (params && params->type == NODE_COPY)
		return copies_check_3d(copying, &params->copy.what);
	return params && params->type == NODE_SET
		       ? copies_check(copying, COPY_SET(&params->set), COPY_NOTHING) : 0;
}

uint32_t copies_check_each(struct copy_call copying, const CUdeviceptr *to, const CUdeviceptr *from,
			   const size_t *sizes, size_t count)
{
	uint32_t found = 0;

	for (size_t i = 0; to && from && sizes && i < count; i++)
		found = copies_either(found, copies_check(copying, COPY_BYTES(to[i], sizes[i]),
							  COPY_BYTES(from[i], sizes[i])));
	return found;
}

uint32_t copies_check_boxes(struct copy_call copying, const CUDA_MEMCPY3D_BATCH_OP *boxes,
			    size_t count, uint64_t (*element)(CUarray))
{
	uint32_t found = 0;

	for (const CUDA_MEMCPY3D_BATCH_OP *box = boxes; box && box < boxes + count; box++) {
		const struct copy_operand *array =
			box->src.type == OPERAND_ARRAY ? &box->src : &box->dst;
		uint64_t bytes =
			array->type == OPERAND_ARRAY ? element(array->array.array) : 1;

		found = copies_either(found,
				      copies_check(copying, copy_end_of_box(&box->dst, box, bytes),
						   copy_end_of_box(&box->src, box, bytes)));
	}
	return found;
}

/* ---- OpenCL. There are no addresses: those of an error are the handle plus the offset. ---- */

static enum verdict look_at_buffer(struct recorder *recorder, uint64_t handle,
				   const struct access *access, struct ledger_error *error)
{
	enum range_state state = guard_tell_block(recorder, key_in(SPACE_CL_HANDLE, handle), handle,
						  error);

	if (state == RANGE_NONE_KNOWN ||
	    (!kind_is(recorder, error, "cl-buffer") && !kind_is(recorder, error, "cl-sub-buffer")))
		return VERDICT_FINE;
	if (state == RANGE_ENDED)
		return VERDICT_FREED;
	return error->block_bytes && access->end > handle + error->block_bytes ? VERDICT_OUT
									      : VERDICT_FINE;
}

/* Returns true if END lies beyond BUFFER as the application created it, but perhaps not beyond what
 * the level patterns has made of it. */
static bool is_in_pattern(const void *buffer, uint64_t end)
{
	size_t size;

	return guard_has(GUARD_PATTERNS) && patterns_size((cl_mem)(uintptr_t)buffer, &size) &&
	       end > size && end - size < 2 * PATTERN_ROOM;
}

uint32_t copies_check_buffer(struct call *call, const void *queue, const void *buffer,
			     uint64_t offset, uint64_t bytes, bool reads)
{
	uint64_t handle = (uint64_t)(uintptr_t)buffer;
	struct access access = access_of((struct copy_call){ call, NULL, false },
					 copy_plus(handle, 1, offset), bytes, reads);
	struct ledger_error error = { 0 };
	enum verdict verdict;

	call->refused |= bytes && is_in_pattern(buffer, copy_plus(offset, 1, bytes));
	if (guard_has(GUARD_PATTERNS) && !reads && !call->refused)
		launches_note_command(call, queue, NULL, NULL, handle);
	bool looks = (guard_has(GUARD_COPIES) || call->refused) && recorder_now();
	LEAVE_AT_END struct recorder *recorder = looks ? recorder_enter() : NULL;
	if (!recorder || !handle || !bytes)
		return 0;
	GUARD_COUNT(checks, 1);
	verdict = look_at_buffer(recorder, handle, &access, &error);
	return verdict == VERDICT_FINE ? 0 : record(recorder, &access, verdict, &error);
}

uint32_t copies_refuse_pointer(const struct call *call, uint32_t found, cl_int *code)
{
	if (call->refused && code)
		*code = CL_INVALID_VALUE;
	return found;
}

uint32_t copies_check_part(struct call *call, const void *buffer, cl_buffer_create_type type,
			   const cl_buffer_region *region, cl_int *code)
{
	call->refused = type == CL_BUFFER_CREATE_TYPE_REGION && region &&
			is_in_pattern(buffer, copy_plus(region->origin, 1, region->size));
	return copies_refuse_pointer(call, 0, code);
}

uint32_t copies_check_rect(struct call *call, const void *queue, const void *buffer,
			   const size_t origin[3], const size_t region[3], size_t row_pitch,
			   size_t plane_pitch, bool reads)
{
	struct copy_end end;

	if (!origin || !region)
		return 0;
	end = copy_end_of_region(origin, region, row_pitch, plane_pitch);
	return copies_check_buffer(call, queue, buffer, end.address, copy_extent(&end), reads);
}

uint32_t copies_check_texels(struct call *call, const void *queue, const void *buffer,
			     uint64_t offset, cl_mem image, const size_t region[3], bool reads)
{
	used_clGetImageInfo *query = OPENCL_USED(clGetImageInfo);
	size_t texel = 0;

	if (!image || !region || !query ||
	    query(image, CL_IMAGE_ELEMENT_SIZE, sizeof(texel), &texel, NULL) != CL_SUCCESS)
		return 0;
	return copies_check_buffer(call, queue, buffer, offset,
				   copy_plus(0, copy_plus(0, texel, region[0]),
					     copy_plus(0, region[1], region[2])), reads);
}

uint32_t copies_note_kernel(struct call *call, cl_command_queue queue, cl_kernel kernel)
{
	used_clGetKernelInfo *query = OPENCL_USED(clGetKernelInfo);
	char name[256] = "";

	if (!kernel || !query ||
	    query(kernel, CL_KERNEL_FUNCTION_NAME, sizeof(name), name, NULL) != CL_SUCCESS)
		name[0] = '\0';
	launches_note_command(call, queue, kernel, name, 0);
	return 0;
}
