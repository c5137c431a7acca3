/* SPDX-License-Identifier: MIT
 *
 * Named steps in the report: which records of a ledger are read, and what is left of each step.
 * Links: test_named_steps.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
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
#include "report/subjects/subject.h"
#include "report/model/growth_rule.h"

struct built {
	struct ledger_builder builder;
	struct reported reported;
};

static void finish(struct built *built)
{
	reported_finish(&built->reported);
	builder_finish(&built->builder);
}

static struct ledger_named_step step_of(const char *name)
{
	struct ledger_named_step step = { .done = 3, .began = 3, .count = 2,
					  .peak_bytes = 1 << 20 };

	memcpy(step.name, name, strlen(name));
	return step;
}

/* A record that is being changed is not read, and neither is one whose step has not begun. */
static void incomplete(void **state)
{
	const struct report_process *process;
	struct ledger_named_step step;
	struct built built;

	(void)state;
	builder_init(&built.builder);
	step = step_of("changing");
	step.began++;
	builder_named_step(&built.builder, &step);
	step = step_of("complete");
	builder_named_step(&built.builder, &step);
	step = step_of("without a step");
	step.count = 0;
	builder_named_step(&built.builder, &step);
	process = reported_begin(&built.reported, &built.builder);
	assert_int_equal(process->named_step_count, 1);
	assert_string_equal(process->named_steps[0].name, "complete");
	assert_int_equal(process->named_steps[0].count, 2);
	finish(&built);
}

/* The open step has what the process allocated and freed since its begin. */
static void open_step(void **state)
{
	const struct report_process *process;
	struct ledger_named_step step;
	struct built built;
	uint32_t row;

	(void)state;
	builder_init(&built.builder);
	builder_begin_balances(&built.builder, 0);
	row = builder_row(&built.builder, "cuMemAlloc_v2", "device", 0, 0, 5, 5000);
	builder_balance(&built.builder, row)->bytes = 1000;
	builder_balance(&built.builder, row)->blocks = 1;
	step = step_of("open");
	step.flags = LEDGER_STEP_OPEN;
	step.sum = (struct ledger_totals){ 1, 100, 1, 100 };
	step.start = (struct ledger_totals){ 2, 2000, 0, 0 };
	builder_named_step(&built.builder, &step);
	process = reported_begin(&built.reported, &built.builder);
	assert_int_equal(process->named_step_count, 1);
	assert_true(process->named_steps[0].open);
	assert_int_equal(process->named_steps[0].totals.allocated_blocks, 1 + 3);
	assert_int_equal(process->named_steps[0].totals.allocated_bytes, 100 + 3000);
	assert_int_equal(process->named_steps[0].totals.freed_blocks, 1 + 4);
	assert_int_equal(process->named_steps[0].totals.freed_bytes, 100 + 4000);
	assert_int_equal(named_step_left_bytes(&process->named_steps[0]), -1000);
	finish(&built);
}

static void expect_row(const struct report_process *process, const char *row)
{
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	subject_steps.finding(out, &(struct subject_view){ .process = process });
	fclose(out);
	if (!strstr(text, row))
		fail_msg("%s\nhas not: %s", text, row);
	free(text);
}

static void words(void **state)
{
	struct report_named_step steps[21] = {
		{ .name = "gives\tback", .count = 1, .totals = { 1, 1024, 2, 3072 },
		  .peak_bytes = 4096 },
		{ .count = 3, .totals = { 1, 1024, 0, 0 }, .open = true },
	};
	struct report_process process = { .named_steps = steps, .named_step_count = 20 };

	(void)state;
	expect_row(&process, "           1       1.0 KiB       3.0 KiB      -2.0 KiB  "
			     "     4.0 KiB  \"gives\\x09back\"\n");
	expect_row(&process, "       1.0 KiB       0 bytes       1.0 KiB       0 bytes  "
			     "all further names (only 100 names are kept apart), not ended\n");
	process.named_step_count = 21;
	expect_row(&process, "\n  and 1 more; --format json lists all\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(incomplete), cmocka_unit_test(open_step), cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
