/* SPDX-License-Identifier: MIT
 *
 * What the gate is judged by, without files and processes: baselines, budgets, policies, the
 * ranks of a job, generated suppressions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include "report/gate/baseline.h"
#include "report/gate/gate_rules.h"
#include "report/subjects/formats.h"
#include "judged.h"
#include "ledger_builder.h"
#include "report/load/load.h"
#include "report/model/model.h"
#include "report/subjects/subject.h"
#include "report/gate/gate_rules.h"
#include "report/analyze/ranks.h"
#include "report/gate/read_json.h"
#include "report/suppress/suppress.h"
#include "report/symbols/symbolize.h"
#include "report/analyze/leak_totals.h"

enum { LEAKS = 4, PROCESSES = 5 };

struct scene {
	struct report_frame frames[LEAKS][2];
	struct report_stack stacks[LEAKS];
	struct report_site sites[LEAKS];
	struct report_leak leaks[LEAKS];
	struct report_process process[PROCESSES];
	struct report_process *list[PROCESSES];
	struct report report;
	struct judge_input input;
};

static const char *const functions[LEAKS] = { "load", "train", "save",
					       "std::vector<int, A>::grow" };

/* COUNT leaks of the first process: leak I has 100 * (I + 1) bytes in I + 1 blocks, made by
 * functions[I] in "app.c", called from main. */
static struct scene *scene(struct scene *s, size_t count)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < LEAKS; i++) {
		s->frames[i][0] = (struct report_frame){ .function = functions[i],
			.file = "/src/app.c", .line = 10 * (unsigned int)i + 10,
			.module = "/bin/app" };
		s->frames[i][1] = (struct report_frame){ .function = "main", .file = "/src/app.c",
			.line = 100, .module = "/bin/app" };
		s->stacks[i] = (struct report_stack){ .frames = s->frames[i], .count = 2 };
		s->sites[i] = (struct report_site){ .api = "cuMemAlloc_v2", .kind = "device",
			.stack = &s->stacks[i] };
		s->leaks[i] = (struct report_leak){ .site = &s->sites[i], .bytes = 100 * (i + 1),
			.keeps_bytes = 100 * (i + 1), .blocks = i + 1 };
	}
	for (size_t i = 0; i < PROCESSES; i++) {
		s->process[i] = (struct report_process){ .pid = (int)i + 1, .program = "app",
			.host = "node", .ledger = "l", .ended = REPORT_EXIT };
		s->list[i] = &s->process[i];
	}
	s->process[0].leaks = s->leaks;
	s->process[0].leak_count = count;
	s->report.processes = s->list;
	s->report.count = 1;
	for (size_t i = 0; i < count; i++) {
		s->report.summary.leaked_bytes += s->leaks[i].bytes;
		s->report.summary.keeps_bytes += s->leaks[i].keeps_bytes;
		s->report.summary.leaked_blocks += s->leaks[i].blocks;
	}
	s->input.report = &s->report;
	return s;
}

static void judged(const struct scene *s, enum judge_verdict verdict, const char *first_reason)
{
	judged_as(&s->input, verdict, first_reason);
}

static struct pattern_file *baseline(const char *text)
{
	struct pattern_file *ret = NULL;
	char error[256] = "";

	if (pattern_file_parse(&baseline_syntax, text, strlen(text), "b", &ret, error,
			       sizeof(error)) < 0)
		fail_msg("%s", error);
	return ret;
}

/* The text of a baseline that knows all of REPORT, to be freed. */
static char *baseline_of(const struct report *report)
{
	struct leak_totals totals;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	totals = leak_totals_make(report, TOTALS_OF_LEAKS);
	baseline_write(&totals, out);
	fclose(out);
	leak_totals_finish(&totals);
	return text;
}

static void test_baseline_survives(void **state)
{
	struct pattern_file *known;
	struct scene s;
	char *text;

	(void)state;
	scene(&s, 3);
	text = baseline_of(&s.report);
	known = baseline(text);
	assert_int_equal(known->count, 3);
	scene(&s, 3)->input.baseline = known;
	judged(&s, JUDGE_CLEAN, "nothing leaked beyond the baseline");
	for (int i = 0; i < 3; i++) { /* another checkout, lines moved, another build */
		s.frames[i][0].line += 17;
		s.frames[i][0].file = "/home/other/app.c";
		s.frames[i][0].offset = 0x999;
		s.frames[i][0].module = "/opt/app";
	}
	judged(&s, JUDGE_CLEAN, "nothing leaked beyond the baseline");
	s.frames[1][0].function = "evaluate";
	judged(&s, JUDGE_FAILED, "2 blocks, 200 bytes leaked beyond the baseline, 0 allowed");
	free(text);
	pattern_file_destroy(known);
}

