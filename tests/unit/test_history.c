/* SPDX-License-Identifier: MIT
 *
 * What a report makes of handles: histories and who belongs to whom in them, what was
 * released and not freed, what holds it, and objects that are no memory. Then the same
 * ledger with lies in it.
 * Links: test_history.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_reported.h"
#include "report/model/model.h"
#include "report/subjects/formats.h"
#include "report/subjects/subject_words.h"

struct fixture {
	struct ledger_builder builder;
	struct reported reported;
	uint32_t retain, release; /* names of calls */
};

static void begin(struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	builder_init(&fixture->builder);
	builder_module(&fixture->builder, "/bin/app", 0x1000, 0x9000, 0x1000, 0);
	fixture->retain = builder_string(&fixture->builder, "clRetainMemObject");
	fixture->release = builder_string(&fixture->builder, "clReleaseMemObject");
}

static const struct report_process *build(struct fixture *fixture)
{
	return reported_begin(&fixture->reported, &fixture->builder);
}

static void forget(struct fixture *fixture)
{
	reported_finish(&fixture->reported);
}

static void end(struct fixture *fixture)
{
	forget(fixture);
	builder_finish(&fixture->builder);
}

static void print(const struct report *report, char **ret_text)
{
	size_t size;
	FILE *out = open_memstream(ret_text, &size);

	assert_non_null(out);
	assert_int_equal(print_text(report, NULL, out), 0);
	assert_int_equal(print_json(report, NULL, out), 0);
	fclose(out);
}

/* Innermost PC, then MIDDLE, then main's. */
static uint32_t stack_of(struct fixture *fixture, uint64_t pc, uint64_t middle, uint64_t outer)
{
	uint64_t pcs[] = { pc, middle, outer };

	return builder_stack(&fixture->builder, pcs, 3, 0);
}

static uint32_t buffer(struct fixture *fixture, uint32_t stack, uint64_t address)
{
	return builder_block(&fixture->builder,
			     builder_row(&fixture->builder, "clCreateBuffer", "cl-buffer", 0, stack,
					 1, 100),
			     address, 100);
}

static struct ledger_block *block_at(struct fixture *fixture, uint32_t ref)
{
	return builder_at(&fixture->builder, ref);
}

static struct ledger_history *history_at(struct fixture *fixture, uint32_t ref)
{
	return builder_at(&fixture->builder, ref);
}

static void set_released(struct fixture *fixture, uint32_t ref)
{
	block_at(fixture, ref)->state = 1u << 8 | LEDGER_BLOCK_RELEASED;
}

/* Two owners; the one that shares most callers with the release is its partner, though the
 * other came later. */
static void test_partners(void **state)
{
	struct fixture fixture;
	const struct report_history *history;
	uint32_t made, first, second, dropped, ref, block;

	(void)state;
	begin(&fixture);
	made = stack_of(&fixture, 0x1100, 0x1200, 0x1300);
	first = stack_of(&fixture, 0x2100, 0x2200, 0x1310);
	second = stack_of(&fixture, 0x3100, 0x3200, 0x1320);
	dropped = stack_of(&fixture, 0x4100, 0x2200, 0x1310);
	block = buffer(&fixture, made, 0x10);
	block_at(&fixture, block)->references = 2;
	ref = builder_history(&fixture.builder, block);
	builder_event(&fixture.builder, ref, LEDGER_RETAIN, fixture.retain, first);
	builder_event(&fixture.builder, ref, LEDGER_RETAIN, fixture.retain, second);
	builder_event(&fixture.builder, ref, LEDGER_RELEASE, fixture.release, dropped);
	history_at(&fixture, ref)->kept |= 7ull << 32;
	history = build(&fixture)->leaks[0].history;
	assert_non_null(history);
	assert_int_equal(history->count, 4);
	assert_int_equal(history->references, 2);
	assert_int_equal(history->left_out, 7);
	assert_int_equal(history->complete, 1);
	assert_int_equal(history->events[0].op, REPORT_CREATE);
	assert_int_equal(history->events[0].partner, -1);
	assert_int_equal(history->events[1].partner, 3);
	assert_int_equal(history->events[2].partner, -1);
	assert_int_equal(history->events[3].partner, 1);
	assert_int_equal(history->events[3].guess, 1);
	end(&fixture);
}

