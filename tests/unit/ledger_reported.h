/* SPDX-License-Identifier: MIT
 *
 * What a report makes of a built ledger, for tests: read, without symbols of files, one process.
 * Fails the test where that does not work.
 */
#ifndef GPULEAK_TESTS_LEDGER_REPORTED_H
#define GPULEAK_TESTS_LEDGER_REPORTED_H

#include "ledger_builder.h"
#include "report/load/load.h"
#include "report/model/model.h"
#include "report/symbols/symbolize.h"

struct reported {
	struct loaded_ledger ledger;
	struct symbolizer *symbolizer;
	struct report report;
};

/* The process of REPORTED->report; BUILT may be built on, and reported again after _finish(). */
struct report_process *reported_begin(struct reported *reported,
				      const struct ledger_builder *built);
void reported_finish(struct reported *reported);

/* The first step of it alone. */
void reported_load(struct loaded_ledger *ret, const struct ledger_builder *built);

/* One for all tests of a group, whose processes outlive their ledgers. */
extern struct symbolizer *reported_symbolizer;
int reported_group_setup(void **state);
int reported_group_teardown(void **state);

#endif
