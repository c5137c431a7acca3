/* SPDX-License-Identifier: MIT
 *
 * The guard's rules for the ranges of copies. Each shape of a copy is also made by a model that
 * marks every byte which the copy accesses. The guard must find an error exactly if the bytes from
 * the first mark to the last one are not inside the block, and the error must have these bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/guard/copies.h"
#include "interpose/process/start.h"
#include "own_ledger.h"

#define BLOCK UINT64_C(0x300000000000) /* of BYTES bytes; no other block is near */
#define BYTES 1000u
#define BUFFER UINT64_C(0x555500001000) /* a buffer of OpenCL, also of BYTES bytes */
#define MARGIN 40000u /* that the model has before and behind the block */
#define GRAIN 256u
#define COPYING_CALL ((struct copy_call){ &call, NULL, false })

static struct call call = { &hooks[HOOK_cuMemcpy], NULL, SPACE_MEMORY };
static struct call cl_call = { &hooks[HOOK_clEnqueueReadBufferRect], NULL, SPACE_CL_HANDLE };
static unsigned char marks[2 * MARGIN + BYTES];
static unsigned int shapes, errors; /* that the tests made */

/* ---- the model ---- */

struct shape {
	uint64_t at; /* from the begin of the block */
	uint64_t width, rows, pitch, planes, plane;
};

static void mark(const struct shape *shape)
{
	memset(marks, 0, sizeof(marks));
	for (uint64_t plane = 0; plane < shape->planes; plane++)
		for (uint64_t row = 0; row < shape->rows; row++)
			for (uint64_t i = 0; i < shape->width; i++) {
				uint64_t at = MARGIN + shape->at + plane * shape->plane +
					      row * shape->pitch + i;

				assert_true(at < sizeof(marks));
				marks[at] = 1;
			}
}

/* Returns true if a copy of SHAPE must be reported. Stores which bytes it accesses, relative to the
 * block. A buffer of OpenCL begins at offset 0, and no slack follows its last byte. */
static bool is_wrong(const struct shape *shape, bool is_buffer, int64_t *ret_first,
		     uint64_t *ret_bytes)
{
	size_t first = 0, last = sizeof(marks);

	mark(shape);
	while (first < sizeof(marks) && !marks[first])
		first++;
	if (first == sizeof(marks))
		return false;
	while (!marks[last - 1])
		last--;
	*ret_first = (int64_t)first - MARGIN;
	*ret_bytes = last - first;
	last -= MARGIN;
	if (*ret_first < 0)
		return (int64_t)last > 0;
	if (*ret_first >= BYTES)
		return is_buffer || *ret_first < (BYTES + GRAIN - 1) / GRAIN * GRAIN;
	return last > BYTES;
}

/* ---- the guard ---- */

/* The same error of an earlier copy would only be counted, and so would those above the limits. */
static void forget(void)
{
	struct recorder *recorder = recorder_now();

	recorder->guard->errors = 0;
	shared_store(recorder->header->errors, 0);
}

/* Returns error NUMBER of the last copy, or NULL. */
static const struct ledger_error *found(unsigned int number)
{
	struct recorder *recorder = recorder_now();

	return number < recorder->guard->errors
		       ? ledger_at(&recorder->writer, recorder->guard->error[number]) : NULL;
}

/* The last copy had only this end in the block. */
static void compare(const struct shape *shape, uint64_t base, bool reads)
{
	const struct ledger_error *error = found(0);
	int64_t first;
	uint64_t bytes;
	bool wrong = is_wrong(shape, base == BUFFER, &first, &bytes);

	shapes++;
	errors += wrong;
	assert_int_equal(error != NULL, wrong);
	assert_null(found(1));
	if (!wrong)
		return;
	assert_int_equal(error->address, base + (uint64_t)first);
	assert_int_equal(error->asked_bytes, bytes);
	assert_int_equal(!!(error->flags & LEDGER_ERROR_READ), reads);
	assert_int_equal(!!(error->flags & LEDGER_ERROR_BEFORE), first < 0);
}

/* As the source and as the target of a 3D copy. The other side is an array, whose address and pitch
 * mean nothing. */
static void try_3d(size_t x, size_t y, size_t z, size_t width, size_t height, size_t depth,
		   size_t pitch, size_t lines, uint64_t start)
{
	CUDA_MEMCPY3D copy = { .width = width, .height = height, .depth = depth };
	struct shape shape = { start + x + y * pitch + z * pitch * lines, width, height, pitch,
			       depth, pitch * lines };

	for (int reads = 0; reads < 2; reads++) {
		__typeof__(copy.src) side = { .x = x, .y = y, .z = z, .type = MEMORY_DEVICE,
					      .device = BLOCK + start, .pitch = pitch,
					      .height = lines };
		__typeof__(copy.src) array = { .x = 7, .type = MEMORY_ARRAY, .device = BLOCK,
					       .pitch = UINT64_MAX, .height = 9 };

		memcpy(reads ? &copy.src : (void *)&copy.dst, &side, sizeof(side));
		memcpy(reads ? &copy.dst : (void *)&copy.src, &array, sizeof(array));
		forget();
		copies_check_3d(COPYING_CALL, &copy);
		compare(&shape, BLOCK, reads);
	}
}

