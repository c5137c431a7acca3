/* SPDX-License-Identifier: MIT
 *
 * Sends a request to the library in another process: by a call that it injects, or in the page of a
 * prepared process. Withdraws a request that the process does not answer in time.
 */
#include "tools/attach/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ledger/attach.h"
#include "ledger/format.h"
#include "tools/attach/inject.h"
#include "tools/launch/process.h"
#include "tools/ledgers/ledgers.h"

#define PAGE_MS 10000
#define TAKEN_MS 60000 /* a process with much memory takes seconds */

static bool is_done(int result, char error[REQUEST_ERROR_SIZE])
{
	static const char *const texts[] = {
#define X(name, text) text,
		ATTACH_RESULTS(X)
#undef X
	};
	const bool is_known = result >= 0 && result < ATTACH_RESULT_COUNT;

	snprintf(error, REQUEST_ERROR_SIZE, "%s",
		 is_known ? texts[result] : "the library is of another version");
	return result == ATTACH_DONE;
}

bool attach_is_recorded(int pid, char *why, size_t size)
{
	struct ledger_list list = { 0 };
	bool found = false;

	ledgers_add_pid(&list, pid);
	for (size_t i = 0; i < list.count && !list.is_run; i++)
		found |= list.files[i].ended == LEDGER_RUNNING &&
			 process_runs(pid, list.files[i].start_ticks);
	if (found)
		snprintf(why, size, "is recorded already; `gpuleak top %d` shows it, and `gpuleak "
			 "attach --detach %d` ends an attachment", pid, pid);
	else if (list.is_run)
		snprintf(why, size, "is `gpuleak run`, which records its processes");
	found |= list.is_run;
	ledgers_finish(&list);
	return found;
}

static struct attach_page *map_page(const struct target *target)
{
	int fd = open(target->page, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct attach_page *page = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(*page))
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return NULL;
	if (memcmp(page->magic, ATTACH_PAGE_MAGIC, sizeof(page->magic)) == 0 &&
	    page->pid == target->inner_pid)
		return page;
	munmap(page, sizeof(*page));
	return NULL;
}

/* Waits until the process has answered request NUMBER. Returns true, or false with the reason in
 * ERROR. */
static bool wait_for_answer(const struct target *target, struct attach_page *page, uint32_t number,
			    char error[REQUEST_ERROR_SIZE])
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	const long long began = clock_ms();

	while (atomic_load(&page->answered) != number) {
		const long long waited = clock_ms() - began;
		uint32_t expected = number;

		if (!process_runs(target->pid, 0))
			strcpy(error, "the process ended");
		else if (waited > PAGE_MS &&
			 atomic_compare_exchange_strong(&page->request, &expected, 0))
			snprintf(error, REQUEST_ERROR_SIZE, "it made no GPU call for %d seconds; "
				 "it takes a request at its next one", PAGE_MS / 1000);
		else if (waited > TAKEN_MS)
			strcpy(error, "the thread that took the request has not answered in a "
				      "minute; nothing is recorded");
		if (error[0])
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static bool request_by_page(const struct target *target, const char *settings,
			    char error[REQUEST_ERROR_SIZE])
{
	struct attach_page *page = map_page(target);
	uint32_t number;
	bool done;

	if (!page) {
		snprintf(error, REQUEST_ERROR_SIZE, "its file %.300s cannot be used: %s",
			 target->page, errno ? strerror(errno) : "it is damaged");
		return false;
	}
	snprintf(page->settings, sizeof(page->settings), "%s", settings);
	number = atomic_load(&page->answered) + 1;
	number += number == 0;
	atomic_store(&page->request, number);
	done = wait_for_answer(target, page, number, error) && is_done((int)page->result, error);
	munmap(page, sizeof(*page));
	return done;
}

/* Returns a descriptor that holds the process for this command and the one that traces for it. Two
 * commands at once would write to the same memory. Returns -1 if another command holds it. */
static int hold_process(int pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	close(fd);
	return -1;
}

bool attach_request(const struct target *target, const char *library, const char *settings,
		    char error[REQUEST_ERROR_SIZE])
{
	const struct injection injection = {
		.pid = target->pid, .library = library, .text = settings,
		.function = "gpuleak_attach",
	};
	struct injected injected;

	AT_END(close_descriptor) int held = hold_process(target->pid);
	error[0] = '\0';
	if (held < 0) {
		strcpy(error, "it ended, or another gpuleak is about to attach to it; try again");
		return false;
	}
	errno = 0;
	if (target->page[0])
		return request_by_page(target, settings, error);
	if (inject(&injection, &injected))
		return is_done(injected.result, error);
	strcpy(error, injected.error);
	return false;
}
