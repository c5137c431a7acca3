/* SPDX-License-Identifier: MIT
 *
 * Makes the recorder at the first GPU call, keeps it apart from forked children, and lets
 * threads in one at a time each. Owns where the ledger goes and what its header says of
 * the process; must not decide when to report (exit.c).
 */
#include "interpose/recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/base/own_stack.h"
#include "interpose/base/config.h"
#include "interpose/block/lsan_suppressions.h"
#include "ledger/nocancel.h"
#include "ledger/pattern.h"
#include "ledger/directory.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/process/rank.h"
#include "ledger/roster.h"
#include "interpose/process/signals.h"
#include "interpose/stack/unwinder.h"

/* A limit on address space that leaves less than this is left to the application: nothing is
 * recorded. Where it leaves more, the first call takes at most about a quarter of that. */
#define ADDRESS_SPACE_MIN ((uint64_t)16 << 20)
#define STRIPES_SHARE 32u /* the part of it for stripes, of which two are the least */

__thread struct thread thread_self;

struct recorder_page *recorder_page READ_BY_ALL;
#define STOPPED_NAPS 7u
static struct recorder_page fallback_page; /* if a page can't be had: then atfork wipes */
static uint32_t generations;
static struct roster *roster; /* NULL: this is no process of `gpuleak run` */
void (*recorder_made)(struct recorder *recorder);

static void wipe_after_fork(void)
{
	memset(recorder_page, 0, sizeof(*recorder_page));
}

void recorder_start(void)
{
	void *memory;

	if (recorder_page)
		return;
	config_read();
	rank_read();
	atomic_store(&pool_on, config.pool != OPTION_POOL_OFF);
	limits_start();
	roster = roster_join(config_roster);
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || madvise(memory, 4096, MADV_WIPEONFORK) < 0) {
		memory = &fallback_page;
		pthread_atfork(NULL, NULL, wipe_after_fork);
	}
	recorder_page = memory;
}

static size_t read_file(const char *path, char *ret, size_t size)
{
	int fd = nocancel_open(path, O_RDONLY | O_CLOEXEC, 0);
	size_t length = 0;
	ssize_t n;

	if (fd < 0)
		return 0;
	while (length < size && (n = nocancel_read(fd, ret + length, size - length)) > 0)
		length += (size_t)n;
	nocancel_close(fd);
	return length;
}

