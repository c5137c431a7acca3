/* SPDX-License-Identifier: MIT
 *
 * Attaches gpuleak to itself while it runs: attached LIBRARY LEDGER [routes|rounds N]. The library
 * is opened with dlopen(), as `gpuleak attach` does it from outside.
 *   routes    one allocation by each way to the driver before, during and after the attachment
 *   modules A B  the same by libraries that are bound lazily: A is opened before the attachment, B
 *             after it
 *   ends HOW  ends while it is attached
 *   limited WHEN  the kernel refuses the child that changes words, from before the attachment
 *             ("attach") or from before its end ("detach")
 *   prepared  allocates when its input requests it, and opens nothing
 *   count     prints the instructions of the same calls before, during and after an attachment
 *   rounds    attaches and detaches N times while threads allocate, launch, capture, fork and open
 *             libraries
 */
#include "cu_graph.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8
#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

typedef CUresult allocate(CUdeviceptr *, size_t);
typedef CUresult release(CUdeviceptr);
typedef CUresult get_proc(const char *, void **, int, uint64_t, int *);
static int (*attach)(const char *);
static int (*detach)(void);
static char settings[4096];
static CUcontext context;

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "failed: %s\n", what);
	exit(1);
}

/* ---- the ways to the driver ---- */

struct table {
	allocate *allocate;
	release *release;
};
static struct table *looked_up; /* in anonymous memory, as a static runtime has it */
static struct table *by_driver; /* from cuGetProcAddress, on the heap */
static struct table in_data;    /* static storage */
static allocate *const read_only = cuMemAlloc_v2; /* relocated, then read-only */
static void *(*volatile look)(void *, const char *) = dlsym;

static void fill_tables(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	get_proc *get;

	check(driver != NULL, "dlopen of the driver");
	looked_up = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	by_driver = malloc(sizeof(*by_driver));
	looked_up->allocate = (allocate *)look(driver, "cuMemAlloc_v2");
	looked_up->release = (release *)look(driver, "cuMemFree_v2");
	get = (get_proc *)look(driver, "cuGetProcAddress_v2");
	check(get("cuMemAlloc", (void **)&by_driver->allocate, 12000, 0, NULL) == 0, "proc");
	check(get("cuMemFree", (void **)&by_driver->release, 12000, 0, NULL) == 0, "proc");
	in_data = *looked_up;
}

/* Allocates BYTES and the following numbers of bytes, by each way, and frees what FREES says. */
static void by_each_way(size_t bytes, CUdeviceptr ret[4])
{
	check(cuMemAlloc_v2(&ret[0], bytes) == 0, "linked");              /* @linked */
	check(looked_up->allocate(&ret[1], bytes + 1) == 0, "looked up"); /* @looked_up */
	check(by_driver->allocate(&ret[2], bytes + 2) == 0, "by driver"); /* @by_driver */
	check(read_only(&ret[3], bytes + 3) == 0, "read-only");           /* @read_only */
}

static void free_each(CUdeviceptr given[4])
{
	check(cuMemFree_v2(given[0]) == 0 && looked_up->release(given[1]) == 0 &&
	      by_driver->release(given[2]) == 0 && in_data.release(given[3]) == 0, "free");
}

/* Ends while it is attached: HOW is "_exit" or "return". */
static void ends(const char *how)
{
	CUdeviceptr during[4];

	check(attach(settings) == 0, "attach");
	by_each_way(2000, during);
	check(cuMemFree_v2(during[0]) == 0, "free");
	if (strcmp(how, "_exit") == 0)
		_exit(3);
}

static void routes(void)
{
	CUdeviceptr before[4], during[4], after[4];
	struct table fresh = *looked_up, now;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	by_each_way(1000, before);
	check(attach(settings) == 0, "attach");
	check(attach(settings) != 0, "a second attach is refused");
	by_each_way(2000, during);
	free_each(before);
	now.allocate = (allocate *)look(driver, "cuMemAlloc_v2"); /* as in a preload */
	check(now.allocate != fresh.allocate, "a lookup gives the wrapper");
	check(now.allocate == looked_up->allocate, "the table has the wrapper");
	check(detach() == 0, "detach");
	check(detach() != 0, "a second detach is refused");
	check(memcmp(looked_up, &fresh, sizeof(fresh)) == 0 && in_data.allocate == fresh.allocate,
	      "the words are back");
	check((allocate *)look(driver, "cuMemAlloc_v2") == fresh.allocate, "so are lookups");
	by_each_way(3000, after);
	free_each(during);
	free_each(after);
	puts("done");
}

/* Lets clone() fail with EAGAIN for a child that shares the memory and is waited for: such a child
 * changes words. */
