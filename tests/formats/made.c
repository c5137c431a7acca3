/* SPDX-License-Identifier: MIT
 *
 * Prints a report that was made by hand in one of the formats: what no program on this machine
 * does (names of any bytes, caches, tens of thousands of leaks) and what must be done with it.
 *   made FORMAT CASE VERDICT    VERDICT: none, 0, 23 or 24
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/subjects/formats.h"
#include "report/gate/judge.h"
#include "report/model/model.h"
#include "report/model/model_suballocations.h"

/* U+202E, U+2066, U+200F, U+2028, U+0085 and U+FEFF. */
#define TURNING "\xe2\x80\xae" "\xe2\x81\xa6" "\xe2\x80\x8f" "\xe2\x80\xa8" "\xc2\x85" \
		"\xef\xbb\xbf"
#define HOSTILE "e;v i<l>&\"'%0A\n::error file=x,line=1::hi\r\x1b[31m\xff\xfe\xef\xbf\xbf]]>|`\\ " \
		"\xc3\xa4##[error]" TURNING
#define MANY 30000

static const struct report_stack no_stack;

static const struct report_frame frames[] = {
	{ .function = "make", .file = "/src/app/lib/make.c", .module = "/src/app/app", .line = 7,
	  .offset = 0x10 },
	{ .function = "main", .file = "/src/app/main.c", .module = "/src/app/app", .line = 70,
	  .offset = 0x20 },
};
static const struct report_stack plain = { frames, 2, 0 };

static const struct report_frame hostile_frames[] = {
	{ .function = HOSTILE, .file = "/src/app/" HOSTILE, .module = "/src/" HOSTILE, .line = 9,
	  .offset = 0x30 },
	{ .function = HOSTILE, .module = "/src/" HOSTILE, .offset = UINT64_MAX },
	{ .module = NULL, .offset = UINT64_MAX },
	{ .function = HOSTILE, .file = "<" HOSTILE ">", .line = 1, .language = FRAME_PYTHON },
	{ .function = "climb", .file = "/src/app/../../etc/passwd", .line = 3 },
};
static const struct report_stack hostile = { hostile_frames, 5, 1 };

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static const struct report_site *call_site(const char *api, const char *kind, int device,
					   const struct report_stack *stack)
{
	struct report_site *site = must(malloc(sizeof(*site)));

	*site = (struct report_site){ api, kind, device, stack, 0 };
	return site;
}

static struct report_leak leak_of(const struct report_stack *stack, uint64_t blocks, uint64_t bytes)
{
	return (struct report_leak){ .site = call_site("cuMemAlloc_v2", "device", 0, stack),
				     .bytes = bytes, .keeps_bytes = bytes,
				     .blocks = blocks };
}

static struct report_process *process_of(const char *program, int pid)
{
	struct report_process *p = must(calloc(1, sizeof(*p)));
	const char **command = must(calloc(3, sizeof(*command)));

	command[0] = program;
	command[1] = "--" HOSTILE;
	p->pid = pid;
	p->command = command;
	p->command_count = 2;
	p->program = program;
	p->ledger = "ledger";
	p->host = "host";
	p->start_real_ns = 1700000000ull * 1000000000ull;
	p->ended = REPORT_EXIT;
	return p;
}

static void give(struct report_leak **list, size_t *count, struct report_leak leak)
{
	*list = must(reallocarray(*list, *count + 1, sizeof(**list)));
	(*list)[(*count)++] = leak;
}

