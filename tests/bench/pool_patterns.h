/* SPDX-License-Identifier: MIT
 *
 * The patterns by which allocators are compared, one JSON line a run; the same sequence of
 * requests for every allocator and a seed. The patterns are those that RMM's benchmarks made
 * common (random allocations, several streams), and one with a fixed number of live blocks.
 *
 *   random   2 N steps, at most N allocations: at 73 % of them allocate 1..MAX bytes, as long
 *            as no more than LIVE bytes would be in use, else free one at random; none is left
 *   steady   N live blocks of 1..MAX bytes; then N times free one at random and allocate one
 *   streams  KERNELS kernels of a million clocks, each with a buffer of 8 bytes that is made for
 *            it and freed after its launch, over STREAMS streams
 *
 * --allocator NAME --n N --max BYTES --live BYTES --seed N --watch 1 --seconds S (0: no end)
 * --pass-seconds S (0) --streams N --kernels N --prewarm 1 --rounds N. Blocks are freed by who
 * made them.
 *
 * What stands above is one pass of random or steady. With --pass-seconds passes follow one another
 * in the same process until that time is over, one at least: "ns" is the mean of a step in all of
 * them, "first_ns" in the first alone, which finds an allocator that has nothing yet. RMM's
 * benchmarks repeat likewise, but start their generator anew each time: from the second pass on,
 * each request is one that was just served. Here it goes on and no pass is like another, which is
 * harder. --seconds ends all passes together.
 */
#ifndef GPULEAK_POOL_PATTERNS_H
#define GPULEAK_POOL_PATTERNS_H

#include <dlfcn.h>
#include <pthread.h>

#include "pool_bench.h"

struct allocator {
	const char *name;
	bool (*begin)(void);                                       /* false: not possible here */
	CUdeviceptr (*allocate)(size_t bytes, CUstream stream);    /* 0: no memory */
	void (*release)(CUdeviceptr p, size_t bytes, CUstream stream);
	uint64_t (*peak_reserved)(void); /* bytes had of the driver; NULL: it does not know */
};

struct block {
	CUdeviceptr p;
	size_t bytes;
};

struct pattern {
	const struct allocator *with;
	uint64_t seed, n, max, live_max;
	double seconds, pass_seconds;
	double start;
	uint64_t pass_steps, pass_allocations;
	/* what came of it, over all passes */
	uint64_t passes, steps, first_steps, failed, live, left, peak_live, allocations;
	uint64_t requested, peak_requested, footprint, peak_footprint;
	double ns, first_ns, end_ns;
	bool stopped;
	struct block *block;
	CUstream stream;
};

