/* SPDX-License-Identifier: MIT
 *
 * What gpuleak.h promises of marks, blocks and ignored blocks: one story each, which prints
 * what it is told. Linked to nothing of gpuleak's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpuleak.h"
#include "vmm.h"

#define THREADS 8
#define ROUNDS 4000

static CUcontext context;

static void start(void)
{
	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2"); /* @allocate */
	return address;
}

static void release(CUdeviceptr address)
{
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

static struct gpuleak_sum since(uint64_t mark, const char *kind, uint32_t thread)
{
	struct gpuleak_sum sum = { .size = sizeof(sum), .kind = kind, .thread = thread };

	errno = EXDEV;
	if (gpuleak_leaked_since(mark, &sum) < 0 || errno != EXDEV) {
		printf("gpuleak_leaked_since: %s\n", strerror(errno));
		exit(1);
	}
	return sum;
}

static void print_since(const char *what, uint64_t mark, const char *kind, uint32_t thread)
{
	struct gpuleak_sum sum = since(mark, kind, thread);

	printf("%s: %" PRIu64 " blocks %" PRIu64 " bytes, ignored %" PRIu64 " %" PRIu64
	       ", live %" PRIu64 "\n", what, sum.blocks, sum.bytes, sum.ignored_blocks,
	       sum.ignored_bytes, sum.live_bytes);
}

/* ---- stories ---- */

static int main_absent(void)
{
	static const char *const names[] = {
		"gpuleak_mark", "gpuleak_leaked_since", "gpuleak_peak", "gpuleak_who",
		"gpuleak_ignore", "gpuleak_ignore_begin", "gpuleak_ignore_end",
		"gpuleak_ledger", "gpuleak_command",
	};
	int found = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		found += dlsym(RTLD_DEFAULT, names[i]) != NULL;
	printf("linked %d, looked up %d\n", gpuleak_mark != NULL && gpuleak_leaked_since != NULL &&
	       gpuleak_who != NULL && gpuleak_ignore != NULL, found);
	return 0;
}

static int main_marks(void)
{
	uint64_t before = gpuleak_mark(), first, second;
	CUdeviceptr a, b;
	void *pinned;

	print_since("no call", before, NULL, 0);
	start();
	a = allocate(1000);
	first = gpuleak_mark();
	b = allocate(200);
	second = gpuleak_mark();
	must(cuMemHostAlloc(&pinned, 4096, 0), "cuMemHostAlloc");
	printf("in order: %d\n", before < first && first < second);
	print_since("before all", before, NULL, 0);
	print_since("first", first, NULL, 0);
	print_since("second", second, NULL, 0);
	print_since("device", first, "device", 0);
	print_since("pinned", first, "pinned", 0);
	print_since("other kind", first, "devic", 0);
	print_since("this thread", first, NULL, (uint32_t)syscall(SYS_gettid));
	print_since("other thread", first, NULL, 1);
	release(b);
	print_since("freed", first, NULL, 0);
	release(a);
	print_since("older freed", first, NULL, 0);
	must(cuMemFreeHost(pinned), "cuMemFreeHost");
	print_since("all freed", before, NULL, 0);
	print_since("ever", 0, NULL, 0);
	print_since("now", gpuleak_mark(), NULL, 0);
	return 0;
}

/* ---- many threads ---- */

static _Atomic bool stop;
static _Atomic int wrong;
static pthread_barrier_t barrier;

static void expect(const struct gpuleak_sum *sum, uint64_t blocks, uint64_t bytes)
{
	if (sum->blocks != blocks || sum->bytes != bytes)
		wrong++;
}

/* A thread's own blocks are exact at any moment, whatever others allocate and mark. */
static void *own_blocks(void *unused)
{
	uint32_t self = (uint32_t)syscall(SYS_gettid);

	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr older = allocate(64), newer;
		uint64_t mark = gpuleak_mark();
		struct gpuleak_sum sum = since(mark, NULL, self);

		expect(&sum, 0, 0);
		newer = allocate(128);
		sum = since(mark, NULL, self);
		expect(&sum, 1, 128);
		release(older);
		sum = since(mark, NULL, self);
		expect(&sum, 1, 128);
		release(newer);
		sum = since(mark, NULL, self);
		expect(&sum, 0, 0);
	}
	return unused;
}

