/* SPDX-License-Identifier: MIT
 *
 * From a ledger to the words of a report: loading, grouping, symbols, text, JSON. Needs its
 * own debug information: compile with -g.
 * Links: test_report.c ledger_builder.c, report_dep, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/util/escape.h"
#include "ledger_builder.h"
#include "report/load/load.h"
#include "report/model/model.h"
#include "report/util/number.h"
#include "report/subjects/formats.h"
#include "report/subjects/subject.h"
#include "report/suppress/suppress.h"
#include "report/symbols/symbolize.h"

/* One report and all that it stands on. */
struct fixture {
	struct loaded_ledger ledger;
	struct symbolizer *symbolizer;
	struct pattern_file *suppressions;
	struct report report;
};

static void begin(struct fixture *fixture, struct ledger_builder *builder, unsigned int flags,
		  const char *rules)
{
	struct report_process *process = NULL;
	char error[256];

	memset(fixture, 0, sizeof(*fixture));
	if (rules)
		assert_int_equal(pattern_file_parse(&suppression_syntax, rules, strlen(rules),
						    "rules", &fixture->suppressions, error,
						    sizeof(error)),
				 0);
	assert_int_equal(loaded_ledger_copy(builder->bytes, builder->size, "test",
					    &fixture->ledger, error, sizeof(error)), 0);
	fixture->symbolizer = symbolizer_create(flags);
	process = report_process_build(&fixture->ledger, fixture->symbolizer,
				       fixture->suppressions);
	fixture->report.suppressions = fixture->suppressions;
	report_add_process(&fixture->report, process);
}

static void end(struct fixture *fixture)
{
	report_finish(&fixture->report);
	symbolizer_destroy(fixture->symbolizer);
	pattern_file_destroy(fixture->suppressions);
	loaded_ledger_finish(&fixture->ledger);
}

static const struct report_process *only(const struct fixture *fixture)
{
	return fixture->report.processes[0];
}

typedef int print_fn(const struct report *report, const struct judgement *judgement, FILE *out);

static char *printed(print_fn *print, const struct report *report)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_int_equal(print(report, NULL, out), 0);
	fclose(out);
	return text;
}

static void expect(print_fn *print, const struct report *report, const char *expected)
{
	char *text = printed(print, report);

	assert_string_equal(text, expected);
	free(text);
}

static void contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* Three sites: one of two rows, one that is suppressed by "liba", one that freed all. */
static void fill(struct ledger_builder *builder)
{
	static const uint64_t first[] = { 0x1011, 0x2022 }, second[] = { 0x5011, 0x2022 };
	uint32_t one, two, row;

	builder_init(builder);
	builder_module(builder, "/bin/app", 0x1000, 0x3000, 0x1000, 0);
	builder_module(builder, "/lib/liba.so", 0x5000, 0x6000, 0x5000, 0);
	one = builder_stack(builder, first, 2, 0);
	two = builder_stack(builder, second, 2, 0);
	row = builder_row(builder, "cuMemAlloc_v2", "device", 0, one, 3, 3 << 20);
	builder_block(builder, row, 0x100000, 1 << 20);
	row = builder_row(builder, "cuMemAlloc_v2", "device", 0, one, 1, 2 << 20);
	builder_block(builder, row, 0x200000, 2 << 20);
	row = builder_row(builder, "clCreateBuffer", "cl-buffer", -1, two, 2, 600);
	builder_block(builder, row, 0x300000, 300);
	builder_row(builder, "cuMemAllocManaged", "managed", 1, two, 5, 500);
	builder_header(builder)->peak_bytes = 4 << 20;
}

static void test_grouping(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;
	const struct report_process *process;

	(void)state;
	fill(&builder);
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, "leak:liba\nleak:nothing\n");
	process = only(&fixture);
	assert_int_equal(process->pid, 4242);
	assert_string_equal(process->program, "app");
	assert_string_equal(process->host, "elsewhere");
	assert_int_equal(process->command_count, 2);
	assert_string_equal(process->command[1], "-x");
	assert_int_equal(process->leak_count, 1);
	assert_int_equal(process->leaks[0].bytes, 3 << 20);
	assert_int_equal(process->leaks[0].blocks, 2);
	assert_int_equal(process->leaks[0].site->stack->count, 2);
	assert_int_equal(process->leaks[0].site->stack->frames[0].offset, 0x10);
	assert_string_equal(process->leaks[0].site->stack->frames[0].module, "/bin/app");
	assert_int_equal(process->suppressed_count, 1);
	assert_string_equal(process->suppressed[0].pattern, "liba");
	assert_int_equal(process->summary.leaked_bytes, 3 << 20);
	assert_int_equal(process->summary.suppressed_bytes, 300);
	assert_int_equal(process->summary.allocated_blocks, 11);
	assert_int_equal(process->summary.freed_blocks, 8);
	assert_int_equal(process->note_count, 0);
	assert_int_equal(process->incomplete, 0);
	end(&fixture);
	builder_finish(&builder);
}

static void mark(struct ledger_builder *builder, uint32_t block, uint32_t marked, uint32_t thread)
{
	struct ledger_block *at = builder_at(builder, block);

	at->marked = marked;
	at->thread = thread;
}

/* What the program ignores is suppressed whatever the rules say, and apart from its neighbours of
 * the same row. The word of a slot that is not in use says nothing, a row that is none is met in
 * both forms. */
