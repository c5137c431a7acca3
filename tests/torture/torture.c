/* SPDX-License-Identifier: MIT
 *
 * Random programs against the CUDA driver that check every byte: options, rounds, statistics.
 * Exit 0: every pattern was found and every call answered as the driver alone does; 1: not, with
 * a line that says how to do it again; 2: bad options.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "torture.h"

struct options options = { .seed = 1, .seconds = 5, .threads = 4, .streams = 6, .ops = 100,
			   .devices = 1, .features = ~0u, .max_bytes = 4 << 20 };
struct worker workers[MAX_THREADS + 1];
_Atomic bool starved;
static _Atomic bool refused; /* an allocation was, to any thread */

static struct timespec began;
static _Atomic uint64_t progress;
static unsigned int rounds;

/* The asynchronous stand-in's, or NULL: how often the calling thread waited for work, and work that
 * touched memory which was not there any more. */
bool on_standin;
static uint64_t (*standin_waits)(const char *call);
static const char *(*standin_last_wait)(void);
static void (*standin_mark)(void);
static uint64_t (*standin_overdue)(const char *call);
static uint64_t (*standin_violations)(void);

/* For nothing but what others submitted since this thread's call began. */
static uint64_t raced(const char *call)
{
	return standin_waits(call) - standin_overdue(call);
}

/* Without those for one stream: what a pool gives back is waited for in a stream of its own. Where
 * there is no such way it goes back while nothing runs, and another thread may submit something at
 * that moment: pinned memory, and all memory where the driver is old. */
uint64_t waits_so_far(void)
{
	uint64_t waits;

	if (!standin_waits)
		return 0;
	waits = standin_waits(NULL) - standin_waits("cuStreamSynchronize");
	if (options.pinned_goes_back || options.all_goes_back)
		waits -= raced("cuMemFreeHost");
	if (options.all_goes_back)
		waits -= raced("cuMemFree_v2");
	return waits;
}

uint64_t call_begins(void)
{
	if (standin_mark)
		standin_mark();
	return waits_so_far();
}

const char *last_wait(void)
{
	const char *call = standin_last_wait ? standin_last_wait() : NULL;

	return call ? call : "a call that is not known";
}

static double seconds_since(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) / 1e9;
}

void count_refused(struct worker *w)
{
	w->counts[COUNT_refused]++;
	atomic_store_explicit(&refused, true, memory_order_relaxed);
}

bool over(void)
{
	double seconds = seconds_since(&began);

	if (atomic_load_explicit(&starved, memory_order_relaxed))
		return true;
	/* On a busy machine the time may be over before the allocation that must be refused. */
	if (options.must_fail && !atomic_load_explicit(&refused, memory_order_relaxed))
		return seconds >= options.seconds + 60;
	return seconds >= options.seconds;
}