/* Field 22 of /proc/self/stat; the program name in field 2 may hold anything. */
static uint64_t start_ticks(void)
{
	char text[1024];
	size_t length = read_file("/proc/self/stat", text, sizeof(text) - 1);
	char *at;

	text[length] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct identity {
	char host[256];
	char exe[PATH_MAX];
	char cwd[PATH_MAX];
	char command[LEDGER_STRING_MAX];
	size_t command_length;
};

static void read_identity(struct identity *ret)
{
	ssize_t n = readlink("/proc/self/exe", ret->exe, sizeof(ret->exe) - 1);

	ret->exe[n > 0 ? n : 0] = '\0';
	if (gethostname(ret->host, sizeof(ret->host)) < 0)
		ret->host[0] = '\0';
	ret->host[sizeof(ret->host) - 1] = '\0';
	if (!getcwd(ret->cwd, sizeof(ret->cwd)))
		ret->cwd[0] = '\0';
	ret->command_length = read_file("/proc/self/cmdline", ret->command, sizeof(ret->command));
}

static const char *variable(const char *name)
{
	return secure_getenv(name);
}

int recorder_expand(const char *pattern, const char *host, const char *exe, const char *cwd,
		    char *ret, size_t size)
{
	const char *slash = strrchr(exe, '/');
	struct pattern_values values = {
		.pid = getpid(),
		.host = host,
		.program = slash ? slash + 1 : exe,
		.variable = variable,
	};
	size_t at = 0;

	if (pattern[0] != '/') {
		at = strlen(cwd);
		if (at + 1 >= size)
			return -ENAMETOOLONG;
		memcpy(ret, cwd, at);
		ret[at++] = '/';
	}
	return pattern_expand(pattern, &values, ret + at, size - at);
}

/* What lies there already: under a name that is the same for every process (no %p in it)
 * the ledger of a process that is gone is replaced, as a user who runs a program again
 * expects. Never one of a living process, or of this one before an exec. */
static bool may_replace(const char *path)
{
	struct ledger_header header;

	if (strstr(config.ledger, "%p") || !config.ledger[0])
		return false;
	if (read_file(path, (char *)&header, sizeof(header)) != sizeof(header) ||
	    memcmp(header.magic, LEDGER_MAGIC, sizeof(header.magic)) != 0)
		return false;
	return header.pid != getpid() && access("/proc/self", F_OK) == 0 &&
	       kill(header.pid, 0) < 0 && errno == ESRCH;
}

/* -ENXIO if a FIFO, a device or the like lies at PATH, or -EISDIR. */
static int check_type(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
		return 0;
	return S_ISDIR(st.st_mode) ? -EISDIR : -ENXIO;
}

/* PATH, or PATH.1, PATH.2 ... */
static int create_at(struct recorder *recorder, char *path, const struct ledger_header *header)
{
	size_t length = strlen(path);
	int r = check_type(path);

	if (r < 0)
		return r;
	r = ledger_writer_create(&recorder->writer, path, header);
	if (r == -EEXIST && may_replace(path) && unlink(path) == 0)
		r = ledger_writer_create(&recorder->writer, path, header);
	for (int n = 1; r == -EEXIST && n < 1000 && length + 5 < PATH_MAX; n++) {
		char *at = path + length;

		*at++ = '.';
		if (n >= 100)
			*at++ = (char)('0' + n / 100);
		if (n >= 10)
			*at++ = (char)('0' + n / 10 % 10);
		*at++ = (char)('0' + n % 10);
		*at = '\0';
		r = ledger_writer_create(&recorder->writer, path, header);
	}
	return r;
}

static int create_in_place(struct recorder *recorder, const struct ledger_header *header)
{
	char *path = recorder->place;
	int r = -ENOENT;
	size_t at;

	for (int i = 0; i < PLACE_CANDIDATES; i++) {
		if (place_candidate(i, variable, path, sizeof(recorder->place) - 64) < 0)
			continue;
		r = place_make(path);
		if (r < 0)
			continue;
		at = strlen(path);
		path[at++] = '/';
		place_name(header->pid, header->start_ticks, path + at,
			   sizeof(recorder->place) - at);
		r = create_at(recorder, path, header);
		if (r == 0)
			return 0;
	}
	return r;
}

static int create_ledger(struct recorder *recorder, const struct identity *identity,
			 const struct ledger_header *header)
{
	int r;

	if (config.ledger[0]) {
		/* Absolute, as the application may go to another directory. */
		r = recorder_expand(config.ledger, identity->host, identity->exe, identity->cwd,
				    recorder->place, sizeof(recorder->place));
		if (r == 0)
			r = create_at(recorder, recorder->place, header);
	} else {
		r = create_in_place(recorder, header);
	}
	if (r == 0)
		return 0;
	/* The application must not suffer, and what can still be seen is seen: an ordinary
	 * end reports from memory, only a kill loses it. */
	recorder->create_errno = -r;
	r = ledger_writer_create(&recorder->writer, NULL, header);
	if (r == 0)
		recorder->writer.header->trouble[LEDGER_TROUBLE_MEMORY_ONLY] = 1;
	return r;
}

static uint32_t add_text(struct recorder *recorder, const char *text)
{
	return ledger_add_string(&recorder->writer, text, strlen(text));
}

static int fill_recorder(struct recorder *recorder, const char *suppressions)
{
	struct identity identity;
	struct ledger_header header = { 0 };
	int r;

	read_identity(&identity);
	recorder->pid = getpid();
	recorder->stack_depth = (unsigned int)config.stack_depth;
	header.pid = recorder->pid;
	header.ppid = getppid();
	header.start_ticks = start_ticks();
	header.start_real_ns = clock_ns(CLOCK_REALTIME);
	header.start_mono_ns = clock_ns(CLOCK_MONOTONIC);
	header.stack_depth = recorder->stack_depth;
	header.first_call = 1;
	r = create_ledger(recorder, &identity, &header);
	if (r < 0)
		return r;
	recorder->header = recorder->writer.header;
	recorder->released.timeline.type = LEDGER_CHUNK_RELEASED;
	recorder->parts.type = LEDGER_CHUNK_PARTS;
	recorder->header->host = add_text(recorder, identity.host);
	recorder->header->exe = add_text(recorder, identity.exe);
	recorder->header->cwd = add_text(recorder, identity.cwd);
	recorder->header->command = ledger_add_string(&recorder->writer, identity.command,
						      identity.command_length);
	pools_record_make(recorder);
	rank_write(recorder);
	lsan_write(recorder, suppressions);
	hooks_forget_refs();
	modules_refresh(recorder);
	return 0;
}

/* How many stripes there may be where LEFT bytes of address space are left. */
static unsigned int stripes_for(uint64_t left)
{
	const uint64_t count = left / STRIPES_SHARE / sizeof(struct stripe);

	return count < STRIPES ? (unsigned int)count : STRIPES;
}

/* 0, or -errno: nothing is mapped then. */
static int map_recorder(struct recorder **ret, const char *suppressions)
{
	const uint64_t left = ledger_address_space_left();
	const unsigned int count = stripes_for(left);
	const size_t size = offsetof(struct recorder, stripes.stripe) +
			    count * sizeof(struct stripe);
	struct recorder *recorder;
	int r;

	if (left < ADDRESS_SPACE_MIN)
		return -ENOMEM;
	recorder = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (recorder == MAP_FAILED)
		return -errno;
	recorder->stripes.count = count;
	r = fill_recorder(recorder, suppressions);
	if (r < 0)
		munmap(recorder, size);
	else
		*ret = recorder;
	return r;
}

/* Called with recorder_page->making held. */
static struct recorder *make(int no_unwinder, const char *suppressions)
{
	struct roster_slot *slot = roster_enter(roster, getpid(), start_ticks(),
						program_invocation_short_name);
	struct recorder *recorder = NULL;
	int r = map_recorder(&recorder, suppressions);

	roster_note(slot, r < 0 ? -r : recorder->create_errno);
	if (r < 0) {
		recorder_page->failed_pid = getpid();
		__atomic_store_n(&recorder_page->impossible, -r, __ATOMIC_RELAXED);
		return NULL;
	}
	if (no_unwinder && recorder->stack_depth)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_NO_UNWINDER, 1);
	recorder->generation = ++generations;
	__atomic_store_n(&recorder_page->recorder, recorder, __ATOMIC_RELEASE);
	config_warn();
	signals_start();
	return recorder;
}

