/* SPDX-License-Identifier: MIT
 *
 * The ledger reader against good, cut, foreign and hostile bytes. Worth most under ASan:
 * every copy is exactly as long as it claims to be.
 * Links: test_reader.c ledger_builder.c, ledger_dep (reader.c), cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_builder.h"
#include "ledger/reader.h"

static const enum ledger_chunk_type types[] = {
	LEDGER_CHUNK_BLOCKS, LEDGER_CHUNK_SITES, LEDGER_CHUNK_MODULES, LEDGER_CHUNK_ERRORS,
	LEDGER_CHUNK_TIMELINE,
};

static size_t size_of(enum ledger_chunk_type type)
{
	switch (type) {
	case LEDGER_CHUNK_BLOCKS:
		return sizeof(struct ledger_block);
	case LEDGER_CHUNK_SITES:
		return sizeof(struct ledger_site);
	case LEDGER_CHUNK_MODULES:
		return sizeof(struct ledger_module);
	case LEDGER_CHUNK_ERRORS:
		return sizeof(struct ledger_error);
	default:
		return sizeof(struct ledger_sample);
	}
}

static size_t count(const struct ledger_view *view, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	size_t ret = 0;

	while (ledger_next(view, &walk, type, size_of(type)))
		ret++;
	return ret;
}

static volatile uint8_t sum; /* so that no look is optimized away */

/* Touches every byte of everything that can be reached by walking and by the first refs of
 * each chunk, one chunk past the end included. */
static void visit(const struct ledger_view *view)
{
	const uint32_t refs_per_chunk = LEDGER_CHUNK / LEDGER_REF_UNIT;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ledger_walk walk = { 0 };
		const uint8_t *record;

		while ((record = ledger_next(view, &walk, types[i], size_of(types[i]))))
			for (size_t j = 0; j < size_of(types[i]); j++)
				sum += record[j];
	}
	for (uint32_t i = 0; i < (view->chunks + 1) * 128; i++) {
		uint32_t ref = i / 128 * refs_per_chunk + i % 128;
		const struct ledger_site *site = ledger_site(view, ref);
		const struct ledger_stack *stack = ledger_stack(view, ref);
		uint32_t length;
		const char *string = ledger_string(view, ref, &length);

		if (site)
			sum += (uint8_t)site->allocs;
		for (unsigned int j = 0; stack && j < stack->frames; j++)
			sum += (uint8_t)stack->pc[j];
		for (uint32_t j = 0; string && j < length; j++)
			sum += (uint8_t)string[j];
	}
}

/* The first SIZE bytes of the ledger, alone in memory. */
static uint8_t *copy_of(const struct ledger_builder *builder, size_t size)
{
	uint8_t *ret = malloc(size ? size : 1);

	assert_non_null(ret);
	if (size)
		memcpy(ret, builder->bytes, size);
	return ret;
}

static void fill(struct ledger_builder *builder)
{
	static const uint64_t pcs[] = { 0x1001, 0x1002, 0x1003 };
	struct ledger_error error = { .address = 0x10 };
	uint32_t stack, site;

	builder_init(builder);
	stack = builder_stack(builder, pcs, 3, 0);
	site = builder_row(builder, "cuMemAlloc_v2", "device", 0, stack, 2, 300);
	builder_block(builder, site, 0x10, 100);
	builder_block(builder, site, 0x20, 200);
	builder_module(builder, "/bin/app", 0x1000, 0x2000, 0, 0);
	error.type = builder_string(builder, "invalid-free");
	builder_error(builder, &error);
	builder_sample(builder, 1, 100);
}

