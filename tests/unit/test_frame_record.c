/* SPDX-License-Identifier: MIT
 *
 * report/symbols/frame_record.c on the code of functions for aarch64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/symbols/frame_record.h"

#define MISSING(...)                                                                       \
	({                                                                                 \
		const uint32_t code_[] = { __VA_ARGS__ };                                  \
		frame_record_is_missing(code_, sizeof(code_) / sizeof(code_[0]));          \
	})

#define PAIR_BEFORE 0xa9be7bfd  /* stp x29, x30, [sp, #-32]! */
#define PAIR_AT 0xa9017bfd      /* stp x29, x30, [sp, #16] */
#define OTHER_PAIR 0xa9be7bf3   /* stp x19, x30, [sp, #-32]! */
#define LINK_FIRST 0xa9014ffe   /* stp x30, x19, [sp, #16] */
#define LINK_BEFORE 0xf81e0ffe  /* str x30, [sp, #-32]! */
#define LINK_AT 0xf90007fe      /* str x30, [sp, #8] */
#define SUBTRACT 0xd10083ff     /* sub sp, sp, #32 */
#define LOAD_PAIR 0xa8c27bfd    /* ldp x29, x30, [sp], #32 */
#define LOAD_LINK 0xf84207fe    /* ldr x30, [sp], #32 */
#define STORE_OTHER 0xf90007f3  /* str x19, [sp, #8] */
#define STORE_ELSEWHERE 0xf900041e /* str x30, [x0, #8] */
#define RETURN 0xd65f03c0

static void kept(void **state)
{
	(void)state;
	assert_false(MISSING(PAIR_BEFORE, SUBTRACT));
	assert_false(MISSING(SUBTRACT, PAIR_AT, STORE_OTHER));
	assert_false(MISSING(PAIR_BEFORE, STORE_ELSEWHERE, LOAD_PAIR, RETURN, SUBTRACT));
}

static void missing(void **state)
{
	(void)state;
	assert_true(MISSING(LINK_BEFORE, SUBTRACT));
	assert_true(MISSING(SUBTRACT, LINK_AT));
	assert_true(MISSING(OTHER_PAIR, STORE_OTHER));
	assert_true(MISSING(SUBTRACT, LINK_FIRST));
}

/* The nearest one counts: the function before has its own. */
static void nearest(void **state)
{
	(void)state;
	assert_true(MISSING(PAIR_BEFORE, LOAD_PAIR, RETURN, LINK_BEFORE));
	assert_false(MISSING(LINK_BEFORE, LOAD_LINK, RETURN, PAIR_BEFORE));
}

static void nothing(void **state)
{
	(void)state;
	assert_false(frame_record_is_missing(NULL, 0));
	assert_false(MISSING(SUBTRACT, STORE_OTHER, LOAD_PAIR, LOAD_LINK, RETURN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept),
		cmocka_unit_test(missing),
		cmocka_unit_test(nearest),
		cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests_name("frame_record", tests, NULL, NULL);
}