/* A release when nothing but the creator's reference is open is no guess; the latest of two
 * equal ones is one. */
static void test_guesses(void **state)
{
	struct fixture fixture;
	const struct report_history *history;
	uint32_t here, ref, block;

	(void)state;
	begin(&fixture);
	here = stack_of(&fixture, 0x1100, 0x1200, 0x1300);
	block = buffer(&fixture, here, 0x10);
	ref = builder_history(&fixture.builder, block);
	builder_event(&fixture.builder, ref, LEDGER_RELEASE, fixture.release, here);
	builder_event(&fixture.builder, ref, LEDGER_RETAIN, fixture.retain, here);
	builder_event(&fixture.builder, ref, LEDGER_RETAIN, fixture.retain, here);
	builder_event(&fixture.builder, ref, LEDGER_RELEASE, fixture.release, here);
	history = build(&fixture)->leaks[0].history;
	assert_int_equal(history->events[1].partner, 0);
	assert_int_equal(history->events[1].guess, 0);
	assert_int_equal(history->events[4].partner, 3);
	assert_int_equal(history->events[4].guess, 1);
	assert_int_equal(history->events[2].partner, -1);
	assert_int_equal(history->complete, 1);
	end(&fixture);
}

/* What does not add up is not called complete, and one block's history is not another's. */
static void test_lies(void **state)
{
	struct fixture fixture;
	const struct report_process *process;
	uint32_t here, ref, block, other;

	(void)state;
	begin(&fixture);
	here = stack_of(&fixture, 0x1100, 0x1200, 0x1300);
	block = buffer(&fixture, here, 0x10);
	other = buffer(&fixture, here, 0x20);
	ref = builder_history(&fixture.builder, block);
	builder_event(&fixture.builder, ref, LEDGER_RETAIN, fixture.retain, here);
	process = build(&fixture);
	assert_int_equal(process->leaks[0].history->complete, 0);
	forget(&fixture);

	block_at(&fixture, block)->history = 0;
	block_at(&fixture, other)->history = ref;
	assert_null(build(&fixture)->leaks[0].history);
	forget(&fixture);

	block_at(&fixture, other)->history = 0;
	block_at(&fixture, block)->history = ref + 3; /* into the middle of it */
	assert_null(build(&fixture)->leaks[0].history);
	end(&fixture);
}

static void fill_released(struct fixture *fixture, uint32_t ret_refs[4])
{
	uint32_t here = stack_of(fixture, 0x1100, 0x1200, 0x1300), kernel_row, part_row, history;
	uint32_t block = buffer(fixture, here, 0x1000);

	set_released(fixture, block);
	history = builder_history(&fixture->builder, block);
	builder_event(&fixture->builder, history, LEDGER_RELEASE, fixture->release, here);
	kernel_row = builder_row(&fixture->builder, "clCreateKernel", "object/cl-kernel", -1, here,
				 1, 0);
	ret_refs[0] = block;
	ret_refs[1] = builder_block(&fixture->builder, kernel_row, 0x2000, 0);
	ret_refs[2] = builder_kernel_args(&fixture->builder, ret_refs[1], block);
	part_row = builder_row(&fixture->builder, "clCreateSubBuffer", "cl-sub-buffer", 0, here, 1,
			       50);
	ret_refs[3] = builder_block(&fixture->builder, part_row, 0x3000, 50);
	block_at(fixture, ret_refs[3])->parent = 0x1000;
	builder_header(&fixture->builder)->released_peak_bytes = 4242;
	builder_header(&fixture->builder)->longest_wait = 2;
	builder_header(&fixture->builder)->waits[0].ns = 7;
	builder_header(&fixture->builder)->waits[1] = (struct ledger_wait){
		.ns = 5000000, .bytes = 77, .site = part_row, .api = fixture->release,
		.stack = here,
	};
}

