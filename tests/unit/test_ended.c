/* SPDX-License-Identifier: MIT
 *
 * A ledger that is complete does not change any more: the reporter at process exit reads it once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "own_ledger.h"
#include "interpose/block/blocks.h"
#include "interpose/block/steps.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorded_keepers.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stack/unwinder.h"
#include "ledger/reader.h"

/* Returns the ref of a call site with a live block. */
static uint32_t site_of_block(void)
{
	struct call call = { &hooks[HOOK_cuMemAlloc_v2], NULL, SPACE_MEMORY };
	const struct ledger_block *block;
	struct ledger_walk walk = { 0 };
	struct ledger_view view;

	record_made(&call, 0x1000, 100, 0, 0, 0);
	assert_int_equal(ledger_view(recorder_now()->writer.base,
				     recorder_now()->writer.mapped_bytes, &view), LEDGER_OK);
	block = ledger_next_live(&view, &walk);
	assert_non_null(block);
	return block->site;
}

static void test_ended(void **state)
{
	uint32_t site = site_of_block();
	struct recorder *recorder = recorder_enter();

	(void)state;
	assert_non_null(recorder);
	assert_false(recorder_has_ended(recorder));
	assert_int_equal(recorded_keepers_store(recorder, site, "1 x"), 0);
	assert_int_equal(recorded_keepers_store(recorder, (uint64_t)site + 1, "1 x"), -ENOENT);
	assert_int_equal(steps_mark(recorder, "a"), 1);
	assert_true(steps_name(recorder, "warm-up"));
	recorder->header->ended = LEDGER_EXIT;
	assert_true(recorder_has_ended(recorder));
	assert_int_equal(recorded_keepers_store(recorder, site, "1 y"), -ENODATA);
	assert_int_equal(steps_mark(recorder, "b"), 0);
	assert_false(steps_name(recorder, "train"));
	/* after a failed exec the process goes on */
	recorder->header->ended = LEDGER_RUNNING;
	assert_int_equal(recorded_keepers_store(recorder, site, "1 y"), 0);
	assert_int_equal(steps_mark(recorder, "b"), 2);
	recorder_leave();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_ended) };

	setenv("GPULEAK_STACK_DEPTH", "4", 1);
	process_start();
	unwinder_load();
	recorder_touch();
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
