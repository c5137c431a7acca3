/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_reported.h"
#include "report/subjects/subject.h"

struct symbolizer *reported_symbolizer;

void reported_load(struct loaded_ledger *ret, const struct ledger_builder *built)
{
	char error[256];

	assert_int_equal(loaded_ledger_copy(built->bytes, built->size, "test", ret, error,
					    sizeof(error)), 0);
}

struct report_process *reported_begin(struct reported *reported,
				      const struct ledger_builder *built)
{
	struct report_process *process = NULL;

	memset(reported, 0, sizeof(*reported));
	reported_load(&reported->ledger, built);
	reported->symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	process = report_process_build(&reported->ledger, reported->symbolizer, NULL);
	report_add_process(&reported->report, process);
	return process;
}

void reported_finish(struct reported *reported)
{
	report_finish(&reported->report);
	symbolizer_destroy(reported->symbolizer);
	loaded_ledger_finish(&reported->ledger);
}

int reported_group_setup(void **state)
{
	(void)state;
	reported_symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	return 0;
}

int reported_group_teardown(void **state)
{
	(void)state;
	symbolizer_destroy(reported_symbolizer);
	return 0;
}
