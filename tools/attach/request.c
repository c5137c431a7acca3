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

static const char *const result_texts[] = {
#define X(name, text) text,
	ATTACH_RESULTS(X)
#undef X
};

static bool is_done(int result, char error[REQUEST_ERROR_SIZE])
{
	const bool is_known = result >= 0 && result < ATTACH_RESULT_COUNT;

	if (result == ATTACH_DONE)
		return true;
	snprintf(error, REQUEST_ERROR_SIZE, "%s", is_known ? result_texts[result]
							  : "the library is of another version");
	return false;
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

static bool request_by_page(const struct target *target, const char *settings,
			    char error[REQUEST_ERROR_SIZE])
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	const long long until = clock_ms() + PAGE_MS;
	struct attach_page *page = map_page(target);
	uint32_t number, before;
	bool answered, done;

	if (!page) {
		snprintf(error, REQUEST_ERROR_SIZE, "its file %.300s cannot be used: %s",
			 target->page, errno ? strerror(errno) : "it is damaged");
		return false;
	}
	snprintf(page->settings, sizeof(page->settings), "%s", settings ? settings : "");
	before = atomic_load(&page->answered);
	number = (before & ~ATTACH_REQUEST_KIND) + ATTACH_REQUEST_KIND + 1 +
		 (settings ? ATTACH_REQUEST_ATTACH : ATTACH_REQUEST_DETACH);
	atomic_store(&page->request, number);
	while (atomic_load(&page->answered) != number && clock_ms() < until &&
	       process_runs(target->pid, 0))
		nanosleep(&pause, NULL);
	answered = atomic_load(&page->answered) == number;
	if (!answered) {
		atomic_compare_exchange_strong(&page->request, &number, before);
		snprintf(error, REQUEST_ERROR_SIZE, "it made no GPU call for %d seconds; it takes "
			 "a request at its next one", PAGE_MS / 1000);
	}
	done = answered && is_done((int)page->result, error);
	munmap(page, sizeof(*page));
	return done;
}

bool attach_request(const struct target *target, const char *library, const char *settings,
		    char error[REQUEST_ERROR_SIZE])
{
	const struct injection injection = {
		.pid = target->pid, .library = library, .text = settings,
		.function = settings ? "gpuleak_attach" : "gpuleak_detach",
	};
	struct injected injected;

	errno = 0;
	if (target->page[0])
		return request_by_page(target, settings, error);
	if (inject(&injection, &injected))
		return is_done(injected.result, error);
	snprintf(error, REQUEST_ERROR_SIZE, "%s", injected.error);
	return false;
}