/* Two devices, two lines of one function: one fingerprint, one allowance for all of them. */
static void test_baseline_sums(void **state)
{
	struct pattern_file *known;
	struct scene s;
	char *text;

	(void)state;
	scene(&s, 2);
	s.frames[1][0].function = functions[0];
	s.sites[1].device = 1;
	text = baseline_of(&s.report);
	known = baseline(text);
	assert_int_equal(known->count, 1);
	assert_int_equal(known->rules[0].bytes, 300);
	assert_int_equal(known->rules[0].blocks, 3);
	s.input.baseline = known;
	judged(&s, JUDGE_CLEAN, "nothing leaked beyond the baseline");
	/* what one grows the other may have shrunk */
	s.leaks[0].bytes = s.leaks[0].keeps_bytes = 299;
	s.leaks[1].bytes = s.leaks[1].keeps_bytes = 1;
	judged(&s, JUDGE_CLEAN, "nothing leaked beyond the baseline");
	s.leaks[1].bytes = s.leaks[1].keeps_bytes = 2;
	s.report.summary.leaked_bytes = s.report.summary.keeps_bytes = 301;
	judged(&s, JUDGE_FAILED, "0 blocks, 1 byte leaked beyond the baseline, 0 allowed");
	/* What the sum has and no list is known by nobody. */
	s.leaks[1].bytes = s.leaks[1].keeps_bytes = 1;
	judged(&s, JUDGE_FAILED, "0 blocks, 1 byte leaked beyond the baseline, 0 allowed");
	free(text);
	pattern_file_destroy(known);
}

/* The limit and budgets count what a leak keeps. If a baseline has a part of its blocks, they count
 * the other part. */
static void test_keeps(void **state)
{
	struct pattern_file *known;
	struct scene s;
	char *text;

	(void)state;
	scene(&s, 1);
	text = baseline_of(&s.report); /* 100 bytes in 1 block */
	known = baseline(text);
	s.leaks[0] = (struct report_leak){ .site = &s.sites[0], .bytes = 400, .blocks = 4,
					   .keeps_bytes = 800 };
	s.report.summary.keeps_bytes = 800;
	s.report.summary.leaked_blocks = 4;
	s.input.max_leaked_bytes = 799;
	judged(&s, JUDGE_FAILED, "4 blocks, 800 bytes leaked, 799 bytes allowed");
	s.input.max_leaked_bytes = 800;
	judged(&s, JUDGE_CLEAN, "4 blocks, 800 bytes leaked, 800 bytes allowed");
	s.input.baseline = known;
	s.input.max_leaked_bytes = 599;
	judged(&s, JUDGE_FAILED,
	       "3 blocks, 600 bytes leaked beyond the baseline, 599 bytes allowed");
	s.leaks[0].keeps_bytes = s.report.summary.keeps_bytes = 0; /* at its parent's leak */
	judged(&s, JUDGE_CLEAN,
	       "3 blocks, 0 bytes leaked beyond the baseline, 599 bytes allowed");
	free(text);
	pattern_file_destroy(known);
}

/* A baseline of an older gpuleak has the names with Rust's hash, a newer one has none. Both know
 * the leaks, the newer one after each rebuild. */
static void test_baseline_of_rust(void **state)
{
	static const char *const old[] = { "train::h0000000000000001", "train::h0000000000000002" };
	struct leak_totals totals;
	char *texts[2] = { 0 };
	struct scene s;
	size_t length;
	FILE *out;

	(void)state;
	scene(&s, 2);
	for (int i = 0; i < 2; i++) {
		s.frames[i][0].function = "train";
		s.frames[i][0].old_function = old[i];
	}
	texts[0] = baseline_of(&s.report);
	out = open_memstream(&texts[1], &length);
	totals = leak_totals_make_by(&s.report, TOTALS_OF_LEAKS, baseline_key, NULL);
	baseline_write(&totals, out);
	fclose(out);
	leak_totals_finish(&totals);
	for (int i = 0; i < 2; i++) {
		struct pattern_file *known = baseline(texts[i]);

		s.frames[0][0].old_function = old[0];
		assert_int_equal(known->count, i == 0 ? 2 : 1);
		s.input.baseline = known;
		judged(&s, JUDGE_CLEAN, "nothing leaked beyond the baseline");
		s.frames[0][0].old_function = "train::h0000000000000003";
		if (i == 0)
			judged(&s, JUDGE_FAILED,
			       "1 block, 100 bytes leaked beyond the baseline, 0 allowed");
		else
			judged(&s, JUDGE_CLEAN, "nothing leaked beyond the baseline");
		pattern_file_destroy(known);
		free(texts[i]);
	}
}

