/* SPDX-License-Identifier: MIT
 *
 * Live bytes by kind and device: what a look at all blocks writes down, how it is thinned, and
 * what it does not do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "own_ledger.h"
#include "ledger/reader.h"
#include "interpose/block/blocks.h"
#include "interpose/block/steps.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stack/unwinder.h"

#define MOMENTS_MAX \
	((LEDGER_CHUNK - 64 - sizeof(struct ledger_parts)) / sizeof(struct ledger_moment))

static struct call call_of(enum hook_id id)
{
	return (struct call){ &hooks[id], NULL, SPACE_MEMORY };
}

static void make(enum hook_id id, uint64_t address, uint64_t bytes, int device)
{
	struct call call = call_of(id);

	record_made(&call, address, bytes, 0, device, 0);
}

static void drop(uint64_t address)
{
	struct call call = call_of(HOOK_cuMemFree_v2);
	struct freeing freeing;

	record_freeing(&call, address, &freeing);
	record_freed(&call, &freeing, OUTCOME_DONE, 0);
}

static void look_at(uint64_t time_ns)
{
	struct ledger_timeline *parts = recorder_now()->parts;

	atomic_store(&parts->due_ns, 0);
	if (!parts->every_ns)
		parts->every_ns = 1;
	assert_non_null(recorder_enter());
	timeline_look(recorder_now(), time_ns);
	recorder_leave();
}

/* From here on only look_at() looks, however slow the machine is. */
static void no_look_by_time(void)
{
	atomic_store(&recorder_now()->parts->due_ns, UINT64_MAX);
}

static const struct ledger_parts *columns(struct ledger_walk *walk)
{
	static struct ledger_view view;
	struct recorder *recorder = recorder_now();

	*walk = (struct ledger_walk){ 0 };
	assert_int_equal(ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view),
			 LEDGER_OK);
	return ledger_next(&view, walk, LEDGER_CHUNK_PARTS, sizeof(struct ledger_parts));
}

static const struct ledger_moment *next(struct ledger_walk *walk)
{
	struct ledger_view view;
	struct recorder *recorder = recorder_now();

	assert_int_equal(ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view),
			 LEDGER_OK);
	return ledger_next(&view, walk, LEDGER_CHUNK_PARTS, sizeof(struct ledger_moment));
}

static const struct ledger_moment *last(size_t *ret_count)
{
	const struct ledger_moment *ret = NULL, *moment;
	struct ledger_walk walk;

	*ret_count = 0;
	assert_non_null(columns(&walk));
	for (; (moment = next(&walk)); ret = moment)
		++*ret_count;
	return ret;
}

static void expect_column(uint32_t number, const char *kind, int device)
{
	struct ledger_walk walk;
	const struct ledger_parts *parts = columns(&walk);
	const struct ledger_string *text;

	assert_true(number < parts->columns);
	text = ledger_at(&recorder_now()->writer, parts->column[number].kind);
	assert_int_equal(text->length, strlen(kind));
	assert_memory_equal(text->bytes, kind, text->length);
	assert_int_equal(parts->column[number].device, device);
}

/* The first allocation looks at nothing: most processes have one kind and end soon. */
static void test_not_at_once(void **state)
{
	struct ledger_walk walk;

	(void)state;
	make(HOOK_cuMemAlloc_v2, 0x1000, 100, 0);
	assert_null(columns(&walk));
	assert_int_equal(recorder_now()->parts->every_ns, LEDGER_SAMPLE_EVERY_NS_MIN);
	no_look_by_time();
}

/* One column for what several calls make of one kind, another for another device. */
static void test_columns(void **state)
{
	const struct ledger_moment *moment;
	struct ledger_walk walk;
	size_t count;

	(void)state;
	make(HOOK_cuMemAlloc, 0x2000, 50, 0);
	make(HOOK_cuMemHostAlloc, 0x3000, 7, 0);
	make(HOOK_cuMemAlloc_v2, 0x4000, 1000, 1);
	look_at(5);
	assert_int_equal(columns(&walk)->columns, 3);
	expect_column(0, "device", 0);
	expect_column(1, "pinned", 0);
	expect_column(2, "device", 1);
	moment = last(&count);
	assert_int_equal(count, 1);
	assert_int_equal(moment->time_ns, 5);
	assert_int_equal(moment->live_bytes[0], 150);
	assert_int_equal(moment->live_bytes[1], 7);
	assert_int_equal(moment->live_bytes[2], 1000);
	assert_int_equal(moment->live_bytes[3], 0);
	no_look_by_time();
	drop(0x1000);
	drop(0x4000);
	look_at(6);
	moment = last(&count);
	assert_int_equal(count, 2);
	assert_int_equal(moment->live_bytes[0], 50);
	assert_int_equal(moment->live_bytes[2], 0);
}

static void test_rests(void **state)
{
	uint64_t due;
	size_t count, after;

	(void)state;
	look_at(10);
	last(&count);
	due = atomic_load(&recorder_now()->parts->due_ns);
	assert_true(due > 10);
	timeline_look(recorder_now(), due - 1);
	last(&after);
	assert_int_equal(after, count);
	timeline_look(recorder_now(), due);
	last(&after);
	assert_int_equal(after, count + 1);
}

/* Every second moment goes, the columns stay. */
static void test_thinned(void **state)
{
	uint64_t before = 0, every = recorder_now()->parts->every_ns;
	const struct ledger_moment *moment;
	struct ledger_walk walk;
	size_t count;

	(void)state;
	for (uint64_t i = 1; i <= 4 * MOMENTS_MAX; i++)
		look_at(i * 1000000000);
	moment = last(&count);
	assert_true(count <= MOMENTS_MAX && count > MOMENTS_MAX / 3);
	assert_int_equal(moment->time_ns, 4 * MOMENTS_MAX * 1000000000);
	assert_int_equal(moment->live_bytes[0], 50);
	assert_true(recorder_now()->parts->every_ns > every);
	expect_column(1, "pinned", 0);
	columns(&walk);
	while ((moment = next(&walk))) {
		assert_true(moment->time_ns >= before);
		before = moment->time_ns;
	}
}

/* What finds no column of its own has one together. */
static void test_too_many_kinds(void **state)
{
	const struct ledger_moment *moment;
	struct ledger_walk walk;
	size_t count;

	(void)state;
	for (int device = 2; device < 22; device++)
		make(HOOK_cuMemAlloc_v2, 0x100000 + (uint64_t)device * 0x1000, 10, device);
	look_at(UINT64_C(5000000000000));
	assert_int_equal(columns(&walk)->columns, LEDGER_COLUMNS);
	assert_int_equal(columns(&walk)->column[LEDGER_COLUMNS - 1].kind, 0);
	moment = last(&count);
	/* Columns 3 to 13 have devices 2 to 12. */
	for (int column = 3; column < 14; column++)
		assert_int_equal(moment->live_bytes[column], 10);
	assert_int_equal(moment->live_bytes[LEDGER_COLUMNS - 1], 9 * 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = { /* each goes on from the one before */
		cmocka_unit_test(test_not_at_once),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_rests),
		cmocka_unit_test(test_thinned),
		cmocka_unit_test(test_too_many_kinds),
	};

	setenv("GPULEAK_STACK_DEPTH", "4", 1);
	process_start();
	unwinder_load();
	recorder_touch();
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
