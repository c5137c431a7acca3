/* SPDX-License-Identifier: MIT
 *
 * Peaks that several threads raise at one moment: the largest value stays. The other thread is
 * played by what pools_raise() calls after it has read the peak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static uint64_t raised_by_other;

static void raise_by_other(uint64_t *peak)
{
	if (raised_by_other)
		*peak = raised_by_other;
	raised_by_other = 0;
}

#define PEAK_SEEN(peak) raise_by_other(peak)
#include "interpose/block/pool_counters.h"

static void test_raise(void **state)
{
	uint64_t peak = 10;

	(void)state;
	pools_raise(&peak, 20);
	assert_int_equal(peak, 20);
	pools_raise(&peak, 15);
	assert_int_equal(peak, 20);

	raised_by_other = 100; /* to more than this thread wants */
	pools_raise(&peak, 50);
	assert_int_equal(peak, 100);

	raised_by_other = 120; /* to less */
	pools_raise(&peak, 150);
	assert_int_equal(peak, 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_raise) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
