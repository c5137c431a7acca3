/* SPDX-License-Identifier: MIT
 *
 * Chooses a thread that can be borrowed: one in a system call in which threads wait without
 * libc's locks, otherwise one in code that is neither libc's nor the loader's nor an allocator's.
 * All of it runs in a child process: whatever it still traces goes on when that child ends.
 */
#include "tools/attach/inject.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ledger/clock.h"
#include "report/util/path.h"
#include "tools/attach/remote.h"
#include "tools/attach/tracee.h"
#include "tools/launch/process.h"

#define TRY_MS 3000
#define PAUSE_NS 10000000
#define THREADS_MAX 4096
#define ROOM (512 * 1024) /* for texts, and for the stack of the borrowed thread */
#define STACK_BYTES (1024 * 1024)
#define AT_ATTRIBUTES 0 /* offsets in that room */
#define AT_THREAD 512
#define AT_LIBRARY 1024
#define AT_TEXT (AT_LIBRARY + PATH_MAX)
#define SYSCALL_BYTES 96 /* of code in which the instruction is searched */

/* ---- functions of the process ---- */

struct functions {
	uint64_t trap, errno_location, attr_init, attr_detached, attr_stack, create;
	uint64_t dlopen, dlerror;
};

/* Returns the address of the instruction in libc's syscall() that calls the kernel; 0: not found.
 * Only this address is used, so no code of the process is changed. */
static uint64_t find_trap(int pid)
{
	struct remote_module libc;
	const uint64_t at = remote_find(pid, "libc.so", "syscall", &libc);
	unsigned char code[SYSCALL_BYTES];

	if (!at || !remote_read(pid, at, code, sizeof(code)))
		return 0;
	for (size_t i = 0; i + 4 <= sizeof(code); i++) {
#ifdef __x86_64__
		if (code[i] == 0x0f && code[i + 1] == 0x05)
			return at + i;
#else
		if (i % 4 == 0 && memcmp(code + i, "\x01\x00\x00\xd4", 4) == 0)
			return at + i;
#endif
	}
	return 0;
}

/* Before version 2.34 of glibc, dlopen() is in a library of its own. */
static uint64_t find_in_libc(int pid, const char *name)
{
	struct remote_module module;
	const uint64_t at = remote_find(pid, "libc.so", name, &module);

	return at ? at : remote_find(pid, "libdl.so", name, &module);
}

/* Threads are created by the function that the program itself would reach, because a sanitizer
 * must know its threads. */
static bool find_functions(int pid, struct functions *ret)
{
	struct remote_module module;

	ret->trap = find_trap(pid);
	ret->errno_location = remote_find(pid, "libc.so", "__errno_location", &module);
	ret->attr_init = remote_find(pid, NULL, "pthread_attr_init", &module);
	ret->attr_detached = remote_find(pid, NULL, "pthread_attr_setdetachstate", &module);
	ret->attr_stack = remote_find(pid, NULL, "pthread_attr_setstacksize", &module);
	ret->create = remote_find(pid, NULL, "pthread_create", &module);
	ret->dlopen = find_in_libc(pid, "dlopen");
	ret->dlerror = find_in_libc(pid, "dlerror");
	return ret->trap && ret->errno_location && ret->attr_init && ret->attr_detached &&
	       ret->attr_stack && ret->create && ret->dlopen && ret->dlerror;
}

/* Returns the address of FUNCTION in libgpuleak.so; 0: it is not loaded, or too old. */
static uint64_t find_ours(int pid, const char *function)
{
	struct remote_module module;

	return remote_find(pid, "libgpuleak.so", function, &module);
}

/* ---- the thread that is borrowed ---- */

struct lender {
	pid_t tid;
	int rank; /* 0 is best */
	long number; /* system call; -1: the thread runs */
	uint64_t first, pc; /* its first argument, and the address behind it */
};

/* Calls in which threads wait and hold no lock of libc. */
static const long waiting_calls[] = {
#ifdef SYS_poll
	SYS_poll, SYS_select, SYS_pause, SYS_epoll_wait,
#endif
	SYS_ppoll, SYS_pselect6, SYS_nanosleep, SYS_clock_nanosleep, SYS_accept, SYS_accept4,
	SYS_recvfrom, SYS_recvmsg, SYS_wait4, SYS_waitid, SYS_rt_sigsuspend, SYS_epoll_pwait,
	SYS_rt_sigtimedwait, SYS_semtimedop, SYS_msgrcv, SYS_io_getevents,
};

