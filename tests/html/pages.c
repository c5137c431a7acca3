/* SPDX-License-Identifier: MIT
 *
 * Reports that no program on the stand-in gives, as HTML and as JSON: hostile names, ten
 * thousand leaks, eight processes, everything at once. Built as models, past ledger and
 * symbolizer, so that each name can be anything.
 *
 *   html-pages DIR [LEAKS]   writes DIR/NAME.html and DIR/NAME.json; "many" has LEAKS leaks
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/gate/judge.h"
#include "report/model/growth_rule.h"
#include "report/model/model.h"
#include "report/model/model_fragmentation.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/model/model_pool.h"
#include "report/subjects/figures.h"
#include "report/subjects/formats.h"

#define MANY "10000"
#define DEPTH 12
#define SAMPLES 120

static void *room(size_t count, size_t size)
{
	void *ret = calloc(count, size);

	if (!ret)
		abort();
	return ret;
}

__attribute__((format(printf, 1, 2))) static char *words(const char *format, ...)
{
	char *ret = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&ret, format, args) < 0)
		abort();
	va_end(args);
	return ret;
}

/* The same numbers everywhere. */
static unsigned int next_number(unsigned int below)
{
	static uint64_t state = 7;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(state >> 33) % below;
}

static const char *const hostile[] = {
	"<script>document.title='owned'</script>",
	"</script><script>document.title='owned'</script>",
	"<!--<script>",
	"\"><img src=x onerror=\"document.title='owned'\">",
	"' onmouseover='document.title=\"owned\"'",
	"&lt;b&gt;&amp;",
	"{{data}}{{text}}$&$1",
	"\xe2\x80\xaetxt.elbisrever\xe2\x80\xac",  /* turned round */
	"\xe2\x81\xa7isolated\xe2\x81\xa9",
	"line\xe2\x80\xa8separator\xe2\x80\xa9paragraph",
	"\xff\xfe broken \xc3( \xf0\x28\x8c\xbc",
	"tab\there\nnewline\rreturn\x1b[31mred\x07",
	"javascript:document.title='owned'",
	"__proto__",
	"constructor",
	"\xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\xa6\x8a caf\xc3\xa9",
	"",
};
#define HOSTILE (sizeof(hostile) / sizeof(hostile[0]))

static struct report_stack *stack_of(const struct report_frame *frames, size_t count)
{
	struct report_stack *ret = room(1, sizeof(*ret));

	ret->frames = frames;
	ret->count = count;
	return ret;
}

static const struct report_site *site_of(const char *api, const char *kind, int device,
					 const struct report_stack *stack)
{
	struct report_site *ret = room(1, sizeof(*ret));

	*ret = (struct report_site){ api, kind, device, stack, 0 };
	return ret;
}

static struct report_frame frame(const char *function, const char *file, unsigned int line,
				 enum frame_role role)
{
	return (struct report_frame){ .function = function, .file = file, .line = line,
				      .module = "/srv/infer/bin/server", .role = role,
				      .offset = 0x1000 + line };
}

static struct report_process *process_of(int pid, const char *const *command, size_t words_count)
{
	struct report_process *ret = room(1, sizeof(*ret));

	ret->pid = pid;
	ret->command = command;
	ret->command_count = words_count;
	ret->exe = command[0];
	ret->program = strrchr(command[0], '/') ? strrchr(command[0], '/') + 1 : command[0];
	ret->host = "node-17";
	ret->ledger = "test";
	ret->ended = REPORT_EXIT;
	ret->start_real_ns = 1790000000000000000u;
	ret->timeline.total.device = -1;
	ret->deferred.longest.allocated.stack = stack_of(NULL, 0);
	ret->deferred.longest.released.stack = stack_of(NULL, 0);
	return ret;
}