static void test_ignored(void **state)
{
	struct ledger_builder builder;
	const struct report_process *process;
	struct fixture fixture;
	uint32_t row, block;
	char *text;

	(void)state;
	fill(&builder);
	row = builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 4, 1111);
	mark(&builder, builder_block(&builder, row, 0x400000, 1), LEDGER_BLOCK_IGNORED | 7, 0);
	mark(&builder, builder_block(&builder, row, 0x400100, 10), 7, 0);
	mark(&builder, builder_block(&builder, row, 0x400200, 100), UINT32_MAX, 0);
	block = builder_block(&builder, row, 0x400300, 1000);
	mark(&builder, block, UINT32_MAX, 0);
	((struct ledger_block *)builder_at(&builder, block))->state = LEDGER_BLOCK_UNUSED;
	mark(&builder, builder_block(&builder, 12345, 0x500000, 5), LEDGER_BLOCK_IGNORED, 0);
	mark(&builder, builder_block(&builder, 12345, 0x500100, 6), 0, 0);
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, "leak:liba\n");
	process = only(&fixture);
	assert_int_equal(process->leak_count, 3);
	assert_int_equal(process->summary.leaked_bytes, (3 << 20) + 10 + 6);
	assert_int_equal(process->suppressed_count, 3);
	assert_int_equal(process->summary.suppressed_blocks, 4);
	assert_int_equal(process->summary.suppressed_bytes, 300 + 101 + 5);
	assert_string_equal(process->suppressed[0].pattern, "liba");
	assert_int_equal(process->suppressed[0].ignored, 0);
	assert_string_equal(process->suppressed[1].pattern, REPORT_IGNORED);
	assert_int_equal(process->suppressed[1].ignored, 1);
	assert_int_equal(process->suppressed[1].blocks, 2);
	assert_int_equal(process->suppressed[2].bytes, 5);
	text = printed(print_text, &fixture.report);
	contains(text, "         3                  106  gpuleak_ignore()\n"
		       "         1                  300  liba\n");
	free(text);
	end(&fixture);
	builder_finish(&builder);
}

static void expect_choice(struct ledger_builder *builder, struct load_choice choice,
			  uint64_t leaked_bytes, uint64_t left_out_blocks)
{
	struct report_process *process = NULL;
	struct symbolizer *symbolizer;
	struct loaded_ledger ledger;
	char error[256];

	assert_int_equal(loaded_ledger_copy(builder->bytes, builder->size, "test", &ledger, error,
					    sizeof(error)), 0);
	ledger.choice = choice;
	symbolizer = symbolizer_create(SYMBOLIZER_NO_FILES);
	process = report_process_build(&ledger, symbolizer, NULL);
	assert_int_equal(process->summary.leaked_bytes, leaked_bytes);
	assert_int_equal(process->summary.left_out_blocks, left_out_blocks);
	assert_int_equal(process->summary.freed_blocks, 0);
	report_process_destroy(process);
	symbolizer_destroy(symbolizer);
	loaded_ledger_finish(&ledger);
}

/* Blocks of a choice; the others are neither leaked nor freed. */
static void test_choice(void **state)
{
	struct ledger_builder builder;
	uint32_t row, object;

	(void)state;
	builder_init(&builder);
	row = builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 3, 1110);
	mark(&builder, builder_block(&builder, row, 0x1000, 10), 0, 5); /* an older writer's */
	mark(&builder, builder_block(&builder, row, 0x2000, 100), 2, 5);
	mark(&builder, builder_block(&builder, row, UINT64_MAX - 5, 1000), 3, 6);
	object = builder_row(&builder, "clCreateKernel", "object/cl-kernel", -1, 0, 1, 0);
	mark(&builder, builder_block(&builder, object, 0x3000, 0), 1, 5);
	expect_choice(&builder, (struct load_choice){ 0 }, 1110, 0);
	expect_choice(&builder, (struct load_choice){ .since = 1 }, 1100, 1);
	expect_choice(&builder, (struct load_choice){ .since = 2 }, 1100, 1);
	expect_choice(&builder, (struct load_choice){ .since = 3 }, 1000, 2);
	expect_choice(&builder, (struct load_choice){ .since = UINT64_MAX }, 0, 3);
	expect_choice(&builder, (struct load_choice){ .thread = 5 }, 110, 1);
	expect_choice(&builder, (struct load_choice){ .thread = 5, .since = 2 }, 100, 2);
	expect_choice(&builder, (struct load_choice){ .address = 0x1009 }, 10, 2);
	expect_choice(&builder, (struct load_choice){ .address = 0x100a }, 0, 3);
	expect_choice(&builder, (struct load_choice){ .address = 0xfff }, 0, 3);
	expect_choice(&builder, (struct load_choice){ .address = UINT64_MAX }, 1000, 2);
	expect_choice(&builder, (struct load_choice){ .address = 0x3000 }, 0, 3);
	builder_finish(&builder);
}

static const char *const expected_text =
	"gpuleak: 1 leak, 3.0 MiB in 2 of 4 blocks never freed, allocated at ??? (/bin/app+0x10), "
	"called from ??? (/bin/app+0x1021)\n"
	"gpuleak: 11 blocks (5.0 MiB) allocated by app (pid 4242), 8 freed, 1 suppressed, 2 "
	"leaked: 3,145,728 bytes (3.0 MiB), peak 4.0 MiB; exited with status 0\n"
	"\n"
	"Leak of 3,145,728 bytes (3.0 MiB) in 2 blocks (device memory, cuMemAlloc_v2, device 0), "
	"allocated at:\n"
	"    #0 ??? (/bin/app+0x10)\n"
	"    #1 ??? (/bin/app+0x1021)\n"
	"Suppressions used:\n"
	"    blocks                bytes  pattern\n"
	"         1                  300  liba\n"
	"Suppression in line 2 matched nothing: leak:nothing\n";

