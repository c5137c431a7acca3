/* SPDX-License-Identifier: MIT
 *
 * Requests that ran out of memory, in the report: what becomes of them, who held the memory, which
 * sample of NVML is near. Also from ledgers that lie.
 * Links: test_out_of_memory.c ledger_builder.c ledger_reported.c, report_dep, cmocka.
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
#include "report/subjects/held.h"
#include "report/subjects/subject_words.h"
#include "report/subjects/formats.h"
#include "report/model/model_driver_memory.h"
#include "report/model/model_fragmentation.h"
#include "report/model/model_holders.h"

#define S 1000000000ull
#define MIB ((uint64_t)1 << 20)
#define COUNTED (LEDGER_REFUSAL_HOLDERS | LEDGER_REFUSAL_DIVIDED)

static uint32_t stack_at(struct ledger_builder *builder, uint64_t pc)
{
	return builder_stack(builder, &pc, 1, 0);
}

static struct ledger_out_of_memory request(struct ledger_builder *builder, uint64_t number,
					   uint64_t flags)
{
	struct ledger_out_of_memory record = { .state = number << 8 | flags, .bytes = 64 * MIB,
					       .time_ns = number * S, .times = 1 };

	record.api = builder_string(builder, "cuMemAlloc_v2");
	record.framework_api = builder_string(builder, "c10::reportOutOfMemoryToProfiler");
	record.stack = stack_at(builder, 0x1001);
	return record;
}

static void hold(struct ledger_out_of_memory *record, uint32_t site, uint64_t bytes)
{
	record->holder[record->holders++] = (struct ledger_holder){ site, 1, bytes };
}

static void begin(struct ledger_builder *builder)
{
	builder_init(builder);
	builder_module(builder, "/bin/app", 0x1000, 0x3000, 0x1000, 0);
}

/* ---- outcomes ---- */

struct ending {
	enum report_ended ended;
	int status;
	enum report_outcome plain, given_up, given_up_and_on;
};

/* Bad ends are final. A framework's give-up is final, too, unless the process allocated on. What
 * recovered stays so. */
static void outcomes(void **state)
{
	static const struct ending endings[] = {
		{ REPORT_EXIT, 0, OUTCOME_TOLERATED, OUTCOME_FINAL, OUTCOME_TOLERATED },
		{ REPORT__EXIT, 0, OUTCOME_TOLERATED, OUTCOME_FINAL, OUTCOME_TOLERATED },
		{ REPORT_EXEC, 0, OUTCOME_TOLERATED, OUTCOME_FINAL, OUTCOME_TOLERATED },
		{ REPORT_RUNNING, 0, OUTCOME_TOLERATED, OUTCOME_FINAL, OUTCOME_TOLERATED },
		{ REPORT_EXIT, 1, OUTCOME_FINAL, OUTCOME_FINAL, OUTCOME_FINAL },
		{ REPORT__EXIT, 3, OUTCOME_FINAL, OUTCOME_FINAL, OUTCOME_FINAL },
		{ REPORT_SIGNAL, 9, OUTCOME_FINAL, OUTCOME_FINAL, OUTCOME_FINAL },
		{ REPORT_UNKNOWN, 0, OUTCOME_FINAL, OUTCOME_FINAL, OUTCOME_FINAL },
	};
	struct report_process process = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		struct report_out_of_memory entry = { .went_on = true };

		process.ended = endings[i].ended;
		process.status = endings[i].status;
		assert_int_equal(report_outcome(&process, &entry), endings[i].plain);
		entry.gave_up = true;
		assert_int_equal(report_outcome(&process, &entry), endings[i].given_up_and_on);
		entry.went_on = false;
		assert_int_equal(report_outcome(&process, &entry), endings[i].given_up);
		entry.recovered = true;
		assert_int_equal(report_outcome(&process, &entry), OUTCOME_RECOVERED);
	}
}

/* A request is final if nothing was allocated afterwards, or if the process ended soon after. Of a
 * process that was killed, the last sample counts as its end. */
