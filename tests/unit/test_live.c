/* SPDX-License-Identifier: MIT
 *
 * What `gpuleak top` shows of a ledger: sums, orders, growth, pools, and names that must not
 * reach a terminal as they are. Needs no debug information.
 * Links: test_live.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/util/escape.h"
#include "ledger_reported.h"
#include "report/top/live.h"
#include "report/load/load.h"
#include "ledger/options.h"
#include "report/symbols/symbolize.h"
#include "report/subjects/formats.h"
#include "report/top/trend.h"

#define MIB ((uint64_t)1 << 20)

static enum live_order order;

static struct trend trend; /* of the test under way */

static struct live *look(struct ledger_builder *builder, size_t sites)
{
	const struct live_options how = { .sites = sites, .order = order, .trend = &trend,
					  .step = true };
	struct loaded_ledger ledger;
	struct live *ret = NULL;

	reported_load(&ledger, builder);
	ret = live_build(&ledger, reported_symbolizer, &how);
	loaded_ledger_finish(&ledger);
	return ret;
}

static uint32_t add_site(struct ledger_builder *builder, const char *kind, int device, uint64_t pc)
{
	uint32_t stack = pc ? builder_stack(builder, &pc, 1, 0) : 0;

	return builder_row(builder, "cuMemAlloc_v2", kind, device, stack, 100, 1000);
}

static void sums(void **state)
{
	struct ledger_builder builder;
	uint32_t a, b, again, object, released;
	struct live *live;

	(void)state;
	builder_init(&builder);
	a = add_site(&builder, "device", 0, 0x1001);
	b = add_site(&builder, "device", 1, 0x2001);
	object = add_site(&builder, "object/cl-queue", 0, 0x3001);
	/* Threads count apart: the same site in another row. */
	again = builder_row(&builder, "cuMemAlloc_v2", "device", 0,
			    ((struct ledger_site *)builder_at(&builder, a))->stack, 1, 5);
	builder_block(&builder, a, 0x10, 5);
	builder_block(&builder, again, 0x20, 6);
	builder_block(&builder, b, 0x30, 100);
	builder_block(&builder, object, 0x40, 1000);
	released = builder_block(&builder, a, 0x50, 2000);
	((struct ledger_block *)builder_at(&builder, released))->state = LEDGER_BLOCK_RELEASED;
	/* Released while it is mapped: not freed. */
	released = builder_block(&builder, b, 0x60, 7);
	((struct ledger_block *)builder_at(&builder, released))->state = LEDGER_BLOCK_RELEASED;
	((struct ledger_block *)builder_at(&builder, released))->marked = LEDGER_BLOCK_MAPPED;
	live = look(&builder, 1);
	assert_int_equal(live->sum.bytes, 118);
	assert_int_equal(live->sum.blocks, 4);
	assert_int_equal(live->site_count, 2);
	assert_int_equal(live->sites[0].sum.bytes, 107);
	assert_int_equal(live->sites[0].site->device, 1);
	assert_int_equal(live->sites[1].sum.bytes, 11);
	assert_int_equal(live->sites[1].sum.blocks, 2);
	assert_non_null(live->sites[0].site->stack);
	assert_null(live->sites[1].site->stack); /* nobody asked for its symbols */
	assert_int_equal(live->kind_count, 2);
	assert_int_equal(live->kinds[0].device, 0);
	assert_int_equal(live->kinds[0].sum.bytes, 11);
	live_destroy(live);
	trend_finish(&trend);
	builder_finish(&builder);
}

/* Stacks that differ only in the epoch of the module map are one site. A ledger can't say at
 * another read that they are two, when the blocks of one are freed. */
static void one_site_for_equal_stacks(void **state)
{
	const uint64_t pc = 0x1001;
	uint32_t rows[2], blocks[2];
	struct ledger_builder builder;
	struct live *live;

	(void)state;
	builder_init(&builder);
	for (uint32_t epoch = 0; epoch < 2; epoch++) {
		rows[epoch] = builder_row(&builder, "cuMemAlloc_v2", "device", 0,
					  builder_stack(&builder, &pc, 1, epoch), 1, 5 + epoch);
		blocks[epoch] = builder_block(&builder, rows[epoch], 0x10 * (epoch + 1), 5 + epoch);
	}
	live = look(&builder, 10);
	assert_int_equal(live->site_count, 1);
	assert_int_equal(live->sites[0].sum.bytes, 11);
	assert_int_equal(live->sites[0].sum.blocks, 2);
	assert_int_equal(live->sites[0].allocated, 11);
	live_destroy(live);
	((struct ledger_block *)builder_at(&builder, blocks[0]))->state = LEDGER_BLOCK_UNUSED;
	live = look(&builder, 10);
	assert_int_equal(live->site_count, 1);
	assert_int_equal(live->sites[0].sum.bytes, 6);
	assert_int_equal(live->sites[0].before.bytes, 11);
	live_destroy(live);
	trend_finish(&trend);
	builder_finish(&builder);
}