/* splitmix64: the same everywhere. */
static inline uint64_t pattern_random(struct pattern *pattern)
{
	uint64_t z = pattern->seed += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* What a cuMemAlloc of its own takes: 512 bytes below 1 MiB, 2 MiB from there. */
static inline uint64_t pattern_footprint(size_t bytes)
{
	uint64_t granule = bytes < (1u << 20) ? 512 : 2u << 20;

	return (bytes + granule - 1) / granule * granule;
}

static inline bool pattern_allocate(struct pattern *pattern, size_t bytes)
{
	CUdeviceptr p = pattern->with->allocate(bytes, pattern->stream);

	if (!p) {
		pattern->failed++;
		return false;
	}
	pattern->block[pattern->live].p = p;
	pattern->block[pattern->live++].bytes = bytes;
	pattern->allocations++;
	pattern->pass_allocations++;
	pattern->requested += bytes;
	pattern->footprint += pattern_footprint(bytes);
	if (pattern->requested > pattern->peak_requested)
		pattern->peak_requested = pattern->requested;
	if (pattern->footprint > pattern->peak_footprint)
		pattern->peak_footprint = pattern->footprint;
	if (pattern->live > pattern->peak_live)
		pattern->peak_live = pattern->live;
	return true;
}

static inline void pattern_release(struct pattern *pattern, uint64_t at)
{
	struct block block = pattern->block[at];

	pattern->block[at] = pattern->block[--pattern->live];
	pattern->requested -= block.bytes;
	pattern->footprint -= pattern_footprint(block.bytes);
	pattern->with->release(block.p, block.bytes, pattern->stream);
}

static inline size_t pattern_size(struct pattern *pattern)
{
	return (size_t)(pattern_random(pattern) % pattern->max) + 1;
}

static inline void pattern_release_all(struct pattern *pattern)
{
	while (pattern->live > 0)
		pattern_release(pattern, pattern->live - 1);
}

static inline bool pattern_over(struct pattern *pattern)
{
	pattern->stopped = pattern->seconds > 0 && pattern->pass_steps % 16 == 0 &&
			   bench_now_ns() - pattern->start > pattern->seconds * 1e9;
	return pattern->stopped;
}

/* N allocations and as many frees make 2 N steps: blocks are left by a pass only if it was stopped
 * or found no memory with nothing to free. */
static inline void pattern_random_pass(struct pattern *pattern)
{
	for (; pattern->pass_steps < 2 * pattern->n && !pattern_over(pattern);
	     pattern->pass_steps++) {
		size_t bytes = pattern_size(pattern);
		bool make = pattern->live == 0 || (pattern_random(pattern) % 100 < 73 &&
						   pattern->pass_allocations < pattern->n &&
						   pattern->requested + bytes < pattern->live_max);

		if (!(make && pattern_allocate(pattern, bytes)) && pattern->live > 0)
			pattern_release(pattern, pattern_random(pattern) % pattern->live);
	}
}

/* Sizes are cut to a mean that lets all blocks live at once. */
static inline void pattern_fill(struct pattern *pattern)
{
	double start = bench_now_ns();

	if (pattern->max > pattern->live_max / pattern->n * 2)
		pattern->max = pattern->live_max / pattern->n * 2;
	while (pattern->live < pattern->n && pattern->failed == 0)
		pattern_allocate(pattern, pattern_size(pattern));
	pattern->end_ns = bench_now_ns() - start; /* of the filling, here */
}

static inline void pattern_steady_pass(struct pattern *pattern)
{
	for (; pattern->pass_steps < 2 * pattern->n && pattern->live && !pattern_over(pattern);
	     pattern->pass_steps += 2) {
		pattern_release(pattern, pattern_random(pattern) % pattern->live);
		pattern_allocate(pattern, pattern_size(pattern));
	}
}

/* Every pass but those of steady begins with no block; what it takes to free them is no step. */
static inline void pattern_passes(struct pattern *pattern, bool steady)
{
	if (steady)
		pattern_fill(pattern);
	pattern->start = bench_now_ns();
	do {
		double start = bench_now_ns();

		pattern->pass_steps = pattern->pass_allocations = 0;
		if (steady)
			pattern_steady_pass(pattern);
		else
			pattern_random_pass(pattern);
		pattern->ns += bench_now_ns() - start;
		pattern->steps += pattern->pass_steps;
		if (pattern->passes++ == 0) {
			pattern->first_ns = pattern->ns;
			pattern->first_steps = pattern->steps;
		}
		if (!steady) {
			start = bench_now_ns();
			pattern->left += pattern->live;
			pattern_release_all(pattern);
			pattern->end_ns += bench_now_ns() - start;
		}
	} while (pattern->pass_steps > 0 && !pattern->stopped &&
		 bench_now_ns() - pattern->start < pattern->pass_seconds * 1e9);
}

/* What the whole device has in use, of NVML, whatever a pool may answer in this process. */
struct watch {
	int (*memory)(void *device, void *ret);
	void *device;
	unsigned long long before, most;
	pthread_t thread;
	volatile bool over;
};

static inline unsigned long long watch_used(struct watch *watch)
{
	unsigned long long of[3] = { 0, 0, 0 }; /* total, free, used */

	return watch->memory(watch->device, of) == 0 ? of[2] : 0;
}

static inline void *watch_work(void *argument)
{
	struct watch *watch = (struct watch *)argument;

	while (!watch->over) {
		unsigned long long used = watch_used(watch);

		watch->most = used > watch->most ? used : watch->most;
		bench_sleep_ns(1000000);
	}
	return NULL;
}

static inline bool watch_begin(struct watch *watch)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void) = library ? (int (*)(void))dlsym(library, "nvmlInit_v2") : NULL;
	int (*handle)(unsigned int, void **) =
		library ? (int (*)(unsigned int, void **))dlsym(library,
								"nvmlDeviceGetHandleByIndex_v2")
			: NULL;

	if (!init || !handle || init() || handle(0, &watch->device))
		return false;
	watch->memory = (int (*)(void *, void *))dlsym(library, "nvmlDeviceGetMemoryInfo");
	if (!watch->memory)
		return false;
	watch->most = watch->before = watch_used(watch);
	return pthread_create(&watch->thread, NULL, watch_work, watch) == 0;
}