static void test_baseline_text(void **state)
{
	struct pattern_file *known, *bad = NULL;
	struct scene s;
	char error[64], *text;

	(void)state;
	scene(&s, 1)->frames[0][0].function = "a\nb\x1b[0m"; /* hostile: stays in its line */
	text = baseline_of(&s.report);
	assert_null(strchr(text, '\x1b'));
	known = baseline(text);
	assert_int_equal(known->count, 1);
	assert_string_equal(known->rules[0].text,
			    "cuMemAlloc_v2 device a\\x0Ab\\x1B[0m (app.c)");
	pattern_file_destroy(known);
	free(text);
	known = baseline("");
	assert_int_equal(known->count, 0);
	pattern_file_destroy(known);
	known = baseline("\xef\xbb\xbfgpuleak-baseline 1\r\n"
			 "ffffffffffffffff\t18446744073709551615  18446744073709551615#x");
	assert_true(known->rules[0].bytes == UINT64_MAX);
	assert_string_equal(known->rules[0].text, "x");
	pattern_file_destroy(known);
	text = (char *)"gpuleak-baseline 1\nffffffffffffffff 18446744073709551616 1\n";
	assert_true(pattern_file_parse(&baseline_syntax, text, strlen(text), "b", &bad, error,
				       sizeof(error)) < 0);
	assert_null(bad);
}

static struct pattern_file *budgets(const char *text)
{
	struct pattern_file *ret = NULL;
	char error[256] = "";

	if (pattern_file_parse(&budget_syntax, text, strlen(text), "u", &ret, error,
			       sizeof(error)) < 0)
		fail_msg("%s", error);
	return ret;
}

static void with_budgets(struct scene *s, const char *text, enum judge_verdict verdict,
			 const char *reason)
{
	struct pattern_file *made = budgets(text);

	s->input.budgets = made;
	judged(s, verdict, reason);
	s->input.budgets = NULL;
	pattern_file_destroy(made);
}

static void test_budgets(void **state)
{
	static const char clean[] = "nothing leaked beyond the budgets";
	struct scene s;

	(void)state;
	scene(&s, 4);
	with_budgets(&s, "site:main 1KiB", JUDGE_CLEAN, clean);
	with_budgets(&s, "kind:device 1000", JUDGE_CLEAN, clean);
	with_budgets(&s, "kind:device 999", JUDGE_FAILED,
		     "kind:device (u:1): 1000 bytes in 10 blocks leaked, 999 bytes allowed, "
		     "1 byte over; most at std::vector<int, A>::grow (/src/app.c:40), "
		     "called from main");
	/* A pattern with blanks; and a leak in two rules counts in both. */
	with_budgets(&s, "site:^std::vector<int, A>::grow$ 400\nkind:device 1GiB", JUDGE_CLEAN,
		     clean);
	with_budgets(&s, "site:vector<int, A> 3 blocks\nkind:device 1GiB", JUDGE_FAILED,
		     "site:vector<int, A> (u:1): 4 blocks leaked, 3 allowed, 1 over; most at "
		     "std::vector<int, A>::grow (/src/app.c:40), called from main");
	with_budgets(&s, "device:1 1GiB", JUDGE_FAILED,
		     "10 blocks, 1000 bytes leaked beyond the budgets, 0 allowed");
	s.leaks[0].bytes = s.leaks[0].keeps_bytes = 0;
	s.report.summary.leaked_bytes = s.report.summary.keeps_bytes = 900;
	with_budgets(&s, "site:^load$ 0\nkind:device 1GiB", JUDGE_FAILED,
		     "site:^load$ (u:1): 0 bytes in 1 block leaked, 0 bytes allowed, 0 bytes over; "
		     "most at load (/src/app.c:10), called from main");
}