static void test_released(void **state)
{
	struct fixture fixture;
	const struct report_process *process;
	const struct report_deferred *held;
	uint32_t refs[4];
	char *text;

	(void)state;
	begin(&fixture);
	fill_released(&fixture, refs);
	process = build(&fixture);
	assert_int_equal(process->leak_count, 1); /* the part, and nothing else */
	assert_int_equal(process->summary.leaked_bytes, 50);
	assert_int_equal(process->summary.allocated_blocks, 2);
	assert_int_equal(process->summary.freed_blocks, 0);
	assert_int_equal(process->summary.deferred_blocks, 1);
	assert_int_equal(process->object_count, 1);
	assert_string_equal(process->objects[0].site->kind, "object/cl-kernel");
	assert_int_equal(process->deferred.peak_bytes, 4242);
	assert_int_equal(process->deferred.longest_wait_ns, 5000000);
	assert_int_equal(process->deferred.longest.bytes, 77);
	assert_int_equal(process->deferred.group_count, 1);
	held = &process->deferred.groups[0];
	assert_string_equal(held->released.api, "clReleaseMemObject");
	assert_int_equal(held->released_ns, 100);
	assert_non_null(held->holders);
	assert_string_equal(held->holders->what, "kernel");
	assert_string_equal(held->holders->next->what, "sub-buffer");
	assert_null(held->holders->next->next);
	assert_int_equal(held->reason, REPORT_DEFERRED_PART);
	assert_int_equal(report_deferred_fails(held), 0);
	print(&fixture.reported.report, &text);
	assert_non_null(strstr(text, "Released but not freed: 100 bytes of OpenCL buffer\n"));
	assert_non_null(strstr(text, "  The memory is held by OpenCL sub-buffer of 50 "
				     "bytes, made by"));
	assert_non_null(strstr(text, "longest wait 5.0 ms, of 77 bytes released at"));
	assert_non_null(strstr(text, "\"held_bytes\": 100"));
	free(text);
	end(&fixture);
}

/* A kernel whose slot is used by another, and a block whose slot is: neither holds. */
static void test_gone_holders(void **state)
{
	struct fixture fixture;
	uint32_t refs[4];

	(void)state;
	begin(&fixture);
	fill_released(&fixture, refs);
	block_at(&fixture, refs[3])->parent = 0x999;
	block_at(&fixture, refs[1])->state += 1u << 8;
	assert_null(build(&fixture)->deferred.groups[0].holders);
	forget(&fixture);

	block_at(&fixture, refs[1])->state -= 1u << 8;
	assert_non_null(build(&fixture)->deferred.groups[0].holders);
	forget(&fixture);

	block_at(&fixture, refs[0])->state += 1u << 8;
	assert_null(build(&fixture)->deferred.groups[0].holders);
	end(&fixture);
}

static uint32_t released_buffer(struct fixture *fixture, uint32_t stack, uint64_t address,
				uint32_t marked)
{
	uint32_t ref = buffer(fixture, stack, address), history;

	set_released(fixture, ref);
	block_at(fixture, ref)->marked = marked;
	history = builder_history(&fixture->builder, ref);
	builder_event(&fixture->builder, history, LEDGER_RELEASE, fixture->release, stack);
	return ref;
}

/* Two blocks that were mapped at one place are one leak. A third, mapped elsewhere, is a second
 * leak. A block behind a user event is no leak. A record of a mapping that names the former block
 * of a slot does not count. Equal entries are grouped. */