static const char *const expected_json =
	"{\n"
	"  \"schema\": \"gpuleak-report/1\",\n"
	"  \"process\": {\n"
	"    \"pid\": 4242,\n"
	"    \"command\": [\n      \"/bin/app\",\n      \"-x\"\n    ],\n"
	"    \"ended\": \"exit\",\n"
	"    \"status\": 0,\n"
	"    \"host\": \"elsewhere\",\n"
	"    \"exe\": \"/bin/app\",\n"
	"    \"attached_seconds\": null,\n"
	"    \"before_attach_bytes\": null\n"
	"  },\n"
	"  \"summary\": {\n"
	"    \"leaked_bytes\": 3145728,\n"
	"    \"leaked_blocks\": 2,\n"
	"    \"keeps_bytes\": 3145728,\n"
	"    \"suppressed_bytes\": 300,\n"
	"    \"suppressed_blocks\": 1,\n"
	"    \"cached_bytes\": 0,\n"
	"    \"cached_blocks\": 0,\n"
	"    \"errors\": 0,\n"
	"    \"allocated_bytes\": 5243980,\n"
	"    \"allocated_blocks\": 11,\n"
	"    \"freed_blocks\": 8,\n"
	"    \"peak_bytes\": 4194304,\n"
	"    \"with_context_blocks\": 0,\n"
	"    \"with_context_bytes\": 0,\n"
	"    \"late_blocks\": 0\n"
	"  },\n"
	"  \"leaks\": [\n"
	"    {\n"
	"      \"api\": \"cuMemAlloc_v2\",\n"
	"      \"kind\": \"device\",\n"
	"      \"fingerprint\": \"0d261547083285c3\",\n"
	"      \"fingerprint2\": \"0d261547083285c3\",\n"
	"      \"device\": 0,\n"
	"      \"bytes\": 3145728,\n"
	"      \"blocks\": 2,\n"
	"      \"keeps_bytes\": 3145728,\n"
	"      \"stack\": [\n"
	"        {\n"
	"          \"function\": null,\n"
	"          \"file\": null,\n"
	"          \"line\": 0,\n"
	"          \"module\": \"/bin/app\",\n"
	"          \"offset\": \"0x10\"\n"
	"        },\n"
	"        {\n"
	"          \"function\": null,\n"
	"          \"file\": null,\n"
	"          \"line\": 0,\n"
	"          \"module\": \"/bin/app\",\n"
	"          \"offset\": \"0x1021\"\n"
	"        }\n"
	"      ]\n"
	"    }\n"
	"  ],\n"
	"  \"errors\": [],\n"
	"  \"suppressed\": [\n"
	"    {\n"
	"      \"api\": \"clCreateBuffer\",\n"
	"      \"kind\": \"cl-buffer\",\n"
	"      \"fingerprint\": \"4cebf460a19dd4f5\",\n"
	"      \"fingerprint2\": \"4cebf460a19dd4f5\",\n"
	"      \"device\": -1,\n"
	"      \"bytes\": 300,\n"
	"      \"blocks\": 1,\n"
	"      \"keeps_bytes\": 300,\n"
	"      \"stack\": [\n"
	"        {\n"
	"          \"function\": null,\n"
	"          \"file\": null,\n"
	"          \"line\": 0,\n"
	"          \"module\": \"/lib/liba.so\",\n"
	"          \"offset\": \"0x10\",\n"
	"          \"code\": \"package\"\n"
	"        },\n"
	"        {\n"
	"          \"function\": null,\n"
	"          \"file\": null,\n"
	"          \"line\": 0,\n"
	"          \"module\": \"/bin/app\",\n"
	"          \"offset\": \"0x1021\"\n"
	"        }\n"
	"      ],\n"
	"      \"pattern\": \"liba\"\n"
	"    }\n"
	"  ],\n"
	"  \"cached\": [],\n"
	"  \"objects\": [],\n"
	"  \"peak\": null,\n"
	"  \"out_of_memory\": [],\n"
	"  \"released\": {\n"
	"    \"peak_bytes\": 0,\n"
	"    \"peak_ns\": 0,\n"
	"    \"longest_wait_ns\": 0,\n"
	"    \"longest\": null,\n"
	"    \"timeline\": [],\n"
	"    \"held_blocks\": 0,\n"
	"    \"held_bytes\": 0,\n"
	"    \"held\": []\n"
	"  },\n"
	"  \"coverage\": {\n"
	"    \"routes\": [],\n"
	"    \"untracked\": [],\n"
	"    \"unclassed\": [],\n"
	"    \"out_of_reach\": []\n"
	"  },\n"
	"  \"notes\": [],\n"
	"  \"suppressions\": [\n"
	"    {\n      \"pattern\": \"liba\",\n      \"blocks\": 1,\n      \"bytes\": 300\n    },\n"
	"    {\n      \"pattern\": \"nothing\",\n      \"blocks\": 0,\n      \"bytes\": 0\n    }\n"
	"  ]\n"
	"}\n";

static void test_text_and_json(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;

	(void)state;
	fill(&builder);
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, "leak:liba\nleak:nothing\n");
	expect(print_text, &fixture.report, expected_text);
	expect(print_json, &fixture.report, expected_json);
	end(&fixture);
	builder_finish(&builder);
}