static inline void watch_end(struct watch *watch)
{
	watch->over = true;
	pthread_join(watch->thread, NULL);
}

static inline void tell_number(const char *name, bool known, uint64_t value)
{
	if (known)
		printf(", \"%s\": %llu", name, (unsigned long long)value);
	else
		printf(", \"%s\": null", name);
}

static inline double per_step(double ns, uint64_t steps)
{
	return ns / (double)(steps ? steps : 1);
}

static inline void tell_pattern(const struct pattern *pattern, const char *what, bool watched,
				const struct watch *watch)
{
	const struct allocator *with = pattern->with;

	printf("{\"what\": \"%s\", \"allocator\": \"%s\", \"n\": %llu, \"max\": %llu, ", what,
	       with->name, (unsigned long long)pattern->n, (unsigned long long)pattern->max);
	printf("\"ms\": %.3f, \"ns\": %.1f, \"first_ns\": %.1f, \"end_ms\": %.3f, \"stopped\": %s",
	       pattern->ns / 1e6, per_step(pattern->ns, pattern->steps),
	       per_step(pattern->first_ns, pattern->first_steps), pattern->end_ns / 1e6,
	       pattern->stopped ? "true" : "false");
	tell_number("passes", true, pattern->passes);
	tell_number("steps", true, pattern->steps);
	tell_number("allocations", true, pattern->allocations);
	tell_number("left", true, pattern->left);
	tell_number("failed", true, pattern->failed);
	tell_number("peak_live", true, pattern->peak_live);
	tell_number("peak_requested", true, pattern->peak_requested);
	tell_number("peak_footprint", true, pattern->peak_footprint);
	tell_number("peak_reserved", with->peak_reserved,
		    with->peak_reserved ? with->peak_reserved() : 0);
	tell_number("peak_device", watched, watched ? watch->most - watch->before : 0);
	printf("}\n");
}

static inline int pattern_run(int argc, char **argv, const char *what, const struct allocator *with)
{
	struct pattern pattern;
	struct watch watch;
	bool watched = false, steady = strcmp(what, "steady") == 0;

	memset(&pattern, 0, sizeof(pattern));
	memset(&watch, 0, sizeof(watch));
	pattern.with = with;
	pattern.seed = (uint64_t)bench_number(argc, argv, "seed", 1);
	pattern.n = (uint64_t)bench_number(argc, argv, "n", 1000);
	pattern.max = (uint64_t)bench_number(argc, argv, "max", 1 << 20);
	pattern.live_max = (uint64_t)bench_number(argc, argv, "live", 16000l << 20);
	pattern.seconds = bench_real(argc, argv, "seconds", 0);
	pattern.pass_seconds = bench_real(argc, argv, "pass-seconds", 0);
	pattern.block = (struct block *)calloc(pattern.n + 1, sizeof(struct block));
	if (!pattern.block || pattern.n == 0 || pattern.max == 0)
		return 2;
	pattern.stream = bench_stream();
	if (bench_number(argc, argv, "watch", 0))
		watched = watch_begin(&watch);
	pattern_passes(&pattern, steady);
	pattern_release_all(&pattern); /* steady's */
	bench_must(cuCtxSynchronize(), "cuCtxSynchronize");
	if (watched)
		watch_end(&watch);
	tell_pattern(&pattern, what, watched, &watch);
	if (pattern.allocations == 0 || (steady && pattern.peak_live < pattern.n)) {
		fprintf(stderr, "%s: the blocks could not be had\n", with->name);
		return 1;
	}
	return 0;
}

