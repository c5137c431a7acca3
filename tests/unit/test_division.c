/* SPDX-License-Identifier: MIT
 *
 * How the bytes of blocks are divided among the suballocations in them: no byte twice, none lost.
 * A block that accumulated is in one list, too: of what accumulates, or of leaks. What keeps the
 * blocks of a call site is added to these lists.
 * Links: test_division.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_builder.h"
#include "ledger_reported.h"
#include "ledger/live_series.h"
#include "report/subjects/formats.h"
#include "report/subjects/subject_words.h"
#include "report/model/model.h"
#include "report/model/model_fragmentation.h"
#include "report/model/model_suballocations.h"
#include "report/subjects/subject.h"

#define MiB (1024ull * 1024)
#define SEGMENT 0x7f0000000000ull

struct made {
	struct ledger_builder builder;
	struct reported reported;
	const struct report_process *process;
};

static void begin(struct made *made)
{
	*made = (struct made){ 0 };
	builder_init(&made->builder);
}

static void report(struct made *made)
{
	made->process = reported_begin(&made->reported, &made->builder);
}

static void finish(struct made *made)
{
	reported_finish(&made->reported);
	builder_finish(&made->builder);
}

/* A block of KIND that is a call site of its own. */
static uint32_t block(struct made *made, const char *kind, int device, uint64_t address,
		      uint64_t bytes)
{
	uint32_t row = builder_row(&made->builder, "cuMemAlloc_v2", kind, device, 0, 1, bytes);

	return builder_block(&made->builder, row, address, bytes);
}

/* COUNT suballocations of BYTES each, one call site, one after the other from ADDRESS on. */
static void parts(struct made *made, int device, uint64_t address, uint64_t bytes, int count)
{
	uint32_t row = builder_suballocation_row(&made->builder, device, 0, (uint64_t)count,
						 (uint64_t)count * bytes);

	for (int i = 0; i < count; i++)
		builder_suballocation(&made->builder, row, address + (uint64_t)i * bytes, bytes);
}

/* Checks the blocks' bytes in suballocations, and the bytes beside blocks. */
static void expect(const struct made *made, uint64_t used, uint64_t outside_bytes,
		   uint64_t doubled_bytes)
{
	const struct report_process *process = made->process;
	uint64_t all = 0, outside = 0, doubled = 0, live = 0;

	for (size_t i = 0; i < process->leak_count; i++) {
		assert_true(process->leaks[i].used_bytes <= process->leaks[i].bytes);
		all += process->leaks[i].used_bytes;
	}
	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];

		live += entry->live.bytes;
		outside += entry->places.outside_bytes;
		doubled += entry->places.doubled_bytes;
	}
	assert_int_equal(all, used);
	assert_int_equal(outside, outside_bytes);
	assert_int_equal(doubled, doubled_bytes);
	assert_int_equal(live, used + outside + doubled);
}

static void test_whole(void **state)
{
	struct made made;

	(void)state;
	begin(&made);
	block(&made, "device", 0, SEGMENT, 2 * MiB);
	block(&made, "device", 0, SEGMENT + 4 * MiB, 2 * MiB);
	parts(&made, 0, SEGMENT, 4096, 512); /* all of the first block */
	parts(&made, 0, SEGMENT + 4 * MiB + 512, 1024, 1);
	report(&made);
	assert_int_equal(made.process->leak_count, 1);
	expect(&made, 2 * MiB + 1024, 0, 0);
	finish(&made);
}

static void test_over_the_edge(void **state)
{
	struct made made;
	const struct report_places *places;

	(void)state;
	begin(&made);
	block(&made, "device", 0, SEGMENT, MiB);
	block(&made, "stream-ordered", 0, SEGMENT + MiB, MiB);
	parts(&made, 0, SEGMENT - 512, 1024, 1);
	parts(&made, 0, SEGMENT + MiB - 100, 300, 1); /* over two blocks */
	parts(&made, 0, SEGMENT + 2 * MiB - 10, 4096, 1);
	parts(&made, 0, SEGMENT + 8 * MiB, 70, 2);
	report(&made);
	expect(&made, 512 + 300 + 10, 512 + 4086 + 140, 0);
	places = &made.process->suballocations[0].places;
	assert_int_equal(made.process->suballocation_count, 1);
	assert_int_equal(places->partly_blocks, 2);
	assert_int_equal(places->outside_blocks, 2);
	finish(&made);
}