/* Sums, kinds and sites of the lists, and one site that freed all. */
static void finish(struct report_process *p)
{
	struct report_summary *sum = &p->summary;
	const struct {
		struct report_leak *leaks;
		size_t count;
		uint64_t *blocks, *bytes;
	} lists[] = {
		{ p->leaks, p->leak_count, &sum->leaked_blocks, &sum->leaked_bytes },
		{ p->suppressed, p->suppressed_count, &sum->suppressed_blocks,
		  &sum->suppressed_bytes },
		{ p->cached, p->cached_count, &sum->cached_blocks, &sum->cached_bytes },
	};
	struct report_kind *kind = must(calloc(1, sizeof(*kind)));

	*kind = (struct report_kind){ .kind = "device", .allocated_blocks = 3,
				      .allocated_bytes = 300, .freed_blocks = 3 };
	p->sites = must(calloc(p->leak_count + p->suppressed_count + p->cached_count + 1,
			       sizeof(*p->sites)));
	for (size_t list = 0; list < 3; list++)
		for (size_t i = 0; i < lists[list].count; i++) {
			const struct report_leak *leak = &lists[list].leaks[i];

			*lists[list].blocks += leak->blocks;
			*lists[list].bytes += leak->bytes;
			kind->live_blocks += leak->blocks;
			kind->live_bytes += leak->bytes;
			kind->allocated_blocks += leak->blocks;
			kind->allocated_bytes += leak->bytes;
			p->sites[p->site_count++] = (struct report_site_sums){
				leak->site, leak, leak->blocks, leak->bytes };
		}
	for (size_t i = 0; i < p->suballocation_count; i++) {
		const struct report_suballocations *site = &p->suballocations[i];

		sum->accumulating_blocks += report_accumulates(site) ? site->kept_blocks : 0;
		sum->accumulating_bytes += report_accumulates(site) ? site->kept_bytes : 0;
	}
	p->sites[p->site_count++] = (struct report_site_sums){
		call_site("cuMemAllocManaged", "managed", 1, &plain), NULL, 3, 300 };
	sum->keeps_bytes = sum->leaked_bytes;
	p->kinds = kind;
	p->kind_count = 1;
	sum->errors += p->error_count;
	sum->allocated_blocks = kind->allocated_blocks;
	sum->allocated_bytes = kind->allocated_bytes;
	sum->peak_bytes = kind->live_bytes;
}

static struct report_error error_of(const char *type, const struct report_stack *stack)
{
	const struct report_event none = { .stack = &no_stack };

	return (struct report_error){ .type = type, .api = "cuMemFree_v2", .device = 0,
				      .result = 1, .address = 0x1000, .block_address = 0x1000,
				      .block_bytes = 64, .kind = "device", .stack = stack,
				      .allocated = { "cuMemAlloc_v2", 64, &plain },
				      .freed = { "cuMemFree_v2", 0, &plain },
				      .earlier_allocated = none, .earlier_freed = none };
}

static void make_hostile(struct report *report)
{
	static const char *notes[] = { "note " HOSTILE };
	struct report_process *p = process_of(HOSTILE, 1);
	struct report_leak leak = leak_of(&hostile, 2, 2000);

	leak.site = call_site(HOSTILE, HOSTILE, 0, &hostile);
	give(&p->leaks, &p->leak_count, leak);
	give(&p->leaks, &p->leak_count, leak_of(&no_stack, 1, 0));
	leak = leak_of(&hostile, 1, 50);
	leak.pattern = HOSTILE;
	give(&p->suppressed, &p->suppressed_count, leak);
	leak = leak_of(&hostile, 1, 60);
	leak.cache = HOSTILE;
	give(&p->cached, &p->cached_count, leak);
	p->errors = must(calloc(2, sizeof(*p->errors)));
	p->errors[p->error_count++] = error_of("double-free", &hostile);
	p->errors[p->error_count++] = error_of(HOSTILE, &hostile);
	p->summary.errors = 5; /* of which no record was kept */
	p->notes = notes;
	p->note_count = 1;
	p->incomplete = 1;
	finish(p);
	report_add_process(report, p);
	report_add_note(report, "ledger " HOSTILE);
}

