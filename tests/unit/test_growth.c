/* SPDX-License-Identifier: MIT
 *
 * What keeps growing: the rule on series of every sort, and the same from a ledger, also from
 * one that lies or is read in the middle of a step.
 * Links: test_growth.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/model/growth_rule.h"
#include "report/gate/judge.h"
#include "ledger_reported.h"
#include "report/load/load.h"
#include "report/model/model.h"
#include "report/subjects/formats.h"
#include "report/subjects/subject.h"
#include "report/suppress/suppress.h"
#include "report/symbols/symbolize.h"

#define MIB ((uint64_t)1 << 20)

/* ---- the rule ---- */

static struct growth_verdict verdict(const uint64_t *values, size_t count)
{
	struct growth_series series = { .count = count };

	memcpy(series.values, values, count * sizeof(*values));
	return growth_judge(&series);
}

#define VERDICT(...) \
	verdict((const uint64_t[]){ __VA_ARGS__ }, sizeof((uint64_t[]){ __VA_ARGS__ }) / 8)
#define SUSPECT(intervals_, per_step_, ...)                              \
	do {                                                             \
		struct growth_verdict v_ = VERDICT(__VA_ARGS__);         \
		assert_int_equal(v_.intervals, intervals_);              \
		assert_int_equal(v_.per_step, per_step_);                \
	} while (0)
#define NO_SUSPECT(...) SUSPECT(0, 0, __VA_ARGS__)

static void test_leaks(void **state)
{
	(void)state;
	NO_SUSPECT(1);
	NO_SUSPECT(1, 2, 3);
	SUSPECT(3, 1, 1, 2, 3, 4); /* by the fourth step */
	SUSPECT(3, 100, 0, 100, 200, 300);
	SUSPECT(3, MIB, 5, 5, 5, MIB + 5, 2 * MIB + 5, 3 * MIB + 5); /* it began later */
	SUSPECT(15, 7, 0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 77, 84, 91, 98, 105);
	/* A service's work is not the same in each step. */
	SUSPECT(6, 2, 0, 1, 4, 5, 7, 10, 12);
	SUSPECT(5, 10, 0, 10, 15, 25, 45, 55);
	/* Warm-up and a leak at one site: the leap is not what it grows by. */
	SUSPECT(4, 1, 0, 1000, 1001, 1002, 1003);
	/* It grows faster and faster. */
	SUSPECT(4, 2, 0, 1, 3, 7, 15);
}

static void test_not_leaks(void **state)
{
	(void)state;
	NO_SUSPECT(8, 8, 8, 8, 8);
	NO_SUSPECT(0, 4, 6, 7, 7, 7, 7, 7); /* a cache that fills and stays */
	NO_SUSPECT(0, 4, 6, 7);             /* ... at any moment of that */
	NO_SUSPECT(0, 64, 96, 112, 120, 124, 126, 127);
	NO_SUSPECT(0, 100, 160, 196, 217, 230); /* each time 0.6 of the last */
	NO_SUSPECT(0, 10, 20, 30, 30);          /* full at the last step */
	NO_SUSPECT(1, 9, 1, 9, 1, 9, 1, 9);
	NO_SUSPECT(1, 2, 9, 3, 4, 9, 5, 6, 9); /* up on the whole, but not at every step */
	NO_SUSPECT(9, 8, 7, 6, 5, 4);
	NO_SUSPECT(1, 2, 3, 4, 5, 6, 5);
	NO_SUSPECT(UINT64_MAX, 0, UINT64_MAX, 0, UINT64_MAX);
}

/* Steps by the clock: what belongs to one may fall into the next. */
static void test_by_clock(void **state)
{
	(void)state;
	SUSPECT(6, 10, 0, 10, 20, 30, 40, 40, 60);
	NO_SUSPECT(0, 10, 20, 20, 40, 50);         /* too few to say so */
	NO_SUSPECT(0, 10, 20, 15, 40, 40, 60);     /* it went down */
	NO_SUSPECT(0, 10, 10, 20, 20, 20, 20);
	NO_SUSPECT(10, 10, 20, 20, 30, 30, 30, 30, 30);
}

/* ---- from a ledger ---- */

static struct report_process *process_of(struct ledger_builder *builder,
					 struct pattern_file *suppressions)
{
	struct report_process *ret = NULL;
	struct loaded_ledger ledger;

	reported_load(&ledger, builder);
	ret = report_process_build(&ledger, reported_symbolizer, suppressions);
	loaded_ledger_finish(&ledger);
	return ret;
}

