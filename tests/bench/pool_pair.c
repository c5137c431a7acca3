/* SPDX-License-Identifier: MIT
 *
 * What an allocation and its free cost, one JSON line a figure; run bare and under the preload.
 *
 * pool_pair pair   [--bytes N] [--threads T] [--frames F] [--kept N] [--async 1] [--ms N]
 *     ns per pair and thread, of the median of seven chunks of --ms each; --kept: small blocks
 *     that stay live
 * pool_pair handed [--bytes N] [--threads T] [--depth N] [--kernel 1] [--async 1] [--ms N]
 *     T threads allocate, T others free, up to --depth (16) blocks on their way between two;
 *     --kernel: one writes to each block before it is handed over. ns per block and thread
 * pool_pair behind [--bytes N] [--count N] [--kernel-ms N] [--rounds N] [--pause-ms N] [--async 1]
 *     COUNT frees, and then as many allocations, while a kernel runs on another stream that was
 *     launched --pause-ms (5) before
 * pool_pair churn  [--bytes N] [--count N] [--async 1]
 *     allocate, kernel, free, and one wait at the end; ms
 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "pool_bench.h"

enum { THREADS_MAX = 256, CHUNKS = 7, COUNT_MAX = 4096 };

static CUcontext context;
static bool async;
static size_t bytes;
static int threads, frames;
static long chunk_ns;
static pthread_barrier_t line;

struct worker {
	pthread_t thread;
	CUstream stream;
	long pairs; /* of a chunk */
	double ns[CHUNKS];
};

static const char *allocator(void)
{
	return async ? "async" : "native";
}

static inline int allocate(CUdeviceptr *ret, CUstream stream)
{
	return async ? cuMemAllocAsync(ret, bytes, stream) : cuMemAlloc_v2(ret, bytes);
}

static inline int release(CUdeviceptr p, CUstream stream)
{
	return async ? cuMemFreeAsync(p, stream) : cuMemFree_v2(p);
}

static __attribute__((noinline)) void one_pair(CUstream stream)
{
	CUdeviceptr p;

	bench_must(allocate(&p, stream), "the allocation");
	bench_must(release(p, stream), "the free");
}

static __attribute__((noinline)) void run_pairs(struct worker *worker, long count)
{
	for (long i = 0; i < count; i++)
		one_pair(worker->stream);
	__asm__ volatile("");
}

/* Frames of a real program: calls that return, so no tail call folds them. */
static __attribute__((noinline)) long below(int depth, struct worker *worker, long count)
{
	long r = 0;

	if (depth > 0)
		r = below(depth - 1, worker, count) + 1;
	else
		run_pairs(worker, count);
	__asm__ volatile("" : "+r"(r));
	return r;
}

/* How many pairs a chunk is, found while all threads run: then each is about as long. */
static void warm_up(struct worker *worker, int depth)
{
	double start = bench_now_ns();

	worker->pairs = 0;
	while (bench_now_ns() - start < (double)chunk_ns) {
		below(depth, worker, 16);
		worker->pairs += 16;
	}
}

static void *work(void *argument)
{
	struct worker *worker = (struct worker *)argument;
	int depth = frames > 6 ? frames - 6 : 0; /* the calls around it count too */

	bench_must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	worker->stream = async ? bench_stream() : NULL;
	run_pairs(worker, 16); /* what is made at a thread's first call is made */
	pthread_barrier_wait(&line);
	warm_up(worker, depth);
	pthread_barrier_wait(&line);
	for (int i = 0; i < CHUNKS; i++) {
		double start = bench_now_ns();

		below(depth, worker, worker->pairs);
		worker->ns[i] = (bench_now_ns() - start) / (double)worker->pairs;
	}
	return NULL;
}

