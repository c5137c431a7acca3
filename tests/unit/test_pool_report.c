/* SPDX-License-Identifier: MIT
 *
 * What a report says of the pool: exact words and keys, what a clean report must not hide,
 * and ledgers that lie.
 * Links: test_pool_report.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
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

#include "ledger_reported.h"
#include "report/model/model.h"
#include "report/model/model_pool.h"
#include "report/util/number.h"
#include "ledger/options.h"
#include "report/subjects/formats.h"
#include "report/subjects/subject.h"

#define MIB ((uint64_t)1 << 20)

struct fixture {
	struct ledger_builder builder;
	uint32_t pools; /* ref of the record, 0 = none */
	struct reported reported;
	const struct report_process *process;
};

static struct ledger_pools *record(struct fixture *fixture)
{
	return builder_at(&fixture->builder, fixture->pools);
}

static struct ledger_pool *add_pool(struct fixture *fixture, int at, const char *kind, int device)
{
	uint32_t api = builder_string(&fixture->builder, "CUDA");
	uint32_t name = builder_string(&fixture->builder, kind);
	struct ledger_pool *pool = &record(fixture)->pool[at];

	pool->api = api;
	pool->kind = name;
	pool->device = device;
	pool->mode = record(fixture)->mode;
	return pool;
}

static void start(struct fixture *fixture, int mode)
{
	memset(fixture, 0, sizeof(*fixture));
	builder_init(&fixture->builder);
	fixture->pools = builder_pools(&fixture->builder);
	record(fixture)->mode = (uint32_t)mode;
}

/* 2,000 allocations of which 26 reached the driver. */
static void fill(struct ledger_pool *pool)
{
	pool->cached = 4 * MIB;
	pool->pending = 2 * MIB;
	pool->reserved = 16 * MIB;
	pool->waste = 1 * MIB;
	pool->peak_reserved = 36 * MIB;
	pool->peak_used = 32 * MIB;
	pool->hits = 1974;
	pool->native_allocs = 26;
	pool->native_frees = 12;
	pool->frees = 1980;
	pool->fences = 1900;
	pool->shared_fences = 80;
	pool->waits = 12;
	pool->wait_ns = 3250000;
	pool->trims = 3;
	pool->trimmed = 12;
	pool->trimmed_bytes = 24 * MIB;
	pool->rescued = 1;
	pool->reasons[LEDGER_POOL_EXPORTED] = 3;
	pool->reasons[LEDGER_POOL_OTHER_KIND] = 1;
}

static void build(struct fixture *fixture)
{
	fixture->process = reported_begin(&fixture->reported, &fixture->builder);
}

static void end(struct fixture *fixture)
{
	reported_finish(&fixture->reported);
	builder_finish(&fixture->builder);
}

/* Of the pool alone, or the whole report. */
static char *text_of(const struct fixture *fixture, int all)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (subject_is_there(&subject_pool, fixture->process))
		subject_pool.details(out, &(struct subject_view){ .process = fixture->process,
								  .verbose = all });
	fclose(out);
	return text;
}

static void expect(const struct fixture *fixture, int all, const char *wanted)
{
	char *text = text_of(fixture, all);

	assert_string_equal(text, wanted);
	free(text);
}

static json_t *json_of(const struct fixture *fixture)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	json_t *root;

	assert_int_equal(print_json(&fixture->reported.report, NULL, out), 0);
	fclose(out);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	free(text);
	return root;
}

static void section(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, OPTION_POOL_FAST);
	fill(add_pool(&f, 0, "device", 0));
	build(&f);
	expect(&f, 1,
	       "\nPool (fast):\n"
	       "  device 0, device memory: 1,974 of 2,000 allocations (98.7%) served without the "
	       "driver, 3,942 native calls saved\n"
	       "    peak 32.0 MiB in use, 36.0 MiB reserved (1.12 times); at the end: 4.0 MiB "
	       "cached, 2.0 MiB pending (kept by the pool, no leak)\n"
	       "    12 frees waited for the device, 3.2 ms in all; 1,900 fences, 80 frees shared "
	       "a fence\n"
	       "    3 trims gave back 12 blocks (24.0 MiB); 1 allocation succeeded only "
	       "after a trim\n"
	       "    not pooled (3): blocks were shared with others (IPC, dma-buf) and freed by the "
	       "driver\n"
	       "    not pooled (1): objects are of kinds that are not pooled\n");
	end(&f);
}