/* A site that had BYTES[i] in BLOCKS[i] at step FIRST + i. */
static uint32_t add_site(struct ledger_builder *builder, uint64_t pc, uint32_t epoch,
			 uint32_t first, size_t count, const uint64_t *bytes, uint32_t blocks)
{
	struct ledger_growth growth = { .first_step = first };

	growth.stack = builder_stack(builder, &pc, 1, epoch);
	growth.api = builder_string(builder, "cuMemAlloc_v2");
	growth.kind = builder_string(builder, "device");
	for (uint32_t i = 0; i < count; i++)
		growth.at[(first + i) % LEDGER_GROWTH_STEPS] =
			(struct ledger_growth_at){ first + i, blocks * (i + 1), bytes[i] };
	return builder_growth(builder, &growth);
}

static void add_steps(struct ledger_builder *builder, uint32_t first, uint32_t last)
{
	for (uint32_t number = last; number >= first && number; number--) /* in any order */
		builder_step(builder, number, number * 60000000000ull, number * MIB,
			     number == last ? "epoch\n7" : "");
}

static const uint64_t leak[] = { MIB, 2 * MIB, 3 * MIB, 4 * MIB, 5 * MIB };
static const uint64_t cache[] = { 40, 60, 70, 75, 75 };

static void test_ledger(void **state)
{
	struct ledger_builder builder;
	struct report_process *process;

	(void)state;
	builder_init(&builder);
	add_steps(&builder, 1, 5);
	add_site(&builder, 0x1001, 0, 1, 5, leak, 2);
	add_site(&builder, 0x2001, 0, 1, 5, cache, 0);
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->step_count, 5);
	assert_int_equal(process->growth->stored_count, 5);
	assert_int_equal(process->growth->steps[0].number, 1);
	assert_string_equal(process->growth->steps[4].label, "epoch\n7");
	assert_int_equal(process->growth->suspect_count, 1);
	assert_int_equal(process->growth->suspects[0].bytes_per_step, MIB);
	assert_int_equal(process->growth->suspects[0].bytes_per_hour, 60 * MIB);
	assert_int_equal(process->growth->suspects[0].blocks_per_step, 2);
	assert_int_equal(process->growth->suspects[0].bytes, 5 * MIB);
	assert_int_equal(process->growth->suspects[0].blocks, 10);
	assert_int_equal(process->growth->suspects[0].intervals, 4);
	assert_int_equal(process->growth->suspects[0].site->stack->frames[0].offset, 0x1000);
	report_process_destroy(process);
	builder_finish(&builder);
}

/* The ring went round: only the last 16 steps count, and a site that came late had nothing. */
static void test_ring(void **state)
{
	struct ledger_builder builder;
	struct report_process *process;
	uint64_t bytes[LEDGER_GROWTH_STEPS];

	(void)state;
	builder_init(&builder);
	for (uint32_t number = 46; number <= 300; number++)
		builder_step(&builder, number, number, 1, "");
	for (uint32_t i = 0; i < LEDGER_GROWTH_STEPS; i++)
		bytes[i] = i * 10 + 5;
	((struct ledger_growth *)builder_at(
		&builder, add_site(&builder, 0x1001, 0, 285, 16, bytes, 1)))->first_step = 3;
	add_site(&builder, 0x2001, 0, 298, 3, leak, 1); /* 0 at step 297: three intervals */
	add_site(&builder, 0x3001, 0, 299, 2, leak, 1);
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->step_count, 300);
	assert_int_equal(process->growth->suspect_count, 2);
	assert_int_equal(process->growth->suspects[0].bytes_per_step, MIB);
	assert_int_equal(process->growth->suspects[0].intervals, 3);
	assert_int_equal(process->growth->suspects[1].bytes_per_step, 10);
	assert_int_equal(process->growth->suspects[1].intervals, 15);
	assert_int_equal(process->growth->suspects[1].bytes_per_hour, 0); /* within nanoseconds */
	report_process_destroy(process);
	builder_finish(&builder);
}

/* A library that is loaded again at each step makes new stacks of the same code. */
static void test_same_code(void **state)
{
	static const uint64_t one[] = { MIB, MIB, MIB, MIB };
	struct ledger_builder builder;
	struct report_process *process;

	(void)state;
	builder_init(&builder);
	add_steps(&builder, 1, 4);
	for (uint32_t i = 0; i < 4; i++)
		add_site(&builder, 0x1001, i, i + 1, 4 - i, one, 1);
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->suspect_count, 1);
	assert_int_equal(process->growth->suspects[0].bytes, 4 * MIB);
	assert_int_equal(process->growth->suspects[0].bytes_per_step, MIB);
	report_process_destroy(process);
	builder_finish(&builder);
}