static void test_clean(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;
	struct ledger_site *row;
	uint32_t ref;

	(void)state;
	builder_init(&builder);
	ref = builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 5, 10 << 20);
	builder_header(&builder)->peak_bytes = 4 << 20;
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	expect(print_text, &fixture.report,
	       "gpuleak: no leaks: 5 blocks (10.0 MiB) allocated by app (pid 4242), all freed, "
	       "peak 4.0 MiB\n");
	end(&fixture);

	row = builder_at(&builder, ref);
	row->with_context = 1;
	row->late = 2;
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	assert_int_equal(fixture.report.incomplete, 0);
	end(&fixture);

	row->unseen = 1;
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	assert_int_equal(fixture.report.incomplete, 1);
	end(&fixture);

	builder_header(&builder)->trouble[LEDGER_TROUBLE_UNRECORDED_BLOCKS] = 1234;
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	assert_int_equal(fixture.report.incomplete, 1);
	expect(print_text, &fixture.report,
	       "gpuleak: 1 block (0 bytes) never freed, ended with its context; allocated at an "
	       "unknown place (no stack was recorded)\n"
	       "gpuleak: also: not everything was recorded\n"
	       "gpuleak: 5 blocks (10.0 MiB) allocated by app (pid 4242), 3 freed (2 of them after "
	       "the driver had begun to shut down), 1 released with their context, 1 freed by "
	       "unseen calls, peak 4.0 MiB; exited with status 0\n\n"
	       "Ended with its context: 0 bytes in 1 block (device memory, cuMemAlloc_v2, device "
	       "0), never freed, allocated at:\n    (no stack was recorded)\n"
	       "  It is not known which call ended the context.\n\n"
	       "note: 1,234 allocations were not recorded: the ledger could not grow\n"
	       "note: 1 block was freed by unseen calls, and no gap in the coverage explains it: "
	       "leaks may be missing, too (gpuleak doctor looks for the reason)\n");
	end(&fixture);
	builder_finish(&builder);
}

static void test_order(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;
	uint64_t pcs[8];
	uint64_t last = UINT64_MAX;

	(void)state;
	/* Equal sizes: the order is that of the call sites, not that in the ledger. */
	builder_init(&builder);
	builder_module(&builder, "/bin/app", 0x1000, 0x3000, 0x1000, 0);
	for (unsigned int i = 0; i < 8; i++) {
		uint32_t stack, row;

		pcs[0] = 0x1100 + (i * 5 % 8) * 0x10 + 1;
		stack = builder_stack(&builder, pcs, 1, 0);
		row = builder_row(&builder, "cuMemAlloc_v2", "device", 0, stack, 1, 100);
		builder_block(&builder, row, i * 0x1000, i == 3 ? 200 : 100);
	}
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	assert_int_equal(only(&fixture)->leak_count, 8);
	assert_int_equal(only(&fixture)->leaks[0].bytes, 200);
	for (unsigned int i = 1; i < 8; i++) {
		uint64_t offset = only(&fixture)->leaks[i].site->stack->frames[0].offset;

		assert_true(i == 1 || offset > last);
		last = offset;
	}
	end(&fixture);
	builder_finish(&builder);
}

static void test_epochs(void **state)
{
	static const uint64_t pcs[] = { 0x1011, 0x99999 };
	struct ledger_builder builder;
	struct fixture fixture;
	const struct report_leak *leaks;
	uint32_t row;

	(void)state;
	builder_init(&builder);
	builder_module(&builder, "/old.so", 0x1000, 0x2000, 0x1000, 0);
	builder_module(&builder, "/new.so", 0x1000, 0x3000, 0x1000, 2);
	for (uint32_t epoch = 0; epoch < 4; epoch++) {
		row = builder_row(&builder, "a", "device", 0,
				  builder_stack(&builder, pcs, 2, epoch), 1, epoch < 2 ? 20 : 10);
		builder_block(&builder, row, epoch, epoch < 2 ? 20 : 10);
	}
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	leaks = only(&fixture)->leaks;
	assert_int_equal(only(&fixture)->leak_count, 2);
	assert_string_equal(leaks[0].site->stack->frames[0].module, "/old.so");
	assert_string_equal(leaks[1].site->stack->frames[0].module, "/new.so");
	assert_null(leaks[0].site->stack->frames[1].module);
	assert_int_equal(leaks[0].site->stack->frames[1].offset, 0x99998);
	end(&fixture);
	builder_finish(&builder);
}

/* What the unwinder would have seen: return addresses in functions of this file. */
static __attribute__((noinline)) uint64_t caller(void)
{
	return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

static __attribute__((noinline)) uint64_t plain_function(unsigned int *line)
{
	uint64_t ret;

	*line = __LINE__ + 1;
	ret = caller();
	__asm__ volatile("" : "+r"(ret)); /* no tail call */
	return ret;
}

static inline __attribute__((always_inline)) uint64_t inlined_function(unsigned int *line)
{
	uint64_t ret;

	*line = __LINE__ + 1;
	ret = caller();
	__asm__ volatile("" : "+r"(ret));
	return ret;
}

static __attribute__((noinline)) uint64_t outer_function(unsigned int lines[2])
{
	uint64_t ret;

	lines[1] = __LINE__ + 1;
	ret = inlined_function(&lines[0]);
	__asm__ volatile("" : "+r"(ret));
	return ret;
}

struct self {
	uint64_t start, end, bias;
	uint8_t build_id[LEDGER_BUILD_ID_MAX];
	uint32_t build_id_bytes;
};

static void read_build_id(struct self *self, const uint8_t *at, size_t size)
{
	while (size >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)at;
		size_t name = (note->n_namesz + 3u) & ~3u, data = (note->n_descsz + 3u) & ~3u;

		if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz <= LEDGER_BUILD_ID_MAX) {
			self->build_id_bytes = note->n_descsz;
			memcpy(self->build_id, at + sizeof(*note) + name, note->n_descsz);
		}
		if (sizeof(*note) + name + data > size)
			return;
		at += sizeof(*note) + name + data;
		size -= sizeof(*note) + name + data;
	}
}