static void test_good(void **state)
{
	struct ledger_builder builder;
	struct ledger_view view;
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;
	const struct ledger_site *site;
	const struct ledger_stack *stack;
	uint32_t length;

	(void)state;
	fill(&builder);
	assert_int_equal(ledger_view(builder.bytes, builder.size, &view), LEDGER_OK);
	assert_int_equal(view.cut, 0);
	assert_int_equal(view.chunks, builder.size / LEDGER_CHUNK);
	assert_int_equal(ledger_header(&view)->pid, 4242);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		assert_int_equal(count(&view, types[i]), types[i] == LEDGER_CHUNK_BLOCKS ? 2 : 1);
	block = ledger_next_block_slot(&view, &walk);
	site = ledger_site(&view, block->site);
	assert_non_null(site);
	assert_memory_equal(ledger_string(&view, site->api, &length), "cuMemAlloc_v2", 13);
	assert_int_equal(length, 13);
	stack = ledger_stack(&view, site->stack);
	assert_non_null(stack);
	assert_int_equal(stack->frames, 3);
	assert_int_equal(stack->pc[2], 0x1003);
	visit(&view);
	builder_finish(&builder);
}

static void test_many_chunks(void **state)
{
	struct ledger_builder builder;
	struct ledger_view view;

	(void)state;
	builder_init(&builder);
	for (unsigned int i = 0; i < 5000; i++)
		builder_block(&builder, 0, i, i);
	for (unsigned int i = 0; i < 3000; i++)
		builder_module(&builder, "/m", i, i + 1, 0, 0);
	assert_int_equal(ledger_view(builder.bytes, builder.size, &view), LEDGER_OK);
	assert_int_equal(count(&view, LEDGER_CHUNK_BLOCKS), 5000);
	assert_int_equal(count(&view, LEDGER_CHUNK_MODULES), 3000);
	builder_finish(&builder);
}

static void test_why(void **state)
{
	struct ledger_builder builder;
	struct ledger_header *header, good;
	struct ledger_view view;

	(void)state;
	fill(&builder);
	header = builder_header(&builder);
	good = *header;
#define REFUSED(why, change)                                                            \
	do {                                                                            \
		change;                                                                 \
		assert_int_equal(ledger_view(builder.bytes, builder.size, &view), why); \
		assert_true(strlen(ledger_why(why)) > 5);                               \
		*header = good;                                                         \
	} while (0)
	REFUSED(LEDGER_FOREIGN, header->magic[0] = 'g');
	REFUSED(LEDGER_FOREIGN, memset(header, 0, sizeof(*header)));
	REFUSED(LEDGER_NEWER, header->reader_min = LEDGER_VERSION + 1);
	REFUSED(LEDGER_NEWER, header->reader_min = UINT32_MAX);
	REFUSED(LEDGER_ORDER, header->byte_order = 0x04030201);
	REFUSED(LEDGER_BROKEN, header->byte_order = 0);
	REFUSED(LEDGER_BROKEN, header->chunk_bytes = 0);
	REFUSED(LEDGER_BROKEN, header->chunk_bytes = 2 * LEDGER_CHUNK);
	REFUSED(LEDGER_BROKEN, header->header_bytes = 8);
	REFUSED(LEDGER_BROKEN, header->header_bytes = UINT32_MAX);
	REFUSED(LEDGER_BROKEN, header->chunks = 0);
	REFUSED(LEDGER_BROKEN, header->chunks = UINT32_MAX);
#undef REFUSED
	/* A newer writer whose ledgers we may read. */
	header->version = LEDGER_VERSION + 1;
	header->header_bytes = sizeof(*header) + 64;
	assert_int_equal(ledger_view(builder.bytes, builder.size, &view), LEDGER_OK);
	assert_int_equal(ledger_view("", 0, &view), LEDGER_SHORT);
	assert_int_equal(ledger_view("GPU", 3, &view), LEDGER_SHORT);
	assert_int_equal(ledger_view("GPV", 3, &view), LEDGER_FOREIGN);
	assert_int_equal(ledger_view(builder.bytes, sizeof(good) - 1, &view), LEDGER_SHORT);
	builder_finish(&builder);
}