/* Leaks at MANY places; with LONG, names that no packer makes shorter. */
static void make_many(struct report *report, size_t count, size_t length)
{
	struct report_process *p = process_of("app", 1);
	struct report_frame *all = must(calloc(count, sizeof(*all)));
	struct report_stack *stacks = must(calloc(count, sizeof(*stacks)));
	uint32_t random = 1;

	for (size_t i = 0; i < count; i++) {
		char *name = must(calloc(1, length + 32));

		snprintf(name, 32, "place_%zu_", i);
		for (size_t at = strlen(name), end = at + length; at < end; at++) {
			random = random * 1664525u + 1013904223u;
			name[at] = (char)('0' + (random >> 16) % 75);
		}
		all[i] = (struct report_frame){ .function = name, .file = "/src/app/lib/make.c",
						.module = "/src/app/app",
						.line = (unsigned int)i + 1, .offset = i };
		stacks[i] = (struct report_stack){ &all[i], 1, 0 };
		give(&p->leaks, &p->leak_count, leak_of(&stacks[i], 1, count - i));
	}
	finish(p);
	report_add_process(report, p);
}

static void make_caches(struct report *report)
{
	struct report_process *p = process_of("app", 1);
	struct report_leak leak = leak_of(&plain, 2, 4096);

	leak.cache = "PyTorch caching allocator";
	give(&p->cached, &p->cached_count, leak);
	leak = leak_of(&plain, 1, 100);
	leak.pattern = "libquiet";
	give(&p->suppressed, &p->suppressed_count, leak);
	finish(p);
	report_add_process(report, p);
}

static void give_site(struct report_process *p, struct report_suballocations site)
{
	p->suballocations = must(reallocarray(p->suballocations, p->suballocation_count + 1,
					      sizeof(site)));
	p->suballocations[p->suballocation_count++] = site;
	p->has_suballocations = true;
}

/* LIVE suballocations of 512 bytes each at STACK, and what was kept of them. */
static struct report_suballocations site_of(const struct report_stack *stack, uint64_t live,
					    enum report_trend trend, uint64_t kept)
{
	struct report_suballocations site = {
		.live = leak_of(stack, live, live * 512), .trend = trend,
		.allocated_blocks = live > kept ? live : kept,
		.kept_blocks = kept, .kept_bytes = kept * 512, .kept_per_second = 2,
	};

	site.live.site = call_site("c10::reportMemoryUsageToProfiler", "suballocation", 0, stack);
	site.live.cache = "PyTorch caching allocator";
	return site;
}

static const struct report_frame train_frames[] = {
	{ .function = "train_step", .file = "/src/app/train.py", .line = 8,
	  .language = FRAME_PYTHON },
	{ .function = "<module>", .file = "/src/app/train.py", .line = 20,
	  .language = FRAME_PYTHON },
};
static const struct report_stack train = { train_frames, 2, 0 };

/* A cache with weights, and a line that keeps tensors; what accumulated was freed at the end. With
 * NAME "running" the process still runs. */
static void make_tensors(struct report *report, const char *name)
{
	struct report_process *p = process_of("python3", 1);
	struct report_leak leak = leak_of(&plain, 1, 1 << 21);
	struct report_suballocations site;

	leak.cache = "PyTorch caching allocator";
	leak.used_bytes = 104 * 512;
	give(&p->cached, &p->cached_count, leak);
	give_site(p, site_of(&plain, 100, TREND_CONSTANT, 0));
	site = site_of(&train, 6, TREND_ACCUMULATING, 400);
	site.places = (struct report_places){ 1, 1, 3 * 256, 256 };
	give_site(p, site);
	site = site_of(&plain, 0, TREND_ACCUMULATING, 30);
	site.live.site = call_site("c10::reportMemoryUsageToProfiler", "suballocation", 1, &plain);
	site.live.pattern = "libquiet";
	give_site(p, site);
	finish(p);
	report_add_process(report, p);
	if (strcmp(name, "running") == 0)
		p->ended = REPORT_RUNNING;
}