static int find_self(struct dl_phdr_info *info, size_t size, void *data)
{
	struct self *self = data;

	(void)size;
	self->bias = info->dlpi_addr;
	self->start = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_NOTE)
			read_build_id(self, (const uint8_t *)(uintptr_t)start, segment->p_memsz);
		if (segment->p_type != PT_LOAD)
			continue;
		self->start = start < self->start ? start : self->start;
		self->end = start + segment->p_memsz;
	}
	return 1; /* the program itself is the first */
}

/* A ledger of one block that was allocated at PCS in this program. */
static void fill_self(struct ledger_builder *builder, const uint64_t *pcs, unsigned int count,
		      int other_build)
{
	struct self self = { 0 };
	struct ledger_module *module;
	char path[4096] = "";
	uint32_t ref;

	dl_iterate_phdr(find_self, &self);
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	builder_init(builder);
	ref = builder_module(builder, path, self.start, self.end, self.bias, 0);
	module = builder_at(builder, ref);
	module->build_id_bytes = self.build_id_bytes;
	memcpy(module->build_id, self.build_id, sizeof(self.build_id));
	if (other_build) {
		module->build_id_bytes = 20;
		module->build_id[0] ^= 1;
	}
	ref = builder_row(builder, "cuMemAlloc_v2", "device", 0,
			  builder_stack(builder, pcs, count, 0), 1, 100);
	builder_block(builder, ref, 0x1000, 100);
}

static void check_frame(const struct report_frame *frame, const char *function, unsigned int line)
{
	assert_non_null(frame->function);
	assert_string_equal(frame->function, function);
	assert_non_null(frame->file);
	assert_string_equal(strrchr(frame->file, '/') + 1, "test_report.c");
	assert_int_equal(frame->file[0], '/');
	assert_null(strstr(frame->file, "/../"));
	assert_int_equal(frame->line, line);
}

static void test_symbols(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;
	const struct report_stack *stack;
	unsigned int plain, lines[2];
	uint64_t pcs[2];

	(void)state;
	pcs[0] = plain_function(&plain);
	pcs[1] = outer_function(lines);
	fill_self(&builder, pcs, 2, 0);
	begin(&fixture, &builder, 0, NULL);
	assert_int_equal(only(&fixture)->note_count, 0);
	stack = only(&fixture)->leaks[0].site->stack;
	assert_int_equal(stack->count, 3);
	check_frame(&stack->frames[0], "plain_function", plain);
	check_frame(&stack->frames[1], "inlined_function", lines[0]);
	check_frame(&stack->frames[2], "outer_function", lines[1]);
	assert_int_equal(stack->frames[1].offset, stack->frames[2].offset);
	end(&fixture);
	builder_finish(&builder);
}

static void test_rebuilt(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;
	unsigned int line;
	uint64_t pc = plain_function(&line);

	(void)state;
	fill_self(&builder, &pc, 1, 1);
	begin(&fixture, &builder, 0, NULL);
	assert_null(only(&fixture)->leaks[0].site->stack->frames[0].function);
	assert_null(only(&fixture)->leaks[0].site->stack->frames[0].file);
	assert_non_null(only(&fixture)->leaks[0].site->stack->frames[0].module);
	assert_int_equal(only(&fixture)->note_count, 1);
	contains(only(&fixture)->notes[0], " was rebuilt after the run");
	end(&fixture);
	builder_finish(&builder);
}

static void test_missing_file(void **state)
{
	static const char *const paths[] = { "/nowhere/libx.so", "/dev/zero", "/", "relative.so",
					     "[vdso]", "", "/proc/self/exe (deleted)" };
	struct ledger_builder builder;
	struct fixture fixture;
	uint64_t pc = 0x1011;
	uint32_t row;

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		builder_init(&builder);
		builder_module(&builder, paths[i], 0x1000, 0x2000, 0x1000, 0);
		row = builder_stack(&builder, &pc, 1, 0);
		row = builder_row(&builder, "a", "device", 0, row, 1, 1);
		builder_block(&builder, row, 1, 1);
		begin(&fixture, &builder, 0, NULL);
		assert_null(only(&fixture)->leaks[0].site->stack->frames[0].function);
		assert_string_equal(only(&fixture)->leaks[0].site->stack->frames[0].module,
				    paths[i]);
		assert_int_equal(only(&fixture)->note_count, i < 3 || i == 6);
		end(&fixture);
		builder_finish(&builder);
	}
}

static uint32_t one_frame(struct ledger_builder *builder, uint64_t offset)
{
	uint64_t pc = 0x1000 + offset + 1;

	return builder_stack(builder, &pc, 1, 0);
}

