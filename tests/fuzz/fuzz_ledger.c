/* SPDX-License-Identifier: MIT
 *
 * libFuzzer target: any bytes as a ledger, through the reader, the model, all formats and top.
 * No symbol files are opened. It needs no corpus: its mutator starts from a ledger of its
 * own making and changes bytes where records lie (run it with -max_len=524288). With
 * -DFUZZ_REPLAY it is a program that runs the files which it is given, for compilers
 * without libFuzzer.
 * Links: fuzz_ledger.c ../unit/ledger_builder.c, report_dep.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/subjects/formats.h"
#include "ledger_builder.h"
#include "report/top/live.h"
#include "report/load/load.h"
#include "report/analyze/ipc_match.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"
#include "report/subjects/subject.h"
#include "report/suppress/suppress.h"
#include "report/symbols/symbolize.h"
#include "report/top/trend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static FILE *sink(void)
{
	static FILE *ret;

	if (!ret)
		ret = fopen("/dev/null", "w");
	if (!ret)
		abort();
	return ret;
}

static void print(const struct report *report)
{
	for (int format = OPTION_FORMAT_TEXT; format <= OPTION_FORMAT_PERFETTO; format++)
		if (report_format((enum option_format)format)->print(report, NULL, sink()) < 0)
			abort();
	if (print_github_summary(report, NULL, sink()) < 0)
		abort();
}

/* As if it had been sampled while it ran. */
static void hold(const struct loaded_ledger *ledger, struct report_process *process)
{
	struct tracked_memory tracked;

	track_memory(&ledger->view, &tracked);
	for (int device = 0; device < DRIVER_MEMORY_DEVICES; device++) {
		struct driver_memory_series series = { .source = DRIVER_MEMORY_NVML_DEVICE };
		struct driver_memory_sample sample = { 1000, tracked.bytes[device],
						       tracked.managed[device], 5000 };

		driver_memory_series_add(&series, &sample, 1);
		sample.at_ns = UINT64_MAX;
		sample.reported = UINT64_MAX;
		driver_memory_series_add(&series, &sample, 1);
		report_process_set_driver_memory(process, device, &series);
	}
}

static void report_on(const struct loaded_ledger *ledger)
{
	static const char rules[] = "leak:app\nleak:^cu*Alloc$\n";
	struct pattern_file *suppressions = NULL;
	struct symbolizer *symbolizer = NULL;
	struct report_process *process;
	struct report report = { 0 };
	char error[256];

	if (pattern_file_parse(&suppression_syntax, rules, sizeof(rules) - 1, "rules",
			       &suppressions, error, sizeof(error)) < 0)
		abort();
	symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	report.suppressions = suppressions;
	report.verbose = 1;
	/* Twice, so that the form for several processes is met too. */
	for (int i = 0; i < 2; i++) {
		process = report_process_build(ledger, symbolizer, suppressions);
		hold(ledger, process);
		report_add_process(&report, process);
		report_sort(&report);
		ipc_match(&report);
		print(&report);
	}
	report_finish(&report);
	symbolizer_destroy(symbolizer);
	pattern_file_destroy(suppressions);
}

