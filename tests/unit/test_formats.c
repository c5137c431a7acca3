/* SPDX-License-Identifier: MIT
 *
 * What the formats share: fingerprints, paths below the source tree, text in XML.
 * Links: test_formats.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/symbols/source.h"
#include "report/util/text_buffer.h"
#include "report/util/xml.h"

static uint64_t of(const struct report_frame *frames, size_t count)
{
	const struct report_stack stack = { frames, count, 0 };

	return report_fingerprint("cuMemAlloc_v2", "device", &stack);
}

static void test_known(void **state)
{
	const struct report_frame frames[] = {
		{ .function = "main", .file = "/a/b.c", .line = 3 },
	};
	char text[FINGERPRINT_TEXT];

	(void)state;
	/* Computed by other means: FNV-1a of "cuMemAlloc_v2\0" "device\0" and, as eight bytes from
	 * the lowest on, of the frame's own hash, FNV-1a of "main\0" "b.c\0". */
	assert_string_equal(report_fingerprint_text(of(frames, 1), false, text),
			    "7f4b0e82444dd07c");
	assert_string_equal(report_fingerprint_text(1, false, text), "0000000000000001");
	assert_string_equal(report_fingerprint_text(1, true, text), "0000000000000001-partial");
}

static void test_survives(void **state)
{
	const struct report_frame before[] = {
		{ .function = "make", .file = "/home/a/x.cpp", .module = "/home/a/app", .line = 3,
		  .offset = 0x10 },
		{ .function = "main", .module = "/home/a/app", .offset = 0x20 },
		{ .module = "/lib/libq.so.1.2", .offset = 5 },
	};
	const struct report_frame after[] = {
		{ .function = "make.constprop.0", .file = "/b/x.cpp", .module = "/b/other",
		  .line = 900, .offset = 0x77 },
		{ .function = "make [clone .isra.0]", .file = "/b/x.cpp", .module = "/b/other",
		  .line = 901, .offset = 0x99 },
		{ .function = "cudaMalloc", .role = FRAME_RUNTIME },
		{ .function = "main", .module = "/b/other", .offset = 0x21 },
		{ .module = "/usr/lib/libq.so.2", .offset = 5 },
		{ .function = "__libc_start_main", .role = FRAME_RUNTIME },
	};

	(void)state;
	assert_int_equal(of(before, 3), of(after, 6));
}

static void test_differs(void **state)
{
	const struct report_frame frame = { .function = "make", .file = "/a/x.c", .line = 3 };
	struct report_frame other[2] = { frame, frame };
	const struct report_stack stack = { &frame, 1, 0 };
	const struct report_stack partial = { &frame, 1, .partial = "" };
	uint64_t hash = of(&frame, 1);

	(void)state;
	other[0].function = "made";
	assert_int_not_equal(of(other, 1), hash);
	other[0] = frame;
	other[0].file = "/a/y.c";
	assert_int_not_equal(of(other, 1), hash);
	other[0] = frame;
	other[1].function = "main";
	assert_int_not_equal(of(other, 2), hash);
	assert_int_not_equal(report_fingerprint("cuMemAlloc_v2", "managed", &stack), hash);
	assert_int_not_equal(report_fingerprint("cuMemAlloc_v2", "device", &partial), hash);
	assert_int_not_equal(report_fingerprint("cuMemAllocManaged", "device", &stack), hash);
	/* Where all frames are others', they are all that there is. */
	other[0] = other[1];
	other[0].role = FRAME_RUNTIME;
	assert_int_not_equal(of(other, 1), of(NULL, 0));
	/* A module's offset tells two functions without names apart. */
	other[0] = (struct report_frame){ .module = "/a", .offset = 1 };
	other[1] = (struct report_frame){ .module = "/a", .offset = 2 };
	assert_int_not_equal(of(&other[0], 1), of(&other[1], 1));
}

static uint64_t second(const struct report_frame *frame)
{
	const struct report_stack stack = { frame, 1, 0 };

	return report_fingerprint2("cuMemAlloc_v2", "device", &stack);
}

/* Version 1 of the fingerprint keeps the names of older versions, version 2 has none that a
 * compiler made up. */
