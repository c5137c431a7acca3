/* SPDX-License-Identifier: MIT
 *
 * Reads /proc. The kernel reuses a pid, but the pid and the start time together are unique.
 */
#include "report/load/process_alive.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "ledger/process_stat.h"

static bool on_this_host(const char *host)
{
	char here[HOST_NAME_MAX + 1] = "";

	return !host || (gethostname(here, sizeof(here) - 1) == 0 && strcmp(here, host) == 0);
}

bool process_alive(int pid, uint64_t start_ticks, const char *host)
{
	struct process_stat stat;

	if (pid <= 0 || !on_this_host(host) || process_stat_read(pid, &stat) < 0)
		return false;
	return stat.state != 'Z' && stat.state != 'X' && stat.start_ticks == start_ticks;
}