/* As `gpuleak top` meets it: two frames, of which the first shows fewer sites. */
static void watch(const struct loaded_ledger *ledger)
{
	struct live_options look = { .sites = 1, .step = 1 };
	struct symbolizer *symbolizer = NULL;
	struct live *first, *second;
	struct trend trend = { 0 };

	look.trend = &trend;

	symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	first = live_build(ledger, symbolizer, &look);
	look.sites = 1000;
	look.order = LIVE_BY_RATE;
	second = live_build(ledger, symbolizer, &look);
	text_live(sink(), first, NULL, 0, &(struct live_view){ .sites = 1 });
	text_live(sink(), second, first, 0.5, &(struct live_view){ .sites = 1000 });
	text_live(sink(), second, first, 0.5,
		  &(struct live_view){ .sites = 1000, .columns = 40, .order = LIVE_BY_RATE });
	live_destroy(first);
	live_destroy(second);
	trend_finish(&trend);
	symbolizer_destroy(symbolizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct loaded_ledger ledger;
	char error[256];

	if (loaded_ledger_copy(data, size, "fuzz", &ledger, error, sizeof(error)) < 0)
		return 0;
	ledger.all_sites = 1;
	ledger.whole_trace = true;
	ledger.moments = 5;
	ledger.program_suppressions = 1;
	ledger.choice = (struct load_choice){ .has_at = true, .at_ns = 1500, .has_between = true,
					      .between_ns = { 1000, 3000 } };
	report_on(&ledger);
	watch(&ledger);
	loaded_ledger_finish(&ledger);
	return 0;
}

#ifndef FUZZ_REPLAY
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

#define MUTATED_BYTES 2048 /* of each chunk: about as much as the ledger below uses */

/* A buffer that was shared, one that is released and held, and a kernel that has it. */
static void add_handles(struct ledger_builder *builder, uint32_t api)
{
	uint64_t pc = 0x1001;
	uint32_t stack = builder_stack(builder, &pc, 1, 0), row, block, history, kernel;

	row = builder_row(builder, "clCreateKernel", "object/cl-kernel", -1, stack, 1, 0);
	kernel = builder_block(builder, row, 0x30, 0);
	row = builder_row(builder, "clCreateBuffer", "cl-buffer", -1, stack, 4, 400);
	for (int i = 0; i < 2; i++) {
		block = builder_block(builder, row, 0x40 + (uint64_t)i, 100);
		history = builder_history(builder, block);
		builder_event(builder, history, LEDGER_RETAIN, api, stack);
		builder_event(builder, history, LEDGER_RELEASE, api, stack);
	}
	((struct ledger_block *)builder_at(builder, block))->state =
		1u << 8 | LEDGER_BLOCK_RELEASED;
	builder_kernel_args(builder, kernel, block);
	builder_event_wait(builder, block, api, stack);
	block = builder_block(builder, row, 0x60, 100);
	((struct ledger_block *)builder_at(builder, block))->state =
		1u << 8 | LEDGER_BLOCK_RELEASED;
	((struct ledger_block *)builder_at(builder, block))->marked = LEDGER_BLOCK_MAPPED;
	builder_mapped(builder, block, api, stack);
	block = builder_block(builder, row, 0x50, 100);
	((struct ledger_block *)builder_at(builder, block))->parent = 0x41;
	builder_header(builder)->longest_wait = 2;
	builder_header(builder)->waits[1] = (struct ledger_wait){ 5, 100, row, api, stack, 0 };
}

static void add_pools(struct ledger_builder *builder)
{
	uint32_t pools = builder_pools(builder), text = builder_string(builder, "device");

	for (int i = 0; i < 2; i++) {
		struct ledger_pools *record = builder_at(builder, pools);
		struct ledger_pool *pool = &record->pool[i];

		record->mode = 2;
		record->limit = record->refused = record->injected = 5;
		*pool = (struct ledger_pool){ text, text, i, 1, i ? text : 0, 0, .hits = 10,
					      .native_allocs = 3, .reserved = 4096,
					      .peak_reserved = 4096, .reasons = { 1, 2, 3 } };
	}
}

/* Suballocations in a block, in mapped memory, over an edge, and in no block. */
static void add_suballocations(struct ledger_builder *builder, uint32_t stack)
{
	uint32_t row = builder_row(builder, "cuMemAlloc_v2", "device", 0, stack, 1, 1 << 20), block;

	builder_block(builder, row, 0x100000, 1 << 20);
	row = builder_row(builder, "cuMemCreate", "vmm-handle", 0, stack, 1, 1 << 20);
	builder_block(builder, row, 0x77, 1 << 20);
	row = builder_row(builder, "cuMemMap", "vmm-mapping", 0, stack, 1, 0);
	block = builder_block(builder, row, 0x200000, 0);
	((struct ledger_block *)builder_at(builder, block))->parent = 0x77;
	for (uint32_t i = 0; i < 3; i++) {
		row = builder_suballocation_row(builder, (int)i - 1, i ? stack : 0, 9, 9000);
		for (uint64_t at = 0; at < 3; at++)
			builder_suballocation(builder, row, 0x100000 + at * 0xfff00 + i * 512,
					      1024);
	}
}

/* A step that ended, one that is open, one that was being written, and one of a name too many. */
static void add_named_steps(struct ledger_builder *builder)
{
	struct ledger_named_step step = { .done = 2, .began = 2, .count = 1, .peak_bytes = 1 << 20,
					  .sum = { 2, 8192, 1, 4096 }, .name = "warm-up" };

	builder_named_step(builder, &step);
	step.flags = LEDGER_STEP_OPEN;
	memset(step.name, 'x', sizeof(step.name));
	builder_named_step(builder, &step);
	step.began++;
	builder_named_step(builder, &step);
	step.began--;
	step.name[0] = '\0';
	builder_named_step(builder, &step);
}

/* Adds three records: of a call site, of a ref that is no call site, and one whose writer was
 * stopped in the middle. */
static void add_keepers(struct ledger_builder *builder, uint32_t row)
{
	static const char text[] = "50 list `history` in __main__\n0 a remark";
	struct ledger_keepers *last;

	builder_keepers(builder, row, text, sizeof(text) - 1);
	builder_keepers(builder, 0, text, sizeof(text) - 1);
	last = (struct ledger_keepers *)builder_at(
		builder, builder_keepers(builder, row, text, LEDGER_KEEPERS_TEXT));
	last->began++;
}

/* Adds what a cache reported of its segments: of the seed's blocks, and of all memory. */
static void add_segments(struct ledger_builder *builder)
{
	const struct ledger_segment one = { 0x10, 200, 7, 1, UINT64_MAX };
	const struct ledger_segment all = { 0, UINT64_MAX, 0, 0, 0 };

	builder_segment(builder, &one);
	builder_segment(builder, &all);
}

/* A cause that was measured, one that was not, and one whose sum would overflow. */
static void add_driver_costs(struct ledger_builder *builder, uint32_t stack)
{
	struct ledger_driver_cost cost = {
		.calls = 2, .measured = 1, .bytes = 1 << 20, .stack = stack,
		.api = builder_string(builder, "cuModuleLoadData"),
	};
	uint32_t row = builder_row(builder, "cuModuleLoadData", "object/module", 0, stack, 2, 0);

	builder_block(builder, row, 0xa000, 0);
	builder_driver_cost(builder, &cost);
	cost.measured = 0;
	cost.limit = 2;
	builder_driver_cost(builder, &cost);
	cost.measured = 1;
	cost.bytes = INT64_MAX;
	builder_driver_cost(builder, &cost);
}

/* Two exports of one handle, of which one was freed, and two handles that are open. */
static void add_ipc(struct ledger_builder *builder, uint32_t api, uint32_t stack)
{
	uint32_t row = builder_row(builder, "cuIpcOpenMemHandle_v2", "ipc", 0, stack, 2, 0);
	uint32_t owned = builder_row(builder, "cuMemAlloc_v2", "device", 0, stack, 2, 8192);
	struct ledger_ipc record = { .api = api, .stack = stack, .bytes = 4096 };

	for (unsigned int i = 0; i < 4; i++) {
		bool opened = i >= 2;
		uint32_t block = builder_block(builder, opened ? row : owned, 0x9000 + i,
					       opened ? 0 : 4096);

		record.block = (uint64_t)1 << 32 | block;
		record.time_ns = i;
		record.site = opened ? row : owned;
		record.flags = opened ? LEDGER_IPC_OPENED : i ? LEDGER_IPC_FREED : 0;
		record.freed_api = record.freed_stack = i == 1 ? api : 0;
		record.handle[0] = (uint8_t)(i == 3);
		builder_ipc(builder, &record);
	}
}

/* Six steps, at which one site grew and another did not. */
static void add_steps(struct ledger_builder *builder, uint32_t stack)
{
	uint32_t api = builder_string(builder, "cuMemAlloc_v2");

	for (uint32_t step = 1; step <= 6; step++)
		builder_step(builder, step, step * 1000, 1u << 20, "epoch");
	for (uint32_t i = 0; i < 2; i++) {
		struct ledger_growth growth = { .stack = stack, .api = api, .kind = api,
						.device = (int32_t)i, .first_step = 1 };

		for (uint32_t step = 1; step <= 6; step++)
			growth.at[step] = (struct ledger_growth_at){ step, 1, i * step * 4096 };
		builder_growth(builder, &growth);
	}
}

/* Requests that ran out of memory, held by each call site and by what is none. */
static void add_out_of_memory(struct ledger_builder *builder, uint32_t row, uint32_t stack)
{
	struct ledger_out_of_memory record = { .time_ns = 1000, .bytes = 1 << 20, .times = 2 };

	record.api = builder_string(builder, "cuMemAlloc_v2");
	record.framework_api = builder_string(builder, "c10::reportOutOfMemoryToProfiler");
	record.stack = stack;
	record.holders = 3;
	for (uint32_t i = 0; i < record.holders; i++)
		record.holder[i] = (struct ledger_holder){ row - 8 * i, i, 4096 };
	for (uint64_t i = 0; i < 4; i++) {
		record.state = (i + 1) << 8 | (i ? LEDGER_REFUSAL_HOLDERS | LEDGER_REFUSAL_DIVIDED |
							LEDGER_REFUSAL_FREE | (i & 3)
						: 0);
		record.refuser = (uint32_t)i;
		builder_out_of_memory(builder, &record);
	}
}

/* Events of call sites and of what is none, an incomplete one, and every kind. */
static void add_trace(struct ledger_builder *builder, uint32_t row, uint32_t stack)
{
	for (uint32_t i = 1; i < 40; i++)
		builder_trace(builder, (enum ledger_trace_kind)(i % 10), i % 5 ? row : stack,
			      0x10 + i % 3, i * 100, i * 100);
	builder_trace(builder, LEDGER_TRACE_FREED, row, 0x10, 100, 5000)->number++;
	builder_trace(builder, LEDGER_TRACE_FREED, row, 0x11, UINT64_MAX, UINT64_MAX);
}

static void build_seed(struct ledger_builder *builder)
{
	uint64_t pcs[] = { 0x1001, 0x1101, 0x9001, 0x2001 };
	struct ledger_device device = { .uuid = { 1 }, .bus_id = "0000:01:00.0" };
	struct ledger_driver_growth mark = { .began_ns = 900, .ended_ns = 2000 };
	struct ledger_error error = { .address = 0x10, .block_address = 0x10, .block_bytes = 100 };
	uint32_t stack, row, codes[2], lines[2] = { 7, 9 | LEDGER_PYTHON_ENTRY };

	builder_init(builder);
	builder_header(builder)->trouble[0] = 3;
	builder_module(builder, "/bin/app", 0x1000, 0x2000, 0, 0);
	builder_module(builder, "/lib/libcuda.so.1", 0x1100, 0x3000, 0x1000, 1);
	builder_fact(builder, "linked", "CUDA", "/bin/app", NULL, 1);
	builder_fact(builder, "untracked", "cuMemMap", "/bin/app", "is not followed", 1);
	builder_fact(builder, "deepbind", "OpenCL", "/lib/a.so", NULL, 1);
	error.type = builder_string(builder, "double-free");
	error.api = builder_string(builder, "cuMemFree_v2");
	add_handles(builder, error.api);
	add_pools(builder);
	codes[0] = builder_code(builder, "inner", "/a.py");
	codes[1] = builder_code(builder, "outer", "/b.py");
	for (uint32_t i = 0; i < 4; i++) {
		stack = i % 3 == 2 ? builder_python_stack(builder, pcs, i + 1, codes, lines, 2)
				   : builder_stack(builder, pcs, i + 1, i);
		row = builder_row(builder, i % 2 ? "cuMemAlloc_v2" : "clCreateBuffer", "device",
				  (int)i - 1, stack, i + 2, 1000);
		builder_block(builder, row, 0x10, 100);
		builder_block(builder, row, 0x20, 100);
		error.stack = error.freed.stack = error.earlier_freed.stack = stack;
		error.allocated.api = error.freed.api = error.earlier_freed.api = error.api;
		builder_error(builder, &error);
		mark.api = error.api;
		mark.stack = stack;
		mark.device = device.ordinal = (int)i;
		builder_driver_growth(builder, &mark);
		device.name = error.type;
		builder_device(builder, &device);
	}
	add_steps(builder, stack);
	add_out_of_memory(builder, row, stack);
	add_named_steps(builder);
	add_keepers(builder, row);
	add_segments(builder);
	add_trace(builder, row, stack);
	add_driver_costs(builder, stack);
	add_ipc(builder, builder_string(builder, "cuIpcGetMemHandle"), stack);
	add_suballocations(builder, stack);
}

static size_t write_seed(uint8_t *data, size_t max_size)
{
	struct ledger_builder builder;
	size_t size;

	build_seed(&builder);
	size = builder.size < max_size ? builder.size : max_size;
	memcpy(data, builder.bytes, size);
	builder_finish(&builder);
	return size;
}

/* Gives the events correct checks again, so that what they say is read. */
static void repair_trace(uint8_t *data, size_t size)
{
	struct ledger_trace_event event;

	for (size_t at = LEDGER_CHUNK; at + LEDGER_CHUNK <= size; at += LEDGER_CHUNK) {
		if (data[at] != LEDGER_CHUNK_TRACE)
			continue;
		for (size_t i = at + 64; i < at + MUTATED_BYTES; i += sizeof(event)) {
			memcpy(&event, data + i, sizeof(event));
			event.check = ledger_trace_check(&event);
			memcpy(data + i, &event, sizeof(event));
		}
	}
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	size_t chunk, room;

	if (size < sizeof(struct ledger_header) || seed % 64 == 0)
		return write_seed(data, max_size);
	if (seed % 61 == 0) /* what a full disk or a copy that broke off leaves */
		return size / 2 + seed % (size / 2);
	chunk = seed % (size / LEDGER_CHUNK + 1) * LEDGER_CHUNK;
	room = size - chunk < MUTATED_BYTES ? size - chunk : MUTATED_BYTES;
	if (room)
		LLVMFuzzerMutate(data + chunk, room, room);
	if (seed % 2)
		repair_trace(data, size);
	return size;
}
#endif

#ifdef FUZZ_REPLAY
static int replay(const char *path)
{
	static uint8_t bytes[8u << 20];
	FILE *file = fopen(path, "rb");
	size_t size;

	if (!file) {
		perror(path);
		return 1;
	}
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	LLVMFuzzerTestOneInput(bytes, size);
	return 0;
}

int main(int argc, char **argv)
{
	int r = 0;

	for (int i = 1; i < argc; i++)
		r |= replay(argv[i]);
	return r;
}
#endif