static void refuse_child(void)
{
	struct sock_filter rows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLONE_VM | CLONE_VFORK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { ARRAY(rows), rows };

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
	check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
		      &filter) == 0, "a filter of system calls");
}

static void limited(const char *when)
{
	const bool at_end = strcmp(when, "detach") == 0;
	const struct table fresh = *looked_up;
	CUdeviceptr given[4];

	if (!at_end)
		refuse_child();
	check(attach(settings) == 0, "attach");
	check(at_end == (looked_up->allocate != fresh.allocate), "the word in anonymous memory");
	by_each_way(2000, given);
	if (at_end)
		refuse_child();
	check(detach() == 0, "detach");
	check(at_end == (looked_up->allocate != fresh.allocate), "the word after the end");
	by_each_way(3000, given);
	puts("done");
}

/* ---- modules ---- */

struct module {
	void (*fill)(allocate *, get_proc *);
	int (*count)(const void *);
	void (*allocate)(size_t, CUdeviceptr[4]);
	void (*first_call)(size_t);
};

/* Opens the library at PATH. What it looks up comes from DRIVER. */
static struct module open_module(const char *path, void *driver)
{
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	struct module ret;

	check(handle != NULL, path);
	ret.fill = (void (*)(allocate *, get_proc *))dlsym(handle, "module_fill");
	ret.count = (int (*)(const void *))dlsym(handle, "module_count");
	ret.allocate = (void (*)(size_t, CUdeviceptr[4]))dlsym(handle, "module_allocate");
	ret.first_call = (void (*)(size_t))dlsym(handle, "module_first_call");
	check(ret.fill && ret.count && ret.allocate && ret.first_call, "its functions");
	ret.fill((allocate *)look(driver, "cuMemAlloc_v2"),
		 (get_proc *)look(driver, "cuGetProcAddress_v2"));
	return ret;
}

static void modules(const char *path, const char *later)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	const void *real = look(driver, "cuMemAlloc_v2");
	struct module before = open_module(path, driver), meanwhile;
	CUdeviceptr given[4];
	int words = before.count(real);

	check(words > 1000, "words hold the driver's address");
	check(attach(settings) == 0, "attach");
	check(before.count(real) == 0, "no word holds it while it is attached");
	meanwhile = open_module(later, driver);
	before.allocate(2000, given);
	meanwhile.allocate(3000, given);
	meanwhile.first_call(4000);
	check(detach() == 0, "detach");
	check(before.count(real) == words && meanwhile.count(real) == words, "the words are back");
	before.allocate(5000, given);
	meanwhile.allocate(6000, given);
	before.first_call(7000);
	puts("done");
}

/* ---- prepared ---- */

/* Allocates by each way for each byte of the input, the first time before any input. */
static void allocate_when_asked(void)
{
	CUdeviceptr given[4];
	size_t bytes = 1000;
	char byte;

	do {
		by_each_way(bytes, given);
		printf("%zu\n", bytes);
		fflush(stdout);
		bytes += 1000;
	} while (read(0, &byte, 1) == 1);
}

/* ---- count ---- */

/* Runs a pair by each way between two stops, so that the parent can count its instructions. */
static void counted(void)
{
	CUdeviceptr given[4];

	by_each_way(1000, given); /* binds what is bound at the first call */
	free_each(given);
	raise(SIGSTOP);
	by_each_way(1000, given);
	free_each(given);
	raise(SIGSTOP);
}

static void count_below(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	counted();
	check(attach(settings) == 0, "attach");
	counted();
	check(detach() == 0, "detach");
	counted();
	exit(0);
}

/* Prints the instructions of the pairs before, during and after the attachment of the child. */
static void count(pid_t child)
{
	long number[6] = { 0 };
	int status, stops = 0;

	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		stops += WSTOPSIG(status) == SIGSTOP;
		number[stops - 1 > 5 ? 5 : stops - 1]++;
		ptrace(stops % 2 ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL);
	}
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0 && stops == 6, "the child");
	printf("%ld %ld %ld\n", number[0], number[2], number[4]);
}

/* ---- rounds ---- */

static atomic_bool stop;
static _Atomic uint64_t allocated, freed, forked, opened, captured, unmapped, slept_short;
static CUdeviceptr kept_block;

static void alloc_and_free(int times)
{
	for (int i = 0; i < times; i++) {
		CUdeviceptr given[4];

		by_each_way(4096, given);
		allocated += 4;
		cuMemsetD8Async(given[0], 1, 16, NULL);
		free_each(given);
		freed += 4;
	}
}