static void add_leak(struct report_process *process, const struct report_leak *leak)
{
	struct report_summary *sum = &process->summary;

	process->leaks[process->leak_count] = *leak;
	process->leaks[process->leak_count++].keeps_bytes = leak->bytes;
	sum->leaked_bytes += leak->bytes;
	sum->keeps_bytes += leak->bytes;
	sum->leaked_blocks += leak->blocks;
	sum->allocated_bytes += leak->bytes * 3;
	sum->allocated_blocks += leak->blocks * 3;
	sum->freed_blocks += leak->blocks * 2;
	sum->peak_bytes += leak->bytes * 2;
}

/* ---- pages ---- */

static struct report_process *hostile_process(void)
{
	struct report_process *process = process_of(666, hostile, HOSTILE);
	const char **notes = room(HOSTILE, sizeof(*notes));
	char *huge = room(1, (1 << 20) + 1);

	memset(huge, 'A', 1 << 20);
	memcpy(huge, "<i>", 3);
	process->host = hostile[1];
	process->leaks = room(HOSTILE + 1, sizeof(*process->leaks));
	for (size_t i = 0; i <= HOSTILE; i++) {
		const char *name = i < HOSTILE ? hostile[i] : huge;
		struct report_frame *frames = room(2, sizeof(*frames));

		frames[0] = frame(name, name, (unsigned int)i, FRAME_APPLICATION);
		frames[1] = frame(name, NULL, 0, FRAME_APPLICATION);
		frames[1].module = name;
		add_leak(process, &(struct report_leak){
			.site = site_of(name, name, (int)i, stack_of(frames, 2)),
			.bytes = 1000 * (i + 1), .blocks = i + 1 });
		if (i < HOSTILE)
			notes[i] = name;
	}
	process->errors = room(HOSTILE, sizeof(*process->errors));
	for (size_t i = 0; i < HOSTILE; i++)
		process->errors[i] = (struct report_error){ .type = hostile[i], .api = hostile[i],
			.kind = hostile[i], .stack = process->leaks[i].site->stack,
			.allocated = { hostile[i], 10, process->leaks[i].site->stack },
			.freed = { hostile[i], 0, process->leaks[i].site->stack },
			.earlier_allocated = { .stack = stack_of(NULL, 0) },
			.earlier_freed = { .stack = stack_of(NULL, 0) } };
	process->error_count = process->summary.errors = HOSTILE;
	process->summary.accumulating_blocks = UINT64_MAX;
	process->summary.accumulating_bytes = UINT64_MAX;
	process->suballocations = room(HOSTILE, sizeof(*process->suballocations));
	for (size_t i = 0; i < HOSTILE; i++)
		process->suballocations[i] = (struct report_suballocations){
			.live = { .site = site_of(hostile[i], hostile[i], 0,
						  process->leaks[i].site->stack),
				  .cache = hostile[i], .bytes = UINT64_MAX - i,
				  .blocks = UINT64_MAX },
			.trend = i % 2 ? TREND_ACCUMULATING : TREND_CONSTANT,
			.kept_blocks = UINT64_MAX, .kept_bytes = UINT64_MAX - i,
			.kept_per_second = 1e300,
		};
	process->suballocation_count = HOSTILE;
	process->has_suballocations = true;
	process->notes = notes;
	process->note_count = HOSTILE;
	return process;
}

static const char *const kinds[] = { "device", "pinned", "managed", "stream-ordered", "cl-buffer" };
static const char *const calls[] = { "cuMemAlloc_v2", "cuMemHostAlloc", "cuMemAllocManaged",
				     "cuMemAllocAsync", "clCreateBuffer" };
static const char *const verbs[] = { "load", "serve", "decode", "upload", "batch", "resize",
				     "cache",
				     "warm_up", "attend", "project", "merge", "gather" };
static const char *const nouns[] = { "weights", "request", "tokens", "image", "tensor", "page",
				     "layer", "session", "mask", "index" };