static void late_ends(void **state)
{
	const uint64_t second = 1000000000;
	struct report_sample samples[] = { { 70 * second, 1 }, { 5 * second, 1 } };
	struct report_out_of_memory entry = { .went_on = true, .time_ns = 2 * second };
	struct report_process process = { .ended = REPORT_EXIT, .status = 1 };

	(void)state;
	process.timeline.end_ns = 12 * second;
	assert_int_equal(report_outcome(&process, &entry), OUTCOME_FINAL);
	process.timeline.end_ns++;
	assert_int_equal(report_outcome(&process, &entry), OUTCOME_TOLERATED);
	entry.went_on = false;
	assert_int_equal(report_outcome(&process, &entry), OUTCOME_FINAL);
	entry.went_on = true;
	process.ended = REPORT_UNKNOWN;
	process.timeline.end_ns = 0;
	assert_int_equal(report_outcome(&process, &entry), OUTCOME_FINAL);
	process.timeline.total.samples = samples;
	process.timeline.total.count = 2;
	assert_int_equal(report_outcome(&process, &entry), OUTCOME_TOLERATED);
	samples[0].time_ns = second;
	assert_int_equal(report_outcome(&process, &entry), OUTCOME_FINAL);
}

/* Of several requests that are final, the last one ended the process. */
static void last_final(void **state)
{
	struct report_out_of_memory entries[] = {
		{ .number = 1 }, { .number = 2 }, { .number = 3, .recovered = true },
	};
	struct report_process process = { .ended = REPORT_EXIT, .status = 1,
					  .out_of_memory = entries, .out_of_memory_count = 3 };

	(void)state;
	assert_ptr_equal(report_final_out_of_memory(&process), &entries[1]);
	process.out_of_memory_count = 1;
	assert_ptr_equal(report_final_out_of_memory(&process), &entries[0]);
	process.status = 0;
	assert_null(report_final_out_of_memory(&process));
}

/* The process went on if it allocated a block or a suballocation more than before. */
static void went_on(void **state)
{
	struct ledger_builder builder;
	struct ledger_out_of_memory record;
	struct report_process *process;
	struct reported reported;
	uint32_t stack;

	(void)state;
	begin(&builder);
	stack = stack_at(&builder, 0x1101);
	builder_row(&builder, "cuMemAlloc_v2", "device", 0, stack, 5, 500);
	builder_suballocation_row(&builder, 0, stack, 7, 700);
	record = request(&builder, 1, COUNTED | LEDGER_REFUSAL_GAVE_UP);
	record.allocs = 5;
	record.suballocs = 7;
	builder_out_of_memory(&builder, &record);
	record.state += 1 << 8;
	record.allocs = 4;
	builder_out_of_memory(&builder, &record);
	record.state += 1 << 8;
	record.allocs = 5;
	record.suballocs = 6;
	builder_out_of_memory(&builder, &record);
	record.state = 4 << 8 | LEDGER_REFUSAL_GAVE_UP; /* not counted: not known */
	builder_out_of_memory(&builder, &record);
	process = reported_begin(&reported, &builder);
	assert_int_equal(process->out_of_memory_count, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(process->out_of_memory[i].went_on, i != 0);
		assert_string_equal(process->out_of_memory[i].framework, "PyTorch");
	}
	assert_ptr_equal(report_final_out_of_memory(process), &process->out_of_memory[0]);
	reported_finish(&reported);
	builder_finish(&builder);
}

/* ---- holders ---- */