static int rank_of(long number)
{
	for (size_t i = 0; i < sizeof(waiting_calls) / sizeof(waiting_calls[0]); i++)
		if (waiting_calls[i] == number)
			return 0;
	return number == SYS_futex || number == SYS_read ? 1 : number < 0 ? 2 : INT_MAX;
}

/* Reads from /proc which system call the thread is in. */
static bool read_lender(int pid, pid_t tid, struct lender *ret)
{
	char path[64], text[256];
	unsigned long first, stack, pc;
	long number;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, (int)tid);
	file_head(path, text, sizeof(text));
	*ret = (struct lender){ .tid = tid, .number = -1 };
	if (sscanf(text, "%ld 0x%lx 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%lx 0x%lx", &number, &first,
		   &stack, &pc) == 4) {
		ret->number = number;
		ret->first = first;
		ret->pc = pc;
	}
	ret->rank = rank_of(ret->number);
	return ret->rank != INT_MAX;
}

static int by_rank(const void *a, const void *b)
{
	const struct lender *one = a, *other = b;

	return one->rank - other->rank;
}

/* Stores the threads that may be borrowed, best first. Returns their number. */
static size_t list_lenders(int pid, struct lender *ret)
{
	char path[64];
	struct dirent *entry;
	size_t count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && count < THREADS_MAX && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.' && read_lender(pid, atoi(entry->d_name), ret + count))
			count++;
	if (dir)
		closedir(dir);
	qsort(ret, count, sizeof(*ret), by_rank);
	return count;
}

/* Returns true if NAME is a library whose code may hold a lock that pthread_create() takes. */
static bool is_locking(int pid, const char *name)
{
	static const char *const prefixes[] = { "ld-", "libc.so", "libc-", "libpthread", "libdl" };
	static char allocator[PATH_MAX];
	static int allocator_of;
	struct remote_module module;

	if (allocator_of != pid) {
		allocator_of = pid;
		remote_find(pid, NULL, "malloc", &module);
		snprintf(allocator, sizeof(allocator), "%s", path_last(module.name));
	}
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return strstr(name, "malloc") || strcmp(name, allocator) == 0;
}

/* Returns true if the code at PC may be interrupted for pthread_create(). */
static bool is_free_code(int pid, uint64_t pc)
{
	char path[64], line[PATH_MAX + 128];
	bool found = false, is_free = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned long start, end;
		const char *name = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || pc < start || pc >= end)
			continue;
		found = true;
		is_free = !name || !is_locking(pid, path_last(name));
	}
	if (maps)
		fclose(maps);
	return is_free;
}

/* Returns true if a signal waits that the thread does not block: then an EINTR is the signal's. */
static bool has_signal(int pid, pid_t tid)
{
	char path[64], text[4096];
	unsigned long long own = 0, shared = 0, blocked = 0;
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, (int)tid);
	file_head(path, text, sizeof(text));
	at = strstr(text, "SigPnd:");
	return at && sscanf(at, "SigPnd: %llx ShdPnd: %llx SigBlk: %llx", &own, &shared,
			    &blocked) == 3 && ((own | shared) & ~blocked);
}

/* Stops the thread of LENDER. Returns TRACEE_LATE if it can't be borrowed now; then it runs. */
static enum tracee_result borrow(int pid, const struct lender *lender, struct tracee *t)
{
	enum tracee_result r = tracee_stop(t, lender->tid);
	bool is_good;

	if (r != TRACEE_OK)
		return r;
	is_good = lender->number >= 0 ? tracee_is_in(t, lender->number, lender->pc)
					 : is_free_code(pid, tracee_pc(t));
	if (lender->number >= 0 && is_good && !has_signal(pid, lender->tid))
		tracee_repeat(t, lender->pc, lender->first);
	if (is_good && tracee_save(t) == TRACEE_OK)
		return TRACEE_OK;
	tracee_release(t);
	return TRACEE_LATE;
}