static void test_every_length(void **state)
{
	struct ledger_builder builder;

	(void)state;
	fill(&builder);
	for (size_t size = 0; size <= builder.size; size += size % LEDGER_CHUNK < 2048 ? 8 : 4096) {
		uint8_t *bytes = copy_of(&builder, size);
		struct ledger_view view;
		enum ledger_why why = ledger_view(bytes, size, &view);

		if (size < sizeof(struct ledger_header)) {
			assert_int_equal(why, LEDGER_SHORT);
		} else {
			assert_int_equal(why, LEDGER_OK);
			assert_int_equal(view.cut, size < builder.size);
			visit(&view);
		}
		free(bytes);
	}
	builder_finish(&builder);
}

static void test_hostile_chunks(void **state)
{
	static const uint32_t numbers[] = { 0, 1, 7, 63, 65, 72, 127, LEDGER_CHUNK - 1,
					    LEDGER_CHUNK + 1, 0x7fffffff, 0xfffffff8, UINT32_MAX };
	struct ledger_builder builder;
	struct ledger_view view;

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		fill(&builder);
		for (size_t at = LEDGER_CHUNK; at < builder.size; at += LEDGER_CHUNK)
			((struct ledger_chunk *)(builder.bytes + at))->used = numbers[i];
		assert_int_equal(ledger_view(builder.bytes, builder.size, &view), LEDGER_OK);
		if (numbers[i] < 64 || numbers[i] > LEDGER_CHUNK)
			assert_null(ledger_chunk(&view, 1));
		visit(&view);
		for (size_t at = LEDGER_CHUNK; at < builder.size; at += LEDGER_CHUNK)
			((struct ledger_chunk *)(builder.bytes + at))->type = numbers[i];
		visit(&view);
		builder_finish(&builder);
	}
}

static void test_hostile_refs(void **state)
{
	struct ledger_builder builder;
	struct ledger_view view;
	uint32_t stack, string, site, inner, length;
	uint64_t pc = 1;

	(void)state;
	builder_init(&builder);
	stack = builder_stack(&builder, &pc, 1, 0);
	string = builder_string(&builder, "text");
	site = builder_row(&builder, "api", "kind", 0, stack, 1, 1);
	inner = builder_suballocation_row(&builder, 0, stack, 1, 1);
	assert_int_equal(ledger_view(builder.bytes, builder.size, &view), LEDGER_OK);
	assert_null(ledger_site(&view, inner));
	assert_null(ledger_suballocation_site(&view, site));
	assert_ptr_equal(ledger_any_site(&view, site), ledger_site(&view, site));
	assert_ptr_equal(ledger_any_site(&view, inner), ledger_suballocation_site(&view, inner));
	assert_non_null(ledger_any_site(&view, site));
	assert_non_null(ledger_any_site(&view, inner));
	assert_null(ledger_any_site(&view, stack));
	assert_null(ledger_site(&view, 0));
	assert_null(ledger_site(&view, site + 1));
	assert_null(ledger_site(&view, stack));
	assert_null(ledger_site(&view, UINT32_MAX));
	assert_null(ledger_stack(&view, 1));
	assert_null(ledger_stack(&view, stack - 1));
	assert_null(ledger_stack(&view, UINT32_MAX));
	assert_null(ledger_string(&view, site, &length));
	assert_null(ledger_string(&view, UINT32_MAX, &length));

	((struct ledger_stack *)builder_at(&builder, stack))->frames = 2;
	assert_null(ledger_stack(&view, stack));
	((struct ledger_stack *)builder_at(&builder, stack))->frames = UINT16_MAX;
	assert_null(ledger_stack(&view, stack));
	*(uint32_t *)builder_at(&builder, string) = LEDGER_CHUNK;
	assert_null(ledger_string(&view, string, &length));
	*(uint32_t *)builder_at(&builder, string) = UINT32_MAX;
	assert_null(ledger_string(&view, string, &length));
	builder_finish(&builder);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_many_chunks),
		cmocka_unit_test(test_why),
		cmocka_unit_test(test_every_length),
		cmocka_unit_test(test_hostile_chunks),
		cmocka_unit_test(test_hostile_refs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
