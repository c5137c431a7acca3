/* SPDX-License-Identifier: MIT
 *
 * Peaks in the report: what the balances of call sites make of them, how blocks are divided among
 * suballocations, and which caller names a holder. Also from ledgers that lie.
 * Links: test_peak_report.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_reported.h"
#include "report/subjects/held.h"
#include "report/subjects/subject_words.h"
#include "report/model/model_holders.h"

#define MIB ((uint64_t)1 << 20)

struct built {
	struct ledger_builder builder;
	struct reported reported;
};

static void begin(struct built *built)
{
	memset(built, 0, sizeof(*built));
	builder_init(&built->builder);
	builder_module(&built->builder, "/bin/app", 0x1000, 0x3000, 0x1000, 0);
}

static void finish(struct built *built)
{
	reported_finish(&built->reported);
	builder_finish(&built->builder);
}

static void add_peak(struct built *built, enum ledger_memory memory, uint32_t number,
		     uint64_t bytes, uint64_t inside)
{
	struct ledger_peak peak = { .number = number, .memory = memory };

	peak.at[number % 2] = (struct ledger_peak_at){ .bytes = bytes, .time_ns = 7,
						       .suballocated_bytes = inside };
	builder_peak(&built->builder, &peak);
}

static uint32_t stack_at(struct built *built, uint64_t pc)
{
	return builder_stack(&built->builder, &pc, 1, 0);
}

static uint32_t add_row(struct built *built, uint32_t stack, uint32_t memory)
{
	uint32_t row = builder_row(&built->builder, "cuMemAlloc_v2", "device", 0, stack, 1, 1);

	builder_balance(&built->builder, row)->memory = memory;
	builder_others_balance(&built->builder, row)->memory = memory;
	return row;
}

/* Live now, in COUNT blocks. */
static void set(struct ledger_balance *balance, uint64_t bytes, uint32_t count)
{
	balance->bytes = bytes;
	balance->blocks = count;
}

/* What was kept at the peak with NUMBER. */
static void keep(struct ledger_balance *balance, uint32_t number, uint64_t bytes, uint32_t count)
{
	balance->peak = number;
	balance->peak_bytes = bytes;
	balance->peak_blocks = count;
}

static const struct report_peak *only_peak(struct built *built)
{
	const struct report_process *process = reported_begin(&built->reported, &built->builder);

	assert_int_equal(process->peak_count, 1);
	return process->peaks;
}

static void is_holder(const struct report_peak *peak, size_t i, uint64_t bytes, uint64_t blocks)
{
	assert_true(i < peak->held.count);
	assert_int_equal(peak->held.list[i].bytes, bytes);
	assert_int_equal(peak->held.list[i].blocks, blocks);
}

/* ---- balances ---- */

/* A balance that changed after the peak has kept its amounts; one that did not has them now. */
static void kept_or_now(void **state)
{
	const struct report_peak *peak;
	struct built built;
	uint32_t row;

	(void)state;
	begin(&built);
	add_peak(&built, LEDGER_MEMORY_DEVICE, 3, 15 * MIB, 0);
	builder_begin_balances(&built.builder, 0);
	row = add_row(&built, stack_at(&built, 0x1101), 1);
	set(builder_balance(&built.builder, row), 1 * MIB, 1);
	keep(builder_balance(&built.builder, row), 3, 8 * MIB, 4); /* freed later */
	row = add_row(&built, stack_at(&built, 0x1201), 1);
	set(builder_balance(&built.builder, row), 5 * MIB, 2);
	keep(builder_balance(&built.builder, row), 2, 99 * MIB, 9); /* of an older peak */
	row = add_row(&built, stack_at(&built, 0x1301), 1);
	set(builder_balance(&built.builder, row), 2 * MIB, 1); /* never kept */
	row = add_row(&built, stack_at(&built, 0x1401), 1);
	set(builder_balance(&built.builder, row), 64 * MIB, 1);
	keep(builder_balance(&built.builder, row), 3, 0, 0); /* allocated later */
	peak = only_peak(&built);
	assert_int_equal(peak->bytes, 15 * MIB);
	assert_int_equal(peak->time_ns, 7);
	assert_int_equal(peak->error_bytes, 0);
	assert_int_equal(peak->held.count, 3);
	is_holder(peak, 0, 8 * MIB, 4);
	is_holder(peak, 1, 5 * MIB, 2);
	is_holder(peak, 2, 2 * MIB, 1);
	finish(&built);
}

/* No call site has a balance: nothing is known of the holders. UBSan checks this, too. */
static void no_balances(void **state)
{
	const struct report_peak *peak;
	struct built built;

	(void)state;
	begin(&built);
	add_peak(&built, LEDGER_MEMORY_DEVICE, 3, 15 * MIB, 0);
	peak = only_peak(&built);
	assert_int_equal(peak->bytes, 15 * MIB);
	assert_int_equal(peak->error_bytes, 15 * MIB);
	assert_int_equal(peak->held.count, 0);
	finish(&built);
}