static void test_caches(void **state)
{
	struct scene s;

	(void)state;
	scene(&s, 0);
	s.leaks[0].cache = "PyTorch caching allocator";
	s.process[0].cached = s.leaks;
	s.process[0].cached_count = 1;
	s.report.summary.cached_bytes = 100;
	s.report.summary.cached_blocks = 1;
	with_budgets(&s, "cache:PyTorch 100", JUDGE_CLEAN,
		     "nothing leaked beyond the budgets; caches hold 100 bytes in 1 block, which "
		     "do not count (--gate-caches 1 counts them)");
	with_budgets(&s, "cache:PyTorch 99", JUDGE_FAILED,
		     "cache:PyTorch (u:1): 100 bytes in 1 block held, 99 bytes allowed, 1 byte "
		     "over; most at load (/src/app.c:10), called from main");
	with_budgets(&s, "cache:CuPy 0\nkind:device 0", JUDGE_CLEAN,
		     "nothing leaked beyond the budgets; caches hold 100 bytes in 1 block, which "
		     "do not count (--gate-caches 1 counts them)");
	s.input.count_caches = 1;
	with_budgets(&s, "cache:CuPy 0", JUDGE_FAILED,
		     "1 block, 100 bytes held by caches beyond the budgets, 0 allowed");
	with_budgets(&s, "cache:PyTorch 100", JUDGE_CLEAN,
		     "nothing leaked beyond the budgets");
	with_budgets(&s, "kind:device 99", JUDGE_FAILED,
		     "kind:device (u:1): 100 bytes in 1 block leaked, 99 bytes allowed, 1 byte "
		     "over; most at load (/src/app.c:10), called from main");
}

/* Objects are judged by budgets and on demand, never by the leaks' limit. */
static void test_objects(void **state)
{
	static const char clean[] = "nothing leaked beyond the budgets";
	struct pattern_file *none;
	char error[1024] = "";
	struct scene s;

	(void)state;
	scene(&s, 0);
	for (size_t i = 0; i < LEAKS; i++) {
		s.leaks[i].bytes = s.leaks[i].keeps_bytes = 0;
		s.sites[i].kind = i < 3 ? "object/stream" : "object/cl-queue";
	}
	s.leaks[2].pattern = "save";
	s.process[0].objects = s.leaks;
	s.process[0].object_count = LEAKS;
	judged(&s, JUDGE_CLEAN, "nothing leaked");
	with_budgets(&s, "object:stream 3\nobject:cl-queue 4", JUDGE_CLEAN, clean);
	with_budgets(&s, "object:stream 2", JUDGE_FAILED,
		     "object:stream (u:1): 3 streams not destroyed, 2 allowed, 1 over; most at "
		     "train (/src/app.c:20), called from main");
	with_budgets(&s, "object:cl-queue 0 blocks", JUDGE_FAILED,
		     "object:cl-queue (u:1): 4 OpenCL command queues not destroyed, 0 allowed, 4 "
		     "over; most at std::vector<int, A>::grow (/src/app.c:40), called from main");
	with_budgets(&s, "object:library 0\nkind:device 0", JUDGE_CLEAN, clean);
	s.input.count_objects = true;
	with_budgets(&s, "object:stream 3", JUDGE_FAILED,
		     "4 OpenCL command queues not destroyed, 0 allowed; most at "
		     "std::vector<int, A>::grow (/src/app.c:40), called from main");
	judged(&s, JUDGE_FAILED, "3 streams not destroyed, 0 allowed; most at train "
				 "(/src/app.c:20), called from main");
	s.report.count = 2;
	s.process[1].objects = s.leaks;
	s.process[1].object_count = 1;
	judged(&s, JUDGE_FAILED, "4 streams not destroyed, 0 allowed; most at train "
				 "(/src/app.c:20), called from main");
	assert_int_equal(pattern_file_parse(&budget_syntax, "object:stream 3KiB", 18, "u", &none,
					    error, sizeof(error)),
			 -EINVAL);
	assert_string_equal(error, "u:1: objects have no bytes: a budget for them ends with a "
				   "number");
	assert_int_equal(pattern_file_parse(&budget_syntax, "object:device 3", 15, "u", &none,
					    error, sizeof(error)),
			 -EINVAL);
	assert_non_null(strstr(error, "'device' is not a kind of object; known are context, "));
}