/* Rows of one place are added up, the largest comes first, and the parts are the sum. */
static void holders(void **state)
{
	struct ledger_builder builder;
	struct ledger_out_of_memory record;
	const struct report_out_of_memory *entry;
	struct reported reported;
	struct held_list held;
	uint32_t one, two, rows[4];

	(void)state;
	begin(&builder);
	one = stack_at(&builder, 0x1101);
	two = stack_at(&builder, 0x1201);
	rows[0] = builder_row(&builder, "cuMemAlloc_v2", "device", 0, one, 1, 1);
	rows[1] = builder_row(&builder, "cuMemAlloc_v2", "device", 0, two, 1, 1);
	rows[2] = builder_row(&builder, "cuMemAlloc_v2", "device", 0, one, 1, 1);
	rows[3] = builder_suballocation_row(&builder, 0, two, 1, 1);
	record = request(&builder, 1, COUNTED);
	for (int i = 0; i < 4; i++)
		hold(&record, rows[i], (uint64_t)(i + 1) * MIB);
	record.other_sites = 2;
	record.other_blocks = 5;
	record.other_bytes = MIB;
	builder_out_of_memory(&builder, &record);
	entry = reported_begin(&reported, &builder)->out_of_memory;
	assert_int_equal(entry->tracked_bytes, 11 * MIB);
	assert_int_equal(entry->held.count, 3);
	assert_int_equal(entry->held.list[0].bytes + entry->held.list[1].bytes, 8 * MIB);
	assert_int_equal(entry->held.list[2].bytes, 2 * MIB);
	held = held_sum_up(&entry->held, HELD_BY_CACHE, false);
	assert_int_equal(held.count, 1);
	assert_string_equal(held.list[0].name, "PyTorch caching allocator");
	assert_int_equal(held.list[0].bytes, 4 * MIB);
	held_finish(&held);
	held = held_sum_up(&entry->held, HELD_BY_PLACE, false);
	assert_int_equal(held.count, 2);
	assert_int_equal(held.list[0].bytes, 6 * MIB); /* the block and the tensor of one line */
	held_finish(&held);
	reported_finish(&reported);
	builder_finish(&builder);
}

/* Bytes of suballocations are subtracted once from the blocks, also those that are not listed. */
static void inside(void **state)
{
	struct ledger_builder builder;
	struct ledger_out_of_memory record;
	const struct report_out_of_memory *entry;
	struct reported reported;

	(void)state;
	begin(&builder);
	record = request(&builder, 1, LEDGER_REFUSAL_HOLDERS);
	hold(&record, builder_row(&builder, "cuMemAlloc_v2", "device", 0,
				  stack_at(&builder, 0x1101), 1, 1), 8 * MIB);
	hold(&record, builder_row(&builder, "cuMemAlloc_v2", "device", 0,
				  stack_at(&builder, 0x1201), 1, 1), 5 * MIB);
	hold(&record, builder_suballocation_row(&builder, 0, stack_at(&builder, 0x1301), 1, 1),
	     3 * MIB);
	record.other_sites = 1;
	record.other_blocks = 2;
	record.other_bytes = MIB;
	record.inside_bytes = 4 * MIB;
	builder_out_of_memory(&builder, &record);
	entry = reported_begin(&reported, &builder)->out_of_memory;
	assert_true(entry->held.divided);
	assert_int_equal(entry->tracked_bytes, 13 * MIB);
	assert_int_equal(entry->held.count, 3);
	assert_int_equal(entry->held.list[0].bytes, 5 * MIB);
	assert_int_equal(entry->held.list[1].bytes, 4 * MIB); /* of 8 */
	assert_true(report_is_suballocation(&entry->held.list[2]));
	assert_int_equal(entry->held.list[2].bytes, 3 * MIB);
	reported_finish(&reported);
	builder_finish(&builder);
}

static char *printed(const struct report_process *process, const struct report_out_of_memory *entry)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	describe_out_of_memory(out, process, entry, false);
	fclose(out);
	return text;
}

/* ---- figures of the device ---- */

static struct driver_memory_sample sample_at(uint64_t at_ns, uint64_t reported)
{
	return (struct driver_memory_sample){ .at_ns = at_ns, .tracked = 10 * MIB,
					      .reported = reported * MIB,
					      .device_used = 90 * MIB };
}

static void ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	assert_true(length >= tail);
	assert_string_equal(text + length - tail, end);
}