static int pair(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	long kept = bench_number(argc, argv, "kept", 0), pairs = 0;
	double sum = 0, lowest = 1e30;
	CUdeviceptr unused;

	threads = (int)bench_number(argc, argv, "threads", 1);
	frames = (int)bench_number(argc, argv, "frames", 0);
	chunk_ns = bench_number(argc, argv, "ms", 40) * 1000000;
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (long i = 0; i < kept; i++)
		bench_must(cuMemAlloc_v2(&unused, 512), "cuMemAlloc");
	pthread_barrier_init(&line, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (int i = 0; i < threads; i++) {
		double median;

		pthread_join(workers[i].thread, NULL);
		median = bench_median(workers[i].ns, CHUNKS);
		lowest = workers[i].ns[0] < lowest ? workers[i].ns[0] : lowest;
		pairs += workers[i].pairs * CHUNKS;
		sum += median;
	}
	printf("{\"what\": \"pair\", \"allocator\": \"%s\", \"bytes\": %zu, \"threads\": %d, "
	       "\"frames\": %d, \"kept\": %ld, \"pairs\": %ld, \"ns\": %.1f, \"ns_lowest\": "
	       "%.1f}\n",
	       allocator(), bytes, threads, frames, kept, pairs, sum / threads, lowest);
	return 0;
}

/* ---- from one thread to another, as a loader hands to who computes ---- */

enum { DEPTH_MAX = 1024, SPINS = 1000 };

/* Numbers of blocks, from the first on: MADE by one thread (LONG_MAX: it has ended), then FREED by
 * the other. */
struct lane {
	struct worker maker;
	pthread_t other;
	CUdeviceptr at[DEPTH_MAX];
	_Alignas(128) _Atomic long made;
	_Alignas(128) _Atomic long freed;
};

static long depth;
static CUfunction filler;

static void wait_beyond(_Atomic long *number, long reached)
{
	for (int spins = 0; atomic_load_explicit(number, memory_order_acquire) <= reached;)
		if (++spins > SPINS)
			sched_yield();
}

static void hand_over(struct lane *lane, long count)
{
	long from = atomic_load_explicit(&lane->made, memory_order_relaxed);

	for (long i = from; i < from + count; i++) {
		CUdeviceptr p;

		wait_beyond(&lane->freed, i - depth);
		bench_must(allocate(&p, lane->maker.stream), "the allocation");
		if (filler)
			bench_fill(filler, lane->maker.stream, p, 32, 1, 0);
		lane->at[i % depth] = p;
		atomic_store_explicit(&lane->made, i + 1, memory_order_release);
	}
	wait_beyond(&lane->freed, from + count - 1);
}

static void *make_for_other(void *argument)
{
	struct lane *lane = (struct lane *)argument;
	struct worker *maker = &lane->maker;
	double start;

	bench_must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	pthread_barrier_wait(&line);
	for (start = bench_now_ns(); bench_now_ns() - start < (double)chunk_ns; maker->pairs += 64)
		hand_over(lane, 64);
	pthread_barrier_wait(&line);
	for (int i = 0; i < CHUNKS; i++) {
		start = bench_now_ns();
		hand_over(lane, maker->pairs);
		maker->ns[i] = (bench_now_ns() - start) / (double)maker->pairs;
	}
	atomic_store(&lane->made, LONG_MAX);
	return NULL;
}

static void *free_for_other(void *argument)
{
	struct lane *lane = (struct lane *)argument;

	bench_must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (long i = 0;; i++) {
		wait_beyond(&lane->made, i);
		if (atomic_load_explicit(&lane->made, memory_order_relaxed) == LONG_MAX)
			return NULL;
		bench_must(release(lane->at[i % depth], lane->maker.stream), "the free");
		atomic_store_explicit(&lane->freed, i + 1, memory_order_release);
	}
}

static int handed(int argc, char **argv)
{
	static struct lane lanes[THREADS_MAX];
	double sum = 0;
	long blocks = 0;

	threads = (int)bench_number(argc, argv, "threads", 1);
	depth = bench_number(argc, argv, "depth", 16);
	chunk_ns = bench_number(argc, argv, "ms", 40) * 1000000;
	if (threads < 1 || threads > THREADS_MAX || depth < 1 || depth > DEPTH_MAX)
		return 2;
	if (bench_number(argc, argv, "kernel", 0))
		filler = bench_kernel("gl_fill");
	pthread_barrier_init(&line, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++) {
		lanes[i].maker.stream = bench_stream();
		pthread_create(&lanes[i].maker.thread, NULL, make_for_other, &lanes[i]);
		pthread_create(&lanes[i].other, NULL, free_for_other, &lanes[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(lanes[i].maker.thread, NULL);
		pthread_join(lanes[i].other, NULL);
		sum += bench_median(lanes[i].maker.ns, CHUNKS);
		blocks += lanes[i].maker.pairs * CHUNKS;
	}
	printf("{\"what\": \"handed\", \"allocator\": \"%s\", \"bytes\": %zu, \"threads\": %d, "
	       "\"depth\": %ld, \"kernel\": %d, \"blocks\": %ld, \"ns\": %.1f}\n",
	       allocator(), bytes, threads, depth, filler != NULL, blocks, sum / threads);
	return 0;
}

/* ---- behind a kernel ---- */

/* One round: blocks made before the kernel are freed behind it, others made behind it. */
struct behind {
	CUstream busy, own;
	CUfunction spin;
	uint64_t clocks;
	int count;
	long pause_ns; /* of the thread, between the launch and the first free */
	CUdeviceptr freed[COUNT_MAX], made[COUNT_MAX];
	double free_us[COUNT_MAX], alloc_us[COUNT_MAX], kernel_ms;
	bool ran_at_start, ran_after_frees, ran_after_allocations;
};

static bool still_runs(const struct behind *with)
{
	return cuStreamQuery(with->busy) == BENCH_NOT_READY;
}

static double most(const double *values, int count)
{
	double ret = 0;

	for (int i = 0; i < count; i++)
		ret = values[i] > ret ? values[i] : ret;
	return ret;
}

static void behind_round(struct behind *with)
{
	double launched;

	for (int i = 0; i < with->count; i++)
		bench_must(allocate(&with->freed[i], with->own), "an allocation");
	bench_must(cuCtxSynchronize(), "cuCtxSynchronize");
	launched = bench_now_ns();
	bench_spin(with->spin, with->busy, with->clocks);
	if (with->pause_ns)
		bench_sleep_ns(with->pause_ns);
	with->ran_at_start = still_runs(with);
	for (int i = 0; i < with->count; i++) {
		double start = bench_now_ns();

		bench_must(release(with->freed[i], with->own), "a free");
		with->free_us[i] = (bench_now_ns() - start) / 1e3;
	}
	with->ran_after_frees = still_runs(with);
	for (int i = 0; i < with->count; i++) {
		double start = bench_now_ns();

		bench_must(allocate(&with->made[i], with->own), "an allocation");
		with->alloc_us[i] = (bench_now_ns() - start) / 1e3;
	}
	with->ran_after_allocations = still_runs(with);
	bench_must(cuStreamSynchronize(with->busy), "cuStreamSynchronize");
	with->kernel_ms = (bench_now_ns() - launched) / 1e6;
	for (int i = 0; i < with->count; i++)
		bench_must(release(with->made[i], with->own), "a free");
}

/* The kernel was submitted before the frees and still ran after the allocations: none of these
 * may be what was freed. Stream order alone (async) gives them out again, rightly. */
static int handed_out_again(const struct behind *with)
{
	int ret = 0;

	for (int i = 0; i < with->count && with->ran_after_allocations; i++)
		for (int j = 0; j < with->count; j++)
			ret += with->made[i] == with->freed[j];
	return ret;
}

static int behind(int argc, char **argv)
{
	static struct behind with;
	int rounds = (int)bench_number(argc, argv, "rounds", 5), again = 0, ran = 0, still = 0;
	double free_us[100], free_most = 0, alloc_us[100], alloc_most = 0, first_us[100];

	with.count = (int)bench_number(argc, argv, "count", 16);
	if (with.count < 1 || with.count > COUNT_MAX || rounds < 1 || rounds > 100)
		return 2;
	with.pause_ns = bench_number(argc, argv, "pause-ms", 5) * 1000000;
	with.busy = bench_stream();
	with.own = bench_stream();
	with.spin = bench_kernel("gl_spin");
	with.clocks = bench_clocks(1);
	behind_round(&with); /* loads the kernel, makes what is made once */
	with.clocks = bench_clocks((double)bench_number(argc, argv, "kernel-ms", 100));
	for (int round = 0; round < rounds; round++) {
		behind_round(&with);
		first_us[round] = with.free_us[0];
		ran += with.ran_at_start;
		still += with.ran_after_frees;
		again += async ? 0 : handed_out_again(&with);
		free_most = most(with.free_us, with.count) > free_most
				    ? most(with.free_us, with.count)
				    : free_most;
		alloc_most = most(with.alloc_us, with.count) > alloc_most
				     ? most(with.alloc_us, with.count)
				     : alloc_most;
		free_us[round] = bench_median(with.free_us, with.count);
		alloc_us[round] = bench_median(with.alloc_us, with.count);
	}
	printf("{\"what\": \"behind\", \"allocator\": \"%s\", \"bytes\": %zu, \"count\": %d, "
	       "\"rounds\": %d, "
	       "\"first_free_us\": %.2f, \"free_us\": %.2f, \"free_us_most\": %.2f, \"alloc_us\": "
	       "%.2f, "
	       "\"alloc_us_most\": %.2f, \"kernel_ms\": %.1f, \"kernel_ran\": %d, "
	       "\"ran_after_frees\": %d, "
	       "\"handed_out_again\": %d}\n",
	       allocator(), bytes, with.count, rounds, bench_median(first_us, rounds),
	       bench_median(free_us, rounds), free_most, bench_median(alloc_us, rounds), alloc_most,
	       with.kernel_ms, ran, still, again);
	if (again) {
		fprintf(stderr,
			"WRONG: %d blocks were handed out again while work submitted before their "
			"free ran\n",
			again);
		return 1;
	}
	return 0;
}

static int churn(int argc, char **argv)
{
	long count = bench_number(argc, argv, "count", 2000);
	CUfunction fill = bench_kernel("gl_fill");
	double start = 0, ms;

	for (long i = -10; i < count; i++) {
		CUdeviceptr p;

		if (i == 0) {
			bench_must(cuCtxSynchronize(), "cuCtxSynchronize");
			start = bench_now_ns();
		}
		bench_must(allocate(&p, NULL), "the allocation");
		bench_fill(fill, NULL, p, 32, 1, 0);
		bench_must(release(p, NULL), "the free");
	}
	bench_must(cuCtxSynchronize(), "cuCtxSynchronize");
	ms = (bench_now_ns() - start) / 1e6;
	printf("{\"what\": \"churn\", \"allocator\": \"%s\", \"bytes\": %zu, \"count\": %ld, "
	       "\"ms\": %.2f}\n",
	       allocator(), bytes, count, ms);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "pair";

	async = bench_number(argc, argv, "async", 0);
	bytes = (size_t)bench_number(argc, argv, "bytes", strcmp(what, "churn") ? 65536 : 4 << 20);
	context = bench_begin();
	if (async)
		bench_keeping_pool();
	if (strcmp(what, "pair") == 0)
		return pair(argc, argv);
	if (strcmp(what, "handed") == 0)
		return handed(argc, argv);
	if (strcmp(what, "behind") == 0)
		return behind(argc, argv);
	if (strcmp(what, "churn") == 0)
		return churn(argc, argv);
	fprintf(stderr, "pair, handed, behind or churn, not %s\n", what);
	return 2;
}
