/* SPDX-License-Identifier: MIT
 *
 * What the tests of the gate share: judge, and look at the verdict and its first reason.
 */
#ifndef GPULEAK_TESTS_JUDGED_H
#define GPULEAK_TESTS_JUDGED_H

#include "report/gate/judge.h"

static inline void judged_as(const struct judge_input *input, enum judge_verdict verdict,
			     const char *first_reason)
{
	struct judgement j;

	judge(input, &j);
	assert_true(j.reason_count > 0);
	assert_string_equal(j.reasons[0], first_reason);
	assert_int_equal(j.verdict, verdict);
	judgement_finish(&j);
	assert_int_equal(j.reason_count, 0);
}

#endif