/* NVML's nearest sample within two seconds divides the rest; else cuMemGetInfo has one figure. */
static void the_rest(void **state)
{
	struct driver_memory_series series = { .source = DRIVER_MEMORY_NVML_PROCESS };
	struct driver_memory_sample sample = sample_at(8 * S, 30);
	struct ledger_device device = { .ordinal = 0 };
	struct ledger_builder builder;
	struct ledger_out_of_memory record;
	struct report_process *process;
	struct reported reported;
	char *text;

	(void)state;
	begin(&builder);
	builder_device(&builder, &device);
	record = request(&builder, 5, COUNTED | LEDGER_REFUSAL_FREE);
	hold(&record, builder_row(&builder, "cuMemAlloc_v2", "device", 0,
				  stack_at(&builder, 0x1101), 1, 1), 10 * MIB);
	record.free_bytes = 20 * MIB;
	record.total_bytes = 100 * MIB;
	builder_out_of_memory(&builder, &record);
	process = reported_begin(&reported, &builder);
	text = printed(process, process->out_of_memory);
	ends_with(text, ", 70.0 MiB driver and other processes");
	free(text);
	driver_memory_series_add(&series, &sample, true);
	report_process_set_driver_memory(process, 0, &series);
	assert_null(report_sample_near(process, process->out_of_memory));
	sample = sample_at(7 * S, 30);
	driver_memory_series_near(&series, &sample, 1);
	report_process_set_driver_memory(process, 0, &series);
	text = printed(process, process->out_of_memory);
	ends_with(text, ", 20.0 MiB driver, 60.0 MiB other processes");
	free(text);
	sample = sample_at(4 * S + S / 2, 40);
	driver_memory_series_near(&series, &sample, 2);
	report_process_set_driver_memory(process, 0, &series);
	text = printed(process, process->out_of_memory);
	ends_with(text, ", 30.0 MiB driver, 50.0 MiB other processes");
	free(text);
	series.source = DRIVER_MEMORY_NVML_DEVICE; /* it has no figure of this process alone */
	report_process_set_driver_memory(process, 0, &series);
	assert_null(report_sample_near(process, process->out_of_memory));
	reported_finish(&reported);
	builder_finish(&builder);
}

/* The first samples after refusals stay, the last ones replace each other. */
static void near_samples(void **state)
{
	struct driver_memory_series series = { 0 };

	(void)state;
	for (uint64_t i = 1; i <= 100; i++) {
		struct driver_memory_sample sample = { .at_ns = i };

		driver_memory_series_near(&series, &sample, (i + 1) / 2);
	}
	assert_int_equal(series.near_count, 50);
	for (uint32_t i = 0; i < DRIVER_MEMORY_NEAR / 2; i++)
		assert_int_equal(series.near[i].at_ns, 2 * i + 1);
	for (uint32_t i = DRIVER_MEMORY_NEAR / 2; i < DRIVER_MEMORY_NEAR; i++)
		assert_true(series.near[i].at_ns >= 93);
}

/* ---- fragmentation ---- */

static struct ledger_extent extent(uint32_t site, uint64_t address, uint64_t bytes, uint32_t layout)
{
	return (struct ledger_extent){ .address = address, .bytes = bytes, .site = site,
				       .layout = layout << 1 };
}

/* Two segments of 40 MiB with a tensor of 2 MiB each, as layout 3, beside what is left of another
 * layout. */
static void add_segments(struct ledger_builder *builder, uint32_t count)
{
	const uint32_t tensors = builder_suballocation_row(builder, 0, 0, 2, 4 * MIB);
	const uint32_t segments =
		builder_row(builder, "cuMemAlloc_v2", "device", 0, 0, 2, 80 * MIB);
	const struct ledger_extent all[] = {
		extent(tensors, 100 * MIB, 2 * MIB, 3), extent(segments, 100 * MIB, 40 * MIB, 3),
		extent(tensors, 0, 10 * MIB, 2),	extent(tensors, 208 * MIB, 2 * MIB, 3),
		extent(segments, 200 * MIB, 40 * MIB, 3),
	};

	for (uint32_t i = 0; i < count; i++)
		builder_extent(builder, &all[i]);
}

