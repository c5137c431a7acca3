/* SPDX-License-Identifier: MIT
 *
 * The words of the text report for peaks and for those who held the memory.
 * Links: test_peak_text.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/subjects/held.h"
#include "report/subjects/subject_words.h"
#include "report/subjects/subject.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"

#define MIB ((uint64_t)1 << 20)
#define CACHE "PyTorch caching allocator"
#define HOLDERS 12

/* Holders that are called a, b, c ... The first one has 12 MiB, the last one 1 MiB. */
struct scene {
	char names[HOLDERS][2], modules[HOLDERS][8];
	struct report_frame frames[HOLDERS];
	struct report_stack stacks[HOLDERS];
	struct report_site sites[HOLDERS];
	struct report_leak list[HOLDERS];
	struct report_peak peaks[2];
	struct report_process process;
};

static void begin(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < HOLDERS; i++) {
		s->names[i][0] = (char)('a' + i);
		snprintf(s->modules[i], sizeof(s->modules[i]), "/lib%c", (char)('a' + i));
		s->frames[i] = (struct report_frame){
			.function = s->names[i], .file = "/x.c", .line = 1,
			.module = s->modules[i],
		};
		s->stacks[i] = (struct report_stack){ .frames = &s->frames[i], .count = 1 };
		s->sites[i] = (struct report_site){ "cuMemAlloc_v2", "device", 0, &s->stacks[i],
						    0 };
		s->list[i] = (struct report_leak){
			.site = &s->sites[i],
			.bytes = (HOLDERS - i) * MIB, .blocks = 1,
		};
	}
	s->peaks[0] = (struct report_peak){
		.memory = LEDGER_MEMORY_DEVICE, .bytes = 90 * MIB,
		.held = { .list = s->list, .count = HOLDERS, .other_bytes = 12 * MIB },
	};
	s->process.peaks = s->peaks;
	s->process.peak_count = 1;
	s->process.summary.peak_bytes = 91 * MIB;
}

struct printed {
	char *text;
	size_t length;
	FILE *out;
};

static FILE *open_printed(struct printed *printed)
{
	*printed = (struct printed){ 0 };
	printed->out = open_memstream(&printed->text, &printed->length);
	assert_non_null(printed->out);
	return printed->out;
}

static void expect(struct printed *printed, const char *wanted)
{
	fclose(printed->out);
	assert_string_equal(printed->text, wanted);
	free(printed->text);
}

/* Checks that the text has WANTED, or does not have it. */
static void expect_part(struct printed *printed, const char *wanted, bool is_there)
{
	fclose(printed->out);
	if ((strstr(printed->text, wanted) != NULL) != is_there)
		fail_msg("%s\nhas%s: %s", printed->text, is_there ? " not" : "", wanted);
	free(printed->text);
}

/* ---- names of memories ---- */

static void memories(void **state)
{
	static const struct {
		struct report_peak peak;
		const char *words;
	} cases[] = {
		{ { .memory = LEDGER_MEMORY_DEVICE, .device = 3 }, "device 3" },
		{ { .memory = LEDGER_MEMORY_DEVICE, .device = -1 }, "an unknown device" },
		{ { .memory = LEDGER_MEMORY_HOST, .device = -1 }, "host memory" },
		{ { .memory = LEDGER_MEMORY_OPENCL, .device = 1 }, "OpenCL device 1" },
		{ { .memory = LEDGER_MEMORY_OPENCL, .device = -1 }, "OpenCL memory" },
	};
	struct printed printed;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		describe_peak_memory(open_printed(&printed), &cases[i].peak);
		expect(&printed, cases[i].words);
	}
}

/* ---- the first line of a report ---- */

static void expect_first(const struct scene *s, const char *wanted)
{
	struct printed printed;

	describe_peak(open_printed(&printed), &s->process, false);
	expect(&printed, wanted);
}

static void first_line(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	/* the peak of all memory is exact, that of a memory was noted a little earlier */
	expect_first(&s, "peak 91.0 MiB, of which 12.0 MiB by a (/x.c:1)");
	s.process.peak_count = 2;
	expect_first(&s, "peak 90.0 MiB of device 0, of which 12.0 MiB by a (/x.c:1)");
	s.process.peak_count = 1;
	s.list[0].bytes = 91 * MIB;
	expect_first(&s, "peak 91.0 MiB, all of it by a (/x.c:1)");
	s.peaks[0].held.count = 0;
	expect_first(&s, "peak 91.0 MiB");
}

static void unused_part(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	s.peaks[0].held.divided = true;
	s.list[0].cache = s.list[1].cache = CACHE;
	s.sites[1].kind = LEDGER_KIND_SUBALLOCATION;
	expect_first(&s, "peak 91.0 MiB, of which 12.0 MiB unused in the " CACHE);
	s.list[1].cache = "another cache"; /* then nothing divides the block */
	expect_first(&s, "peak 91.0 MiB, of which 12.0 MiB by the " CACHE ", at a (/x.c:1)");
}