/* What other threads freed is subtracted, and rows of one place are added. */
static void threads(void **state)
{
	const struct report_peak *peak;
	struct ledger_site *sites[2];
	uint32_t stack, row, other;
	struct built built;

	(void)state;
	begin(&built);
	add_peak(&built, LEDGER_MEMORY_DEVICE, 9, 13 * MIB, 0);
	stack = stack_at(&built, 0x1101);
	builder_begin_balances(&built.builder, 0);
	row = add_row(&built, stack, 1);
	set(builder_balance(&built.builder, row), 10 * MIB, 5);
	set(builder_others_balance(&built.builder, row), (uint64_t)-10 * MIB, (uint32_t)-5);
	keep(builder_others_balance(&built.builder, row), 9, (uint64_t)-4 * MIB, (uint32_t)-2);
	other = add_row(&built, stack, 1);
	set(builder_balance(&built.builder, other), 6 * MIB, 1);
	/* A writer stores the name of a call and of a kind once. */
	sites[0] = builder_at(&built.builder, row);
	sites[1] = builder_at(&built.builder, other);
	sites[1]->api = sites[0]->api;
	sites[1]->kind = sites[0]->kind;
	peak = only_peak(&built);
	assert_int_equal(peak->held.count, 1);
	is_holder(peak, 0, 12 * MIB, 4);
	assert_int_equal(peak->error_bytes, 1 * MIB); /* it is not known who has the rest */
	finish(&built);
}

static void memories(void **state)
{
	const struct report_process *process;
	struct built built;
	uint32_t row;

	(void)state;
	begin(&built);
	add_peak(&built, LEDGER_MEMORY_DEVICE, 1, 2 * MIB, 0);
	add_peak(&built, LEDGER_MEMORY_HOST, 0, 0, 0); /* none was noted */
	add_peak(&built, LEDGER_MEMORY_OPENCL, 1, 4 * MIB, 0);
	builder_begin_balances(&built.builder, 0);
	row = add_row(&built, stack_at(&built, 0x1101), 3);
	set(builder_balance(&built.builder, row), 4 * MIB, 1);
	row = add_row(&built, stack_at(&built, 0x1101), 1);
	set(builder_balance(&built.builder, row), 2 * MIB, 1);
	process = reported_begin(&built.reported, &built.builder);
	assert_int_equal(process->peak_count, 2);
	assert_string_equal(peak_memory_word(&process->peaks[0]), "opencl");
	is_holder(&process->peaks[0], 0, 4 * MIB, 1);
	assert_string_equal(peak_memory_word(&process->peaks[1]), "device");
	is_holder(&process->peaks[1], 0, 2 * MIB, 1);
	finish(&built);
}

/* ---- suballocations ---- */

/* Without symbols it is not known which blocks are the cache's: the largest ones are. */
static void division(void **state)
{
	const struct report_peak *peak;
	struct built built;
	uint32_t row;

	(void)state;
	begin(&built);
	add_peak(&built, LEDGER_MEMORY_DEVICE, 1, 12 * MIB, 9 * MIB);
	builder_begin_balances(&built.builder, 0);
	row = add_row(&built, stack_at(&built, 0x1101), 1);
	set(builder_balance(&built.builder, row), 8 * MIB, 2);
	row = add_row(&built, stack_at(&built, 0x1201), 1);
	set(builder_balance(&built.builder, row), 4 * MIB, 1);
	builder_begin_balances(&built.builder, 1);
	row = builder_suballocation_row(&built.builder, 0, stack_at(&built, 0x1301), 1, 1);
	builder_balance(&built.builder, row)->memory = 1;
	set(builder_balance(&built.builder, row), 9 * MIB, 30);
	peak = only_peak(&built);
	assert_true(peak->held.divided);
	assert_int_equal(peak->held.count, 2);
	is_holder(peak, 0, 9 * MIB, 30);
	assert_string_equal(peak->held.list[0].site->kind, LEDGER_KIND_SUBALLOCATION);
	is_holder(peak, 1, 3 * MIB, 1); /* 8 of 8 MiB, and 1 of 4 */
	assert_int_equal(peak->error_bytes, 0);
	finish(&built);
}

/* ---- bounds and lies ---- */

static void many(void **state)
{
	const struct report_peak *peak;
	struct built built;
	uint32_t row;

	(void)state;
	begin(&built);
	add_peak(&built, LEDGER_MEMORY_DEVICE, 1, 1500 * 1501 / 2, 0);
	for (uint64_t i = 0; i < 1500; i++) {
		if (i % 250 == 0)
			builder_begin_balances(&built.builder, 0);
		row = add_row(&built, stack_at(&built, 0x1100 + i), 1);
		set(builder_balance(&built.builder, row), i + 1, 1);
	}
	peak = only_peak(&built);
	assert_int_equal(peak->held.count, 1000);
	is_holder(peak, 0, 1500, 1);
	is_holder(peak, 999, 501, 1);
	assert_int_equal(peak->held.other_sites, 500);
	assert_int_equal(peak->held.other_blocks, 500);
	assert_int_equal(peak->held.other_bytes, 500 * 501 / 2);
	assert_int_equal(peak->error_bytes, 0);
	finish(&built);
}

