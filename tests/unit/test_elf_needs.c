/* SPDX-License-Identifier: MIT
 *
 * What an ELF file needs: of this program, and of damaged copies of it, which must never crash.
 * Links: test_elf_needs.c, tools/launch/elf_needs.c, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

#include "tools/launch/elf_needs.h"

static void test_this_program(void **state)
{
	struct elf_needs needs;

	(void)state;
	assert_int_equal(elf_needs_open("/proc/self/exe", &needs), 0);
	assert_string_equal(elf_needs_find(&needs, "libc.so."), "libc.so.6");
	assert_null(elf_needs_find(&needs, "libcudart.so."));
	assert_true(elf_needs_contains(&needs, "what this test looks for"));
	elf_needs_close(&needs);
}

static void test_no_elf_file(void **state)
{
	struct elf_needs needs;

	(void)state;
	assert_int_equal(elf_needs_open("/proc/self/nothing", &needs), -ENOENT);
	assert_int_equal(elf_needs_open("/etc/passwd", &needs), -ENOEXEC);
	assert_int_equal(elf_needs_open("/", &needs), -ENOEXEC);
	assert_int_equal(elf_needs_open("/dev/null", &needs), -ENOEXEC);
	assert_null(elf_needs_find(&needs, ""));
	assert_false(elf_needs_contains(&needs, "ELF"));
}

/* Reads the file of FD as the functions under test do. */
static void read_all(int fd)
{
	struct elf_needs needs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (elf_needs_open(path, &needs) < 0)
		return;
	elf_needs_find(&needs, "libz");
	elf_needs_find(&needs, "");
	if (needs.rpath)
		assert_true(strlen(needs.rpath) < needs.size);
	elf_needs_close(&needs);
}

static int copy_of(const struct elf_needs *needs)
{
	int fd = memfd_create("copy", MFD_CLOEXEC);

	assert_int_equal(write(fd, needs->bytes, needs->size), needs->size);
	return fd;
}

/* Bytes of the headers and of the dynamic section, each with several values. */
static void damage(const struct elf_needs *needs, int fd, size_t from, size_t to)
{
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	char old;

	for (size_t at = from; at < to && at < needs->size; at++) {
		old = needs->bytes[at];
		for (size_t i = 0; i < sizeof(values); i++) {
			assert_int_equal(pwrite(fd, &values[i], 1, (off_t)at), 1);
			read_all(fd);
		}
		assert_int_equal(pwrite(fd, &old, 1, (off_t)at), 1);
	}
}

static void test_damaged(void **state)
{
	struct elf_needs needs;
	int fd;

	(void)state;
	assert_int_equal(elf_needs_open("/proc/self/exe", &needs), 0);
	fd = copy_of(&needs);
	damage(&needs, fd, 0, 0x400);
	damage(&needs, fd, (size_t)((const char *)needs.dynamic - needs.bytes),
	       (size_t)((const char *)needs.dynamic - needs.bytes) + 0x200);
	for (size_t size = needs.size; size > 0; size -= size / 7 + 1) {
		assert_int_equal(ftruncate(fd, (off_t)size), 0);
		read_all(fd);
	}
	close(fd);
	elf_needs_close(&needs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this_program),
		cmocka_unit_test(test_no_elf_file),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
