/* SPDX-License-Identifier: MIT
 *
 * Suppressions: what matches (LeakSanitizer's rules), what is refused and where, what is
 * counted, and that hostile patterns cost no more than their length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "report/symbols/frame.h"
#include "report/util/lines.h"
#include "report/suppress/suppress.h"
#include "report/util/wildcard.h"

static struct pattern_file *parse(const char *text)
{
	struct pattern_file *s = NULL;
	char error[256] = "";

	assert_int_equal(pattern_file_parse(&suppression_syntax, text, strlen(text), "t.supp", &s,
					    error, sizeof(error)),
			 0);
	assert_string_equal(error, "");
	return s;
}

static void refused(const char *text, size_t length, const char *expected)
{
	struct pattern_file *s = NULL;
	char error[256] = "";

	assert_true(pattern_file_parse(&suppression_syntax, text, length, "t.supp", &s, error,
				       sizeof(error)) < 0);
	assert_null(s);
	assert_string_equal(error, expected);
}

static int matches(const char *pattern, const char *function)
{
	const struct report_frame frame = { .function = function };
	char text[512];
	struct pattern_file *s;
	int index;

	snprintf(text, sizeof(text), "leak:%s\n", pattern);
	s = parse(text);
	index = suppressions_match(s, &frame, 1);
	pattern_file_destroy(s);
	return index == 0;
}

static void test_patterns(void **state)
{
	static const struct { const char *pattern, *text; int expected; } rows[] = {
		{ "alloc", "my_alloc_buffer", 1 },
		{ "alloc", "my_free", 0 },
		{ "*", "x", 1 },
		{ "^my_", "my_alloc", 1 },
		{ "^alloc", "my_alloc", 0 },
		{ "alloc$", "my_alloc", 1 },
		{ "alloc$", "my_alloc_2", 0 },
		{ "^alloc$", "alloc", 1 },
		{ "^alloc$", "alloc2", 0 },
		{ "^alloc$", "allocalloc", 0 },
		{ "a*c", "xxabbbcxx", 1 },
		{ "a*c", "c then a", 0 },
		{ "^a*c$", "abbbc", 1 },
		{ "^a*c$", "abbbcd", 0 },
		{ "^a*a$", "a", 0 },
		{ "^a*a$", "aa", 1 },
		{ "^*foo", "a foo", 1 },
		{ "foo*$", "a foo b", 1 },
		{ "*foo*", "foo", 1 },
		{ "foo**bar", "foobar", 1 },
		{ "foo$", "foofoo", 1 },
		{ "b$r", "foob$r", 1 },
		{ "b^r", "foob^r", 1 },
		{ "libcublas.so*$", "/usr/lib/libcublas.so.12", 1 },
		{ "a*b*c$", "a b c b", 0 },
		{ "a*b*c$", "a b c b c", 1 },
		{ "operator new(unsigned long)", "operator new(unsigned long)", 1 },
		{ "*", "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (matches(rows[i].pattern, rows[i].text) != rows[i].expected)
			fail_msg("leak:%s on \"%s\" is not %d", rows[i].pattern, rows[i].text,
				 rows[i].expected);
	assert_int_equal(matches("*", NULL), 0);
}

static void test_every_frame_and_field(void **state)
{
	const struct report_frame frames[] = {
		{ .function = "cuMemAlloc_v2", .module = "/usr/lib/libcuda.so.1" },
		{ .function = NULL, .module = "/opt/plugin.so" },
		{ .function = "main", .file = "/src/app.c", .module = "/bin/app" },
	};
	struct pattern_file *s = parse("leak:nothing\nleak:app.c$\nleak:plugin\nleak:^main$\n");

	(void)state;
	assert_int_equal(suppressions_match(s, frames, 3), 1);
	assert_int_equal(suppressions_match(s, frames, 2), 2);
	assert_int_equal(suppressions_match(s, frames, 1), -1);
	assert_int_equal(suppressions_match(s, frames, 0), -1);
	assert_int_equal(suppressions_match(NULL, frames, 3), -1);
	pattern_file_destroy(s);
}

static void test_rust(void **state)
{
	const struct report_frame frame = { .function = "app::step",
					    .old_function = "app::step::h0123456789abcdef" };
	struct pattern_file *s = parse("leak:^app::step$\nleak:^app::step::h0123456789abcdef$\n");

	(void)state;
	assert_int_equal(suppressions_match(s, &frame, 1), 0);
	pattern_file_destroy(s);
	s = parse("leak:^app::step::h0123456789abcdef$\n");
	assert_int_equal(suppressions_match(s, &frame, 1), 0);
	pattern_file_destroy(s);
}

static void test_lines(void **state)
{
	struct pattern_file *s = parse("\xef\xbb\xbf# comment\r\n\r\n  leak:one\t\r\n"
				       "\t# leak:no\n\n   \nleak: two words \nleak:#3");

	(void)state;
	assert_int_equal(suppressions_size(s), 3);
	assert_string_equal(s->rules[0].pattern.text, "one");
	assert_int_equal(s->rules[0].line, 3);
	assert_string_equal(s->rules[1].pattern.text, "two words");
	assert_int_equal(s->rules[1].line, 7);
	assert_string_equal(s->rules[2].pattern.text, "#3");
	pattern_file_destroy(s);
	s = parse("");
	assert_int_equal(suppressions_size(s), 0);
	pattern_file_destroy(s);
	pattern_file_destroy(NULL);
}

static void test_errors(void **state)
{
#define REFUSED(text, what) refused(text, sizeof(text) - 1, what)
	(void)state;
	REFUSED("leak:a\nrace:b\n", "t.supp:2: unknown type 'race'; accepted is leak:PATTERN");
	REFUSED("# x\n\nhello", "t.supp:3: cannot read 'hello'; accepted is leak:PATTERN");
	REFUSED("Leak:x", "t.supp:1: unknown type 'Leak'; accepted is leak:PATTERN");
	REFUSED("leak:\n",
		"t.supp:1: the pattern is empty; write leak:PATTERN (leak:* matches each leak)");
	REFUSED("leak:^$\n",
		"t.supp:1: the pattern is empty; write leak:PATTERN (leak:* matches each leak)");
	REFUSED("leak:a\0b\n", "t.supp:1: a NUL byte: this is not a suppression file");
	REFUSED("\x7f\x01: \n", "t.supp:1: unknown type '..'; accepted is leak:PATTERN");
#undef REFUSED
}

static void test_limits(void **state)
{
	size_t length = LINES_BYTES_MAX + 1;
	char *text = malloc(length);

	(void)state;
	assert_non_null(text);
	memset(text, 'a', length);
	refused(text, length, "t.supp: larger than 8 MiB: this is not a suppression file");
	memcpy(text, "leak:", 5);
	refused(text, 5 + WILDCARD_BYTES_MAX + 1,
		"t.supp:1: the pattern is longer than 4096 bytes");
	for (size_t i = 0; i <= SUPPRESSIONS_MAX; i++)
		memcpy(text + i * 7, "leak:a\n", 7);
	refused(text, (SUPPRESSIONS_MAX + 1) * 7, "t.supp:65537: more than 65536 suppressions");
	free(text);
}

static void test_count(void **state)
{
	struct pattern_file *s = parse("leak:a\nleak:b\n");

	(void)state;
	suppressions_count(s, 1, 3, 4096);
	suppressions_count(s, 1, 1, 1);
	suppressions_count(s, -1, 1, 1);
	suppressions_count(s, 2, 1, 1);
	assert_int_equal(s->rules[0].matched, 0);
	assert_int_equal(s->rules[1].matched, 1);
	assert_int_equal(s->rules[1].blocks, 4);
	assert_int_equal(s->rules[1].bytes, 4097);
	pattern_file_destroy(s);
}

static void test_load(void **state)
{
	static const char text[] = "leak:x\nthread:y\n";
	char path[] = "test_suppress.XXXXXX", error[256], expected[256];
	struct pattern_file *s = NULL;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, 7), 7);
	assert_int_equal(pattern_file_parse(&suppression_syntax, NULL, 0, path, &s, error,
					    sizeof(error)),
			 0);
	assert_int_equal(suppressions_size(s), 1);
	pattern_file_destroy(s);
	assert_int_equal(write(fd, text + 7, sizeof(text) - 8), sizeof(text) - 8);
	close(fd);
	assert_true(pattern_file_parse(&suppression_syntax, NULL, 0, path, &s, error,
				       sizeof(error)) < 0);
	snprintf(expected, sizeof(expected),
		 "%s:2: unknown type 'thread'; accepted is leak:PATTERN", path);
	assert_string_equal(error, expected);
	unlink(path);
	assert_true(pattern_file_parse(&suppression_syntax, NULL, 0, "no/such/file", &s, error,
				       sizeof(error)) < 0);
	assert_string_equal(error,
			    "no/such/file: cannot read suppressions: No such file or directory");
	assert_true(pattern_file_parse(&suppression_syntax, NULL, 0, ".", &s, error,
				       sizeof(error)) < 0);
	assert_string_equal(error, ".: cannot read suppressions: Is a directory");
}

/* a*a*a*...b against aaaa...: a matcher that goes back would take years. */
static void test_hostile(void **state)
{
	enum { STARS = WILDCARD_BYTES_MAX / 2 - 1, LONG = 1 << 20 };
	char *text = malloc(LONG + 1), *line = malloc(WILDCARD_BYTES_MAX + 16);
	const struct report_frame frame = { .function = text };
	struct pattern_file *s;

	(void)state;
	assert_non_null(text);
	assert_non_null(line);
	memset(text, 'a', LONG);
	text[LONG] = '\0';
	strcpy(line, "leak:");
	for (int i = 0; i < STARS; i++)
		memcpy(line + 5 + i * 2, "a*", 2);
	strcpy(line + 5 + STARS * 2, "b");
	s = parse(line);
	/* A matcher that backtracks would not come back before the test's time is over. */
	assert_int_equal(suppressions_match(s, &frame, 1), -1);
	pattern_file_destroy(s);
	free(text);
	free(line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_every_frame_and_field),
		cmocka_unit_test(test_rust),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