/* The same library at another address at each step is the same code. Another library at the same
 * address is other code. */
static void test_moved_code(void **state)
{
	static const uint64_t one[] = { MIB, MIB, MIB, MIB };
	struct ledger_builder builder;
	struct report_process *process;

	(void)state;
	builder_init(&builder);
	add_steps(&builder, 1, 4);
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t start = 0x10000u * (i + 1);

		builder_module(&builder, "/lib/moved.so", start, start + 0x1000, start, i);
		add_site(&builder, start + 0x101, i, i + 1, 4 - i, one, 1);
		builder_module(&builder, i % 2 ? "/lib/odd.so" : "/lib/even.so", 0x90000, 0x91000,
			       0x90000, i);
		add_site(&builder, 0x90101, i, i + 1, 4 - i, one, 1);
	}
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->suspect_count, 1);
	assert_string_equal(process->growth->suspects[0].site->stack->frames[0].module,
			    "/lib/moved.so");
	assert_int_equal(process->growth->suspects[0].bytes, 4 * MIB);
	report_process_destroy(process);
	builder_finish(&builder);
}

/* A site that ran one Python frame, at LINE, below the native frame PC. */
static void add_python_site(struct ledger_builder *builder, uint32_t code, uint64_t pc,
			    uint32_t line, uint32_t first, size_t count, const uint64_t *bytes)
{
	const uint64_t pcs[] = { 0x1001, pc };
	uint32_t stack = builder_python_stack(builder, pcs, 2, &code, &line, 1);
	uint32_t site = add_site(builder, 0x1001, 0, first, count, bytes, 1);

	((struct ledger_growth *)builder_at(builder, site))->stack = stack;
}

/* Behind one native call each line of Python is a site. What the interpreter called in between
 * makes no other site. */
static void test_python_lines(void **state)
{
	static const uint64_t sawtooth[] = { 9 * MIB, 2 * MIB, 7 * MIB, MIB, 8 * MIB };
	static const uint64_t early[] = { MIB, 2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB };
	static const uint64_t later[] = { MIB, 2 * MIB, 3 * MIB };
	struct ledger_builder builder;
	struct report_process *process;
	uint32_t code;

	(void)state;
	builder_init(&builder);
	builder_module(&builder, "/usr/lib/libpython3.11.so.1.0", 0x5000, 0x6000, 0x5000, 0);
	code = builder_code(&builder, "train", "/a.py");
	add_steps(&builder, 1, 5);
	add_python_site(&builder, code, 0x5001, 10, 1, 5, early);
	add_python_site(&builder, code, 0x5101, 10, 3, 3, later); /* the loop is specialized */
	add_python_site(&builder, code, 0x5001, 20, 1, 5, sawtooth);
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->suspect_count, 1);
	assert_int_equal(process->growth->suspects[0].bytes, 5 * MIB);
	assert_int_equal(process->growth->suspects[0].bytes_per_step, MIB);
	report_process_destroy(process);
	builder_finish(&builder);
}

/* The last step was being written: the one before it counts. */
static void test_torn(void **state)
{
	struct ledger_builder builder;
	struct report_process *process;
	struct ledger_growth *growth;

	(void)state;
	builder_init(&builder);
	add_steps(&builder, 1, 5);
	growth = builder_at(&builder, add_site(&builder, 0x1001, 0, 1, 5, leak, 1));
	growth->at[5].step = 0;
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->suspect_count, 1);
	assert_int_equal(process->growth->suspects[0].bytes, 4 * MIB);
	report_process_destroy(process);
	growth = builder_at(&builder, add_site(&builder, 0x2001, 0, 1, 5, leak, 1));
	growth->at[3].step = 9; /* a gap: what is behind it is too short */
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->suspect_count, 1);
	report_process_destroy(process);
	builder_finish(&builder);
}

static void test_no_bytes(void **state)
{
	static const uint64_t none[] = { 0, 0, 0, 0 };
	struct ledger_builder builder;
	struct report_process *process;

	(void)state;
	builder_init(&builder);
	add_steps(&builder, 1, 4);
	add_site(&builder, 0x1001, 0, 1, 4, none, 3);
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->suspect_count, 1);
	assert_int_equal(process->growth->suspects[0].bytes_per_step, 0);
	assert_int_equal(process->growth->suspects[0].blocks_per_step, 3);
	report_process_destroy(process);
	builder_finish(&builder);
}