/* A row that is none, and bytes without end. */
static void lies(void **state)
{
	struct ledger_builder builder;
	struct live *live;

	(void)state;
	builder_init(&builder);
	builder_block(&builder, 0xffffffff, 0x10, UINT64_MAX);
	builder_block(&builder, 7, 0x20, UINT64_MAX);
	live = look(&builder, 10);
	assert_int_equal(live->sum.bytes, UINT64_MAX);
	assert_int_equal(live->site_count, 1);
	assert_string_equal(live->sites[0].site->kind, "unknown");
	live_destroy(live);
	trend_finish(&trend);
	builder_finish(&builder);
}

static char *text_of(const struct live *now, const struct live *earlier, double seconds,
		     size_t sites)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	text_live(out, now, earlier, seconds, &(struct live_view){ .sites = sites });
	fclose(out);
	return text;
}

static void add_pools(struct ledger_builder *builder, uint32_t *ret)
{
	uint32_t api = builder_string(builder, "CUDA"), kind = builder_string(builder, "device");
	struct ledger_pools *pools;

	*ret = builder_pools(builder);
	pools = builder_at(builder, *ret);
	pools->mode = OPTION_POOL_FAST;
	pools->pool[0] = (struct ledger_pool){
		.api = api, .kind = kind, .mode = OPTION_POOL_STRICT, .hits = 100,
		.native_allocs = 100, .frees = 150, .cached = MIB, .pending = 2 * MIB,
		.reserved = 8 * MIB, .waits = 3,
	};
}

static void frames(void **state)
{
	struct ledger_builder builder;
	struct live *first, *second;
	uint32_t a, b, pools;
	char *text;

	(void)state;
	builder_init(&builder);
	builder_header(&builder)->peak_bytes = 9 * MIB;
	a = add_site(&builder, "device", 0, 0);
	b = add_site(&builder, "\x1b[2J a kind that is too long for its column", -1, 0);
	add_pools(&builder, &pools);
	builder_block(&builder, a, 0x10, 5 * MIB);
	first = look(&builder, 10);
	builder_block(&builder, a, 0x20, MIB);
	builder_block(&builder, b, 0x30, 7);
	((struct ledger_pools *)builder_at(&builder, pools))->pool[0].hits += 300;
	second = look(&builder, 1);
	text = text_of(first, NULL, 0, 10);
	assert_string_equal(
		text,
		"gpuleak top: app (pid 4242)\n"
		"live 5.0 MiB in 1 block, peak 9.0 MiB; 200 allocated so far (1.9 KiB)\n"
		"\n"
		"device  kind                            live     blocks\n"
		"     0  device memory                5.0 MiB          1\n"
		"\n"
		"pool (fast, but strict is used)         used      cached     pending    reserved"
		"    hits    calls saved      waits\n"
		"     0  device memory                5.0 MiB     1.0 MiB     2.0 MiB     8.0 MiB"
		"   50.0%            250          3\n"
		"\n"
		"        live     blocks  where\n"
		"     5.0 MiB          1  an unknown place (no stack was recorded), "
		"cuMemAlloc_v2\n");
	free(text);
	text = text_of(second, first, 2.0, 1);
	assert_string_equal(
		text,
		"gpuleak top: app (pid 4242)\n"
		"live 6.0 MiB (+1.0 MiB) in 3 blocks, peak 9.0 MiB; 200 allocated so far (1.9 "
		"KiB)\n"
		"\n"
		"device  kind                            live     blocks       growth\n"
		"     -  \\x1B[2J a kind that is t     7 bytes          1     +7 bytes\n"
		"     0  device memory                6.0 MiB          2     +1.0 MiB\n"
		"\n"
		"pool (fast, but strict is used)         used      cached     pending    reserved"
		"     hits/s    hits    calls saved      waits\n"
		"     0  device memory                5.0 MiB     1.0 MiB     2.0 MiB     8.0 MiB"
		"        150   80.0%            550          3\n"
		"\n"
		"        live     blocks       growth allocated/s  where\n"
		"     6.0 MiB          2     +1.0 MiB     0 bytes  an unknown place (no stack was "
		"recorded), cuMemAlloc_v2\n"
		"and 1 more\n");
	free(text);
	live_destroy(first);
	live_destroy(second);
	trend_finish(&trend);
	builder_finish(&builder);
}