static void *marker(void *unused)
{
	while (!stop)
		gpuleak_mark();
	return unused;
}

static int main_race(void)
{
	pthread_t thread[THREADS], other;

	start();
	pthread_create(&other, NULL, marker, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, own_blocks, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	stop = true;
	pthread_join(other, NULL);
	printf("wrong %d\n", wrong);
	return 0;
}

#define OLDER 200
#define NEWER 50

/* While older blocks are freed all around, what is newer is counted exactly. */
static void *two_ages(void *unused)
{
	CUdeviceptr older[OLDER], newer[NEWER];

	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (int i = 0; i < OLDER; i++)
		older[i] = allocate(64);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier); /* main marks in between */
	for (int i = 0; i < NEWER; i++)
		newer[i] = allocate(128);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < OLDER; i++)
		release(older[i]);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < NEWER; i++)
		release(newer[i]);
	return unused;
}

static int main_ages(void)
{
	pthread_t thread[THREADS];
	struct gpuleak_sum sum;
	uint64_t mark;

	start();
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, two_ages, NULL);
	pthread_barrier_wait(&barrier);
	mark = gpuleak_mark();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	do {
		sum = since(mark, NULL, 0);
		expect(&sum, THREADS * NEWER, THREADS * NEWER * 128);
	} while (sum.live_bytes > THREADS * NEWER * 128);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	sum = since(mark, NULL, 0);
	expect(&sum, 0, 0);
	printf("wrong %d\n", wrong);
	return 0;
}

/* ---- who ---- */

static void print_who(const char *what, uint64_t address)
{
	struct gpuleak_block block = { .size = sizeof(block) };

	errno = EXDEV;
	if (gpuleak_who(address, &block) < 0) {
		printf("%s: %s\n", what, strerror(errno));
		return;
	}
	printf("%s: %s %s %" PRIu64 " of %" PRIu64 " at +%" PRIu64 " device %d flags %u%s%s%s\n",
	       what, block.api, block.kind, block.bytes, block.span, address - block.address,
	       block.device, block.flags, errno == EXDEV ? "" : " errno",
	       block.thread == (uint32_t)syscall(SYS_gettid) ? "" : " another thread",
	       block.pcs_count ? "" : " no stack");
}

/* Whether BLOCK's stack goes through allocate() and main_stack(). */
static int main_stack(void)
{
	uint64_t pcs[64], few[1] = { 7 };
	struct gpuleak_block block = { .size = sizeof(block), .pcs = pcs, .pcs_room = 64 };
	uint64_t before = gpuleak_mark(), after;
	CUdeviceptr address;
	bool ours = false;
	Dl_info info;

	start();
	address = allocate(512);
	after = gpuleak_mark();
	must(gpuleak_who(address, &block), "gpuleak_who");
	for (uint32_t i = 0; i < block.pcs_count; i++)
		ours |= dladdr((void *)(uintptr_t)pcs[i], &info) && info.dli_fname &&
			strstr(info.dli_fname, "p_api");
	printf("ours %d, since the earlier mark %d, since the later %d, dated %d\n", ours,
	       block.mark >= before, block.mark >= after, block.time_ns > 0);
	block = (struct gpuleak_block){ .size = sizeof(block), .pcs = few, .pcs_room = 0 };
	must(gpuleak_who(address, &block), "gpuleak_who");
	printf("no room: %d %d\n", block.pcs_count > 1, few[0] == 7);
	return 0;
}