static void make_constant(struct report *report, int pid)
{
	struct report_process *p = process_of("python3", pid);

	give_site(p, site_of(&plain, 100, TREND_CONSTANT, 0));
	finish(p);
	report_add_process(report, p);
}

/* What a damaged ledger may have. */
static void make_wild_tensors(struct report *report)
{
	static const double rates[] = {
		__builtin_inf(), 0, 1e300, 0.00001, 0.5, 3.25, 99.96, 12345.678
	};
	struct report_process *p = process_of(HOSTILE, 1);

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct report_suballocations site =
			site_of(i % 2 ? &hostile : &no_stack, UINT64_MAX,
				i == 1 ? TREND_FILLED : TREND_ACCUMULATING, UINT64_MAX);

		site.kept_per_second = rates[i];
		site.live.bytes = site.kept_bytes = UINT64_MAX - i;
		site.places = (struct report_places){ UINT64_MAX, UINT64_MAX, UINT64_MAX, i };
		site.live.cache = i == 2 ? NULL : i % 2 ? HOSTILE : site.live.cache;
		site.live.site = call_site(i == 4 ? HOSTILE : site.live.site->api,
					   i == 4 ? HOSTILE : site.live.site->api,
					   i == 3 ? -1 : (int)i, site.live.site->stack);
		give_site(p, site);
	}
	finish(p);
	report_add_process(report, p);
}

/* Four of one name: clean, leaking, killed, still running; and one of the same pid after exec. */
static void make_ranks(struct report *report)
{
	for (int pid = 10; pid < 14; pid++) {
		struct report_process *p = process_of("train", pid);

		if (pid == 11)
			give(&p->leaks, &p->leak_count, leak_of(&plain, 3, 3072));
		finish(p);
		report_add_process(report, p);
		report->processes[pid - 10]->ended = pid == 12	 ? REPORT_SIGNAL
						     : pid == 13 ? REPORT_RUNNING
								 : REPORT_EXIT;
		report->processes[pid - 10]->status = pid == 12 ? 9 : 0;
	}
	report_add_process(report, process_of("train", 13));
}

static int make(struct report *report, const char *name)
{
	if (strcmp(name, "hostile") == 0)
		make_hostile(report);
	else if (strcmp(name, "many") == 0)
		make_many(report, MANY, 0);
	else if (strcmp(name, "eleven") == 0)
		make_many(report, 11, 0);
	else if (strcmp(name, "huge") == 0)
		make_many(report, MANY, 700);
	else if (strcmp(name, "caches") == 0)
		make_caches(report);
	else if (strcmp(name, "tensors") == 0 || strcmp(name, "running") == 0)
		make_tensors(report, name);
	else if (strcmp(name, "trainings") == 0) {
		make_tensors(report, name);
		make_constant(report, 2);
	} else if (strcmp(name, "constant") == 0)
		make_constant(report, 1);
	else if (strcmp(name, "wild-tensors") == 0)
		make_wild_tensors(report);
	else if (strcmp(name, "ranks") == 0)
		make_ranks(report);
	else
		return strcmp(name, "empty");
	return 0;
}

int main(int argc, char **argv)
{
	char *reasons[] = { (char *)"reason " HOSTILE };
	struct judgement judgement = { .reasons = reasons, .reason_count = 1 };
	struct report report = { .verbose = getenv("MADE_VERBOSE") != NULL };
	struct options options;
	const char *summary = getenv("MADE_SUMMARY");
	const struct report_format *format;
	int judged = argc == 4 && strcmp(argv[3], "none") != 0, r;

	if (argc != 4 || option_set(&options, OPTION_FORMAT, argv[1]) < 0 ||
	    make(&report, argv[2]) != 0)
		return 2;
	judgement.verdict = (enum judge_verdict)atoi(argv[3]);
	format = report_format((enum option_format)options.format);
	r = (summary ? format->summary : format->print)(&report, judged ? &judgement : NULL,
							stdout);
	return r < 0 || fflush(stdout) != 0;
}
