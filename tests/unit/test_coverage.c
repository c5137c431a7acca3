/* SPDX-License-Identifier: MIT
 *
 * From the facts of a ledger to what a report says of coverage: the line, the page of -v,
 * JSON, the notes; and a ledger whose facts lie.
 * Links: test_coverage.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/describe/json_values.h"
#include "ledger_reported.h"
#include "report/model/model.h"
#include "report/subjects/subject_words.h"
#include "report/subjects/subject.h"

struct fixture {
	struct reported reported;
	struct report_process *process;
};

static void begin(struct fixture *fixture, struct ledger_builder *builder)
{
	fixture->process = reported_begin(&fixture->reported, builder);
}

static void end(struct fixture *fixture, struct ledger_builder *builder)
{
	reported_finish(&fixture->reported);
	builder_finish(builder);
}

static void expect_text(void (*print)(FILE *, const struct report_process *),
			const struct fixture *fixture, const char *expected)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	print(out, fixture->process);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

static void expect_json(const struct fixture *fixture, const char *expected)
{
	json_t *json = json_object();
	char *text;

	subject_coverage.json(json, &(struct subject_view){ .process = fixture->process });
	text = json_dumps(json_object_get(json, "coverage"), JSON_COMPACT);
	assert_string_equal(text, expected);
	free(text);
	json_decref(json);
}

static void expect_notes(const struct fixture *fixture, const char *const *notes, size_t count)
{
	for (size_t i = 0; i < count && i < fixture->process->note_count; i++)
		assert_string_equal(fixture->process->notes[i], notes[i]);
	assert_int_equal(fixture->process->note_count, count);
	assert_int_equal(fixture->process->incomplete, 0); /* no gate fails for it */
}

static void test_nothing(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;

	(void)state;
	builder_init(&builder);
	begin(&fixture, &builder);
	expect_text(describe_coverage, &fixture, "");
	expect_text(
		describe_all_coverage, &fixture,
		"Coverage of app (pid 4242):\n  the ledger does not record how the "
		"program reaches a driver\n");
	expect_json(&fixture, "{\"routes\":[],\"untracked\":[],\"unclassed\":[],"
			      "\"out_of_reach\":[]}");
	expect_notes(&fixture, NULL, 0);
	end(&fixture, &builder);
}

/* Written in no order, as threads do. */
static void test_routes(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;

	(void)state;
	builder_init(&builder);
	builder_fact(&builder, "linked", "OpenCL", "/b/libz.so", NULL, 1);
	builder_fact(&builder, "linked", "CUDA", NULL, NULL, 1);
	builder_fact(&builder, "linked", "OpenCL", "/b/liby.so", NULL, 1);
	builder_fact(&builder, "linked", "CUDA", "/bin/app", NULL, 1);
	builder_fact(&builder, "linked", "OpenCL", "/b/libx.so", NULL, 1);
	builder_fact(&builder, "cuGetProcAddress", "CUDA", "/b/libcudart.so.13", NULL, 439);
	builder_fact(&builder, "a word of tomorrow", "CUDA", "/b/x", NULL, 1);
	begin(&fixture, &builder);
	expect_text(describe_coverage, &fixture,
		    "coverage: CUDA intercepted via cuGetProcAddress (libcudart.so.13) and linked "
		    "calls; "
		    "OpenCL intercepted via linked calls (libx.so, liby.so and 1 more)\n");
	expect_text(describe_all_coverage, &fixture,
		    "Coverage of app (pid 4242):\n"
		    "  CUDA intercepted via cuGetProcAddress, 439 times: /b/libcudart.so.13\n"
		    "  CUDA intercepted via linked calls: /bin/app\n"
		    "  OpenCL intercepted via linked calls: /b/libx.so, /b/liby.so, /b/libz.so\n");
	expect_notes(&fixture, NULL, 0);
	end(&fixture, &builder);
}

/* A runtime that looks everything up makes no note; who asks for a function by name does. */
static void test_functions(void **state)
{
	static const char *const notes[] = {
		"looked up, but not tracked: cuB, cuC: it is not followed",
		"cuNew_v9: unknown to this version of gpuleak, perhaps because the driver is "
		"newer; memory that this function allocates or frees is not in this report",
	};
	struct ledger_builder builder;
	struct fixture fixture;

	(void)state;
	builder_init(&builder);
	builder_fact(&builder, "cuGetProcAddress", "CUDA", "/b/libcudart.so.13", NULL, 439);
	builder_fact(&builder, "untracked", "cuA", "/b/libcudart.so.13", "it is not followed", 1);
	builder_fact(&builder, "untracked", "cuC", "/bin/app", "it is not followed", 1);
	builder_fact(&builder, "untracked", "cuB", "/b/libcudart.so.13", "it is not followed", 1);
	builder_fact(&builder, "untracked", "cuB", "/bin/app", "it is not followed", 1);
	builder_fact(&builder, "referred-untracked", "cuF", "/bin/app", "it is not followed", 1);
	builder_fact(&builder, "referred-untracked", "cuC", "/bin/app", "it is not followed", 1);
	builder_fact(&builder, "unclassed", "cuNew_v9", "/bin/app", NULL, 2);
	builder_fact(&builder, "ignored", "cuE", NULL, "is another's", 1);
	builder_fact(&builder, "ignored", "cuD", NULL, "is another's", 1);
	begin(&fixture, &builder);
	expect_notes(&fixture, notes, 2);
	expect_text(
		describe_all_coverage, &fixture,
		"Coverage of app (pid 4242):\n  CUDA intercepted via cuGetProcAddress, 439 "
		"times: "
		"/b/libcudart.so.13\n  unknown to this version of gpuleak: cuNew_v9 by /bin/app\n  "
		"looked up, not tracked: cuB by /b/libcudart.so.13, /bin/app: it is not "
		"followed\n  looked up, not tracked: cuC by /bin/app: it is not followed\n  "
		"looked up with all other functions, or only linked, not tracked: cuA by "
		"/b/libcudart.so.13: it is not followed\n  looked up with all other functions, or "
		"only linked, not tracked: cuF by /bin/app: it is not followed\n  looked up, "
		"ignored: cuD, cuE: is another's\n");
	expect_json(&fixture,
		    "{\"routes\":[{\"api\":\"CUDA\",\"route\":\"cuGetProcAddress\",\"modules\":"
		    "[\"/b/libcudart.so.13\"]}],\"untracked\":["
		    "{\"symbol\":\"cuA\",\"reason\":\"it is not followed\",\"asked_for\":false,"
		    "\"modules\":[\"/b/libcudart.so.13\"]},"
		    "{\"symbol\":\"cuB\",\"reason\":\"it is not followed\",\"asked_for\":true,"
		    "\"modules\":[\"/b/libcudart.so.13\",\"/bin/app\"]},"
		    "{\"symbol\":\"cuC\",\"reason\":\"it is not followed\",\"asked_for\":true,"
		    "\"modules\":[\"/bin/app\"]},"
		    "{\"symbol\":\"cuF\",\"reason\":\"it is not followed\",\"asked_for\":false,"
		    "\"modules\":[\"/bin/app\"]}],\"unclassed\":["
		    "{\"symbol\":\"cuNew_v9\",\"asked_for\":true,\"modules\":[\"/bin/app\"]}],"
		    "\"out_of_reach\":[]}");
	end(&fixture, &builder);
}

