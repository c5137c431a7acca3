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
#include "interpose/guard/launches.h"
#include "interpose/guard/patterns.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/pytorch/suballocations.h"
#include "interpose/stack/unwinder.h"

/* CUDA's allocations begin at multiples of this, so no other block lies in the rest of the last
 * one. */
#define ALLOCATION_GRAIN 256u

struct access {
	struct copy_call copying;
	uint64_t address, bytes, end;
	bool reads;
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

/* Returns the end of the memory that FOUND begins. Mappings of virtual memory side by side are one
 * range for the program. */
static uint64_t end_of_memory(struct recorder *recorder, const struct range_found *found,
			      uint64_t wanted)
{
	uint64_t end = found->begin + found->live.bytes;
	struct range_found next;

	while (end < wanted && found->space == SPACE_VMM_MAPPING) {
		ranges_find(recorder, end, &next);
		if (next.state != RANGE_LIVE || next.begin != end ||
		    next.space != SPACE_VMM_MAPPING)
			break;
		end += next.live.bytes;
	}
	return end;
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

/* The range of ACCESS does not begin inside a live block; FOUND is the last block before. It may
 * begin in what is left of that block's last 256 bytes, or reach into the next block. */
static enum verdict look_outside(struct recorder *recorder, const struct access *access,
				 const struct range_found *found, struct ledger_error *error)
{
	uint64_t end = found->begin + found->live.bytes;
	struct range_found next;

	if (found->state == RANGE_LIVE && found->space == SPACE_MEMORY &&
	    access->address < (end | (ALLOCATION_GRAIN - 1)) + 1 && end % ALLOCATION_GRAIN) {
		error_tell_live(recorder, &found->live, error);
		return is_on_host(recorder, error) ? VERDICT_FINE : VERDICT_OUT;
	}
	if (found->next >= access->end || access->end == UINT64_MAX)
		return VERDICT_FINE;
	ranges_find(recorder, found->next, &next);
	if (next.state != RANGE_LIVE || next.space != SPACE_MEMORY)
		return VERDICT_FINE;
	error_tell_live(recorder, &next.live, error);
	error->flags |= LEDGER_ERROR_BEFORE;
	return is_on_host(recorder, error) ? VERDICT_FINE : VERDICT_OUT;
}

static enum verdict look(struct recorder *recorder, const struct access *access,
			 struct ledger_error *error)
{
	struct range_found found;

	ranges_find(recorder, access->address, &found);
	if (found.state == RANGE_LIVE && access->address - found.begin < found.live.bytes) {
		if (access->end <= end_of_memory(recorder, &found, access->end))
			return look_inside(recorder, access, &found, error);
		error_tell_live(recorder, &found.live, error);
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
 * was: that of a graph that allocates, a variable of a module, or other memory of the host. */
static bool may_be_other_memory(const struct recorder *recorder, const struct access *access,
				const struct ledger_error *error)
{
	CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr);
	const CUstream *stream = access->copying.stream;
	CUdeviceptr base = 0;
	size_t bytes;

	if (access->copying.is_node ||
	    (stream && cuda_is_captured(access->copying.call->hook, *stream)))
		return true;
	if (is_on_host(recorder, error))
		return !patterns_hold_svm(access->address) &&
		       unwinder_can_read((const void *)(uintptr_t)access->address);
	if (access->copying.call->hook->api != API_CUDA)
		return false;
	range = (__typeof__(range))resolve_driver(&hooks[HOOK_cuMemGetAddressRange_v2]).real;
	return range && range(&base, &bytes, access->address) == CUDA_SUCCESS &&
	       base != error->block_address;
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
	return (struct access){ copying, address, bytes, copy_plus(address, 1, bytes), reads };
}

static uint32_t check(struct copy_call copying, const struct copy_end *end, bool reads)
{
	struct access access = access_of(copying, end->address, copy_extent(end), reads);
	LEAVE_AT_END struct recorder *recorder = recorder_now() ? recorder_enter() : NULL;
	struct ledger_error error = { 0 };
	enum verdict verdict;

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

uint32_t copies_check_each(struct copy_call copying, const CUdeviceptr *to, const CUdeviceptr *from,
			   const size_t *sizes, size_t count)
{
	uint32_t found = 0, one;

	for (size_t i = 0; to && from && sizes && i < count; i++) {
		one = copies_check(copying, COPY_BYTES(to[i], sizes[i]),
				   COPY_BYTES(from[i], sizes[i]));
		found = one ? one : found;
	}
	return found;
}

uint32_t copies_check_boxes(struct copy_call copying, const CUDA_MEMCPY3D_BATCH_OP *boxes,
			    size_t count, uint64_t (*element)(CUarray))
{
	uint32_t found = 0, one;

	for (const CUDA_MEMCPY3D_BATCH_OP *box = boxes; box && box < boxes + count; box++) {
		const struct copy_operand *array =
			box->src.type == OPERAND_ARRAY ? &box->src : &box->dst;
		uint64_t bytes =
			array->type == OPERAND_ARRAY ? element(array->array.array) : 1;

		one = copies_check(copying, copy_end_of_box(&box->dst, box, bytes),
				   copy_end_of_box(&box->src, box, bytes));
		found = one ? one : found;
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

uint32_t copies_check_buffer(struct call *call, const void *queue, const void *buffer,
			     uint64_t offset, uint64_t bytes, bool reads)
{
	uint64_t handle = (uint64_t)(uintptr_t)buffer;
	struct access access = access_of((struct copy_call){ call, NULL, false },
					 copy_plus(handle, 1, offset), bytes, reads);
	struct ledger_error error = { 0 };
	enum verdict verdict;

	if (guard_has(GUARD_PATTERNS) && !reads)
		launches_note_command(call, queue, NULL, NULL, handle);
	LEAVE_AT_END struct recorder *recorder =
		guard_has(GUARD_COPIES) && recorder_now() ? recorder_enter() : NULL;
	if (!recorder || !handle || !bytes)
		return 0;
	GUARD_COUNT(checks, 1);
	verdict = look_at_buffer(recorder, handle, &access, &error);
	return verdict == VERDICT_FINE ? 0 : record(recorder, &access, verdict, &error);
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