static void test_reasons(void **state)
{
	struct fixture fixture;
	const struct report_process *process;
	const struct report_deferred *held;
	uint32_t here, there, first, second, third, waits[2], unknown[2];

	(void)state;
	begin(&fixture);
	here = stack_of(&fixture, 0x1100, 0x1200, 0x1300);
	there = stack_of(&fixture, 0x2100, 0x1200, 0x1300);
	first = released_buffer(&fixture, here, 0x10, LEDGER_BLOCK_MAPPED);
	second = released_buffer(&fixture, here, 0x20, LEDGER_BLOCK_MAPPED);
	third = released_buffer(&fixture, here, 0x30, LEDGER_BLOCK_MAPPED);
	builder_mapped(&fixture.builder, first, fixture.retain, here);
	builder_mapped(&fixture.builder, second, fixture.retain, here);
	builder_mapped(&fixture.builder, third, fixture.retain, there);
	for (unsigned int i = 0; i < 2; i++) {
		waits[i] = released_buffer(&fixture, here, 0x40 + i, 0);
		builder_event_wait(&fixture.builder, waits[i], fixture.retain, there);
		unknown[i] = released_buffer(&fixture, here, 0x50 + i, 0);
	}
	process = build(&fixture);
	assert_int_equal(process->leak_count, 2);
	assert_int_equal(process->summary.leaked_blocks, 3);
	assert_int_equal(process->summary.deferred_blocks, 4);
	assert_int_equal(process->leaks[0].blocks, 2);
	assert_ptr_equal(process->leaks[0].mapping->mapped.stack, process->leaks[0].site->stack);
	assert_ptr_equal(process->leaks[0].mapping->released.stack, process->leaks[0].site->stack);
	assert_true(process->leaks[1].mapping->mapped.stack != process->leaks[1].site->stack);
	assert_int_equal(process->deferred.group_count, 2);
	held = &process->deferred.groups[0];
	if (held->reason != REPORT_DEFERRED_USER_EVENT)
		held++;
	assert_int_equal(held->reason, REPORT_DEFERRED_USER_EVENT);
	assert_int_equal(held->blocks, 2);
	assert_non_null(held->event.api);
	assert_int_equal(report_deferred_fails(held), 1);
	forget(&fixture);

	/* Records of blocks that are gone: mapped at a place that is not known, no reason known. */
	block_at(&fixture, second)->state += 1u << 8;
	block_at(&fixture, waits[0])->state += 1u << 8;
	block_at(&fixture, waits[1])->state += 1u << 8;
	block_at(&fixture, unknown[0])->state += 1u << 8;
	process = build(&fixture);
	assert_int_equal(process->leak_count, 3);
	assert_int_equal(process->deferred.group_count, 1);
	assert_int_equal(process->deferred.groups[0].blocks, 4);
	assert_int_equal(process->deferred.groups[0].reason, REPORT_DEFERRED_UNKNOWN);
	assert_int_equal(report_deferred_fails(&process->deferred.groups[0]), 0);
	end(&fixture);
}

/* A ledger of before these fields: its header is shorter, and that is fine. */
static void test_old_header(void **state)
{
	struct fixture fixture;
	const struct report_process *process;
	struct ledger_header *header;

	(void)state;
	begin(&fixture);
	buffer(&fixture, 0, 0x10);
	header = builder_header(&fixture.builder);
	header->header_bytes = LEDGER_HEADER_BYTES_MIN;
	process = build(&fixture);
	assert_int_equal(process->leak_count, 1);
	assert_int_equal(process->deferred.peak_bytes, 0);
	end(&fixture);
}

/* An error that was taken back is none. */
static void test_taken_back(void **state)
{
	struct ledger_error error = { .address = 1 };
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	builder_error(&fixture.builder, &error);
	assert_int_equal(build(&fixture)->summary.errors, 0);
	end(&fixture);
}

/* Every word of the new records as each of these: nothing may crash or hang. */
static void test_hostile(void **state)
{
	static const uint32_t values[] = { 0, 1, 2, 0x7fffffff, UINT32_MAX };
	struct fixture fixture;
	uint32_t refs[4];
	char *text;

	(void)state;
	begin(&fixture);
	fill_released(&fixture, refs);
	for (size_t chunk = 0; chunk < fixture.builder.size; chunk += LEDGER_CHUNK) {
		size_t from = chunk ? 0 : LEDGER_HEADER_BYTES_MIN;

		for (size_t at = chunk + from; at < chunk + from + 1024; at += 4) {
			uint32_t *word = (uint32_t *)(fixture.builder.bytes + at), saved = *word;

			for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
				*word = values[i];
				build(&fixture);
				print(&fixture.reported.report, &text);
				free(text);
				forget(&fixture);
			}
			*word = saved;
		}
	}
	builder_finish(&fixture.builder);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_partners),
		cmocka_unit_test(test_guesses),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_released),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_gone_holders),
		cmocka_unit_test(test_old_header),
		cmocka_unit_test(test_taken_back),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