static void fill_errors(struct ledger_builder *builder)
{
	struct ledger_error error = { .address = 0x10000, .result = 1, .device = 0 };
	struct ledger_error plain;
	uint32_t free_name;

	builder_init(builder);
	builder_module(builder, "/bin/app", 0x1000, 0x3000, 0x1000, 0);
	free_name = builder_string(builder, "cuMemFree_v2");
	error.api = error.freed.api = free_name;
	error.kind = builder_string(builder, "device");
	plain = error;
	error.type = builder_string(builder, "double-free");
	error.stack = one_frame(builder, 0x10);
	error.block_address = 0x10000;
	error.block_bytes = 1024;
	error.allocated.api = builder_string(builder, "cuMemAlloc_v2");
	error.allocated.stack = one_frame(builder, 0x20);
	error.freed.stack = one_frame(builder, 0x30);
	builder_error(builder, &error);
	error.address = 0x20000;
	builder_error(builder, &error);
	error.earlier_allocated = error.allocated;
	error.earlier_allocated.stack = one_frame(builder, 0x40);
	error.earlier_freed.api = free_name;
	error.earlier_freed.stack = one_frame(builder, 0x50);
	error.earlier_bytes = 2048;
	builder_error(builder, &error);
	plain.freed.api = 0;
	plain.type = builder_string(builder, "invalid-free");
	plain.stack = one_frame(builder, 0x60);
	plain.kind = 0;
	builder_error(builder, &plain);
	plain.type = builder_string(builder, "interior-free");
	plain.kind = error.kind;
	plain.block_address = 0xf000;
	plain.block_bytes = 8192;
	plain.allocated = error.allocated;
	builder_error(builder, &plain);
	builder_header(builder)->errors = 5;
}

static const char *const expected_errors =
	"gpuleak: 5 errors, first: double free of 0x10000 at ??? (/bin/app+0x10), already "
	"freed by ??? (/bin/app+0x30)\ngpuleak: nothing allocated by app (pid 4242); exited "
	"with status 0\n\nDouble free of 0x10000 "
	"(2 times with the same stacks): cuMemFree_v2 was given a block that had been freed "
	"already (the driver returned CUDA_ERROR_INVALID_VALUE (1)), at:\n    #0 ??? "
	"(/bin/app+0x10)\n  The block had 1,024 bytes (1.0 KiB) of device memory.\n  The block "
	"was allocated by cuMemAlloc_v2 at:\n    #0 ??? (/bin/app+0x20)\n  The block was first "
	"freed by cuMemFree_v2 at:\n    #0 ??? (/bin/app+0x30)\n\nDouble free of 0x20000: "
	"cuMemFree_v2 was given a block that had been freed already (the driver returned "
	"CUDA_ERROR_INVALID_VALUE (1)), at:\n    #0 ??? (/bin/app+0x10)\n  The block had 1,024 "
	"bytes (1.0 KiB) of device memory.\n  The block was allocated by cuMemAlloc_v2 at:\n    "
	"#0 ??? (/bin/app+0x20)\n  The block was freed by cuMemFree_v2 at (possible cause):\n    "
	"#0 ??? (/bin/app+0x30)\n  An earlier block of 2,048 bytes (2.0 KiB) had the same "
	"address.\n  If the possible cause meant to free the earlier block, it freed that block "
	"twice and this\n  block by mistake. Otherwise the call above is the double free.\n  The "
	"earlier block was allocated by cuMemAlloc_v2 at:\n    #0 ??? (/bin/app+0x40)\n  The "
	"earlier block was freed by cuMemFree_v2 at:\n    #0 ??? (/bin/app+0x50)\n\nInvalid free "
	"of 0x10000: cuMemFree_v2 was given an address that no allocation returned (the driver "
	"returned CUDA_ERROR_INVALID_VALUE (1)), at:\n    #0 ??? (/bin/app+0x60)\n\nInterior free "
	"of 0x10000: cuMemFree_v2 was given an address 4,096 bytes into a block of 8,192 bytes "
	"(8.0 KiB) of device memory at 0xf000 (the driver returned CUDA_ERROR_INVALID_VALUE (1)), "
	"at:\n    #0 ??? (/bin/app+0x60)\n  The block was allocated by cuMemAlloc_v2 at:\n    #0 "
	"??? (/bin/app+0x20)\n";

static size_t count_of(const char *text, const char *part)
{
	size_t count = 0;

	while ((text = strstr(text, part))) {
		count++;
		text += strlen(part);
	}
	return count;
}

static void test_errors(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;
	char *json;

	(void)state;
	fill_errors(&builder);
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, "leak:app\n");
	assert_int_equal(only(&fixture)->summary.errors, 5);
	fixture.report.suppressions = NULL;
	expect(print_text, &fixture.report, expected_errors);
	json = printed(print_json, &fixture.report);
	contains(json, "\"culprit_candidate\": \"freed\"");
	contains(json, "\"type\": \"interior-free\"");
	contains(json, "\"allocated\": null");
	contains(json, "\"address\": \"0x20000\"");
	free(json);
	/* Where the first of two frees may be the invalid one, the second is not called that. */
	json = printed(print_sarif, &fixture.report);
	assert_int_equal(count_of(json, "\"text\": \"invalid free at\""), 3);
	assert_int_equal(count_of(json, "\"text\": \"freed a second time at; the first free may be "
					"the invalid one\""), 1);
	assert_int_equal(count_of(json, "\"text\": \"first freed at (possible cause)\""), 2);
	free(json);
	end(&fixture);
	builder_finish(&builder);
}

