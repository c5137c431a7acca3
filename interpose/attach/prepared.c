/* SPDX-License-Identifier: MIT
 *
 * Makes the page in which `gpuleak attach` requests an attachment without ptrace, and executes
 * requests. The page is mapped over a part of the library's own data, so that a stub reads the
 * request with one instruction. Must not start a thread while nothing is recorded.
 */
#include "interpose/attach/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/base/config.h"
#include "interpose/dispatch/hooks.h"
#include "interpose/dispatch/variants.h"
#include "interpose/process/start.h"
#include "ledger/attach.h"
#include "ledger/directory.h"
#include "ledger/nocancel.h"
#include "ledger/process_stat.h"
#include "ledger/shared.h"

/* The largest page of the architecture. More would make the start of every process longer. */
#ifdef __x86_64__
#define PAGE_ALIGNED 4096
#else
#define PAGE_ALIGNED 65536
#endif

int gpuleak_attach(const char *settings);

/* ---- stubs: stubs_ARCH.S ---- */

union stub_page {
	struct attach_page page;
	char bytes[(sizeof(struct attach_page) + PAGE_ALIGNED - 1) / PAGE_ALIGNED * PAGE_ALIGNED];
};
extern union stub_page stub_page __attribute__((visibility("hidden")));
extern void *stub_targets[HOOK_COUNT] __attribute__((visibility("hidden")));
extern const char stub_entries[] __attribute__((visibility("hidden")));
void stub_request(void) __attribute__((visibility("hidden")));

#define STUB_BYTES 32
_Alignas(PAGE_ALIGNED) union stub_page stub_page;
void *stub_targets[HOOK_COUNT];
_Static_assert(offsetof(struct attach_page, request) == 24, "stubs_ARCH.S has the offset");

/* Lookup functions have their wrapper, so that their results are stubs. OpenCL may have several
 * drivers: functions that allocate have wrappers in all but the first, which record nothing. */
static void *when_prepared(struct hook *hook, void *real)
{
	void *none = NULL, *wrapper = NULL;

	atomic_compare_exchange_strong(&hook->driver, &none, real);
	if (hook_has(hook, TRAIT_LOOKS_UP))
		return hook->wrapper;
	if (!hook->kind[0] || hook->object)
		return real;
	if (atomic_load(&hook->driver) != real) {
		if (slots_has(hook))
			wrapper = slots_wrapper(hook, real, NULL);
		return wrapper ? wrapper : real;
	}
	shared_publish(stub_targets[hook - hooks], real);
	return (void *)(uintptr_t)(stub_entries + STUB_BYTES * (hook - hooks));
}

/* ---- the page ---- */

static char path[512];
static int page_pid;

static const char *variable(const char *name)
{
	return secure_getenv(name);
}

static int create_at_candidate(int i, uint64_t ticks)
{
	int fd, tries = 2;
	size_t at;

	if (place_candidate(i, variable, path, sizeof(path) - 80) < 0 || place_make(path) < 0)
		return -1;
	at = strlen(path);
	at += (size_t)snprintf(path + at, sizeof(path) - at, "/" ATTACH_PAGE_NAME, page_pid,
			       (unsigned long long)ticks);
	/* the program before an exec may have left one */
	while ((fd = nocancel_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				   0600)) < 0 &&
	       errno == EEXIST && tries-- && unlink(path) == 0)
		;
	return fd;
}

static void fill_page(uint64_t ticks)
{
	struct attach_page *page = &stub_page.page;
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) == 0)
		page->pid_namespace = st.st_ino;
	page->pid = page_pid;
	page->start_ticks = ticks;
	atomic_thread_fence(memory_order_release);
	memcpy(page->magic, ATTACH_PAGE_MAGIC, sizeof(page->magic));
	recording_request = &page->request;
}

static void make_page(void)
{
	struct process_stat stat;
	int fd = -1;

	page_pid = getpid();
	if (process_stat_read(0, &stat) < 0)
		return;
	for (int i = 0; fd < 0 && i < PLACE_CANDIDATES; i++)
		fd = create_at_candidate(i, stat.start_ticks);
	if (fd < 0)
		return;
	if (nocancel_fallocate(fd, 0, 0, sizeof(stub_page)) == 0 &&
	    mmap(&stub_page, sizeof(stub_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 0) == &stub_page)
		fill_page(stat.start_ticks);
	nocancel_close(fd);
}

/* A forked child has its parent's page. */
static void leave_page_of_parent(void)
{
	mmap(&stub_page, sizeof(stub_page), PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	page_pid = getpid();
}

__attribute__((destructor)) static void remove_page(void)
{
	if (path[0] && page_pid == getpid())
		unlink(path);
}

/* ---- requests ---- */

static void serve(void)
{
	struct attach_page *page = &stub_page.page;
	uint32_t request;

	if (page_pid != getpid()) {
		leave_page_of_parent();
		return;
	}
	request = atomic_exchange(&page->request, 0);
	if (!request)
		return;
	page->settings[ATTACH_SETTINGS_MAX - 1] = '\0';
	page->result = (uint32_t)gpuleak_attach(page->settings);
	atomic_store(&page->answered, request);
}

void stub_request(void)
{
	int saved = errno;

	if (!thread_self.busy)
		serve();
	errno = saved;
}

/* A GPU call has come while recording is off. The thread is inside gpuleak's code. */
static void call_while_off(void)
{
	struct recorder_paused paused;

	if (!recording_is_prepared)
		return;
	recorder_pause(&paused);
	if (page_pid != getpid() && !recording_was_requested) {
		make_page();
		attach_turn_off_words();
	} else if (atomic_load(recording_request)) {
		serve();
	}
	recorder_resume(&paused);
}

__attribute__((constructor(103))) static void prepared_start(void)
{
	hook_prepared = when_prepared;
	process_stays_off = call_while_off;
}