static void fork_once(void)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		CUdeviceptr given;

		cuMemAlloc_v2(&given, 512); /* no driver works in a forked child */
		looked_up->allocate(&given, 512);
		_exit(7);
	}
	check(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	      WEXITSTATUS(status) == 7, "a forked child");
	forked++;
}

static void open_once(void)
{
	void *handle = dlopen("libm.so.6", RTLD_NOW), *other = dlopen(getenv("PLUGIN"), RTLD_NOW);

	check(handle && dlsym(handle, "cos"), "dlopen");
	check(!getenv("PLUGIN") || other, "dlopen of the plugin");
	if (other)
		dlclose(other);
	dlclose(handle);
	opened++;
}

static void capture_once(void)
{
	void *stream, *graph = NULL;

	check(cuStreamCreate(&stream, 1) == 0 &&
	      cuStreamBeginCapture_v2(stream, CAPTURE_THREAD_LOCAL) == 0, "capture");
	check(cuMemsetD8Async(kept_block, 1, 16, stream) == 0, "a captured call");
	check(cuStreamEndCapture(stream, &graph) == 0 && graph, "end of the capture");
	check(cuGraphDestroy(graph) == 0 && cuStreamDestroy_v2(stream) == 0, "destroy");
	captured++;
}

/* Unmaps memory that has words of the search. */
static void unmap_once(void)
{
	const size_t bytes = 1 << 20, words = bytes / sizeof(uintptr_t);
	uintptr_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);

	check(memory != MAP_FAILED, "mmap");
	for (size_t i = 0; i < words; i += 64)
		memory[i] = (uintptr_t)looked_up->allocate;
	nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	munmap(memory, bytes);
	unmapped++;
}

static void *work(void *data)
{
	uintptr_t number = (uintptr_t)data;
	const struct timespec nap = { .tv_nsec = 300000 };

	check(cuCtxSetCurrent(context) == 0, "context of a thread");
	while (!stop) {
		alloc_and_free(10);
		if (number == 0)
			fork_once();
		if (number == 1)
			open_once();
		if (number == 2)
			unmap_once();
		if (number == 3)
			capture_once();
		if (nanosleep(&nap, NULL) != 0)
			slept_short++;
	}
	return NULL;
}

static void rounds(unsigned int count)
{
	pthread_t threads[THREADS];
	CUdeviceptr given[4];

	check(cuMemAlloc_v2(&kept_block, 16) == 0, "a block");
	for (uintptr_t i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "thread");
	for (unsigned int i = 0; i < count; i++) {
		int r = attach(settings);

		if (r)
			fprintf(stderr, "attach: %d\n", r);
		check(r == 0, "attach");
		by_each_way(4096, given);
		free_each(given);
		r = detach();
		if (r)
			fprintf(stderr, "detach: %d\n", r);
		check(r == 0, "detach");
	}
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	check(allocated == freed, "counts");
	check(slept_short == 0, "a sleep ended early");
	printf("done %u rounds, %s\n", count,
	       forked && opened && captured && unmapped ? "forked, opened, captured and unmapped"
							: "too short");
	fprintf(stderr, "%lu pairs, %lu forks, %lu opened, %lu captured, %lu unmapped\n",
		(unsigned long)freed, (unsigned long)forked, (unsigned long)opened,
		(unsigned long)captured, (unsigned long)unmapped);
}

int main(int argc, char **argv)
{
	void *library;
	pid_t child;

	check(argc > 3, "arguments");
	if (strcmp(argv[3], "count") == 0 && (child = fork()) > 0) {
		count(child);
		return 0;
	}
	check(cuInit(0) == 0 && cuCtxCreate_v2(&context, 0, 0) == 0, "context");
	snprintf(settings, sizeof(settings), "GPULEAK_LEDGER=%s\nGPULEAK_REPORT=none\n", argv[2]);
	fill_tables();
	if (strcmp(argv[3], "prepared") == 0) {
		allocate_when_asked();
		return 0;
	}
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	check(library != NULL, dlerror());
	attach = (int (*)(const char *))dlsym(library, "gpuleak_attach");
	detach = (int (*)(void))dlsym(library, "gpuleak_detach");
	check(attach && detach, "functions");
	if (strcmp(argv[3], "routes") == 0)
		routes();
	else if (strcmp(argv[3], "modules") == 0)
		modules(argv[4], argv[5]);
	else if (strcmp(argv[3], "count") == 0)
		count_below();
	else if (strcmp(argv[3], "limited") == 0)
		limited(argv[4]);
	else if (strcmp(argv[3], "ends") == 0)
		ends(argv[4]);
	else
		rounds(argc > 4 ? (unsigned int)atoi(argv[4]) : 100);
	return 0;
}