static void test_hostile(void **state)
{
	struct ledger_builder builder;
	struct report_process *process;
	uint64_t huge[] = { 1, UINT64_MAX / 2, UINT64_MAX, UINT64_MAX };
	uint32_t ref;

	(void)state;
	builder_init(&builder);
	process = process_of(&builder, NULL);
	assert_null(process->growth);
	report_process_destroy(process);
	builder_step(&builder, UINT32_MAX, UINT64_MAX, UINT64_MAX,
		     "\xff\x1b[2J a label of more than 32 bytes that has no end");
	builder_step(&builder, UINT32_MAX, 0, 0, "");
	builder_step(&builder, 0, 5, 5, "being written");
	builder_step(&builder, UINT32_MAX - 1, 0, 0, "");
	ref = add_site(&builder, 0x1001, 0, UINT32_MAX - 3, 4, huge, UINT32_MAX);
	((struct ledger_growth *)builder_at(&builder, ref))->stack = 0xffffffff;
	((struct ledger_growth *)builder_at(&builder, ref))->api = 7;
	((struct ledger_growth *)builder_at(&builder, ref))->kind = 0xfffffff0;
	add_site(&builder, 0x1001, 0, UINT32_MAX - 3, 4, huge, UINT32_MAX);
	add_site(&builder, 0x1001, 1, UINT32_MAX - 3, 4, huge, UINT32_MAX);
	process = process_of(&builder, NULL);
	assert_int_equal(process->growth->step_count, UINT32_MAX);
	assert_int_equal(process->growth->stored_count, 3);
	report_process_destroy(process);
	builder_finish(&builder);
}

/* ---- named steps ---- */

/* Four blocks of 100 bytes were allocated, and two are live; an object does not count. */
static void add_memory(struct ledger_builder *builder)
{
	uint64_t pc = 0x1001;
	uint32_t stack = builder_stack(builder, &pc, 1, 0);
	uint32_t row, object;

	builder_begin_balances(builder, 0);
	row = builder_row(builder, "cuMemAlloc_v2", "device", 0, stack, 4, 400);
	object = builder_row(builder, "cuStreamCreate", "object/stream", 0, stack, 9, 0);
	builder_balance(builder, row)->bytes = 200;
	builder_balance(builder, row)->blocks = 2;
	builder_balance(builder, object)->blocks = 1;
}

static void test_named_steps(void **state)
{
	struct ledger_named_step step = { .done = 1, .began = 1, .count = 2, .peak_bytes = 77,
					  .sum = { 5, 500, 6, 600 }, .name = "ended" };
	struct report_process *process;
	struct ledger_builder builder;

	(void)state;
	builder_init(&builder);
	process = process_of(&builder, NULL);
	assert_int_equal(process->named_step_count, 0); /* a ledger of an older library */
	report_process_destroy(process);
	add_memory(&builder);
	builder_named_step(&builder, &step);
	step.began = 2; /* being written */
	builder_named_step(&builder, &step);
	step.done = 2;
	step.flags = LEDGER_STEP_OPEN;
	step.start = (struct ledger_totals){ 1, 100, 7, 7 }; /* 7: more than at the end */
	memset(step.name, 'x', sizeof(step.name));
	builder_named_step(&builder, &step);
	step.count = 0; /* never began */
	builder_named_step(&builder, &step);
	process = process_of(&builder, NULL);
	assert_int_equal(process->named_step_count, 2);
	assert_string_equal(process->named_steps[0].name, "ended");
	assert_int_equal(process->named_steps[0].count, 2);
	assert_false(process->named_steps[0].open);
	assert_int_equal(named_step_left_bytes(&process->named_steps[0]), -100);
	assert_int_equal(named_step_left_blocks(&process->named_steps[0]), -1);
	assert_int_equal(process->named_steps[0].peak_bytes, 77);
	assert_int_equal(strlen(process->named_steps[1].name), LEDGER_STEP_NAME);
	assert_true(process->named_steps[1].open);
	assert_int_equal(process->named_steps[1].totals.allocated_blocks, 5 + 3);
	assert_int_equal(process->named_steps[1].totals.allocated_bytes, 500 + 300);
	assert_int_equal(process->named_steps[1].totals.freed_blocks, 6);
	assert_int_equal(process->named_steps[1].totals.freed_bytes, 600 + 193);
	report_process_destroy(process);
	builder_finish(&builder);
}

/* ---- what is made of it ---- */

