/* SPDX-License-Identifier: MIT
 *
 * Chooses a thread that can be borrowed: one in a system call in which threads wait without
 * libc's locks, otherwise one in code that is neither libc's nor the loader's nor an allocator's.
 * This thread creates another one, which makes the call and needs no tracer. A child process
 * traces: a thread that does not stop in time goes on when that child ends.
 */
#include "tools/attach/inject.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "report/util/path.h"
#include "tools/attach/remote.h"
#include "tools/attach/stub.h"
#include "tools/attach/tracee.h"
#include "tools/launch/process.h"

#define TRY_MS 3000
#define LATE_MS 15000 /* if threads do not stop in time */
#define PAUSE_NS 10000000
#define RESULT_NS 500000
#define RESULT_MS 60000 /* a process with much memory takes seconds */
#define RANKS 3
#define HEADERS_MAX 64
#define ROOM_BYTES ((STUB_CODE_BYTES + sizeof(struct stub_room) + 4095) & ~(size_t)4095)
#define ROOM(field) (room + STUB_CODE_BYTES + offsetof(struct stub_room, field))

/* ---- code of the process ---- */

/* Unused memory behind the code of a library, in its last page: nothing is executed or read behind
 * what the library's headers describe. */
struct padding {
	int pid;
	uint64_t library; /* start of the last one that was seen */
	uint64_t at;      /* a multiple of 64; 0: none */
	size_t bytes;
};

