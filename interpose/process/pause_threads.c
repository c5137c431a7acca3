/* SPDX-License-Identifier: MIT
 *
 * Sends the signal by which glibc itself reaches all threads (SIGSETXID, for setuid()). No thread
 * blocks it, and debuggers pass it on silently. Its handler waits. The kernel runs the handler
 * before the thread executes another instruction, so nothing waits for the threads to arrive. The
 * handler stays installed, because a thread may receive the signal late, and passes on what glibc
 * sends. A signal ends a sleep of the application early, so an attachment stops only threads that
 * run, and waits until they stand.
 */
#include "interpose/process/reporter.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/base/arena.h"
#include "ledger/clock.h"
#include "ledger/nocancel.h"
#include "ledger/process_stat.h"

#define PAUSE_SIGNAL 33
#define THREAD_NUMBERS 4194304 /* the kernel's largest limit */
#define ARRIVAL_NS 2000000u    /* a thread in the kernel may need longer, and does not run */

/* As the kernel defines it. libc's sigaction() refuses this signal. */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

struct kernel_dirent {
	uint64_t inode;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

static _Atomic uint32_t paused, arrived;
static struct kernel_action before;

#if defined(__x86_64__)
#define FLAG_RESTORER 0x04000000ul
/* The kernel of this architecture needs a function that ends a handler. */
void pause_threads_return(void) __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
	".globl pause_threads_return\n"
	".hidden pause_threads_return\n"
	".type pause_threads_return, @function\n"
	"pause_threads_return:\n"
	"	movl $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	".size pause_threads_return, . - pause_threads_return\n"
	".popsection\n");
#define RESTORER pause_threads_return
#else
#define FLAG_RESTORER 0
#define RESTORER NULL
#endif

static void wait_until_resumed(int number, siginfo_t *info, void *context)
{
	KEEP_ERRNO;

	if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &paused) {
		if ((uintptr_t)before.handler > 1) /* neither SIG_DFL nor SIG_IGN */
			before.handler(number, info, context);
		return;
	}
	atomic_fetch_add(&arrived, 1);
	while (paused)
		syscall(SYS_futex, &paused, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

/* Returns the thread number that NAME is, or 0. */
static int number_of(const char *name)
{
	int number = 0;

	for (; *name >= '0' && *name <= '9' && number < INT_MAX / 10; name++)
		number = 10 * number + (*name - '0');
	return *name ? 0 : number;
}

struct pausing {
	enum pause_which which;
	uint64_t *seen; /* a bit for each thread number; NULL: each is seen once */
	uint32_t signalled;
	bool met_new;
};

/* Returns true if THREAD gets a signal. A sleeping thread may wake up meanwhile. */
static bool must_stop(struct pausing *pausing, int thread)
{
	struct process_stat stat;
	uint64_t bit = UINT64_C(1) << thread % 64;

	if (pausing->which == PAUSE_ALL)
		return true;
	if (thread >= THREAD_NUMBERS || pausing->seen[thread / 64] & bit)
		return false;
	pausing->seen[thread / 64] |= bit;
	pausing->met_new = true;
	return process_stat_read(thread, &stat) == 0 && stat.state == 'R';
}

static void signal_threads(struct pausing *pausing, const char *entries, long bytes, int self)
{
	siginfo_t info = { .si_signo = PAUSE_SIGNAL, .si_code = SI_QUEUE };

	info.si_value.sival_ptr = &paused;
	for (long at = 0; at < bytes;) {
		const struct kernel_dirent *entry = (const void *)(entries + at);
		int thread = number_of(entry->name);

		if (thread && thread != self && must_stop(pausing, thread) &&
		    syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, PAUSE_SIGNAL, &info) == 0)
			pausing->signalled++;
		at += entry->length;
	}
}

/* Signals the threads that /proc/self/task lists at FD. A running thread may make another one, so
 * the list is read again until it has no new one. */
static void signal_all(struct pausing *pausing, int fd)
{
	char entries[4096] __attribute__((aligned(8)));
	int self = (int)syscall(SYS_gettid);
	long bytes;

	do {
		pausing->met_new = false;
		syscall(SYS_lseek, fd, 0l, SEEK_SET);
		while ((bytes = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
			signal_threads(pausing, entries, bytes, self);
	} while (pausing->met_new);
}

static void wait_for_arrival(uint32_t count)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + ARRIVAL_NS;

	while (atomic_load(&arrived) < count && clock_ns(CLOCK_MONOTONIC) < until)
		syscall(SYS_sched_yield);
}

static bool install_handler(void)
{
	const struct kernel_action pause = {
		.handler = wait_until_resumed,
		.flags = FLAG_RESTORER | SA_SIGINFO | SA_RESTART | SA_ONSTACK,
		.restorer = RESTORER, .mask = ~UINT64_C(0),
	};
	struct kernel_action present;

	if (syscall(SYS_rt_sigaction, PAUSE_SIGNAL, &pause, &present, 8) != 0)
		return false;
	if (present.handler != wait_until_resumed)
		before = present;
	return true;
}

bool threads_pause(enum pause_which which)
{
	struct pausing pausing = { .which = which };
	KEEP_ERRNO;
	bool pauses = false;
	int fd;

	if (which == PAUSE_RUNNING && !(pausing.seen = pages_map(THREAD_NUMBERS / 8)))
		return false;
	fd = nocancel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd >= 0 && !paused && install_handler()) {
		arrived = 0;
		paused = pauses = true;
		signal_all(&pausing, fd);
		if (which == PAUSE_RUNNING)
			wait_for_arrival(pausing.signalled);
	}
	if (fd >= 0)
		nocancel_close(fd);
	if (pausing.seen)
		munmap(pausing.seen, THREAD_NUMBERS / 8);
	return pauses;
}

void threads_resume(void)
{
	KEEP_ERRNO;

	paused = 0;
	syscall(SYS_futex, &paused, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
