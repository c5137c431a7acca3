/* SPDX-License-Identifier: MIT
 *
 * The guard's level `copies`: looks up the ranges that copies, memsets, fills and maps access,
 * before the driver's call. Each function returns the ref of an error that it has recorded, or 0.
 * With the level `patterns`, the functions also note what writes to blocks (launches.h).
 * Any thread may call them, outside the recorder and without a lock.
 */
#pragma once

#include "interpose/guard/copy_range.h"
#include "interpose/guard/guard.h"
#include "interpose/opencl/opencl_types.h"

/* What is known of a call. If it only comes into a graph, at another time than it runs, its memory
 * may be allocated by the graph. */
struct copy_call {
	struct call *call;
	const CUstream *stream; /* NULL if the call has no stream. A capture may be active in it */
	bool is_node;
};

uint32_t copies_check(struct copy_call copying, struct copy_end to, struct copy_end from);
uint32_t copies_check_2d(struct copy_call copying, const CUDA_MEMCPY2D *copy);
uint32_t copies_check_3d(struct copy_call copying, const CUDA_MEMCPY3D *copy);
uint32_t copies_check_each(struct copy_call copying, const CUdeviceptr *to, const CUdeviceptr *from,
			   const size_t *sizes, size_t count);
/* ELEMENT returns the bytes of an element of an array. */
uint32_t copies_check_boxes(struct copy_call copying, const CUDA_MEMCPY3D_BATCH_OP *boxes,
			    size_t count, uint64_t (*element)(CUarray));
uint32_t copies_check_node(struct copy_call copying, const CUgraphNodeParams *params);
/* OpenCL: BYTES at OFFSET of the buffer BUFFER, or a box of REGION at ORIGIN, by a command in
 * QUEUE. Sets CALL->refused if the range ends in the pattern behind a buffer: without the guard the
 * driver refuses such a call. */
uint32_t copies_check_buffer(struct call *call, const void *queue, const void *buffer,
			     uint64_t offset, uint64_t bytes, bool reads);
uint32_t copies_check_rect(struct call *call, const void *queue, const void *buffer,
			   const size_t origin[3], const size_t region[3], size_t row_pitch,
			   size_t plane_pitch, bool reads);
/* CALL, with the result FOUND of such a function, returns a pointer: stores its error in CODE. */
uint32_t copies_refuse_pointer(const struct call *call, uint32_t found, cl_int *code);
/* The same for a sub-buffer of BUFFER: it is no access, so no error is recorded. */
uint32_t copies_check_part(struct call *call, const void *buffer, cl_buffer_create_type type,
			   const cl_buffer_region *region, cl_int *code);
/* BUFFER's part of a copy between it and a region of IMAGE. */
uint32_t copies_check_texels(struct call *call, const void *queue, const void *buffer,
			     uint64_t offset, cl_mem image, const size_t region[3], bool reads);

/* The error of a call with two ranges, each of which was looked up. */
static inline uint32_t copies_either(uint32_t first, uint32_t second)
{
	return second ? second : first;
}
/* For the level patterns: notes that CALL runs KERNEL in QUEUE. Returns 0. */
uint32_t copies_note_kernel(struct call *call, cl_command_queue queue, cl_kernel kernel);

/* ---- in the rows of CUDA; STREAM is the address of the call's stream, or NULL ---- */

#define COPYING(stream) ((struct copy_call){ &call, stream, false })
#define GUARD_COPIED(stream, to, from, bytes)                                               \
	copies_check(COPYING(stream), COPY_BYTES(to, bytes), COPY_BYTES(from, bytes))
#define GUARD_SET(stream, to, count, size)                                                  \
	GUARD_SET_2D(stream, (uint64_t)(uintptr_t)(to), 0, count, 1, size)
#define GUARD_READ(stream, from, bytes)                                                     \
	copies_check(COPYING(stream), COPY_NOTHING, COPY_BYTES(from, bytes))
#define GUARD_SET_2D(stream, to, pitch, width, height, size)                                \
	copies_check(COPYING(stream), COPY_ROWS(to, pitch, width, height, size), COPY_NOTHING)
#define GUARD_COPIED_2D(stream, copy) copies_check_2d(COPYING(stream), copy)
/* CUDA_MEMCPY3D_PEER has the layout of CUDA_MEMCPY3D. */
#define GUARD_COPIED_3D(stream, copy)                                                       \
	copies_check_3d(COPYING(stream), (const CUDA_MEMCPY3D *)(copy))