static void lies(void **state)
{
	const struct report_process *process;
	struct built built;
	uint32_t row, stack;

	(void)state;
	begin(&built);
	stack = stack_at(&built, 0x1101);
	row = builder_row(&built.builder, "cuMemAlloc_v2", "device", 0, stack, 1, 1);
	assert_true(row != 0); /* of an older library: it has no balances */
	for (int i = 0; i < 40; i++)
		add_peak(&built, (enum ledger_memory)(99 + i), 1, UINT64_MAX, UINT64_MAX);
	builder_begin_balances(&built.builder, 0);
	row = add_row(&built, stack, 31);
	set(builder_balance(&built.builder, row), INT64_MAX, UINT32_MAX);
	row = add_row(&built, stack, 31);
	set(builder_balance(&built.builder, row), INT64_MAX, UINT32_MAX);
	row = add_row(&built, stack, 32); /* there are only 31 */
	set(builder_balance(&built.builder, row), 1, 1);
	row = add_row(&built, stack, UINT32_MAX);
	set(builder_balance(&built.builder, row), 1, 1);
	row = add_row(&built, stack, 1);
	set(builder_balance(&built.builder, row), (uint64_t)-5, 1); /* negative */
	process = reported_begin(&built.reported, &built.builder);
	assert_int_equal(process->peak_count, LEDGER_MEMORIES_MAX);
	for (size_t i = 0; i < process->peak_count; i++) {
		const struct report_peak *peak = &process->peaks[i];

		assert_true(peak->held.count == 0 || peak->held.list[0].blocks == 0);
		assert_true(peak->error_bytes == UINT64_MAX);
	}
	finish(&built);
}

static void without(void **state)
{
	struct built built;

	(void)state;
	begin(&built);
	assert_int_equal(reported_begin(&built.reported, &built.builder)->peak_count, 0);
	finish(&built);
}

/* ---- names ---- */

static struct report_stack stack_of(const struct report_frame *frames, size_t count)
{
	return (struct report_stack){ .frames = frames, .count = count };
}

/* A holder of NUMBER bytes at the stack AT. Its site lives until the end of the block. */
#define HOLDER(at, number)                                                                    \
	{ .site = &(struct report_site){ "cuMemAlloc_v2", "device", 0, at, 0 }, .bytes = number,  \
	  .blocks = 1 }

#define FRAME(name, number) { .function = name, .file = "/a.c", .line = number, .module = "/app" }

static void expect_names(const struct report_leak *list, size_t count, const char *const *names)
{
	const struct report_holders holders = { .list = (struct report_leak *)list,
						.count = count };
	struct held_list held = held_sum_up(&holders, HELD_BY_PLACE, false);

	for (size_t i = 0; names[i]; i++) {
		assert_true(i < held.count);
		assert_string_equal(held.list[i].name, names[i]);
	}
	held_finish(&held);
}

/* The callers of a function that allocates for all name the holders, through functions between. */
static void callers(void **state)
{
	const struct report_frame a[] = { FRAME("take", 1), FRAME("checked", 2), FRAME("solve", 3),
					  FRAME("main", 9) };
	const struct report_frame b[] = { FRAME("take", 1), FRAME("checked", 2), FRAME("load", 4),
					  FRAME("main", 9) };
	const struct report_frame c[] = { FRAME("own", 5), FRAME("main", 8) };
	const struct report_stack stacks[] = { stack_of(a, 4), stack_of(b, 4), stack_of(c, 2) };
	const struct report_leak list[] = { HOLDER(&stacks[0], 30), HOLDER(&stacks[1], 20),
					    HOLDER(&stacks[2], 10) };

	(void)state;
	expect_names(list, 3, (const char *const[]){ "solve (/a.c:3)", "load (/a.c:4)",
						     "own (/a.c:5)", NULL });
	/* with one holder there is nothing to tell apart */
	expect_names(list, 1, (const char *const[]){ "take (/a.c:1)", NULL });
}

/* One of them is called by main() itself: then nothing tells all of them apart. */
static void no_callers(void **state)
{
	const struct report_frame a[] = { FRAME("take", 1), FRAME("main", 3) };
	const struct report_frame b[] = { FRAME("take", 1) };
	const struct report_stack stacks[] = { stack_of(a, 2), stack_of(b, 1) };
	const struct report_leak list[] = { HOLDER(&stacks[0], 30), HOLDER(&stacks[1], 20) };

	(void)state;
	expect_names(list, 2, (const char *const[]){ "take (/a.c:1)", NULL });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept_or_now), cmocka_unit_test(no_balances),
		cmocka_unit_test(threads),
		cmocka_unit_test(memories), cmocka_unit_test(division), cmocka_unit_test(many),
		cmocka_unit_test(lies), cmocka_unit_test(without), cmocka_unit_test(callers),
		cmocka_unit_test(no_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
