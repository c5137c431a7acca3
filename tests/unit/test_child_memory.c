/* SPDX-License-Identifier: MIT
 *
 * A forked child finds zero bytes in the memory of child_memory.c, and its parent keeps what it
 * wrote: for memory that the kernel clears, and for both fallbacks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/base/child_memory.h"

#define BYTES 5000

static bool is_filled_with(const char *memory, char wanted)
{
	for (size_t i = 0; i < BYTES; i++)
		if (memory[i] != wanted)
			return false;
	return true;
}

/* Returns true if the BYTES at MEMORY are zero in a forked child. */
static bool child_has_zeros(const char *memory)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(is_filled_with(memory, 0) ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status == 0;
}

static void mapped(void **state)
{
	char *memory = child_memory_map(BYTES);

	(void)state;
	assert_non_null(memory);
	assert_true(is_filled_with(memory, 0));
	memset(memory, 'x', BYTES);
	assert_true(child_has_zeros(memory));
	assert_true(is_filled_with(memory, 'x'));
	munmap(memory, BYTES);
}

static void fallen_back(void **state)
{
	static char memory[CHILD_MEMORY_FALLBACKS][BYTES];

	(void)state;
	for (unsigned int i = 0; i < CHILD_MEMORY_FALLBACKS; i++) {
		memset(memory[i], 'y', BYTES);
		assert_false(child_has_zeros(memory[i]));
		child_memory_fall_back(memory[i], BYTES);
	}
	for (unsigned int i = 0; i < CHILD_MEMORY_FALLBACKS; i++) {
		assert_true(child_has_zeros(memory[i]));
		assert_true(is_filled_with(memory[i], 'y'));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapped),
		cmocka_unit_test(fallen_back),
	};

	return cmocka_run_group_tests_name("memory that is zero in a child", tests, NULL, NULL);
}
