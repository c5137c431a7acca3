/* SPDX-License-Identifier: MIT
 *
 * The gate's rules, one by one, and that it fails closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "judged.h"
#include "report/model/model.h"

struct scene {
	struct report_process process;
	struct report_process *list[1];
	struct report report;
	struct judge_input input;
};

/* One process that ended well and freed everything. */
static struct scene *scene(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->process.pid = 7;
	s->process.program = "app";
	s->process.ended = REPORT_EXIT;
	s->list[0] = &s->process;
	s->report.processes = s->list;
	s->report.count = 1;
	s->input.report = &s->report;
	return s;
}

static void judged(const struct scene *s, enum judge_verdict verdict, const char *first_reason)
{
	judged_as(&s->input, verdict, first_reason);
}

static void test_clean_and_nothing(void **state)
{
	struct scene s;

	(void)state;
	judged(scene(&s), JUDGE_CLEAN, "nothing leaked");
	scene(&s)->report.count = 0;
	judged(&s, JUDGE_NOTHING, "no ledger was found: no GPU call was seen");
	assert_string_equal(judge_prefix(JUDGE_FAILED), "gate failed: ");
}

static void test_budget(void **state)
{
	struct scene s;

	(void)state;
	scene(&s)->report.summary = (struct report_summary){ .leaked_blocks = 1 };
	judged(&s, JUDGE_FAILED, "1 block, 0 bytes leaked, 0 allowed");
	s.report.summary.leaked_blocks = 3;
	s.report.summary.keeps_bytes = 12582912;
	judged(&s, JUDGE_FAILED, "3 blocks, 12,582,912 bytes (12.0 MiB) leaked, 0 allowed");
	s.input.max_leaked_bytes = 12582911;
	judged(&s, JUDGE_FAILED, "3 blocks, 12,582,912 bytes (12.0 MiB) leaked, "
				 "12,582,911 bytes (11.9 MiB) allowed");
	s.input.max_leaked_bytes = 12582912;
	judged(&s, JUDGE_CLEAN, "3 blocks, 12,582,912 bytes (12.0 MiB) leaked, "
				"12,582,912 bytes (12.0 MiB) allowed");
	s.report.summary.keeps_bytes = UINT64_MAX;
	s.input.max_leaked_bytes = 1;
	judged(&s, JUDGE_FAILED, "3 blocks, 18,446,744,073,709,551,615 bytes (15.9 EiB) leaked, "
				 "1 byte allowed");
}

static void test_errors_always_fail(void **state)
{
	struct scene s;

	(void)state;
	scene(&s)->report.summary.errors = 1;
	s.input.max_leaked_bytes = UINT64_MAX;
	judged(&s, JUDGE_FAILED, "1 invalid free");
}

/* Tensors are never in PyTorch's cache of pinned memory, so its blocks hide no accumulation. */
static void test_unknown_accumulation(void **state)
{
	struct report_stack stack = { 0 };
	struct report_site site = { .api = "cuMemHostAlloc", .kind = "pinned", .stack = &stack };
	struct report_leak cached = { &site, .cache = "PyTorch pinned memory cache" };
	struct scene s;

	(void)state;
	scene(&s)->process.cached = &cached;
	s.process.cached_count = 1;
	s.input.count_accumulation = true;
	judged(&s, JUDGE_CLEAN, "nothing leaked");
	cached.cache = "PyTorch caching allocator";
	judged(&s, JUDGE_FAILED,
	       "the ledger of process 7 (app) does not show if tensors accumulate: "
	       "record it with --suballocations on and this version of gpuleak");
}

static void test_fails_closed(void **state)
{
	static const char *note[] = { "5 allocations were not recorded" };
	static const char *const trouble[] = { "x.supp: cannot read suppressions" };
	struct scene s;

	(void)state;
	scene(&s)->process.ended = REPORT_RUNNING;
	judged(&s, JUDGE_FAILED,
	       "process 7 (app) still runs: its blocks may yet be freed");
	scene(&s)->process.incomplete = 1;
	judged(&s, JUDGE_FAILED, "process 7 (app) was not recorded completely");
	s.process.notes = note;
	s.process.note_count = 1;
	judged(&s, JUDGE_FAILED, "process 7 (app) was not recorded completely: "
				 "5 allocations were not recorded");
	scene(&s)->report.incomplete = 1;
	judged(&s, JUDGE_FAILED,
	       "a part of the recording could not be read: the notes of the "
	       "report name the part");
	s.input.troubles = trouble;
	s.input.trouble_count = 1;
	judged(&s, JUDGE_FAILED, trouble[0]);
	s.report.count = 0; /* nothing to judge, and that may be our own fault */
	judged(&s, JUDGE_FAILED, trouble[0]);
}

static void test_notes_alone_pass(void **state)
{
	static const char *note[] = { "libunwind.so.8 could not be loaded: no stacks" };
	struct scene s;

	(void)state;
	scene(&s)->process.notes = note;
	s.process.note_count = 1;
	judged(&s, JUDGE_CLEAN, "nothing leaked");
	s.process.ended = REPORT_UNKNOWN; /* killed, but it held nothing */
	judged(&s, JUDGE_CLEAN, "nothing leaked");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_and_nothing),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_errors_always_fail),
		cmocka_unit_test(test_unknown_accumulation),
		cmocka_unit_test(test_fails_closed),
		cmocka_unit_test(test_notes_alone_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
