/* SPDX-License-Identifier: MIT
 *
 * What a leak keeps besides its own bytes: the released buffer of sub-buffers and images, and
 * imported memory. Each memory counts once. And which objects accumulate, by the times at which
 * those were made that are left.
 * Links: test_keeps.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_builder.h"
#include "ledger_reported.h"
#include "report/model/model.h"

#define MiB (1024ull * 1024)
#define BUFFER 0x1000u
#define PART 4096u

static struct ledger_builder builder;
static struct reported reported;
static const struct report_process *process;

static int begin(void **state)
{
	(void)state;
	builder_init(&builder);
	process = NULL;
	return 0;
}

static int end(void **state)
{
	(void)state;
	if (process)
		reported_finish(&reported);
	builder_finish(&builder);
	return 0;
}

static uint32_t row(const char *api, const char *kind)
{
	return builder_row(&builder, api, kind, -1, 0, 9, 9 * MiB);
}

static struct ledger_block *block(uint32_t of, uint64_t address, uint64_t bytes, uint64_t parent)
{
	struct ledger_block *ret =
		builder_at(&builder, builder_block(&builder, of, address, bytes));

	ret->parent = parent;
	return ret;
}

static void release(struct ledger_block *of)
{
	of->state = (of->state & ~0xffu) | LEDGER_BLOCK_RELEASED;
}

/* The block NUMBER of the call site OF keeps BYTES of the memory MEMORY. */
static void import(uint32_t of, uint64_t number, uint64_t memory, uint64_t bytes)
{
	uint32_t ref = builder_block(&builder, of, number, 0);
	const struct ledger_block *made = builder_at(&builder, ref);
	struct ledger_ipc record = {
		.block = ledger_block_name(made->state, ref), .address = memory, .bytes = bytes,
		.flags = LEDGER_IPC_OPENED | LEDGER_IPC_IMPORTED,
	};

	builder_ipc(&builder, &record);
}

/* Checks the sums of the leaks, and that the leak of API keeps KEEPS. */
static void expect(const char *api, uint64_t keeps, uint64_t all, uint64_t leaked)
{
	if (!process)
		process = reported_begin(&reported, &builder);
	assert_int_equal(process->summary.keeps_bytes, all);
	assert_int_equal(process->summary.leaked_bytes, leaked);
	for (size_t i = 0; i < process->leak_count; i++)
		if (strcmp(process->leaks[i].site->api, api) == 0) {
			assert_int_equal(process->leaks[i].keeps_bytes, keeps);
			return;
		}
	fail_msg("%s is no leak", api);
}

static void test_parent_once(void **state)
{
	uint32_t parts = row("clCreateSubBuffer", "cl-sub-buffer");

	(void)state;
	release(block(row("clCreateBuffer", "cl-buffer"), BUFFER, MiB, 0));
	block(parts, 0x20, PART, BUFFER);
	block(parts, 0x10, PART, BUFFER);
	block(parts, 0x30, PART, 0x9999); /* of a buffer that was not recorded */
	expect("clCreateSubBuffer", MiB + PART, MiB + PART, 3 * PART);
}

static void test_parent_leaks_too(void **state)
{
	(void)state;
	block(row("clCreateBuffer", "cl-buffer"), BUFFER, MiB, 0);
	block(row("clCreateSubBuffer", "cl-sub-buffer"), 0x10, PART, BUFFER);
	expect("clCreateBuffer", MiB, MiB, MiB + PART);
	expect("clCreateSubBuffer", 0, MiB, MiB + PART);
}

/* Memory of a parent that is no leak counts nowhere else. */
static void test_parent_is_ignored(void **state)
{
	(void)state;
	block(row("clCreateBuffer", "cl-buffer"), BUFFER, MiB, 0)->marked |= LEDGER_BLOCK_IGNORED;
	block(row("clCreateSubBuffer", "cl-sub-buffer"), 0x10, PART, BUFFER);
	expect("clCreateSubBuffer", PART, PART, PART);
	assert_int_equal(process->suppressed[0].keeps_bytes, MiB);
}

