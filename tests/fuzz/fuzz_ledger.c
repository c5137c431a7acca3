/* SPDX-License-Identifier: MIT
 *
 * libFuzzer target: any bytes as a ledger, through the reader, the model and both formats.
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

#include "ledger_builder.h"
#include "load.h"
#include "model.h"
#include "print_json.h"
#include "print_text.h"
#include "suppress.h"
#include "symbolize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print(const struct report *report)
{
	static FILE *sink;

	if (!sink)
		sink = fopen("/dev/null", "w");
	if (!sink || print_text(report, sink) < 0 || print_json(report, sink) < 0)
		abort();
}

static void report_on(const struct loaded_ledger *ledger)
{
	static const char rules[] = "leak:app\nleak:^cu*Alloc$\n";
	struct suppressions *suppressions = NULL;
	struct symbolizer *symbolizer = NULL;
	struct report_process *process;
	struct report report = { 0 };
	char error[256];

	if (suppressions_parse(rules, sizeof(rules) - 1, "rules", &suppressions, error,
			       sizeof(error)) < 0 ||
	    symbolizer_create(SYMBOLIZER_NO_FILES, &symbolizer) < 0)
		abort();
	report.suppressions = suppressions;
	report.verbose = 1;
	/* Twice, so that the form for several processes is met too. */
	for (int i = 0; i < 2; i++) {
		if (report_process_build(ledger, symbolizer, suppressions, &process) < 0 ||
		    report_add_process(&report, process) < 0)
			abort();
		report_sort(&report);
		print(&report);
	}
	report_finish(&report);
	symbolizer_destroy(symbolizer);
	suppressions_destroy(suppressions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct loaded_ledger ledger;
	char error[256];

	if (loaded_ledger_copy(data, size, "fuzz", &ledger, error, sizeof(error)) < 0)
		return 0;
	report_on(&ledger);
	loaded_ledger_finish(&ledger);
	return 0;
}

#ifndef FUZZ_REPLAY
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

#define MUTATED_BYTES 2048 /* of each chunk: about as much as the ledger below uses */

static void build_seed(struct ledger_builder *builder)
{
	uint64_t pcs[] = { 0x1001, 0x1101, 0x9001, 0x2001 };
	struct ledger_error error = { .address = 0x10, .block_address = 0x10, .block_bytes = 100 };
	uint32_t stack, row;

	builder_init(builder);
	builder_header(builder)->trouble[0] = 3;
	builder_module(builder, "/bin/app", 0x1000, 0x2000, 0, 0);
	builder_module(builder, "/lib/libcuda.so.1", 0x1100, 0x3000, 0x1000, 1);
	builder_fact(builder, "linked", "CUDA", "/bin/app", NULL, 1);
	builder_fact(builder, "untracked", "cuMemMap", "/bin/app", "is not followed", 1);
	builder_fact(builder, "deepbind", "OpenCL", "/lib/a.so", NULL, 1);
	error.type = builder_string(builder, "double-free");
	error.api = builder_string(builder, "cuMemFree_v2");
	for (uint32_t i = 0; i < 4; i++) {
		stack = builder_stack(builder, pcs, i + 1, i);
		row = builder_row(builder, i % 2 ? "cuMemAlloc_v2" : "clCreateBuffer", "device",
				  (int)i - 1, stack, i + 2, 1000);
		builder_block(builder, row, 0x10, 100);
		builder_block(builder, row, 0x20, 100);
		error.stack = error.freed.stack = error.earlier_freed.stack = stack;
		error.allocated.api = error.freed.api = error.earlier_freed.api = error.api;
		builder_error(builder, &error);
	}
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