#define GUARD_COPIED_EACH(stream, to, from, sizes, count)                                   \
	copies_check_each(COPYING(stream), to, from, sizes, count)
#define GUARD_COPIED_BOXES(stream, boxes, count)                                            \
	copies_check_boxes(COPYING(stream), boxes, count, cuda_array_element)
#define COPY_SET(set)                                                                       \
	COPY_ROWS((set)->dst, (set)->pitch, (set)->width, (set)->height, (set)->elementSize)
#define COPYING_NODE ((struct copy_call){ &call, NULL, true })
#define GUARD_NODE_COPIED(copy) copies_check_3d(COPYING_NODE, copy)
#define GUARD_NODE_ANY(params) copies_check_node(COPYING_NODE, params)
#define GUARD_NODE_SET(set)                                                                 \
	((set) ? copies_check(COPYING_NODE, COPY_SET(set), COPY_NOTHING) : 0)

/* ---- of OpenCL: see guard_rows.h ---- */

#define GUARD_CL_READ(call, real, queue, buffer, blocking, offset, size, ...)               \
	copies_check_buffer(call, queue, buffer, offset, size, true)
#define GUARD_CL_WRITE(call, real, queue, buffer, blocking, offset, size, ...)              \
	copies_check_buffer(call, queue, buffer, offset, size, false)
#define GUARD_CL_FILL(call, real, queue, buffer, pattern, pattern_size, offset, size, ...)  \
	copies_check_buffer(call, queue, buffer, offset, size, false)
#define GUARD_CL_MAP(call, real, queue, buffer, blocking, flags, offset, size, count, list, \
		     event, code)                                                          \
	copies_refuse_pointer(call, copies_check_buffer(call, queue, buffer, offset, size,  \
						!((flags) & ~(cl_map_flags)CL_MAP_READ)),   \
			      code)
#define GUARD_CL_PART(call, real, buffer, flags, type, info, code)                          \
	copies_check_part(call, buffer, type, info, code)
#define GUARD_CL_COPY(call, real, queue, from, to, from_offset, to_offset, size, ...)       \
	copies_either(copies_check_buffer(call, queue, from, from_offset, size, true),      \
		      copies_check_buffer(call, queue, to, to_offset, size, false))
#define GUARD_CL_READ_RECT(call, real, queue, buffer, blocking, origin, host, region, row,  \
			   plane, ...)                                              \
	copies_check_rect(call, queue, buffer, origin, region, row, plane, true)
#define GUARD_CL_WRITE_RECT(call, real, queue, buffer, blocking, origin, host, region, row, \
			    plane, ...)                                             \
	copies_check_rect(call, queue, buffer, origin, region, row, plane, false)
#define GUARD_CL_COPY_RECT(call, real, queue, from, to, from_origin, to_origin, region, from_row, \
			   from_plane, to_row, to_plane, ...)                               \
	copies_either(copies_check_rect(call, queue, from, from_origin, region, from_row,   \
					from_plane, true),                                  \
		      copies_check_rect(call, queue, to, to_origin, region, to_row, to_plane, \
					false))
#define GUARD_CL_RUN(call, real, queue, kernel, ...) copies_note_kernel(call, queue, kernel)
#define GUARD_CL_TO_IMAGE(call, real, queue, buffer, image, offset, origin, region, ...)    \
	copies_check_texels(call, queue, buffer, offset, image, region, true)
#define GUARD_CL_FROM_IMAGE(call, real, queue, image, buffer, origin, region, offset, ...)  \
	copies_check_texels(call, queue, buffer, offset, image, region, false)
#define COPYING_SVM(call) ((struct copy_call){ call, NULL, false })
#define GUARD_CL_SVM_COPY(call, real, queue, blocking, to, from, size, ...)                 \
	copies_check(COPYING_SVM(call), COPY_BYTES(to, size), COPY_BYTES(from, size))
#define GUARD_CL_SVM_FILL(call, real, queue, to, pattern, pattern_size, size, ...)          \
	copies_check(COPYING_SVM(call), COPY_BYTES(to, size), COPY_NOTHING)
#define GUARD_CL_SVM_MAP(call, real, queue, blocking, flags, to, size, ...)                 \
	copies_check(COPYING_SVM(call), COPY_BYTES(to, size), COPY_NOTHING)