static void suballocations(void **state)
{
	struct ledger_builder builder;
	struct live *live;
	uint32_t row;
	char *text;

	(void)state;
	builder_init(&builder);
	builder_block(&builder, add_site(&builder, "device", 0, 0), 0x1000, 5 * MIB);
	row = builder_suballocation_row(&builder, 0, 0, 9, 9000);
	for (uint64_t i = 0; i < 3; i++)
		builder_suballocation(&builder, row, 0x1000 + i * 1024, 1024);
	builder_suballocation(&builder, builder_suballocation_row(&builder, 1, 0, 1, 512), 0x9000,
			      512);
	live = look(&builder, 1);
	assert_int_equal(live->sum.bytes, 5 * MIB);
	text = text_of(live, NULL, 0, 1);
	assert_non_null(strstr(
		text,
		"\ninside the PyTorch caching allocator: 3.5 KiB in 4 tensors\n"
		"        live     number  where\n"
		"     3.0 KiB          3  an unknown place (no stack was recorded)\n"
		"and 1 more\n"
		"\n"
		"        live     blocks  where\n"
		"     5.0 MiB          1  an unknown place (no stack was recorded), "
		"cuMemAlloc_v2\n"));
	free(text);
	live_destroy(live);
	trend_finish(&trend);
	builder_finish(&builder);
}

static void add_bytes(struct ledger_builder *builder, uint32_t row, uint64_t address,
		      uint64_t bytes)
{
	struct ledger_site *counters = builder_at(builder, row);

	counters->bytes += bytes;
	counters->allocs++;
	if (address)
		builder_block(builder, row, address, bytes);
}

static void check_order(struct ledger_builder *builder, enum live_order by,
			const uint64_t *wanted_bytes, size_t count)
{
	struct live *live;

	order = by;
	live = look(builder, 10);
	assert_int_equal(live->site_count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(live->sites[i].sum.bytes, wanted_bytes[i]);
	live_destroy(live);
	order = LIVE_BY_BYTES;
}

/* One site has most bytes, one most blocks, one grows most, one allocates and frees most. */
static void orders(void **state)
{
	struct ledger_builder builder;
	uint32_t large, many, growing, busy;

	(void)state;
	builder_init(&builder);
	large = add_site(&builder, "device", 0, 0x1001);
	many = add_site(&builder, "device", 0, 0x2001);
	growing = add_site(&builder, "device", 0, 0x3001);
	busy = add_site(&builder, "device", 0, 0x4001);
	add_bytes(&builder, large, 0x10, 1000);
	for (uint64_t i = 0; i < 3; i++)
		add_bytes(&builder, many, 0x20 + i, 10);
	add_bytes(&builder, growing, 0x30, 50);
	check_order(&builder, LIVE_BY_BYTES, (uint64_t[]){ 1000, 50, 30 }, 3);
	check_order(&builder, LIVE_BY_BLOCKS, (uint64_t[]){ 30, 1000, 50 }, 3);
	add_bytes(&builder, growing, 0x31, 5);
	check_order(&builder, LIVE_BY_GROWTH, (uint64_t[]){ 55, 1000, 30 }, 3);
	add_bytes(&builder, busy, 0, 100000);
	add_bytes(&builder, busy, 0, 1); /* as known only from here on, its first look */
	check_order(&builder, LIVE_BY_RATE, (uint64_t[]){ 0, 1000, 55, 30 }, 4);
	trend_finish(&trend);
	builder_finish(&builder);
}

/* By the watcher's own steps: named at the fourth look, not before; what stays is not. */
static void growing(void **state)
{
	struct ledger_builder builder;
	uint32_t leak, cache;

	(void)state;
	builder_init(&builder);
	leak = add_site(&builder, "device", 0, 0x1001);
	cache = add_site(&builder, "device", 0, 0x2001);
	builder_block(&builder, cache, 0x1000, 100);
	for (uint64_t i = 1; i <= 20; i++) {
		struct live *live;
		char *text;

		builder_block(&builder, leak, i, 16);
		if (i < 3)
			builder_block(&builder, cache, 0x2000 + i, 1000);
		live = look(&builder, 0);
		text = text_of(live, NULL, 0, 0);
		assert_int_equal(strstr(text, "suspect: 16 bytes per step at ") != NULL, i >= 4);
		for (size_t n = 0; n < live->site_count; n++)
			assert_int_equal(live->sites[n].growing.intervals,
					 live->sites[n].sum.bytes != 16 * i || i < 4 ? 0
					 : i > 16 ? 15 : i - 1);
		free(text);
		live_destroy(live);
	}
	trend_finish(&trend);
	builder_finish(&builder);
}

static void prefixes(void **state)
{
	(void)state;
	assert_int_equal(utf8_prefix("abc", 2), 2);
	assert_int_equal(utf8_prefix("abc", 9), 3);
	assert_int_equal(utf8_prefix("\xc3\xa9t\xc3\xa9", 2), 3);
	assert_int_equal(utf8_prefix("a\xff" "b", 9), 1);
	assert_int_equal(utf8_prefix("", 1), 0);
	assert_int_equal(utf8_prefix("\xe2\x82", 1), 0); /* cut */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),
		cmocka_unit_test(one_site_for_equal_stacks),
		cmocka_unit_test(lies),
		cmocka_unit_test(frames),
		cmocka_unit_test(suballocations),
		cmocka_unit_test(orders),
		cmocka_unit_test(growing),
		cmocka_unit_test(prefixes),
	};

	return cmocka_run_group_tests(tests, reported_group_setup, reported_group_teardown);
}