static void test_out_of_reach(void **state)
{
	static const char *const notes[] = {
		"CUDA calls of /b/libplugin.so are not seen: it was opened with RTLD_DEEPBIND and "
		"calls the driver directly; GPULEAK_DEEPBIND=cover opens it without that flag",
		"some calls of /bin/app are not seen: it has an internal table of the driver "
		"(cuGetExportTable) and may call through that table",
	};
	struct ledger_builder builder;
	struct fixture fixture;

	(void)state;
	builder_init(&builder);
	builder_fact(&builder, "known-export-table", "11", "/bin/app", NULL, 1);
	builder_fact(&builder, "export-table", "22", "/bin/app", NULL, 1);
	builder_fact(&builder, "deepbind", "CUDA", "/b/libplugin.so", NULL, 3);
	begin(&fixture, &builder);
	expect_notes(&fixture, notes, 2);
	expect_text(
		describe_coverage, &fixture,
		"coverage: it is unknown how the program reaches a driver; not seen: libplugin.so "
		"(RTLD_DEEPBIND), app (export table)\n");
	expect_json(&fixture,
		    "{\"routes\":[],\"untracked\":[],\"unclassed\":[],\"out_of_reach\":["
		    "{\"what\":\"deepbind\",\"subject\":\"CUDA\","
		    "\"module\":\"/b/libplugin.so\",\"reason\":\"it "
		    "was opened with RTLD_DEEPBIND and calls the driver directly; "
		    "GPULEAK_DEEPBIND=cover opens it "
		    "without that flag\"},{\"what\":\"export-table\",\"subject\":\"22\","
		    "\"module\":\"/bin/app\",\"reason\":\"it "
		    "has an internal table of the driver (cuGetExportTable) and may call through "
		    "that table\"}]}");
	end(&fixture, &builder);
}

/* Names are cut off after eight; none of them breaks the line. */
static void test_many_unclassed(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;
	char name[16];

	(void)state;
	builder_init(&builder);
	for (int i = 0; i < 9999; i++) {
		snprintf(name, sizeof(name), "cuNew%04d", i);
		builder_fact(&builder, "unclassed", name, "/bin/app", NULL, 1);
	}
	begin(&fixture, &builder);
	assert_int_equal(fixture.process->coverage.count, LEDGER_OBSERVATIONS_MAX);
	assert_int_equal(fixture.process->note_count, 1);
	assert_string_equal(fixture.process->notes[0],
			    "cuNew0000, cuNew0001, cuNew0002, cuNew0003, cuNew0004, cuNew0005, "
			    "cuNew0006, cuNew0007 ...: unknown to this version of gpuleak, perhaps "
			    "because the driver is newer; memory that one of these functions "
			    "allocates or frees is not in this report");
	end(&fixture, &builder);
}

/* Refs to nowhere, to other types and none at all: counted as damage, never followed. */
static void test_lies(void **state)
{
	static const uint32_t nowhere[] = { 0, 1, UINT32_MAX, LEDGER_CHUNK / LEDGER_REF_UNIT, 0 };
	struct ledger_builder builder;
	struct fixture fixture;
	uint32_t ref, row;

	(void)state;
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		struct ledger_observation *fact;

		builder_init(&builder);
		row = builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 1, 1);
		ref = builder_fact(&builder, "deepbind", "CUDA", "/b/x", "why", UINT32_MAX);
		builder_fact(&builder, "untracked", "cuA", "/b/x", "why", UINT32_MAX);
		fact = builder_at(&builder, ref);
		fact->kind = fact->module = i == 4 ? row : nowhere[i];
		fact->subject = fact->detail = nowhere[i];
		begin(&fixture, &builder);
		assert_int_equal(fixture.process->coverage.count, 2);
		assert_string_equal(fixture.process->coverage.observations[0].kind, "");
		assert_int_equal(fixture.process->incomplete, nowhere[i] || i == 4);
		end(&fixture, &builder);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_out_of_reach),
		cmocka_unit_test(test_many_unclassed),
		cmocka_unit_test(test_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