static void test_leak_before_suppressed(void **state)
{
	(void)state;
	release(block(row("clCreateBuffer", "cl-buffer"), BUFFER, MiB, 0));
	block(row("clCreateSubBuffer", "cl-sub-buffer"), 0x20, PART, BUFFER);
	block(row("clCreateImage", "cl-image"), 0x10, PART, BUFFER)->marked |= LEDGER_BLOCK_IGNORED;
	expect("clCreateSubBuffer", MiB, MiB, PART);
	assert_int_equal(process->suppressed[0].keeps_bytes, 0);
}

static void test_part_of_a_part(void **state)
{
	uint32_t parts = row("clCreateSubBuffer", "cl-sub-buffer");

	(void)state;
	release(block(row("clCreateBuffer", "cl-buffer"), BUFFER, MiB, 0));
	release(block(parts, 0x20, PART, BUFFER));
	block(row("clCreateImage", "cl-image"), 0x30, 64, 0x20);
	block(parts, 0x40, PART, BUFFER);
	expect("clCreateImage", MiB, MiB, PART + 64);
	expect("clCreateSubBuffer", 0, MiB, PART + 64);
}

static void test_circle(void **state)
{
	uint32_t parts = row("clCreateSubBuffer", "cl-sub-buffer");

	(void)state;
	release(block(parts, 0x10, PART, 0x20));
	release(block(parts, 0x20, PART, 0x10));
	block(row("clCreateImage", "cl-image"), 0x30, 64, 0x20);
	expect("clCreateImage", 0, 0, 64);
}

static void test_imports(void **state)
{
	uint32_t handles = row("cuMemImportFromShareableHandle", "vmm-handle");
	uint32_t maps = row("cuMemMap", "vmm-mapping");

	(void)state;
	import(maps, 0x100000, 0x77, 2 * MiB); /* before its handle by address, too */
	import(handles, 0x77, 0x77, 2 * MiB);
	import(maps, 0x500000, 0x88, 4 * MiB); /* the handle was released: mapped twice */
	import(maps, 0x900000, 0x88, 4 * MiB);
	expect("cuMemImportFromShareableHandle", 2 * MiB, 6 * MiB, 0);
	expect("cuMemMap", 4 * MiB, 6 * MiB, 0);
	assert_null(process->ipc);
}

/* ---- objects ---- */

#define SECOND 1000000000ull

/* COUNT events, from FIRST to LAST in hundredths of a life of 10 seconds. */
static enum report_trend trend_of(unsigned int count, unsigned int first, unsigned int last)
{
	uint32_t events = row("cuEventCreate", "object/event");
	struct ledger_header *header;

	for (unsigned int i = 0; i < count; i++)
		block(events, 0x1000 + i, 0, 0)->time_ns =
			SECOND / 10 * first + (SECOND / 10 * (last - first)) / count * i;
	header = builder_header(&builder);
	header->end_mono_ns = header->start_mono_ns + 10 * SECOND;
	process = reported_begin(&reported, &builder);
	assert_int_equal(process->object_count, 1);
	return process->objects[0].objects->trend;
}

static void test_accumulates(void **state)
{
	(void)state;
	assert_int_equal(trend_of(1000, 0, 100), TREND_ACCUMULATING);
	assert_true(process->objects[0].objects->per_second > 99 &&
		    process->objects[0].objects->per_second < 101);
}

static void test_accumulates_after_a_start(void **state)
{
	(void)state;
	assert_int_equal(trend_of(64, 20, 100), TREND_ACCUMULATING);
}

static void test_loads(void **state)
{
	(void)state;
	assert_int_equal(trend_of(1000, 0, 30), TREND_FILLED);
}

/* The last ones of many, which a program destroys after some time. */
static void test_queue(void **state)
{
	(void)state;
	assert_int_equal(trend_of(1000, 90, 100), TREND_CONSTANT);
}

static void test_too_few(void **state)
{
	(void)state;
	assert_int_equal(trend_of(63, 0, 100), TREND_UNKNOWN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(parent_once), TEST(parent_leaks_too), TEST(parent_is_ignored),
		TEST(leak_before_suppressed), TEST(part_of_a_part), TEST(circle), TEST(imports),
		TEST(accumulates), TEST(accumulates_after_a_start), TEST(loads), TEST(queue),
		TEST(too_few),
	};

	return cmocka_run_group_tests(tests, reported_group_setup, reported_group_teardown);
}
