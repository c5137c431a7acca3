/* SPDX-License-Identifier: MIT
 *
 * What the report makes of the trace's ring: blocks from before it, a ring that came around, events
 * that are incomplete, overtaken, out of order or missing, and memory that moves to another block.
 * Links: test_trace.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_reported.h"
#include "report/model/lives.h"
#include "report/model/model_holders.h"
#include "report/subjects/subject.h"

struct traced {
	struct ledger_builder builder;
	uint32_t row;
	struct reported reported;
};

static void begin(struct traced *t)
{
	memset(t, 0, sizeof(*t));
	builder_init(&t->builder);
	t->row = builder_row(&t->builder, "cuMemAlloc_v2", "device", 0, 0, 9, 900);
}

static void finish(struct traced *t)
{
	builder_finish(&t->builder);
}

static void allocated(struct traced *t, uint64_t ns, uint64_t address, uint64_t bytes)
{
	builder_trace(&t->builder, LEDGER_TRACE_ALLOCATED, t->row, address, bytes, ns);
}

static void freed(struct traced *t, uint64_t ns, uint64_t address, uint64_t bytes)
{
	builder_trace(&t->builder, LEDGER_TRACE_FREED, t->row, address, bytes, ns);
}

/* Returns the moments at NS and from 0 until NS, valid until reported_finish(). */
static const struct report_moment *moments_at(struct traced *t, uint64_t ns)
{
	struct report_process *process;

	reported_load(&t->reported.ledger, &t->builder);
	t->reported.ledger.choice = (struct load_choice){
		.has_at = true, .at_ns = ns, .has_between = true, .between_ns = { 0, ns },
	};
	t->reported.symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	process = report_process_build(&t->reported.ledger, t->reported.symbolizer, NULL);
	memset(&t->reported.report, 0, sizeof(t->reported.report));
	report_add_process(&t->reported.report, process);
	assert_int_equal(process->moment_count, 2);
	return process->moments;
}

/* At NS, so many bytes and blocks were live. */
static void is_live(struct traced *t, uint64_t ns, uint64_t bytes, uint64_t blocks)
{
	const struct report_moment *moment = moments_at(t, ns);

	assert_true(moment->is_traced);
	assert_int_equal(moment->live.bytes, bytes);
	assert_int_equal(moment->live.blocks, blocks);
	reported_finish(&t->reported);
}

static void simple(void **state)
{
	struct traced t;

	(void)state;
	begin(&t);
	allocated(&t, 10, 0x100, 5);
	allocated(&t, 20, 0x200, 7);
	freed(&t, 30, 0x100, 5);
	builder_block(&t.builder, t.row, 0x200, 7);
	is_live(&t, 9, 0, 0);
	is_live(&t, 10, 5, 1);
	is_live(&t, 20, 12, 2);
	is_live(&t, 30, 7, 1);
	is_live(&t, 1000, 7, 1);
	finish(&t);
}

/* The ring has come around: what it does not hold is known from frees and from live blocks. */
static void before_the_ring(void **state)
{
	struct traced t;

	(void)state;
	begin(&t);
	allocated(&t, 1, 0x100, 5);
	allocated(&t, 2, 0x200, 7);
	for (uint64_t i = 0; i < LEDGER_TRACE_EVENTS / 2; i++) {
		allocated(&t, 100 + i, 0x300, 11);
		freed(&t, 100 + i, 0x300, 11);
	}
	freed(&t, 1000, 0x100, 5);
	builder_block(&t.builder, t.row, 0x200, 7);
	assert_true(builder_header(&t.builder)->traced > LEDGER_TRACE_EVENTS);
	is_live(&t, 500, 12, 2);
	is_live(&t, 1000, 7, 1);
	assert_false(moments_at(&t, 99)->is_traced);
	assert_int_equal(t.reported.report.processes[0]->moments->trace_ns, 100);
	reported_finish(&t.reported);
	finish(&t);
}