static void test_second(void **state)
{
	const struct report_frame plain = { .function = "make", .file = "/a/x.c" };
	const struct report_frame rust = { .function = "app::step", .file = "/a/x.rs",
					   .old_function = "app::step::h0123456789abcdef" };
	struct report_frame other = rust;

	(void)state;
	assert_int_equal(second(&plain), of(&plain, 1));
	other.old_function = "app::step::hfedcba9876543210";
	assert_int_not_equal(of(&other, 1), of(&rust, 1));
	assert_int_equal(second(&other), second(&rust));
	other.function = other.old_function;
	other.old_function = NULL;
	assert_int_not_equal(second(&other), second(&rust));
	other.function = "main::{lambda(int)#1}::operator()(int) const";
	assert_int_not_equal(second(&other), second(&rust));
	assert_int_equal(second(&other),
			 second(&(struct report_frame){
				 .function = "main::{lambda(int)#12}::operator()(int) const",
				 .file = "/b/x.rs" }));
	assert_int_equal(second(&(struct report_frame){ .function = "main::$_3::operator()" }),
			 second(&(struct report_frame){ .function = "main::$_10::operator()" }));
	assert_int_not_equal(second(&(struct report_frame){ .function = "f_3" }),
			     second(&(struct report_frame){ .function = "f_10" }));
	other = (struct report_frame){ .module = "/tmp/jna1/x.so", .build_id = "ab", .offset = 1 };
	assert_int_equal(second(&other),
			 second(&(struct report_frame){ .module = "/tmp/jna2/y.so",
							.build_id = "ab", .offset = 1 }));
}

static void test_source(void **state)
{
	struct source_root root;

	(void)state;
	setenv("GITHUB_WORKSPACE", "/src/app//", 1);
	source_root_find(&root);
	assert_string_equal(root.path, "/src/app");
	assert_string_equal(source_relative(&root, "/src/app/lib/a.c"), "lib/a.c");
	assert_string_equal(source_relative(&root, "/src/app//a.c"), "a.c");
	assert_null(source_relative(&root, "/src/apple/a.c"));
	assert_null(source_relative(&root, "/src/app/"));
	assert_null(source_relative(&root, "/src/app/lib/../../b.c"));
	assert_null(source_relative(&root, ".."));
	assert_string_equal(source_relative(&root, "lib/..a.c"), "lib/..a.c");
	assert_string_equal(source_path(&root, "/usr/x.c"), "/usr/x.c");
	setenv("GITHUB_WORKSPACE", "/", 1);
	source_root_find(&root);
	assert_string_not_equal(root.path, "/");
	setenv("GITHUB_WORKSPACE", "relative", 1);
	setenv("CI_PROJECT_DIR", "/builds/app", 1);
	source_root_find(&root);
	assert_string_equal(root.path, "/builds/app");
	unsetenv("GITHUB_WORKSPACE");
	unsetenv("CI_PROJECT_DIR");
}

static void expect_xml(const char *text, const char *expected, int attribute)
{
	struct text_buffer words;

	text_buffer_begin(&words);
	if (attribute)
		xml_attribute(words.out, "a", text);
	else
		xml_text(words.out, text);
	text_buffer_end(&words);
	assert_string_equal(words.text, expected);
	text_buffer_finish(&words);
}

static void test_xml(void **state)
{
	(void)state;
	expect_xml("a<b>&\"'\n\xc3\xa4", "a&lt;b&gt;&amp;&quot;&apos;\n\xc3\xa4", 0);
	expect_xml("]]>\x01\x1b\r\t\x7f", "]]&gt;\\x01\\x1B\\x0D\\x09\\x7F", 0);
	expect_xml("\xff\xed\xa0\x80", "\\xFF\\xED\\xA0\\x80", 0);
	expect_xml("\xef\xbf\xbe\xef\xbf\xbf", "\xef\xbf\xbd\xef\xbf\xbd", 0);
	expect_xml("x\ny\"", " a=\"x\\x0Ay&quot;\"", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_survives),
		cmocka_unit_test(test_differs),
		cmocka_unit_test(test_second),
		cmocka_unit_test(test_source),
		cmocka_unit_test(test_xml),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