static char *printed(struct report *report,
		     int (*print)(const struct report *, const struct judgement *, FILE *))
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(print(report, NULL, out), 0);
	fclose(out);
	return text;
}

static void test_told(void **state)
{
	static const char rules[] = "leak:/bin/other\n";
	struct pattern_file *suppressions;
	struct report report = { 0 };
	struct ledger_builder builder;
	char error[256], *text;

	(void)state;
	assert_int_equal(pattern_file_parse(&suppression_syntax, rules, sizeof(rules) - 1, "rules",
					    &suppressions, error, sizeof(error)),
			 0);
	builder_init(&builder);
	builder_module(&builder, "/bin/other", 0x3000, 0x4000, 0, 0);
	add_steps(&builder, 1, 5);
	add_site(&builder, 0x1001, 0, 1, 5, leak, 2);
	add_site(&builder, 0x3001, 0, 1, 5, leak, 1);
	report_add_process(&report, process_of(&builder, suppressions));
	text = printed(&report, print_text);
	assert_non_null(strstr(text, "\ngpuleak: suspect: 1.0 MiB per step (60.0 MiB per hour) "
				     "at "));
	assert_non_null(strstr(text, ", cuMemAlloc_v2 (device memory, device 0): grew over the "
				     "last 4 steps, to 5.0 MiB in 10 blocks\n"
				     "gpuleak: 5 steps marked, the last one \"epoch\\x0A7\"\n"
				     "gpuleak: 1 more suspect is suppressed\n"));
	free(text);
	text = printed(&report, print_json);
	assert_non_null(strstr(text, "\"bytes_per_step\": 1048576"));
	assert_non_null(strstr(text, "\"label\": \"epoch\\n7\""));
	free(text);
	report_finish(&report);
	pattern_file_destroy(suppressions);
	builder_finish(&builder);
}

static void judged(struct report *report, uint64_t max_growth, enum judge_verdict wanted,
		   const char *reason)
{
	struct judge_input input = { .report = report, .growth_wanted = 1, .leaks_unwanted = 1,
				     .max_growth = max_growth };
	struct judgement judgement;

	judge(&input, &judgement);
	assert_int_equal(judgement.verdict, wanted);
	assert_string_equal(judgement.reasons[0], reason);
	judgement_finish(&judgement);
}

static void test_gate(void **state)
{
	struct report report = { 0 };
	struct ledger_builder builder;
	uint32_t row;

	(void)state;
	builder_init(&builder);
	row = builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 1, MIB);
	builder_block(&builder, row, 0x10, MIB);
	report_add_process(&report, process_of(&builder, NULL));
	judged(&report, 0, JUDGE_FAILED,
	       "process 4242 (app) marked 0 steps: growth is judged from 4 steps on");
	report_finish(&report);
	add_steps(&builder, 1, 3);
	report_add_process(&report, process_of(&builder, NULL));
	judged(&report, MIB, JUDGE_FAILED,
	       "process 4242 (app) marked 3 steps: growth is judged from 4 steps on");
	report_finish(&report);
	add_steps(&builder, 4, 5);
	report_add_process(&report, process_of(&builder, NULL));
	judged(&report, 0, JUDGE_CLEAN, "nothing keeps growing beyond what is allowed");
	report_finish(&report);
	add_site(&builder, 0x1001, 0, 1, 5, leak, 1);
	report_add_process(&report, process_of(&builder, NULL));
	judged(&report, MIB - 1, JUDGE_FAILED,
	       "memory allocated by cuMemAlloc_v2 in process 4242 (app) grows by 1,048,576 "
	       "bytes (1.0 MiB) per step, "
	       "1,048,575 bytes (1023.9 KiB) allowed");
	judged(&report, MIB, JUDGE_CLEAN, "nothing keeps growing beyond what is allowed");
	report_finish(&report);
	builder_finish(&builder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaks),	  cmocka_unit_test(test_not_leaks),
		cmocka_unit_test(test_by_clock),  cmocka_unit_test(test_ledger),
		cmocka_unit_test(test_ring),	  cmocka_unit_test(test_same_code),
		cmocka_unit_test(test_moved_code), cmocka_unit_test(test_python_lines),
		cmocka_unit_test(test_torn),	  cmocka_unit_test(test_no_bytes),
		cmocka_unit_test(test_hostile),	  cmocka_unit_test(test_told),
		cmocka_unit_test(test_gate),	  cmocka_unit_test(test_named_steps),
	};

	return cmocka_run_group_tests(tests, reported_group_setup, reported_group_teardown);
}
