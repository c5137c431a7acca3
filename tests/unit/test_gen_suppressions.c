/* SPDX-License-Identifier: MIT
 *
 * The suppressions that gpuleak proposes: which leaks a line hides besides its own, and that the
 * work grows with the frames of all leaks and not with their square. The linker leads calls of the
 * functions that compare a pattern with a name, and that read a whole stack, to this file.
 * Links: test_gen_suppressions.c, report_dep with --wrap, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/subjects/formats.h"
#include "report/model/model.h"
#include "report/symbols/fingerprint.h"
#include "report/util/wildcard.h"

#define LEAKS 500
#define FRAMES 40

bool __real_wildcard_matches(const struct wildcard *wildcard, const char *text);
bool __wrap_wildcard_matches(const struct wildcard *wildcard, const char *text);
int __real_report_stack_fingerprint(const struct report_frame *frames, size_t count, uint64_t *ret);
int __wrap_report_stack_fingerprint(const struct report_frame *frames, size_t count, uint64_t *ret);

static size_t matched, fingerprinted;

bool __wrap_wildcard_matches(const struct wildcard *wildcard, const char *text)
{
	matched++;
	return __real_wildcard_matches(wildcard, text);
}

int __wrap_report_stack_fingerprint(const struct report_frame *frames, size_t count, uint64_t *ret)
{
	fingerprinted++;
	return __real_report_stack_fingerprint(frames, count, ret);
}

static struct report_frame frames[LEAKS][FRAMES];
static struct report_stack stacks[LEAKS];
static struct report_site sites[LEAKS];
static struct report_leak leaks[LEAKS];
static char names[LEAKS][32];
static struct report_process process = { .leaks = leaks };
static struct report_process *processes[] = { &process };

/* Makes COUNT leaks, the largest first. Their frames have offsets and no names. */
static void begin(size_t count)
{
	matched = fingerprinted = 0;
	process.leak_count = count;
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < FRAMES; j++)
			frames[i][j] = (struct report_frame){ .module = "/bin/app",
							      .offset = j ? j : 1000 + i };
		stacks[i] = (struct report_stack){ .frames = frames[i], .count = FRAMES };
		sites[i] = (struct report_site){ "cuMemAlloc_v2", "device", 0, &stacks[i], 0 };
		leaks[i] = (struct report_leak){ .site = &sites[i], .bytes = 8 * (count - i),
						 .blocks = 1 };
	}
}

/* Returns the text, which the caller frees. */
static char *generated(void)
{
	const struct report report = { .processes = processes, .count = 1 };
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_int_equal(gen_suppressions(&report, out, false), 0);
	fclose(out);
	return text;
}

static size_t count_of(const char *text, const char *part)
{
	size_t count = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		count++;
	return count;
}

static void no_names(void **state)
{
	char *text;

	(void)state;
	begin(LEAKS);
	text = generated();
	assert_int_equal(count_of(text, "\nleak:stack:"), LEAKS);
	assert_int_equal(count_of(text, "also suppresses"), 0);
	assert_int_equal(fingerprinted, LEAKS);
	assert_int_equal(matched, 0);
	free(text);
}

/* Each function of each leak is one of another leak, too. */
static void shared_names(void **state)
{
	char *text;

	(void)state;
	begin(LEAKS);
	for (size_t i = 0; i < LEAKS; i++) {
		sprintf(names[i], "f%zu", i);
		for (size_t j = 0; j < FRAMES; j++)
			frames[i][j].function = names[(i + j) % LEAKS];
	}
	text = generated();
	assert_int_equal(count_of(text, "\nleak:^f"), LEAKS);
	assert_int_equal(count_of(text, "; also suppresses 39 other leaks\nleak:^f"), LEAKS);
	assert_int_equal(matched, 0);
	assert_true(fingerprinted <= LEAKS);
	free(text);
}

/* A star in a name is one in the pattern: the pattern may match other names, too. Each pattern is
 * compared with each name once. */
static void stars_in_names(void **state)
{
	char *text;

	(void)state;
	begin(4);
	frames[0][0].function = "put(int*)";
	frames[1][0].function = "put(int&)";
	frames[2][0].function = "put(int**)";
	frames[3][0].function = "put(char*)";
	text = generated();
	/* "^put(int*)$" matches the first three. */
	assert_non_null(strstr(text, "; also suppresses 2 other leaks\nleak:^put(int*)$\n"));
	assert_non_null(strstr(text, "\nleak:^put(int&)$\n"));
	assert_non_null(strstr(text, "; also suppresses 2 other leaks\nleak:^put(int**)$\n"));
	assert_non_null(strstr(text, "\nleak:^put(char*)$\n"));
	assert_int_equal(count_of(text, "also suppresses"), 2);
	assert_int_equal(matched, 3 * 5); /* four functions and a module */
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_names), cmocka_unit_test(shared_names),
		cmocka_unit_test(stars_in_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