/* ---- one line for each peak ---- */

static void print_peaks(struct printed *printed, const struct scene *s, bool verbose)
{
	subject_peak.details(open_printed(printed), &(struct subject_view){ .process = &s->process,
									   .is_wrong = true,
									   .verbose = verbose });
}

static void line(void **state)
{
	struct printed printed;
	struct scene s;

	(void)state;
	begin(&s);
	s.peaks[0].held.count = 5;
	print_peaks(&printed, &s, false);
	expect(&printed, "\nPeak: 90.0 MiB of device 0: 12.0 MiB a (/x.c:1), 11.0 MiB b (/x.c:1), "
			 "10.0 MiB c (/x.c:1), 29.0 MiB other places\n");
	s.peaks[0].held.count = 2;
	s.peaks[0].held.other_bytes = 0;
	print_peaks(&printed, &s, false);
	expect(&printed, "\nPeak: 90.0 MiB of device 0: 12.0 MiB a (/x.c:1), "
			 "11.0 MiB b (/x.c:1)\n");
}

/* ---- tables ---- */

static void exactness(void **state)
{
	struct printed printed;
	struct scene s;

	(void)state;
	begin(&s);
	print_peaks(&printed, &s, true);
	expect_part(&printed, "exact to", false);
	s.peaks[0].error_bytes = 2 * MIB;
	print_peaks(&printed, &s, true);
	expect_part(&printed, ", exact to 2.0 MiB, held by:\n", true);
}

static void expect_table(const struct scene *s, bool verbose, const char *part, bool is_there)
{
	struct printed printed;

	describe_holders(open_printed(&printed), &s->peaks[0].held, verbose);
	expect_part(&printed, part, is_there);
}

static void ten_holders(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	s.peaks[0].held.other_bytes = 0;
	expect_table(&s, false, "       3.0 MiB  in 1 block", true);
	expect_table(&s, false, "       2.0 MiB  in 1 block", false);
	expect_table(&s, false,
		     "  and at 2 smaller places: 3,145,728 bytes (3.0 MiB) in 2 blocks\n", true);
	expect_table(&s, true, "       1.0 MiB  in 1 block", true);
	expect_table(&s, true, "smaller place", false);
	s.peaks[0].held.other_sites = 1;
	s.peaks[0].held.other_blocks = 5;
	s.peaks[0].held.other_bytes = MIB;
	expect_table(&s, true, "  and at 1 smaller place: 1,048,576 bytes (1.0 MiB) in 5 blocks\n",
		     true);
}

static void units(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	s.sites[0].kind = LEDGER_KIND_SUBALLOCATION;
	s.list[0].cache = CACHE;
	s.list[0].blocks = 7;
	expect_table(&s, false, "      12.0 MiB  in 7 tensors of the " CACHE, true);
	s.list[0].cache = NULL;
	expect_table(&s, false, "      12.0 MiB  in 7 blocks", true);
}

/* Returns what HELD_BY_PLACE has of the name that begins with START. */
static uint64_t bytes_of(const struct scene *s, const char *start)
{
	struct held_list held = held_sum_up(&s->peaks[0].held, HELD_BY_PLACE, false);
	uint64_t bytes = 0;

	for (size_t i = 0; i < held.count; i++)
		if (strncmp(held.list[i].name, start, strlen(start)) == 0)
			bytes += held.list[i].bytes;
	held_finish(&held);
	return bytes;
}

static void parameters(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	s.frames[1].function = "a()";
	s.frames[2].function = "a(int, char (*) [3])";
	s.frames[3].function = "a(int)";
	s.frames[3].line = 2;
	s.frames[4].function = "ab()";
	s.frames[5].function = "(lambda)()";
	assert_int_equal(bytes_of(&s, "a (/x.c:1)"), (12 + 11 + 10) * MIB);
	assert_int_equal(bytes_of(&s, "a(int) (/x.c:2)"), 9 * MIB);
	assert_int_equal(bytes_of(&s, "ab() (/x.c:1)"), 8 * MIB);
	assert_int_equal(bytes_of(&s, "(lambda)() (/x.c:1)"), 7 * MIB);
}

static void sums(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	expect_table(&s, false, "  By library: 12.0 MiB liba, 11.0 MiB libb, 10.0 MiB libc, "
				"9.0 MiB libd, and 8 more\n", true);
	expect_table(&s, false, "By cache", false);
	s.list[1].cache = s.list[2].cache = CACHE;
	expect_table(&s, false, "  By cache: 21.0 MiB " CACHE "\n", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memories), cmocka_unit_test(first_line),
		cmocka_unit_test(unused_part), cmocka_unit_test(line),
		cmocka_unit_test(exactness), cmocka_unit_test(ten_holders),
		cmocka_unit_test(units), cmocka_unit_test(parameters),
		cmocka_unit_test(sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