static bool look_for_padding(const struct maps_line *mapping, void *data)
{
	struct padding *best = data;
	Elf64_Ehdr head;
	Elf64_Phdr part;
	uint64_t at;

	if (!mapping->offset)
		best->library = mapping->start;
	if (*mapping->path != '/' || strcmp(mapping->rights, "r-xp") != 0 ||
	    !remote_read(best->pid, best->library, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return true;
	for (unsigned int i = 0; i < head.e_phnum && i < HEADERS_MAX; i++) {
		at = best->library + head.e_phoff + i * sizeof(part);
		if (!remote_read(best->pid, at, &part, sizeof(part)))
			return true;
		at = (head.e_type == ET_EXEC ? 0 : best->library) + part.p_vaddr + part.p_filesz;
		at = (at + 63) & ~(uint64_t)63;
		if (part.p_type == PT_LOAD && (part.p_flags & PF_X) && at > mapping->start &&
		    at < mapping->end && mapping->end - at > best->bytes) {
			best->at = at;
			best->bytes = mapping->end - at;
		}
	}
	return true;
}

/* Stores the address of a function of libc in FIELD of the room, which has the type of a pointer.
 * Before version 2.34 of glibc, dlopen() is in a library of its own. */
static bool set_function(int pid, const char *prefix, const char *name, void *field)
{
	char library[PATH_MAX];
	uint64_t at = remote_find(pid, prefix, name, library);

	if (!at && prefix)
		at = remote_find(pid, "libdl.so", name, library);
	memcpy(field, &at, sizeof(at));
	return at != 0;
}

/* Threads are created by the function that the program itself would reach, because a sanitizer
 * must know its threads. */
static bool set_functions(int pid, struct stub_room *room)
{
	return set_function(pid, "libc.so", "__errno_location", &room->errno_location) &&
	       set_function(pid, NULL, "pthread_create", &room->create) &&
	       set_function(pid, NULL, "pthread_detach", &room->detach) &&
	       set_function(pid, "libc.so", "dlopen", &room->open) &&
	       set_function(pid, "libc.so", "dlsym", &room->look_up) &&
	       set_function(pid, "libc.so", "dlerror", &room->error_text) &&
	       set_function(pid, "libc.so", "usleep", &room->nap) &&
	       set_function(pid, "libc.so", "munmap", &room->unmap);
}

/* ---- the thread that is borrowed ---- */

struct lender {
	int pid;
	pid_t tid;
	long number; /* system call; -1: the thread runs */
	uint64_t pc; /* the address behind it */
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

/* Returns how well a thread in system call NUMBER can be borrowed; 0 is best. */
static int rank_of(long number)
{
	for (size_t i = 0; i < sizeof(waiting_calls) / sizeof(waiting_calls[0]); i++)
		if (waiting_calls[i] == number)
			return 0;
	return number == SYS_futex || number == SYS_read ? 1 : number < 0 ? 2 : RANKS;
}

/* Reads from /proc which system call the thread is in. */
static void read_lender(int pid, pid_t tid, struct lender *ret)
{
	char path[64], text[256];
	unsigned long stack, pc;
	long number;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, (int)tid);
	file_head(path, text, sizeof(text));
	*ret = (struct lender){ .pid = pid, .tid = tid, .number = -1 };
	if (sscanf(text, "%ld 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%lx 0x%lx", &number, &stack,
		   &pc) == 3)
		*ret = (struct lender){ pid, tid, number, pc };
}

/* Returns true if NAME is a library whose code may hold a lock that pthread_create() takes. */
static bool is_locking(int pid, const char *name)
{
	static const char *const prefixes[] = { "ld-", "libc.so", "libc-", "libpthread", "libdl" };
	static char allocator[PATH_MAX];

	if (!allocator[0])
		remote_find(pid, NULL, "malloc", allocator);
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return strstr(name, "malloc") || strcmp(name, path_last(allocator)) == 0;
}

struct code_search {
	int pid;
	uint64_t pc;
	bool is_free;
};

static bool look_at_code(const struct maps_line *mapping, void *data)
{
	struct code_search *search = data;
	bool found = search->pc >= mapping->start && search->pc < mapping->end;

	if (found)
		search->is_free = *mapping->path != '/' ||
				  !is_locking(search->pid, path_last(mapping->path));
	return !found;
}

/* Returns true if a signal waits that the thread does not block: then an EINTR is the signal's. */
static bool has_signal(const struct lender *lender)
{
	char path[64], text[4096];
	unsigned long long own = 0, shared = 0, blocked = 0;
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", lender->pid, (int)lender->tid);
	file_head(path, text, sizeof(text));
	at = strstr(text, "SigPnd:");
	return at && sscanf(at, "SigPnd: %llx ShdPnd: %llx SigBlk: %llx", &own, &shared,
			    &blocked) == 3 && ((own | shared) & ~blocked);
}

/* Returns true if the stopped thread may be interrupted for pthread_create(). */
static bool is_free(const struct lender *lender, struct tracee *t)
{
	struct code_search search = { lender->pid, tracee_pc(t), false };

	if (lender->number < 0) {
		process_each_mapping("/proc", lender->pid, look_at_code, &search);
		return search.is_free;
	}
	return tracee_is_in(t, lender->number, lender->pc);
}

/* Makes the call again that the stop has ended. It may be another call than read_lender() saw, or
 * the thread ran then. After EINTR, close() and connect() cannot be repeated. */
static void hide_stop(const struct lender *lender, struct tracee *t)
{
	const long number = tracee_interrupted(t);

	if (number >= 0 && number != SYS_close && number != SYS_connect && !has_signal(lender))
		tracee_repeat(t);
}

/* Stops the first thread of rank RANK that can be borrowed. Returns WORST or a worse result if none
 * can be. */
static enum tracee_result borrow(int pid, int rank, enum tracee_result worst, struct tracee *t,
				 bool *ret_in_syscall)
{
	enum tracee_result r;
	char path[64];
	bool fits;
	struct lender lender;
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	AT_END(close_folder) DIR *dir = opendir(path);
	while (dir && worst != TRACEE_STOPPED && (entry = readdir(dir)) != NULL) {
		read_lender(pid, atoi(entry->d_name), &lender);
		if (entry->d_name[0] == '.' || rank_of(lender.number) != rank)
			continue;
		*ret_in_syscall = lender.number >= 0;
		r = tracee_stop(t, lender.tid);
		fits = r == TRACEE_OK && is_free(&lender, t);
		if (r == TRACEE_OK)
			hide_stop(&lender, t);
		if (fits)
			return r;
		if (r == TRACEE_OK)
			r = tracee_release(t) ? TRACEE_BUSY : TRACEE_GONE;
		worst = r > worst ? r : worst;
	}
	return worst;
}

static enum tracee_result borrow_any(int pid, struct tracee *t, bool *ret_in_syscall)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	const long long began = clock_ms();
	enum tracee_result r;

	do {
		r = TRACEE_GONE;
		for (int rank = 0; rank < RANKS && r != TRACEE_STOPPED && r != TRACEE_OK; rank++)
			r = borrow(pid, rank, r, t, ret_in_syscall);
		if (r == TRACEE_OK || r == TRACEE_STOPPED)
			return r;
		nanosleep(&pause, NULL);
	} while (process_runs(pid, 0) &&
		 clock_ms() - began < (r == TRACEE_LATE ? LATE_MS : TRY_MS));
	errno = EPERM; /* for TRACEE_REFUSED */
	return process_runs(pid, 0) ? r : TRACEE_GONE;
}

/* ---- the call ---- */

static const char *result_text(enum tracee_result r)
{
	static const char *const texts[] = {
		[TRACEE_BUSY] = "no thread of the process could be stopped outside of libc and the "
				"loader for 3 seconds; try again",
		[TRACEE_LATE] = "a thread of the process did not stop for 15 seconds: the machine "
				"is overloaded, or a device does not answer; try again",
		[TRACEE_GONE] = "the process ended",
		[TRACEE_STOPPED] = "the process is stopped by a signal; continue it with kill "
				   "-CONT",
		[TRACEE_CRASHED] = "a call in the process caused a signal",
		[TRACEE_REFUSED] = NULL,
	};

	return texts[r] ? texts[r] : strerror(errno);
}

/* Maps the room, and its code in a page of its own. *RET gets the address. */
static enum tracee_result map_room(struct tracee *t, uint64_t *ret)
{
	uint64_t arguments[6] = { 0, ROOM_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0 };
	enum tracee_result r = tracee_syscall(t, SYS_mmap, arguments, ret);
	uint64_t code = *ret;

	if (r == TRACEE_OK && !(code & 4095)) { /* otherwise an error */
		arguments[0] = *ret;
		arguments[1] = STUB_CODE_BYTES;
		arguments[2] = PROT_READ | PROT_EXEC;
		arguments[3] |= MAP_FIXED;
		r = tracee_syscall(t, SYS_mmap, arguments, &code);
	}
	if (r != TRACEE_OK || (code == *ret && code && !(code & 4095)))
		return r;
	errno = code > (uint64_t)-4096 ? (int)-code : ENOSYS;
	return TRACEE_REFUSED;
}

static uint64_t address_of(uint64_t room, const void *code)
{
	return room + (uint64_t)((const char *)code - __start_gpuleak_stub);
}

/* Copies code and data to the process. */
static bool fill_room(const struct tracee *t, uint64_t room, struct stub_room *data)
{
	data->mapping = room;
	data->bytes = ROOM_BYTES;
	data->start = (void *)(uintptr_t)address_of(room, (const void *)stub_thread);
	data->stack_of_frame = ROOM(frame) + TRACEE_FRAME_SP;
	tracee_frame(t, ROOM(frame), true, data->frame);
	return remote_write(t->tid, room + STUB_CODE_BYTES, data,
			    offsetof(struct stub_room, stack)) &&
	       tracee_poke(t, room, __start_gpuleak_stub,
			   (size_t)(__stop_gpuleak_stub - __start_gpuleak_stub));
}

/* What the child process of inject() stores for its parent. */
struct borrowing {
	uint64_t room;    /* 0: there is none */
	bool is_released; /* the borrowed thread does not use the room */
	char error[sizeof(((struct injected *)0)->error)]; /* "": the new thread exists */
};

static void failed(char *error, const char *what, enum tracee_result r)
{
	snprintf(error, sizeof(((struct injected *)0)->error), "%s%s", what, result_text(r));
}

/* Maps the room and fills it. */
static enum tracee_result make_room(struct tracee *t, bool in_syscall, struct stub_room *data,
				    uint64_t *ret)
{
	struct padding padding = { .pid = t->tid };
	enum tracee_result r;

	process_each_mapping("/proc", t->tid, look_for_padding, &padding);
	if (!tracee_set_pad(t, padding.at, padding.bytes, !in_syscall))
		return TRACEE_REFUSED;
	r = map_room(t, ret);
	return r != TRACEE_OK || fill_room(t, *ret, data) ? r : TRACEE_REFUSED;
}

/* Lets the borrowed thread create the new one. If pthread_create() fails, *RET_CREATED is not 0. */
static enum tracee_result create_thread(struct tracee *t, uint64_t room, int *ret_created)
{
	enum tracee_result r = tracee_run(t, address_of(room, (const void *)stub_borrow),
					  ROOM(stack) + STUB_STACK_BYTES - sizeof(uint64_t),
					  room + STUB_CODE_BYTES);

	*ret_created = 0;
	if (r == TRACEE_OK)
		remote_read(t->tid, ROOM(created), ret_created, sizeof(*ret_created));
	errno = *ret_created ? *ret_created : errno;
	return *ret_created ? TRACEE_REFUSED : r;
}

/* Borrows a thread, and creates the new one, which uses the room. */
static void enter(int pid, struct stub_room *data, struct borrowing *ret)
{
	static struct tracee t; /* large */
	char error[sizeof(ret->error)] = "";
	int created = 1; /* not 0: no thread was created */
	bool in_syscall = false;
	enum tracee_result r = borrow_any(pid, &t, &in_syscall);

	if (r != TRACEE_OK) {
		failed(ret->error, "", r);
		return;
	}
	r = make_room(&t, in_syscall, data, &ret->room);
	if (r == TRACEE_OK)
		r = create_thread(&t, ret->room, &created);
	if (r == TRACEE_LATE)
		strcpy(error, "a call in the process has taken 5 seconds; nothing is recorded");
	else if (r != TRACEE_OK)
		failed(error, "the process can map no memory, or start no thread: ", r);
	if (ret->room && created) {
		tracee_syscall(&t, SYS_munmap, (const uint64_t[6]){ ret->room, ROOM_BYTES },
			       &ret->room);
		ret->room = 0;
	}
	ret->is_released = tracee_release(&t);
	strcpy(ret->error, error);
}

/* ---- the command ---- */

/* Waits until the new thread has called the function. */
static void wait_for_result(const struct injection *injection, uint64_t room, struct injected *ret)
{
	const struct timespec pause = { .tv_nsec = RESULT_NS };
	const long long until = clock_ms() + (injection->wait_ms ? injection->wait_ms : RESULT_MS);
	uint32_t state = STUB_BEGINS;

	while (state == STUB_BEGINS && clock_ms() < until) {
		nanosleep(&pause, NULL);
		if (!remote_read(injection->pid, ROOM(state), &state, sizeof(state))) {
			failed(ret->error, "", TRACEE_GONE);
			return;
		}
	}
	ret->is_late = state == STUB_BEGINS;
	if (ret->is_late)
		strcpy(ret->error, "a call in the process has not returned in time, perhaps "
				   "because another thread holds the loader's lock; nothing is "
				   "recorded");
	if (state == STUB_FAILED) {
		strcpy(ret->error, "the process cannot load the library: ");
		remote_read(injection->pid, ROOM(error), ret->error + strlen(ret->error),
			    sizeof(((struct stub_room *)0)->error));
	}
	if (state == STUB_DONE &&
	    !remote_read(injection->pid, ROOM(result), &ret->result, sizeof(ret->result)))
		failed(ret->error, "", TRACEE_GONE);
}

/* Makes a child process that traces, so that nothing stays traced when it ends. */
static void enter_by_child(int pid, struct stub_room *data, struct borrowing *ret)
{
	pid_t child = fork();

	if (child == 0) {
		setsid(); /* a terminal's signals do not reach it */
		enter(pid, data, ret);
		_exit(0);
	}
	if (child < 0)
		failed(ret->error, "cannot start a process that attaches: ", TRACEE_REFUSED);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

bool inject(const struct injection *injection, struct injected *ret)
{
	static struct stub_room data; /* large */
	struct borrowing *borrowed = mmap(NULL, sizeof(*borrowed), PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char library[PATH_MAX];
	uint32_t state;
	uint64_t room;

	*ret = (struct injected){ .error = "the process has no dlopen() and pthread_create() of "
					   "glibc" };
	if (borrowed == MAP_FAILED)
		failed(ret->error, "", TRACEE_REFUSED);
	if (borrowed == MAP_FAILED || !set_functions(injection->pid, &data))
		return false;
	data.function = (int (*)(const char *))(uintptr_t)remote_find(
		injection->pid, "libgpuleak.so", injection->function, library);
	snprintf(data.name, sizeof(data.name), "%s", injection->function);
	snprintf(data.library, sizeof(data.library), "%s", injection->library);
	snprintf(data.text, sizeof(data.text), "%s", injection->text);
	strcpy(borrowed->error, "the process that should attach ended");
	enter_by_child(injection->pid, &data, borrowed);
	strcpy(ret->error, borrowed->error);
	room = borrowed->room;
	if (!ret->error[0])
		wait_for_result(injection, room, ret);
	state = ret->error[0] ? STUB_CANCELLED : STUB_RELEASED;
	/* a borrowed thread that was not released may still restore itself by what is there */
	if (room && (ret->error[0] || borrowed->is_released))
		remote_write(injection->pid, ROOM(state), &state, sizeof(state));
	munmap(borrowed, sizeof(*borrowed));
	return !ret->error[0];
}