static int main_who(void)
{
	const struct array_descriptor shape = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	const struct properties properties = { .type = 1, .location = { ON_DEVICE, 0 } };
	static char mine[8192];
	CUdeviceptr linear, mapped, small;
	void *pinned, *array;
	vmm_handle handle;

	print_who("nothing yet", 4096);
	start();
	linear = allocate(4 << 20);
	small = allocate(100);
	must(cuMemHostAlloc(&pinned, 4096, 0), "cuMemHostAlloc");
	must(cuMemHostRegister_v2(mine, sizeof(mine), 0), "cuMemHostRegister_v2");
	must(cuArrayCreate_v2(&array, &shape), "cuArrayCreate_v2");
	must(cuMemCreate(&handle, GRAIN, &properties, 0), "cuMemCreate");
	must(cuMemAddressReserve(&mapped, 2 * GRAIN, 0, 0, 0), "cuMemAddressReserve");
	print_who("begin", linear);
	print_who("inside", linear + 12345);
	print_who("last", linear + (4 << 20) - 1);
	print_who("small", small + 99);
	print_who("behind", small + 100);
	print_who("pinned", (uintptr_t)pinned + 1);
	print_who("registered", (uintptr_t)mine + 8000);
	print_who("array", (uintptr_t)array);
	print_who("handle", handle);
	print_who("reserved", mapped + 5);
	must(cuMemMap(mapped, GRAIN, 0, handle, 0), "cuMemMap");
	print_who("mapped", mapped + 5);
	print_who("reserved behind", mapped + GRAIN);
	release(linear);
	print_who("freed", linear);
	print_who("null", 0);
	return 0;
}

/* ---- ignore ---- */

static void *in_thread(void *unused)
{
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	allocate(1 << 12); /* @in_thread */
	return unused;
}

static int main_ignore(void)
{
	CUdeviceptr kept[3];
	pthread_t thread;
	uint64_t mark;

	gpuleak_ignore_begin();
	start();
	mark = gpuleak_mark();
	allocate(1 << 8);
	gpuleak_ignore_begin();
	gpuleak_ignore_end();
	allocate(1 << 9);
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	gpuleak_ignore_end();
	gpuleak_ignore_end(); /* one too many is nothing */
	for (int i = 0; i < 3; i++)
		kept[i] = allocate((size_t)16 << i); /* @kept */
	print_since("scopes", mark, NULL, 0);
	printf("ignored: %d", gpuleak_ignore(kept[0]));
	printf(" %d", gpuleak_ignore(kept[1] + 31));
	printf(" %d", gpuleak_ignore(kept[1] + 32));
	printf(" %s\n", strerror(errno));
	print_since("blocks", mark, NULL, 0);
	print_who("told", kept[0]);
	release(kept[1]);
	kept[1] = allocate(32);
	print_since("again", mark, NULL, 0);
	return 0;
}

/* ---- the rest ---- */

static void print_peak(const char *what, int restart)
{
	uint64_t bytes = 7;

	printf("%s: %d", what, gpuleak_peak(restart, &bytes));
	printf(" %" PRIu64 "\n", bytes);
}

static int main_peak(void)
{
	CUdeviceptr held;

	print_peak("no call", 1);
	start();
	held = allocate(1000);
	release(allocate(5000));
	print_peak("all", 0);
	print_peak("all again", 1);
	print_peak("restarted", 0);
	release(allocate(300));
	print_peak("small", 0);
	release(allocate(100));
	print_peak("smaller", 1);
	release(held);
	print_peak("freed", 1);
	print_peak("nothing", 0);
	return 0;
}

static _Atomic unsigned int handled, answers;

static void on_alarm(int number)
{
	struct gpuleak_block block = { .size = sizeof(block) };
	struct gpuleak_sum sum = { .size = sizeof(sum) };
	int saved = errno;

	(void)number;
	gpuleak_ignore_begin();
	answers += gpuleak_leaked_since(gpuleak_mark(), &sum) == 0;
	if (gpuleak_who(0x304000000u, &block) < 0 && errno != ENOENT && errno != EBUSY)
		wrong++;
	gpuleak_ignore_end();
	handled++;
	errno = saved;
}