/* A clean report has one line more, and not only where there is something to tell. */
static void clean(void **state)
{
	struct fixture f;
	char *text = NULL;
	size_t size;
	FILE *out;

	(void)state;
	start(&f, OPTION_POOL_STRICT);
	fill(add_pool(&f, 0, "device", 0));
	fill(add_pool(&f, 7, "pinned", -1)); /* places need not be in a row */
	builder_row(&f.builder, "cuMemAlloc_v2", "device", 0, 0, 5, 500);
	build(&f);
	out = open_memstream(&text, &size);
	assert_int_equal(print_text(&f.reported.report, NULL, out), 0);
	fclose(out);
	assert_string_equal(
		text,
		"gpuleak: no leaks: 5 blocks (500 bytes) allocated by app (pid 4242), all freed, "
		"peak 0 bytes\n"
		"gpuleak: pool (strict): 3,948 of 4,000 allocations (98.7%) served without the "
		"driver, 7,884 native calls saved; peak 64.0 MiB in use, 72.0 MiB reserved "
		"(1.12 times); at the end: 8.0 MiB cached, 4.0 MiB pending "
		"(kept by the pool, no leak)\n");
	free(text);
	end(&f);
}

static void nothing_pooled(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, OPTION_POOL_STRICT);
	build(&f);
	expect(&f, 0, "gpuleak: pool (strict): no allocations\n");
	expect(&f, 1,
	       "\nPool (strict):\n  the pool served no allocation: none was of a kind that it "
	       "serves, or it could not be set up\n");
	end(&f);
}

static void no_pool(void **state)
{
	struct fixture f = { 0 };
	json_t *root;

	(void)state;
	builder_init(&f.builder);
	build(&f);
	expect(&f, 1, "");
	root = json_of(&f);
	assert_null(json_object_get(root, "pool"));
	json_decref(root);
	end(&f);
}

static void surprises(void **state)
{
	struct ledger_pool *pool;
	struct fixture f;
	uint32_t why;

	(void)state;
	start(&f, OPTION_POOL_FAST);
	why = builder_string(&f.builder, "an event could not be queried (\x1b 700)");
	pool = add_pool(&f, 0, "device", 1);
	pool->mode = OPTION_POOL_STRICT;
	pool->off = why;
	pool->native_allocs = 1;
	record(&f)->limit = 64 * MIB;
	record(&f)->refused = 1234;
	record(&f)->injected = 2;
	build(&f);
	expect(&f, 0,
	       "gpuleak: pool (fast): 0 of 1 allocations (0.0%) served without the driver, 0 "
	       "native calls saved; peak 0 bytes in use, 0 bytes reserved; nothing kept at the "
	       "end\n"
	       "gpuleak: pool: fast is not possible with this driver, so strict was used\n"
	       "gpuleak: pool: device 1, device memory: turned itself off: an event could not be "
	       "queried (\\x1B 700)\n"
	       "gpuleak: GPULEAK_LIMIT: 1,234 allocations refused beyond 64.0 MiB\n"
	       "gpuleak: GPULEAK_FAIL_AT: 2 allocations made to fail\n");
	end(&f);
}

/* GPULEAK_LIMIT works without a pool, and is told of without one. */
static void limit_alone(void **state)
{
	json_t *root, *pool;
	struct fixture f;

	(void)state;
	start(&f, OPTION_POOL_OFF);
	record(&f)->refused = 1;
	build(&f);
	expect(&f, 0, "gpuleak: GPULEAK_LIMIT: 1 allocation refused\n");
	root = json_of(&f);
	pool = json_object_get(root, "pool");
	assert_string_equal(json_string_value(json_object_get(pool, "mode")), "off");
	assert_int_equal(json_array_size(json_object_get(pool, "pools")), 0);
	json_decref(root);
	end(&f);
}