static void test_policy(void **state)
{
	static const char text[] = "site:^load$\nkind:pinned\n";
	struct report_site_sums sites[2];
	struct pattern_file *policy;
	char error[64];
	struct scene s;

	(void)state;
	scene(&s, 0);
	assert_int_equal(pattern_file_parse(&only_at_syntax, text, sizeof(text) - 1, "p", &policy,
					    error, sizeof(error)),
			 0);
	for (int i = 0; i < 2; i++)
		sites[i] = (struct report_site_sums){ .site = &s.sites[i],
			.allocated_bytes = 64, .allocated_blocks = 1 };
	s.process[0].sites = sites;
	s.process[0].site_count = 2;
	s.input.only_at = policy;
	judged(&s, JUDGE_FAILED, "process 1 (app) allocated 64 bytes in 1 block (device memory, "
	       "cuMemAlloc_v2) at train (/src/app.c:20), called from main, which no rule in p "
	       "allows");
	s.sites[1].kind = "pinned";
	judged(&s, JUDGE_CLEAN, "nothing leaked");
	s.sites[1].kind = "device";
	s.stacks[1].count = 0;
	judged(&s, JUDGE_FAILED, "process 1 (app) allocated 64 bytes in 1 block (device memory, "
	       "cuMemAlloc_v2) at an unknown place, which no rule in p allows");
	pattern_file_destroy(policy);
}

/* Processes I of NUMBERS are ranks of those numbers, with BYTES[I] at the same place. */
static void job(struct scene *s, const int *numbers, const uint64_t *bytes, size_t count)
{
	static struct report_leak leaks[PROCESSES];

	scene(s, 0)->report.count = count;
	for (size_t i = 0; i < count; i++) {
		leaks[i] = s->leaks[0];
		leaks[i].bytes = bytes[i];
		s->process[i].ranked = numbers[i] >= 0;
		s->process[i].rank = numbers[i];
		s->process[i].leaks = &leaks[i];
		s->process[i].leak_count = bytes[i] != 0;
	}
}

static void odd(const struct scene *s, const char *first, size_t count, size_t leaking)
{
	struct ranks ranks = ranks_find(&s->report);

	assert_int_equal(ranks.odd_count, count);
	if (count)
		assert_string_equal(ranks.odd[0], first);
	assert_int_equal(ranks.leaking, leaking);
	ranks_finish(&ranks);
}

static void test_ranks(void **state)
{
	static const int numbers[] = { 4, 0, 2, 1, 3 }; /* in no order */
	static const int twice[] = { 0, 1, 2, 2, -1 };  /* rank 2 has a worker; one has no rank */
	struct scene s;

	(void)state;
	job(&s, numbers, (uint64_t[]){ 8, 8, 8, 8, 8 }, 5);
	odd(&s, NULL, 0, 5);
	job(&s, numbers, (uint64_t[]){ 8, 8, 9, 8, 8 }, 5);
	odd(&s, "rank 2 leaks 1 byte more than the 8 bytes of the others at load (/src/app.c:10), "
	    "called from main", 1, 5);
	job(&s, numbers, (uint64_t[]){ 8, 8, 0, 8, 8 }, 5);
	odd(&s, "rank 2 does not leak the 8 bytes that 4 of 5 ranks leak at load (/src/app.c:10), "
	    "called from main", 1, 4);
	job(&s, numbers, (uint64_t[]){ 8, 0, 0, 0, 1 }, 5);
	odd(&s, "only ranks 3 and 4 leak 9 bytes at load (/src/app.c:10), called from main", 1, 2);
	job(&s, numbers, (uint64_t[]){ 1, 2, 3, 4, 5 }, 5); /* nobody is as the others */
	odd(&s, NULL, 0, 5);
	job(&s, numbers, (uint64_t[]){ 8, 0, 8, 0 }, 4); /* half and half */
	odd(&s, NULL, 0, 2);
	job(&s, twice, (uint64_t[]){ 8, 8, 4, 4, 99 }, 5);
	odd(&s, NULL, 0, 3);
	job(&s, numbers, (uint64_t[]){ 0, 0, 0, 0, 0 }, 5);
	s.process[3].ended = REPORT_SIGNAL;
	s.process[3].status = 9;
	odd(&s, "rank 1 was killed by signal 9 (SIGKILL)", 1, 0);
	for (int i = 0; i < 5; i++)
		s.process[i].ended = REPORT_UNKNOWN; /* all of them: nobody is odd */
	odd(&s, NULL, 0, 0);
	job(&s, (const int[]){ -1, -1 }, (uint64_t[]){ 8, 8 }, 2);
	odd(&s, NULL, 0, 0);
}