static int main_signals(void)
{
	const struct itimerval often = { { 0, 200 }, { 0, 200 } };
	const struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct gpuleak_sum sum;
	uint64_t mark;

	start();
	mark = gpuleak_mark();
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; handled < 500 || i < 20000; i++)
		release(allocate(256));
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	sum = since(mark, NULL, 0);
	printf("handled %d, all answered %d, wrong %d, left %" PRIu64 "\n", handled >= 500,
	       answers == handled, wrong, sum.blocks + sum.ignored_blocks);
	return 0;
}

static int main_fork(void)
{
	uint64_t mark;
	int status;
	pid_t child;

	gpuleak_mark();
	mark = gpuleak_mark(); /* the first GPU call is the child's */
	fflush(stdout);
	child = fork();
	if (child == 0) {
		start();
		allocate(77);
		print_since("child", mark, NULL, 0);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	print_since("parent", mark, NULL, 0);
	return 0;
}

static void print_answer(const char *what, int answer)
{
	printf("%s: %s\n", what, answer < 0 ? strerror(errno) : "ok");
}

static int main_sizes(void)
{
	struct { struct gpuleak_sum sum; char more[64]; } later = { .sum.size = sizeof(later) };
	const size_t first = offsetof(struct gpuleak_sum, suballocation_blocks);
	struct gpuleak_sum sum = { .size = first };
	struct gpuleak_block block = { 0 };
	uint64_t mark = gpuleak_mark();

	memset(later.more, 1, sizeof(later.more));
	start();
	allocate(10);
	print_answer("no struct", gpuleak_leaked_since(mark, NULL));
	print_answer("first struct", gpuleak_leaked_since(mark, &sum));
	sum.size = first - 1;
	print_answer("older struct", gpuleak_leaked_since(mark, &sum));
	print_answer("size not set", gpuleak_who(1, &block));
	print_answer("nowhere", gpuleak_peak(0, NULL));
	print_answer("later struct", gpuleak_leaked_since(mark, &later.sum));
	printf("%d %d\n", later.sum.size == sizeof(struct gpuleak_sum) && later.sum.blocks == 1,
	       later.more[0] == 0 && later.more[63] == 0);
	return 0;
}

static int main_paths(void)
{
	char ledger[4096], command[4096];

	print_answer("no call", gpuleak_ledger(ledger, sizeof(ledger)));
	start();
	print_answer("no room", gpuleak_ledger(ledger, 5));
	if (gpuleak_ledger(ledger, sizeof(ledger)) != (int)strlen(ledger) ||
	    gpuleak_command(command, sizeof(command)) != (int)strlen(command))
		return 1;
	printf("%d %d\n", access(ledger, R_OK), access(command, X_OK));
	return 0;
}

/* Allocates before a mark and after it, and waits to be looked at. */
static int main_wait(void)
{
	CUdeviceptr older, newer;
	uint64_t mark;

	start();
	older = allocate(3000); /* @older */
	mark = gpuleak_mark();
	newer = allocate(500); /* @newer */
	printf("%" PRIu64 " 0x%llx 0x%llx %ld\n", mark, older, newer + 499, syscall(SYS_gettid));
	fflush(stdout);
	getchar();
	release(older);
	release(newer);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*tell)(void);
	} stories[] = {
		{ "absent", main_absent }, { "marks", main_marks },	{ "race", main_race },
		{ "ages", main_ages },	   { "stack", main_stack },	{ "who", main_who },
		{ "ignore", main_ignore }, { "peak", main_peak },	{ "signals", main_signals },
		{ "fork", main_fork },	   { "sizes", main_sizes },	{ "paths", main_paths },
		{ "wait", main_wait },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(argv[1], stories[i].name) == 0)
			return stories[i].tell();
	return 2;
}