/* A thread was killed in the middle of an event, or the ring had overtaken it. */
static void incomplete(void **state)
{
	struct ledger_trace_event *event;
	struct traced t;

	(void)state;
	begin(&t);
	allocated(&t, 10, 0x100, 5);
	for (int i = 0; i < 6; i++) {
		event = builder_trace(&t.builder, LEDGER_TRACE_ALLOCATED, t.row, 0x200, 7, 20);
		event->number += i == 0;
		event->ref += i == 1;
		event->time_ns += i == 2;
		event->address ^= (uint64_t)(i == 3) << 63;
		event->bytes += i == 4;
		event->what += (uint32_t)(i == 5) << 8;
	}
	freed(&t, 30, 0x100, 5);
	is_live(&t, 25, 5, 1);
	is_live(&t, 30, 0, 0);
	finish(&t);
}

/* The driver gave an address to a second thread before the first one recorded its free; and an
 * event of a free is missing, because the process was killed. */
static void out_of_order(void **state)
{
	struct traced t;

	(void)state;
	begin(&t);
	allocated(&t, 10, 0x100, 5);
	allocated(&t, 20, 0x100, 6);
	freed(&t, 21, 0x100, 5);
	freed(&t, 40, 0x100, 6);
	is_live(&t, 15, 5, 1);
	is_live(&t, 30, 6, 1);
	is_live(&t, 40, 0, 0);
	allocated(&t, 50, 0x200, 8); /* no live block has it */
	is_live(&t, 49, 0, 0);
	builder_header(&t.builder)->end_mono_ns = 60;
	is_live(&t, 55, 8, 1);
	is_live(&t, 60, 0, 0);
	finish(&t);
}

/* A mapping takes the bytes of its handle over. It was neither allocated nor freed then. */
static void moved(void **state)
{
	const struct report_moment *moments;
	uint32_t mapping;
	struct traced t;

	(void)state;
	begin(&t);
	mapping = builder_row(&t.builder, "cuMemMap", "vmm-mapping", 0, 0, 1, 0);
	allocated(&t, 10, 1, 100);
	builder_trace(&t.builder, LEDGER_TRACE_ALLOCATED, mapping, 0x1000, 0, 20);
	builder_trace(&t.builder, LEDGER_TRACE_BYTES_GIVEN, t.row, 1, 100, 30);
	builder_trace(&t.builder, LEDGER_TRACE_BYTES_TAKEN, mapping, 0x1000, 100, 30);
	freed(&t, 40, 1, 0);
	builder_trace(&t.builder, LEDGER_TRACE_FREED, mapping, 0x1000, 100, 50);
	is_live(&t, 25, 100, 2);
	is_live(&t, 35, 100, 2);
	is_live(&t, 45, 100, 1);
	moments = moments_at(&t, 50);
	assert_int_equal(moments[1].allocated.bytes, 100);
	assert_int_equal(moments[1].allocated.blocks, 2);
	assert_int_equal(moments[1].freed.bytes, 100);
	assert_int_equal(moments[1].freed.blocks, 2);
	assert_int_equal(moments[1].left.blocks, 0);
	reported_finish(&t.reported);
	finish(&t);
}

/* Suballocations lie in blocks, so their bytes count once. Objects have none. */
static void inside(void **state)
{
	const struct report_moment *moment;
	uint32_t part, object;
	struct traced t;

	(void)state;
	begin(&t);
	part = builder_suballocation_row(&t.builder, 0, 0, 1, 30);
	object = builder_row(&t.builder, "cuStreamCreate", "object/stream", 0, 0, 1, 0);
	allocated(&t, 10, 0x1000, 100);
	builder_trace(&t.builder, LEDGER_TRACE_ALLOCATED, part, 0x1000, 30, 20);
	builder_trace(&t.builder, LEDGER_TRACE_ALLOCATED, object, 0x5000, 0, 20);
	builder_trace(&t.builder, LEDGER_TRACE_STEP, 0, 1, 100, 25);
	builder_block(&t.builder, t.row, 0x1000, 100);
	builder_suballocation(&t.builder, part, 0x1000, 30);
	is_live(&t, 30, 100, 1);
	moment = moments_at(&t, 30);
	assert_int_equal(moment->live.held.count, 2);
	assert_int_equal(moment->live.held.list[0].bytes, 70);
	reported_finish(&t.reported);
	finish(&t);
}