static void test_other_device(void **state)
{
	struct made made;

	(void)state;
	begin(&made);
	block(&made, "device", 0, SEGMENT, MiB);
	block(&made, "managed", -1, SEGMENT + MiB, MiB);
	parts(&made, 1, SEGMENT, 1000, 1); /* wrong */
	parts(&made, 1, SEGMENT + MiB, 2000, 1); /* the block's device is unknown */
	parts(&made, 0, SEGMENT + 5000, 4000, 1);
	report(&made);
	expect(&made, 6000, 1000, 0);
	finish(&made);
}

static void test_no_memory_of_a_device(void **state)
{
	struct made made;
	uint32_t freed;

	(void)state;
	begin(&made);
	freed = block(&made, "device", 0, SEGMENT, MiB);
	((struct ledger_block *)builder_at(&made.builder, freed))->state = 2u << 8;
	block(&made, "array", 0, SEGMENT, MiB); /* a handle that looks like an address */
	block(&made, "pinned", 0, SEGMENT, MiB);
	block(&made, "new kind", 0, SEGMENT, MiB);
	parts(&made, 0, SEGMENT, 1000, 3);
	report(&made);
	expect(&made, 0, 3000, 0);
	assert_int_equal(made.process->suballocations[0].places.outside_blocks, 3);
	finish(&made);
}

static void test_overlap(void **state)
{
	struct made made;

	(void)state;
	begin(&made);
	block(&made, "device", 0, SEGMENT, MiB);
	block(&made, "device", 0, SEGMENT + 1000, MiB);
	parts(&made, 0, SEGMENT, 1000, 1);
	parts(&made, 0, SEGMENT + 200, 1000, 1); /* 800 of it again */
	parts(&made, 0, SEGMENT + 300, 100, 1);  /* all of it again */
	parts(&made, 0, SEGMENT + MiB - 50, 100, 1); /* over the end of the first block */
	report(&made);
	expect(&made, 1300, 0, 900);
	finish(&made);
}

static void test_mapped(void **state)
{
	struct made made;
	uint32_t mapping;

	(void)state;
	begin(&made);
	block(&made, "vmm-handle", 0, 0x1234, 2 * MiB);
	for (int i = 0; i < 2; i++) { /* the same memory, twice */
		mapping = block(&made, "vmm-mapping", 0, SEGMENT + (uint64_t)i * 2 * MiB, 0);
		((struct ledger_block *)builder_at(&made.builder, mapping))->parent = 0x1234;
	}
	block(&made, "vmm-mapping", 0, SEGMENT + 4 * MiB, MiB); /* the handle was released */
	mapping = block(&made, "vmm-mapping", 0, SEGMENT + 8 * MiB, 0);
	((struct ledger_block *)builder_at(&made.builder, mapping))->parent = 0x9999;
	parts(&made, 0, SEGMENT + MiB, 3 * MiB + 100, 1); /* over all three */
	parts(&made, 0, SEGMENT + 8 * MiB, 100, 1);
	report(&made);
	expect(&made, 2 * MiB + 100, 100, MiB);
	finish(&made);
}

static void test_extremes(void **state)
{
	struct made made;

	(void)state;
	begin(&made);
	block(&made, "device", 0, UINT64_MAX - 1000, UINT64_MAX);
	block(&made, "device", 0, 0, 100);
	parts(&made, 0, UINT64_MAX - 900, 500, 1);
	parts(&made, 0, 10, 0, 3);
	parts(&made, 0, 40, 10, 2);
	report(&made);
	expect(&made, 520, 0, 0);
	assert_int_equal(made.process->suballocations[0].places.outside_blocks, 0);
	finish(&made);
}

static void test_selected(void **state)
{
	struct made made;
	struct loaded_ledger *ledger = &made.reported.ledger;
	struct report_process *process;
	uint32_t row, part;

	(void)state;
	begin(&made);
	block(&made, "device", 0, SEGMENT, MiB);
	row = builder_suballocation_row(&made.builder, 0, 0, 9, 9 * 1024);
	for (unsigned int i = 0; i < 3; i++) {
		part = builder_suballocation(&made.builder, row, SEGMENT + i * 1024, 1024);
		((struct ledger_block *)builder_at(&made.builder, part))->thread = i;
	}
	report(&made);
	assert_int_equal(made.process->suballocations[0].live.blocks, 3);
	assert_int_equal(made.process->suballocations[0].freed_blocks, 6);
	ledger->choice = (struct load_choice){ .thread = 2 };
	process = report_process_build(ledger, made.reported.symbolizer, NULL);
	assert_int_equal(process->suballocation_count, 1);
	assert_int_equal(process->suballocations[0].live.bytes, 1024);
	assert_int_equal(process->suballocations[0].freed_blocks, 6);
	report_process_destroy(process);
	ledger->choice = (struct load_choice){ .address = SEGMENT + 1025 };
	process = report_process_build(ledger, made.reported.symbolizer, NULL);
	assert_int_equal(process->suballocations[0].live.blocks, 1);
	assert_int_equal(process->leak_count, 1); /* the block that has the address, too */
	assert_int_equal(process->leaks[0].used_bytes, 3072);
	report_process_destroy(process);
	finish(&made);
}