static const struct report_stack *some_stack(unsigned int seed)
{
	struct report_frame *frames = room(DEPTH, sizeof(*frames));
	size_t count = 6 + seed % (DEPTH - 6);

	for (size_t i = 0; i < count; i++) {
		unsigned int at = (unsigned int)(i + 1 == count ? 0 : seed / (count - i) + 7 * i);

		frames[i] = frame(i + 1 == count ? "main"
						 : words("%s_%s", verbs[at % 12],
							nouns[at / 12 % 10]),
				  words("/srv/infer/src/%s.cpp", nouns[at % 10]), 10 + seed % 900,
				  i == 0 ? FRAME_RUNTIME : i == 1 ? FRAME_FRAMEWORK
					: FRAME_APPLICATION);
	}
	frames[0].function = "cudaMalloc";
	frames[0].file = NULL;
	frames[0].module = "/usr/lib/libcudart.so.12";
	frames[1].function = "rt::DeviceAllocator::allocate(unsigned long)";
	frames[1].language = seed % 5 == 0 ? FRAME_PYTHON : FRAME_NATIVE;
	return stack_of(frames, count);
}

static struct report_leak some_leak(unsigned int i)
{
	unsigned int kind = next_number(10);
	int device = (int)next_number(2);
	struct report_leak ret = { .bytes = (uint64_t)(1 + next_number(4096)) * (1 + i % 37) * 64,
				   .references = 1 };

	kind = kind < 5 ? 0 : kind - 5;
	ret.blocks = 1 + next_number(9);
	ret.site = site_of(calls[kind], kinds[kind], device, some_stack(next_number(400)));
	return ret;
}