static void try_2d(size_t x, size_t y, size_t width, size_t height, size_t pitch, uint64_t start)
{
	CUDA_MEMCPY2D copy = {
		.src = { .x = x, .y = y, .type = MEMORY_UNIFIED, .device = BLOCK + start,
			 .pitch = pitch },
		.dst = { .type = MEMORY_HOST, .host = (void *)0x1000, .pitch = pitch },
		.width = width, .height = height,
	};
	struct shape shape = { start + x + y * pitch, width, height, pitch, 1, 0 };

	forget();
	copies_check_2d(COPYING_CALL, &copy);
	compare(&shape, BLOCK, true);
}

/* ---- all small shapes ---- */

static const size_t widths[] = { 0, 1, 3, 32, 100 }, counts[] = { 0, 1, 2, 10 },
		    pitches[] = { 0, 1, 32, 50, 100 }, /* some are below the width */
		    origins[] = { 0, 1, 9 };
static const uint64_t starts[] = { 0, 1, 500, BYTES - 1, BYTES, BYTES + 23, BYTES + 24, 1300,
				   (uint64_t)-1, (uint64_t)-100, (uint64_t)-1500 };
#define EACH(name, list)                                                                    \
	for (size_t name##_ = 0, name; name##_ < sizeof(list) / sizeof(*(list)) &&          \
				       (name = (list)[name##_], true); name##_++)

static void test_2d(void **unused)
{
	(void)unused;
	EACH(width, widths) EACH(height, counts) EACH(pitch, pitches) EACH(x, origins)
		EACH(y, origins) EACH(start, starts)
			try_2d(x, y, width, height, pitch, start);
}

static void test_3d(void **unused)
{
	static const size_t few[] = { 0, 1, 3 };

	(void)unused;
	EACH(width, widths) EACH(height, few) EACH(depth, few) EACH(pitch, pitches)
		EACH(lines, few) EACH(z, few) EACH(start, starts)
			try_3d(1, lines ? 1 : 0, z, width, height, depth, pitch, lines, start);
}

static void test_rows(void **unused)
{
	static const unsigned int sizes[] = { 1, 2, 4 };

	(void)unused;
	EACH(width, widths) EACH(height, counts) EACH(pitch, pitches) EACH(size, sizes)
		EACH(start, starts) {
			struct shape shape = { start, width * size, height, pitch, 1, 0 };

			forget();
			copies_check(COPYING_CALL,
				     COPY_ROWS(BLOCK + start, pitch, width, height, size),
				     COPY_NOTHING);
			compare(&shape, BLOCK, false);
		}
}

static void test_regions(void **unused)
{
	static const size_t few[] = { 0, 1, 3 };

	(void)unused;
	EACH(width, widths) EACH(height, few) EACH(depth, few) EACH(pitch, pitches)
		EACH(plane, pitches) EACH(x, origins) EACH(y, few) EACH(z, few) {
			const size_t origin[3] = { x, y, z }, region[3] = { width, height, depth };
			size_t row = pitch ? pitch : width, layer = plane ? plane : row * height;
			struct shape shape = { x + y * row + z * layer, width, height, row, depth,
					       layer };

			forget();
			copies_check_rect(&cl_call, NULL, (void *)(uintptr_t)BUFFER, origin, region,
					  pitch, plane, true);
			compare(&shape, BUFFER, true);
		}
}

/* ---- batches ---- */

static uint64_t element_of_4(CUarray array)
{
	(void)array;
	return 4;
}

static void test_boxes(void **unused)
{
	static const size_t few[] = { 0, 1, 3 };

	(void)unused;
	for (int array = 0; array < 2; array++)
		EACH(width, widths) EACH(height, few) EACH(depth, few) EACH(row, pitches)
			EACH(rows, few) EACH(start, starts) {
				uint64_t bytes = array ? 4 : 1;
				uint64_t pitch = bytes * (row ? row : width);
				uint64_t plane = pitch * (rows ? rows : height);
				struct shape shape = { start, bytes * width, height, pitch, depth,
						       plane };
				CUDA_MEMCPY3D_BATCH_OP box[2] = {
					[1] = { .src.type = array ? OPERAND_ARRAY : OPERAND_POINTER,
						.dst.type = OPERAND_POINTER,
						.width = width, .height = height, .depth = depth },
				};

				box[1].dst.memory.address = BLOCK + start;
				box[1].dst.memory.row = row;
				box[1].dst.memory.rows = rows;
				forget();
				copies_check_boxes(COPYING_CALL, box, 2,
						   element_of_4);
				compare(&shape, BLOCK, false);
			}
}

static void test_each(void **unused)
{
	const CUdeviceptr inside[3] = { BLOCK, BLOCK + 1, BLOCK + BYTES - 1 };
	const CUdeviceptr host[3] = { 0x1000, 0x1000, 0x1000 };

	(void)unused;
	EACH(size, widths) EACH(last, counts) {
		const size_t sizes[3] = { BYTES, size, last };

		forget();
		copies_check_each(COPYING_CALL, host, inside, sizes, 3);
		compare(&(struct shape){ BYTES - 1, last, 1, 0, 1, 0 }, BLOCK, true);
	}
}

/* ---- sums that do not fit ---- */

#define HUGE UINT64_MAX
#define HALF (UINT64_C(1) << 63)

static void test_too_large(void **unused)
{
	/* the extent: UINT64_MAX for more than an address space, 0 for nothing */
	static const struct { struct copy_end end; uint64_t extent; } rows[] = {
		{ { BLOCK, HUGE, 1, 0, 1, 0 }, HUGE },
		{ { BLOCK, HUGE - 1, 1, 0, 1, 0 }, HUGE - 1 },
		{ { BLOCK, 1, HUGE, 1, 1, 0 }, HUGE },
		{ { BLOCK, 2, HUGE, 1, 1, 0 }, HUGE },
		{ { BLOCK, 1, HUGE, 0, 1, 0 }, 1 },
		{ { BLOCK, 1, 3, HALF, 1, 0 }, HUGE },
		{ { BLOCK, 1, 2, HALF, 1, 0 }, HALF + 1 },
		{ { BLOCK, 1, 2, HALF, 2, HALF }, HUGE },
		{ { BLOCK, 1, 1, HUGE, 3, HALF }, HUGE },
		{ { BLOCK, 0, HUGE, HUGE, HUGE, HUGE }, 0 },
		{ { BLOCK, HUGE, 0, HUGE, HUGE, HUGE }, 0 },
		{ { BLOCK, HUGE, HUGE, HUGE, 0, HUGE }, 0 },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(copy_extent(&rows[i].end), rows[i].extent);
		forget();
		copies_check(COPYING_CALL, rows[i].end, COPY_NOTHING);
		assert_int_equal(found(0) != NULL, rows[i].extent > BYTES);
		if (found(0))
			assert_int_equal(found(0)->asked_bytes, rows[i].extent);
	}
}

/* Not an error: an origin that is beyond all addresses, and unknown memory whose huge size
 * reaches the block. */
static void test_no_address(void **unused)
{
	CUDA_MEMCPY2D copy = { .src = { .y = HALF, .type = MEMORY_DEVICE, .device = BLOCK,
					.pitch = 2 },
			       .dst = { .type = MEMORY_ARRAY }, .width = 8, .height = 1 };
	const size_t origin[3] = { 0, HALF, 0 }, region[3] = { 1, 1, 1 };

	(void)unused;
	forget();
	copies_check_2d(COPYING_CALL, &copy);
	copies_check(COPYING_CALL, COPY_BYTES(0x1000, HUGE),
		     COPY_NOTHING);
	copies_check_2d(COPYING_CALL, NULL);
	copies_check_3d(COPYING_CALL, NULL);
	copies_check_each(COPYING_CALL, NULL, NULL, NULL, 1);
	assert_null(found(0));
	copies_check_rect(&cl_call, NULL, (void *)(uintptr_t)BUFFER, origin, region, 2, 0, true);
	assert_non_null(found(0)); /* the offset is beyond each buffer */
}

static void test_peer(void **unused)
{
	/* of cuda.h */
	struct peer_side { size_t x, y, z, level; int type; const void *host; CUdeviceptr device;
			   void *array, *context; size_t pitch, height; };
	struct { struct peer_side src, dst; size_t width, height, depth; } copy = {
		.src = { .x = 8, .y = 1, .type = MEMORY_DEVICE, .device = BLOCK, .pitch = 100,
			 .height = 4, .context = (void *)1 },
		.dst = { .type = MEMORY_ARRAY, .context = (void *)1 },
		.width = 92, .height = 2, .depth = 3,
	};
	struct shape shape = { 108, 92, 2, 100, 3, 400 };

	(void)unused;
	forget();
	copies_check_3d(COPYING_CALL, (void *)&copy);
	compare(&shape, BLOCK, true);
	copy.depth = 2;
	shape.planes = 2;
	forget();
	copies_check_3d(COPYING_CALL, (void *)&copy);
	compare(&shape, BLOCK, true);
}

static void test_both_kinds_were_tried(void **unused)
{
	(void)unused;
	print_message("%u shapes, %u of them with an error\n", shapes, errors);
	assert_true(errors > 1000 && shapes - errors > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_2d), cmocka_unit_test(test_3d), cmocka_unit_test(test_rows),
		cmocka_unit_test(test_regions), cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_each), cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_no_address), cmocka_unit_test(test_peer),
		cmocka_unit_test(test_both_kinds_were_tried),
	};
	struct call made = { &hooks[HOOK_cuMemAlloc_v2], NULL, SPACE_MEMORY };
	struct call buffer = { &hooks[HOOK_clCreateBuffer], NULL, SPACE_CL_HANDLE };

	setenv("GPULEAK_STACK_DEPTH", "0", 1);
	setenv("GPULEAK_GUARD", "copies", 1);
	process_start();
	record_made(&made, BLOCK, BYTES, 1, 0, 0);
	record_made(&buffer, BUFFER, BYTES, 1, 0, 0);
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