/* A call site of blocks with SERIES. */
static uint32_t counted(struct made *made, const char *api, const struct ledger_live_series *series)
{
	uint32_t at = builder_live_series(&made->builder, series);
	uint32_t row = builder_row(&made->builder, api, "device", 0, 0, 200, 200 * 512);

	((struct ledger_site *)builder_at(&made->builder, row))->series = at;
	return row;
}

/* Two call sites that allocate 200 blocks each. One frees its blocks only at the end. Returns the
 * ref of its record. */
static uint32_t keep_blocks(struct made *made)
{
	struct ledger_live_series work = { 0 }, kept = { 0 }, *series[] = { &work, &kept };
	struct live_moment now = { 0, 0, 1 };

	begin(made);
	for (int i = 0; i < 400; i++) {
		if (live_series_is_due(series[i % 2], now.suballocated))
			live_series_begin(series[i % 2], &now);
		live_series_add(series[i % 2], live_amount(512));
		now.suballocated++;
		now.allocs = now.suballocated / 2;
		if (i % 2 == 0)
			live_series_remove_shared(&work, live_amount(512));
	}
	for (int i = 0; i < 200; i++)
		live_series_remove_shared(&kept, live_amount(512));
	builder_header(&made->builder)->suballocated = now.suballocated;
	counted(made, "cuMemAlloc_v2", &work);
	return counted(made, "cuMemAllocManaged", &kept);
}

static void blocks_that_accumulate(void **state)
{
	const struct report_suballocations *entry;
	struct made made;

	(void)state;
	keep_blocks(&made);
	report(&made);
	assert_int_equal(made.process->suballocation_count, 1);
	entry = &made.process->suballocations[0];
	assert_int_equal(entry->trend, TREND_ACCUMULATING);
	assert_string_equal(entry->live.site->api, "cuMemAllocManaged");
	assert_null(entry->live.cache);
	assert_int_equal(entry->live.blocks, 0);
	assert_int_equal(entry->kept_blocks, 200);
	assert_int_equal(entry->kept_bytes, 200 * 512);
	assert_int_equal(entry->freed_blocks, 200);
	assert_true(made.process->has_counted_blocks);
	assert_false(made.process->has_suballocations);
	assert_int_equal(made.process->unsampled_suballocations, 0);
	finish(&made);
}

/* A call site with a live block is a leak, and nothing else. */
static void blocks_that_leak(void **state)
{
	struct made made;

	(void)state;
	builder_block(&made.builder, keep_blocks(&made), SEGMENT, 512);
	report(&made);
	assert_int_equal(made.process->suballocation_count, 0);
	assert_int_equal(made.process->leak_count, 1);
	assert_int_equal(made.process->unsampled_suballocations, 0);
	finish(&made);
}

/* A series that does not exist, or that contradicts the live blocks, is not used, and the gate
 * learns it. */
static void damaged_series(void **state)
{
	struct made made;
	uint32_t row;

	(void)state;
	row = keep_blocks(&made);
	((struct ledger_site *)builder_at(&made.builder, row))->series = UINT32_MAX;
	report(&made);
	assert_int_equal(made.process->suballocation_count, 0);
	assert_int_equal(made.process->unsampled_suballocations, 1);
	finish(&made);
	row = keep_blocks(&made);
	for (uint64_t i = 0; i < 100; i++)
		builder_block(&made.builder, row, SEGMENT + i * 512, 512);
	report(&made);
	assert_int_equal(made.process->unsampled_suballocations, 1);
	finish(&made);
}

/* ---- what keeps the blocks of a call site ---- */

/* ---- streams ---- */

/* A segment of 1 MiB at PLACE * 4 MiB that was allocated at TIME_NS, with a tensor of 512 bytes. */
static void with_tensor(struct made *made, unsigned int place, uint64_t time_ns)
{
	const uint64_t address = SEGMENT + place * 4 * MiB;
	struct ledger_block *added;

	added = builder_at(&made->builder, block(made, "device", 0, address, MiB));
	added->time_ns = time_ns;
	parts(made, 0, address, 512, 1);
}