static int by_bytes(const void *left, const void *right)
{
	const struct report_leak *a = left, *b = right;

	return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

static void add_series(struct report_process *process)
{
	struct report_timeline *timeline = &process->timeline;

	timeline->parts = room(4, sizeof(*timeline->parts));
	timeline->total.samples = room(SAMPLES, sizeof(struct report_sample));
	timeline->total.count = SAMPLES;
	for (int part = 0; part < 4; part++) {
		struct report_series *series = &timeline->parts[timeline->part_count++];

		*series = (struct report_series){ kinds[part / 2], part % 2,
						  room(SAMPLES, sizeof(struct report_sample)),
							SAMPLES };
		for (uint64_t i = 0; i < SAMPLES; i++) {
			uint64_t bytes = ((uint64_t)(4 - part) * 2000 + (i < 15 ? i * 300 : 4500) +
					  (part ? 0 : i * 90) + i * (uint64_t)(7 + part) % 11 * 130)
					 << 13;

			series->samples[i] = (struct report_sample){ i * 500000000, bytes };
			timeline->total.samples[i].time_ns = i * 500000000;
			timeline->total.samples[i].bytes += bytes;
		}
	}
	timeline->end_ns = SAMPLES * (uint64_t)500000000;
	process->summary.peak_bytes = 0;
	for (uint64_t i = 0; i < SAMPLES; i++) {
		if (timeline->total.samples[i].bytes <= process->summary.peak_bytes)
			continue;
		process->summary.peak_bytes = timeline->total.samples[i].bytes;
		timeline->peak_ns = timeline->total.samples[i].time_ns;
	}
}

static struct report_process *busy_process(int pid, size_t leaks)
{
	static const char *const command[] = { "/srv/infer/bin/server", "--model", "small",
		"--port",
					       "8080" };
	struct report_process *process = process_of(pid, command, 5);

	process->leaks = room(leaks, sizeof(*process->leaks));
	for (unsigned int i = 0; i < leaks; i++) {
		struct report_leak leak = some_leak(i);

		add_leak(process, &leak);
	}
	if (leaks)
		qsort(process->leaks, leaks, sizeof(*process->leaks), by_bytes);
	add_series(process);
	return process;
}

/* A call site that grows, a free that was refused, and memory pools of the driver. */
static void add_rest(struct report_process *process)
{
	static struct report_step step = { 9, 1000, 9 << 20, 9, NULL };
	static struct report_suspect suspect;
	static struct report_growth growth = { 9, &step, 1, &suspect, 1 };
	static struct report_refused_free refused;
	static struct ledger_parked parked[] = {
		{ .reserved_bytes = 96 << 20, .used_bytes = 64 << 20,
		  .when = LEDGER_PARKED_PEAK },
		{ .pool = 0x55d0c0ffee00, .device = 1, .reserved_bytes = 32 << 20,
		  .when = LEDGER_PARKED_EXIT, .threshold = UINT64_MAX },
	};
	static struct report_range ranges[] = {
		{ .name = "serve/<b>\033[1m", .domain = "library", .allocated_bytes = 4 << 20,
		  .freed_bytes = 1 << 20, .left_bytes = 3 << 20, .peak_bytes = 3 << 20 },
		{ .outside = true, .allocated_bytes = 1 << 20, .left_bytes = 1 << 20,
		  .peak_bytes = FIGURE_UNKNOWN },
	};

	suspect = (struct report_suspect){
		.site = site_of("cuMemAlloc_v2", "device", 0, some_stack(7)),
		.bytes = 9 << 20, .blocks = 9, .bytes_per_step = 1 << 20, .blocks_per_step = 1,
		.intervals = 8,
	};
	refused = (struct report_refused_free){
		.api = "cuMemFree_v2", .result = 900, .count = 3, .stack = some_stack(31),
		.allocated = { "cuMemAlloc_v2", 4096, some_stack(77) },
	};
	process->ranges = ranges;
	process->range_count = 2;
	process->growth = &growth;
	process->refused_frees = &refused;
	process->parked = parked;
	process->refused_free_count = 1;
	process->parked_count = 2;
}

/* A tensor keeps a segment of 60 MiB, and the same when a request for 70 MiB was refused, of which
 * 20 MiB were free. */
static void add_fragmentation(struct report_process *process)
{
	static struct report_pin pin;
	static struct report_fragmentation cache;
	static const struct report_fragmentations all = { &cache, 1 };
	static struct report_out_of_memory refusal;
	const char *name = "PyTorch caching allocator";

	pin = (struct report_pin){
		.held = { .site = some_leak(12).site, .bytes = 2 << 20, .blocks = 1,
			  .cache = name },
		.segments = 1, .segment_bytes = 60 << 20, .unused_bytes = 58 << 20,
		.own_segments = 1, .own_unused_bytes = 58 << 20,
	};
	cache = (struct report_fragmentation){
		.cache = name, .segments = 1, .pinned_segments = 1, .reserved_bytes = 60 << 20,
		.used_bytes = 2 << 20, .pinned_free_bytes = 58 << 20, .pins = &pin, .pin_count = 1,
	};
	refusal = (struct report_out_of_memory){
		.number = 1, .site = pin.held.site, .bytes = 70 << 20, .times = 1, .gave_up = true,
		.framework = "PyTorch", .has_free = true, .free_bytes = 20 << 20, .went_on = true,
		.total_bytes = 80 << 20, .fragmentation = &all,
	};
	process->fragmentation = &all;
	process->out_of_memory = &refusal;
	process->out_of_memory_count = 1;
}

/* All that a report can have. */
static struct report_process *full_process(void)
{
	static const char *notes[] = { "2 blocks were made by calls that were not seen" };
	static struct report_pool pool;
	static struct report_pools pools;
	struct report_process *process = busy_process(4711, 24);
	struct report_summary *sum = &process->summary;

	process->suppressed = room(2, sizeof(*process->suppressed));
	process->cached = room(2, sizeof(*process->cached));
	for (unsigned int i = 0; i < 2; i++) {
		process->suppressed[i] = some_leak(100 + i);
		process->suppressed[i].pattern = "warm_up_*";
		sum->suppressed_bytes += process->suppressed[i].bytes;
		sum->suppressed_blocks += process->suppressed[i].blocks;
		process->cached[i] = some_leak(200 + i);
		process->cached[i].cache = "PyTorch caching allocator";
		sum->cached_bytes += process->cached[i].bytes;
		sum->cached_blocks += process->cached[i].blocks;
	}
	process->suppressed_count = process->cached_count = 2;
	process->errors = room(1, sizeof(*process->errors));
	process->errors[0] = (struct report_error){ .type = "double-free", .api = "cuMemFree_v2",
		.kind = "device", .result = 1, .address = 0x7f3a40000000,
			.block_address = 0x7f3a40000000,
		.block_bytes = 1 << 20, .stack = some_stack(31),
		.allocated = { "cuMemAlloc_v2", 1 << 20, some_stack(77) },
		.freed = { "cuMemFree_v2", 0, some_stack(130) },
		.earlier_allocated = { .stack = stack_of(NULL, 0) },
		.earlier_freed = { .stack = stack_of(NULL, 0) } };
	process->error_count = sum->errors = 1;
	pool = (struct report_pool){ .api = "CUDA", .kind = "device", .mode = "fast",
				     .backend = "device", .count = { .peak_used = 3 << 20,
				     .reserved = 8 << 20, .cached = 5 << 20, .hits = 900,
					.frees = 905 } };
	pools = (struct report_pools){ .mode = "fast", .backend = "device", .pools = &pool,
		.count = 1 };
	process->pools = &pools;
	process->notes = notes;
	process->note_count = 1;
	add_rest(process);
	add_fragmentation(process);
	return process;
}

/* Suballocations at a place of their own, LIVE at the end and KEPT while the program ran. */
static void add_site(struct report_process *process, const char *name, enum report_trend trend,
		     uint64_t live, uint64_t kept)
{
	struct report_frame *frames = room(2, sizeof(*frames));
	struct report_suballocations *site =
		&process->suballocations[process->suballocation_count++];

	frames[0] = frame(name, words("/srv/%s.py", name), 8, FRAME_APPLICATION);
	frames[1] = frame("<module>", "/srv/train.py", 40, FRAME_APPLICATION);
	frames[0].language = frames[1].language = FRAME_PYTHON;
	*site = (struct report_suballocations){
		.live = { .site = site_of("c10::reportMemoryUsageToProfiler", "suballocation", 0,
					  stack_of(frames, 2)),
			  .bytes = live * 4096, .blocks = live,
			  .cache = "PyTorch caching allocator" },
		.allocated_blocks = live > kept ? live : kept, .trend = trend,
		.kept_blocks = kept, .kept_bytes = kept * 4096, .kept_per_second = 0.5,
	};
	process->has_suballocations = true;
}

/* A training that keeps its losses: the interpreter freed them at its end. */
static struct report_process *tensors_process(void)
{
	static const char *const command[] = { "/usr/bin/python3", "train.py" };
	static struct report_keeper list[] = { { 390, "list `history` <b>in</b> main()" },
						     { 10, "native code" },
						     { 0, "the search ended early" } };
	static const struct report_keepers keepers = { 3850000000, list, 3 };
	struct report_process *process = process_of(81, command, 2);
	struct report_summary *sum = &process->summary;

	process->cached = room(1, sizeof(*process->cached));
	process->cached[0] = some_leak(300);
	process->cached[0].cache = "PyTorch caching allocator";
	process->cached[0].site = site_of(process->cached[0].site->api, "device",
					  process->cached[0].site->device,
					  process->cached[0].site->stack);
	process->cached[0].bytes = sum->cached_bytes = sum->peak_bytes = 4 << 20;
	process->cached[0].blocks = sum->cached_blocks = 2;
	process->cached[0].used_bytes = 12 * 4096;
	process->cached_count = 1;
	process->suballocations = room(4, sizeof(*process->suballocations));
	add_site(process, "train_step", TREND_ACCUMULATING, 0, 400);
	add_site(process, "model", TREND_FILLED, 10, 0);
	add_site(process, "validate", TREND_ACCUMULATING, 2, 50);
	add_site(process, "quiet", TREND_ACCUMULATING, 3, 9);
	process->suballocations[3].live.pattern = "quiet";
	sum->accumulating_blocks = 450;
	sum->accumulating_bytes = process->suballocations[0].kept_bytes +
				  process->suballocations[2].kept_bytes;
	process->suballocations[0].live.keepers = &keepers;
	process->suballocations[2].places.outside_blocks = 1;
	process->suballocations[2].places.outside_bytes = 4096;
	return process;
}

/* ---- output ---- */

typedef int print_fn(const struct report *report, const struct judgement *judgement, FILE *out);

static int write_as(const char *dir, const char *name, const char *ending,
		    print_fn *print, const struct report *report,
		    const struct judgement *judgement)
{
	char *path = words("%s/%s.%s", dir, name, ending);
	FILE *out = fopen(path, "w");
	int r = out ? print(report, judgement, out) : -errno;

	if (out && fclose(out) != 0)
		r = -errno;
	if (r < 0)
		fprintf(stderr, "%s: %s\n", path, strerror(-r));
	free(path);
	return r;
}

#define SECOND 1000000000u
#define MIB (UINT64_C(1) << 20)

/* Takes MIB_COUNT at each of its first three seconds of 10, of which MIB_LEFT are left. PARTS:
 * its kind of memory is known over time. */
static struct report_process *short_process(int pid, unsigned int start_seconds, uint64_t mib_count,
					    uint64_t mib_left, int parts)
{
	static const char *const command[] = { "/srv/infer/bin/loader", NULL };
	struct report_process *process = process_of(pid, command, 1);
	struct report_timeline *timeline = &process->timeline;
	struct report_leak leak = { .site = site_of("cuMemAlloc_v2", "device", 0,
						    stack_of(NULL, 0)),
				    .blocks = 1, .bytes = mib_left * MIB };

	process->start_real_ns += (uint64_t)start_seconds * SECOND;
	process->leaks = room(1, sizeof(*process->leaks));
	add_leak(process, &leak);
	timeline->total.samples = room(4, sizeof(struct report_sample));
	timeline->total.count = 4;
	for (uint64_t i = 0; i < 3; i++)
		timeline->total.samples[i] =
			(struct report_sample){ (i + 1) * SECOND, (i + 1) * mib_count * MIB };
	timeline->total.samples[3] = (struct report_sample){ 4ull * SECOND, mib_left * MIB };
	timeline->end_ns = 10ull * SECOND;
	timeline->peak_ns = 3ull * SECOND;
	process->summary.peak_bytes = 3 * mib_count * MIB;
	if (parts) {
		timeline->parts = room(1, sizeof(*timeline->parts));
		timeline->parts[0] = timeline->total;
		timeline->parts[0].kind = "device";
		timeline->parts[0].device = 0;
		timeline->part_count = 1;
	}
	return process;
}

/* Two leaks of a framework's thread: the first one's stack has frames of the thread that waits. */
static struct report_process *engine_process(void)
{
	static const char *const command[] = { "python3", "train.py", NULL };
	static const char kernel[] = "void at::native::vectorized_elementwise_kernel<4, "
				     "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
				     "(int, float)";
	struct report_process *process = process_of(33, command, 2);
	struct report_frame *frames = room(4, sizeof(*frames));

	frames[0] = frame(kernel, NULL, 0, FRAME_FRAMEWORK);
	frames[1] = frame("torch::autograd::Engine::thread_main()", NULL, 0, FRAME_FRAMEWORK);
	frames[1].thread = "PyTorch's autograd engine";
	frames[2] = frame("backward", "/torch/_tensor.py", 9, FRAME_FRAMEWORK);
	frames[3] = frame("train_step", "/srv/train.py", 7, FRAME_APPLICATION);
	frames[2].language = frames[3].language = FRAME_PYTHON;
	frames[2].waiting = frames[3].waiting = true;
	process->leaks = room(2, sizeof(*process->leaks));
	for (size_t count = 4; count > 0; count -= 2)
		add_leak(process, &(struct report_leak){
			.site = site_of("cuMemAlloc_v2", "device", 0, stack_of(frames, count)),
			.blocks = 1, .bytes = count * MIB });
	return process;
}

/* A rank of a job. All ranks leak at SHARED, on two devices; rank 5 leaks at OTHER, too. */
static struct report_process *rank_process(int rank, const struct report_site *shared,
					   const struct report_site *other)
{
	struct report_process *process = busy_process(600 + rank, 0);

	process->leaks = room(2, sizeof(*process->leaks));
	if (rank == 5)
		add_leak(process, &(struct report_leak){ .site = other, .blocks = 1,
							 .bytes = 100 * MIB });
	add_leak(process, &(struct report_leak){
		.site = site_of(shared->api, shared->kind, rank % 2, shared->stack),
		.blocks = 1, .bytes = (uint64_t)MIB << rank });
	process->ranked = true;
	process->rank = rank;
	return process;
}

static int write_page(const char *dir, const char *name, struct report_process **processes,
		      size_t count)
{
	struct report report = { .processes = processes, .count = count };
	struct judge_input input = { .report = &report };
	struct judgement judgement;
	int r, judged = strcmp(name, "unproven") != 0;

	for (size_t i = 0; i < count; i++) {
		report.incomplete |= processes[i]->incomplete;
		report.summary.leaked_bytes += processes[i]->summary.leaked_bytes;
		report.summary.keeps_bytes += processes[i]->summary.keeps_bytes;
		report.summary.leaked_blocks += processes[i]->summary.leaked_blocks;
		report.summary.errors += processes[i]->summary.errors;
		report.summary.allocated_blocks += processes[i]->summary.allocated_blocks;
		report.summary.allocated_bytes += processes[i]->summary.allocated_bytes;
		report.summary.freed_blocks += processes[i]->summary.freed_blocks;
		report.summary.peak_bytes += processes[i]->summary.peak_bytes;
	}
	judge(&input, &judgement);
	r = write_as(dir, name, "html", print_html, &report, judged ? &judgement : NULL);
	if (r == 0)
		r = write_as(dir, name, "json", print_json, &report, judged ? &judgement : NULL);
	judgement_finish(&judgement);
	return r;
}

int main(int argc, char **argv)
{
	struct report_leak shared, other;
	struct report_process *list[8];
	int bad = 0;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: %s DIR [LEAKS]\n", argv[0]);
		return 2;
	}
	list[0] = hostile_process();
	bad |= write_page(argv[1], "hostile", list, 1) < 0;
	list[0] = busy_process(4242, strtoul(argc > 2 ? argv[2] : MANY, NULL, 10));
	bad |= write_page(argv[1], "many", list, 1) < 0;
	list[0] = full_process();
	bad |= write_page(argv[1], "full", list, 1) < 0;
	for (int i = 0; i < 8; i++) {
		list[i] = busy_process(100 + i, i == 5 ? 40 : (size_t)(i % 3));
		list[i]->start_real_ns += (uint64_t)i * 1000000000;
	}
	bad |= write_page(argv[1], "ranks", list, 8) < 0;
	list[0] = short_process(21, 0, 10, 2, 1);
	list[1] = short_process(22, 100, 20, 4, 1);
	list[2] = short_process(23, 101, 1, 1, 0); /* at its most, the one before is at 4 MiB */
	bad |= write_page(argv[1], "sequence", list, 3) < 0;
	list[0] = engine_process();
	bad |= write_page(argv[1], "engine", list, 1) < 0;
	list[0] = tensors_process();
	bad |= write_page(argv[1], "tensors", list, 1) < 0;
	list[0] = busy_process(7, 0);
	bad |= write_page(argv[1], "clean", list, 1) < 0;
	bad |= write_page(argv[1], "nothing", list, 0) < 0;
	list[0]->incomplete = 1;
	bad |= write_page(argv[1], "unproven", list, 1) < 0;
	shared = some_leak(3);
	other = some_leak(8);
	for (int i = 0; i < 4; i++) /* ranks 0, 1, 2 and 5 */
		list[i] = rank_process(i < 3 ? i : 5, shared.site, other.site);
	bad |= write_page(argv[1], "job", list, 4) < 0;
	return bad;
}