static void get_or_make(void *data)
{
	struct recorder **ret = data, *recorder;
	const char *suppressions;
	bool made = false;
	int no_unwinder;

	if (!recorder_page)
		recorder_start(); /* a GPU call from a constructor that ran before ours */
	/* Before the lock: this asks the loader, whose lock a constructor that makes its
	 * first GPU call in another thread would hold while it waits for ours. */
	no_unwinder = ledger_address_space_left() < ADDRESS_SPACE_MIN || unwinder_load() < 0;
	suppressions = lsan_ask();
	lock_take(&recorder_page->making);
	recorder = recorder_now();
	if (!recorder && !recorder_page->impossible) {
		recorder = make(no_unwinder, suppressions);
		made = recorder != NULL;
	}
	lock_give(&recorder_page->making);
	if (made && recorder_made)
		recorder_made(recorder);
	*ret = recorder;
}

int recorder_failure(void)
{
	/* A vfork child runs in its parent's memory. */
	return recorder_page && recorder_page->failed_pid == getpid() ? recorder_page->impossible
								      : 0;
}

bool recorder_is_on_roster(void)
{
	return roster != NULL;
}

bool recorder_was_left(uintptr_t then, uintptr_t now)
{
	bool then_on_it = aside_is_on(then), now_on_it = aside_is_on(now);
	stack_t other;

	if (then_on_it && !now_on_it)
		return true;
	if (now_on_it && !then_on_it)
		return false;
	if (sigaltstack(NULL, &other) < 0)
		return false;
	/* A signal handler on a stack of its own interrupts what runs on the other one. */
	then_on_it = !(other.ss_flags & SS_DISABLE) &&
		     then - (uintptr_t)other.ss_sp < other.ss_size;
	now_on_it = other.ss_flags & SS_ONSTACK;
	return then_on_it == now_on_it ? now >= then : then_on_it;
}

void recorder_stop(void)
{
	struct recorder *recorder;

	__atomic_store_n(&recorder_page->impossible, 1, __ATOMIC_RELEASE);
	recorder = __atomic_exchange_n(&recorder_page->recorder, NULL, __ATOMIC_ACQ_REL);
	if (!recorder)
		return;
	__atomic_store_n(&recorder_page->stopped, recorder, __ATOMIC_RELEASE);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_ABANDONED, 1);
	/* Who waits for a lock of the thread that left waits a tenth of a second from here on. */
	__atomic_store_n(&lock_patience_naps, STOPPED_NAPS, __ATOMIC_RELAXED);
}

void lock_lost(void)
{
	if (recorder_page)
		recorder_stop();
}

void recorder_missed(void)
{
	struct recorder *recorder = recorder_now() ? NULL : recorder_last();

	if (recorder)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_ABANDONED, 1);
}

/* This thread was inside gpuleak, and is not any more. */
static void recorder_left(void)
{
	recorder_stop();
	thread_self.busy = 0;
	thread_self.staying = 0;
	thread_self.standing = NULL;
}

struct recorder *recorder_enter_slowly(void)
{
	struct thread *self = &thread_self;
	struct recorder *recorder;

	if (self->busy && (recorder_was_left(self->busy, recorder_stack_pointer()) ||
			   !stack_is_nested()))
		recorder_left();
	if (self->busy) {
		recorder = recorder_now();
		if (recorder)
			ledger_trouble(recorder->header, LEDGER_TROUBLE_REENTERED, 1);
		return NULL;
	}
	self->busy = recorder_stack_pointer();
	self->errno_at = &errno;
	self->saved_errno = errno;
	recorder = recorder_now();
	if (!recorder && !(recorder_page && recorder_page->impossible))
		aside(get_or_make, &recorder);
	if (!recorder) {
		recorder_leave();
	} else if (self->generation != recorder->generation) {
		self->stripe = stripe_join(recorder);
		self->thread = (uint32_t)syscall(SYS_gettid);
		self->pool = NULL;
		self->pool_space = NULL;
		self->generation = recorder->generation;
	}
	return recorder;
}

void recorder_touch(void)
{
	if (!recorder_now() && recorder_enter())
		recorder_leave();
}

uint32_t recorder_write_text(struct recorder *recorder, _Atomic uint32_t *slot, const char *text)
{
	uint32_t ref = add_text(recorder, text);

	atomic_store_explicit(slot, ref, memory_order_relaxed);
	return ref;
}