/* What a cache reported at the time 5 of BYTES at PLACE * 4 MiB. */
static void reported_segment(struct made *made, unsigned int place, uint64_t bytes,
			     uint64_t stream, uint64_t pool)
{
	const struct ledger_segment segment = { SEGMENT + place * 4 * MiB, bytes, stream, pool, 5 };

	builder_segment(&made->builder, &segment);
}

/* Each segment has the stream that the cache reported for all of it, unless it is younger. */
static void test_streams(void **state)
{
	static const struct {
		bool known;
		uint64_t stream, pool, segments;
	} wanted[] = {
		{ false, 0, 0, 3 }, { true, 0, 0, 3 }, { true, 7, 0, 1 }, { true, 7, 1, 1 },
	};
	const struct report_fragmentations *all;
	struct made made;

	(void)state;
	begin(&made);
	for (unsigned int place = 0; place < 8; place++)
		with_tensor(&made, place, place == 5 ? 6 : 5);
	reported_segment(&made, 7, UINT64_MAX, 0, 0); /* more than there are addresses */
	reported_segment(&made, 0, 5 * MiB, 0, 0);    /* the segments of two places */
	reported_segment(&made, 2, MiB, 7, 0);
	reported_segment(&made, 3, MiB, 7, 1);
	reported_segment(&made, 4, MiB - 1, 7, 0); /* not all of it */
	reported_segment(&made, 5, MiB, 7, 0);
	report(&made);
	all = made.process->fragmentation;
	assert_int_equal(all->count, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(all->list[i].segments, wanted[i].segments);
		assert_int_equal(all->list[i].used_bytes, 512 * wanted[i].segments);
		assert_int_equal(all->list[i].segment != NULL, wanted[i].known);
		if (!wanted[i].known)
			continue;
		assert_int_equal(all->list[i].segment->stream, wanted[i].stream);
		assert_int_equal(all->list[i].segment->pool, wanted[i].pool);
	}
	finish(&made);
}

static void keep(struct made *made, uint32_t site, const char *text)
{
	builder_keepers(&made->builder, site, text, strlen(text));
}

static void keepers_of_both(void **state)
{
	struct made made;
	const struct report_keepers *found;
	uint32_t row, part;

	(void)state;
	begin(&made);
	row = builder_row(&made.builder, "cuMemAlloc_v2", "device", 0, 0, 2, 200);
	builder_block(&made.builder, row, SEGMENT, 100);
	part = builder_suballocation_row(&made.builder, 0, 0, 1, 50);
	builder_suballocation(&made.builder, part, SEGMENT, 50);
	block(&made, "managed", 0, SEGMENT + MiB, 100);
	keep(&made, row, "3 list `a`\n12345 dict `b`\n0 a remark");
	keep(&made, part, "1 `c`\n");
	report(&made);
	assert_int_equal(made.process->leak_count, 2);
	found = made.process->leaks[0].keepers ? made.process->leaks[0].keepers
					       : made.process->leaks[1].keepers;
	assert_true(!made.process->leaks[0].keepers != !made.process->leaks[1].keepers);
	assert_int_equal(found->count, 3);
	assert_int_equal(found->time_ns, 1500000000);
	assert_int_equal(found->list[0].blocks, 3);
	assert_string_equal(found->list[0].text, "list `a`");
	assert_int_equal(found->list[1].blocks, 12345);
	assert_string_equal(found->list[1].text, "dict `b`");
	assert_int_equal(found->list[2].blocks, 0);
	assert_string_equal(found->list[2].text, "a remark");
	found = made.process->suballocations[0].live.keepers;
	assert_int_equal(found->count, 1);
	assert_string_equal(found->list[0].text, "`c`");
	finish(&made);
}

