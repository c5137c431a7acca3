/* SPDX-License-Identifier: MIT
 *
 * For tests that record: the ledger that a process leaves behind, since nothing reports at its end.
 * A teardown of cmocka's groups.
 */
#ifndef GPULEAK_TESTS_UNIT_OWN_LEDGER_H
#define GPULEAK_TESTS_UNIT_OWN_LEDGER_H

#include <unistd.h>

#include "interpose/recorder/recorder.h"

static inline int remove_ledger(void **state)
{
	(void)state;
	return recorder_now() ? unlink(recorder_now()->writer.path) : 0;
}

#endif