/* Borrows the first thread that can be borrowed. */
static enum tracee_result borrow_any(int pid, struct tracee *t)
{
	static struct lender lenders[THREADS_MAX];
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	const long long until = clock_ms() + TRY_MS;
	enum tracee_result r = TRACEE_LATE;

	do {
		const size_t count = list_lenders(pid, lenders);

		for (size_t i = 0; i < count; i++) {
			r = borrow(pid, &lenders[i], t);
			if (r != TRACEE_LATE && r != TRACEE_GONE)
				return r;
		}
		nanosleep(&pause, NULL);
	} while (clock_ms() < until && process_runs(pid, 0));
	return process_runs(pid, 0) ? TRACEE_LATE : TRACEE_GONE;
}

/* ---- calls ---- */

static const char *result_text(enum tracee_result r)
{
	switch (r) {
	case TRACEE_LATE:
		return "no thread of the process could be stopped outside of libc and the loader "
		       "for 3 seconds; try again";
	case TRACEE_GONE:
		return "the process ended";
	case TRACEE_STOPPED:
		return "the process is stopped by a signal; continue it with kill -CONT";
	case TRACEE_CRASHED:
		return "a call in the process caused a signal";
	case TRACEE_REFUSED:
	case TRACEE_OK:
		break;
	}
	return strerror(errno);
}

static int outcome_fd = -1;
static struct injected outcome;

static void send_outcome(void)
{
	if (outcome_fd >= 0 && write(outcome_fd, &outcome, sizeof(outcome)) < 0)
		return; /* the command has ended */
	close(outcome_fd);
	outcome_fd = -1;
}

static void late(void)
{
	outcome.is_late = true;
	snprintf(outcome.error, sizeof(outcome.error),
		 "a call in the process has not returned for 5 seconds, perhaps because another "
		 "thread holds the loader's lock; the call ends when that thread lets go");
	send_outcome();
}

static bool failed(const char *what, enum tracee_result r)
{
	snprintf(outcome.error, sizeof(outcome.error), "%s%s", what, result_text(r));
	return false;
}

/* Maps memory in the process. *RET gets its address. */
static enum tracee_result map_room(struct tracee *t, uint64_t *ret)
{
	const uint64_t arguments[6] = { 0, ROOM, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0 };
	enum tracee_result r = tracee_syscall(t, SYS_mmap, arguments, ret);

	if (r != TRACEE_OK || (*ret && *ret % 4096 == 0 && *ret < (uint64_t)-4096))
		return r;
	errno = *ret > (uint64_t)-4096 ? (int)-*ret : ENOSYS;
	return TRACEE_REFUSED;
}

/* Makes the borrowed thread create another one, which begins at the trap. */
static enum tracee_result create_thread(struct tracee *t, const struct functions *f, uint64_t room)
{
	const struct {
		uint64_t function, arguments[4];
	} calls[] = {
		{ f->attr_init, { room + AT_ATTRIBUTES } },
		{ f->attr_detached, { room + AT_ATTRIBUTES, PTHREAD_CREATE_DETACHED } },
		{ f->attr_stack, { room + AT_ATTRIBUTES, STACK_BYTES } },
		{ f->create, { room + AT_THREAD, room + AT_ATTRIBUTES, f->trap, 0 } },
	};
	const uint64_t none[4] = { 0 };
	uint64_t errno_at, result = 0;
	enum tracee_result r = tracee_call(t, f->errno_location, none, room + ROOM, &errno_at);
	int error;
	bool has_error = r == TRACEE_OK && remote_read(t->tid, errno_at, &error, sizeof(error));

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && r == TRACEE_OK && !result; i++)
		r = tracee_call(t, calls[i].function, calls[i].arguments, room + ROOM, &result);
	if (has_error)
		remote_write(t->tid, errno_at, &error, sizeof(error));
	errno = (int)result;
	return r == TRACEE_OK && (int)result ? TRACEE_REFUSED : r;
}