/* The same call on another device has keepers of its own, and suppressed blocks have theirs. */
static void keepers_of_one_site(void **state)
{
	struct made made;
	uint32_t row, ignored;

	(void)state;
	begin(&made);
	row = builder_row(&made.builder, "cuMemAlloc_v2", "device", 0, 0, 1, 100);
	builder_block(&made.builder, row, SEGMENT, 100);
	row = builder_row(&made.builder, "cuMemAlloc_v2", "device", 1, 0, 1, 100);
	builder_block(&made.builder, row, SEGMENT + MiB, 100);
	keep(&made, row, "1 `b`\n");
	row = builder_row(&made.builder, "cuMemAlloc_v2", "managed", 0, 0, 1, 100);
	ignored = builder_block(&made.builder, row, SEGMENT + 2 * MiB, 100);
	((struct ledger_block *)builder_at(&made.builder, ignored))->marked |= LEDGER_BLOCK_IGNORED;
	keep(&made, row, "1 `c`\n");
	report(&made);
	assert_int_equal(made.process->leak_count, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(made.process->leaks[i].keepers != NULL,
				 made.process->leaks[i].site->device == 1);
	assert_int_equal(made.process->suppressed_count, 1);
	assert_non_null(made.process->suppressed[0].keepers);
	assert_string_equal(made.process->suppressed[0].keepers->list[0].text, "`c`");
	finish(&made);
}

/* The program wrote the text. */
static void keepers_in_words(void **state)
{
	struct report_keeper list[] = { { 1234, "list `a\x1b[2J`" }, { 0, "a\nremark" } };
	const struct report_keepers keepers = { 1500000000, list, 2 };
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	assert_non_null(out);
	describe_keepers(out, &keepers);
	fclose(out);
	assert_string_equal(text, "  Kept after 1.50 s by:\n    1,234: list `a\\x1B[2J`\n"
				  "    (a\\x0Aremark)\n");
	free(text);
}

/* Two call sites that one variable keeps are one leak, whose first line names the variable. */
static void one_keeper(void **state)
{
	struct made made;
	uint32_t row;
	size_t length;
	char *text;
	FILE *out;

	(void)state;
	begin(&made);
	row = builder_row(&made.builder, "cuMemAlloc_v2", "device", 0, 0, 1, 100);
	builder_block(&made.builder, row, SEGMENT, 100);
	keep(&made, row, "1 list `a` in main() (/x.py:5), `a[0]`\n0 a remark");
	row = builder_row(&made.builder, "cuMemAllocPitch_v2", "device", 0, 0, 1, 60);
	builder_block(&made.builder, row, SEGMENT + MiB, 60);
	keep(&made, row, "1 list `a` in main() (/x.py:5), `a[1]`\n");
	row = builder_row(&made.builder, "cuMemAllocAsync", "device", 0, 0, 1, 30);
	builder_block(&made.builder, row, SEGMENT + 2 * MiB, 30);
	report(&made);
	assert_int_equal(made.process->leak_count, 3);
	out = open_memstream(&text, &length);
	assert_int_equal(print_text(&made.reported.report, NULL, out), 0);
	fclose(out);
	assert_non_null(strstr(text, "gpuleak: 2 leaks, 190 bytes in 3 blocks never freed, most "
				     "(160 bytes) at an unknown place (no stack was recorded), "
				     "kept by list `a` in main() (/x.py:5)\n"));
	assert_non_null(strstr(text, "\nLeak of 160 bytes in 2 blocks ("));
	assert_non_null(strstr(text, "\n  Of this 60 bytes in 1 block by another stack\n"));
	free(text);
	finish(&made);
}

static void damaged_keepers(void **state)
{
	struct ledger_keepers *record;
	struct made made;
	uint32_t row;

	(void)state;
	begin(&made);
	row = builder_row(&made.builder, "cuMemAlloc_v2", "device", 0, 0, 2, 200);
	builder_block(&made.builder, row, SEGMENT, 100);
	keep(&made, 0, "1 no call site\n");
	keep(&made, row + 1, "1 no call site either\n");
	builder_keepers(&made.builder, row, "1 longer than the record\n", LEDGER_KEEPERS_TEXT + 1);
	keep(&made, row, "");
	keep(&made, row, "\n \n7\n7 \n-1 x\nx\n99999999999999999999 x\n");
	keep(&made, row, "1 being written\n");
	record = (struct ledger_keepers *)builder_at(&made.builder,
						     builder_keepers(&made.builder, row, "1 x", 3));
	record[-1].began++;
	record->done++;
	report(&made);
	assert_int_equal(made.process->leak_count, 1);
	assert_null(made.process->leaks[0].keepers);
	finish(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_over_the_edge),
		cmocka_unit_test(test_other_device),
		cmocka_unit_test(test_no_memory_of_a_device),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_selected),
		cmocka_unit_test(blocks_that_accumulate),
		cmocka_unit_test(blocks_that_leak),
		cmocka_unit_test(damaged_series),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(keepers_of_both),
		cmocka_unit_test(keepers_of_one_site),
		cmocka_unit_test(keepers_in_words),
		cmocka_unit_test(one_keeper),
		cmocka_unit_test(damaged_keepers),
	};

	return cmocka_run_group_tests(tests, reported_group_setup, reported_group_teardown);
}
