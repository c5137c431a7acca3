/* SPDX-License-Identifier: MIT
 *
 * Starts and ends the sampler process, and reads its results from shared memory. Ignores entries
 * that the sampler was changing when it was killed.
 */
#include "tools/nvml/sampler.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "ledger/shared.h"
#include "report/model/model.h"
#include "report/util/abrupt_end.h"
#include "tools/launch/system.h"
#include "tools/nvml/sampling.h"

#define REAP_MS 50
#define PROCESS_MS 1000

/* Creates a child without an exit signal: it causes no SIGCHLD and wait() does not return it. So
 * code that waits for the program is not affected. */
static pid_t fork_unseen(void)
{
	return (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
}

static int start(struct sampler *sampler, struct sampling *sampling)
{
	pid_t parent = getpid();
	int links[2];
	void *shared;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, links) < 0)
		return -errno;
	shared = mmap(NULL, sizeof(*sampler->shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	sampling->shared = shared;
	sampling->link = links[1];
	sampling->parent = parent;
	sampler->pid = shared == MAP_FAILED ? -1 : fork_unseen();
	if (sampler->pid == 0)
		sampling_main(sampling);
	close(links[1]);
	if (sampler->pid < 0) {
		close(links[0]);
		if (shared != MAP_FAILED)
			munmap(shared, sizeof(*sampler->shared));
		*sampler = (struct sampler){ 0 };
		return -ENOMEM;
	}
	sampler->link = links[0];
	sampler->forever = sampling->directory != NULL;
	sampler->shared = shared;
	return 0;
}

int sampler_start(struct sampler *sampler, const char *directory)
{
	struct sampling sampling = { .directory = directory };

	return start(sampler, &sampling);
}

int sampler_start_once(struct sampler *sampler, const char *const *paths, size_t count)
{
	struct sampling sampling = { .paths = paths, .path_count = count };

	return start(sampler, &sampling);
}

uint64_t sampler_of_process(int pid)
{
	struct sampling sampling = { .process = pid };
	struct sampler sampler = { 0 };

	if (start(&sampler, &sampling) < 0)
		return 0;
	sampler_finish(&sampler, PROCESS_MS);
	return shared_load_acquire(sampler.shared->process_bytes);
}

/* Returns true if the sampler process ended within WAIT_MS. If its memory was short, this process
 * ends, too: its report would lack what the sampler has measured. */
static bool is_gone(const struct sampler *sampler, int wait_ms)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	int status = 0;

	for (; wait_ms >= 0; wait_ms--) {
		if (waitpid(sampler->pid, &status, __WCLONE | WNOHANG) != 0) {
			if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
				abrupt_end_no_memory();
			return true;
		}
		nanosleep(&moment, NULL);
	}
	return false;
}

void sampler_finish(struct sampler *sampler, int wait_ms)
{
	struct pollfd end = { .fd = sampler->link };

	if (sampler->pid <= 0)
		return;
	if (sampler->forever) {
		shutdown(sampler->link, SHUT_WR);
		if (!shared_load_acquire(sampler->shared->count))
			wait_ms = 0; /* the sampler found no device in use, so do not wait */
	}
	if (poll(&end, 1, wait_ms) <= 0 || !is_gone(sampler, REAP_MS)) {
		kill(sampler->pid, SIGKILL);
		is_gone(sampler, REAP_MS); /* a sampler that hangs in the driver does not end yet */
	}
	close(sampler->link);
	sampler->pid = 0;
}

static const char *why_none(const struct sampler_shared *shared)
{
	switch (shared_load(shared->nvml)) {
	case SAMPLER_BEGAN:
		return "NVML had not answered yet";
	case SAMPLER_ABSENT:
		return "libnvidia-ml.so.1 was not found";
	case SAMPLER_DUMB:
		return "NVML could not be initialised";
	case SAMPLER_NO_FIGURES:
		return "NVML has no memory figures for this device, for example because GPU and "
		       "CPU share one memory";
	default:
		return "NVML reported no figure for the process while it ran, or it ran too "
		       "briefly";
	}
}

void sampler_attach(const struct sampler *sampler, struct report_process *process)
{
	const struct sampler_shared *shared = sampler->shared;
	uint32_t count = shared ? shared_load_acquire(shared->count) : 0;

	if (shared)
		process->driver_memory_why = why_none(shared);
	if (!shared || shared_load_acquire(shared->changes) % 2)
		return;
	for (uint32_t i = 0; i < count && i < SAMPLER_ENTRIES; i++) {
		const struct sampler_entry *entry = &shared->entries[i];

		if (entry->pid != process->pid || entry->start_real_ns != process->start_real_ns)
			continue;
		if (sampler->forever)
			report_process_judge_costs(process, entry->ordinal, &entry->costs);
		report_process_set_driver_memory(process, entry->ordinal, &entry->series);
	}
}