/* One that was taken back, and the right call with the wrong range. */
static void test_errors_taken_back(void **state)
{
	struct ledger_error error = { .address = 0x10000, .result = 1, .device = -1 };
	struct ledger_builder builder;
	struct fixture fixture;
	char *told;

	(void)state;
	builder_init(&builder);
	builder_module(&builder, "/bin/app", 0x1000, 0x3000, 0x1000, 0);
	builder_error(&builder, &error);
	error.type = builder_string(&builder, "mismatched-free");
	error.api = builder_string(&builder, "cuMemUnmap");
	error.stack = one_frame(&builder, 0x10);
	error.block_bytes = 4096;
	error.flags = LEDGER_ERROR_OTHER_RANGE;
	error.asked_bytes = 2048;
	builder_error(&builder, &error);
	builder_header(&builder)->errors = 1;
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, "leak:app\n");
	assert_int_equal(only(&fixture)->summary.errors, 1);
	assert_int_equal(only(&fixture)->error_count, 1);
	told = printed(print_text, &fixture.report);
	contains(told, "cuMemUnmap was given a range of 2,048 bytes, which is not the "
		       "range of this block of 4,096 bytes (the driver returned ");
	free(told);
	told = printed(print_json, &fixture.report);
	contains(told, "\"asked_bytes\": 2048");
	free(told);
	end(&fixture);
	builder_finish(&builder);
}

/* The first line of a report with leaks, of one process and of several, says that the record is
 * incomplete. */
static void test_incomplete(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture, clean;
	char *text;

	(void)state;
	fill(&builder);
	builder_header(&builder)->trouble[LEDGER_TROUBLE_ABANDONED] = 2;
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	builder_finish(&builder);
	text = printed(print_text, &fixture.report);
	contains(text, "(/bin/app+0x1021)\ngpuleak: also: not everything was recorded\ngpuleak: ");
	free(text);
	builder_init(&builder);
	builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 1, 8);
	begin(&clean, &builder, SYMBOLIZER_NO_FILES, NULL);
	report_add_process(&fixture.report, clean.report.processes[0]);
	clean.report.count = 0;
	text = printed(print_text, &fixture.report);
	contains(text, " in app (pid 4242)\ngpuleak: also: not everything was recorded\ngpuleak: ");
	free(text);
	end(&fixture);
	end(&clean);
	builder_finish(&builder);
}

static void test_processes(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture, clean;
	char *text;

	(void)state;
	fill(&builder);
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	builder_finish(&builder);
	builder_init(&builder);
	builder_header(&builder)->pid = 17;
	builder_row(&builder, "cuMemAlloc_v2", "device", 0, 0, 1, 8);
	begin(&clean, &builder, SYMBOLIZER_NO_FILES, NULL);
	report_add_process(&fixture.report, clean.report.processes[0]);
	clean.report.count = 0;
	report_process_set_ended(fixture.report.processes[0], REPORT_SIGNAL, 9);
	report_sort(&fixture.report);
	assert_int_equal(fixture.report.processes[0]->pid, 17);
	text = printed(print_text, &fixture.report);
	contains(text, "gpuleak: 2 leaks, 3.0 MiB in 3 blocks never freed by 1 of 2 processes, "
		       "most (3.0 MiB in 2 of 4 blocks) at ??? (.../app+0x10),\n"
		       "gpuleak: called from ??? (.../app+0x1021) in app (pid 4242)\n"
		       "gpuleak: 12 blocks (5.0 MiB) allocated by 2 processes, 9 freed, 3 leaked: "
		       "3,146,028 bytes (3.0 MiB), sum of peaks 4.0 MiB\n\n"
		       "gpuleak: no leaks: 1 block (8 bytes) allocated by app (pid 17), all freed, "
		       "peak 0 bytes\n\n"
		       "gpuleak: 2 leaks, 3.0 MiB in 3 blocks ");
	contains(text, "; killed by signal 9 SIGKILL\n");
	free(text);
	text = printed(print_json, &fixture.report);
	contains(text, "{\n  \"schema\": \"gpuleak-report/1\",\n  \"processes\": [\n");
	contains(text, "\"ended\": \"signal\",\n        \"status\": 9,");
	free(text);
	end(&fixture);
	end(&clean);
	builder_finish(&builder);
}

static void test_names_are_harmless(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;
	char *text;
	uint32_t row;

	(void)state;
	builder_init(&builder);
	row = builder_row(&builder, "evil\033[2J\n\302\233x\377 \303\251", "k\001d", 0, 0, 1, 1);
	builder_block(&builder, row, 1, 1);
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	text = printed(print_text, &fixture.report);
	contains(text, "k\\x01d, evil\\x1B[2J\\x0A\\xC2\\x9Bx\\xFF \303\251");
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (unsigned char)*at >= 0x20);
	free(text);
	text = printed(print_json, &fixture.report);
	contains(text, "x\357\277\275 \303\251");
	free(text);
	end(&fixture);
	builder_finish(&builder);
}

static void test_ended(void **state)
{
	static const struct {
		uint32_t said;
		enum report_ended ended;
		const char *word;
	} cases[] = {
		{ LEDGER_RUNNING, REPORT_UNKNOWN, "unknown" }, { LEDGER_EXIT, REPORT_EXIT, "exit" },
		{ LEDGER__EXIT, REPORT__EXIT, "_exit" }, { LEDGER_EXEC, REPORT_EXEC, "exec" },
		{ 77, REPORT_UNKNOWN, "unknown" },
	};
	struct ledger_builder builder;
	struct fixture fixture;
	unsigned long long ticks = 0;
	FILE *stat;

	(void)state;
	builder_init(&builder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		builder_header(&builder)->ended = cases[i].said;
		builder_header(&builder)->status = 3;
		begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
		assert_int_equal(only(&fixture)->ended, cases[i].ended);
		assert_string_equal(report_ended_word(cases[i].ended), cases[i].word);
		assert_int_equal(only(&fixture)->status,
				 cases[i].ended == REPORT_EXIT || cases[i].ended == REPORT__EXIT
					 ? 3
					 : 0);
		end(&fixture);
	}
	builder_finish(&builder);
	stat = fopen("/proc/self/stat", "r");
	assert_non_null(stat);
	assert_int_equal(fscanf(stat, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d "
				      "%*d %*d %*d %*d %*d %*d %*d %*d %llu", &ticks), 1);
	fclose(stat);
	assert_true(process_alive(getpid(), ticks, NULL));
	assert_false(process_alive(getpid(), ticks + 1, NULL));
	assert_false(process_alive(getpid(), ticks, "elsewhere"));
	assert_false(process_alive(-1, ticks, NULL));
}