static void test_generated(void **state)
{
	struct pattern_file *made;
	struct scene s;
	char *text = NULL, error[256];
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	scene(&s, 4);
	s.frames[0][0].function = "odd\nname * ^$";
	s.frames[1][0].function = NULL;
	s.frames[1][0].file = "/src/only here.c";
	assert_int_equal(gen_suppressions(&s.report, out, false), 0);
	fclose(out);
	assert_int_equal(pattern_file_parse(&suppression_syntax, text, length, "g", &made, error,
					    sizeof(error)),
			 0);
	assert_int_equal(suppressions_size(made), 4);
	for (size_t i = 0; i < 4; i++) { /* the largest first; each matches its leak alone */
		int by = suppressions_match(made, s.stacks[i].frames, 2);

		assert_int_equal(by, 3 - (int)i);
	}
	pattern_file_destroy(made);
	free(text);
}

/* What gen_suppressions() writes for one leak with COUNT FRAMES, without its comment. */
static void generated_for(const struct report_frame *frames, size_t count, char ret[64])
{
	const struct report_stack stack = { .frames = frames, .count = count };
	struct scene s;
	char *text = NULL, *line;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	scene(&s, 1);
	s.sites[0].stack = &stack;
	assert_int_equal(gen_suppressions(&s.report, out, false), 0);
	fclose(out);
	line = strstr(text, "\nleak:");
	ret[0] = '\0';
	if (line)
		sscanf(line, " %63s", ret);
	free(text);
}

#define RUNTIME(name) { .function = name, .module = "/lib/libc.so.6", .role = FRAME_RUNTIME }

/* No line names a frame that is not the application's, and none goes by a module alone. */
static void test_generated_without_names(void **state)
{
	struct report_frame frames[] = {
		{ .module = "/opt/app", .build_id = "aa01", .offset = 0x10 },
		{ .function = "main", .module = "/opt/app", .build_id = "aa01" },
		RUNTIME("__libc_start_call_main"),
		{ .function = "_start", .module = "/opt/app", .role = FRAME_RUNTIME },
	};
	const struct report_frame runtime[] = { RUNTIME("start_thread"), RUNTIME("clone3") };
	const struct report_frame jitted[] = { { .offset = 0x7f00 }, RUNTIME("start_thread") };
	const struct report_frame python[] = {
		{ .function = "PyObject_Call", .role = FRAME_INTERPRETER },
		{ .function = "<module>", .file = "/src/run.py", .language = FRAME_PYTHON },
	};
	const struct report_frame framework[] = {
		{ .function = "c10::alloc", .module = "libc10.so", .role = FRAME_FRAMEWORK },
		RUNTIME("start_thread"),
	};
	char first[64], second[64];

	(void)state;
	generated_for(frames, 4, first);
	assert_memory_equal(first, "leak:stack:", 11);
	/* Another C library, and another directory, are the same stack. */
	frames[2].function = "__libc_start_main";
	frames[0].module = "/usr/bin/app";
	generated_for(frames, 4, second);
	assert_string_equal(first, second);
	frames[0].offset++;
	generated_for(frames, 4, second);
	assert_string_not_equal(first, second);
	frames[0].offset--;
	frames[0].build_id = "aa02";
	generated_for(frames, 4, second);
	assert_string_not_equal(first, second);
	generated_for(runtime, 2, first);
	assert_string_equal(first, "");
	generated_for(jitted, 2, first);
	assert_string_equal(first, "");
	generated_for(python, 2, first);
	assert_memory_equal(first, "leak:stack:", 11);
	generated_for(framework, 2, first);
	assert_memory_equal(first, "leak:stack:", 11);
}