/* Loads the library by the new thread T. */
static bool load(struct tracee *t, const struct functions *f, const char *path, uint64_t room)
{
	const uint64_t arguments[4] = { room + AT_LIBRARY, RTLD_NOW | RTLD_LOCAL };
	enum tracee_result r;
	uint64_t handle, text = 0;
	char words[300] = "";

	if (!remote_write(t->tid, room + AT_LIBRARY, path, strlen(path) + 1))
		return failed("writing to the process failed: ", TRACEE_REFUSED);
	r = tracee_call(t, f->dlopen, arguments, 0, &handle);
	if (r == TRACEE_OK && handle)
		return true;
	if (r == TRACEE_OK)
		r = tracee_call(t, f->dlerror, arguments, 0, &text);
	if (r != TRACEE_OK)
		return failed("loading the library failed: ", r);
	for (size_t i = 0; text && i + 1 < sizeof(words); i++)
		if (!remote_read(t->tid, text + i, words + i, 1) || !words[i])
			break;
	snprintf(outcome.error, sizeof(outcome.error), "the process cannot load the library: %s",
		 words);
	return false;
}

/* Calls the function by the new thread T. */
static bool call(struct tracee *t, const struct injection *injection, const struct functions *f,
		 uint64_t room)
{
	const char *text = injection->text;
	const uint64_t arguments[4] = { text ? room + AT_TEXT : 0 };
	uint64_t function = find_ours(injection->pid, injection->function), result;
	enum tracee_result r;

	if (!function && injection->library) {
		if (!load(t, f, injection->library, room))
			return false;
		function = find_ours(injection->pid, injection->function);
	}
	if (!function) {
		snprintf(outcome.error, sizeof(outcome.error), "the libgpuleak.so in the process "
			 "has no function %s: it is of another version", injection->function);
		return false;
	}
	if (text && !remote_write(t->tid, room + AT_TEXT, text, strlen(text) + 1))
		return failed("writing to the process failed: ", TRACEE_REFUSED);
	r = tracee_call(t, function, arguments, 0, &result);
	outcome.result = (int)result;
	return r == TRACEE_OK || failed("", r);
}

/* Borrows a thread and creates the new one, T. */
static bool enter(int pid, const struct functions *f, struct tracee *t, uint64_t *ret_room)
{
	static struct tracee borrowed; /* large */
	enum tracee_result r;
	uint64_t began;

	borrowed.trap = t->trap = f->trap;
	borrowed.late = t->late = late;
	r = borrow_any(pid, &borrowed);
	if (r != TRACEE_OK)
		return failed("", r);
	began = clock_ns(CLOCK_MONOTONIC);
	r = map_room(&borrowed, ret_room);
	if (r == TRACEE_OK)
		r = create_thread(&borrowed, f, *ret_room);
	if (r != TRACEE_OK)
		failed("a call in the process failed: ", r);
	tracee_release(&borrowed);
	outcome.borrowed_us = (int)((clock_ns(CLOCK_MONOTONIC) - began) / 1000);
	if (r == TRACEE_OK)
		r = borrowed.child ? tracee_begin(t, borrowed.child) : TRACEE_GONE;
	return r == TRACEE_OK || (!outcome.error[0] && failed("", r));
}

static void inject_here(const struct injection *injection)
{
	static struct tracee t; /* large */
	uint64_t room, ignored;
	struct functions f;

	if (!find_functions(injection->pid, &f)) {
		snprintf(outcome.error, sizeof(outcome.error),
			 "the process has no dlopen() and pthread_create() of glibc");
		return;
	}
	if (!enter(injection->pid, &f, &t, &room))
		return;
	call(&t, injection, &f, room);
	tracee_syscall(&t, SYS_munmap, (const uint64_t[6]){ room, ROOM }, &ignored);
	tracee_release(&t);
}

bool inject(const struct injection *injection, struct injected *ret)
{
	int ends[2];
	pid_t child;

	*ret = (struct injected){ .error = "the process that should attach ended" };
	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	child = fork();
	if (child == 0) {
		sigset_t all;

		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		outcome_fd = ends[1];
		inject_here(injection);
		send_outcome();
		_exit(0);
	}
	close(ends[1]);
	if (child > 0 && read(ends[0], ret, sizeof(*ret)) != (ssize_t)sizeof(*ret))
		snprintf(ret->error, sizeof(ret->error), "the process that should attach ended");
	close(ends[0]);
	if (child > 0 && !ret->is_late)
		waitpid(child, NULL, 0);
	return !ret->error[0];
}