static void print_again(void)
{
	printf("torture: again with --seed %llu --threads %u --streams %u --ops %u --devices %u"
	       " --max-bytes %zu; features",
	       (unsigned long long)options.seed, options.threads, options.streams, options.ops,
	       options.devices, options.max_bytes);
#define F(name) \
	if (has(FEATURE_##name)) \
		printf(" " #name);
	FEATURES(F)
#undef F
	printf("\n");
}

_Noreturn void fail(const struct worker *w, const char *format, ...)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	va_list args;

	pthread_mutex_lock(&once); /* for good: the first failure is the one to see */
	printf("torture: FAILED: seed %llu round %u thread %u step %u (%s): ",
	       (unsigned long long)options.seed, w->round, w->index, w->step,
	       w->op ? w->op : "start");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	print_again();
	fflush(stdout);
	_exit(1);
}

void expect(const struct worker *w, CUresult r, CUresult wanted, const char *call)
{
	if (r != wanted)
		fail(w, "%s answered %d, not %d", call, r, wanted);
}

/* splitmix64 */
uint64_t draw(struct worker *w)
{
	uint64_t z = (w->random += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

unsigned int below(struct worker *w, unsigned int limit)
{
	return (unsigned int)(draw(w) % limit);
}

bool chance(struct worker *w, unsigned int percent)
{
	return below(w, 100) < percent;
}

bool alive(void)
{
	atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed);
	return true;
}

/* Generous: what hangs, hangs for good. */
static void *watch(void *unused)
{
	uint64_t before = 0;
	unsigned int idle = 0;

	while (idle < 120) {
		uint64_t now;

		sleep(1);
		now = atomic_load_explicit(&progress, memory_order_relaxed);
		idle = now == before ? idle + 1 : 0;
		before = now;
	}
	for (unsigned int i = 0; i <= options.threads; i++)
		printf("torture: thread %u hangs or waits in step %u (%s)\n", workers[i].index,
		       workers[i].step, workers[i].op ? workers[i].op : "start");
	fail(&workers[options.threads], "nothing moved for two minutes");
	return unused;
}

static void *work(void *worker)
{
	struct worker *w = worker;

	forget_current();
	if (worker_prepare(w))
		steps(w);
	return NULL;
}

static uint64_t seed_of(unsigned int index)
{
	return options.seed * 0x9e3779b97f4a7c15ull + rounds * 1000003ull + index;
}

static void run_round(void)
{
	struct worker *keeper = &workers[options.threads];

	for (unsigned int i = 0; i <= options.threads; i++) {
		workers[i].index = i;
		workers[i].round = rounds;
		workers[i].step = 0;
		workers[i].random = seed_of(i);
		workers[i].tensor_random = seed_of(i);
		/* Each fourth round's threads exchange their mode, and nothing is forbidden. */
		workers[i].exchanged = rounds % 4 == 3;
	}
	if (!worker_prepare(keeper))
		return;
	for (unsigned int i = 0; i < options.threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			fail(&workers[i], "no thread");
	for (int i = 0; i < 8; i++)
		balances_check_running(keeper);
	for (unsigned int i = 0; i < options.threads; i++)
		pthread_join(workers[i].thread, NULL);
	alive();
	quiet(keeper);
	endings(keeper);
}

static void print_counts(void)
{
	uint64_t sum[COUNT_END] = { 0 };

	for (unsigned int i = 0; i <= options.threads; i++)
		for (int c = 0; c < COUNT_END; c++)
			sum[c] += workers[i].counts[c];
	if (standin_violations && standin_violations())
		fail(&workers[options.threads],
		     "WRONG BYTES: the driver saw %llu accesses to what was"
		     " freed", (unsigned long long)standin_violations());
	if (options.must_fail && !sum[COUNT_refused])
		fail(&workers[options.threads], "no allocation was refused");
	printf("torture: ok: seed %llu rounds %u seconds %.1f", (unsigned long long)options.seed,
	       rounds, seconds_since(&began));
#define C(name) printf(" " #name " %llu", (unsigned long long)sum[COUNT_##name]);
	COUNTS(C)
#undef C
	printf("\n");
}

static unsigned int feature_named(const char *name)
{
	unsigned int which = 0;

#define F(feature) \
	if (!strcmp(name, #feature)) \
		which = FEATURE_##feature;
	FEATURES(F)
#undef F
	return !strcmp(name, "all") ? ~0u : which;
}

/* "all,-wrong", "pinned,captures", "-legacy" */
static bool parse_features(char *list)
{
	options.features = list[0] == '-' ? ~0u : 0;
	for (char *rest, *name = strtok_r(list, ",", &rest); name;
	     name = strtok_r(NULL, ",", &rest)) {
		bool less = name[0] == '-';
		unsigned int which = feature_named(name + less);

		if (!which)
			return false;
		options.features = less ? options.features & ~which : options.features | which;
	}
	return true;
}

static bool parse_number(const char *name, const char *value)
{
	char *end;
	unsigned long long n = strtoull(value, &end, 0);

	if (*end || end == value)
		return false;
	if (!strcmp(name, "--seed"))
		options.seed = n;
	else if (!strcmp(name, "--seconds"))
		options.seconds = (unsigned int)n;
	else if (!strcmp(name, "--threads") && n >= 1 && n <= MAX_THREADS)
		options.threads = (unsigned int)n;
	else if (!strcmp(name, "--streams") && n >= MAX_CONTEXTS && n <= MAX_STREAMS)
		options.streams = (unsigned int)n;
	else if (!strcmp(name, "--ops") && n >= 1)
		options.ops = (unsigned int)n;
	else if (!strcmp(name, "--devices") && n >= 1 && n < MAX_CONTEXTS)
		options.devices = (unsigned int)n;
	else if (!strcmp(name, "--max-bytes") && n >= 1)
		options.max_bytes = n;
	else
		return false;
	return true;
}

static bool parse_mode(const char *name)
{
	if (!strcmp(name, "fast"))
		options.mode = MODE_FAST;
	else if (!strcmp(name, "strict"))
		options.mode = MODE_STRICT;
	else
		return !strcmp(name, "off");
	return true;
}

static bool parse_value(const char *name, char *value)
{
	if (!strcmp(name, "--features"))
		return parse_features(value);
	return strcmp(name, "--mode") ? parse_number(name, value) : parse_mode(value);
}

static bool parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--may-fail"))
			options.may_fail = true;
		else if (!strcmp(argv[i], "--may-wait"))
			options.may_wait = true;
		else if (!strcmp(argv[i], "--pinned-goes-back"))
			options.pinned_goes_back = true;
		else if (!strcmp(argv[i], "--all-goes-back"))
			options.all_goes_back = true;
		else if (!strcmp(argv[i], "--must-fail"))
			options.may_fail = options.must_fail = true;
		else if (i + 1 >= argc)
			return false;
		else if (!parse_value(argv[i], argv[i + 1]))
			return false;
		else
			i++;
	}
	return true;
}

static void open_contexts(const struct worker *w)
{
	int devices;

	MUST(w, cuInit(0));
	MUST(w, cuDeviceGetCount(&devices));
	for (int d = 0; d < devices && d < (int)options.devices; d++)
		contexts[context_count++] = (struct context){ .device = d, .primary = true };
	if (has(FEATURE_contexts))
		contexts[context_count++] = (struct context){ .device = 0 };
	for (int i = 0; i < context_count; i++)
		context_open(w, i);
}

int main(int argc, char **argv)
{
	struct worker *keeper;
	pthread_t watcher;

	if (!parse(argc, argv)) {
		fprintf(stderr,
			"usage: torture [--seed N] [--seconds S] [--threads T] "
			"[--streams 4..16] [--ops N]\n"
			"       [--devices N] [--max-bytes N] [--features LIST]\n"
			"       [--may-fail] [--must-fail]   allocations, for want of memory\n"
			"       [--may-wait]                 allocations, since memory is short\n"
			"       [--pinned-goes-back] [--all-goes-back]   frees, by a race\n"
			"       [--mode off|strict|fast]     what may wait; checked on the "
			"stand-in only\n"
			"LIST: names, all, or -name to leave out, of");
#define F(name) fprintf(stderr, " " #name);
		FEATURES(F)
#undef F
		fprintf(stderr, "\n");
		return 2;
	}
	keeper = &workers[options.threads];
	keeper->index = options.threads;
	clock_gettime(CLOCK_MONOTONIC, &began);
	on_standin = dlsym(RTLD_DEFAULT, "standin_waits") != NULL;
	standin_last_wait = (const char *(*)(void))dlsym(RTLD_DEFAULT, "standin_last_wait");
	standin_mark = (void (*)(void))dlsym(RTLD_DEFAULT, "standin_mark");
	standin_overdue = (uint64_t(*)(const char *))dlsym(RTLD_DEFAULT, "standin_overdue");
	standin_waits = (uint64_t(*)(const char *))dlsym(RTLD_DEFAULT, "standin_waits");
	standin_violations = (uint64_t(*)(void))dlsym(RTLD_DEFAULT, "standin_violations");
	captures_init();
	tensors_init();
	open_contexts(keeper);
	if (pthread_create(&watcher, NULL, watch, NULL))
		fail(keeper, "no thread");
	do
		run_round();
	while (++rounds && !over());
	tensors_close();
	world_close(keeper);
	balances_check_quiet(keeper);
	print_counts();
	return 0;
}