/* Each pair of marks: the number of the event at which a range began and ended, or 0. */
static void check_ranges(struct traced *t, const uint64_t (*wanted)[2], size_t count)
{
	const struct lives *lives;
	struct report_process *process;

	reported_load(&t->reported.ledger, &t->builder);
	t->reported.ledger.whole_trace = true;
	t->reported.symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	process = report_process_build(&t->reported.ledger, t->reported.symbolizer, NULL);
	memset(&t->reported.report, 0, sizeof(t->reported.report));
	report_add_process(&t->reported.report, process);
	lives = lives_of(process);
	assert_int_equal(lives->range_count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(lives->ranges[i].from, wanted[i][0]);
		assert_int_equal(lives->ranges[i].to, wanted[i][1]);
		assert_non_null(lives->ranges[i].name);
	}
	reported_finish(&t->reported);
}

static void range(struct traced *t, bool ends, uint32_t thread, uint64_t domain, uint64_t id)
{
	struct ledger_trace_event *event = builder_trace(
		&t->builder, ends ? LEDGER_TRACE_RANGE_ENDED : LEDGER_TRACE_RANGE_BEGAN, 5000, id,
		domain, 10);

	event->what = thread << 8 | (event->what & 0xff);
	event->check = ledger_trace_check(event);
}

/* Ranges of two threads and domains, one that began before the ring, one that any thread ends, two
 * that go on. No record has their number. */
static void ranges(void **state)
{
	static const uint64_t wanted[][2] = {
		{ 1, 9 }, { 2, 0 }, { 3, 4 }, { 5, 7 }, { 0, 6 }, { 8, 0 },
	};
	struct traced t;

	(void)state;
	begin(&t);
	range(&t, false, 1, 0, 0);
	range(&t, false, 1, 7, 0);
	range(&t, false, 2, 0, 0);
	range(&t, true, 2, 0, 0);
	range(&t, false, 2, 0, 77);
	range(&t, true, 2, 0, 0);
	range(&t, true, 1, 0, 77);
	range(&t, false, 1, 0, 77);
	range(&t, true, 1, 0, 0);
	check_ranges(&t, wanted, sizeof(wanted) / sizeof(wanted[0]));
	finish(&t);
}

/* A header that lies about the ring. */
static void damaged(void **state)
{
	static const struct { uint32_t first, chunks; } wrong[] = {
		{ 0, 1 }, { 1, 0 }, { 1, 3 }, { 1, 1u << 31 }, { UINT32_MAX, 1 }, { 1, 1u << 20 },
	};
	struct traced t;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		begin(&t);
		allocated(&t, 10, 0x100, 5);
		builder_header(&t.builder)->trace_first = wrong[i].first;
		builder_header(&t.builder)->trace_chunks = wrong[i].chunks;
		assert_false(moments_at(&t, 10)->is_traced);
		reported_finish(&t.reported);
		finish(&t);
	}
	begin(&t);
	allocated(&t, 10, 0x100, 5);
	builder_header(&t.builder)->traced = UINT64_MAX;
	moments_at(&t, 10);
	reported_finish(&t.reported);
	finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(simple), cmocka_unit_test(before_the_ring),
		cmocka_unit_test(incomplete), cmocka_unit_test(out_of_order),
		cmocka_unit_test(moved), cmocka_unit_test(inside), cmocka_unit_test(damaged),
		cmocka_unit_test(ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