static void keys(void **state)
{
	static const struct {
		const char *key;
		uint64_t value;
	} wanted[] = {
		{ "used_bytes", 9 * MIB }, { "cached_bytes", 4 * MIB },
		{ "pending_bytes", 2 * MIB }, { "reserved_bytes", 16 * MIB },
		{ "peak_used_bytes", 32 * MIB }, { "peak_reserved_bytes", 36 * MIB },
		{ "hits", 1974 }, { "native_allocations", 26 }, { "native_frees", 12 },
		{ "frees", 1980 }, { "native_calls_saved", 3942 }, { "tickets", 1900 },
		{ "shared_tickets", 80 }, { "waits", 12 }, { "wait_ns", 3250000 }, { "trims", 3 },
		{ "trimmed_blocks", 12 }, { "trimmed_bytes", 24 * MIB }, { "rescued", 1 },
		{ "waste_bytes", MIB },
	};
	json_t *root, *pool, *one;
	struct fixture f;

	(void)state;
	start(&f, OPTION_POOL_FAST);
	record(&f)->backend = OPTION_BACKEND_STREAM_ORDERED;
	record(&f)->limit = 100;
	record(&f)->refused = 7;
	record(&f)->injected = 8;
	fill(add_pool(&f, 0, "device", 3));
	build(&f);
	root = json_of(&f);
	pool = json_object_get(root, "pool");
	assert_string_equal(json_string_value(json_object_get(pool, "mode")), "fast");
	assert_string_equal(json_string_value(json_object_get(pool, "backend")), "stream-ordered");
	assert_int_equal(json_integer_value(json_object_get(pool, "limit_bytes")), 100);
	assert_int_equal(json_integer_value(json_object_get(pool, "refused")), 7);
	assert_int_equal(json_integer_value(json_object_get(pool, "injected_failures")), 8);
	assert_int_equal(json_array_size(json_object_get(pool, "pools")), 1);
	one = json_array_get(json_object_get(pool, "pools"), 0);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		json_t *value = json_object_get(one, wanted[i].key);

		if (!json_is_integer(value))
			fail_msg("no number: %s", wanted[i].key);
		assert_int_equal(json_integer_value(value), wanted[i].value);
	}
	assert_string_equal(json_string_value(json_object_get(one, "api")), "CUDA");
	assert_string_equal(json_string_value(json_object_get(one, "kind")), "device");
	assert_int_equal(json_integer_value(json_object_get(one, "device")), 3);
	assert_string_equal(json_string_value(json_object_get(one, "mode")), "fast");
	assert_true(json_is_null(json_object_get(one, "turned_off")));
	assert_int_equal(json_object_size(json_object_get(one, "not_pooled")), 2);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(one, "not_pooled"),
							    "exported")), 3);
	json_decref(root);
	end(&f);
}

/* Nothing in it is believed: sums stop at the largest number, words are found or unknown. */
static void lies(void **state)
{
	struct fixture f;
	json_t *root;
	char *text;

	(void)state;
	start(&f, OPTION_POOL_FAST);
	builder_pools(&f.builder); /* a second record is not looked at */
	memset(record(&f), 0xff, sizeof(struct ledger_pools));
	build(&f);
	assert_int_equal(f.process->pools->count, LEDGER_POOLS_MAX);
	assert_int_equal(f.process->pools->sum.hits, UINT64_MAX);
	assert_int_equal(report_pool_used(&f.process->pools->sum), 0);
	assert_string_equal(f.process->pools->mode, "unknown");
	text = text_of(&f, 1);
	assert_non_null(strstr(text, "turned itself off: the reason is unreadable"));
	assert_non_null(strstr(text, "\n  unknown: 18,446,744,073,709,551,615 of "));
	free(text);
	root = json_of(&f);
	json_decref(root);
	end(&f);
}

static void rates(void **state)
{
	static const struct {
		uint64_t part, all;
		const char *wanted;
	} rows[] = {
		{ 0, 0, "0.0%" }, { 1, 1, "100.0%" }, { 999999, 1000000, "99.9%" },
		{ 1, 3, "33.3%" }, { UINT64_MAX - 1, UINT64_MAX, "99.9%" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[NUMBER_MAX];

		assert_string_equal(format_percent(rows[i].part, rows[i].all, text),
				    rows[i].wanted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(section),
		cmocka_unit_test(clean),
		cmocka_unit_test(nothing_pooled),
		cmocka_unit_test(no_pool),
		cmocka_unit_test(surprises),
		cmocka_unit_test(limit_alone),
		cmocka_unit_test(keys),
		cmocka_unit_test(lies),
		cmocka_unit_test(rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
