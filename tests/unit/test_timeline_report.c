/* SPDX-License-Identifier: MIT
 *
 * What a report says of live bytes over time, and what it makes of a ledger that lies.
 * Links: test_timeline_report.c ledger_builder.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "ledger_builder.h"
#include "report/load/load.h"
#include "report/model/model.h"
#include "report/subjects/subject.h"
#include "report/symbols/symbolize.h"

/* The JSON of BUILDER's ledger, to be freed. */
static char *told(struct ledger_builder *builder)
{
	struct report_process *process;
	struct symbolizer *symbolizer;
	struct loaded_ledger ledger;
	char error[256], *ret;
	json_t *json;

	assert_int_equal(loaded_ledger_copy(builder->bytes, builder->size, "test", &ledger, error,
					    sizeof(error)), 0);
	symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	process = report_process_build(&ledger, symbolizer, NULL);
	json = json_object();
	if (subject_is_there(&subject_timeline, process))
		subject_timeline.json(json, &(struct subject_view){ .process = process });
	ret = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	report_process_destroy(process);
	symbolizer_destroy(symbolizer);
	loaded_ledger_finish(&ledger);
	return ret;
}

static void expect(struct ledger_builder *builder, const char *expected)
{
	char *text = told(builder);

	assert_string_equal(text, expected);
	free(text);
}

static uint32_t fill(struct ledger_builder *builder)
{
	uint32_t kind, parts;

	builder_init(builder);
	builder_header(builder)->start_mono_ns = 1100;
	builder_header(builder)->end_mono_ns = 2000;
	builder_header(builder)->peak_mono_ns = 400;
	builder_header(builder)->start_real_ns = 17;
	builder_sample(builder, 0, 10);
	builder_sample(builder, 400, 30);
	kind = builder_string(builder, "pinned");
	parts = builder_parts(builder);
	((struct ledger_parts *)builder_at(builder, parts))->column[0] =
		(struct ledger_column){ kind, 3 };
	((struct ledger_parts *)builder_at(builder, parts))->column[1] =
		(struct ledger_column){ 0, -1 };
	((struct ledger_parts *)builder_at(builder, parts))->columns = 2;
	builder_moment(builder, &(struct ledger_moment){ 100, { 9, 1 } });
	builder_moment(builder, &(struct ledger_moment){ 300, { 25, 0 } });
	return parts;
}

static void test_samples_and_parts(void **state)
{
	struct ledger_builder builder;

	(void)state;
	fill(&builder);
	expect(&builder, "{\"timeline\":{\"start_real_ns\":17,\"end_ns\":900,\"peak_ns\":400,"
			 "\"live\":[[0,10],[400,30]],\"parts\":["
			 "{\"kind\":\"pinned\",\"device\":3,\"live\":[[100,9],[300,25]]},"
			 "{\"kind\":\"other\",\"device\":-1,\"live\":[[100,1],[300,0]]}]}}");
	builder_finish(&builder);
}

static void test_still_running(void **state)
{
	struct ledger_builder builder;
	char *text;

	(void)state;
	fill(&builder);
	builder_header(&builder)->ended = LEDGER_RUNNING;
	text = told(&builder);
	assert_non_null(strstr(text, "\"end_ns\":0,"));
	free(text);
	builder_finish(&builder);
}

/* More columns than there can be, and a kind that points nowhere. */
static void test_lies(void **state)
{
	struct ledger_builder builder;
	uint32_t parts;
	char *text;

	(void)state;
	parts = fill(&builder);
	((struct ledger_parts *)builder_at(&builder, parts))->columns = LEDGER_COLUMNS + 1;
	text = told(&builder);
	assert_non_null(strstr(text, "\"parts\":[]"));
	free(text);
	((struct ledger_parts *)builder_at(&builder, parts))->columns = 1;
	((struct ledger_parts *)builder_at(&builder, parts))->column[0].kind = UINT32_MAX;
	text = told(&builder);
	assert_non_null(strstr(text, "\"parts\":[{\"kind\":\"other\",\"device\":3,"));
	free(text);
	builder_finish(&builder);
}

static void test_no_moment(void **state)
{
	struct ledger_builder builder;
	uint32_t parts;

	(void)state;
	builder_init(&builder);
	parts = builder_parts(&builder);
	((struct ledger_parts *)builder_at(&builder, parts))->columns = 1;
	expect(&builder, "{}");
	builder_finish(&builder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples_and_parts),
		cmocka_unit_test(test_still_running),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_no_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