/* COUNT: of five extents, so many are in the ledger. The request is for 64 MiB; 10 are free. */
static void with_layout(uint32_t count, uint32_t extents, bool known)
{
	struct ledger_builder builder;
	struct ledger_out_of_memory record;
	struct report_process *process;
	const struct report_fragmentations *found;
	struct reported reported;
	char *text;

	begin(&builder);
	add_segments(&builder, count);
	record = request(&builder, 1, COUNTED | LEDGER_REFUSAL_FREE | LEDGER_REFUSAL_GAVE_UP);
	record.framework_bytes = 64 * MIB;
	record.free_bytes = 10 * MIB;
	record.layout = 3;
	record.extents = extents;
	builder_out_of_memory(&builder, &record);
	process = reported_begin(&reported, &builder);
	found = process->out_of_memory[0].fragmentation;
	text = printed(process, process->out_of_memory);
	assert_int_equal(found != NULL, known);
	assert_int_equal(strstr(text, "; would fit without fragmentation: "
				      "expandable_segments:True frees 76.0 MiB") != NULL, known);
	if (known) {
		assert_int_equal(found->count, 1);
		assert_int_equal(found->list[0].reserved_bytes, 80 * MIB);
		assert_int_equal(found->list[0].used_bytes, 4 * MIB);
		assert_int_equal(found->list[0].pinned_free_bytes, 76 * MIB);
		assert_int_equal(found->list[0].pin_count, 1);
		assert_int_equal(found->list[0].pins[0].own_segments, 2);
	}
	free(text);
	reported_finish(&reported);
	builder_finish(&builder);
}

static void layouts(void **state)
{
	(void)state;
	with_layout(5, 4, true);
	with_layout(4, 4, false); /* one was overwritten */
	with_layout(5, 3, false);
}

/* ---- lies ---- */

static void lies(void **state)
{
	struct ledger_builder builder;
	struct ledger_out_of_memory record;
	struct report_process *process;
	struct reported reported;
	char *text;

	(void)state;
	begin(&builder);
	record = request(&builder, 0, 0xff); /* being written */
	builder_out_of_memory(&builder, &record);
	record = request(&builder, 3, 0xff);
	record.holders = UINT32_MAX;
	record.api = 5;
	record.framework_api = 7;
	record.stack = UINT32_MAX;
	record.refuser = 99;
	record.device = INT32_MIN;
	record.free_bytes = UINT64_MAX;
	record.total_bytes = 1;
	record.other_bytes = UINT64_MAX;
	for (uint32_t i = 0; i < LEDGER_HOLDERS_MAX; i++)
		record.holder[i] = (struct ledger_holder){ i * 8, UINT32_MAX, UINT64_MAX };
	builder_out_of_memory(&builder, &record);
	for (uint64_t i = 0; i < 20; i++) {
		record.state = (40 - i) << 8;
		builder_out_of_memory(&builder, &record);
	}
	process = reported_begin(&reported, &builder);
	assert_int_equal(process->out_of_memory_count,
			 LEDGER_REFUSALS_FIRST + LEDGER_REFUSALS_LAST);
	assert_int_equal(process->refused, process->out_of_memory_count);
	assert_int_equal(process->out_of_memory[0].number, 3);
	assert_int_equal(process->out_of_memory[0].refuser, LEDGER_REFUSER_DRIVER);
	assert_true(process->out_of_memory[0].tracked_bytes == UINT64_MAX);
	assert_int_equal(process->out_of_memory[1].number, 34);
	text = printed(process, process->out_of_memory);
	free(text);
	reported_finish(&reported);
	builder_finish(&builder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outcomes), cmocka_unit_test(late_ends),
		cmocka_unit_test(last_final), cmocka_unit_test(went_on), cmocka_unit_test(holders),
		cmocka_unit_test(inside), cmocka_unit_test(layouts),
		cmocka_unit_test(the_rest), cmocka_unit_test(near_samples), cmocka_unit_test(lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