static void refused(const char *path, int code, const char *what)
{
	struct loaded_ledger ledger;
	char error[512] = "";

	assert_int_equal(loaded_ledger_open(path, &ledger, error, sizeof(error)), code);
	contains(error, path);
	contains(error, what);
	assert_null(strchr(error, '\n'));
}

static void write_file(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static void test_load(void **state)
{
	char folder[] = "/tmp/gpuleak-test-XXXXXX", path[64];
	struct ledger_builder builder;
	struct loaded_ledger ledger;
	char error[512];

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/x", folder);
	refused(folder, -EISDIR, "is a directory");
	refused(path, -ENOENT, "cannot open it: No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(path, -EINVAL, "not a regular file");
	unlink(path);
	write_file(path, "", 0);
	refused(path, -EBADMSG, "cut short");
	write_file(path, "#!/bin/sh\n", 10);
	refused(path, -EBADMSG, "is not a gpuleak ledger");

	/* A ledger that says running is read twice; nothing of it may get lost by that. */
	fill(&builder);
	builder_header(&builder)->ended = LEDGER_RUNNING;
	write_file(path, builder.bytes, builder.size);
	assert_int_equal(loaded_ledger_open(path, &ledger, error, sizeof(error)), 0);
	assert_string_equal(ledger.name, path);
	assert_int_equal(ledger.unsettled, 0);
	assert_int_equal(ledger.view.bytes, builder.size);
	assert_memory_equal(ledger.bytes, builder.bytes, builder.size);
	loaded_ledger_finish(&ledger);

	/* A file is allocated ahead of its ledger. */
	builder_header(&builder)->chunks--;
	write_file(path, builder.bytes, builder.size);
	assert_int_equal(loaded_ledger_open(path, &ledger, error, sizeof(error)), 0);
	assert_int_equal(ledger.view.cut, 0);
	loaded_ledger_finish(&ledger);
	builder_header(&builder)->reader_min = LEDGER_VERSION + 1;
	write_file(path, builder.bytes, builder.size);
	refused(path, -EBADMSG, "newer gpuleak");
	unlink(path);
	rmdir(folder);
	builder_finish(&builder);
}

static void test_cut_ledger(void **state)
{
	struct ledger_builder builder;
	struct fixture fixture;

	(void)state;
	fill(&builder);
	builder.size -= LEDGER_CHUNK; /* the copy broke off */
	begin(&fixture, &builder, SYMBOLIZER_NO_FILES, NULL);
	assert_int_equal(fixture.report.incomplete, 1);
	contains(only(&fixture)->notes[0], "cut short");
	end(&fixture);
	builder_finish(&builder);
}

/* Every word of every record once as each of these: nothing may crash, hang or print a
 * number of blocks that is not there. */
static void test_hostile(void **state)
{
	static const uint32_t values[] = { 0, 1, 0x7fffffff, UINT32_MAX };
	struct ledger_builder builder;
	struct fixture fixture;
	uint32_t row;

	(void)state;
	fill_errors(&builder);
	row = builder_row(&builder, "a", "device", 0, one_frame(&builder, 8), 1, 1);
	builder_block(&builder, row, 1, 1);
	for (size_t chunk = 0; chunk < builder.size; chunk += LEDGER_CHUNK) {
		for (size_t at = chunk + (chunk ? 0 : 28); at < chunk + 320; at += 4) {
			uint32_t *word = (uint32_t *)(builder.bytes + at), saved = *word;

			for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
				*word = values[i];
				if (builder_header(&builder)->chunks == 0 ||
				    builder_header(&builder)->chunks > LEDGER_CHUNKS_MAX)
					continue;
				begin(&fixture, &builder, SYMBOLIZER_NO_FILES, "leak:x\n");
				free(printed(print_text, &fixture.report));
				free(printed(print_json, &fixture.report));
				assert_true(only(&fixture)->summary.leaked_blocks <= 1023);
				end(&fixture);
			}
			*word = saved;
		}
	}
	builder_finish(&builder);
}

static void test_numbers(void **state)
{
	char text[NUMBER_MAX];

	(void)state;
	assert_string_equal(format_number(0, text), "0");
	assert_string_equal(format_number(999, text), "999");
	assert_string_equal(format_number(1000, text), "1,000");
	assert_string_equal(format_number(UINT64_MAX, text), "18,446,744,073,709,551,615");
	assert_string_equal(format_size(1, text), "1 byte");
	assert_string_equal(format_size(1023, text), "1023 bytes");
	assert_string_equal(format_size(1024, text), "1.0 KiB");
	assert_string_equal(format_size((1 << 20) - 1, text), "1023.9 KiB");
	assert_string_equal(format_size(12582912, text), "12.0 MiB");
	assert_string_equal(format_size(UINT64_MAX, text), "15.9 EiB");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grouping),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_text_and_json),
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_rebuilt),
		cmocka_unit_test(test_missing_file),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_errors_taken_back),
		cmocka_unit_test(test_incomplete),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_names_are_harmless),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_cut_ledger),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