static void test_read_json(void **state)
{
	static const char text[] =
		"{\"schema\": \"gpuleak-report/1\", \"process\": {\"pid\": 3,"
		" \"exe\": \"/bin/app\"}, \"summary\": {\"errors\": 2}, \"leaks\": ["
		"{\"api\": \"cuMemAlloc_v2\", \"kind\":"
		" \"device\", \"bytes\": 100, \"blocks\": 1, \"stack\": [{\"function\": \"load\","
		" \"file\": \"/src/app.c\", \"line\": 3}, {\"function\": \"main\", \"file\":"
		" \"/src/app.c\"}]}]}";
	struct report report = { 0 };
	struct scene s;
	char error[128];

	(void)state;
	assert_int_equal(report_parse_json(text, sizeof(text) - 1, "j", &report, error,
					   sizeof(error)), 0);
	assert_int_equal(report.count, 1);
	assert_int_equal(report.summary.errors, 2);
	assert_int_equal(report.summary.leaked_bytes, 100);
	scene(&s, 1);
	assert_true(report_site_fingerprint(report.processes[0]->leaks[0].site) ==
		    report_site_fingerprint(s.leaks[0].site));
	report_finish(&report);
	/* Every cut is refused or read, and leaves nothing behind. */
	for (size_t cut = 0; cut < sizeof(text) - 1; cut++) {
		assert_true(report_parse_json(text, cut, "j", &report, error, sizeof(error)) < 0);
		report_finish(&report);
	}
}

/* A report on a ledger with these facts: as the writer makes them, and as nobody does. */
static struct report_process *with_facts(const struct ledger_observation *facts,
					 const char *const *texts, size_t count,
					 struct symbolizer **symbolizer)
{
	struct report_process *process;
	struct ledger_builder builder;
	struct loaded_ledger ledger;
	char error[256];

	builder_init(&builder);
	for (size_t i = 0; i < count; i++)
		builder_fact(&builder, texts[2 * i], texts[2 * i + 1], "RANK", NULL,
			     facts[i].count);
	assert_int_equal(loaded_ledger_copy(builder.bytes, builder.size, "t", &ledger, error,
					    sizeof(error)), 0);
	ledger.program_suppressions = 1;
	*symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	process = report_process_build(&ledger, *symbolizer, NULL);
	loaded_ledger_finish(&ledger);
	builder_finish(&builder);
	return process;
}

static void test_facts_of_the_program(void **state)
{
	static const char *const texts[] = {
		LEDGER_OBSERVED_RANK, "3",
		LEDGER_OBSERVED_LSAN, "two\nleak:b\n",
		LEDGER_OBSERVED_LSAN, "leak:a\nleak:",
	};
	static const char *const lies[] = {
		LEDGER_OBSERVED_RANK, "99999999999999999999",
		LEDGER_OBSERVED_RANK, "-1",
		LEDGER_OBSERVED_RANK, "",
		LEDGER_OBSERVED_LSAN, "leak:x",
		LEDGER_OBSERVED_LSAN, "leak:y",
	};
	const struct ledger_observation facts[] = { { .count = 8 },
						    { .count = 2 },
						    { .count = 1 } };
	const struct ledger_observation lying[] = {
		{ .count = 0 }, { .count = 8 }, { .count = 8 }, { .count = 0 }, { .count = 17 }
	};
	struct report_process *process;
	struct symbolizer *symbolizer;

	(void)state;
	process = with_facts(facts, texts, 3, &symbolizer);
	assert_true(process->ranked && process->rank == 3 && process->ranks == 8);
	assert_string_equal(process->rank_variable, "RANK");
	/* In the order of their numbers, a line across two of them. */
	assert_int_equal(suppressions_size(process->program_suppressions), 3);
	assert_string_equal(process->program_suppressions->rules[1].pattern.text, "two");
	assert_int_equal(process->note_count, 0);
	report_process_destroy(process);
	symbolizer_destroy(symbolizer);
	process = with_facts(lying, lies, 5, &symbolizer);
	assert_int_equal(process->ranked, 0);
	assert_null(process->program_suppressions);
	assert_int_equal(process->incomplete, 0);
	report_process_destroy(process);
	symbolizer_destroy(symbolizer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_baseline_survives),
		cmocka_unit_test(test_baseline_sums),
		cmocka_unit_test(test_baseline_of_rust),
		cmocka_unit_test(test_keeps),
		cmocka_unit_test(test_baseline_text),
		cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_caches),
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_generated),
		cmocka_unit_test(test_generated_without_names),
		cmocka_unit_test(test_read_json),
		cmocka_unit_test(test_facts_of_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