enum { STREAMS_MAX = 64, ROUNDS_MAX = 1000 };

static inline void streams_round(const struct allocator *with, CUstream *stream, int streams,
				 int kernels, CUfunction fill)
{
	for (int i = 0; i < kernels; i++) {
		CUdeviceptr p = with->allocate(8, stream[i % streams]);

		if (!p) {
			fprintf(stderr, "no memory for 8 bytes\n");
			exit(1);
		}
		bench_fill(fill, stream[i % streams], p, 2, 1, 1000000);
		with->release(p, 8, stream[i % streams]);
	}
	bench_must(cuCtxSynchronize(), "cuCtxSynchronize");
}

static inline int streams_run(int argc, char **argv, const struct allocator *with)
{
	int streams = (int)bench_number(argc, argv, "streams", 4);
	int kernels = (int)bench_number(argc, argv, "kernels", 4);
	int rounds = (int)bench_number(argc, argv, "rounds", 21);
	bool prewarm = bench_number(argc, argv, "prewarm", 0);
	CUfunction fill = bench_kernel("gl_fill");
	CUstream stream[STREAMS_MAX];
	double us[ROUNDS_MAX], first, lowest;
	CUdeviceptr p[STREAMS_MAX];

	if (streams < 1 || streams > STREAMS_MAX || rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	for (int i = 0; i < streams; i++)
		stream[i] = bench_stream();
	for (int i = 0; i < 3; i++) { /* the kernel, and the GPU's clock; not the allocator */
		bench_fill(fill, stream[0], 0, 0, 1, 100000000);
		bench_must(cuCtxSynchronize(), "cuCtxSynchronize");
	}
	for (int i = 0; prewarm && i < streams; i++)
		p[i] = with->allocate(8, stream[i]);
	for (int i = 0; prewarm && i < streams; i++)
		with->release(p[i], 8, stream[i]);
	bench_must(cuCtxSynchronize(), "cuCtxSynchronize");
	for (int round = 0; round < rounds; round++) {
		double start = bench_now_ns();

		streams_round(with, stream, streams, kernels, fill);
		us[round] = (bench_now_ns() - start) / 1e3;
	}
	first = us[0];
	lowest = bench_median(us, rounds);
	printf("{\"what\": \"streams\", \"allocator\": \"%s\", \"streams\": %d, \"kernels\": %d, "
	       "\"prewarm\": %d, "
	       "\"rounds\": %d, \"first_us\": %.1f, \"us\": %.1f, \"us_lowest\": %.1f}\n",
	       with->name, streams, kernels, prewarm, rounds, first, lowest, us[0]);
	return 0;
}

static inline int patterns_main(int argc, char **argv, const struct allocator *allocators,
				int count)
{
	const char *what = argc > 1 ? argv[1] : "random";
	const char *name = bench_option(argc, argv, "allocator");
	const struct allocator *with = name ? NULL : allocators;

	for (int i = 0; name && i < count; i++)
		if (strcmp(allocators[i].name, name) == 0)
			with = &allocators[i];
	if (!with) {
		fprintf(stderr, "no allocator %s\n", name);
		return 2;
	}
	bench_begin();
	if (!with->begin()) {
		fprintf(stderr, "%s: not possible here\n", with->name);
		return 1;
	}
	if (strcmp(what, "streams") == 0)
		return streams_run(argc, argv, with);
	if (strcmp(what, "random") == 0 || strcmp(what, "steady") == 0)
		return pattern_run(argc, argv, what, with);
	fprintf(stderr, "random, steady or streams, not %s\n", what);
	return 2;
}

#endif
