/* SPDX-License-Identifier: MIT
 *
 * Sends the signal by which glibc itself reaches all threads (SIGSETXID, for setuid()). No thread
 * blocks it, and debuggers pass it on silently. Its handler waits. The kernel runs the handler
 * before the thread executes another instruction, so nothing waits for the threads to arrive. The
 * handler stays installed, because a thread may receive the signal late, and passes on what glibc
 * sends.
 */
#include "interpose/process/reporter.h"

#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ledger/nocancel.h"

#define PAUSE_SIGNAL 33

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

static _Atomic uint32_t paused;
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

static void signal_threads(const char *entries, long bytes, int self)
{
	siginfo_t info = { .si_signo = PAUSE_SIGNAL, .si_code = SI_QUEUE };

	info.si_value.sival_ptr = &paused;
	for (long at = 0; at < bytes;) {
		const struct kernel_dirent *entry = (const void *)(entries + at);
		int thread = number_of(entry->name);

		if (thread && thread != self)
			syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, PAUSE_SIGNAL, &info);
		at += entry->length;
	}
}

bool threads_pause(void)
{
	const struct kernel_action pause = {
		.handler = wait_until_resumed,
		.flags = FLAG_RESTORER | SA_SIGINFO | SA_RESTART | SA_ONSTACK,
		.restorer = RESTORER, .mask = ~UINT64_C(0),
	};
	char entries[4096] __attribute__((aligned(8)));
	int self = (int)syscall(SYS_gettid), fd;
	struct kernel_action present;
	KEEP_ERRNO;
	bool pauses = false;
	long bytes;

	fd = nocancel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd >= 0 && !paused &&
	    syscall(SYS_rt_sigaction, PAUSE_SIGNAL, &pause, &present, 8) == 0) {
		if (present.handler != wait_until_resumed)
			before = present;
		paused = pauses = true;
		while ((bytes = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
			signal_threads(entries, bytes, self);
	}
	if (fd >= 0)
		nocancel_close(fd);
	return pauses;
}

void threads_resume(void)
{
	KEEP_ERRNO;

	paused = 0;
	syscall(SYS_futex, &paused, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
