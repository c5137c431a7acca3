/* SPDX-License-Identifier: MIT
 *
 * Which bytes one end of a copy or memset accesses, from the parameters of the call. Sums that do
 * not fit into an address space are UINT64_MAX. Must not look at blocks.
 */
#pragma once

#include <stdint.h>

#include "interpose/cuda/cuda_types.h"

/* One end of a copy: a box of ROWS rows of WIDTH bytes in each of PLANES planes. */
struct copy_end {
	uint64_t address; /* 0: no memory that can be looked up */
	uint64_t width, rows, pitch, planes, plane;
};
#define COPY_NOTHING ((struct copy_end){ 0 })
#define COPY_BYTES(address_, bytes)                                                         \
	((struct copy_end){ (uint64_t)(uintptr_t)(address_), (bytes), 1, 0, 1, 0 })

/* Returns SUM + COUNT * EACH. */
static inline uint64_t copy_plus(uint64_t sum, uint64_t count, uint64_t each)
{
	uint64_t bytes;

	return __builtin_mul_overflow(count, each, &bytes) ||
			       __builtin_add_overflow(sum, bytes, &sum)
		       ? UINT64_MAX : sum;
}

/* HEIGHT rows of WIDTH elements of SIZE bytes. */
#define COPY_ROWS(address, pitch, width, height, size)                                      \
	((struct copy_end){ address, copy_plus(0, width, size), height, pitch, 1, 0 })

/* Returns the bytes from the first to the last one of END: the last row ends at the width, not at
 * the pitch. */
static inline uint64_t copy_extent(const struct copy_end *end)
{
	if (!end->width || !end->rows || !end->planes)
		return 0;
	return copy_plus(copy_plus(end->width, end->rows - 1, end->pitch), end->planes - 1,
			 end->plane);
}

/* The end of a 2D or 3D copy whose struct has the members of SIDE: at plane PLANE of planes of
 * LINES rows. */
#define COPY_SIDE(side, copy, planes_, plane_, lines)                                       \
	((struct copy_end){                                                                 \
		(side).type == MEMORY_ARRAY ? 0                                             \
			: copy_plus(copy_plus(copy_plus(                                    \
				(side).type == MEMORY_HOST                                  \
					? (uint64_t)(uintptr_t)(side).host : (side).device, \
				1, (side).x), (side).y, (side).pitch),                      \
				plane_, copy_plus(0, lines, (side).pitch)),                 \
		(copy)->width, (copy)->height, (side).pitch, planes_,                       \
		copy_plus(0, lines, (side).pitch) })
#define COPY_SIDE_2D(copy, side) COPY_SIDE((copy)->side, copy, 1, 0, 0)
#define COPY_SIDE_3D(copy, side)                                                            \
	COPY_SIDE((copy)->side, copy, (copy)->depth, (copy)->side.z, (copy)->side.height)

/* One end of a copy of a batch whose elements have BYTES bytes. */
static inline struct copy_end copy_end_of_box(const struct copy_operand *end,
					      const CUDA_MEMCPY3D_BATCH_OP *box, uint64_t bytes)
{
	uint64_t pitch = copy_plus(0, bytes, end->memory.row ? end->memory.row : box->width);
	uint64_t rows = end->memory.rows ? end->memory.rows : box->height;

	return (struct copy_end){ end->type == OPERAND_POINTER ? end->memory.address : 0,
				  copy_plus(0, bytes, box->width), box->height, pitch, box->depth,
				  copy_plus(0, pitch, rows) };
}

/* A region of an OpenCL buffer. Its address is the offset in the buffer. */
static inline struct copy_end copy_end_of_region(const size_t origin[3], const size_t region[3],
						 size_t row_pitch, size_t plane_pitch)
{
	uint64_t pitch = row_pitch ? row_pitch : region[0];
	uint64_t plane = plane_pitch ? plane_pitch : copy_plus(0, pitch, region[1]);

	return (struct copy_end){
		copy_plus(copy_plus(origin[0], origin[1], pitch), origin[2], plane),
		region[0], region[1], pitch, region[2], plane };
}
