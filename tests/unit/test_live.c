/* SPDX-License-Identifier: MIT
 *
 * What `gpuleak top` shows of a ledger: sums, order, growth, pools, and names that must not
 * reach a terminal as they are. Needs no debug information.
 * Links: test_live.c ledger_builder.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "escape.h"
#include "ledger_builder.h"
#include "live.h"
#include "load.h"
#include "options.h"
#include "symbolize.h"
#include "text_live.h"

#define MIB ((uint64_t)1 << 20)

static struct symbolizer *symbolizer;

static struct live *look(struct ledger_builder *builder, size_t sites)
{
	struct loaded_ledger ledger;
	struct live *ret = NULL;
	char error[256];

	assert_int_equal(loaded_ledger_copy(builder->bytes, builder->size, "test", &ledger, error,
					    sizeof(error)), 0);
	assert_int_equal(live_build(&ledger, symbolizer, sites, &ret), 0);
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
			    ((struct ledger_row *)builder_at(&builder, a))->stack, 1, 5);
	builder_block(&builder, a, 0x10, 5);
	builder_block(&builder, again, 0x20, 6);
	builder_block(&builder, b, 0x30, 100);
	builder_block(&builder, object, 0x40, 1000);
	released = builder_block(&builder, a, 0x50, 2000);
	((struct ledger_block *)builder_at(&builder, released))->state = LEDGER_BLOCK_RELEASED;
	live = look(&builder, 1);
	assert_int_equal(live->sum.bytes, 111);
	assert_int_equal(live->sum.blocks, 3);
	assert_int_equal(live->site_count, 2);
	assert_int_equal(live->sites[0].sum.bytes, 100);
	assert_int_equal(live->sites[0].device, 1);
	assert_int_equal(live->sites[1].sum.bytes, 11);
	assert_int_equal(live->sites[1].sum.blocks, 2);
	assert_non_null(live->sites[0].stack);
	assert_null(live->sites[1].stack); /* nobody asked for its symbols */
	assert_int_equal(live->kind_count, 2);
	assert_int_equal(live->kinds[0].device, 0);
	assert_int_equal(live->kinds[0].sum.bytes, 11);
	live_destroy(live);
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
	assert_string_equal(live->sites[0].kind, "unknown");
	live_destroy(live);
	builder_finish(&builder);
}

static char *text_of(const struct live *now, const struct live *earlier, double seconds,
		     size_t sites)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	text_live(out, now, earlier, seconds, sites);
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
		"pool (fast, in fact strict)             used      cached     pending    reserved"
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
		"pool (fast, in fact strict)             used      cached     pending    reserved"
		"     hits/s    hits    calls saved      waits\n"
		"     0  device memory                5.0 MiB     1.0 MiB     2.0 MiB     8.0 MiB"
		"        150   80.0%            550          3\n"
		"\n"
		"        live     blocks       growth  where\n"
		"     6.0 MiB          2     +1.0 MiB  an unknown place (no stack was recorded), "
		"cuMemAlloc_v2\n"
		"and 1 more\n");
	free(text);
	live_destroy(first);
	live_destroy(second);
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

static int start(void **state)
{
	(void)state;
	return symbolizer_create(SYMBOLIZER_NO_FILES, &symbolizer);
}

static int stop(void **state)
{
	(void)state;
	symbolizer_destroy(symbolizer);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),
		cmocka_unit_test(lies),
		cmocka_unit_test(frames),
		cmocka_unit_test(prefixes),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
